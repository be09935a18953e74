"""Systems of linear equations, inverses and determinants.

Derivatives come from the equations that define the results.  A rule says under which conditions
the derivative exists.  Elsewhere it is infinite or NaN, or the system to be solved is singular,
which is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.attributes import Bounds
from tawny.dtype import DType
from tawny.errors import linalg_error, type_error, value_error
from tawny.node import Node, make, make_parts
from tawny.op import BatchOperand, Op, Type
from tawny.operator import emit, public
from tawny.ops import elementwise as e
from tawny.ops.creation import cast_node
from tawny.ops.diagonal import tril, triu
from tawny.ops.linalg import batch_matrices, matmul, stack_shape
from tawny.ops.movement import (
    align_batch,
    expand_dims,
    expand_node,
    matrix_transpose,
    reshape_node,
    squeeze,
)
from tawny.ops.reduction import sum
from tawny.shape import Shape, size

Pair = tuple[Array, Array]


class SlogdetResult(NamedTuple):
    """A determinant as its sign and the logarithm of its size."""

    sign: Array
    logabsdet: Array


def lapack_dtype(op: str, dtypes: tuple[DType, ...]) -> DType:
    """The single or double precision dtype that LAPACK computes in; integers become float64."""
    for position, dtype in enumerate(dtypes):
        if dt.is_half(dtype):
            raise type_error(
                op,
                f"operand {position} has dtype {dtype}, for which there is no LAPACK; convert it "
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

    def batch(self, operands: Sequence[BatchOperand]) -> Node | None:
        """Of one stack of matrices, a larger stack."""
        return make(self, (operands[0].node,)) if len(operands) == 1 else None

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        """A multiply-add for each row, column and pivot of each matrix."""
        return 2 * size(operands[0]) * min(operands[0][-2:])


class Square(Lapack):
    """An op on a stack of square matrices."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        check_square(self.facts().name, shapes[0])
        return shapes[0]


class Inv(Square, name="inv", oracle="numpy.linalg.inv"):
    """Inverse matrices; a singular one is an error, or NaN if not `strict`."""

    strict: bool

    def pushforward(self, tangent: Array, result: Array, x: Array) -> Array:
        return e.negative(matmul(matmul(result, tangent), result))


class Det(Square, name="det", oracle="numpy.linalg.det"):
    """Determinants."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        return super().infer_shape(*shapes)[:-2]

    def pushforward(self, tangent: Array, result: Array, x: Array) -> Array:
        """For regular matrices."""
        return e.multiply(result, _relative_change(x, tangent))


class Slogdet(Square, name="slogdet", oracle="numpy.linalg.slogdet"):
    """Sign and logarithm of the size of determinants."""

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        ((shape, dtype),) = types
        kind = self.infer_dtype(dtype)
        return (shape[:-2], kind), (shape[:-2], dt.real_dtype(kind))

    def pushforward(self, tangent: Array, results: Pair, x: Array) -> tuple[Array | None, Array]:
        """For regular matrices.

        The sign of a complex determinant turns; that of a real one stays.
        """
        change = _relative_change(x, tangent)
        if not is_complex(x):
            return None, change
        return e.multiply(results[0], e.multiply(e.imag(change), 1j)), e.real(change)


def _relative_change(x: Array, tangent: Array) -> Array:
    """The change of determinants relative to their values: the trace of `inv(x) @ tangent`."""
    return sum(e.multiply(matrix_transpose(inv(x)), tangent), axis=(-2, -1))


class Pinv(Lapack, name="pinv", arity=2, oracle="numpy.linalg.pinv"):
    """Pseudo-inverses; singular values up to operand 1 times the greatest count as zero."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        x, rtol = shapes
        check_matrix("pinv", x)
        return (*stack_shape("pinv", x, rtol, x[:-2], rtol), x[-1], x[-2])

    def infer_dtype(self, *dtypes: DType) -> DType:
        return super().infer_dtype(dtypes[0])

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """Stacks of matrices, and of limits, which broadcast."""
        x, rtol = operands
        rank = max(len(x.node.shape) - x.batched - 2, len(rtol.node.shape) - rtol.batched)
        return make(self, (align_batch(x, rank + 2), align_batch(rtol, rank)))

    def mistake(self, types: Sequence[Type]) -> str | None:
        return super().mistake(types[:1])

    def pushforward(
        self, tangents: tuple[Array | None, ...], result: Array, x: Array, rtol: Array
    ) -> Array | None:
        """For changes that keep the rank, as all small ones do where it is full."""
        tangent = tangents[0]
        if tangent is None:
            return None
        back, star = adjoint(tangent), adjoint(result)
        columns = e.subtract(back, matmul(matmul(back, x), result))
        rows = e.subtract(back, matmul(result, matmul(x, back)))
        left = e.subtract(matmul(star, columns), matmul(tangent, result))
        return e.add(matmul(result, left), matmul(matmul(rows, star), result))


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

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """A vector is taken for one column meanwhile."""
        matrix, right = operands
        x, batched = right
        if len(x.shape) - batched > 1:
            return batch_matrices(self, matrix, right)
        column = right._replace(node=expand_node(x, (len(x.shape),)))
        made = batch_matrices(self, matrix, column)
        return reshape_node(made, made.shape[:-1])

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        """The triangles, then a multiply-add for each pivot of what is solved for."""
        return super().operations(result, operands) + 2 * size(result) * operands[0][-1]


