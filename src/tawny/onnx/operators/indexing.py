"""Operators that read or write places which other operands say."""

from __future__ import annotations

from typing import Any

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import INT64
from tawny.onnx.call import NodeCall
from tawny.onnx.table import MACHINE_LEARNING, operator


@operator("Gather")
def gather(call: NodeCall) -> Array:
    """Slices of an axis, by their places."""
    x, indices = call.array(0), call.array(1)
    return np.take(x, indices, axis=call.axis(call.integer("axis", 0), x.ndim))


@operator("GatherElements")
def gather_elements(call: NodeCall) -> Array:
    """Elements, each by its place on one axis."""
    x, indices = call.array(0), call.array(1)
    axis = call.axis(call.integer("axis", 0), x.ndim)
    return x[_element_places(call, x, indices, axis)]


def _element_places(call: NodeCall, x: Array, indices: Array, axis: int) -> tuple[Array, ...]:
    if indices.ndim != x.ndim:
        call.fail(f"operand 1 has {indices.ndim} axes; operand 0 has {x.ndim}")
    rank = x.ndim
    return tuple(
        indices
        if a == axis
        else np.reshape(np.arange(n), tuple(n if i == a else 1 for i in range(rank)))
        for a, n in enumerate(indices.shape)
    )


@operator("GatherND")
def gather_nd(call: NodeCall) -> Array:
    """Elements or slices, each by its place on several axes."""
    x, indices, batch = call.array(0), call.array(1), call.integer("batch_dims", 0)
    return x[_nd_places(call, x, indices, batch)]


def _nd_places(call: NodeCall, x: Array, indices: Array, batch: int = 0) -> tuple[Array, ...]:
    depth = indices.shape[-1] if indices.ndim else 0
    if not 0 <= batch < max(indices.ndim, 1) or not 0 < depth <= x.ndim - batch:
        call.fail(f"indices of shape {indices.shape} do not fit operand 0 of shape {x.shape}")
    rank = indices.ndim - 1
    leading = tuple(
        np.reshape(np.arange(n), tuple(n if i == a else 1 for i in range(rank)))
        for a, n in enumerate(indices.shape[:batch])
    )
    return (*leading, *(indices[..., i] for i in range(depth)))


MODES = {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}
"""How writing to a place changes what was there."""


def update(x: Array, key: Any, value: Array, mode: str) -> Array:
    """`x` with values written to places."""
    made: Array = getattr(np.at(x)[key], MODES[mode])(value)
    return made


@operator("Scatter", "ScatterElements")
def scatter_elements(call: NodeCall) -> Array:
    """Elements written to their places on one axis."""
    x, indices, updates = call.array(0), call.array(1), call.array(2)
    axis = call.axis(call.integer("axis", 0), x.ndim)
    mode = call.choice("reduction", "none", tuple(MODES))
    if indices.shape != updates.shape:
        call.fail(f"indices of shape {indices.shape} for updates of shape {updates.shape}")
    return update(x, _element_places(call, x, indices, axis), updates, mode)


@operator("ScatterND")
def scatter_nd(call: NodeCall) -> Array:
    """Elements or slices written to their places on several axes."""
    x, indices, updates = call.array(0), call.array(1), call.array(2)
    mode = call.choice("reduction", "none", tuple(MODES))
    return update(x, _nd_places(call, x, indices), updates, mode)


@operator("TensorScatter")
def tensor_scatter(call: NodeCall) -> Array:
    """Rows of a cache written from a place on, for each entry of a batch."""
    cache, new = call.array(0), call.array(1)
    axis = call.axis(call.integer("axis", -2), cache.ndim)
    mode = call.choice("mode", "linear", ("linear", "circular"))
    batch, length = cache.shape[0], new.shape[axis]
    first = call.optional(2)
    start = np.zeros((batch,), INT64) if first is None else first.astype(INT64)
    places = np.expand_dims(start, 1) + np.arange(length)
    if mode == "circular":
        places = np.remainder(places, cache.shape[axis])
    moved, values = np.moveaxis(cache, axis, 1), np.moveaxis(new, axis, 1)
    rows = np.reshape(np.arange(batch), (-1, 1))
    return np.moveaxis(update(moved, (rows, places), values, "none"), 1, axis)


@operator("ReverseSequence")
def reverse_sequence(call: NodeCall) -> Array:
    """The first elements of each sequence in reverse order."""
    x, lengths = call.array(0), call.array(1).astype(INT64)
    time, batch = call.integer("time_axis", 0), call.integer("batch_axis", 1)
    if {time, batch} != {0, 1} or x.ndim < 2:
        call.fail(f"time_axis is {time}, batch_axis {batch}; accepted: 0 and 1")
    moved = np.swapaxes(x, 0, 1) if time == 0 else x
    steps = np.arange(moved.shape[1])
    ends = np.expand_dims(lengths, 1)
    places = np.where(steps < ends, ends - 1 - steps, steps)
    made = moved[np.reshape(np.arange(moved.shape[0]), (-1, 1)), places]
    return np.swapaxes(made, 0, 1) if time == 0 else made


@operator("ArrayFeatureExtractor", domain=MACHINE_LEARNING)
def array_feature_extractor(call: NodeCall) -> Array:
    """Elements of the last axis, by their places."""
    x, places = call.array(0), np.ravel(call.array(1))
    made = np.take(x, places, axis=-1)
    return np.reshape(made, (1, -1)) if x.ndim == 1 else made
