"""Matrix equations of control theory: Sylvester, Lyapunov and Riccati.

A change of the coefficients changes the solution by a linear equation.  The solution of a Riccati
equation is taken for that of self-adjoint `q` and `r`, which change as such: their cotangents are
self-adjoint.
"""

from __future__ import annotations

from tawny.array import Array, ArrayLike, wrap
from tawny.errors import value_error
from tawny.node import make
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import eye
from tawny.ops.linalg import kron, matmul
from tawny.ops.movement import matrix_transpose, reshape
from tawny.ops.systems import Lapack, adjoint, check_square, inv, lapack_operands, solve
from tawny.shape import Shape

Tangents = tuple[Array | None, ...]

_SMALL = 10
"""Discrete equations of fewer rows are solved as one linear system."""


def _check_matrices(op: str, shapes: tuple[Shape, ...], expected: tuple[Shape, ...]) -> None:
    for position, (shape, wanted) in enumerate(zip(shapes, expected, strict=True)):
        if shape != wanted:
            raise value_error(
                op,
                f"operand {position} has shape {shape}; it must be {wanted} to match the others "
                f"(shapes {' and '.join(map(str, shapes))})",
            )


class Sylvester(Lapack, name="sylvester", arity=3, oracle="scipy.linalg.solve_sylvester"):
    """The `x` of `a @ x + x @ b = q`."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        a, b, _ = shapes
        check_square("sylvester", a)
        check_square("sylvester", b, 1)
        m, n = a[0], b[0]
        _check_matrices("sylvester", shapes, ((m, m), (n, n), (m, n)))
        return (m, n)

    def pullback(
        self, cotangent: Array, result: Array, a: Array, b: Array, q: Array
    ) -> tuple[Array, Array, Array]:
        """Where no eigenvalue of `a` is the negative of one of `b`."""
        to_right = sylvester(matrix_transpose(a), matrix_transpose(b), cotangent)
        turned, minus = matrix_transpose(result), e.negative(to_right)
        return matmul(minus, turned), matmul(turned, minus), to_right

    def pushforward(self, tangents: Tangents, result: Array, a: Array, b: Array, q: Array) -> Array:
        da, db, change = tangents
        if da is not None:
            change = _subtract(change, matmul(da, result))
        if db is not None:
            change = _subtract(change, matmul(result, db))
        assert change is not None
        return sylvester(a, b, change)


class Riccati(Lapack):
    """An algebraic Riccati equation in the matrices `a`, `b`, `q` and `r`."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        name = self.facts().name
        a, b, _, _ = shapes
        check_square(name, a)
        if len(b) != 2:
            raise value_error(name, f"operand 1 has shape {b}; it must be a matrix")
        n, m = a[0], b[1]
        _check_matrices(name, shapes, ((n, n), (n, m), (n, n), (m, m)))
        return (n, n)


class Care(Riccati, name="care", arity=4, oracle="scipy.linalg.solve_continuous_are"):
    """The stabilising `x` of `aᴴ x + x a - x b r⁻¹ bᴴ x + q = 0`."""

    def pushforward(
        self, tangents: Tangents, result: Array, a: Array, b: Array, q: Array, r: Array
    ) -> Array:
        """Where the equation has a stabilising solution."""
        gain = solve(r, matmul(adjoint(b), result))
        closed = e.subtract(a, matmul(b, gain))
        change = _half_change(tangents, gain, result)
        return sylvester(adjoint(closed), closed, e.negative(e.add(change, adjoint(change))))


class Dare(Riccati, name="dare", arity=4, oracle="scipy.linalg.solve_discrete_are"):
    """The stabilising `x` of `aᴴ x a - x - aᴴ x b (r + bᴴ x b)⁻¹ bᴴ x a + q = 0`."""

    def pushforward(
        self, tangents: Tangents, result: Array, a: Array, b: Array, q: Array, r: Array
    ) -> Array:
        """Where the equation has a stabilising solution."""
        back = matmul(adjoint(b), result)
        gain = solve(e.add(r, matmul(back, b)), matmul(back, a))
        closed = e.subtract(a, matmul(b, gain))
        change = _half_change(tangents, gain, matmul(adjoint(closed), result))
        return discrete_lyapunov(adjoint(closed), e.add(change, adjoint(change)))


def _half_change(tangents: Tangents, gain: Array, weight: Array) -> Array:
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


@public(module="linalg")
def sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike, /) -> Array:
    """The `x` of `a @ x + x @ b = q`."""
    return wrap(make(Sylvester(), lapack_operands("sylvester", a, b, q)))


@public(module="linalg")
def lyapunov(a: ArrayLike, q: ArrayLike, /) -> Array:
    """The `x` of `a @ x + x @ aᴴ = q`."""
    matrix, right = map(wrap, lapack_operands("lyapunov", a, q))
    check_square("lyapunov", matrix.shape)
    n = matrix.shape[0]
    _check_matrices("lyapunov", (matrix.shape, right.shape), ((n, n), (n, n)))
    return sylvester(matrix, adjoint(matrix), right)


@public(module="linalg")
def discrete_lyapunov(a: ArrayLike, q: ArrayLike, /) -> Array:
    """The `x` of `a @ x @ aᴴ - x + q = 0`."""
    matrix, right = map(wrap, lapack_operands("discrete_lyapunov", a, q))
    check_square("discrete_lyapunov", matrix.shape)
    n = matrix.shape[0]
    _check_matrices("discrete_lyapunov", (matrix.shape, right.shape), ((n, n), (n, n)))
    if n < _SMALL:
        other = e.conj(matrix) if matrix.dtype.kind == "c" else matrix
        system = e.subtract(eye(n * n, dtype=matrix.dtype), kron(matrix, other))
        return reshape(solve(system, reshape(right, (n * n,))), (n, n))
    # With b = (aᴴ - 1)(aᴴ + 1)⁻¹ the equation is bᴴ x + x b = -2 (a + 1)⁻¹ q (aᴴ + 1)⁻¹.
    one = eye(n, dtype=matrix.dtype)
    star = adjoint(matrix)
    scale = inv(e.add(star, one))
    b = matmul(e.subtract(star, one), scale)
    c = matmul(matmul(inv(e.add(matrix, one)), right), scale)
    return sylvester(adjoint(b), b, e.multiply(c, -2))


@public(module="linalg")
def care(a: ArrayLike, b: ArrayLike, q: ArrayLike, r: ArrayLike, /) -> Array:
    """The stabilising `x` of `aᴴ x + x a - x b r⁻¹ bᴴ x + q = 0` for self-adjoint `q` and `r`."""
    return wrap(make(Care(), lapack_operands("care", a, b, q, r)))


@public(module="linalg")
def dare(a: ArrayLike, b: ArrayLike, q: ArrayLike, r: ArrayLike, /) -> Array:
    """The stabilising `x` of `aᴴ x a - x - aᴴ x b (r + bᴴ x b)⁻¹ bᴴ x a + q = 0`."""
    return wrap(make(Dare(), lapack_operands("dare", a, b, q, r)))
