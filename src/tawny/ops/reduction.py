"""Reductions over axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, Out, lift, store, wrap
from tawny.dtype import DType, as_dtype, kind_of
from tawny.dtype_rules import real, truth
from tawny.errors import type_error, value_error
from tawny.node import Node, make
from tawny.op import BatchOperand, Domain, Gradient, Op, Trait, Type
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import asarray
from tawny.ops.cumulative import cast_for_sum, products_of_others
from tawny.ops.differentiation import distance, scale_cotangent
from tawny.ops.movement import (
    behind_batch,
    broadcast_node,
    expand_node,
    reshape_node,
    transpose_node,
)
from tawny.ops.precision import in_single
from tawny.rows import Rows, RowSlice, row_axis
from tawny.shape import (
    Shape,
    normalise_axes,
    reduction_axes,
    reduction_shape,
    size,
)

Axis = int | tuple[int, ...] | None


class Reduction(Op, may_fail=False):
    """An op that folds `axes` into one element each."""

    axes: tuple[int, ...]
    keepdims: bool

    def infer_shape(self, *shapes: Shape) -> Shape:
        return reduction_shape(shapes[0], self.axes, self.keepdims)

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        return size(operands[0])

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Each row by itself, unless rows are folded."""
        return None if row_axis(operands[0]) in self.axes else RowSlice(self, (rows,), rows)

    def mistake(self, types: Sequence[Type]) -> str | None:
        problem = super().mistake(types)
        if problem is None and list(self.axes) != sorted(self.axes):
            return f"axes are {self.axes}; expected in order"
        return problem

    def keep_axes(self, reduction: Array, x: Array) -> Array:
        """A reduction of `x`, or its cotangent, with the reduced axes in place and of size 1."""
        shape = reduction_shape(x.shape, self.axes, keepdims=True)
        return wrap(reshape_node(reduction.node, shape))

    def count(self, x: Array) -> int:
        """How many elements are reduced to one."""
        return size(tuple([x.shape[a] for a in self.axes]))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        op = self.with_attributes(axes=behind_batch(self.axes))
        return make(op, (operands[0].node,))


class Accumulation(Reduction):
    """A reduction that says which dtype it adds or multiplies in."""

    dtype: DType

    def infer_dtype(self, *dtypes: DType) -> DType:
        super().infer_dtype(*dtypes)
        return self.dtype

    def mistake(self, types: Sequence[Type]) -> str | None:
        """Operands that adding in another dtype would change are converted first."""
        dtype = types[0][1]
        if dtype == self.dtype or dtype.kind in "biu":
            return super().mistake(types)
        return f"dtype is {self.dtype}; operand 0 has {dtype} and must have the same"


