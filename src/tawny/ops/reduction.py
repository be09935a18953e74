"""Reductions over axes, and running sums and products along one."""

from __future__ import annotations

from typing import Any

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.dtype import DType, as_dtype, check_categories
from tawny.errors import type_error, value_error
from tawny.node import Node, make
from tawny.op import Domain, Gradient, Op, Trait, real, truth
from tawny.operator import emit, public
from tawny.ops import elementwise as e
from tawny.ops.creation import Cast, asarray
from tawny.ops.differentiation import distance, stop_gradient
from tawny.ops.movement import broadcasted, permuted, reshaped
from tawny.shape import (
    Shape,
    normalise_axes,
    normalise_axis,
    ordered_axes,
    reduced,
    replaced,
)

Axis = int | tuple[int, ...] | None


class Reduction(Op):
    """An op that folds `axes` into one element each."""

    axes: tuple[int, ...]
    keepdims: bool

    def infer_shape(self, *shapes: Shape) -> Shape:
        return reduced(shapes[0], self.axes, self.keepdims)


class Accumulation(Reduction):
    """A reduction that says which dtype it adds or multiplies in."""

    dtype: DType

    def infer_dtype(self, *dtypes: DType) -> DType:
        super().infer_dtype(*dtypes)
        return self.dtype


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


class Sum(Accumulation, name="sum", identity=0, oracle="numpy.sum", gradient=Gradient.LINEAR):
    """Sum over axes."""


class Prod(
    Accumulation,
    name="prod",
    identity=1,
    domain=Domain(-2.0, 2.0),
    gradient=Gradient.RULE,
    oracle="numpy.prod",
):
    """Product over axes."""


class Mean(Accumulation, name="mean", oracle="numpy.mean", gradient=Gradient.LINEAR):
    """Arithmetic mean over axes."""


class Var(Accumulation, name="var", oracle="numpy.var", gradient=Gradient.RULE):
    """Mean squared distance from the mean; `correction` is subtracted from the count."""

    correction: float

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.real_dtype(super().infer_dtype(*dtypes))


class Max(
    Extremum, name="max", traits=Trait.IDEMPOTENT, oracle="numpy.max", gradient=Gradient.RULE
):
    """Greatest element over axes; NaN if there is one."""


class Min(
    Extremum, name="min", traits=Trait.IDEMPOTENT, oracle="numpy.min", gradient=Gradient.RULE
):
    """Least element over axes; NaN if there is one."""


class AllTrue(
    Reduction, name="all", dtype=truth, identity=1, gradient=Gradient.ZERO, oracle="numpy.all"
):
    """Whether every element over axes is true."""


class AnyTrue(
    Reduction, name="any", dtype=truth, identity=0, gradient=Gradient.ZERO, oracle="numpy.any"
):
    """Whether some element over axes is true."""


class LogSumExp(
    Accumulation,
    name="logsumexp",
    dtype=real,
    oracle="scipy.special.logsumexp",
    gradient=Gradient.RULE,
):
    """`log(sum(exp(x)))` over axes, without overflow."""


class ArgExtremum(Op):
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
        return reduced(shape, axes, self.keepdims)

    def infer_dtype(self, *dtypes: DType) -> DType:
        super().infer_dtype(*dtypes)
        return dt.INT64


class ArgMax(ArgExtremum, name="argmax", gradient=Gradient.ZERO, oracle="numpy.argmax"):
    """Index of the first greatest element."""


class ArgMin(ArgExtremum, name="argmin", gradient=Gradient.ZERO, oracle="numpy.argmin"):
    """Index of the first least element."""


class Scan(Op):
    """A running fold along `axis`, of the same length or one longer."""

    axis: int
    dtype: DType
    include_initial: bool

    def infer_shape(self, *shapes: Shape) -> Shape:
        (shape,) = shapes
        return replaced(shape, self.axis, shape[self.axis] + self.include_initial)

    def infer_dtype(self, *dtypes: DType) -> DType:
        super().infer_dtype(*dtypes)
        return self.dtype


class CumulativeSum(
    Scan, name="cumulative_sum", identity=0, oracle="numpy.cumulative_sum", gradient=Gradient.LINEAR
):
    """Running sum."""


