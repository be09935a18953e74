"""Padding: elements put around an array, by one of NumPy's rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, known_value, lift, wrap
from tawny.dtype import kind_of
from tawny.errors import value_error
from tawny.node import Node, Value, constant, make
from tawny.numpy.grids import linspace
from tawny.numpy.statistics import median
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops import reduction
from tawny.ops.assignment import assignment_value
from tawny.ops.creation import asarray, astype
from tawny.ops.indexing import Pad, slice_node, take_node
from tawny.ops.joining import concat, known_integers
from tawny.ops.movement import Copy, broadcast_node, flip_node, reshape_node
from tawny.shape import normalise_axis

Widths = tuple[tuple[int, int], ...]

Statistic = Callable[..., Array]

STATISTICS: Final[dict[str, Statistic]] = {
    "maximum": reduction.max,
    "mean": reduction.mean,
    "median": median,
    "minimum": reduction.min,
}

OPTIONS: Final = {
    "constant": "constant_values",
    "edge": None,
    "wrap": None,
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    "linear_ramp": "end_values",
    **dict.fromkeys(STATISTICS, "stat_length"),
    "empty": None,
}
"""The modes, and the argument that each takes."""


@public()
def pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """`array` with elements put before and after it along each axis.

    `pad_width` is a number, a pair (before, after), a pair for each axis, or a dictionary from
    axes to numbers or pairs.  `constant_values` (of mode "constant"; it may be a lazy array) and
    `end_values` ("linear_ramp") likewise; `stat_length` says how many elements "maximum", "mean",
    "median" and "minimum" look at, `reflect_type` whether "reflect" and "symmetric" are "even" or
    "odd".  A function as NumPy takes it needs values that are known.
    """
    node = lift(array, "pad")
    if callable(mode):
        return _by_function(wrap(node), pad_width, mode, kwargs)
    if mode not in OPTIONS:
        accepted = ", ".join(map(repr, OPTIONS))
        raise value_error("pad", f"mode {mode!r} is not known; accepted: {accepted}, a function")
    for word in kwargs:
        if word != OPTIONS[mode]:
            takes = OPTIONS[mode] or "none"
            raise value_error(
                "pad", f"argument {word!r} is not taken in mode {mode!r}; accepted: {takes}"
            )
    widths = _widths(pad_width, len(node.shape))
    result = _pad_by_mode(node, widths, mode, kwargs)
    return wrap(make(Copy(), (node,))) if result is node else wrap(result)


def _by_function(array: Array, pad_width: Any, function: Any, options: dict[str, Any]) -> Array:
    """The array padded by a Python function that changes vectors in place."""
    value = known_value(array, "pad", "a function needs values: use a mode, or tw.delay")
    by_numpy = cast("Callable[..., Value]", np.pad)
    return wrap(constant(by_numpy(value, pad_width, mode=function, **options)))


def _pad_by_mode(node: Node, widths: Widths, mode: str, options: Mapping[str, Any]) -> Node:
    """`node` padded by one of the named modes."""
    if mode in ("constant", "empty"):
        return _pad_constant(node, widths, options.get("constant_values", 0))
    for axis, width in enumerate(widths):
        if any(width) and not node.shape[axis]:
            raise value_error(
                "pad",
                f"operand 0 has shape {node.shape}; mode {mode!r} cannot extend empty axis {axis}",
            )
    kind = options.get("reflect_type", "even")
    if kind not in ("even", "odd"):
        raise value_error("pad", f"reflect_type is {kind!r}; accepted: 'even', 'odd'")
    if mode in STATISTICS:
        return _pad_statistic(node, widths, mode, options.get("stat_length"))
    if mode == "linear_ramp":
        return _pad_ramp(node, widths, options.get("end_values", 0))
    if kind == "odd":
        return _pad_odd(node, widths, mode)
    return _pad_indexed(node, widths, mode)


def _pad_indexed(node: Node, widths: Widths, mode: str) -> Node:
    """Elements picked along each axis, in the order NumPy's `pad` puts their indices."""
    for axis, width in enumerate(widths):
        if width != (0, 0):
            places = np.arange(node.shape[axis])
            order = cast("Callable[..., Value]", np.pad)(places, width, mode=mode)
            node = take_node(node, axis, constant(order))
    return node


def _pad_odd(node: Node, widths: Widths, mode: str) -> Node:
    """Elements mirrored at both ends, there and in height, as often as it takes."""
    skipped = int(mode == "reflect")  # the end itself, which is not repeated
    for axis, width in enumerate(widths):
        period = node.shape[axis] - skipped
        if not period:  # a single element: nothing to mirror but itself
            node = take_node(node, axis, constant(np.zeros(1 + sum(width), np.int64)))
            continue
        left, right = width
        while left or right:
            sizes = min(left, period), min(right, period)
            node = _reflect_odd(node, axis, sizes, skipped)
            left, right = left - sizes[0], right - sizes[1]
    return node


