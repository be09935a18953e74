"""Regions of feature maps at a fixed size: bilinear samples, gathered in the graph itself.

Maps are (rows, columns, channels), boxes (n, 4) as top, left, bottom, right; everything can be
differentiated with respect to the maps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import tawny.numpy as np
from tawny.array import Array, ArrayLike
from tawny.errors import value_error
from tawny.numpy.composite import clip
from tawny.shape import Shape, as_int

ROUNDING: Final = 1e-3
"""Parts of a pixel that a sample may lie outside by rounding."""


def crop_and_resize(features: ArrayLike, boxes: ArrayLike, size: int) -> Array:
    """Each box resampled to (size, size): corners of the grid lie on the corners of the box.

    Boxes are normalised: 0 is the centre of the first row or column and 1 that of the last.
    Samples outside the map are 0.
    """
    maps, regions, grid = _check_arguments("crop_and_resize", features, boxes, size)
    rows, columns, channels = maps.shape
    flat = np.reshape(maps, (rows * columns, channels))
    return _crop(flat, regions, grid, rows, columns, None)


def pyramid_crop(
    maps: Sequence[ArrayLike], boxes: ArrayLike, size: int, image: tuple[int, int]
) -> Array:
    """Each box resampled to (size, size) from the map of a pyramid that suits its extent.

    A box of 224 x 224 pixels of the image is taken from the third map, one half as wide from the
    second, and so on; `maps` are the finest first.  Samples are those of `crop_and_resize`.
    """
    regions, grid = np.asarray(boxes), _count("pyramid_crop", size, "size")
    arrays = [_check_arguments("pyramid_crop", m, regions, grid)[0] for m in maps]
    flat = np.concat([np.reshape(a, (-1, a.shape[-1])) for a in arrays], axis=0)
    area = np.prod(regions[:, 2:] - regions[:, :2], axis=-1)
    canonical = 224.0 / math.sqrt(image[0] * image[1])
    octave = np.round(0.5 * np.log2(np.maximum(area, 1e-30) / canonical**2))
    level = np.astype(clip(octave + 2, 0, len(arrays) - 1), "int64")[:, None]

    def of_level(sizes: list[int]) -> Array:
        return np.take(np.asarray(sizes, dtype="int64"), level, axis=0)

    starts = [sum(a.shape[0] * a.shape[1] for a in arrays[:i]) for i in range(len(arrays))]
    rows, columns = (of_level([a.shape[axis] for a in arrays]) for axis in range(2))
    return _crop(flat, regions, grid, rows, columns, of_level(starts)[:, :, None])


def roi_align(
    features: ArrayLike, boxes: ArrayLike, size: int, *, scale: float = 1.0, samples: int = 2
) -> Array:
    """Each box in size x size equal bins: the mean of samples x samples bilinear samples of each.

    Boxes are in pixels of the image, whose map is `scale` times as large; the centre of a pixel
    lies at half.  Samples more than one pixel outside are 0, those nearer take the edge's value.
    """
    maps, regions, grid = _check_arguments("roi_align", features, boxes, size)
    per_bin = _count("roi_align", samples, "samples")
    rows, columns, channels = maps.shape
    start = regions[:, :2] * scale - 0.5
    step = (regions[:, 2:] - regions[:, :2]) * (scale / (grid * per_bin))
    steps = np.arange(grid * per_bin, dtype=regions.dtype) + 0.5
    y, x = (start[:, i : i + 1] + step[:, i : i + 1] * steps for i in range(2))
    inside = [(p >= -1) & (p <= n) for p, n in ((y, rows), (x, columns))]
    flat = np.reshape(maps, (rows * columns, channels))
    held = (clip(y, 0, rows - 1), clip(x, 0, columns - 1))
    points = _sample(flat, held, (rows, columns), inside, None)
    bins = np.reshape(points, (-1, grid, per_bin, grid, per_bin, channels))
    return np.mean(bins, axis=(2, 4))


def _crop(
    flat: Array,
    boxes: Array,
    size: int,
    rows: int | Array,
    columns: int | Array,
    first: Array | None,
) -> Array:
    """Samples of maps that lie flat one after the other, each (rows, columns) from row `first`."""
    steps = np.arange(size, dtype=boxes.dtype)
    places: list[Array] = []
    inside: list[Array] = []
    for axis, length in enumerate((rows, columns)):
        last = np.astype(np.asarray(length - 1), boxes.dtype)
        low, high = boxes[:, axis : axis + 1], boxes[:, axis + 2 : axis + 3]
        if size > 1:
            at = low * last + steps * ((high - low) * last / (size - 1))
        else:
            at = 0.5 * (low + high) * last
        inside.append((at >= -ROUNDING) & (at <= last + ROUNDING))
        places.append(np.minimum(np.maximum(at, 0), last))
    return _sample(flat, (places[0], places[1]), (rows, columns), inside, first)


def _sample(
    flat: Array,
    places: tuple[Array, Array],
    sizes: tuple[int | Array, int | Array],
    inside: Sequence[Array],
    first: Array | None,
) -> Array:
    """Bilinear samples at every pair of a row and a column: (n, rows, columns, channels)."""
    (y0, y1, wy), (x0, x1, wx) = (
        _neighbours(p, n, i) for p, n, i in zip(places, sizes, inside, strict=True)
    )
    width = sizes[1] if isinstance(sizes[1], int) else sizes[1][:, :, None]

    def corner(y: Array, x: Array, weight_y: Array, weight_x: Array) -> Array:
        index = y[:, :, None] * width + x[:, None, :]
        if first is not None:
            index = index + first
        weight = weight_y[:, :, None] * weight_x[:, None, :]
        return np.take(flat, index, axis=0) * np.astype(weight, flat.dtype)[..., None]

    (low_y, high_y), (low_x, high_x) = wy, wx
    return (
        corner(y0, x0, low_y, low_x)
        + corner(y0, x1, low_y, high_x)
        + corner(y1, x0, high_y, low_x)
        + corner(y1, x1, high_y, high_x)
    )


def _neighbours(
    place: Array, size: int | Array, inside: Array
) -> tuple[Array, Array, tuple[Array, Array]]:
    """The two elements a place lies between and their weights, 0 where it is not inside."""
    low = np.astype(np.floor(place), "int64")
    part = place - np.astype(low, place.dtype)
    none = np.zeros((), dtype=place.dtype)
    weights = (np.where(inside, 1 - part, none), np.where(inside, part, none))
    return low, np.minimum(low + 1, size - 1), weights


def _check_arguments(
    op: str, features: ArrayLike, boxes: ArrayLike, size: int
) -> tuple[Array, Array, int]:
    maps, regions = np.asarray(features), np.asarray(boxes)
    _check(op, "features", maps.shape, len(maps.shape) == 3, "(rows, columns, channels)")
    correct = len(regions.shape) == 2 and regions.shape[-1] == 4
    _check(op, "boxes", regions.shape, correct, "(n, 4)")
    return maps, regions, _count(op, size, "size")


def _check(op: str, word: str, shape: Shape, correct: bool, accepted: str) -> None:
    if not correct:
        raise value_error(op, f"{word} have shape {shape}; it must be {accepted}")


def _count(op: str, given: int, word: str) -> int:
    if (number := as_int(given, op, word)) < 1:
        raise value_error(op, f"{word} is {number}; it must be at least 1")
    return number
