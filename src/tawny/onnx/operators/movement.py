"""Operators that move elements or make new ones: shapes, joining, splitting, filling."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import Any

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import INT64
from tawny.onnx.call import NodeCall
from tawny.onnx.element_types import UnsupportedTypeError, element_dtype
from tawny.onnx.operators.elementwise import select
from tawny.onnx.table import operator
from tawny.onnx.values import SequenceValue

MOST_SIZE = 2**31
"""Elements of one axis that an operator makes, at most."""


def known_array(values: Sequence[int]) -> Array:
    """An array of 64-bit integers whose values are known."""
    return np.asarray(numpy.array(values, numpy.int64))


@operator("Constant")
def constant(call: NodeCall) -> Array:
    """An array that the file holds."""
    for name, dtype in (("value_int", "int64"), ("value_float", "float32")):
        if call.has(name):
            number = call.integer(name) if dtype == "int64" else call.number(name)
            return np.asarray(numpy.array(number, dtype))
    if call.has("value_ints"):
        return known_array(call.ints("value_ints"))
    if call.has("value_floats"):
        return np.asarray(numpy.array(call.floats("value_floats"), "float32"))
    if call.has("value_string") or call.has("value_strings"):
        call.fail("strings are not supported")
    return np.asarray(call.tensor("sparse_value" if call.has("sparse_value") else "value"))


@operator("ConstantOfShape")
def constant_of_shape(call: NodeCall) -> Array:
    """One number everywhere."""
    shape = _sizes(call, call.known_ints(0))
    value = call.tensor("value") if call.has("value") else numpy.zeros(1, numpy.float32)
    if value.size != 1:
        call.fail(f"attribute 'value' has {value.size} elements; accepted: 1")
    return np.broadcast_to(np.asarray(value.reshape(())), shape)


def _sizes(call: NodeCall, sizes: Sequence[int]) -> tuple[int, ...]:
    if any(n < 0 for n in sizes) or prod(sizes) > 2**40:
        call.fail(f"the shape is {tuple(sizes)}; expected sizes of at least 0, and memory for them")
    return tuple(sizes)


@operator("Shape")
def shape(call: NodeCall) -> Array:
    """Sizes of axes."""
    sizes = call.array(0).shape
    end = call.integer("end", len(sizes))
    return known_array(sizes[slice(*_clamp(call.integer("start", 0), end, len(sizes)))])


def _clamp(start: int, end: int, n: int) -> tuple[int, int]:
    first, last = (max(0, min(n, i + n if i < 0 else i)) for i in (start, end))
    return first, last


@operator("Size")
def size(call: NodeCall) -> Array:
    """The number of elements."""
    return np.asarray(numpy.array(prod(call.array(0).shape), numpy.int64))


@operator("Reshape")
def reshape(call: NodeCall) -> Array:
    """Elements in another shape; 0 keeps a size, -1 is what is left."""
    x = call.array(0)
    wanted = call.known_ints(1) if call.opset >= 5 else call.ints("shape")
    if not call.flag("allowzero"):
        if any(n == 0 and i >= x.ndim for i, n in enumerate(wanted)):
            call.fail(f"shape {wanted} keeps an axis that operand 0 of {x.ndim} axes does not have")
        wanted = tuple(x.shape[i] if n == 0 else n for i, n in enumerate(wanted))
    if -1 in wanted and 0 in wanted:
        others = prod(n for n in wanted if n != -1)
        wanted = tuple(0 if n == -1 and not others else n for n in wanted)
    return np.reshape(x, wanted)


@operator("Flatten")
def flatten(call: NodeCall) -> Array:
    """Two axes: those before one, and those from it on."""
    x = call.array(0)
    axis = call.integer("axis", 1)
    if not -x.ndim <= axis <= x.ndim:
        call.fail(f"axis {axis} is out of bounds for {x.ndim} axes")
    axis += x.ndim if axis < 0 else 0
    return np.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


@operator("Squeeze")
def squeeze(call: NodeCall) -> Array:
    """Without some axes of size 1, or all of them."""
    x, axes = call.array(0), call.axes_since(13, 1)
    chosen = call.axes(axes, x.ndim) if axes is not None else None
    return np.squeeze(x, axis=chosen)


@operator("Unsqueeze")
def unsqueeze(call: NodeCall) -> Array:
    """With axes of size 1 put in."""
    x, axes = call.array(0), call.axes_since(13, 1) or ()
    return np.expand_dims(x, call.axes(axes, x.ndim + len(axes)))


@operator("Transpose")
def transpose(call: NodeCall) -> Array:
    """Axes in another order."""
    x = call.array(0)
    order = call.ints("perm", range(x.ndim)[::-1])
    if sorted(order) != list(range(x.ndim)):
        call.fail(f"perm is {order}; expected each of {x.ndim} axes once")
    return np.permute_dims(x, order)


@operator("Expand")
def expand(call: NodeCall) -> Array:
    """Repeated along axes of size 1; both shapes broadcast."""
    x = call.array(0)
    wanted = np.broadcast_shapes(x.shape, _sizes(call, call.known_ints(1)))
    return np.broadcast_to(x, wanted)


@operator("Tile")
def tile(call: NodeCall) -> Array:
    """Repeated along each axis."""
    x = call.array(0)
    if call.opset < 6:
        tiles, axis = call.known_int(1), call.axis(call.known_int(2), x.ndim)
        return np.tile(x, [tiles if a == axis else 1 for a in range(x.ndim)])
    counts = call.known_ints(1)
    if len(counts) != x.ndim or any(n < 0 for n in counts):
        call.fail(f"repeats are {counts}; expected one number for each of {x.ndim} axes")
    return np.tile(x, counts)


@operator("Concat")
def concat(call: NodeCall) -> Array:
    """Operands behind each other."""
    arrays = call.arrays()
    axis = call.integer("axis", 1 if call.opset < 4 else None)
    return np.concat(arrays, call.axis(axis, arrays[0].ndim))


@operator("Split")
def split(call: NodeCall) -> tuple[Array, ...]:
    """Parts of an axis: of given sizes, or equal but for the last."""
    x = call.array(0)
    axis, count = call.axis(call.integer("axis", 0), x.ndim), len(call.node.outputs)
    sizes = call.known_optional_ints(1) if call.opset >= 13 else call.ints("split", ()) or None
    n = x.shape[axis]
    if sizes is None:
        if call.integer("num_outputs", count) != count:
            call.fail(f"num_outputs is {call.integer('num_outputs')}, for {count} outputs")
        each = ceil(n / count)
        sizes = tuple(max(0, min(each, n - i * each)) for i in range(count))
    return tuple(parts_of(x, axis, sizes, call))


def parts_of(x: Array, axis: int, sizes: Sequence[int], call: NodeCall) -> list[Array]:
    """Parts of an axis, of sizes that fill it."""
    if sum(sizes) != x.shape[axis] or any(n < 0 for n in sizes):
        call.fail(f"parts of sizes {tuple(sizes)} do not fill axis {axis} of {x.shape[axis]}")
    call.check_steps(len(sizes), "parts")
    ends = numpy.cumsum(sizes)
    return np.split(x, [int(e) for e in ends[:-1]], axis)


@operator("Slice")
def take_slices(call: NodeCall) -> Array:
    """Elements at equal distances between two places of some axes."""
    x = call.array(0)
    if call.opset >= 10:
        starts, ends = call.known_ints(1), call.known_ints(2)
        axes = call.known_optional_ints(3)
        steps = call.known_optional_ints(4)
    else:
        starts, ends, steps = call.ints("starts"), call.ints("ends"), None
        axes = call.ints("axes") if call.has("axes") else None
    chosen = call.axes(range(len(starts)) if axes is None else axes, x.ndim)
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(chosen) == len(steps) or 0 in steps:
        call.fail(f"starts {starts}, ends {ends}, axes {chosen}, steps {steps} do not fit together")
    key = [slice(None)] * x.ndim
    for axis, start, end, step in zip(chosen, starts, ends, steps, strict=True):
        key[axis] = _bounds(start, end, step, x.shape[axis])
    return x[tuple(key)]


def _bounds(start: int, end: int, step: int, n: int) -> slice:
    """The slice between two places, each of which may lie outside."""
    low, high = (0, n) if step > 0 else (-1, n - 1)
    first = max(low, min(high, start + n if start < 0 else start))
    if step < 0:
        first = max(0, first) if n else 0
    last = max(low, min(high + (step < 0), end + n if end < 0 else end))
    return slice(first, None if last < 0 else last, step)


@operator("Pad")
def pad(call: NodeCall) -> Array:
    """Elements put in front of and behind axes, or taken away where their number is negative."""
    x = call.array(0)
    mode = call.choice("mode", "constant", ("constant", "reflect", "edge", "wrap"))
    fill: Array | float = call.number("value", 0.0)
    if call.opset >= 11:
        pads, given = call.known_ints(1), call.optional(2)
        fill = np.reshape(given, ()) if given is not None else 0.0
    else:
        pads = call.ints("paddings" if call.opset < 2 else "pads")
    axes = call.known_optional_ints(3) if call.opset >= 18 else None
    chosen = call.axes(range(x.ndim) if axes is None else axes, x.ndim)
    if len(pads) != 2 * len(chosen):
        call.fail(f"pads are {pads}; expected {2 * len(chosen)} of them")
    widths = [(0, 0)] * x.ndim
    for axis, before, after in zip(chosen, pads, pads[len(chosen) :], strict=False):
        widths[axis] = (before, after)
    return pad_with(x, widths, mode, fill, call)


def pad_with(
    x: Array, widths: Sequence[tuple[int, int]], mode: str, fill: Array | float, call: NodeCall
) -> Array:
    """Padding, where negative widths take away."""
    if any(w > MOST_SIZE for pair in widths for w in pair):
        call.fail(f"pads are {tuple(widths)}, which is too much")
    kept = tuple(
        slice(max(0, -b), n - max(0, -a)) for (b, a), n in zip(widths, x.shape, strict=True)
    )
    x = x[kept]
    outside = [(max(0, b), max(0, a)) for b, a in widths]
    if mode == "constant":
        if isinstance(fill, float) and x.dtype.kind in "iub":
            fill = int(fill)
        return np.pad(x, outside, constant_values=fill)
    return np.pad(x, outside, mode=mode)


@operator("CenterCropPad")
def center_crop_pad(call: NodeCall) -> Array:
    """Cut or padded around the middle, to given sizes."""
    x, sizes = call.array(0), _sizes(call, call.known_ints(1))
    axes = call.axes(call.ints("axes", range(x.ndim)), x.ndim)
    if len(sizes) != len(axes):
        call.fail(f"{len(sizes)} sizes came for {len(axes)} axes")
    widths = [(0, 0)] * x.ndim
    for axis, wanted in zip(axes, sizes, strict=True):
        more = wanted - x.shape[axis]
        widths[axis] = (more // 2, more - more // 2) if more > 0 else (-(-more // 2), 0)
        if more < 0:
            before = -more // 2
            widths[axis] = (-before, more + before)
    return pad_with(x, widths, "constant", 0.0, call)


@operator("DepthToSpace")
def depth_to_space(call: NodeCall) -> Array:
    """Blocks of channels as blocks of pixels."""
    x, size = call.array(0), call.integer("blocksize")
    n, channels, rows, columns = _image_shape(call, x)
    if size < 1 or channels % (size * size):
        call.fail(f"blocksize is {size}, for {channels} channels")
    depth = channels // (size * size)
    if call.choice("mode", "DCR", ("DCR", "CRD")) == "DCR":
        split = np.reshape(x, (n, size, size, depth, rows, columns))
        moved = np.permute_dims(split, (0, 3, 4, 1, 5, 2))
    else:
        split = np.reshape(x, (n, depth, size, size, rows, columns))
        moved = np.permute_dims(split, (0, 1, 4, 2, 5, 3))
    return np.reshape(moved, (n, depth, rows * size, columns * size))


@operator("SpaceToDepth")
def space_to_depth(call: NodeCall) -> Array:
    """Blocks of pixels as blocks of channels."""
    x, size = call.array(0), call.integer("blocksize")
    n, depth, rows, columns = _image_shape(call, x)
    if size < 1 or rows % size or columns % size:
        call.fail(f"blocksize is {size}, for {rows} rows and {columns} columns")
    split = np.reshape(x, (n, depth, rows // size, size, columns // size, size))
    if call.choice("mode", "DCR", ("DCR", "CRD")) == "CRD":
        moved = np.permute_dims(split, (0, 1, 3, 5, 2, 4))
    else:
        moved = np.permute_dims(split, (0, 3, 5, 1, 2, 4))
    return np.reshape(moved, (n, depth * size * size, rows // size, columns // size))


def _image_shape(call: NodeCall, x: Array) -> tuple[int, int, int, int]:
    if x.ndim != 4:
        call.fail(f"operand 0 has shape {x.shape}; it must have 4 axes")
    n, channels, rows, columns = x.shape
    return n, channels, rows, columns


# ------------------------------------------------------------------- makers


@operator("Range")
def arange(call: NodeCall) -> Array:
    """Numbers at equal distances."""
    dtype = call.array(0).dtype
    start, limit, delta = (call.known_operand(i).reshape(()) for i in range(3))
    if delta == 0:
        call.fail("delta is 0")
    number: Any = int if dtype.kind in "iu" else float
    count = max(0.0, (number(limit) - number(start)) / number(delta))
    call.check_elements(count, "a range")
    steps = numpy.arange(ceil(count), dtype=dtype if dtype.kind in "iu" else numpy.float64)
    return np.asarray((start + steps * delta).astype(dtype))


@operator("EyeLike")
def eye_like(call: NodeCall) -> Array:
    """Ones on a diagonal, in the shape of the operand."""
    x = call.array(0)
    if x.ndim != 2:
        call.fail(f"operand 0 has shape {x.shape}; it must have 2 axes")
    dtype = x.dtype if not call.has("dtype") else dtype_of(call, "dtype")
    return np.eye(x.shape[0], x.shape[1], call.integer("k", 0), dtype=dtype)


def dtype_of(call: NodeCall, name: str, default: int | None = None) -> Any:
    """The dtype that an attribute names."""
    try:
        return element_dtype(call.integer(name, default))
    except UnsupportedTypeError as error:
        call.fail(str(error))


@operator("OneHot")
def one_hot(call: NodeCall) -> Array:
    """One number at places that indices say, another elsewhere."""
    indices, values = call.array(0), call.array(2)
    depth = int(call.known_operand(1).reshape(-1)[0])
    if depth < 1 or values.shape != (2,):
        call.fail(f"depth is {depth}, values have shape {values.shape}; expected (2,)")
    axis = call.axis(call.integer("axis", -1), indices.ndim + 1)
    whole = indices.astype(INT64)
    places = np.reshape(np.arange(depth), (-1, *(1,) * (indices.ndim - axis)))
    there = np.equal(np.expand_dims(np.remainder(whole, depth), axis), places)
    inside = np.expand_dims((whole >= -depth) & (whole < depth), axis)
    return select(there & inside, values[1], values[0])


@operator("Trilu")
def trilu(call: NodeCall) -> Array:
    """One side of a diagonal, zero on the other."""
    x = call.array(0)
    k = call.known_int(1) if call.optional(1) is not None else 0
    return np.triu(x, k) if call.flag("upper", True) else np.tril(x, k)


@operator("Unique")
def unique(call: NodeCall) -> tuple[Array, ...]:
    """Different elements or slices, where each is first, which one is where, and how often."""
    x = call.known_operand(0)
    axis = call.axis(call.integer("axis"), x.ndim) if call.has("axis") else None
    made = numpy.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    values, first, inverse, counts = made
    inverse = inverse.reshape(-1)
    if not call.flag("sorted", True):
        order = numpy.argsort(first, kind="stable")
        rank = numpy.argsort(order, kind="stable")
        values = numpy.take(values, order, axis=0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    return tuple(np.asarray(numpy.ascontiguousarray(v)) for v in (values, first, inverse, counts))


@operator("NonZero")
def nonzero(call: NodeCall) -> Array:
    """Places of elements that are not zero, an axis a row."""
    found = numpy.nonzero(call.known_operand(0))
    return np.asarray(numpy.array(found, numpy.int64).reshape(call.array(0).ndim, -1))


@operator("Compress")
def compress(call: NodeCall) -> Array:
    """Elements or slices for which a condition holds."""
    x, condition = call.array(0), call.known_operand(1)
    places = numpy.nonzero(condition.ravel())[0]
    if call.has("axis"):
        return np.take(x, np.asarray(places), axis=call.axis(call.integer("axis"), x.ndim))
    return np.take(np.ravel(x), np.asarray(places), axis=0)


@operator("SplitToSequence")
def split_to_sequence(call: NodeCall) -> SequenceValue:
    """Parts of an axis as a sequence."""
    x = call.array(0)
    axis = call.axis(call.integer("axis", 0), x.ndim)
    n = x.shape[axis]
    if call.optional(1) is None:
        call.check_steps(n, "parts")
        parts = parts_of(x, axis, (1,) * n, call)
        keep = call.flag("keepdims", True)
        return SequenceValue(tuple(p if keep else np.squeeze(p, axis=axis) for p in parts))
    sizes = call.known_ints(1)
    if not call.array(1).ndim:
        (each,) = sizes
        if each < 1:
            call.fail(f"parts of {each} elements are not possible")
        call.check_steps(-(-n // each), "parts")
        sizes = tuple(min(each, n - i) for i in range(0, n, each))
    return SequenceValue(tuple(parts_of(x, axis, sizes, call)))
