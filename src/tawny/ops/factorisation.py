"""Factorisations of matrices, and singular values.

Derivatives come from the equations that define the results.  A rule says under which conditions
the derivative exists.  Elsewhere it is infinite or NaN, or the system to be solved is singular,
which is an error.  Matrices that are read as self-adjoint from one triangle are taken to change as
such: both triangles share the cotangent, which is self-adjoint.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, wrap
from tawny.dtype import DType
from tawny.errors import value_error
from tawny.op import Type
from tawny.operator import emit, emit_parts, public
from tawny.ops import elementwise as e
from tawny.ops.creation import eye
from tawny.ops.diagonal import tril, triu
from tawny.ops.eigenvalues import column_products, gaps, off_diagonal, self_adjoint
from tawny.ops.indexing import pad_node
from tawny.ops.joining import concat
from tawny.ops.linalg import matmul
from tawny.ops.movement import expand_dims, matrix_transpose
from tawny.ops.systems import (
    Lapack,
    SolveTriangular,
    Square,
    adjoint,
    check_matrix,
    emit_lapack,
    emit_lapack_parts,
    is_complex,
    lapack_operands,
)
from tawny.shape import Shape

Pair = tuple[Array, Array]


class QRResult(NamedTuple):
    """Orthonormal columns `Q` and an upper triangle `R`."""

    Q: Array
    R: Array


class LQResult(NamedTuple):
    """A lower triangle `L` and orthonormal rows `Q`."""

    L: Array
    Q: Array


class SVDResult(NamedTuple):
    """Orthonormal columns `U`, descending singular values `S`, orthonormal rows `Vh`."""

    U: Array
    S: Array
    Vh: Array


class Cholesky(Square, name="cholesky", oracle="numpy.linalg.cholesky"):
    """The triangle whose product with its own adjoint is a positive definite matrix."""

    upper: bool

    def pushforward(self, tangent: Array, result: Array, x: Array) -> Array:
        """For positive definite matrices."""
        lower = adjoint(result) if self.upper else result
        solver = SolveTriangular(lower=True, transposed=0, unit=False)
        half = emit(solver, lower, self_adjoint(tangent))
        inside = emit(solver, lower, adjoint(half))
        one = eye(x.shape[-1], dtype=dt.real_dtype(x.dtype))
        share = e.subtract(1.0, e.multiply(one, 0.5))
        change = matmul(lower, tril(e.multiply(inside, share)))
        return adjoint(change) if self.upper else change


class QR(Lapack, name="qr", oracle="numpy.linalg.qr"):
    """Orthonormal columns times an upper triangle; square `Q` if `complete`."""

    complete: bool

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        ((shape, dtype),) = types
        kind = self.infer_dtype(dtype)
        check_matrix("qr", shape)
        *batch, m, n = shape
        k = m if self.complete else min(m, n)
        return ((*batch, m, k), kind), ((*batch, k, n), kind)

    def pushforward(self, tangent: Array, results: Pair, x: Array) -> Pair:
        """For matrices whose first `min(m, n)` columns are independent.

        If `complete`, the columns of `Q` beyond those of `R` may be any that complete a basis.
        What depends on the choice has no derivative; the rule takes them not to turn among
        themselves.
        """
        q, r = results
        rank, width = min(x.shape[-2:]), q.shape[-1]
        solver = SolveTriangular(lower=False, transposed=1, unit=False)
        triangle = r if r.shape[-2:] == (rank, rank) else r[..., :rank, :rank]
        leading = matrix_transpose(_leading(tangent, rank))
        moved = matrix_transpose(emit(solver, triangle, leading))
        star = adjoint(q)
        inside = matmul(star, moved)
        turn = _skew(_pad_columns(tril(inside, k=-1), width))
        if is_complex(x):
            turn = e.add(turn, _pad_columns(_phases(inside), width))
        dq = matmul(q, turn)
        if width < x.shape[-2]:
            dq = e.add(dq, e.subtract(moved, matmul(q, inside)))
        return dq, triu(e.subtract(matmul(star, tangent), matmul(turn, r)))


class SVD(Lapack, name="svd", oracle="numpy.linalg.svd"):
    """Orthonormal columns, singular values, orthonormal rows; square ones if `full`."""

    full: bool

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        ((shape, dtype),) = types
        kind = self.infer_dtype(dtype)
        check_matrix("svd", shape)
        *batch, m, n = shape
        k = min(m, n)
        left, right = (m, n) if self.full else (k, k)
        return (
            ((*batch, m, left), kind),
            ((*batch, k), dt.real_dtype(kind)),
            ((*batch, right, n), kind),
        )

    def pushforward(
        self, tangent: Array, results: tuple[Array, Array, Array], x: Array
    ) -> tuple[Array, Array, Array]:
        """Singular vectors have a derivative where singular values are distinct and not zero.

        A pair of complex singular vectors may be multiplied by any number of size 1, and if `full`,
        the vectors beyond the singular values may be any that complete a basis.  What depends on
        the choice has no derivative; the rule takes `U` to turn and not `Vh`, and the vectors
        beyond not to turn among themselves.
        """
        left, values, right = results[0], results[1], adjoint(results[2])
        count = values.shape[-1]
        u, v = _leading(left, count), _leading(right, count)
        moved = matmul(tangent, v)
        inside = matmul(adjoint(left), moved)
        core = inside if u is left else inside[..., :count, :]
        back = matmul(adjoint(tangent), u)
        inside_back = adjoint(core) if v is right else matmul(results[2], back)
        apart = gaps(e.square(values))
        by_column = e.multiply(core, expand_dims(values, axis=-2))
        by_row = e.multiply(core, expand_dims(values, axis=-1))
        turn = off_diagonal(e.add(by_column, adjoint(by_column)), apart)
        if is_complex(x):
            turn = e.add(turn, _phases(e.divide(core, expand_dims(values, axis=-2))))
        turn_back = off_diagonal(e.add(by_row, adjoint(by_row)), apart)
        return (
            _singular_vectors(left, moved, inside, turn, values),
            column_products(u, moved),
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


class Svdvals(Lapack, name="svdvals", oracle="numpy.linalg.svdvals"):
    """Descending singular values."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        (shape,) = shapes
        check_matrix("svdvals", shape)
        return (*shape[:-2], min(shape[-2:]))

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.real_dtype(super().infer_dtype(*dtypes))

    def pushforward(self, tangent: Array, result: Array, x: Array) -> Array:
        """For singular values that are distinct, or treated alike, and not zero."""
        left, _, right = emit_parts(SVD(full=False), x)
        return column_products(left, matmul(tangent, adjoint(right)))


