"""Factorisations and linear systems, differentiated through the equations that define them.

A rule says under which conditions the derivative exists.  Elsewhere it is infinite or NaN, or the
system to be solved is singular, which is an error.  Matrices that are read as self-adjoint from
one triangle are taken to change as such: both triangles share the cotangent, which is self-adjoint.
"""

from __future__ import annotations

from tawny import dtype as dt
from tawny.array import Array, wrap
from tawny.autodiff.rules.registry import forward, reverse
from tawny.node import make, scalar
from tawny.numpy.matrix_functions import diagonal
from tawny.operator import emit, emit_parts
from tawny.ops import elementwise as e
from tawny.ops.creation import eye
from tawny.ops.diagonal import tril, triu
from tawny.ops.factorisation import (
    QR,
    SVD,
    Cholesky,
    Det,
    Eig,
    Eigh,
    Eigvals,
    Eigvalsh,
    Inv,
    Pinv,
    Slogdet,
    Solve,
    SolveTriangular,
    Svdvals,
    adjoint,
    inv,
    solve,
)
from tawny.ops.indexing import Pad
from tawny.ops.joining import concat
from tawny.ops.linalg import matmul
from tawny.ops.movement import expand_dims, matrix_transpose, squeeze
from tawny.ops.reduction import argmax
from tawny.ops.reduction import sum as sum_over
from tawny.ops.selection import take_along_axis

Tangents = tuple[Array | None, ...]
Pair = tuple[Array, Array]


# ------------------------------------------------------ inverses and determinants


@forward(Inv)
def _(op: Inv, tangents: Tangents, y: Array, x: Array) -> Array:
    return e.negative(matmul(matmul(y, _only(tangents)), y))


@forward(Pinv)
def _(op: Pinv, tangents: Tangents, y: Array, x: Array, rtol: Array) -> Array | None:
    """For changes that keep the rank, as all small ones do where it is full."""
    tangent = tangents[0]
    if tangent is None:
        return None
    back, star = adjoint(tangent), adjoint(y)
    columns = e.subtract(back, matmul(matmul(back, x), y))
    rows = e.subtract(back, matmul(y, matmul(x, back)))
    left = e.subtract(matmul(star, columns), matmul(tangent, y))
    return e.add(matmul(y, left), matmul(matmul(rows, star), y))


@forward(Det)
def _(op: Det, tangents: Tangents, y: Array, x: Array) -> Array:
    """For regular matrices."""
    return e.multiply(y, _relative_change(x, _only(tangents)))


@forward(Slogdet)
def _(op: Slogdet, tangents: Tangents, y: Pair, x: Array) -> Tangents:
    """For regular matrices.  The sign of a complex determinant turns; that of a real one stays."""
    change = _relative_change(x, _only(tangents))
    if not _is_complex(x):
        return None, change
    return e.multiply(y[0], e.multiply(e.imag(change), 1j)), e.real(change)


def _relative_change(x: Array, tangent: Array) -> Array:
    """The change of determinants relative to their values: the trace of `inv(x) @ tangent`."""
    return sum_over(e.multiply(matrix_transpose(inv(x)), tangent), axis=(-2, -1))


# ------------------------------------------------------------------------ systems


@reverse(Solve)
def _(op: Solve, cotangent: Array, y: Array, a: Array, b: Array) -> Pair:
    """For regular matrices."""
    to_right = solve(matrix_transpose(a), _columns(cotangent, b))
    to_matrix = e.negative(matmul(to_right, matrix_transpose(_columns(y, b))))
    return to_matrix, _as_given(to_right, b)


@forward(Solve)
def _(op: Solve, tangents: Tangents, y: Array, a: Array, b: Array) -> Array:
    da, db = tangents
    moved = None if da is None else matmul(da, _columns(y, b))
    return _as_given(solve(a, _difference(db, moved, b)), b)


