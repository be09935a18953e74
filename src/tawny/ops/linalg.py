"""Products of vectors, matrices and stacks of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tawny.array import Array, ArrayLike, Out, lift_each, store, wrap
from tawny.errors import value_error
from tawny.node import Node, make
from tawny.op import ELEMENTWISE, BatchOperand, Gradient, Op, Type, dtype_mismatch
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import asarray
from tawny.ops.einsum import Einsum, as_common_dtype, contraction, stack_labels
from tawny.ops.joining import concat
from tawny.ops.movement import (
    align_batch,
    expand_dims,
    expand_node,
    moveaxis,
    reshape,
    reshape_node,
    transpose_node,
)
from tawny.ops.precision import in_single
from tawny.rows import Rows, RowSlice, broadcast_rows, row_axis
from tawny.shape import Shape, as_int, broadcast, normalise_axis, ordered_axes, size


def stack_shape(op: str, left: Shape, right: Shape, ours: Shape, theirs: Shape) -> Shape:
    """The common shape of two operands' stacks, which are `ours` and `theirs`."""
    for n, m in zip(reversed(ours), reversed(theirs), strict=False):
        if n != m and 1 not in (n, m):
            raise value_error(
                op,
                f"operand 1 has shape {right}, a stack of shape {theirs}; it must broadcast with "
                f"the stack of shape {ours} that operand 0 of shape {left} is",
            )
    return broadcast(op, (ours, theirs))


def batch_matrices(op: Op, left: BatchOperand, right: BatchOperand) -> Node:
    """An op of two stacks of matrices, which broadcast, applied to a batch."""
    rank = max(len(x.shape) - batched for x, batched in (left, right))
    return make(op, (align_batch(left, rank), align_batch(right, rank)))


class Matmul(
    Op, may_fail=False, name="matmul", arity=2, oracle="numpy.matmul", gradient=Gradient.MULTILINEAR
):
    """Matrix product over the last axis of operand 0 and the last but one of operand 1."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        left, right = shapes
        for position, shape in enumerate(shapes):
            if not shape:
                raise value_error(
                    "matmul",
                    f"operand {position} has no axes; it must have at least one: use multiply",
                )
        axis = -1 if len(right) == 1 else -2
        if left[-1] != right[axis]:
            raise value_error(
                "matmul",
                f"operand 1 has shape {right}; its axis {axis} must be {left[-1]} "
                f"to match operand 0 of shape {left}",
            )
        batch = stack_shape("matmul", left, right, left[:-2], right[:-2])
        return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        return operands[0][-1] * size(result)

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Matrices of a stack by themselves; of one matrix, rows of the left one."""
        left, right = operands
        axis = row_axis(shape)
        if min(len(left), len(right)) < 2 or axis == len(shape) - 1:
            return None
        stack = shape[:-2]
        if axis == len(stack):
            return RowSlice(self, (rows, None), rows)
        reads = tuple([broadcast_rows(given[:-2], stack, rows) for given in operands])
        return RowSlice(self, reads, rows)

    def mistake(self, types: Sequence[Type]) -> str | None:
        return dtype_mismatch(types[:2])

    def pullback(self, cotangent: Array, result: Array, a: Array, b: Array) -> tuple[Array, Array]:
        """Where a factor was repeated, as over a stack, its cotangent is summed in the product."""
        given = cotangent.node, a.node, b.node
        return wrap(_left_cotangent(*given)), wrap(_right_cotangent(*given))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """Vectors are taken for matrices of one row or column meanwhile."""
        (left, _), (right, _) = operands
        row, column = (len(x.shape) - batched == 1 for x, batched in operands)
        if row:
            left = expand_node(left, (len(left.shape) - 1,))
        if column:
            right = expand_node(right, (len(right.shape),))
        product = batch_matrices(
            self, operands[0]._replace(node=left), operands[1]._replace(node=right)
        )
        shape = product.shape
        kept = shape[:-2] + shape[-2:-1] * (not row) + shape[-1:] * (not column)
        return reshape_node(product, kept)


def _left_cotangent(cotangent: Node, a: Node, b: Node) -> Node:
    """The cotangent of the first factor of a matrix product."""
    if len(b.shape) == 1:
        rows = _column(cotangent) if len(a.shape) > 1 else cotangent
        return make(ELEMENTWISE["multiply"], (rows, b))
    if len(a.shape) == 1:
        if len(b.shape) == 2:
            return make(Matmul(), (b, cotangent))
        return make(Einsum("abc,ac->b"), (_flatten_stack(b, 2), _flatten_stack(cotangent, 1)))
    if len(a.shape) == 2 < len(b.shape):
        return make(Einsum("abc,adc->bd"), (_flatten_stack(cotangent, 2), _flatten_stack(b, 2)))
    return make(Matmul(), (cotangent, _transpose_matrices(b)))


