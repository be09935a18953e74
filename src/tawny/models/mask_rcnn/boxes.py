"""Boxes (top, left, bottom, right): anchors, shifts, overlap, and non-maximum suppression.

Coordinates are normalised: 0 is the first row or column of the image and 1 the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy

import tawny.numpy as np
from tawny.array import Array, ArrayLike
from tawny.errors import value_error
from tawny.node import Value
from tawny.ops.delay import delay
from tawny.shape import Shape, as_int

NONE: Final = -1
"""The index that says that no box is left."""


def normalised(boxes: Value, shape: tuple[int, int]) -> Value:
    """Boxes in pixels, whose bottom and right are the first outside, as parts of an image."""
    rows, columns = shape
    scale = numpy.array([rows - 1, columns - 1] * 2, numpy.float32)
    return ((boxes - [0, 0, 1, 1]) / scale).astype(numpy.float32)


def level_anchors(
    scale: float, ratios: Sequence[float], shape: tuple[int, int], stride: int
) -> Value:
    """Boxes in pixels about each place of a map of `shape`, one for each ratio width : height.

    All of one place have the area `scale` squared; places are `stride` pixels apart.
    """
    roots = numpy.sqrt(numpy.array(ratios))
    sizes = numpy.stack([scale / roots, scale * roots], axis=-1)
    rows, columns = (numpy.arange(n) * stride for n in shape)
    centres = numpy.stack(numpy.meshgrid(rows, columns, indexing="ij"), axis=-1)[:, :, None]
    both = numpy.concatenate([centres - sizes / 2, centres + sizes / 2], axis=-1)
    return both.reshape(-1, 4)


def pyramid_anchors(
    image: tuple[int, int],
    scales: Sequence[float],
    ratios: Sequence[float],
    strides: Sequence[int],
) -> Value:
    """The anchors of all levels of a pyramid, normalised: the finest level first, row by row."""
    levels = [
        level_anchors(scale, ratios, (-(-image[0] // stride), -(-image[1] // stride)), stride)
        for scale, stride in zip(scales, strides, strict=True)
    ]
    return normalised(numpy.concatenate(levels), image)


def shifted(boxes: ArrayLike, shifts: ArrayLike) -> Array:
    """Boxes moved and stretched by (down, right, log height, log width).

    The first two count heights and widths of the box.
    """
    given, by = np.asarray(boxes), np.asarray(shifts)
    size = given[..., 2:] - given[..., :2]
    centre = given[..., :2] + 0.5 * size + by[..., :2] * size
    stretched = size * np.exp(by[..., 2:])
    first = centre - 0.5 * stretched
    return np.concat([first, first + stretched], axis=-1)


def clipped(boxes: ArrayLike, window: ArrayLike = (0.0, 0.0, 1.0, 1.0)) -> Array:
    """Boxes cut off at the edges of a window."""
    given = np.asarray(boxes)
    edge = np.asarray(window, dtype=given.dtype)
    corners = (given[..., 2 * i : 2 * i + 2] for i in range(2))
    return np.concat(
        [np.maximum(np.minimum(c, edge[..., 2:]), edge[..., :2]) for c in corners], axis=-1
    )


# ----------------------------------------------------------------- suppression


def _overlapping(columns: Value, threshold: float) -> Value:
    """Whether each box but the first overlaps the first by more than `threshold`.

    `columns` are (5, n): top, left, bottom, right and area.  Overlap is intersection over union, 0
    where both are empty.
    """
    first, others = columns[:, :1], columns[:, 1:]
    shared = numpy.minimum(first[2], others[2])
    shared -= numpy.maximum(first[0], others[0])
    numpy.maximum(shared, 0, out=shared)
    sides = numpy.minimum(first[3], others[3])
    sides -= numpy.maximum(first[1], others[1])
    numpy.maximum(sides, 0, out=sides)
    shared *= sides
    union = first[4] + others[4]
    union -= shared
    numpy.divide(shared, union, out=shared, where=union > 0)
    out: Value = shared > threshold
    return out


def _area(boxes: Value) -> Value:
    out: Value = numpy.prod(numpy.maximum(boxes[..., 2:] - boxes[..., :2], 0), axis=-1)
    return out


def _order(scores: Value) -> Value:
    """Places by falling score; equals in the order they came."""
    return numpy.argsort(-scores, kind="stable")


def suppress(boxes: Value, scores: Value, threshold: float, count: int) -> Value:
    """Places of at most `count` boxes, best first, of which no two overlap more than `threshold`.

    The best box is taken, those that overlap it are dropped, and so on with what is left.
    """
    left = _order(scores)
    ordered = boxes[left].astype(numpy.float64)
    columns = numpy.concatenate([ordered, _area(ordered)[:, None]], axis=1).T.copy()
    kept: list[int] = []
    while left.size and len(kept) < count:
        kept.append(int(left[0]))
        dropped = _overlapping(columns, threshold)
        left, columns = left[1:], columns[:, 1:]
        if dropped.any():
            left, columns = left[~dropped], columns[:, ~dropped]
    return numpy.array(kept, numpy.int64)


def _filled(kept: Value, count: int) -> Value:
    out = numpy.full(count, NONE, numpy.int64)
    out[: len(kept)] = kept
    return out


def _check(op: str, boxes: Shape, others: dict[str, Shape], count: int) -> int:
    if len(boxes) != 2 or boxes[1] != 4:
        raise value_error(op, f"boxes have shape {boxes}; it must be (n, 4)")
    for word, shape in others.items():
        if shape != boxes[:1]:
            raise value_error(op, f"{word} have shape {shape}; it must be {boxes[:1]}, as boxes")
    if (number := as_int(count, op, "count")) < 0:
        raise value_error(op, f"count is {number}; it must be at least 0")
    return number


def non_maximum_suppression(
    boxes: ArrayLike, scores: ArrayLike, count: int, threshold: float
) -> Array:
    """Places of at most `count` boxes (n, 4), best first, that overlap by `threshold` at most.

    Overlap is intersection over union.  Where fewer are left the places are -1.
    """
    given, values = np.asarray(boxes), np.asarray(scores)
    name = "non_maximum_suppression"
    number = _check(name, given.shape, {"scores": values.shape}, count)
    limit = float(threshold)

    def chosen(boxes: Value, scores: Value) -> Value:
        return _filled(suppress(boxes, scores, limit, number), number)

    return delay(chosen, given, values, shape=(number,), dtype=numpy.int64, pure=True)


def suppression_by_class(
    boxes: ArrayLike,
    scores: ArrayLike,
    classes: ArrayLike,
    count: int,
    threshold: float,
    least: float = -math.inf,
) -> Array:
    """As `non_maximum_suppression`, among boxes of the same class alone, best of all first.

    Class 0 is the background, which is left out, as are scores below `least` and empty boxes.
    """
    given, values, kinds = np.asarray(boxes), np.asarray(scores), np.asarray(classes)
    name = "suppression_by_class"
    others = {"scores": values.shape, "classes": kinds.shape}
    number = _check(name, given.shape, others, count)
    limit = float(threshold)

    def chosen(boxes: Value, scores: Value, classes: Value) -> Value:
        candidates = numpy.flatnonzero((classes > 0) & (scores >= least) & (_area(boxes) > 0))
        kept: list[int] = []
        for kind in numpy.unique(classes[candidates]):
            places = candidates[classes[candidates] == kind]
            kept += places[suppress(boxes[places], scores[places], limit, number)].tolist()
        places = numpy.sort(numpy.array(kept, numpy.int64))
        return _filled(places[_order(scores[places])][:number], number)

    return delay(chosen, given, values, kinds, shape=(number,), dtype=numpy.int64, pure=True)


def taken(values: Array, places: Array) -> Array:
    """Rows of `values` at `places`, zeros where a place is -1."""
    rows = np.take(values, np.maximum(places, 0), axis=0)
    exists = np.reshape(places >= 0, (-1,) + (1,) * (rows.ndim - 1))
    out: Array = np.where(exists, rows, np.zeros((), dtype=rows.dtype))
    return out
