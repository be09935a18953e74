"""Matrix factorisations, systems of linear equations and eigenvalues: what LAPACK computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.dtype import DType
from tawny.errors import linalg_error, type_error, value_error
from tawny.node import Node, make, make_parts
from tawny.op import Gradient, Op, Type
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import cast_node
from tawny.ops.linalg import stack_shape
from tawny.ops.movement import matrix_transpose
from tawny.shape import Shape


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors as the columns of matrices."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Ascending real eigenvalues, and orthonormal eigenvectors as the columns of matrices."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Orthonormal columns `Q` and an upper triangle `R`."""

    Q: Array
    R: Array


class LQResult(NamedTuple):
    """A lower triangle `L` and orthonormal rows `Q`."""

    L: Array
    Q: Array


class SlogdetResult(NamedTuple):
    """A determinant as its sign and the logarithm of its size."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """Orthonormal columns `U`, descending singular values `S`, orthonormal rows `Vh`."""

    U: Array
    S: Array
    Vh: Array


def lapack_dtype(op: str, dtypes: tuple[DType, ...]) -> DType:
    """The single or double precision dtype that LAPACK computes in; integers become float64."""
    for position, dtype in enumerate(dtypes):
        if dtype == dt.FLOAT16:
            raise type_error(
                op,
                f"operand {position} has dtype float16, for which there is no LAPACK; convert it "
                "with np.astype(x, np.float32)",
            )
    return dt.promote(*map(dt.inexact_dtype, dtypes))


def check_square(op: str, shape: Shape, position: int = 0) -> None:
    """Refuse all but a stack of square matrices."""
    check_matrix(op, shape, position)
    if shape[-1] != shape[-2]:
        raise linalg_error(
            op, f"operand {position} has shape {shape}; its last two axes must be equal (square)"
        )


def check_matrix(op: str, shape: Shape, position: int = 0) -> None:
    """Refuse what has fewer than two axes."""
    if len(shape) < 2:
        raise linalg_error(
            op, f"operand {position} has shape {shape}; it must have at least two axes (a matrix)"
        )


class Lapack(Op):
    """An op on stacks of matrices that computes in single or double precision."""

    def infer_dtype(self, *dtypes: DType) -> DType:
        return lapack_dtype(self.facts().name, dtypes)

    def mistake(self, types: Sequence[Type]) -> str | None:
        wanted = lapack_dtype(self.facts().name, tuple([dtype for _, dtype in types]))
        for position, (_, dtype) in enumerate(types):
            if dtype != wanted:
                return f"operand {position} has dtype {dtype}; it must be {wanted}"
        return super().mistake(types)


class Square(Lapack):
    """An op on a stack of square matrices."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        check_square(self.facts().name, shapes[0])
        return shapes[0]


class Cholesky(Square, name="cholesky", oracle="numpy.linalg.cholesky", gradient=Gradient.RULE):
    """The triangle whose product with its own adjoint is a positive definite matrix."""

    upper: bool


class Inv(Square, name="inv", oracle="numpy.linalg.inv", gradient=Gradient.RULE):
    """Inverse matrices; a singular one is an error, or NaN if not `strict`."""

    strict: bool


class Det(Square, name="det", oracle="numpy.linalg.det", gradient=Gradient.RULE):
    """Determinants."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        return super().infer_shape(*shapes)[:-2]


class Slogdet(Square, name="slogdet", oracle="numpy.linalg.slogdet", gradient=Gradient.RULE):
    """Sign and logarithm of the size of determinants."""

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        ((shape, dtype),) = types
        kind = self.infer_dtype(dtype)
        return (shape[:-2], kind), (shape[:-2], dt.real_dtype(kind))


class Eigh(Square, name="eigh", oracle="numpy.linalg.eigh", gradient=Gradient.RULE):
    """Eigenvalues and eigenvectors of the self-adjoint matrix one triangle gives."""

    upper: bool

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        ((shape, dtype),) = types
        kind = self.infer_dtype(dtype)
        return (shape[:-1], dt.real_dtype(kind)), (shape, kind)


class Eigvalsh(Square, name="eigvalsh", oracle="numpy.linalg.eigvalsh", gradient=Gradient.RULE):
    """Ascending eigenvalues of the self-adjoint matrix one triangle gives."""

    upper: bool

    def infer_shape(self, *shapes: Shape) -> Shape:
        return super().infer_shape(*shapes)[:-1]

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.real_dtype(super().infer_dtype(*dtypes))


class Eig(Square, name="eig", oracle="numpy.linalg.eig", gradient=Gradient.RULE):
    """Complex eigenvalues and eigenvectors."""

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        ((shape, dtype),) = types
        kind = dt.complex_dtype(self.infer_dtype(dtype))
        return (shape[:-1], kind), (shape, kind)


class Eigvals(Square, name="eigvals", oracle="numpy.linalg.eigvals", gradient=Gradient.RULE):
    """Complex eigenvalues."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        return super().infer_shape(*shapes)[:-1]

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.complex_dtype(super().infer_dtype(*dtypes))