class Extremum(Reduction):
    """A reduction that needs at least one element."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        (shape,) = shapes
        if 0 in [shape[a] for a in self.axes]:
            raise value_error(
                self.facts().name,
                f"operand 0 has shape {shape}: no element to reduce over axis {self.axes}, "
                "and no identity",
            )
        return super().infer_shape(shape)

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        """Elements that share the extreme share the cotangent; a NaN extreme gives none."""
        extreme = e.equal(x, self.keep_axes(result, x))
        count = make(Sum(self.axes, True, x.dtype), (extreme.node,))
        return e.where(extreme, e.divide(self.keep_axes(cotangent, x), wrap(count)), 0)


class Sum(
    Accumulation,
    name="sum",
    identity=0,
    oracle="numpy.sum",
    gradient=Gradient.LINEAR,
    traits=Trait.KEEPS_NONNEGATIVE,
):
    """Sum over axes."""

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        return wrap(broadcast_node(self.keep_axes(cotangent, x).node, x.shape))


def sum_node(node: Node, axes: tuple[int, ...]) -> Node:
    """`node` summed over axes, in order, which the result has not."""
    return make(Sum(axes, False, node.dtype), (node,))


class Prod(
    Accumulation,
    name="prod",
    identity=1,
    domain=Domain(-2.0, 2.0),
    oracle="numpy.prod",
):
    """Product over axes."""

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array | None:
        """The derivative in an element is the product of the others, found without dividing by it.

        So it is right where elements are zero, and so are its own derivatives.
        """
        if not x.size:
            return None
        if self.count(x) == 1:
            return wrap(reshape_node(cotangent.node, x.shape))
        if len(self.axes) == 1:
            others = products_of_others(x.node, self.axes[0])
            return scale_cotangent(self.keep_axes(cotangent, x), wrap(others))
        kept = tuple([a for a in range(x.ndim) if a not in self.axes])
        order = (*kept, *self.axes)
        lanes = transpose_node(x.node, order)
        flat = reshape_node(lanes, (*[x.shape[a] for a in kept], self.count(x)))
        others = reshape_node(products_of_others(flat, len(kept)), lanes.shape)
        back = tuple(sorted(range(x.ndim), key=order.__getitem__))
        return scale_cotangent(self.keep_axes(cotangent, x), wrap(transpose_node(others, back)))


class Mean(Accumulation, name="mean", oracle="numpy.mean", gradient=Gradient.LINEAR):
    """Arithmetic mean over axes."""

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array | None:
        count = self.count(x)
        if not count:
            return None
        share = e.multiply(self.keep_axes(cotangent, x), 1 / count)
        return wrap(broadcast_node(share.node, x.shape))


class Var(Accumulation, name="var", oracle="numpy.var"):
    """Mean squared distance from the mean; `correction` is subtracted from the count."""

    correction: float

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.real_dtype(super().infer_dtype(*dtypes))

    def mistake(self, types: Sequence[Type]) -> str | None:
        wanted = dt.inexact_dtype(types[0][1])
        if self.dtype != wanted:
            return f"dtype is {self.dtype}; expected {wanted}"
        return super().mistake(types)

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array | None:
        """The change of the mean has no effect: the distances from it sum to zero."""
        if not x.size:
            return None
        left = self.count(x) - self.correction
        away = e.subtract(x, mean(x, axis=self.axes, keepdims=True))
        scale = e.multiply(self.keep_axes(cotangent, x), 2 / left if left > 0 else math.inf)
        return scale_cotangent(scale, e.conj(away) if x.dtype.kind == "c" else away)


CHOICE: Final = Trait.CHOOSING | Trait.EXACT
EXTREME: Final = CHOICE | Trait.IDEMPOTENT | Trait.KEEPS_FINITE | Trait.KEEPS_NONNEGATIVE


class Max(Extremum, name="max", traits=EXTREME, oracle="numpy.max"):
    """Greatest element over axes; NaN if there is one."""


class Min(Extremum, name="min", traits=EXTREME, oracle="numpy.min"):
    """Least element over axes; NaN if there is one."""


class AllTrue(
    Reduction,
    name="all",
    dtype=truth,
    identity=1,
    gradient=Gradient.ZERO,
    traits=CHOICE,
    oracle="numpy.all",
):
    """Whether every element over axes is true."""


class AnyTrue(
    Reduction,
    name="any",
    dtype=truth,
    identity=0,
    gradient=Gradient.ZERO,
    traits=CHOICE,
    oracle="numpy.any",
):
    """Whether some element over axes is true."""


class LogSumExp(
    Accumulation,
    name="logsumexp",
    dtype=real,
    oracle="scipy.special.logsumexp",
):
    """`log(sum(exp(x)))` over axes, without overflow."""

    def mistake(self, types: Sequence[Type]) -> str | None:
        wanted = dt.inexact_dtype(types[0][1])
        if self.dtype != wanted:
            return f"dtype is {self.dtype}; expected {wanted}"
        return super().mistake(types)

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        """Infinities stay out of the difference of `x` and the result.

        A result of -inf passes on no cotangent, one of +inf passes all of it to each element that
        is +inf, and nothing to the others.
        """
        most = float(dt.finfo(self.dtype).max)
        away = e.subtract(e.minimum(x, most), e.clip(self.keep_axes(result, x), -most, most))
        return scale_cotangent(self.keep_axes(cotangent, x), e.exp(away))


class ArgExtremum(Op, may_fail=False):
    """The place of an extreme element along `axis`, or in the flattened array."""

    axis: int | None
    keepdims: bool

    def infer_shape(self, *shapes: Shape) -> Shape:
        (shape,) = shapes
        axes = tuple(range(len(shape))) if self.axis is None else (self.axis,)
        if 0 in [shape[a] for a in axes]:
            raise value_error(
                self.facts().name,
                f"operand 0 has shape {shape}: no element to choose along axis {self.axis}",
            )
        return reduction_shape(shape, axes, self.keepdims)

    def infer_dtype(self, *dtypes: DType) -> DType:
        super().infer_dtype(*dtypes)
        return dt.INT64

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        return size(operands[0])

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Each row by itself, unless rows are folded."""
        whole = self.axis is None or row_axis(operands[0]) == self.axis
        return None if whole else RowSlice(self, (rows,), rows)

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        ((x, _),) = operands
        if self.axis is not None:
            return make(self.with_attributes(axis=self.axis + 1), (x,))
        flat = reshape_node(x, (x.shape[0], size(x.shape[1:])))
        places = make(type(self)(1, keepdims=False), (flat,))
        return expand_node(places, range(1, len(x.shape))) if self.keepdims else places