@reverse(SolveTriangular)
def _(op: SolveTriangular, cotangent: Array, y: Array, a: Array, b: Array) -> Pair:
    """For triangles without a zero on the diagonal; the cotangent is zero outside the triangle."""
    back = SolveTriangular(op.lower, 0 if op.transposed else 1, op.unit)
    matrix = e.conj(a) if op.transposed == 2 and _is_complex(a) else a
    to_right = emit(back, matrix, _columns(cotangent, b))
    found = _columns(y, b)
    if not op.transposed:
        to_matrix = matmul(to_right, matrix_transpose(found))
    else:
        to_matrix = matmul(found, matrix_transpose(to_right))
        if op.transposed == 2 and _is_complex(a):
            to_matrix = e.conj(to_matrix)
    return _triangle(op, e.negative(to_matrix)), _as_given(to_right, b)


@forward(SolveTriangular)
def _(op: SolveTriangular, tangents: Tangents, y: Array, a: Array, b: Array) -> Array:
    da, db = tangents
    moved = None
    if da is not None:
        change = _triangle(op, da)
        if op.transposed:
            change = adjoint(change) if op.transposed == 2 else matrix_transpose(change)
        moved = matmul(change, _columns(y, b))
    return _as_given(emit(op, a, _difference(db, moved, b)), b)


def _triangle(op: SolveTriangular, x: Array) -> Array:
    """The elements of matrices that the system depends on."""
    return tril(x, k=-int(op.unit)) if op.lower else triu(x, k=int(op.unit))


def _columns(x: Array, right: Array) -> Array:
    """`x` as columns, where the right side of the system is one vector."""
    return expand_dims(x, axis=-1) if right.ndim == 1 else x


def _as_given(x: Array, right: Array) -> Array:
    """Columns as vectors, where the right side of the system is one."""
    return squeeze(x, axis=-1) if right.ndim == 1 else x


def _difference(change: Array | None, moved: Array | None, right: Array) -> Array:
    """The change of a system's right side less what the matrix moved, as columns."""
    if moved is None:
        assert change is not None
        return _columns(change, right)
    return e.negative(moved) if change is None else e.subtract(_columns(change, right), moved)


# --------------------------------------------------------------------- triangles


@forward(Cholesky)
def _(op: Cholesky, tangents: Tangents, y: Array, x: Array) -> Array:
    """For positive definite matrices."""
    lower = adjoint(y) if op.upper else y
    solver = SolveTriangular(lower=True, transposed=0, unit=False)
    half = emit(solver, lower, _self_adjoint(_only(tangents)))
    inside = emit(solver, lower, adjoint(half))
    share = e.subtract(1.0, e.multiply(_identity(x), 0.5))
    change = matmul(lower, tril(e.multiply(inside, share)))
    return adjoint(change) if op.upper else change


@forward(QR)
def _(op: QR, tangents: Tangents, y: Pair, x: Array) -> Pair:
    """For matrices whose first `min(m, n)` columns are independent.

    If `complete`, the columns of `Q` beyond those of `R` may be any that complete a basis.  What
    depends on the choice has no derivative; the rule takes them not to turn among themselves.
    """
    q, r = y
    tangent = _only(tangents)
    rank, width = min(x.shape[-2:]), q.shape[-1]
    solver = SolveTriangular(lower=False, transposed=1, unit=False)
    triangle = r if r.shape[-2:] == (rank, rank) else r[..., :rank, :rank]
    leading = matrix_transpose(_leading(tangent, rank))
    moved = matrix_transpose(emit(solver, triangle, leading))
    star = adjoint(q)
    inside = matmul(star, moved)
    turn = _skew(_pad_columns(tril(inside, k=-1), width))
    if _is_complex(x):
        turn = e.add(turn, _pad_columns(_phases(inside), width))
    dq = matmul(q, turn)
    if width < x.shape[-2]:
        dq = e.add(dq, e.subtract(moved, matmul(q, inside)))
    return dq, triu(e.subtract(matmul(star, tangent), matmul(turn, r)))


