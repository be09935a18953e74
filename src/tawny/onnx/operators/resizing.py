"""Operators that resample images along their axes: each element is a sum of a few weighted ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any, Final

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.node import Value
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.elementwise import select
from tawny.onnx.operators.windows import channels_first, channels_last
from tawny.onnx.table import operator

COORDINATES: Final = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
NEAREST: Final = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True, slots=True)
class Resampling:
    """The options of resizing: how places in a result map to the input, and what is taken there."""

    coordinates: str
    mode: str
    nearest: str
    cubic: float
    exclude_outside: bool
    antialias: bool

    def places(self, n: int, count: int, scale: float, roi: tuple[float, float]) -> Value:
        """Where the elements of a result of `count` elements lie in an input of `n`."""
        x = numpy.arange(count, dtype=numpy.float64)
        match self.coordinates:
            case "align_corners":
                length = n * scale
                return x * (n - 1) / (length - 1) if length != 1 else 0 * x
            case "asymmetric":
                return x / scale
            case "tf_half_pixel_for_nn":
                return (x + 0.5) / scale
            case "tf_crop_and_resize":
                start, end = roi
                if count == 1:
                    return 0 * x + 0.5 * (start + end) * (n - 1)
                return start * (n - 1) + x * (end - start) * (n - 1) / (count - 1)
            case "pytorch_half_pixel":
                return (x + 0.5) / scale - 0.5 if n * scale > 1 else 0 * x
            case "half_pixel_symmetric":
                adjusted = count / (scale * n)
                offset = n / 2 * (1 - adjusted)
                return offset + (x + 0.5) / scale - 0.5
            case _:
                return (x + 0.5) / scale - 0.5

    def taps(
        self, n: int, count: int, scale: float, roi: tuple[float, float]
    ) -> tuple[Value, Value]:
        """For each element of a result the elements it is made of, and their weights."""
        x = self.places(n, count, scale, roi)
        if self.mode == "nearest":
            return self._round(x)[None].clip(0, n - 1), numpy.ones((1, count))
        stretch = max(1.0, 1 / scale) if self.antialias else 1.0
        reach = 1 if self.mode == "linear" else 2
        taps = 2 * ceil(reach * stretch) + (2 if stretch > 1 else 0)
        first = numpy.floor(x).astype(numpy.int64) - taps // 2 + 1
        found = first + numpy.arange(taps)[:, None]
        weights = self._weights((x - found) / stretch)
        outside = (found < 0) | (found >= n)
        if self.exclude_outside:
            weights = numpy.where(outside, 0, weights)
        if self.exclude_outside or self.antialias:
            weights = weights / weights.sum(0)
        return found.clip(0, n - 1), weights

    def _round(self, x: Value) -> Value:
        match self.nearest:
            case "floor":
                made = numpy.floor(x)
            case "ceil":
                made = numpy.ceil(x)
            case "round_prefer_ceil":
                made = numpy.floor(x + 0.5)
            case _:
                made = numpy.ceil(x - 0.5)
        return made.astype(numpy.int64)

    def _weights(self, x: Value) -> Value:
        x = numpy.abs(x)
        if self.mode == "linear":
            return numpy.asarray(numpy.clip(1 - x, 0, None))
        a = self.cubic
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = a * (((x - 5) * x + 8) * x - 4)
        return numpy.where(x <= 1, near, numpy.where(x < 2, far, 0))


def resample(x: Array, axis: int, taps: tuple[Value, Value]) -> Array:
    """Sums of weighted elements along an axis."""
    places, weights = taps
    n, count = x.shape[axis], places.shape[1]
    if len(places) == 1 and count % n == 0:
        repeated = numpy.arange(n).repeat(count // n)
        if numpy.array_equal(places[0], repeated):
            return np.repeat(x, count // n, axis=axis)
    behind = (1,) * (x.ndim - axis - 1)
    terms: list[Array] = []
    for place, weight in zip(places, weights, strict=True):
        if not weight.any():
            continue
        term = np.take(x, np.asarray(place), axis=axis)
        if not (weight == 1).all():
            factor: Any = weight.astype(x.dtype).reshape(-1, *behind)
            term = term * np.asarray(factor)
        terms.append(term)
    return sum(terms[1:], start=terms[0])


@operator("Resize")
def resize(call: NodeCall) -> Array:
    """An image of another size."""
    x = call.array(0)
    old = call.opset < 11
    mode = call.choice("mode", "nearest", ("nearest", "linear", "cubic"))
    how = Resampling(
        "asymmetric"
        if old
        else call.choice("coordinate_transformation_mode", "half_pixel", COORDINATES),
        mode,
        "floor" if old else call.choice("nearest_mode", "round_prefer_floor", NEAREST),
        call.number("cubic_coeff_a", -0.75),
        call.flag("exclude_outside"),
        call.flag("antialias"),
    )
    axes = call.axes(call.ints("axes", range(x.ndim)), x.ndim)
    position = 1 if old else 2
    scales = _known_floats(call, position)
    sizes = None if scales else call.known_optional_ints(3)
    if scales is None and sizes is None:
        call.fail("neither scales nor sizes are given")
    if len(scales or sizes or ()) != len(axes):
        call.fail(f"{len(scales or sizes or ())} scales or sizes came for {len(axes)} axes")
    lengths = [x.shape[a] for a in axes]
    factors, counts = _extent(call, lengths, scales, sizes)
    roi = _known_floats(call, 1) if how.coordinates == "tf_crop_and_resize" else None
    regions = [(0.0, 1.0)] * len(axes)
    if roi is not None:
        if len(roi) != 2 * len(axes):
            call.fail(f"roi has {len(roi)} numbers; expected {2 * len(axes)}")
        regions = list(zip(roi[: len(axes)], roi[len(axes) :], strict=True))
    call.check_elements(sum(counts), "axes of the result")
    return _resize_axes(call, x, how, axes, factors, counts, regions)


def _resize_axes(
    call: NodeCall,
    x: Array,
    how: Resampling,
    axes: Sequence[int],
    factors: Sequence[float],
    counts: Sequence[int],
    regions: Sequence[tuple[float, float]],
) -> Array:
    is_image = x.ndim > 2 and 1 not in [
        a for a, n, c in zip(axes, (x.shape[a] for a in axes), counts, strict=True) if n != c
    ]
    made = channels_last(x) if is_image else x
    plan = list(zip(axes, factors, counts, regions, strict=True))
    inside: list[tuple[int, Value]] = []
    for axis, scale, count, roi in sorted(plan, key=lambda p: p[2] / max(1, x.shape[p[0]])):
        n = x.shape[axis]
        if n == count and (scale == 1 or how.mode == "nearest") and roi == (0.0, 1.0):
            continue
        reach = max(1.0, 1 / scale) if how.antialias else 1.0
        call.check_elements(4 * reach * count, "elements that are added")
        place = axis if not is_image or axis == 0 else axis - 1
        made = resample(made, place, how.taps(n, count, scale, roi))
        if how.coordinates == "tf_crop_and_resize":
            at = how.places(n, count, scale, roi)
            inside.append((place, (at >= 0) & (at <= n - 1)))
    for place, there in inside:
        mask = np.asarray(there.reshape(-1, *(1,) * (made.ndim - place - 1)))
        fill = np.full((), call.number("extrapolation_value", 0.0), made.dtype)
        made = select(mask, made, fill)
    return channels_first(made) if is_image else made


def _known_floats(call: NodeCall, position: int) -> tuple[float, ...] | None:
    if call.optional(position) is None:
        return None
    found = tuple(map(float, call.known_operand(position).ravel()))
    return found or None


def _extent(
    call: NodeCall,
    lengths: Sequence[int],
    scales: Sequence[float] | None,
    sizes: Sequence[int] | None,
) -> tuple[Sequence[float], Sequence[int]]:
    """The factor and the new length of each axis."""
    if scales is not None:
        if min(scales) <= 0:
            call.fail(f"scales are {tuple(scales)}; each must be greater than 0")
        return scales, [floor(n * s) for n, s in zip(lengths, scales, strict=True)]
    assert sizes is not None, "one of the two is given"
    policy = call.choice(
        "keep_aspect_ratio_policy", "stretch", ("stretch", "not_larger", "not_smaller")
    )
    factors = [c / n if n else 1.0 for n, c in zip(lengths, sizes, strict=True)]
    if policy == "stretch":
        return factors, sizes
    one = min(factors) if policy == "not_larger" else max(factors)
    return [one] * len(factors), [floor(n * one + 0.5) for n in lengths]


@operator("Upsample")
def upsample(call: NodeCall) -> Array:
    """A larger image."""
    x = call.array(0)
    mode = call.choice("mode", "nearest", ("nearest", "linear"))
    scales = call.floats("scales", ()) if call.opset < 9 else _known_floats(call, 1)
    if not scales or len(scales) != x.ndim:
        call.fail(f"scales are {scales}; expected {x.ndim} of them")
    counts = [floor(n * s) for n, s in zip(x.shape, scales, strict=True)]
    call.check_elements(sum(counts), "axes of the result")
    how = Resampling("asymmetric", mode, "floor", -0.75, exclude_outside=False, antialias=False)
    return _resize_axes(call, x, how, range(x.ndim), scales, counts, [(0.0, 1.0)] * x.ndim)