class ArgMax(ArgExtremum, name="argmax", gradient=Gradient.ZERO, oracle="numpy.argmax"):
    """Index of the first greatest element."""


class ArgMin(ArgExtremum, name="argmin", gradient=Gradient.ZERO, oracle="numpy.argmin"):
    """Index of the first least element."""


REDUCTIONS: Final[tuple[type[Op], ...]] = (
    Sum, Prod, Mean, Var, Max, Min, AllTrue, AnyTrue, LogSumExp, ArgMax, ArgMin,
)  # fmt: skip
"""Every op that folds axes."""

CHOOSING: Final = tuple([op for op in REDUCTIONS if Trait.CHOOSING in op.declaration.traits])
"""Reductions that give the same in any order, and of repeated elements."""


# ------------------------------------------------------------ public functions


def _mean_dtype(node: Node, dtype: Any, op: str) -> DType:
    return dt.inexact_dtype(node.dtype) if dtype is None else as_dtype(dtype, op)


def _fill_excluded(node: Node, where: ArrayLike, instead: ArrayLike, op: str) -> Node:
    """`node` with `instead` where the condition does not hold."""
    filler = asarray(instead, dtype=node.dtype)
    chosen = e.where(_condition(where, op), wrap(node), filler)
    if chosen.shape != node.shape:
        raise value_error(
            op, f"where broadcasts operand 0 of shape {node.shape} to {chosen.shape}; it must not"
        )
    return chosen.node


def _condition(where: ArrayLike, op: str) -> Array:
    condition = asarray(where)
    if condition.dtype != dt.BOOL:
        raise type_error(op, f"where has dtype {condition.dtype}; accepted: bool")
    return condition


def _accumulate(
    kind: type[Accumulation],
    op: str,
    a: ArrayLike,
    axis: Axis,
    dtype: Any,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike,
) -> Array:
    """The sum or product of some elements, from `initial` on."""
    node = lift(a, op)
    wanted = dt.sum_dtype(node.dtype) if dtype is None else as_dtype(dtype, op)
    axes = reduction_axes(axis, len(node.shape), op)
    if where is not True:
        node = _fill_excluded(node, where, int(kind is Prod), op)
    result = wrap(make(kind(axes, keepdims, wanted), (cast_for_sum(node, wanted),)))
    if initial is None:
        return result
    combine = e.multiply if kind is Prod else e.add
    return combine(result, asarray(initial, dtype=wanted))


