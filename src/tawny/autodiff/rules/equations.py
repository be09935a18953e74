"""Matrix equations: a change of the coefficients changes the solution by a linear equation.

The solution of a Riccati equation is taken for that of self-adjoint `q` and `r`, which change as
such: their cotangents are self-adjoint.
"""

from __future__ import annotations

from tawny.array import Array
from tawny.autodiff.rules.registry import forward, reverse
from tawny.ops import elementwise as e
from tawny.ops.equations import Care, Dare, Sylvester, discrete_lyapunov, sylvester
from tawny.ops.factorisation import adjoint, solve
from tawny.ops.linalg import matmul
from tawny.ops.movement import matrix_transpose

Tangents = tuple[Array | None, ...]


@reverse(Sylvester)
def _(
    op: Sylvester, cotangent: Array, y: Array, a: Array, b: Array, q: Array
) -> tuple[Array, Array, Array]:
    """Where no eigenvalue of `a` is the negative of one of `b`."""
    to_right = sylvester(matrix_transpose(a), matrix_transpose(b), cotangent)
    turned, minus = matrix_transpose(y), e.negative(to_right)
    return matmul(minus, turned), matmul(turned, minus), to_right


@forward(Sylvester)
def _(op: Sylvester, tangents: Tangents, y: Array, a: Array, b: Array, q: Array) -> Array:
    da, db, change = tangents
    if da is not None:
        change = _subtract(change, matmul(da, y))
    if db is not None:
        change = _subtract(change, matmul(y, db))
    assert change is not None
    return sylvester(a, b, change)


@forward(Care)
def _(op: Care, tangents: Tangents, y: Array, a: Array, b: Array, q: Array, r: Array) -> Array:
    """Where the equation has a stabilising solution."""
    gain = solve(r, matmul(adjoint(b), y))
    closed = e.subtract(a, matmul(b, gain))
    change = _change(tangents, gain, y)
    return sylvester(adjoint(closed), closed, e.negative(e.add(change, adjoint(change))))


@forward(Dare)
def _(op: Dare, tangents: Tangents, y: Array, a: Array, b: Array, q: Array, r: Array) -> Array:
    """Where the equation has a stabilising solution."""
    back = matmul(adjoint(b), y)
    gain = solve(e.add(r, matmul(back, b)), matmul(back, a))
    closed = e.subtract(a, matmul(b, gain))
    change = _change(tangents, gain, matmul(adjoint(closed), y))
    return discrete_lyapunov(adjoint(closed), e.add(change, adjoint(change)))


def _change(tangents: Tangents, gain: Array, weight: Array) -> Array:
    """Half of what the coefficients' changes add to an equation; its adjoint is the other half."""
    da, db, dq, dr = tangents
    terms: list[Array] = []
    moved = da if db is None else _subtract(da, matmul(db, gain))
    if moved is not None:
        terms.append(matmul(weight, moved))
    halves = dq
    if dr is not None:
        spent = matmul(adjoint(gain), matmul(dr, gain))
        halves = spent if dq is None else e.add(dq, spent)
    if halves is not None:
        terms.append(e.multiply(halves, 0.5))
    return terms[0] if len(terms) == 1 else e.add(*terms)


def _subtract(x: Array | None, y: Array) -> Array:
    """`x - y`, where None is zero."""
    return e.negative(y) if x is None else e.subtract(x, y)