def _right_cotangent(cotangent: Node, a: Node, b: Node) -> Node:
    """The cotangent of the second factor of a matrix product."""
    if len(a.shape) == 1:
        if len(b.shape) == 1:
            return make(ELEMENTWISE["multiply"], (cotangent, a))
        return make(ELEMENTWISE["multiply"], (_row(cotangent), _column(a)))
    if len(b.shape) == 1:
        return make(Matmul(), (_flatten_stack(cotangent, 0), _flatten_stack(a, 1)))
    if len(b.shape) == 2:
        rows = _transpose_matrices(_flatten_stack(a, 1))
        return make(Matmul(), (rows, _flatten_stack(cotangent, 1)))
    return make(Matmul(), (_transpose_matrices(a), cotangent))


def _column(x: Node) -> Node:
    return expand_node(x, (len(x.shape),))


def _row(x: Node) -> Node:
    return expand_node(x, (len(x.shape) - 1,))


def _transpose_matrices(x: Node) -> Node:
    """Matrices transposed."""
    rank = len(x.shape)
    return transpose_node(x, (*range(rank - 2), rank - 1, rank - 2))


def _flatten_stack(x: Node, rank: int) -> Node:
    """All axes of `x` but the last `rank` made one."""
    split = len(x.shape) - rank
    return reshape_node(x, (size(x.shape[:split]), *x.shape[split:]))


@public("linalg.matmul", ufunc=True)
def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrix product `x1 @ x2`; stacks of matrices broadcast, a vector is a row or a column."""
    return wrap(make(Matmul(), as_common_dtype("matmul", (x1, x2))))


@public("linalg.tensordot")
def tensordot(a: ArrayLike, b: ArrayLike, axes: int | Sequence[int | Sequence[int]] = 2) -> Array:
    """Sum of products over `axes`: the last n of `a` with the first n of `b`, or two lists."""
    left, right = map(asarray, (a, b))
    ours, theirs = _paired_axes("tensordot", left.shape, right.shape, axes)
    return _tensordot("tensordot", left, right, ours, theirs)


def _paired_axes(name: str, left: Shape, right: Shape, axes: Any) -> tuple[Shape, Shape]:
    """The axes of both operands that are summed over."""
    if isinstance(axes, (list, tuple)):
        pair: list[Any] = [a if isinstance(a, (list, tuple)) else [a] for a in axes]  # pyright: ignore[reportUnknownVariableType]
        if len(pair) != 2 or len(pair[0]) != len(pair[1]):
            raise value_error(
                name, f"axes is {axes!r}; it must be a number or two lists of the same length"
            )
        ours, theirs = (
            ordered_axes(a, len(s), name) for a, s in zip(pair, (left, right), strict=True)
        )
    else:
        n = as_int(axes, name, "axes")
        if not 0 <= n <= min(len(left), len(right)):
            raise value_error(
                name,
                f"axes is {n}; it must be from 0 to {min(len(left), len(right))} for operands of "
                f"shapes {left} and {right}",
            )
        ours, theirs = tuple(range(len(left) - n, len(left))), tuple(range(n))
    for a, b in zip(ours, theirs, strict=True):
        if left[a] != right[b]:
            raise value_error(
                name,
                f"operand 1 has shape {right}; its axis {b} must be {left[a]} to match axis {a} of "
                f"operand 0 of shape {left}",
            )
    return ours, theirs


def _tensordot(name: str, left: Array, right: Array, ours: Shape, theirs: Shape) -> Array:
    """The contraction of checked axes; a plain matrix product where it is one."""
    if ours == (left.ndim - 1,) and theirs == (0,) and right.ndim <= 2:
        return wrap(make(Matmul(), as_common_dtype(name, (left, right))))
    labels = [chr(i) for i in range(0x100, 0x100 + left.ndim + right.ndim)]
    first, second = labels[: left.ndim], labels[left.ndim :]
    for a, b in zip(ours, theirs, strict=True):
        second[b] = first[a]
    kept = [c for c in (*first, *second) if (c in first) != (c in second)]
    return contraction(name, (left, right), ("".join(first), "".join(second)), "".join(kept))


def _check_rank(name: str, position: int, shape: Shape, least: int) -> None:
    if len(shape) < least:
        raise value_error(
            name, f"operand {position} has shape {shape}; it must have at least {least} axes"
        )


def _check_match(name: str, left: Shape, axis1: int, right: Shape, axis2: int) -> None:
    if left[axis1] != right[axis2]:
        raise value_error(
            name,
            f"operand 1 has shape {right}; its axis {axis2} must be {left[axis1]} to match axis "
            f"{axis1} of operand 0 of shape {left}",
        )


@public("linalg.vecdot", ufunc=True)
def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Dot product of vectors along `axis`, the first conjugated; other axes broadcast."""
    left, right = map(wrap, as_common_dtype("vecdot", (x1, x2)))
    places: list[int] = []
    for position, x in enumerate((left, right)):
        _check_rank("vecdot", position, x.shape, 1)
        places.append(normalise_axis(axis, x.ndim, "vecdot"))
    _check_match("vecdot", left.shape, places[0], right.shape, places[1])
    rest = [s[:a] + s[a + 1 :] for s, a in zip((left.shape, right.shape), places, strict=True)]
    stack_shape("vecdot", left.shape, right.shape, rest[0], rest[1])
    batch = stack_labels((left.ndim - 1, right.ndim - 1))
    inputs = [b[:a] + "v" + b[a:] for b, a in zip(batch, places, strict=True)]
    first = e.conj(left) if left.dtype.kind == "c" else left
    return contraction("vecdot", (first, right), inputs, max(batch, key=len))


