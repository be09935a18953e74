"""Operators that read images at places which are computed: grids, regions, moved windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import ceil, prod
from typing import Final

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import INT64
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.elementwise import select
from tawny.onnx.operators.windows import WindowGeometry
from tawny.onnx.table import operator

CUBIC: Final = -0.75
"""The parameter of cubic interpolation."""

Keep = Callable[[Sequence[Array]], Sequence[Array]]
"""From places to places inside an image."""


def read_pixels(x: Array, places: Sequence[Array], batch: Array) -> Array:
    """Pixels of `x`, channels last, at whole places; those outside are zero."""
    sizes = x.shape[1:-1]
    inside: Array | None = None
    kept: list[Array] = []
    for place, n in zip(places, sizes, strict=True):
        there = (place >= 0) & (place < n)
        inside = there if inside is None else inside & there
        kept.append(np.minimum(np.maximum(place, 0), n - 1).astype(INT64))
    found = x[(batch, *kept)]
    assert inside is not None, "an image has an axis"
    return select(np.expand_dims(inside, -1), found, np.zeros_like(found))


def interpolate(x: Array, places: Sequence[Array], batch: Array) -> Array:
    """Pixels at places between them, linearly; outside everything is zero."""
    low = [np.floor(p) for p in places]
    total: Array | None = None
    for corner in product((0, 1), repeat=len(places)):
        weight: Array | None = None
        for p, base, side in zip(places, low, corner, strict=True):
            part = p - base if side else 1 - (p - base)
            weight = part if weight is None else weight * part
        assert weight is not None, "an image has an axis"
        at = [base + side for base, side in zip(low, corner, strict=True)]
        term = read_pixels(x, at, batch) * np.expand_dims(weight, -1).astype(x.dtype)
        total = term if total is None else total + term
    assert total is not None, "an image has an axis"
    return total


def _reflect(x: Array, low: float, high: float) -> Array:
    """Places turned back at both ends."""
    span = high - low
    if span <= 0:
        return np.zeros_like(x)
    moved = np.abs(x - low)
    extra = np.remainder(moved, span)
    turns = np.floor(moved / span)
    return select(np.equal(np.remainder(turns, 2), 0), low + extra, high - extra)


@operator("GridSample")
def grid_sample(call: NodeCall) -> Array:
    """An image at the places of a grid, which run from -1 to 1."""
    x, grid = call.array(0), call.array(1)
    rank = x.ndim - 2
    if grid.ndim != x.ndim or grid.shape[-1] != rank or not rank:
        call.fail(f"a grid of shape {grid.shape} for an input of shape {x.shape}")
    names = ("linear", "nearest", "cubic", "bilinear", "bicubic")
    mode = call.choice("mode", "linear", names).removeprefix("bi")
    outside = call.choice("padding_mode", "zeros", ("zeros", "border", "reflection"))
    corners = call.flag("align_corners")
    last = np.moveaxis(x, 1, -1)
    batch = np.reshape(np.arange(x.shape[0]), (-1, *(1,) * rank))
    places: list[Array] = []
    for axis in range(rank):
        n, unit = x.shape[2 + axis], grid[..., rank - 1 - axis].astype(x.dtype)
        places.append((unit + 1) / 2 * (n - 1) if corners else ((unit + 1) * n - 1) / 2)

    def keep(at: Sequence[Array]) -> list[Array]:
        """Places inside, as the padding has it."""
        found: list[Array] = []
        for p, n in zip(at, x.shape[2:], strict=True):
            low, high = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
            inner = _reflect(p, low, high) if outside == "reflection" else p
            found.append(p if outside == "zeros" else np.minimum(np.maximum(inner, 0), n - 1))
        return found

    if mode == "nearest":
        made = read_pixels(last, [np.rint(p) for p in keep(places)], batch)
    elif mode == "linear":
        made = interpolate(last, keep(places), batch)
    else:
        made = _cubic(last, places, batch, keep)
    return np.moveaxis(made, -1, 1)


def _cubic(x: Array, places: Sequence[Array], batch: Array, keep: Keep) -> Array:
    """Pixels at places between them, by cubic polynomials through four of them on each axis."""
    low = [np.floor(p) for p in places]
    weights: list[list[Array]] = []
    for p, base in zip(places, low, strict=True):
        t = p - base
        column: list[Array] = []
        for side in (-1, 0, 1, 2):
            d = np.abs(t - side)
            if side in {0, 1}:
                column.append(((CUBIC + 2) * d - (CUBIC + 3)) * d * d + 1)
            else:
                column.append(CUBIC * (((d - 5) * d + 8) * d - 4))
        weights.append(column)
    total: Array | None = None
    for corner in product(range(4), repeat=len(places)):
        weight: Array | None = None
        for column, side in zip(weights, corner, strict=True):
            weight = column[side] if weight is None else weight * column[side]
        assert weight is not None, "an image has an axis"
        at = keep([base + (side - 1) for base, side in zip(low, corner, strict=True)])
        term = read_pixels(x, [np.rint(p) for p in at], batch) * np.expand_dims(weight, -1)
        total = term if total is None else total + term
    assert total is not None, "an image has an axis"
    return total


@operator("AffineGrid")
def affine_grid(call: NodeCall) -> Array:
    """The places that a linear map gives the pixels of an image."""
    theta, sizes = call.array(0), call.known_ints(1)[2:]
    call.check_elements(prod(sizes), "a grid")
    axes: list[numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]] = []
    for n in sizes:
        if call.flag("align_corners"):
            axes.append(numpy.linspace(-1, 1, n) if n > 1 else numpy.zeros(1))
        else:
            axes.append((numpy.arange(n) * 2 + 1) / n - 1)
    mesh = numpy.meshgrid(*axes, indexing="ij")
    points = numpy.stack([*mesh[::-1], numpy.ones(sizes)], -1).reshape(-1, len(sizes) + 1)
    flat = np.matmul(np.asarray(points.astype(theta.dtype)), np.matrix_transpose(theta))
    return np.reshape(flat, (theta.shape[0], *sizes, len(sizes)))


@operator("RoiAlign")
def roi_align(call: NodeCall) -> Array:
    """Regions of images, each as a grid of means or maxima of points in it."""
    x, rois, batch = call.array(0), call.array(1), call.array(2)
    rows, columns = call.integer("output_height", 1), call.integer("output_width", 1)
    scale, ratio = call.number("spatial_scale", 1.0), call.integer("sampling_ratio", 0)
    default = "half_pixel" if call.opset >= 16 else "output_half_pixel"
    accepted = ("half_pixel", "output_half_pixel")
    half = call.choice("coordinate_transformation_mode", default, accepted) == "half_pixel"
    mode = call.choice("mode", "avg", ("avg", "max"))
    last, parts = np.moveaxis(x, 1, -1), list[Array]()
    call.check_steps(rois.shape[0], "regions")
    for i in range(rois.shape[0]):
        box = rois[i] * scale - (0.5 if half else 0)
        width, height = box[2] - box[0], box[3] - box[1]
        if not half:
            width, height = np.maximum(width, 1), np.maximum(height, 1)
        counts = (ratio, ratio)
        if ratio == 0:
            known = call.known_operand(1)[i] * scale
            extent = known[2:] - known[:2]
            extent = extent if half else numpy.maximum(extent, 1)
            counts = (ceil(extent[1] / rows), ceil(extent[0] / columns))
        call.check_elements(rows * columns * counts[0] * counts[1], "points of a region")
        ys = _points(box[1], height, rows, counts[0])
        xs = _points(box[0], width, columns, counts[1])
        places = np.broadcast_arrays(
            np.reshape(ys, (rows, 1, counts[0], 1)), np.reshape(xs, (1, columns, 1, counts[1]))
        )
        parts.append(_pool_points(last, places, batch[i].astype(INT64), mode))
    if not parts:
        return np.zeros((0, x.shape[1], rows, columns), x.dtype)
    return np.moveaxis(np.stack(parts), -1, 1)


def _points(start: Array, length: Array, bins: int, count: int) -> Array:
    """The places of points in bins of equal length."""
    steps = numpy.arange(bins)[:, None] + (numpy.arange(count) + 0.5) / max(count, 1)
    return start + np.asarray((steps / bins).astype(length.dtype)) * length


def _pool_points(x: Array, places: Sequence[Array], image: Array, mode: str) -> Array:
    """Means or maxima of points; those more than a pixel outside are zero."""
    inside: Array | None = None
    kept: list[Array] = []
    for p, n in zip(places, x.shape[1:-1], strict=True):
        there = (p >= -1) & (p <= n)
        inside = there if inside is None else inside & there
        kept.append(np.minimum(np.maximum(p, 0), n - 1))
    batch = np.broadcast_to(image, kept[0].shape)
    assert inside is not None, "an image has an axis"
    mask = np.expand_dims(inside, -1)
    if mode == "avg":
        found = interpolate(x, kept, batch)
        return np.mean(select(mask, found, np.zeros_like(found)), axis=(2, 3))
    low = [np.floor(p) for p in kept]
    best: Array | None = None
    for corner in product((0, 1), repeat=len(kept)):
        at = [
            np.minimum(base + side, n - 1)
            for base, side, n in zip(low, corner, x.shape[1:-1], strict=True)
        ]
        weight: Array | None = None
        for p, base, side in zip(kept, low, corner, strict=True):
            part = p - base if side else 1 - (p - base)
            weight = part if weight is None else weight * part
        assert weight is not None, "an image has an axis"
        term = read_pixels(x, at, batch) * np.expand_dims(weight, -1)
        best = term if best is None else np.maximum(best, term)
    assert best is not None, "an image has an axis"
    return np.max(select(mask, best, np.zeros_like(best)), axis=(2, 3))


@operator("DeformConv")
def deformed_convolution(call: NodeCall) -> Array:
    """A convolution whose windows see pixels at places of their own."""
    x, kernel, offset = call.array(0), call.array(1), call.array(2)
    bias, mask = call.optional(3), call.optional(4)
    if x.ndim != 4:
        call.fail(f"operand 0 has shape {x.shape}; it must have 4 axes")
    window = WindowGeometry(call, x.shape[2:], kernel.shape[2:])
    n, channels = x.shape[:2]
    fields, groups = call.integer("offset_group", 1), call.integer("group", 1)
    taps, (rows, columns) = prod(window.window), window.counts
    moves = np.reshape(offset, (n, fields, taps, 2, rows, columns))
    split = np.reshape(x, (n, fields, channels // fields, *x.shape[2:]))
    call.check_steps(taps, "a window")
    flat = np.reshape(np.moveaxis(split, 2, -1), (n * fields, *x.shape[2:], channels // fields))
    batch = np.reshape(np.arange(n * fields), (-1, 1, 1))
    seen: list[Array] = []
    for k, place in enumerate(product(*map(range, window.window))):
        at: list[Array] = []
        for axis in range(2):
            start = place[axis] * window.dilation[axis] - window.pads[axis][0]
            grid = numpy.arange(window.counts[axis]) * window.strides[axis] + start
            base = np.asarray(grid.astype(x.dtype).reshape((-1, 1) if axis == 0 else (1, -1)))
            at.append(np.reshape(moves[:, :, k, axis] + base, (n * fields, rows, columns)))
        found = interpolate(flat, at, batch)
        if mask is not None:
            weight = np.reshape(mask, (n, fields, taps, rows, columns))[:, :, k]
            found = found * np.reshape(weight, (n * fields, rows, columns, 1))
        whole = np.reshape(found, (n, fields, rows, columns, channels // fields))
        seen.append(np.reshape(np.moveaxis(whole, -1, 2), (n, channels, rows, columns)))
    columns_of = np.reshape(
        np.stack(seen, 2), (n, groups, channels // groups * taps, rows * columns)
    )
    outputs = kernel.shape[0]
    weights = np.reshape(kernel, (groups, outputs // groups, channels // groups * taps))
    made = np.reshape(np.matmul(weights, columns_of), (n, outputs, rows, columns))
    return made if bias is None else made + np.reshape(bias, (-1, 1, 1))
