"""Reductions over axes, and running sums and products along one."""

from __future__ import annotations

import math

import numpy as np

from tawny.array import Array, wrap
from tawny.autodiff.rules.quiet import times
from tawny.autodiff.rules.registry import reverse
from tawny.node import Node, make, scalar
from tawny.ops import elementwise as e
from tawny.ops.composite import where
from tawny.ops.indexing import sliced
from tawny.ops.joining import Pad
from tawny.ops.movement import broadcasted, flipped, permuted, reshaped
from tawny.ops.reduction import (
    CumulativeProd,
    CumulativeSum,
    LogSumExp,
    Max,
    Mean,
    Min,
    Prod,
    Reduction,
    Sum,
    Var,
    mean,
)
from tawny.shape import reduced, size


def _kept(op: Reduction, reduction: Array, x: Array) -> Array:
    """A reduction of `x`, or its slope, with the reduced axes in place and of size 1."""
    return wrap(reshaped(reduction.node, reduced(x.shape, op.axes, keepdims=True)))


def _count(op: Reduction, x: Array) -> int:
    """How many elements are reduced to one."""
    return size(tuple([x.shape[a] for a in op.axes]))


@reverse(Sum)
def _(op: Sum, slope: Array, y: Array, x: Array) -> Array:
    return wrap(broadcasted(_kept(op, slope, x).node, x.shape))


@reverse(Mean)
def _(op: Mean, slope: Array, y: Array, x: Array) -> Array | None:
    count = _count(op, x)
    if not count:
        return None
    share = e.multiply(_kept(op, slope, x), 1 / count)
    return wrap(broadcasted(share.node, x.shape))


@reverse(Var)
def _(op: Var, slope: Array, y: Array, x: Array) -> Array | None:
    """Where the mean goes matters not: the distances from it sum to zero."""
    if not x.size:
        return None
    left = _count(op, x) - op.correction
    away = e.subtract(x, mean(x, axis=op.axes, keepdims=True))
    scale = e.multiply(_kept(op, slope, x), 2 / left if left > 0 else math.inf)
    return times(scale, e.conj(away) if x.dtype.kind == "c" else away)


@reverse(Max)
@reverse(Min)
def _(op: Max | Min, slope: Array, y: Array, x: Array) -> Array:
    """Elements that share the extreme share the slope, equally; if it is NaN none has a slope."""
    extreme = e.equal(x, _kept(op, y, x))
    count = make(Sum(op.axes, True, x.dtype), (extreme.node,))
    shares: Array = where(extreme, e.divide(_kept(op, slope, x), wrap(count)), 0)
    return shares


@reverse(LogSumExp)
def _(op: LogSumExp, slope: Array, y: Array, x: Array) -> Array:
    """Infinities stay out of the difference of `x` and the result.

    A result of -inf passes on no slope, one of +inf only to elements that are +inf: all of it to
    each.
    """
    most = float(np.finfo(op.dtype).max)
    away = e.subtract(e.minimum(x, most), e.clip(_kept(op, y, x), -most, most))
    return times(_kept(op, slope, x), e.exp(away))


# --------------------------------------------------------------------- products


@reverse(Prod)
def _(op: Prod, slope: Array, y: Array, x: Array) -> Array | None:
    """Each element's slope is the product of the others, found without dividing by it.

    So it is right where elements are zero, and so are its own derivatives.
    """
    if not x.size:
        return None
    if _count(op, x) == 1:
        return wrap(reshaped(slope.node, x.shape))
    if len(op.axes) == 1:
        return times(_kept(op, slope, x), wrap(_other_factors(x.node, op.axes[0])))
    kept = tuple([a for a in range(x.ndim) if a not in op.axes])
    order = (*kept, *op.axes)
    lanes = permuted(x.node, order)
    flat = reshaped(lanes, (*[x.shape[a] for a in kept], _count(op, x)))
    others = reshaped(_other_factors(flat, len(kept)), lanes.shape)
    back = tuple(sorted(range(x.ndim), key=order.__getitem__))
    return times(_kept(op, slope, x), wrap(permuted(others, back)))


def _other_factors(x: Node, axis: int) -> Node:
    """For each element the product of all others along `axis`."""
    before = _products_before(x, axis)
    behind = flipped(_products_before(flipped(x, (axis,)), axis), (axis,))
    return e.multiply(wrap(before), wrap(behind)).node


def _products_before(x: Node, axis: int) -> Node:
    """For each element the product of those before it along `axis`."""
    running = CumulativeProd(axis, x.dtype, include_initial=True)
    return make(running, (sliced(x, axis, slice(0, -1)),))


# ----------------------------------------------------------------- running folds


@reverse(CumulativeSum)
def _(op: CumulativeSum, slope: Array, y: Array, x: Array) -> Array:
    given = sliced(slope.node, op.axis, slice(int(op.include_initial), None))
    running = CumulativeSum(op.axis, slope.dtype, include_initial=False)
    return wrap(flipped(make(running, (flipped(given, (op.axis,)),)), (op.axis,)))


@reverse(CumulativeProd)
def _(op: CumulativeProd, slope: Array, y: Array, x: Array) -> Array | None:
    """The product of the elements before, times what the elements behind make of the slopes.

    The latter is `r[i] = slope[i] + x[i + 1] * r[i + 1]`, found without dividing by an element,
    over twice the distance in each round.
    """
    n = x.shape[op.axis]
    if not x.size:
        return None
    total = wrap(sliced(slope.node, op.axis, slice(int(op.include_initial), None)))
    factor = _later(x, op.axis, 1)
    distance = 1
    while distance < n:
        total = e.add(total, times(_later(total, op.axis, distance), factor))
        if 2 * distance < n:
            factor = e.multiply(factor, _later(factor, op.axis, distance))
        distance *= 2
    before = sliced(y.node, op.axis, slice(0, -1))
    if not op.include_initial:
        before = _padded(before, op.axis, (1, 0), 1)
    return times(total, wrap(before))


def _later(x: Array, axis: int, distance: int) -> Array:
    """The elements `distance` places behind along `axis`; zeros beyond the end."""
    return wrap(_padded(sliced(x.node, axis, slice(distance, None)), axis, (0, distance), 0))


def _padded(node: Node, axis: int, width: tuple[int, int], fill: int) -> Node:
    widths = tuple(width if a == axis else (0, 0) for a in range(len(node.shape)))
    return make(Pad(widths), (node, scalar(fill, node.dtype, "cumulative_prod")))