def _reflect_odd(node: Node, axis: int, sizes: tuple[int, int], skipped: int) -> Node:
    """`node` with as many elements of both ends turned about the last one there."""
    n = node.shape[axis]
    left, right = (skipped, skipped + sizes[0]), (n - skipped - sizes[1], n - skipped)
    sides: list[Array] = []
    for place, part in ((0, left), (n - 1, right)):
        double = e.multiply(wrap(slice_node(node, axis, slice(place, place + 1))), 2)
        turned = wrap(flip_node(slice_node(node, axis, slice(*part)), (axis,)))
        sides.append(e.subtract(double, turned))
    return concat([sides[0], wrap(node), sides[1]], axis).node


def _pad_statistic(node: Node, widths: Widths, mode: str, lengths: Any) -> Node:
    """Each side filled with a statistic of the elements next to it."""
    rank = len(node.shape)
    counts = None if lengths is None else _widths(lengths, rank, "stat_length")
    for axis, width in enumerate(widths):
        if width == (0, 0):
            continue
        n = node.shape[axis]
        seen = (n, n) if counts is None else tuple(min(n, k) for k in counts[axis])
        if 0 in seen:
            raise value_error("pad", f"stat_length is {lengths}; a statistic needs an element")
        parts = (slice(0, seen[0]), slice(n - seen[1], n))
        fills = [_statistic(slice_node(node, axis, part), axis, mode) for part in parts]
        node = _surround(node, fills, axis, width)
    return node


def _statistic(node: Node, axis: int, mode: str) -> Node:
    """A statistic along `axis`, rounded if the elements are integers."""
    result = STATISTICS[mode](wrap(node), axis=axis, keepdims=True)
    whole = kind_of(node.dtype) in "iu" and kind_of(result.dtype) == "f"
    return asarray(e.rint(result) if whole else result, dtype=node.dtype).node


def _surround(node: Node, fills: list[Node], axis: int, width: tuple[int, int]) -> Node:
    """`node` between two slices that are repeated along `axis`."""
    sides = [
        wrap(broadcast_node(f, (*f.shape[:axis], k, *f.shape[axis + 1 :])))
        for f, k in zip(fills, width, strict=True)
    ]
    return concat([sides[0], wrap(node), sides[1]], axis).node


def _pad_ramp(node: Node, widths: Widths, ends: Any) -> Node:
    """Each side a straight line from an end value to the element next to it."""
    values = broadcast_node(assignment_value(ends, node.dtype, "pad"), (len(widths), 2))
    for axis, width in enumerate(widths):
        n = node.shape[axis]
        ramps: list[Array] = []
        for side, place in enumerate((0, n - 1)):
            value = slice_node(
                slice_node(values, 0, slice(axis, axis + 1)), 1, slice(side, side + 1)
            )
            edge = reduction.sum(wrap(slice_node(node, axis, slice(place, place + 1))), axis)
            start = astype(wrap(reshape_node(value, ())), edge.dtype, copy=False)
            ramp = linspace(start, edge, width[side], endpoint=False, dtype=node.dtype, axis=axis)
            ramps.append(wrap(flip_node(ramp.node, (axis,))) if side else ramp)
        node = concat([ramps[0], wrap(node), ramps[1]], axis).node
    return node


def _widths(pad_width: Any, rank: int, word: str = "pad_width") -> Widths:
    """A pair (before, after) for each axis."""
    if isinstance(pad_width, Mapping):
        pairs = [(0, 0)] * rank
        for axis, width in cast("Mapping[int, Any]", pad_width).items():
            place = normalise_axis(axis, rank, "pad")
            pairs[place] = _pairs(known_integers(width, "pad", word), 1, word)[0]
    else:
        pairs = _pairs(known_integers(pad_width, "pad", word), rank, word)
    if any(n < 0 for pair in pairs for n in pair):
        raise value_error("pad", f"{word} is {tuple(pairs)}; each must be at least 0")
    return tuple(pairs)


def _pairs(value: Value, rank: int, word: str) -> list[tuple[int, int]]:
    try:
        pairs = np.broadcast_to(value, (rank, 2))
    except ValueError:
        raise value_error(
            "pad",
            f"{word} has shape {value.shape}; accepted: a number, a pair, or a pair for each of "
            f"{rank} axes",
        ) from None
    return [(int(before), int(after)) for before, after in pairs]


def _pad_constant(node: Node, widths: Widths, values: Any) -> Node:
    """One fill value is one `Pad`; a value for each side is a `Pad` for each, in order of axes."""
    if dt.is_weak(values):
        return make(Pad(widths), (node, assignment_value(values, node.dtype, "pad")))
    fills = assignment_value(values, node.dtype, "pad")
    if all(n == 1 for n in fills.shape):
        return make(Pad(widths), (node, reshape_node(fills, ())))
    pairs = broadcast_node(fills, (len(widths), 2))
    for axis, width in enumerate(widths):
        for side in (0, 1):
            only = [(0, 0)] * len(widths)
            only[axis] = (width[0], 0) if side == 0 else (0, width[1])
            if only[axis] != (0, 0):
                fill = slice_node(
                    slice_node(pairs, 0, slice(axis, axis + 1)), 1, slice(side, side + 1)
                )
                node = make(Pad(tuple(only)), (node, reshape_node(fill, ())))
    return node
