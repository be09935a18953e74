"""Running sums and products along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, Out, lift, store, wrap
from tawny.dtype import DType, as_dtype
from tawny.errors import value_error
from tawny.node import Node, make
from tawny.op import BatchOperand, Domain, Gradient, Op, Type
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import Cast
from tawny.ops.differentiation import scale_cotangent
from tawny.ops.indexing import pad_node, slice_node
from tawny.ops.movement import flatten_node, flip_node
from tawny.shape import Shape, normalise_axis, replace_size, size


class Cumulative(Op, may_fail=False):
    """A running fold along `axis`, of the same length or one longer."""

    axis: int
    dtype: DType
    include_initial: bool

    def infer_shape(self, *shapes: Shape) -> Shape:
        (shape,) = shapes
        return replace_size(shape, self.axis, shape[self.axis] + self.include_initial)

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        return size(operands[0])

    def infer_dtype(self, *dtypes: DType) -> DType:
        super().infer_dtype(*dtypes)
        return self.dtype

    def mistake(self, types: Sequence[Type]) -> str | None:
        """Operands that adding in another dtype would change are converted first."""
        dtype = types[0][1]
        if dtype == self.dtype or dtype.kind in "biu":
            return super().mistake(types)
        return f"dtype is {self.dtype}; operand 0 has {dtype} and must have the same"

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return make(self.with_attributes(axis=self.axis + 1), (operands[0].node,))


class CumulativeSum(
    Cumulative,
    name="cumulative_sum",
    identity=0,
    oracle="numpy.cumulative_sum",
    gradient=Gradient.LINEAR,
):
    """Running sum."""

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        """The running sum from the end."""
        axes = (self.axis,)
        given = slice_node(cotangent.node, self.axis, slice(int(self.include_initial), None))
        running = CumulativeSum(self.axis, cotangent.dtype, include_initial=False)
        return wrap(flip_node(make(running, (flip_node(given, axes),)), axes))


class CumulativeProd(
    Cumulative,
    name="cumulative_prod",
    identity=1,
    domain=Domain(-2.0, 2.0),
    oracle="numpy.cumulative_prod",
):
    """Running product."""

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array | None:
        """The product of the elements before, times what those behind make of the cotangents.

        The latter is `r[i] = cotangent[i] + x[i + 1] * r[i + 1]`, found without dividing by an
        element, over twice the distance in each round.
        """
        n, axis = x.shape[self.axis], self.axis
        if not x.size:
            return None
        total = wrap(slice_node(cotangent.node, axis, slice(int(self.include_initial), None)))
        factor = _shift_back(x, axis, 1)
        distance = 1
        while distance < n:
            total = e.add(total, scale_cotangent(_shift_back(total, axis, distance), factor))
            if 2 * distance < n:
                factor = e.multiply(factor, _shift_back(factor, axis, distance))
            distance *= 2
        before = slice_node(result.node, axis, slice(0, -1))
        if not self.include_initial:
            before = _pad(before, axis, (1, 0), 1)
        return scale_cotangent(total, wrap(before))


def _shift_back(x: Array, axis: int, distance: int) -> Array:
    """The elements `distance` places behind along `axis`; zeros beyond the end."""
    return wrap(_pad(slice_node(x.node, axis, slice(distance, None)), axis, (0, distance), 0))


def _pad(node: Node, axis: int, width: tuple[int, int], fill: int) -> Node:
    return pad_node(node, [width if a == axis else (0, 0) for a in range(len(node.shape))], fill)


def products_of_others(x: Node, axis: int) -> Node:
    """For each element the product of all others along `axis`, found without dividing by it."""
    before = _products_before(x, axis)
    behind = flip_node(_products_before(flip_node(x, (axis,)), axis), (axis,))
    return e.multiply(wrap(before), wrap(behind)).node


def _products_before(x: Node, axis: int) -> Node:
    """For each element the product of those before it along `axis`."""
    running = CumulativeProd(axis, x.dtype, include_initial=True)
    return make(running, (slice_node(x, axis, slice(0, -1)),))


# ------------------------------------------------------------ public functions


def cast_for_sum(node: Node, dtype: DType) -> Node:
    """`node` as `dtype` where adding in it without converting first would lose something."""
    return node if node.dtype == dtype or node.dtype.kind in "biu" else make(Cast(dtype), (node,))


def _scan(
    op: type[Cumulative],
    name: str,
    x: ArrayLike,
    axis: int | None,
    dtype: Any,
    include_initial: bool,
) -> Array:
    node = lift(x, name)
    if axis is None:
        if len(node.shape) != 1:
            raise value_error(
                name, f"operand 0 has shape {node.shape}; axis is needed unless it has one axis"
            )
        axis = 0
    elif not node.shape:
        node = flatten_node(node)
    wanted = dt.sum_dtype(node.dtype) if dtype is None else as_dtype(dtype, name)
    place = normalise_axis(axis, len(node.shape), name)
    return wrap(make(op(place, wanted, include_initial), (cast_for_sum(node, wanted),)))


@public()
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: Out = None,
    include_initial: bool = False,
) -> Array:
    """Running sum of `x` along `axis`, starting with 0 if `include_initial`."""
    result = _scan(CumulativeSum, "cumulative_sum", x, axis, dtype, include_initial)
    return store(out, result, "cumulative_sum")


@public()
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: Out = None,
    include_initial: bool = False,
) -> Array:
    """Running product of `x` along `axis`, starting with 1 if `include_initial`."""
    result = _scan(CumulativeProd, "cumulative_prod", x, axis, dtype, include_initial)
    return store(out, result, "cumulative_prod")
