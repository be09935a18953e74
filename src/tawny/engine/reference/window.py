"""Sliding windows over NumPy arrays of shape (batch, *spatial, channels)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tawny.dtype import DType
from tawny.engine.reference.kernel import Value
from tawny.ops.window import Pads, spans
from tawny.shape import Shape


def padded_shape(shape: Shape, padding: Pads) -> Shape:
    """`shape` with its spatial axes padded."""
    sizes = [n + sum(p) for n, p in zip(shape[1:-1], padding, strict=True)]
    return (shape[0], *sizes, shape[-1])


def inside(padding: Pads, sizes: Shape) -> tuple[slice, ...]:
    """Where in a padded array the elements of the array itself are."""
    return (slice(None), *(slice(p[0], p[0] + n) for p, n in zip(padding, sizes, strict=True)))


def pad_spatial(x: Value, padding: Pads, fill: Any = 0) -> Value:
    """`x` with `fill` around its spatial axes; itself where there is nothing to add."""
    if not any(map(sum, padding)):
        return x
    out = np.full(padded_shape(x.shape, padding), fill, x.dtype)
    out[inside(padding, x.shape[1:-1])] = x
    return out


def windows(x: Value, window: Shape, strides: Shape, dilation: Shape, counts: Shape) -> Value:
    """A view (batch, *counts, *window, channels) of what each window sees in a padded array."""
    rank = len(window)
    seen = sliding_window_view(x, spans(window, dilation), axis=tuple(range(1, rank + 1)))
    places = tuple(slice(0, c * s, s) for c, s in zip(counts, strides, strict=True))
    holes = tuple(slice(None, None, d) for d in dilation)
    return np.moveaxis(seen[(slice(None), *places, slice(None), *holes)], rank + 1, -1)


def offsets(
    window: Shape, strides: Shape, dilation: Shape, counts: Shape
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """For each place in the window, in row-major order: the elements all windows see there."""
    for place in np.ndindex(*window):
        yield (
            place,
            (
                slice(None),
                *(
                    slice(o * d, o * d + c * s, s)
                    for o, d, c, s in zip(place, dilation, counts, strides, strict=True)
                ),
            ),
        )


def inward(
    place: tuple[int, ...],
    sizes: Shape,
    strides: Shape,
    padding: Pads,
    dilation: Shape,
    counts: Shape,
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Of an array without padding, what windows see at a place; and the windows that see there."""
    seen, seeing = [slice(None)], [slice(None)]
    for at, n, step, (before, _), hole, count in zip(
        place, sizes, strides, padding, dilation, counts, strict=True
    ):
        origin = at * hole - before
        first = max(-(origin // step), 0)
        last = max(min((n - 1 - origin) // step + 1, count), first)
        start = origin + first * step
        seen.append(slice(start, start + (last - first) * step, step))
        seeing.append(slice(first, last))
    return tuple(seen), tuple(seeing)


def wide(dtype: DType) -> DType:
    """The dtype sums are made in: float16 adds up in float32."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype
