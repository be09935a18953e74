"""Boxes (top, left, bottom, right): anchors, shifts, and what is left of them.

Coordinates are normalised: 0 is the first row or column of the image and 1 the last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy

import tawny.numpy as np
from tawny.array import Array, ArrayLike
from tawny.node import Value
from tawny.ops.boxes import non_maximum_suppression, suppression_by_class

__all__ = [
    "clip_boxes",
    "level_anchors",
    "non_maximum_suppression",
    "normalise",
    "pyramid_anchors",
    "shift_boxes",
    "suppression_by_class",
    "take_or_zero",
]


def normalise(boxes: Value, shape: tuple[int, int]) -> Value:
    """Boxes in pixels as parts of an image; their bottom and right are the first pixels outside."""
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
    return normalise(numpy.concatenate(levels), image)


def shift_boxes(boxes: ArrayLike, shifts: ArrayLike) -> Array:
    """Boxes moved and stretched by (down, right, log height, log width).

    The first two count heights and widths of the box.
    """
    given, by = np.asarray(boxes), np.asarray(shifts)
    size = given[..., 2:] - given[..., :2]
    centre = given[..., :2] + 0.5 * size + by[..., :2] * size
    stretched = size * np.exp(by[..., 2:])
    first = centre - 0.5 * stretched
    return np.concat([first, first + stretched], axis=-1)


def clip_boxes(boxes: ArrayLike, window: ArrayLike = (0.0, 0.0, 1.0, 1.0)) -> Array:
    """Boxes cut off at the edges of a window."""
    given = np.asarray(boxes)
    edge = np.asarray(window, dtype=given.dtype)
    corners = (given[..., 2 * i : 2 * i + 2] for i in range(2))
    return np.concat(
        [np.maximum(np.minimum(c, edge[..., 2:]), edge[..., :2]) for c in corners], axis=-1
    )


def take_or_zero(values: Array, places: Array) -> Array:
    """Rows of `values` at `places`, zeros where a place is -1."""
    rows = np.take(values, np.maximum(places, 0), axis=0)
    exists = np.reshape(places >= 0, (-1,) + (1,) * (rows.ndim - 1))
    out: Array = np.where(exists, rows, np.zeros((), dtype=rows.dtype))
    return out