def _phases(x: Array) -> Array:
    """The imaginary part of the diagonal of matrices, as the imaginary diagonal of others."""
    rows, columns = x.shape[-2:]
    diagonal = eye(rows, columns, dtype=dt.real_dtype(x.dtype))
    return e.multiply(e.multiply(e.imag(x), diagonal), 1j)


# ------------------------------------------------------------ eigenvalues, self-adjoint


@forward(Eigh)
def _(op: Eigh, tangents: Tangents, y: Pair, x: Array) -> Pair:
    """Eigenvectors have a derivative where eigenvalues are distinct.

    A complex eigenvector may be multiplied by any number of size 1.  What depends on the choice
    has no derivative; the rule takes the change to be orthogonal to the vector.
    """
    values, vectors = y
    moved = matmul(_self_adjoint(_only(tangents)), vectors)
    turn = _off_diagonal(matmul(adjoint(vectors), moved), _gaps(values))
    return _column_products(vectors, moved), matmul(vectors, turn)


@forward(Eigvalsh)
def _(op: Eigvalsh, tangents: Tangents, y: Array, x: Array) -> Array:
    """For distinct eigenvalues; also for those that are not, if they are treated alike."""
    _, vectors = emit_parts(Eigh(op.upper), x)
    return _column_products(vectors, matmul(_self_adjoint(_only(tangents)), vectors))


def _column_products(x: Array, y: Array) -> Array:
    """The real part of the inner product of each column of `x` with that of `y`."""
    return _real(sum_over(e.multiply(_conj(x), y), axis=-2))


# ----------------------------------------------------------------- eigenvalues, general


@forward(Eig)
def _(op: Eig, tangents: Tangents, y: Pair, x: Array) -> Pair:
    """For distinct eigenvalues.

    An eigenvector has length 1, and its first component of greatest size is real: so LAPACK has
    it.  Where several are of the greatest size, the vector has no derivative.
    """
    values, vectors = y
    inside = solve(vectors, matmul(_only(tangents), vectors))
    moved = matmul(vectors, _off_diagonal(inside, _gaps(values)))
    longer = _column_products(vectors, moved)
    place = argmax(e.abs(vectors), axis=-2, keepdims=True)
    top, change = (take_along_axis(v, place, axis=-2) for v in (vectors, moved))
    turned = e.divide(e.imag(change), e.real(top))
    excess = e.add(expand_dims(longer, axis=-2), e.multiply(turned, 1j))
    return diagonal(inside), e.subtract(moved, e.multiply(vectors, excess))


@forward(Eigvals)
def _(op: Eigvals, tangents: Tangents, y: Array, x: Array) -> Array:
    """For distinct eigenvalues; also for those that are not, if they are treated alike.

    There must be as many independent eigenvectors as rows.
    """
    _, vectors = emit_parts(Eig(), x)
    return diagonal(solve(vectors, matmul(_only(tangents), vectors)))


# ----------------------------------------------------------------------- singular values


@forward(SVD)
def _(op: SVD, tangents: Tangents, y: tuple[Array, Array, Array], x: Array) -> Tangents:
    """Singular vectors have a derivative where singular values are distinct and not zero.

    A pair of complex singular vectors may be multiplied by any number of size 1, and if `full`,
    the vectors beyond the singular values may be any that complete a basis.  What depends on the
    choice has no derivative; the rule takes `U` to turn and not `Vh`, and the vectors beyond not
    to turn among themselves.
    """
    left, values, right = y[0], y[1], adjoint(y[2])
    tangent, count = _only(tangents), values.shape[-1]
    u, v = _leading(left, count), _leading(right, count)
    moved = matmul(tangent, v)
    inside = matmul(adjoint(left), moved)
    core = inside if u is left else inside[..., :count, :]
    back = matmul(adjoint(tangent), u)
    inside_back = adjoint(core) if v is right else matmul(y[2], back)
    gaps = _gaps(e.square(values))
    by_column = e.multiply(core, expand_dims(values, axis=-2))
    by_row = e.multiply(core, expand_dims(values, axis=-1))
    turn = _off_diagonal(e.add(by_column, adjoint(by_column)), gaps)
    if _is_complex(x):
        turn = e.add(turn, _phases(e.divide(core, expand_dims(values, axis=-2))))
    turn_back = _off_diagonal(e.add(by_row, adjoint(by_row)), gaps)
    return (
        _singular_vectors(left, moved, inside, turn, values),
        _column_products(u, moved),
        adjoint(_singular_vectors(right, back, inside_back, turn_back, values)),
    )


