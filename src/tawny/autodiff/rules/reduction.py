"""Reductions over axes, and running sums and products along one."""

from __future__ import annotations

import math

import numpy as np

from tawny.array import Array, wrap
from tawny.autodiff.rules.registry import reverse
from tawny.autodiff.rules.zero_safe import scale_cotangent
from tawny.node import Node, make, scalar
from tawny.numpy.composite import where
from tawny.ops import elementwise as e
from tawny.ops.indexing import slice_node
from tawny.ops.joining import Pad
from tawny.ops.movement import broadcast_node, flip_node, reshape_node, transpose_node
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
from tawny.shape import reduction_shape, size


def _keep_axes(op: Reduction, reduction: Array, x: Array) -> Array:
    """A reduction of `x`, or its cotangent, with the reduced axes in place and of size 1."""
    return wrap(reshape_node(reduction.node, reduction_shape(x.shape, op.axes, keepdims=True)))


def _count(op: Reduction, x: Array) -> int:
    """How many elements are reduced to one."""
    return size(tuple([x.shape[a] for a in op.axes]))


@reverse(Sum)
def _(op: Sum, cotangent: Array, y: Array, x: Array) -> Array:
    return wrap(broadcast_node(_keep_axes(op, cotangent, x).node, x.shape))


@reverse(Mean)
def _(op: Mean, cotangent: Array, y: Array, x: Array) -> Array | None:
    count = _count(op, x)
    if not count:
        return None
    share = e.multiply(_keep_axes(op, cotangent, x), 1 / count)
    return wrap(broadcast_node(share.node, x.shape))


@reverse(Var)
def _(op: Var, cotangent: Array, y: Array, x: Array) -> Array | None:
    """The change of the mean has no effect: the distances from it sum to zero."""
    if not x.size:
        return None
    left = _count(op, x) - op.correction
    away = e.subtract(x, mean(x, axis=op.axes, keepdims=True))
    scale = e.multiply(_keep_axes(op, cotangent, x), 2 / left if left > 0 else math.inf)
    return scale_cotangent(scale, e.conj(away) if x.dtype.kind == "c" else away)


@reverse(Max)
@reverse(Min)
def _(op: Max | Min, cotangent: Array, y: Array, x: Array) -> Array:
    """Elements that share the extreme share the cotangent, equally; if it is NaN none has any."""
    extreme = e.equal(x, _keep_axes(op, y, x))
    count = make(Sum(op.axes, True, x.dtype), (extreme.node,))
    shares: Array = where(extreme, e.divide(_keep_axes(op, cotangent, x), wrap(count)), 0)
    return shares


@reverse(LogSumExp)
def _(op: LogSumExp, cotangent: Array, y: Array, x: Array) -> Array:
    """Infinities stay out of the difference of `x` and the result.

    A result of -inf passes on no cotangent, one of +inf passes all of it to each element that is
    +inf, and nothing to the others.
    """
    most = float(np.finfo(op.dtype).max)
    away = e.subtract(e.minimum(x, most), e.clip(_keep_axes(op, y, x), -most, most))
    return scale_cotangent(_keep_axes(op, cotangent, x), e.exp(away))


# --------------------------------------------------------------------- products


@reverse(Prod)
def _(op: Prod, cotangent: Array, y: Array, x: Array) -> Array | None:
    """The derivative in an element is the product of the others, found without dividing by it.

    So it is right where elements are zero, and so are its own derivatives.
    """
    if not x.size:
        return None
    if _count(op, x) == 1:
        return wrap(reshape_node(cotangent.node, x.shape))
    if len(op.axes) == 1:
        return scale_cotangent(
            _keep_axes(op, cotangent, x), wrap(_other_factors(x.node, op.axes[0]))
        )
    kept = tuple([a for a in range(x.ndim) if a not in op.axes])
    order = (*kept, *op.axes)
    lanes = transpose_node(x.node, order)
    flat = reshape_node(lanes, (*[x.shape[a] for a in kept], _count(op, x)))
    others = reshape_node(_other_factors(flat, len(kept)), lanes.shape)
    back = tuple(sorted(range(x.ndim), key=order.__getitem__))
    return scale_cotangent(_keep_axes(op, cotangent, x), wrap(transpose_node(others, back)))


def _other_factors(x: Node, axis: int) -> Node:
    """For each element the product of all others along `axis`."""
    before = _products_before(x, axis)
    behind = flip_node(_products_before(flip_node(x, (axis,)), axis), (axis,))
    return e.multiply(wrap(before), wrap(behind)).node


def _products_before(x: Node, axis: int) -> Node:
    """For each element the product of those before it along `axis`."""
    running = CumulativeProd(axis, x.dtype, include_initial=True)
    return make(running, (slice_node(x, axis, slice(0, -1)),))


# ----------------------------------------------------------------- running folds


@reverse(CumulativeSum)
def _(op: CumulativeSum, cotangent: Array, y: Array, x: Array) -> Array:
    given = slice_node(cotangent.node, op.axis, slice(int(op.include_initial), None))
    running = CumulativeSum(op.axis, cotangent.dtype, include_initial=False)
    return wrap(flip_node(make(running, (flip_node(given, (op.axis,)),)), (op.axis,)))


@reverse(CumulativeProd)
def _(op: CumulativeProd, cotangent: Array, y: Array, x: Array) -> Array | None:
    """The product of the elements before, times what the elements behind make of the cotangents.

    The latter is `r[i] = cotangent[i] + x[i + 1] * r[i + 1]`, found without dividing by an element,
    over twice the distance in each round.
    """
    n = x.shape[op.axis]
    if not x.size:
        return None
    total = wrap(slice_node(cotangent.node, op.axis, slice(int(op.include_initial), None)))
    factor = _later(x, op.axis, 1)
    distance = 1
    while distance < n:
        total = e.add(total, scale_cotangent(_later(total, op.axis, distance), factor))
        if 2 * distance < n:
            factor = e.multiply(factor, _later(factor, op.axis, distance))
        distance *= 2
    before = slice_node(y.node, op.axis, slice(0, -1))
    if not op.include_initial:
        before = _pad(before, op.axis, (1, 0), 1)
    return scale_cotangent(total, wrap(before))


def _later(x: Array, axis: int, distance: int) -> Array:
    """The elements `distance` places behind along `axis`; zeros beyond the end."""
    return wrap(_pad(slice_node(x.node, axis, slice(distance, None)), axis, (0, distance), 0))


def _pad(node: Node, axis: int, width: tuple[int, int], fill: int) -> Node:
    widths = tuple(width if a == axis else (0, 0) for a in range(len(node.shape)))
    return make(Pad(widths), (node, scalar(fill, node.dtype, "cumulative_prod")))