@public()
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: Out = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Array:
    """Sum of the elements of `a` over `axis` (all axes when None) that `where` marks."""
    return store(out, _accumulate(Sum, "sum", a, axis, dtype, keepdims, initial, where), "sum")


@public()
def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: Out = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Array:
    """Product of the elements of `a` over `axis` (all axes when None) that `where` marks."""
    return store(out, _accumulate(Prod, "prod", a, axis, dtype, keepdims, initial, where), "prod")


@public()
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: Out = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Array:
    """Arithmetic mean of the elements of `a` over `axis` that `where` marks; NaN if none is."""
    node = lift(a, "mean")
    wanted = _mean_dtype(node, dtype, "mean")
    axes = normalise_axes(axis, len(node.shape), "mean")
    if where is True:
        result = wrap(make(Mean(axes, keepdims, wanted), (cast_for_sum(node, wanted),)))
    else:
        total = sum(wrap(node), axes, wanted, None, keepdims, None, where)
        count = _count(node.shape, axes, keepdims, where, "mean")
        result = asarray(e.divide(total, as_real(count, wanted)), dtype=wanted)
    return store(out, result, "mean")


def _count(shape: Shape, axes: Shape, keepdims: bool, where: ArrayLike, op: str) -> Array:
    """How many elements over `axes` the condition marks."""
    marks = wrap(broadcast_node(_condition(where, op).node, shape))
    return sum(marks, axes, keepdims=keepdims)


def as_real(count: Array, dtype: DType) -> Array:
    """A count as a real number of the precision of `dtype`."""
    return asarray(count, dtype=dt.real_dtype(dt.inexact_dtype(dtype)))


def lost_elements(ddof: float, correction: float | None, op: str) -> float:
    """By how much the count of elements is lessened, given by one of two names."""
    if correction is not None and ddof != 0:
        raise value_error(op, f"ddof is {ddof} and correction {correction}; give one of them")
    value: Any = ddof if correction is None else correction
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise type_error(op, f"correction must be a real number, not {value!r}")
    return float(value)  # pyright: ignore[reportUnknownArgumentType]


def _variance(
    op: str,
    a: ArrayLike,
    axis: Axis,
    dtype: Any,
    lost: float,
    keepdims: bool,
    where: ArrayLike,
    centre: ArrayLike | None,
) -> Node:
    """The variance of some elements, from their mean or a given one."""
    node = lift(a, op)
    axes = normalise_axes(axis, len(node.shape), op)
    wanted = _mean_dtype(node, dtype, op)
    if kind_of(wanted) not in "fc":
        raise type_error(op, f"dtype is {wanted}; accepted: {dt.category_names(dt.INEXACT)}")
    if where is True and centre is None:
        return make(Var(axes, keepdims, wanted, lost), (cast_for_sum(node, wanted),))
    array = asarray(wrap(node), dtype=wanted)
    middle = mean(array, axes, wanted, None, True, where=where) if centre is None else centre
    squares = e.square(e.abs(e.subtract(array, middle)))
    total = sum(squares, axes, None, None, keepdims, None, where)
    count = as_real(_count(node.shape, axes, keepdims, where, op), wanted)
    return e.divide(total, e.maximum(e.subtract(count, lost), 0)).node


@public()
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: Out = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Variance of `a` over `axis`; the divisor is the count less `ddof`, or `correction`.

    `mean` is that of the elements, with the axes kept, if it is known already.
    """
    lost = lost_elements(ddof, correction, "var")
    return store(out, wrap(_variance("var", a, axis, dtype, lost, keepdims, where, mean)), "var")


@public()
@in_single
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: Out = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Standard deviation of `a` over `axis`: the root of `var` of the same arguments."""
    lost = lost_elements(ddof, correction, "std")
    squares = _variance("std", a, axis, dtype, lost, keepdims, where, mean)
    return store(out, wrap(make(distance, (squares,))), "std")