class CumulativeProd(
    Scan,
    name="cumulative_prod",
    gradient=Gradient.RULE,
    identity=1,
    domain=Domain(-2.0, 2.0),
    oracle="numpy.cumulative_prod",
):
    """Running product."""


# ------------------------------------------------------------ public functions


def _accumulator(node: Node, dtype: Any, op: str) -> DType:
    return dt.sum_dtype(node.dtype) if dtype is None else as_dtype(dtype, op)


def _mean_dtype(node: Node, dtype: Any, op: str) -> DType:
    return dt.inexact_dtype(node.dtype) if dtype is None else as_dtype(dtype, op)


def _converted(node: Node, dtype: DType) -> Node:
    """`node` as `dtype` where adding in it without converting first would lose something."""
    return node if node.dtype == dtype or node.dtype.kind in "biu" else make(Cast(dtype), (node,))


@public()
def sum(x: ArrayLike, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Sum of the elements of `x` over `axis` (all axes when None)."""
    node = lift(x, "sum")
    wanted = _accumulator(node, dtype, "sum")
    axes = normalise_axes(axis, len(node.shape), "sum")
    return wrap(make(Sum(axes, keepdims, wanted), (_converted(node, wanted),)))


@public()
def prod(x: ArrayLike, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Product of the elements of `x` over `axis` (all axes when None)."""
    node = lift(x, "prod")
    wanted = _accumulator(node, dtype, "prod")
    axes = normalise_axes(axis, len(node.shape), "prod")
    return wrap(make(Prod(axes, keepdims, wanted), (_converted(node, wanted),)))


@public()
def mean(x: ArrayLike, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Arithmetic mean of `x` over `axis`; NaN where there is no element."""
    node = lift(x, "mean")
    wanted = _mean_dtype(node, dtype, "mean")
    axes = normalise_axes(axis, len(node.shape), "mean")
    return wrap(make(Mean(axes, keepdims, wanted), (_converted(node, wanted),)))


def _correction(correction: float, ddof: float | None, op: str) -> float:
    value = correction if ddof is None else ddof
    if isinstance(value, bool) or not isinstance(value, (int, float)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise type_error(op, f"correction must be a real number, not {value!r}")
    return float(value)


@public()
def var(
    x: ArrayLike,
    /,
    *,
    axis: Axis = None,
    correction: float = 0.0,
    keepdims: bool = False,
    ddof: float | None = None,
) -> Array:
    """Variance of `x` over `axis`; the divisor is the count less `correction`."""
    node = lift(x, "var")
    axes = normalise_axes(axis, len(node.shape), "var")
    op = Var(axes, keepdims, dt.inexact_dtype(node.dtype), _correction(correction, ddof, "var"))
    return wrap(make(op, (node,)))


@public()
def std(
    x: ArrayLike,
    /,
    *,
    axis: Axis = None,
    correction: float = 0.0,
    keepdims: bool = False,
    ddof: float | None = None,
) -> Array:
    """Standard deviation of `x` over `axis`; the divisor is the count less `correction`."""
    node = lift(x, "std")
    axes = normalise_axes(axis, len(node.shape), "std")
    op = Var(axes, keepdims, dt.inexact_dtype(node.dtype), _correction(correction, ddof, "std"))
    return wrap(make(distance, (make(op, (node,)),)))


@public("amax")
def max(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Greatest element of `x` over `axis`; NaN if there is one."""
    node = lift(x, "max")
    return wrap(make(Max(normalise_axes(axis, len(node.shape), "max"), keepdims), (node,)))


@public("amin")
def min(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Least element of `x` over `axis`; NaN if there is one."""
    node = lift(x, "min")
    return wrap(make(Min(normalise_axes(axis, len(node.shape), "min"), keepdims), (node,)))


@public()
def all(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether every element of `x` over `axis` is true."""
    node = lift(x, "all")
    return wrap(make(AllTrue(normalise_axes(axis, len(node.shape), "all"), keepdims), (node,)))


@public()
def any(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether some element of `x` over `axis` is true."""
    node = lift(x, "any")
    return wrap(make(AnyTrue(normalise_axes(axis, len(node.shape), "any"), keepdims), (node,)))


@public()
def argmax(x: ArrayLike, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Index of the first greatest element along `axis`, or in the flattened array."""
    node = lift(x, "argmax")
    place = None if axis is None else normalise_axis(axis, len(node.shape), "argmax")
    return wrap(make(ArgMax(place, keepdims), (node,)))


@public()
def argmin(x: ArrayLike, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Index of the first least element along `axis`, or in the flattened array."""
    node = lift(x, "argmin")
    place = None if axis is None else normalise_axis(axis, len(node.shape), "argmin")
    return wrap(make(ArgMin(place, keepdims), (node,)))


@public()
def logsumexp(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """`log(sum(exp(x)))` over `axis`, without overflow; -inf where there is no element."""
    node = lift(x, "logsumexp")
    op = LogSumExp(
        normalise_axes(axis, len(node.shape), "logsumexp"), keepdims, dt.inexact_dtype(node.dtype)
    )
    return wrap(make(op, (node,)))


@public()
def softmax(x: ArrayLike, /, *, axis: int = -1) -> Array:
    """`exp(x)` scaled to sum to one along `axis`, without overflow."""
    array = asarray(x)
    normalise_axis(axis, array.ndim, "softmax")
    greatest = stop_gradient(max(array, axis=axis, keepdims=True))  # any shift gives the same
    weights = e.exp(e.subtract(array, greatest))
    return e.divide(weights, sum(weights, axis=axis, keepdims=True))


@public()
def log_softmax(x: ArrayLike, /, *, axis: int = -1) -> Array:
    """Logarithm of `softmax`, accurate also where that is tiny."""
    array = asarray(x)
    normalise_axis(axis, array.ndim, "log_softmax")
    return e.subtract(array, logsumexp(array, axis=axis, keepdims=True))


def _scan(
    op: type[Scan], name: str, x: ArrayLike, axis: int | None, dtype: Any, include_initial: bool
) -> Array:
    node = lift(x, name)
    if axis is None:
        if len(node.shape) != 1:
            raise value_error(
                name, f"operand 0 has shape {node.shape}; axis is needed unless it has one axis"
            )
        axis = 0
    wanted = _accumulator(node, dtype, name)
    place = normalise_axis(axis, len(node.shape), name)
    return wrap(make(op(place, wanted, include_initial), (_converted(node, wanted),)))


@public()
def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running sum of `x` along `axis`, starting with 0 if `include_initial`."""
    return _scan(CumulativeSum, "cumulative_sum", x, axis, dtype, include_initial)


@public()
def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running product of `x` along `axis`, starting with 1 if `include_initial`."""
    return _scan(CumulativeProd, "cumulative_prod", x, axis, dtype, include_initial)


@public()
def count_nonzero(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Number of elements over `axis` that are not zero."""
    array = asarray(x)
    return sum(e.not_equal(array, 0), axis=axis, keepdims=keepdims)


@public()
def ptp(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Greatest less least element over `axis`."""
    return e.subtract(max(x, axis=axis, keepdims=keepdims), min(x, axis=axis, keepdims=keepdims))


@public()
def average(
    x: ArrayLike,
    /,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """Mean over `axis`, weighted by `weights` of the shape of `x` or of those axes.

    With `returned`, the sum of the weights comes too.
    """
    array = asarray(x)
    if weights is None:
        result = mean(array, axis=axis, keepdims=keepdims)
        total = asarray(array.size / result.size if result.size else 0, dtype=result.dtype)
    else:
        weight = _spread(asarray(weights), array.shape, axis)
        least = [dt.FLOAT64] if array.dtype.kind in "biu" else []
        common = dt.promote(array.dtype, weight.dtype, *least)
        array, weight = asarray(array, dtype=common), asarray(weight, dtype=common)
        total = sum(weight, axis=axis, keepdims=keepdims)
        result = e.divide(sum(e.multiply(array, weight), axis=axis, keepdims=keepdims), total)
    return (result, wrap(broadcasted(total.node, result.shape))) if returned else result


def _spread(weight: Array, shape: Shape, axis: Axis) -> Array:
    """Weights along `axis` as an array of `shape`."""
    if weight.shape == shape:
        return weight
    if axis is None:
        raise type_error(
            "average",
            f"weights have shape {weight.shape} and operand 0 {shape}; axis is needed unless they "
            "are equal",
        )
    axes = ordered_axes(axis if isinstance(axis, tuple) else (axis,), len(shape), "average")
    sizes = tuple(shape[a] for a in axes)
    if weight.shape != sizes:
        raise value_error(
            "average",
            f"weights have shape {weight.shape}; accepted: {shape}, that of operand 0, or {sizes}, "
            f"that of axis {axis}",
        )
    ordered = permuted(weight.node, tuple(sorted(range(len(axes)), key=axes.__getitem__)))
    aligned = reshaped(ordered, tuple(n if a in axes else 1 for a, n in enumerate(shape)))
    return wrap(broadcasted(aligned, shape))


# ------------------------------------------------------------- ignoring NaN


def _without_nan(x: ArrayLike, instead: float) -> tuple[Array, Array]:
    """`x` with `instead` where it is NaN, and where it was not."""
    array = asarray(x)
    if array.dtype.kind not in "fc":
        return array, e.equal(array, array)
    missing = e.isnan(array)
    filler = asarray(instead, dtype=array.dtype)
    return e.where(missing, filler, array), e.logical_not(missing)


@public()
def nansum(
    x: ArrayLike, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False
) -> Array:
    """Sum over `axis`, NaN counted as 0."""
    return sum(_without_nan(x, 0.0)[0], axis=axis, dtype=dtype, keepdims=keepdims)


@public()
def nanprod(
    x: ArrayLike, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False
) -> Array:
    """Product over `axis`, NaN counted as 1."""
    return prod(_without_nan(x, 1.0)[0], axis=axis, dtype=dtype, keepdims=keepdims)


@public()
def nanmean(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Mean over `axis` of the elements that are not NaN."""
    values, there = _without_nan(x, 0.0)
    count = sum(there, axis=axis, keepdims=keepdims)
    total = sum(values, axis=axis, keepdims=keepdims)
    return e.divide(total, _converted_count(count, total.dtype))


def _converted_count(count: Array, dtype: DType) -> Array:
    return wrap(make(Cast(dt.real_dtype(dt.inexact_dtype(dtype))), (count.node,)))


@public()
def nanvar(x: ArrayLike, /, *, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Array:
    """Variance over `axis` of the elements that are not NaN."""
    values, there = _without_nan(x, 0.0)
    centre = nanmean(x, axis=axis, keepdims=True)
    away = e.where(there, e.subtract(values, centre), asarray(0, dtype=centre.dtype))
    squares = sum(e.square(e.abs(away)), axis=axis, keepdims=keepdims)
    count = _converted_count(sum(there, axis=axis, keepdims=keepdims), squares.dtype)
    divisor = e.subtract(count, ddof)
    nothing = asarray(float("nan"), dtype=squares.dtype)
    return e.where(e.greater(divisor, 0), e.divide(squares, divisor), nothing)


@public()
def nanstd(x: ArrayLike, /, *, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Array:
    """Standard deviation over `axis` of the elements that are not NaN."""
    return emit(distance, nanvar(x, axis=axis, ddof=ddof, keepdims=keepdims))


def _nan_extremum(name: str, x: ArrayLike, axis: Axis, keepdims: bool, worst: float) -> Array:
    values, there = _without_nan(x, worst)
    check_categories(name, 0, values.dtype, dt.REAL)
    reduce = max if worst < 0 else min
    best = reduce(values, axis=axis, keepdims=keepdims)
    if values.dtype.kind != "f":
        return best
    some = any(there, axis=axis, keepdims=keepdims)
    return e.where(some, best, asarray(float("nan"), dtype=values.dtype))


@public()
def nanmax(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Greatest element over `axis` that is not NaN."""
    return _nan_extremum("nanmax", x, axis, keepdims, float("-inf"))


@public()
def nanmin(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Least element over `axis` that is not NaN."""
    return _nan_extremum("nanmin", x, axis, keepdims, float("inf"))