class QR(Lapack, name="qr", oracle="numpy.linalg.qr", gradient=Gradient.RULE):
    """Orthonormal columns times an upper triangle; square `Q` if `complete`."""

    complete: bool

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        ((shape, dtype),) = types
        kind = self.infer_dtype(dtype)
        check_matrix("qr", shape)
        *batch, m, n = shape
        k = m if self.complete else min(m, n)
        return ((*batch, m, k), kind), ((*batch, k, n), kind)


class SVD(Lapack, name="svd", oracle="numpy.linalg.svd", gradient=Gradient.RULE):
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


class Svdvals(Lapack, name="svdvals", oracle="numpy.linalg.svdvals", gradient=Gradient.RULE):
    """Descending singular values."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        (shape,) = shapes
        check_matrix("svdvals", shape)
        return (*shape[:-2], min(shape[-2:]))

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.real_dtype(super().infer_dtype(*dtypes))


class Pinv(Lapack, name="pinv", arity=2, oracle="numpy.linalg.pinv", gradient=Gradient.RULE):
    """Pseudo-inverses; singular values up to operand 1 times the greatest count as zero."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        x, rtol = shapes
        check_matrix("pinv", x)
        return (*stack_shape("pinv", x, rtol, x[:-2], rtol), x[-1], x[-2])

    def infer_dtype(self, *dtypes: DType) -> DType:
        return super().infer_dtype(dtypes[0])

    def mistake(self, types: Sequence[Type]) -> str | None:
        return super().mistake(types[:1])