def _extreme(
    kind: type[Extremum],
    op: str,
    a: ArrayLike,
    axis: Axis,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike,
) -> Array:
    """The extreme of some elements and of `initial`."""
    node = lift(a, op)
    axes = reduction_axes(axis, len(node.shape), op)
    if initial is None:
        if where is not True:
            raise value_error(op, "where= needs initial=, which stands for an empty selection")
        return wrap(make(kind(axes, keepdims), (node,)))
    first = asarray(initial, dtype=node.dtype)
    if where is not True:
        node = _fill_excluded(node, where, first, op)
    if 0 in [node.shape[i] for i in axes]:
        return wrap(broadcast_node(first.node, reduction_shape(node.shape, axes, keepdims)))
    combine = e.maximum if kind is Max else e.minimum
    return combine(wrap(make(kind(axes, keepdims), (node,))), first)


@public("amax")
def max(
    a: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Array:
    """Greatest element of `a` over `axis` that `where` marks, or `initial`; NaN if there is one."""
    return store(out, _extreme(Max, "max", a, axis, keepdims, initial, where), "max")


@public("amin")
def min(
    a: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Array:
    """Least element of `a` over `axis` that `where` marks, or `initial`; NaN if there is one."""
    return store(out, _extreme(Min, "min", a, axis, keepdims, initial, where), "min")


def _truth(
    kind: type[AllTrue | AnyTrue],
    op: str,
    a: ArrayLike,
    axis: Axis,
    keepdims: bool,
    where: ArrayLike,
) -> Array:
    """Whether all, or any, of some elements are true."""
    node = lift(a, op)
    axes = reduction_axes(axis, len(node.shape), op)
    if where is not True:
        node = _fill_excluded(node, where, int(kind is AllTrue), op)
    return wrap(make(kind(axes, keepdims), (node,)))


@public()
def all(
    a: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Array:
    """Whether every element of `a` over `axis` that `where` marks is true."""
    return store(out, _truth(AllTrue, "all", a, axis, keepdims, where), "all")


@public()
def any(
    a: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Array:
    """Whether some element of `a` over `axis` that `where` marks is true."""
    return store(out, _truth(AnyTrue, "any", a, axis, keepdims, where), "any")


def _place(node: Node, axis: int | None, op: str) -> int | None:
    """The axis along which a place is looked for; None for the flattened array."""
    axes = () if axis is None else reduction_axes(axis, len(node.shape), op)
    return axes[0] if axes else None


@public()
def argmax(
    a: ArrayLike, axis: int | None = None, out: Out = None, *, keepdims: bool = False
) -> Array:
    """Index of the first greatest element along `axis`, or in the flattened array."""
    node = lift(a, "argmax")
    return store(out, wrap(make(ArgMax(_place(node, axis, "argmax"), keepdims), (node,))), "argmax")


@public()
def argmin(
    a: ArrayLike, axis: int | None = None, out: Out = None, *, keepdims: bool = False
) -> Array:
    """Index of the first least element along `axis`, or in the flattened array."""
    node = lift(a, "argmin")
    return store(out, wrap(make(ArgMin(_place(node, axis, "argmin"), keepdims), (node,))), "argmin")


@public()
def logsumexp(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """`log(sum(exp(x)))` over `axis`, without overflow; -inf where there is no element.

    - `x`: the array.
    - `axis`: the axis or axes to sum over; all when None.
    - `keepdims`: keep those axes, of size 1.

    Gives floating-point numbers.

        round(float(np.logsumexp([1000.0, 1000.0])), 4)   # -> 1000.6931
    """
    node = lift(x, "logsumexp")
    op = LogSumExp(
        normalise_axes(axis, len(node.shape), "logsumexp"), keepdims, dt.inexact_dtype(node.dtype)
    )
    return wrap(make(op, (node,)))