class Solve(System, name="solve", arity=2, oracle="numpy.linalg.solve"):
    """The `x` of `a @ x = b`."""

    def pullback(self, cotangent: Array, result: Array, a: Array, b: Array) -> Pair:
        """For regular matrices."""
        to_right = solve(matrix_transpose(a), _columns(cotangent, b))
        to_matrix = e.negative(matmul(to_right, matrix_transpose(_columns(result, b))))
        return to_matrix, _as_given(to_right, b)

    def pushforward(
        self, tangents: tuple[Array | None, ...], result: Array, a: Array, b: Array
    ) -> Array:
        da, db = tangents
        moved = None if da is None else matmul(da, _columns(result, b))
        return _as_given(solve(a, _difference(db, moved, b)), b)


class SolveTriangular(
    System,
    name="solve_triangular",
    arity=2,
    oracle="scipy.linalg.solve_triangular",
):
    """The `x` of `a @ x = b` for one triangle of `a`.

    `transposed` is 0 for `a`, 1 for its transpose, 2 for its adjoint; `unit` takes the diagonal
    for ones.
    """

    lower: bool
    transposed: Annotated[int, Bounds(0, 3)]
    unit: bool

    def triangle(self, x: Array) -> Array:
        """The elements of matrices that the system depends on."""
        return tril(x, k=-int(self.unit)) if self.lower else triu(x, k=int(self.unit))

    def pullback(self, cotangent: Array, result: Array, a: Array, b: Array) -> Pair:
        """For triangles without a zero on the diagonal.

        The cotangent is zero outside the triangle.
        """
        back = SolveTriangular(self.lower, 0 if self.transposed else 1, self.unit)
        conjugated = self.transposed == 2 and is_complex(a)
        to_right = emit(back, e.conj(a) if conjugated else a, _columns(cotangent, b))
        found = _columns(result, b)
        if not self.transposed:
            to_matrix = matmul(to_right, matrix_transpose(found))
        else:
            to_matrix = matmul(found, matrix_transpose(to_right))
        if conjugated:
            to_matrix = e.conj(to_matrix)
        return self.triangle(e.negative(to_matrix)), _as_given(to_right, b)

    def pushforward(
        self, tangents: tuple[Array | None, ...], result: Array, a: Array, b: Array
    ) -> Array:
        da, db = tangents
        moved = None
        if da is not None:
            change = self.triangle(da)
            if self.transposed:
                change = adjoint(change) if self.transposed == 2 else matrix_transpose(change)
            moved = matmul(change, _columns(result, b))
        return _as_given(emit(self, a, _difference(db, moved, b)), b)


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


def lapack_operands(op: str, *operands: Any) -> tuple[Node, ...]:
    """The operands as nodes of the dtype LAPACK computes in."""
    nodes = tuple(lift(x, op, i) for i, x in enumerate(operands))
    wanted = lapack_dtype(op, tuple(n.dtype for n in nodes))
    return tuple(cast_node(n, wanted) for n in nodes)


def emit_lapack(op: Op, *operands: Any) -> Array:
    """The array an op of LAPACK makes of operands of any dtype."""
    return wrap(make(op, lapack_operands(op.facts().name, *operands)))


def emit_lapack_parts(op: Op, *operands: Any) -> list[Array]:
    """The arrays an op of LAPACK with several results makes of operands of any dtype."""
    return [wrap(n) for n in make_parts(op, lapack_operands(op.facts().name, *operands))]


def adjoint(x: Array) -> Array:
    """The conjugate transpose of matrices."""
    return matrix_transpose(conjugate(x))


def is_complex(x: Array) -> bool:
    """Whether the elements are complex numbers."""
    return x.dtype.kind == "c"


def conjugate(x: Array) -> Array:
    """The conjugates of complex numbers; real ones as they are."""
    return e.conj(x) if is_complex(x) else x


@public(module="linalg")
def inv(a: ArrayLike) -> Array:
    """Inverse matrices."""
    return emit_lapack(Inv(strict=True), a)


@public(module="linalg")
def det(a: ArrayLike) -> Array:
    """Determinants."""
    return emit_lapack(Det(), a)


@public(module="linalg")
def slogdet(a: ArrayLike) -> SlogdetResult:
    """Sign and logarithm of the absolute value of determinants."""
    return SlogdetResult(*emit_lapack_parts(Slogdet(), a))


@public(module="linalg")
def logdet(x: ArrayLike, /) -> Array:
    """Logarithm of determinants; NaN where a real one is negative."""
    (node,) = lapack_operands("logdet", x)
    check_square("logdet", node.shape)
    sign, size = slogdet(wrap(node))
    return e.add(size, e.log(sign))


@public(module="linalg")
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The `x` of `a @ x = x2`; `b` is one vector or (stacks of) matrices of columns."""
    return emit_lapack(Solve(), a, b)


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
    return emit_lapack(SolveTriangular(bool(lower), trans, bool(unit_diagonal)), x1, x2)