@public(ufunc=True)
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrices times vectors; stacks of either broadcast."""
    left, right = map(wrap, as_common_dtype("matvec", (x1, x2)))
    _check_rank("matvec", 0, left.shape, 2)
    _check_rank("matvec", 1, right.shape, 1)
    _check_match("matvec", left.shape, -1, right.shape, -1)
    stack_shape("matvec", left.shape, right.shape, left.shape[:-2], right.shape[:-1])
    batch = stack_labels((left.ndim - 2, right.ndim - 1))
    inputs = (f"{batch[0]}rc", f"{batch[1]}c")
    return contraction("matvec", (left, right), inputs, max(batch, key=len) + "r")


@public(ufunc=True)
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Conjugated vectors times matrices; stacks of either broadcast."""
    left, right = map(wrap, as_common_dtype("vecmat", (x1, x2)))
    _check_rank("vecmat", 0, left.shape, 1)
    _check_rank("vecmat", 1, right.shape, 2)
    _check_match("vecmat", left.shape, -1, right.shape, -2)
    stack_shape("vecmat", left.shape, right.shape, left.shape[:-1], right.shape[:-2])
    batch = stack_labels((left.ndim - 1, right.ndim - 2))
    first = e.conj(left) if left.dtype.kind == "c" else left
    inputs = (f"{batch[0]}r", f"{batch[1]}rc")
    return contraction("vecmat", (first, right), inputs, max(batch, key=len) + "c")


@public()
def dot(a: ArrayLike, b: ArrayLike, out: Out = None) -> Array:
    """Sum of products over the last axis of `a` and the last but one of `b`; numbers multiply."""
    if out is not None:
        return store(out, dot(a, b), "dot")
    left, right = map(wrap, lift_each("dot", (a, b)))
    if not left.ndim or not right.ndim:
        return e.multiply(left, right)
    axis = max(right.ndim - 2, 0)
    _check_match("dot", left.shape, -1, right.shape, axis - right.ndim)
    return _tensordot("dot", left, right, (left.ndim - 1,), (axis,))


@public()
def vdot(a: ArrayLike, b: ArrayLike, /) -> Array:
    """Dot product of two flattened arrays, the first conjugated."""
    return vecdot(*_ravel_each("vdot", a, b))


@public()
def inner(a: ArrayLike, b: ArrayLike, /) -> Array:
    """Sum of products over the last axes of both; numbers multiply."""
    left, right = map(wrap, lift_each("inner", (a, b)))
    if not left.ndim or not right.ndim:
        return e.multiply(left, right)
    _check_match("inner", left.shape, -1, right.shape, -1)
    return _tensordot("inner", left, right, (left.ndim - 1,), (right.ndim - 1,))


def _ravel_each(name: str, *operands: ArrayLike) -> list[Array]:
    arrays = map(wrap, lift_each(name, operands))
    return [x if x.ndim == 1 else reshape(x, (x.size,)) for x in arrays]