class System(Lapack):
    """Systems of equations: square matrices, and a vector or stacks of columns."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        name = self.facts().name
        matrix, right = shapes
        check_square(name, matrix)
        axis = -1 if len(right) == 1 else -2
        if not right or right[axis] != matrix[-1]:
            raise value_error(
                name,
                f"operand 1 has shape {right}; its axis {axis} must be {matrix[-1]} "
                f"to match operand 0 of shape {matrix}",
            )
        if len(right) == 1:
            return (*matrix[:-2], matrix[-1])
        return (*stack_shape(name, matrix, right, matrix[:-2], right[:-2]), *right[-2:])


class Solve(System, name="solve", arity=2, oracle="numpy.linalg.solve", gradient=Gradient.RULE):
    """The `x` of `a @ x = b`."""


class SolveTriangular(
    System,
    name="solve_triangular",
    arity=2,
    oracle="scipy.linalg.solve_triangular",
    gradient=Gradient.RULE,
):
    """The `x` of `a @ x = b` for one triangle of `a`.

    `transposed` is 0 for `a`, 1 for its transpose, 2 for its adjoint; `unit` takes the diagonal
    for ones.
    """

    lower: bool
    transposed: int
    unit: bool


def lapack_operands(op: str, *operands: Any) -> tuple[Node, ...]:
    """The operands as nodes of the dtype LAPACK computes in."""
    nodes = tuple(lift(x, op, i) for i, x in enumerate(operands))
    wanted = lapack_dtype(op, tuple(n.dtype for n in nodes))
    return tuple(cast_node(n, wanted) for n in nodes)


def _emit(op: Op, *operands: Any) -> Array:
    return wrap(make(op, lapack_operands(op.facts().name, *operands)))


def _emit_parts(op: Op, *operands: Any) -> list[Array]:
    return [wrap(n) for n in make_parts(op, lapack_operands(op.facts().name, *operands))]


def adjoint(x: Array) -> Array:
    """The conjugate transpose of matrices."""
    return matrix_transpose(e.conj(x) if x.dtype.kind == "c" else x)


@public(module="linalg")
def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Array:
    """The lower (or `upper`) triangle whose product with its adjoint is the definite `a`."""
    return _emit(Cholesky(bool(upper)), a)


@public(module="linalg")
def inv(a: ArrayLike) -> Array:
    """Inverse matrices."""
    return _emit(Inv(strict=True), a)


@public(module="linalg")
def det(a: ArrayLike) -> Array:
    """Determinants."""
    return _emit(Det(), a)


@public(module="linalg")
def slogdet(a: ArrayLike) -> SlogdetResult:
    """Sign and logarithm of the absolute value of determinants."""
    return SlogdetResult(*_emit_parts(Slogdet(), a))


@public(module="linalg")
def logdet(x: ArrayLike, /) -> Array:
    """Logarithm of determinants; NaN where a real one is negative."""
    (node,) = lapack_operands("logdet", x)
    check_square("logdet", node.shape)
    sign, size = slogdet(wrap(node))
    return e.add(size, e.log(sign))


def _triangle(op: str, uplo: object) -> bool:
    """Whether `UPLO` names the upper triangle."""
    if not isinstance(uplo, str) or uplo.upper() not in ("L", "U"):
        raise value_error(op, f"UPLO is {uplo!r}; accepted: 'L' (lower triangle), 'U' (upper)")
    return uplo.upper() == "U"


@public(module="linalg")
def eigh(a: ArrayLike, UPLO: str = "L") -> EighResult:  # noqa: N803
    """Eigenvalues and eigenvectors of self-adjoint matrices, read from one triangle."""
    return EighResult(*_emit_parts(Eigh(_triangle("eigh", UPLO)), a))


@public(module="linalg")
def eigvalsh(a: ArrayLike, UPLO: str = "L") -> Array:  # noqa: N803
    """Eigenvalues of self-adjoint matrices, read from one triangle."""
    return _emit(Eigvalsh(_triangle("eigvalsh", UPLO)), a)


@public(module="linalg")
def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and eigenvectors of square matrices; always complex, whatever the values."""
    return EigResult(*_emit_parts(Eig(), a))


@public(module="linalg")
def eigvals(a: ArrayLike) -> Array:
    """Eigenvalues of square matrices; always complex, whatever the values."""
    return _emit(Eigvals(), a)


@public(module="linalg")
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """`a = Q @ R` of orthonormal columns and an upper triangle.

    `Q` is square if `mode` is "complete"; "r" gives `R` alone.
    """
    if mode not in ("reduced", "complete", "r"):
        raise value_error("qr", f"mode is {mode!r}; accepted: 'reduced', 'complete', 'r'")
    if mode == "r":
        return _emit_parts(QR(complete=False), a)[1]
    return QRResult(*_emit_parts(QR(mode == "complete"), a))


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
    return SVDResult(*_emit_parts(SVD(bool(full_matrices)), a))


@public(module="linalg")
def svdvals(x: ArrayLike, /) -> Array:
    """Singular values, greatest first."""
    return _emit(Svdvals(), x)


@public(module="linalg")
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The `x` of `a @ x = x2`; `b` is one vector or (stacks of) matrices of columns."""
    return _emit(Solve(), a, b)


@public(module="linalg")
def solve_triangular(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    lower: bool = False,
    trans: Literal[0, 1, 2] = 0,
    unit_diagonal: bool = False,
) -> Array:
    """The `x` of `x1 @ x = x2` for a triangle of `x1`, or of its transpose (1) or adjoint (2)."""
    if trans not in (0, 1, 2):
        raise value_error(
            "solve_triangular", f"trans is {trans!r}; accepted: 0, 1 (transposed), 2 (adjoint)"
        )
    return _emit(SolveTriangular(bool(lower), trans, bool(unit_diagonal)), x1, x2)