def _singular_vectors(
    vectors: Array, moved: Array, inside: Array, turn: Array, values: Array
) -> Array:
    """The change of singular vectors that `turn` among themselves and are `moved` by the others.

    `inside` is the part of `moved` that lies in the space of `vectors`.
    """
    rows, width, count = *vectors.shape[-2:], values.shape[-1]
    scale = expand_dims(values, axis=-2)
    if width > count:
        beyond = e.divide(inside[..., count:, :], scale)
        whole = concat([e.multiply(turn, 0.5), beyond], axis=-2)
        return matmul(vectors, _skew(_pad_columns(whole, width)))
    change = matmul(vectors, turn)
    if width < rows:
        change = e.add(change, e.divide(e.subtract(moved, matmul(vectors, inside)), scale))
    return change


@forward(Svdvals)
def _(op: Svdvals, tangents: Tangents, y: Array, x: Array) -> Array:
    """For singular values that are distinct, or treated alike, and not zero."""
    left, _, right = emit_parts(SVD(full=False), x)
    return _column_products(left, matmul(_only(tangents), adjoint(right)))


# -------------------------------------------------------------------------------- helpers


def _only(tangents: Tangents) -> Array:
    (tangent,) = tangents
    assert tangent is not None
    return tangent


def _is_complex(x: Array) -> bool:
    return x.dtype.kind == "c"


def _real(x: Array) -> Array:
    return e.real(x) if _is_complex(x) else x


def _conj(x: Array) -> Array:
    return e.conj(x) if _is_complex(x) else x


def _self_adjoint(x: Array) -> Array:
    """The part of square matrices that is its own adjoint."""
    return e.multiply(e.add(x, adjoint(x)), 0.5)


def _skew(x: Array) -> Array:
    return e.subtract(x, adjoint(x))


def _identity(x: Array) -> Array:
    """The identity of the size of square matrices, real."""
    return eye(x.shape[-1], dtype=dt.real_dtype(x.dtype))


def _leading(x: Array, count: int) -> Array:
    """The first columns."""
    return x if x.shape[-1] == count else x[..., :count]


def _gaps(values: Array) -> Array:
    """How much the value of a column exceeds that of a row."""
    return e.subtract(expand_dims(values, axis=-2), expand_dims(values, axis=-1))


def _off_diagonal(x: Array, gaps: Array) -> Array:
    """`x / gaps` outside the diagonal, and 0 on it."""
    on_diagonal = eye(x.shape[-1], dtype=dt.BOOL)
    safe = e.where(on_diagonal, _number(1, gaps), gaps)
    return e.where(on_diagonal, _number(0, x), e.divide(x, safe))


def _number(value: int, x: Array) -> Array:
    return wrap(scalar(value, x.dtype, "grad"))


def _pad_columns(x: Array, width: int) -> Array:
    """Matrices with columns of zeros added, up to `width` of them."""
    if x.shape[-1] == width:
        return x
    widths = (*((0, 0),) * (x.ndim - 1), (0, width - x.shape[-1]))
    return wrap(make(Pad(widths), (x.node, scalar(0, x.dtype, "grad"))))