# ------------------------------------------------------------ of matrices, in rules


def _phases(x: Array) -> Array:
    """The imaginary part of the diagonal of matrices, as the imaginary diagonal of others."""
    rows, columns = x.shape[-2:]
    diagonal = eye(rows, columns, dtype=dt.real_dtype(x.dtype))
    return e.multiply(e.multiply(e.imag(x), diagonal), 1j)


def _skew(x: Array) -> Array:
    return e.subtract(x, adjoint(x))


def _leading(x: Array, count: int) -> Array:
    """The first columns."""
    return x if x.shape[-1] == count else x[..., :count]


def _pad_columns(x: Array, width: int) -> Array:
    """Matrices with columns of zeros added, up to `width` of them."""
    if x.shape[-1] == width:
        return x
    return wrap(pad_node(x.node, [*[(0, 0)] * (x.ndim - 1), (0, width - x.shape[-1])], 0))


# ------------------------------------------------------------ public functions


@public(module="linalg")
def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Array:
    """The lower (or `upper`) triangle whose product with its adjoint is the definite `a`."""
    return emit_lapack(Cholesky(bool(upper)), a)


@public(module="linalg")
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """`a = Q @ R` of orthonormal columns and an upper triangle.

    `Q` is square if `mode` is "complete"; "r" gives `R` alone.
    """
    if mode not in ("reduced", "complete", "r"):
        raise value_error("qr", f"mode is {mode!r}; accepted: 'reduced', 'complete', 'r'")
    if mode == "r":
        return emit_lapack_parts(QR(complete=False), a)[1]
    return QRResult(*emit_lapack_parts(QR(mode == "complete"), a))


@public(module="linalg")
def lq(x: ArrayLike, /) -> LQResult:
    """`x = L @ Q` of a lower triangle and orthonormal rows."""
    (node,) = lapack_operands("lq", x)
    check_matrix("lq", node.shape)
    q, r = qr(adjoint(wrap(node)))
    return LQResult(adjoint(r), adjoint(q))


@public(module="linalg")
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """`a = U @ diag(S) @ Vh`; `U` and `Vh` are square if `full_matrices`.

    Without `compute_uv`, `S` alone.  `hermitian` says that the matrices are.
    """
    del hermitian
    if not compute_uv:
        return svdvals(a)
    return SVDResult(*emit_lapack_parts(SVD(bool(full_matrices)), a))


@public(module="linalg")
def svdvals(x: ArrayLike, /) -> Array:
    """Singular values, greatest first."""
    return emit_lapack(Svdvals(), x)