@public()
def outer(a: ArrayLike, b: ArrayLike, out: Out = None) -> Array:
    """Products of every element of `a` with every element of `b`."""
    left, right = _ravel_each("outer", a, b)
    return store(out, e.multiply(expand_dims(left, axis=1), right), "outer")


@public()
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Kronecker product: `b` scaled by every element of `a`, set side by side."""
    left, right = map(wrap, lift_each("kron", (a, b)))
    rank = max(left.ndim, right.ndim)
    ours = (1,) * (rank - left.ndim) + left.shape
    theirs = (1,) * (rank - right.ndim) + right.shape
    blocks = e.multiply(
        reshape(left, tuple(m for n in ours for m in (n, 1))),
        reshape(right, tuple(m for n in theirs for m in (1, n))),
    )
    return reshape(blocks, tuple(n * m for n, m in zip(ours, theirs, strict=True)))


def cross_product(name: str, left: Array, right: Array, axes: tuple[int, int]) -> Array:
    """Vector product of the three elements along an axis of each, which broadcast."""
    for position, (x, axis) in enumerate(zip((left, right), axes, strict=True)):
        if x.shape[axis] != 3:
            raise value_error(
                name,
                f"operand {position} has shape {x.shape}; its axis {axis} must be 3: the vector "
                "product is that of three-dimensional vectors",
            )

    first, second = (axis % x.ndim for x, axis in zip((left, right), axes, strict=True))
    a = [left[(slice(None),) * first + (slice(i, i + 1),)] for i in range(3)]
    b = [right[(slice(None),) * second + (slice(i, i + 1),)] for i in range(3)]
    parts = [
        e.subtract(e.multiply(a[i], b[k]), e.multiply(a[k], b[i]))
        for i, k in ((1, 2), (2, 0), (0, 1))
    ]
    return concat(parts, axis=first - left.ndim)


@public()
@in_single
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """Vector product of three-dimensional vectors along an axis of each."""
    if axis is not None:
        axisa = axisb = axisc = axis
    left, right = map(wrap, lift_each("cross", (a, b)))
    left, right = (
        moveaxis(x, normalise_axis(k, x.ndim, "cross"), -1)
        for x, k in ((left, axisa), (right, axisb))
    )
    result = cross_product("cross", left, right, (-1, -1))
    return moveaxis(result, -1, normalise_axis(axisc, result.ndim, "cross"))


# --------------------------------------------------------------------- chains


@public(module="linalg")
@in_single
def multi_dot(arrays: Sequence[ArrayLike], *, out: Out = None) -> Array:
    """Product of a chain of matrices, in the order that multiplies fewest numbers."""
    if len(arrays) < 2:
        raise value_error("multi_dot", f"{len(arrays)} arrays were given; at least 2 are needed")
    chain = [asarray(x) for x in arrays]
    for position, x in enumerate(chain):
        ends = position in (0, len(chain) - 1)
        if x.ndim != 2 and not (ends and x.ndim == 1):
            raise value_error(
                "multi_dot",
                f"operand {position} has shape {x.shape}; it must be a matrix (a vector may be "
                "first or last)",
            )
    first = chain[0].shape[0] if chain[0].ndim == 2 else 1
    sizes = [first, *(x.shape[-1] if x.ndim == 2 else 1 for x in chain)]
    if chain[0].ndim == 1:
        sizes[1] = chain[0].shape[0]
    if chain[-1].ndim == 1:
        sizes[-2] = chain[-1].shape[0]
    return store(out, _multiply_chain(chain, _best_splits(sizes)), "multi_dot")


def _best_splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to cut every stretch of a chain of matrices so that products cost least."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    cut: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = {
                k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            }
            cut[i, j] = min(options, key=options.__getitem__)
            cost[i, j] = options[cut[i, j]]
    return cut


def _multiply_chain(chain: Sequence[Array], cut: dict[tuple[int, int], int]) -> Array:
    """The product of the whole chain, cut as `cut` says; shorter stretches first."""
    done = {(i, i): x for i, x in enumerate(chain)}
    whole = (0, len(chain) - 1)
    wanted: list[tuple[int, int]] = [whole]
    for i, j in wanted:
        k = cut[i, j]
        wanted.extend(s for s in ((i, k), (k + 1, j)) if s[0] != s[1])
    for i, j in reversed(wanted):
        k = cut[i, j]
        done[i, j] = matmul(done[i, k], done[k + 1, j])
    return done[whole]
