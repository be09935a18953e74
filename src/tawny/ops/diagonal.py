"""Diagonals and triangles of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, Out, lift, store, wrap
from tawny.dtype import as_dtype
from tawny.errors import value_error
from tawny.node import Node, make, scalar
from tawny.op import ELEMENTWISE, BatchOperand, Gradient, Op, Type, ViewStrides
from tawny.operator import check_like, public
from tawny.ops import reduction
from tawny.ops.creation import Cast, Eye
from tawny.ops.indexing import pad_node, positions, scatter_add
from tawny.ops.movement import expand_node, flatten_node, transpose_node
from tawny.shape import Shape, as_int, as_shape, ordered_axes


class Diagonal(Op, name="diagonal", oracle="numpy.diagonal", gradient=Gradient.LINEAR):
    """Diagonal `offset` of the last two axes, as the last axis."""

    offset: int

    def infer_shape(self, *shapes: Shape) -> Shape:
        *stack, rows, columns = shapes[0]
        length = min(rows + min(self.offset, 0), columns - max(self.offset, 0))
        return (*stack, max(length, 0))

    def view(self, shape: Shape, strides: Sequence[int]) -> ViewStrides:
        """A row and a column on at each step."""
        *stack, down, across = strides
        first = max(-self.offset, 0) * down + max(self.offset, 0) * across
        return ViewStrides(first, (*stack, down + across))

    def mistake(self, types: Sequence[Type]) -> str | None:
        shape = types[0][0]
        if len(shape) < 2:
            return f"operand 0 has shape {shape}; it must have two axes"
        if not -shape[-2] <= self.offset <= shape[-1]:
            return f"offset is {self.offset}; expected {-shape[-2]} to {shape[-1]}"
        return None

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        rows = positions(result.shape[-1], max(-self.offset, 0))
        columns = positions(result.shape[-1], max(self.offset, 0))
        plane = (x.ndim - 2, x.ndim - 1)
        return wrap(scatter_add(cotangent.node, x.shape, plane, plane[0], (rows, columns)))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return make(self, (operands[0].node,))


@public()
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Diagonal `offset` of the plane of two axes, as the last axis of the result."""
    node = lift(a, "diagonal")
    return wrap(_diagonal(node, offset, axis1, axis2, "diagonal"))


def _diagonal(node: Node, offset: int, axis1: int, axis2: int, op: str) -> Node:
    rank = len(node.shape)
    if rank < 2:
        raise value_error(op, f"operand 0 has shape {node.shape}; it must have two axes or more")
    plane = ordered_axes((axis1, axis2), rank, op)
    order = (*(a for a in range(rank) if a not in plane), *plane)
    rows, columns = (node.shape[a] for a in plane)
    inside = max(-rows, min(as_int(offset, op, "offset"), columns))  # those beyond are empty too
    return make(Diagonal(inside), (transpose_node(node, order),))


@public()
def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: Any = None,
    out: Out = None,
) -> Array:
    """Sum of diagonal `offset` of the plane of two axes."""
    node = _diagonal(lift(a, "trace"), offset, axis1, axis2, "trace")
    return store(out, reduction.sum(wrap(node), axis=-1, dtype=dtype), "trace")


@public()
def diag(v: ArrayLike, k: int = 0) -> Array:
    """Diagonal `k` of a matrix, or the matrix that has `v` as its diagonal `k`."""
    node = lift(v, "diag")
    if len(node.shape) == 2:
        return wrap(_diagonal(node, k, 0, 1, "diag"))
    if len(node.shape) != 1:
        raise value_error("diag", f"operand 0 has shape {node.shape}; it must have one axis or two")
    return wrap(_with_diagonal(node, as_int(k, "diag", "k")))


@public()
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix that has the elements of `v` as its diagonal `k`."""
    return wrap(_with_diagonal(flatten_node(lift(v, "diagflat")), as_int(k, "diagflat", "k")))


def _with_diagonal(node: Node, k: int) -> Node:
    """A square matrix with `node` on diagonal `k` and zeros elsewhere."""
    (n,) = node.shape
    zero = scalar(0, node.dtype, "diag")
    on_diagonal = make(Eye(n, n, 0, dt.BOOL))
    square = make(ELEMENTWISE["where"], (on_diagonal, node, zero))
    above, below = max(k, 0), max(-k, 0)
    return pad_node(square, ((below, above), (above, below)), 0) if k else square


def _triangle(rows: int, columns: int, k: int) -> Node:
    """Whether an element lies on or below diagonal `k`."""
    row = expand_node(positions(rows), (1,))
    return make(ELEMENTWISE["greater_equal"], (row, positions(columns, -k)))


def _keep_triangle(op: str, x: ArrayLike, k: int, lower: bool) -> Array:
    """`x` with zeros on the other side of a diagonal."""
    node = lift(x, op)
    if not node.shape:
        raise value_error(op, "operand 0 has no axes; it must have two or more")
    rows, columns = (node.shape * 2)[-2:] if len(node.shape) == 1 else node.shape[-2:]
    below = _triangle(rows, columns, as_int(k, op, "k") - (not lower))
    zero = scalar(0, node.dtype, op)
    choices = (node, zero) if lower else (zero, node)
    return wrap(make(ELEMENTWISE["where"], (below, *choices)))


@public()
def tril(m: ArrayLike, k: int = 0) -> Array:
    """`m` with zeros above diagonal `k` of its last two axes."""
    return _keep_triangle("tril", m, k, lower=True)


@public()
def triu(m: ArrayLike, k: int = 0) -> Array:
    """`m` with zeros below diagonal `k` of its last two axes."""
    return _keep_triangle("triu", m, k, lower=False)


@public()
def tri(
    N: int,  # noqa: N803
    M: int | None = None,  # noqa: N803
    k: int = 0,
    dtype: Any = float,
    *,
    like: None = None,
) -> Array:
    """Ones on and below diagonal `k` of an `N` by `M` matrix, zeros above it."""
    check_like(like, "tri")
    rows, columns = as_shape((N, N if M is None else M), "tri", "N, M")
    wanted = dt.FLOAT64 if dtype is None else as_dtype(dtype, "tri")
    return wrap(make(Cast(wanted), (_triangle(rows, columns, as_int(k, "tri", "k")),)))
