"""Scattering: elements, or runs of them, put into or combined with places index arrays name.

The first function looks at all indices, so that one outside its axis stops the run before anything
is put, and copies the operand, unless the result lies over it; the second puts the values.
Those for one place are taken in the order of the index arrays whatever the number of threads: each
thread sees all indices, and handles the places of its own share of the first indexed axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tawny.dtype import DType
from tawny.engine.cpu.kernels.copies import ELEMENTS, walk
from tawny.engine.cpu.kernels.indexing import SHARED_BYTES, Loop, load_index, merge_axes
from tawny.engine.cpu.kernels.kernel import KERNEL, ArrayLayout, CompiledKernel
from tawny.engine.cpu.kernels.workshare import RowCells, worker_share
from tawny.engine.llvm.ir.builder import I1, I64, PTR, Function, Module, Value
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.expressions import emit_op, is_supported
from tawny.engine.llvm.scalar.numbers import (
    lane_bytes,
    load_scalar,
    load_splat,
    load_vector,
    store_scalar,
    store_vector,
)
from tawny.op import Elementwise
from tawny.shape import size

Range = tuple[int, int, int]

COPY: Final = "copy"
PUT: Final = "put"


class ScatterSpec(NamedTuple):
    """A scatter: `axes` of a part of the result are indexed, as in gathering."""

    source: ArrayLayout
    """What the result is made from."""
    value: ArrayLayout
    """Broadcast to the shape of the part."""
    indices: tuple[ArrayLayout, ...]
    """Index arrays, all of one shape."""
    ranges: tuple[Range, ...]
    """For each axis of the result start, length and step of the part."""
    axes: tuple[int, ...]
    place: int
    combine: Elementwise | None
    """What an old element and a value become; None where the value replaces it."""


def scatter_kernel(spec: ScatterSpec, result: ArrayLayout) -> CompiledKernel | None:
    """The kernel, to be followed by `PUT`; None where NumPy must combine.

    Its last parameter is set where an index is outside its axis.
    """
    dtype = result.dtype
    if spec.combine is not None and not is_supported(spec.combine, (dtype, dtype)):
        return None
    steps = [
        step * stride for (_, _, step), stride in zip(spec.ranges, result.strides, strict=True)
    ]
    left = [a for a in range(len(spec.ranges)) if a not in spec.axes]
    place, rank = spec.place, len(spec.indices[0].shape) if spec.indices else 0
    given = spec.value.strides

    def kept(axes: Sequence[int], strides: Sequence[int]) -> list[Loop]:
        return merge_axes(
            (spec.ranges[a][1], steps[a], s) for a, s in zip(axes, strides, strict=True)
        )

    before = kept(left[:place], given[:place])
    after = kept(left[place:], given[place + rank :])
    middle = merge_axes(
        zip(
            spec.value.shape[place : place + rank],
            given[place : place + rank],
            *[m.strides for m in spec.indices],
            strict=True,
        )
    )
    first = sum([start * s for (start, _, _), s in zip(spec.ranges, result.strides, strict=True)])
    sizes = [(spec.ranges[a][1], steps[a]) for a in spec.axes]
    copied = merge_axes(zip(spec.source.shape, spec.source.strides, result.strides, strict=True))
    item = dtype.itemsize
    shape = _ScatterVariant(
        tuple([m.dtype for m in spec.indices]),
        len(before),
        len(middle),
        len(after),
        len(copied),
        dtype,
        spec.combine,
    )
    loops = [*before, *middle, *after, *sizes, *(copied or [(1, item, item)])]
    parameters = [n for loop in loops for n in loop]
    shared = max(size(spec.value.shape), size(result.shape)) * item > SHARED_BYTES
    return CompiledKernel(_library(*shape), COPY, (first, *parameters, 0), shared, 0)


class _ScatterVariant(NamedTuple):
    """All that the code depends on: it is made once for each."""

    kinds: tuple[DType, ...]
    """Dtypes of the index arrays."""
    before: int
    """Loops over axes that are not indexed and stand before those of the index arrays."""
    middle: int
    after: int
    copied: int
    """Loops over the operand."""
    dtype: DType
    combine: Elementwise | None


@lazy_library
def _library(module: Module, *numbers: Any) -> None:
    shape = _ScatterVariant(*numbers)
    arguments = KERNEL
    with module.function(COPY, arguments) as f:
        _ScatterWriter(f, shape).copy()
    with module.function(PUT, arguments) as f:
        _ScatterWriter(f, shape).put()


class _ScatterWriter:
    """A function being written."""

    def __init__(self, f: Function, shape: _ScatterVariant) -> None:
        self.f, self.shape = f, shape
        row, count = f.arguments[0], len(shape.kinds)
        self.source, self.value = f.cell(row, 0, PTR), f.cell(row, 1, PTR)
        self.indices = [f.cell(row, 2 + i, PTR) for i in range(count)]
        self.result = f.cell(row, 2 + count, PTR)
        self.first = f.cell(row, 3 + count)
        cells = RowCells(f, 4 + count)
        self.before = cells.take(shape.before, 3)
        self.middle = cells.take(shape.middle, 2 + count)
        self.after = cells.take(shape.after, 3)
        self.sizes = cells.take(count, 2)
        self.copied = cells.take(max(shape.copied, 1), 3)
        self.status = f.element(row, cells.place, I64)
        self.element = ELEMENTS[shape.dtype.itemsize]
        self.share = f.constant(I64, 0), f.constant(I64, 0)
        """Places along the first indexed axis that are this thread's."""
        self.aside = f.stack_buffer(16)

    def copy(self) -> None:
        """The operand, unless the result lies over it; notes indices outside their axes."""
        if self.sizes:
            self._look(0, self.indices)
        f, ((count, stride, step), *inner) = self.f, self.copied
        with f.when(self.source.differs(self.result)):
            begin, end = worker_share(count, *f.arguments[1:])
            walk(
                f,
                self.element,
                f.offset(self.source, begin * stride),
                f.offset(self.result, begin * step),
                [(end - begin, stride, step), *[(n, a, b) for n, a, b in inner]],
            )

    def _look(self, level: int, indices: Sequence[Value]) -> None:
        """Note whether an index lies outside; the outermost loop is shared."""
        f = self.f
        if level < len(self.middle):
            count, _, *strides = self.middle[level]
            whole = f.constant(I64, 0), count
            begin, end = worker_share(count, *f.arguments[1:]) if level == 0 else whole
            with f.loop(begin, end) as loop:
                pairs = zip(indices, strides, strict=True)
                self._look(level + 1, [f.offset(i, loop.index * s) for i, s in pairs])
            return
        inside = f.constant(I1, 1)
        for at, kind, (count, _) in zip(indices, self.shape.kinds, self.sizes, strict=True):
            index = load_index(f, at, kind)
            inside = inside & f.select(index < 0, index + count, index).unsigned_below(count)

        def note() -> Sequence[Value]:
            f.store(f.constant(I64, 1), self.status, 8)
            return []

        f.either(inside, list, note)

    def put(self) -> None:
        """The values: the outermost loop is shared, or places along the first indexed axis."""
        f = self.f
        target = f.offset(self.result, self.first)
        if self.before or self.sizes:
            if not self.before:
                self.share = worker_share(self.sizes[0][0], *f.arguments[1:])
            self._walk_before(0, target, self.value)
        elif self.after:
            (count, step, stride), *inner = self.after
            begin, end = worker_share(count, *f.arguments[1:])
            self._run(
                f.offset(target, begin * step),
                f.offset(self.value, begin * stride),
                [[end - begin, step, stride], *inner],
            )
        else:
            with f.when(f.arguments[1].equals(0)):
                self._run(target, self.value, [])

    def _walk_before(self, level: int, target: Value, value: Value) -> None:
        f = self.f
        if level == len(self.before):
            self._walk_indices(0, target, value, self.indices)
            return
        count, step, stride = self.before[level]
        whole = f.constant(I64, 0), count
        begin, end = worker_share(count, *f.arguments[1:]) if level == 0 else whole
        with f.loop(begin, end) as loop:
            place = f.offset(target, loop.index * step)
            self._walk_before(level + 1, place, f.offset(value, loop.index * stride))

    def _walk_indices(
        self, level: int, target: Value, value: Value, indices: Sequence[Value]
    ) -> None:
        f = self.f
        if level == len(self.middle):
            self._pick(target, value, indices)
            return
        count, stride, *strides = self.middle[level]
        with f.loop(0, count) as loop:
            moved = [f.offset(i, loop.index * s) for i, s in zip(indices, strides, strict=True)]
            self._walk_indices(level + 1, target, f.offset(value, loop.index * stride), moved)

    def _pick(self, target: Value, value: Value, indices: Sequence[Value]) -> None:
        """Put what belongs to the indices, if it is this thread's."""
        f = self.f
        mine = f.constant(I1, 1)
        pairs = zip(indices, self.shape.kinds, self.sizes, strict=True)
        for number, (at, kind, (count, step)) in enumerate(pairs):
            index = load_index(f, at, kind)
            wrapped = f.select(index < 0, index + count, index)
            target = f.offset(target, wrapped * step)
            if number == 0 and not self.before:
                low, high = self.share
                mine = (wrapped >= low) & (wrapped < high)

        if self.after:
            with f.when(mine):
                self._run(target, value, self.after)
        else:  # a place that nobody reads costs less than a branch that is hard to foresee
            self._run(f.select(mine, target, self.aside), value, [])

    # ----------------------------------------------------------------- elements

    def _run(self, target: Value, value: Value, axes: Sequence[Sequence[Value]]) -> None:
        """Put what the axes span."""
        f = self.f
        if self.shape.combine is None:
            if axes:
                walk(f, self.element, value, target, [(n, a, b) for n, b, a in axes])
            else:
                f.store(f.load(self.element, value), target)
        elif not axes:
            self._combine_one(target, value)
        elif len(axes) == 1:
            self._line(target, value, *axes[0])
        else:
            (count, step, stride), *inner = axes
            with f.loop(0, count) as loop:
                self._run(
                    f.offset(target, loop.index * step),
                    f.offset(value, loop.index * stride),
                    inner,
                )

    def _combine_one(self, target: Value, value: Value) -> None:
        f, dtype, combine = self.f, self.shape.dtype, self.shape.combine
        assert combine is not None
        numbers = load_scalar(f, dtype, target), load_scalar(f, dtype, value)
        store_scalar(f, dtype, emit_op(f, combine, (dtype, dtype), numbers), target)

    def _line(self, target: Value, value: Value, count: Value, step: Value, stride: Value) -> None:
        """Neighbours by vectors, others one by one."""
        f, dtype = self.f, self.shape.dtype
        item, lanes = dtype.itemsize, max(host().vector_bytes // lane_bytes(dtype), 1)
        whole = count & -lanes

        def vectors(repeated: bool) -> Sequence[Value]:
            combine = self.shape.combine
            assert combine is not None
            with f.loop(0, whole, lanes) as loop:
                place = f.offset(target, loop.index * item)
                new = (
                    load_splat(f, dtype, value, lanes)
                    if repeated
                    else load_vector(f, dtype, f.offset(value, loop.index * item), lanes)
                )
                old = load_vector(f, dtype, place, lanes)
                store_vector(f, dtype, emit_op(f, combine, (dtype, dtype), (old, new)), place)
            return [whole]

        def sparse() -> Sequence[Value]:
            return f.either(
                step.equals(item) & stride.equals(0), lambda: vectors(True), lambda: [count.of(0)]
            )

        (done,) = f.either(step.equals(item) & stride.equals(item), lambda: vectors(False), sparse)
        with f.loop(done, count) as loop:
            self._combine_one(
                f.offset(target, loop.index * step), f.offset(value, loop.index * stride)
            )
