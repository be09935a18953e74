"""Pooling over windows: a thread for each window and channel, or for each element of the input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple

from tawny.dtype import DType, kind_of
from tawny.engine.gpu.kernels.copies import offset_of
from tawny.engine.gpu.launch import (
    VECTOR_BYTES,
    DeviceArray,
    GpuKernel,
    KernelCode,
    Launch,
    ThreadGrid,
    blocks_for,
    grid_kernel,
)
from tawny.engine.llvm.ir.builder import I1, I64, Module, Value
from tawny.engine.llvm.ir.places import coordinates
from tawny.engine.llvm.scalar.expressions import primitive
from tawny.engine.llvm.scalar.numbers import compute_type, constant, load_scalar, real, store_scalar
from tawny.ops.pooling import Pooling
from tawny.scalar import Prim
from tawny.shape import Shape


class PoolingMode(Enum):
    """The kind of pooling, or of its gradient."""

    MAX = "the greatest element of each window"
    MEAN = "the mean of each window"
    SELECT = "elements of operand 1 where windows of operand 0 have their first maximum"
    MAX_GRADIENT = "each window's slope where its first maximum is"
    MEAN_GRADIENT = "each window's slope spread evenly"


MOST_AT_ONCE: Final = 16
"""Elements of a window that a thread reads at once."""


class PoolingStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    kind: PoolingMode
    dtype: DType
    rank: int
    """Spatial axes."""
    window: Shape
    """The sizes of small windows, whose elements are read at once; otherwise none."""
    each: int
    """Neighbouring channels that a thread has."""


def pooling_kernel(
    kind: PoolingMode,
    op: Pooling,
    whole: Shape,
    pooled: Shape,
    operands: Sequence[DeviceArray],
    result: DeviceArray,
) -> GpuKernel | None:
    """The kernel of a pooling between arrays of these shapes; None for dtypes it does not know."""
    if any(m.dtype != result.dtype for m in operands):
        return None
    if kind_of(result.dtype) != "f" and kind is not PoolingMode.MAX:
        return None
    total = math.prod(result.shape)
    small = tuple(op.window) if math.prod(op.window) <= MOST_AT_ONCE else ()
    each = _channels_at_once(kind, operands, result) if small else 1
    structure = PoolingStructure(kind, result.dtype, len(op.window), small, each)
    before = [first for first, _ in op.padding]
    numbers = [
        total // each,
        *result.shape[:-1],
        result.shape[-1] // each,
        *whole[1:-1],
        *pooled[1:-1],
        *op.window,
        *op.strides,
        *before,
    ]
    numbers += [stride for operand in operands for stride in operand.strides]
    places = tuple(range(len(operands) + 1))
    code = KernelCode(write_pooling, structure)
    launch = Launch(code, places, tuple(numbers), blocks_for(total // each))
    return GpuKernel((launch,) if total else ())


def _channels_at_once(
    kind: PoolingMode, operands: Sequence[DeviceArray], result: DeviceArray
) -> int:
    """How many neighbouring channels a thread reads and writes at once."""
    if kind not in (PoolingMode.MAX, PoolingMode.MEAN):
        return 1
    (x,), item = operands, int(result.dtype.itemsize)
    each = VECTOR_BYTES // item
    whole = x.aligned and x.strides[-1] == item and not result.shape[-1] % each
    return each if whole and not any(s % VECTOR_BYTES for s in x.strides[:-1]) else 1


# ------------------------------------------------------------------------ writing


def write_pooling(module: Module, name: str, structure: PoolingStructure) -> None:
    """Write the kernel of a pooling."""
    operands = 2 if structure.kind in (PoolingMode.SELECT, PoolingMode.MAX_GRADIENT) else 1
    rank = structure.rank
    count = 1 + (rank + 2) + 5 * rank + operands * (rank + 2)
    with grid_kernel(module, name, operands + 1, count) as grid:
        writer = _PoolingElementWriter(grid, structure, operands)
        with grid.f.when(grid.number < writer.total):
            writer.write()


class _PoolingElementWriter:
    """Writes a kernel that computes an element for each thread."""

    def __init__(self, grid: ThreadGrid, structure: PoolingStructure, operands: int) -> None:
        self.grid, self.f, self.structure = grid, grid.f, structure
        left, rank = iter(grid.numbers), structure.rank

        def take(count: int) -> list[Value]:
            return [next(left) for _ in range(count)]

        (self.total,) = take(1)
        self.shape = take(rank + 2)
        self.sizes, self.counts, self.window, self.strides, self.before = (
            take(rank) for _ in range(5)
        )
        self.steps = [take(rank + 2) for _ in range(operands)]
        self.at = coordinates(grid.number, self.shape)
        self.at[-1] = self.at[-1] * structure.each
        self.dtype, self.channel = structure.dtype, 0

    def write(self) -> None:
        """Compute the thread's element, or those of neighbouring channels."""
        each, item = self.structure.each, int(self.dtype.itemsize)
        place = self.f.offset(self.grid.places[-1], self.grid.number * (each * item))
        found: list[Value] = []
        for self.channel in range(each):
            found.append(self._result())
        for n, result in enumerate(found):
            align = item if n else each * item
            store_scalar(self.f, self.dtype, result, self.f.offset(place, n * item), align)

    def _result(self) -> Value:
        """An element."""
        return {
            PoolingMode.MAX: lambda: self._maximum(self.at[1:-1])[0],
            PoolingMode.MEAN: self._mean,
            PoolingMode.SELECT: self._select,
            PoolingMode.MAX_GRADIENT: self._max_gradient,
            PoolingMode.MEAN_GRADIENT: self._mean_gradient,
        }[self.structure.kind]()

    def _load(self, operand: int, spatial: Sequence[Value]) -> Value:
        """An element of an operand in the thread's image and channel."""
        f, item, at = self.f, int(self.dtype.itemsize), [self.at[0], *spatial, self.at[-1]]
        offset = offset_of(at, self.steps[operand], f.constant(I64, 0))
        place = f.offset(self.grid.places[operand], offset)
        if self.structure.each > 1:
            place = f.offset(place, self.channel * item)
        align = item if self.channel else self.structure.each * item
        return real(load_scalar(f, self.dtype, place, align))

    # ------------------------------------------------------------------- windows

    def _walk(
        self,
        ends: Sequence[Value],
        carried: Sequence[Value],
        body: Callable[[list[Value], list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Loops from 0 to `ends`, the last innermost; what they carry."""

        def nest(level: int, places: list[Value], values: list[Value]) -> Sequence[Value]:
            if level == len(ends):
                return body(places, values)
            with self.f.loop(0, ends[level], carried=values) as loop:
                loop.carry(*nest(level + 1, [*places, loop.index], list(loop.carried)))
            return loop.carried

        return list(nest(0, [], list(carried)))

    def _walk_window(
        self,
        window: Sequence[Value],
        carried: Sequence[Value],
        body: Callable[[list[Value], list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Walk over the elements that a window sees inside of the array."""
        f, starts = self.f, self._starts(window)

        def element(taps: list[Value], values: list[Value]) -> Sequence[Value]:
            spatial = [start + tap for start, tap in zip(starts, taps, strict=True)]
            inside = self._is_inside(spatial)
            return f.either(inside, lambda: body(spatial, values), lambda: values)

        return self._walk(self.window, carried, element)

    def _starts(self, window: Sequence[Value]) -> list[Value]:
        """Where a window begins."""
        return [
            place * stride - before
            for place, stride, before in zip(window, self.strides, self.before, strict=True)
        ]

    def _is_inside(self, spatial: Sequence[Value]) -> Value:
        """Whether a place lies inside of the array."""
        inside = self.f.constant(I1, 1)
        for place, size in zip(spatial, self.sizes, strict=True):
            inside = inside & place.unsigned_below(size)
        return inside

    def _fold_window(
        self,
        window: Sequence[Value],
        carried: Sequence[Value],
        body: Callable[[list[Value], Value, list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Fold the elements that a window sees; `body` gets a place, what lies there, and values.

        Those of a small window are read before any is looked at.
        """
        if not self.structure.window:
            return self._walk_window(
                window, carried, lambda at, values: body(at, self._load(0, at), values)
            )
        f, starts, values = self.f, self._starts(window), list(carried)
        seen: list[tuple[list[Value], Value, Value]] = []
        for taps in itertools.product(*[range(n) for n in self.structure.window]):
            spatial = [start + tap for start, tap in zip(starts, taps, strict=True)]
            nearest = [
                f.minimum(f.maximum(place, 0), size - 1)
                for place, size in zip(spatial, self.sizes, strict=True)
            ]
            seen.append((spatial, self._is_inside(spatial), self._load(0, nearest)))
        for spatial, inside, x in seen:
            after = body(spatial, x, values)
            values = [f.select(inside, n, o) for n, o in zip(after, values, strict=True)]
        return values

    def _maximum(self, window: Sequence[Value]) -> tuple[Value, list[Value]]:
        """The greatest element that a window sees, and where the first such is."""
        f = self.f
        least = real(constant(f, self.dtype, _least_value(self.dtype), 0))
        nowhere = [f.constant(I64, -1)] * self.structure.rank

        def body(spatial: list[Value], x: Value, values: list[Value]) -> Sequence[Value]:
            best, *where = values
            better = self._exceeds(x, best) | where[0].equals(-1)
            chosen = [f.select(better, n, o) for n, o in zip(spatial, where, strict=True)]
            return [f.select(better, x, best), *chosen]

        best, *where = self._fold_window(window, [least, *nowhere], body)
        return best, where

    def _exceeds(self, x: Value, best: Value) -> Value:
        """Whether an element is greater, or the first NaN."""
        greater = real(primitive(self.f, Prim.GT, self.dtype, [x, best])[0])
        if kind_of(self.dtype) != "f":
            return greater
        unknown, known = (self.f.compare(p, n, n) for p, n in (("uno", x), ("ord", best)))
        return greater | (unknown & known)

    # ------------------------------------------------------------------- results

    def _mean(self) -> Value:
        f = self.f

        def body(spatial: list[Value], x: Value, values: list[Value]) -> Sequence[Value]:
            del spatial
            total, count = values
            return [total + x, count + 1]

        zero = real(constant(f, self.dtype, 0.0, 0))
        total, count = self._fold_window(self.at[1:-1], [zero, f.constant(I64, 0)], body)
        return total / f.convert("sitofp", count, compute_type(self.dtype))

    def _select(self) -> Value:
        _, where = self._maximum(self.at[1:-1])
        return self._load(1, where)

    def _windows_of_element(self, body: Callable[[list[Value], Value], Value]) -> Value:
        """The sum over the windows that see the thread's element, in their order."""
        f = self.f
        zero = real(constant(f, self.dtype, 0.0, 0))
        firsts: list[Value] = []
        ends: list[Value] = []
        for place, size, stride, before, count in zip(
            self.at[1:-1], self.window, self.strides, self.before, self.counts, strict=True
        ):
            reach = place + before
            first = f.maximum((reach - size + stride) // stride, 0)
            first = f.select(reach - size + 1 < 1, 0, first)
            last = f.minimum(reach // stride + 1, count)
            firsts.append(first)
            ends.append(last - first)

        def window(taps: list[Value], values: list[Value]) -> Sequence[Value]:
            return [body([a + t for a, t in zip(firsts, taps, strict=True)], values[0])]

        return self._walk(ends, [zero], window)[0]

    def _max_gradient(self) -> Value:
        f = self.f

        def body(window: list[Value], total: Value) -> Value:
            _, where = self._maximum(window)
            here = f.constant(I1, 1)
            for one, other in zip(where, self.at[1:-1], strict=True):
                here = here & one.equals(other)
            (found,) = f.either(here, lambda: [total + self._load(1, window)], lambda: [total])
            return found

        return self._windows_of_element(body)

    def _mean_gradient(self) -> Value:
        f = self.f

        def body(window: list[Value], total: Value) -> Value:
            count = f.constant(I64, 1)
            for place, stride, before, size, length in zip(
                window, self.strides, self.before, self.window, self.sizes, strict=True
            ):
                start = place * stride - before
                count = count * (f.minimum(start + size, length) - f.maximum(start, 0))
            each = self._load(0, window) / f.convert("sitofp", count, compute_type(self.dtype))
            return total + each

        return self._windows_of_element(body)


def _least_value(dtype: DType) -> float:
    """No element is less."""
    if kind_of(dtype) == "f":
        return -math.inf
    if dtype.kind == "i":
        return -(1 << (8 * dtype.itemsize - 1))
    return 0
