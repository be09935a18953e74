"""Non-maximum suppression: boxes by falling score, each kept unless it overlaps one that was kept.

Scores are sorted first.  Then each box is compared with those that are kept, a vector of them at a
time; these lie in columns.  What is computed, and in which order, is what the reference engine
computes, so that the same boxes are kept.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tawny.dtype import DType, kind_of
from tawny.engine.cpu.kernels.indexing import load_index
from tawny.engine.cpu.kernels.kernel import KERNEL, ArrayLayout, CompiledKernel
from tawny.engine.cpu.kernels.sorting.radix_sort import MOST_LENGTH, RowSortWriter, RowVariant
from tawny.engine.llvm.ir.builder import F64, I1, I64, PTR, Function, Module, Value
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.numbers import storage_type

SYMBOL: Final = "suppress"

COLUMNS: Final = 6
"""Numbers of a kept box: top, left, bottom, right, area, class."""


class SuppressionLimits(NamedTuple):
    """The limits by which boxes are kept."""

    max_boxes: int
    """How many boxes are kept at most."""
    max_overlap: float
    """The share of their union by which two kept boxes overlap at most."""
    min_score: float | None
    """The least score of a box that has a class; None where there are no classes."""


class _SuppressionVariant(NamedTuple):
    """All that the code depends on: it is made once for each."""

    boxes: DType
    scores: DType
    classes: DType | None


def suppression_kernel(
    limits: SuppressionLimits, boxes: ArrayLayout, scores: ArrayLayout, classes: ArrayLayout | None
) -> CompiledKernel | None:
    """The kernel of the places of kept boxes; None where NumPy must compare."""
    (n, _), kinds = boxes.shape, (boxes.dtype, scores.dtype)
    if any(kind_of(d) != "f" or d.itemsize < 4 for d in kinds) or n >= MOST_LENGTH:
        return None
    if classes is not None and classes.dtype.kind not in "biu":
        return None
    variant = _SuppressionVariant(*kinds, None if classes is None else classes.dtype)
    scores_bytes, places_bytes = (
        RowVariant(scores.dtype).buffer_bytes(n),
        RowVariant(scores.dtype, places=True).buffer_bytes(n),
    )
    held = -(-min(limits.max_boxes, n) // _lanes()) * _lanes()
    least = 0.0 if limits.min_score is None else float(scores.dtype.type(limits.min_score))
    strides = (*boxes.strides, scores.strides[0], 0 if classes is None else classes.strides[0])
    numbers = [int(np.float64(x).view(np.int64)) for x in (limits.max_overlap, least)]
    cells = (n, limits.max_boxes, held, scores_bytes, places_bytes, *strides, *numbers)
    scratch = scores_bytes + 2 * places_bytes + 8 * COLUMNS * held
    return CompiledKernel(_library(variant), SYMBOL, cells, False, max(scratch, 64))


def _lanes() -> int:
    return max(host().vector_bytes // 8, 1)


@lazy_library
def _library(module: Module, variant: _SuppressionVariant) -> None:
    with module.function(SYMBOL, KERNEL) as f:
        _SuppressionWriter(f, variant).write()


class _SuppressionWriter:
    """Writes the kernel."""

    def __init__(self, f: Function, variant: _SuppressionVariant) -> None:
        self.f, self.variant, self.lanes = f, variant, _lanes()
        row, place = f.arguments[0], 2 if variant.classes is None else 3
        self.boxes, self.scores = f.cell(row, 0, PTR), f.cell(row, 1, PTR)
        self.classes = None if variant.classes is None else f.cell(row, 2, PTR)
        self.result, self.scratch = f.cell(row, place, PTR), f.cell(row, place + 1, PTR)
        whole = [f.cell(row, place + 2 + n) for n in range(9)]
        self.n, self.count, self.held, scores_bytes, places_bytes = whole[:5]
        self.along, self.across, self.score_step, self.class_step = whole[5:]
        self.threshold, self.least = (f.cell(row, place + 11 + n, F64) for n in range(2))
        self.first = f.offset(self.scratch, scores_bytes)
        self.places = f.offset(self.first, places_bytes)
        self.columns = f.offset(self.places, places_bytes)

    def write(self) -> None:
        """Sort, then keep one box after the other."""
        f = self.f
        with f.loop(0, self.count) as loop:
            f.store(f.constant(I64, -1), f.element(self.result, loop.index, I64))
        with f.when((self.n > 0) & (self.count > 0)):
            self._order()
            with f.repeat(f.constant(I64, 0), f.constant(I64, 0)) as steps:
                index, kept = steps.carried
                (after,) = self._consider(index, kept)
                more = (index + 1 < self.n) & (after < self.count)
                steps.again(more, index + 1, after)

    def _order(self) -> None:
        """The places of boxes by falling score, NaN last."""
        f, kind = self.f, storage_type(self.variant.scores)
        with f.loop(0, self.n) as loop:
            score = f.load(kind, f.offset(self.scores, loop.index * self.score_step))
            f.store(-score, f.element(self.scratch, loop.index, kind))
        moved = RowVariant(self.variant.scores, places=True)
        stride = f.constant(I64, kind.nbytes)
        sort = RowSortWriter(f, moved, self.n, stride, f.constant(I64, 8))
        sort.write(self.scratch, self.places, (self.first, self.places))

    def _consider(self, index: Value, kept: Value) -> list[Value]:
        """Keep the next box unless it is dropped; how many are kept then."""
        f = self.f
        place = f.load(I64, f.element(self.places, index, I64))
        kind = storage_type(self.variant.boxes)
        base = f.offset(self.boxes, place * self.along)
        given = [f.load(kind, f.offset(base, self.across * n)) for n in range(4)]
        corners = [x if kind == F64 else f.convert("fpext", x, F64) for x in given]
        box = [*corners, self._area(corners)]
        label = f.constant(I64, 0)
        allowed = f.constant(I1, 1)
        if self.classes is not None:
            assert self.variant.classes is not None
            address = f.offset(self.classes, place * self.class_step)
            label = load_index(f, address, self.variant.classes)
            allowed = label.differs(0) if self.variant.classes.kind == "u" else label > 0
            allowed = allowed & (self._score(place) >= self.least) & (self._area(given) > 0.0)

        def keep() -> list[Value]:
            f.store(place, f.element(self.result, kept, I64))
            for number, value in enumerate([*box, label]):
                f.store(value, self._column(number, kept))
            return [kept + 1]

        def compare() -> list[Value]:
            dropped = self._is_dropped(box, label, kept)
            return f.either(dropped, lambda: [kept], keep)

        return f.either(allowed, compare, lambda: [kept])

    def _score(self, place: Value) -> Value:
        f, kind = self.f, storage_type(self.variant.scores)
        score = f.load(kind, f.offset(self.scores, place * self.score_step))
        return score if kind == F64 else f.convert("fpext", score, F64)

    def _column(self, number: int, index: Value) -> Value:
        """Where a number of a kept box lies."""
        return self.f.element(self.columns, self.held * number + index, I64)

    def _area(self, corners: list[Value]) -> Value:
        top, left, bottom, right = corners
        return self._positive(bottom - top) * self._positive(right - left)

    def _positive(self, x: Value) -> Value:
        """A number, 0 if it is negative; NaN stays."""
        return self.f.intrinsic("maximum", x.type, x, x.of(0.0))

    def _is_dropped(self, box: list[Value], label: Value, kept: Value) -> Value:
        """Whether a box overlaps one of those that are kept."""
        f, lanes = self.f, self.lanes
        top, left, bottom, right, area = (f.splat(x, lanes) for x in box)
        own, limit = f.splat(label, lanes), f.splat(self.threshold, lanes)
        many = f.splat(kept, lanes)
        with f.repeat(f.constant(I64, 0), f.constant(I1, 0)) as steps:
            index, _ = steps.carried
            others = [
                f.load((I64 if n == COLUMNS - 1 else F64).by(lanes), self._column(n, index), 8)
                for n in range(COLUMNS)
            ]
            high = self._minimum(others[2], bottom) - self._maximum(others[0], top)
            wide = self._minimum(others[3], right) - self._maximum(others[1], left)
            shared = self._positive(high) * self._positive(wide)
            union = others[4] + area - shared
            part = f.select(union > 0.0, shared / union, shared)
            real = (f.splat(index, lanes) + f.counting(I64, lanes)) < many
            over = (part > limit) & real & others[5].equals(own)
            any_over = f.intrinsic("vector.reduce.or", I1, over, overload=[over.type])
            steps.again((index + lanes < kept) & ~any_over, index + lanes, any_over)
        return steps.carried[1]

    def _minimum(self, a: Value, b: Value) -> Value:
        return self.f.intrinsic("minimum", a.type, a, b)

    def _maximum(self, a: Value, b: Value) -> Value:
        return self.f.intrinsic("maximum", a.type, a, b)
