"""Bodies with reductions as code in stages over one space of loops.

All reductions of a body fold the same axes of its space.  What does not vary along them is computed
once for each place on the other axes: it belongs to the *row*.  Everything else belongs to the
elements, which are swept once for each stage: a sweep folds what needs the folds before it.

Means, variances and logarithms of sums are written out in plainer folds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from tawny import dtype as dt
from tawny.dtype import DType, kind_of
from tawny.engine.llvm.ir.builder import Function
from tawny.engine.llvm.scalar.bodies import (
    Read,
    View,
    is_step_supported,
    sources_of,
    whole_view,
)
from tawny.engine.llvm.scalar.casts import cast
from tawny.engine.llvm.scalar.coordinates import (
    COUNTER,
    Source,
    canonical_source,
    emit_source,
    index_dtype,
)
from tawny.engine.llvm.scalar.expressions import calls_of, emit_op
from tawny.engine.llvm.scalar.folds import ArgExtremumFold, ReductionFold, lanes_of
from tawny.engine.llvm.scalar.numbers import Number, Pair, constant, lane_bytes, real
from tawny.engine.llvm.scalar.reals import FUNCTIONS
from tawny.op import ELEMENTWISE, Elementwise
from tawny.ops.body import FOLDS, Body, BodyStep, folded_axes, nonunit
from tawny.ops.creation import SOURCES, Cast
from tawny.ops.movement import BroadcastTo, Copy, Reshape, Roll
from tawny.ops.reduction import (
    AllTrue,
    AnyTrue,
    ArgExtremum,
    ArgMax,
    LogSumExp,
    Max,
    Mean,
    Min,
    Prod,
    Reduction,
    Sum,
    Var,
)
from tawny.scalar import Prim
from tawny.shape import Shape

Emit = Callable[[Function, Sequence[Number]], Number]
"""Writes the code of one step for numbers, scalars or vectors."""


@dataclass(frozen=True, slots=True)
class Computation:
    """A value computed from reads, steps and folds before it, by their numbers."""

    name: str
    """What is computed; with the dtypes of its inputs it tells it from all others."""
    inputs: tuple[int, ...]
    dtype: DType
    emit: Emit = field(compare=False)
    costly: bool = False
    """Whether computing it again takes longer than reading it."""


Item = Read | Computation | ReductionFold


class ReductionCode(NamedTuple):
    """The code of a reduction, whatever the shapes."""

    items: tuple[Item | None, ...]
    """None for a read."""
    dtypes: tuple[DType, ...]
    of_row: tuple[bool, ...]
    stages: tuple[int, ...]
    operands: tuple[int, ...]
    """For each read, the operand it is of, or that it counts."""
    results: tuple[tuple[int, bool], ...]
    """Items, and whether they belong to the row."""
    arity: int

    @property
    def reads(self) -> list[int]:
        """The items that are reads."""
        return [i for i, item in enumerate(self.items) if item is None]

    @property
    def folds(self) -> list[tuple[int, ReductionFold]]:
        """The items that are folds."""
        return [(i, item) for i, item in enumerate(self.items) if isinstance(item, ReductionFold)]

    def folds_in(self, sweep: int) -> list[tuple[int, ReductionFold]]:
        """The folds of a sweep."""
        return [(i, fold) for i, fold in self.folds if self.stages[i] == sweep]

    @property
    def sweeps(self) -> int:
        """How often the elements are walked over."""
        last = [self.stages[i] for i, _ in self.folds]
        return 1 + max([*last, *[self.stages[i] for i, row in self.results if not row]])


@dataclass(frozen=True)
class StagedBody:
    """A body in stages: its items in order, where each belongs, and what it gives."""

    space: Shape
    folded: frozenset[int]
    """Axes of the space."""
    items: tuple[Item, ...]
    dtypes: tuple[DType, ...]
    of_row: tuple[bool, ...]
    """For each item whether it belongs to the row."""
    stages: tuple[int, ...]
    """For each item the sweep it is computed in; the folds before that are done."""
    results: tuple[tuple[int, View], ...]
    """Items, and how the results lie over the space."""

    @property
    def sweeps(self) -> int:
        """How often the elements are walked over."""
        return 1 + max(
            stage
            for stage, item, row in zip(self.stages, self.items, self.of_row, strict=True)
            if not row or isinstance(item, ReductionFold)
        )

    def code(self, arity: int) -> ReductionCode:
        """The code that computes it from `arity` operands, whatever the shapes."""
        return ReductionCode(
            tuple([None if isinstance(i, Read) else i for i in self.items]),
            self.dtypes,
            self.of_row,
            self.stages,
            tuple([r.operand for r in self.items if isinstance(r, Read)]),
            tuple([(item, not self.folded.intersection(view)) for item, view in self.results]),
            arity,
        )


@lru_cache(1024)
def stage_body(body: Body) -> StagedBody | None:
    """A body in stages; None where it folds nothing or is left to NumPy."""
    shape = body.space()
    reductions = [s for s in body.steps if isinstance(s.op, FOLDS)]
    if not reductions or 0 in shape:
        return None
    if not all(_can_fold(body, s) or _can_compute(body, s) for s in body.steps):
        return None
    space = nonunit(shape)
    folded = {_folded_axes(body, step, space) for step in reductions}
    if len(folded) != 1 or None in folded:
        return None
    (axes,) = folded
    assert axes is not None
    if any(isinstance(s.op, SOURCES) for s in body.steps) and (len(space), len(axes)) != (1, 1):
        return None
    return _StageBuilder(body, space, axes).staged_body()


def _can_compute(body: Body, step: BodyStep) -> bool:
    """Whether code can be generated for what is computed place by place."""
    return is_step_supported(body, step) and not isinstance(step.op, Roll)


def _can_fold(body: Body, step: BodyStep) -> bool:
    """Whether code can be generated for a reduction."""
    op = step.op
    if not isinstance(op, FOLDS):
        return False
    given = body.type_of(step.inputs[0])[1]
    if isinstance(op, LogSumExp):
        return kind_of(step.dtype) == "f"
    if isinstance(op, (Max, Min, ArgExtremum)):
        return given.kind != "c"
    return isinstance(op, (Sum, Prod, Mean, Var, AllTrue, AnyTrue))


def _folded_axes(body: Body, step: BodyStep, space: Shape) -> frozenset[int] | None:
    """The axes of the space that a reduction folds; None where it runs over another space."""
    shape = body.type_of(step.inputs[0])[0]
    if nonunit(shape) != space:
        return None
    view = whole_view(shape)
    return frozenset([axis for a in folded_axes(step.op, shape) if (axis := view[a]) is not None])


class _StageBuilder:
    """Turns the steps of a body, seen through views, into items."""

    def __init__(self, body: Body, space: Shape, folded: frozenset[int]) -> None:
        self.body = body
        self.space = space
        self.folded = folded
        self.count = math.prod([space[a] for a in folded])
        self.items: list[Item] = []
        self.dtypes: list[DType] = []
        self.of_row: list[bool] = []
        self.stages: list[int] = []
        self.known: dict[tuple[int, View], int] = {}

    def staged_body(self) -> StagedBody | None:
        """The items of all results; None where a row is seen along other axes than its own."""
        results: list[tuple[int, View]] = []
        for value in self.body.results:
            view = self._natural_view(value)
            if view is None or not self._build(value, view):
                return None
            results.append((self.known[value, view], view))
        return StagedBody(
            self.space,
            self.folded,
            tuple(self.items),
            tuple(self.dtypes),
            tuple(self.of_row),
            tuple(self.stages),
            tuple(results),
        )

    def _natural_view(self, value: int) -> View | None:
        """How a result lies over the space: over all of it, or over what is not folded."""
        shape = self.body.type_of(value)[0]
        if nonunit(shape) == self.space:
            return whole_view(shape)
        left = [a for a in range(len(self.space)) if a not in self.folded]
        if nonunit(shape) != tuple([self.space[a] for a in left]):
            return None
        axes = iter(left)
        return tuple([None if n == 1 else next(axes) for n in shape])

    def _build(self, value: int, view: View) -> bool:
        """Make the items of a value and of all it is made from; False where that cannot be."""
        first, stack = len(self.body.operands), [(value, view)]
        while stack:
            key = stack[-1]
            if key in self.known:
                stack.pop()
                continue
            if key[0] < first:
                self.known[key] = self._read(*key)
                continue
            step = self.body.steps[key[0] - first]
            sources = self._sources(step, key[1])
            if sources is None:
                return False
            missing = [s for s in sources if s not in self.known]
            if missing:
                stack += missing
            else:
                self.known[key] = self._step_item(step, [self.known[s] for s in sources])
        return True

    def _sources(self, step: BodyStep, view: View) -> list[tuple[int, View]] | None:
        if not isinstance(step.op, FOLDS):
            sources = sources_of(self.body, step, view)
            return [(r.operand, r.view) for r in sources if r.operand != COUNTER]
        given = self.body.type_of(step.inputs[0])[0]
        seen, folded = whole_view(given), folded_axes(step.op, given)
        axes = [a for n, a in enumerate(seen) if n not in folded and a is not None]
        if [a for a in view if a is not None] != axes:
            return None
        return [(step.inputs[0], seen)]

    # ------------------------------------------------------------------- items

    def _add(self, item: Item, dtype: DType, of_row: bool, stage: int) -> int:
        self.items.append(item)
        self.dtypes.append(dtype)
        self.of_row.append(of_row)
        self.stages.append(stage)
        return len(self.items) - 1

    def _read(self, operand: int, view: View) -> int:
        dtype = self.body.operands[operand][1]
        return self._add(Read(operand, view), dtype, not self.folded.intersection(view), 0)

    def _apply(
        self, name: str, emit: Emit, inputs: Sequence[int], dtype: DType, costly: bool = False
    ) -> int:
        stages = [self.stages[i] + isinstance(self.items[i], ReductionFold) for i in inputs]
        of_row = all(self.of_row[i] for i in inputs)
        item = Computation(name, tuple(inputs), dtype, emit, costly)
        return self._add(item, dtype, of_row, max(stages))

    def _fold(self, prim: Prim, value: int, dtype: DType, divisor: float | None = None) -> int:
        stage = self.stages[value] + isinstance(self.items[value], ReductionFold)
        return self._add(
            ReductionFold(prim, self._cast(value, dtype), dtype, divisor), dtype, True, stage
        )

    def _cast(self, value: int, dtype: DType) -> int:
        given = self.dtypes[value]
        if given == dtype:
            return value
        return self._apply(
            f"cast {dtype}", lambda f, n: cast(f, n[0], given, dtype), [value], dtype
        )

    def _elementwise_item(self, name: str, *inputs: int) -> int:
        op = ELEMENTWISE[name]
        dtypes = tuple([self.dtypes[i] for i in inputs])
        return self._apply(
            name,
            lambda f, n: emit_op(f, op, dtypes, n),
            inputs,
            op.infer_dtype(*dtypes),
            is_costly(op),
        )

    def _step_item(self, step: BodyStep, inputs: list[int]) -> int:
        """The item of a step."""
        op, dtypes = step.op, tuple([self.dtypes[i] for i in inputs])
        if isinstance(op, Elementwise):
            return self._apply(
                op.info.name,
                lambda f, n: emit_op(f, op, dtypes, n),
                inputs,
                step.dtype,
                is_costly(op),
            )
        if isinstance(op, SOURCES):
            return self._source_item(op, inputs, step.dtype)
        if isinstance(op, Cast):
            return self._cast(inputs[0], step.dtype)
        if isinstance(op, (BroadcastTo, Reshape, Copy)):
            return inputs[0]
        if isinstance(op, ArgExtremum):
            return self._cast(self._arg_extremum(op, inputs[0]), step.dtype)
        assert isinstance(op, Reduction)
        return self._cast(self._reduction_item(op, inputs[0], step.dtype), step.dtype)

    def _arg_extremum(self, op: ArgExtremum, value: int) -> int:
        """The place of the first extreme element of each row."""
        if self.dtypes[value] == dt.BOOL:
            value = self._cast(value, dt.UINT8)
        counted = index_dtype((self.count,))
        if self.folded:
            place = self._counter()
        else:
            place = self._apply(
                "0", lambda f, n: constant(f, counted, 0, lanes_of(n[0])), [value], counted
            )
        prim = Prim.GT if isinstance(op, ArgMax) else Prim.LT
        fold = ArgExtremumFold(prim, value, self.dtypes[value], None, place, counted)
        stage = self.stages[value] + isinstance(self.items[value], ReductionFold)
        return self._add(fold, counted, True, stage)

    def _counter(self) -> int:
        """The number of each element among those that its row folds."""
        read = Read(COUNTER, tuple(sorted(self.folded)))
        if read not in self.items:
            return self._add(read, index_dtype((self.count,)), False, 0)
        return self.items.index(read)

    def _source_item(self, op: Source, inputs: Sequence[int], dtype: DType) -> int:
        """What follows from places; they are those of the only row."""
        given = [self._counter(), *inputs]
        dtypes = tuple([self.dtypes[i] for i in given])
        name = f"{op.facts().name} {canonical_source(op).attributes()}"
        return self._apply(name, lambda f, n: emit_source(f, op, dtypes, n), given, dtype)

    def _reduction_item(self, op: Reduction, value: int, dtype: DType) -> int:
        """The item of a reduction, its dtype perhaps a wider one."""
        wide = dt.accumulation_dtype(dtype)
        match op:  # pyright: ignore[reportMatchNotExhaustive]
            case Sum():
                return self._fold(Prim.ADD, value, wide)
            case Prod():
                return self._fold(Prim.MUL, value, wide)
            case Mean():
                return self._fold(Prim.ADD, value, wide, self.count)
            case Max():
                return self._fold(Prim.MAX, value, self.dtypes[value])
            case Min():
                return self._fold(Prim.MIN, value, self.dtypes[value])
            case AllTrue():
                return self._fold(Prim.AND, value, dt.BOOL)
            case AnyTrue():
                return self._fold(Prim.OR, value, dt.BOOL)
            case Var():
                inner = op.dtype if op.dtype.kind == "c" else wide
                given = self._cast(value, inner)
                mean = self._fold(Prim.ADD, given, inner, self.count)
                away = self._squared_magnitude(
                    self._elementwise_item("subtract", given, mean), wide
                )
                return self._fold(Prim.ADD, away, wide, max(self.count - op.correction, 0.0))
            case LogSumExp():
                return self._log_sum_exp(self._cast(value, wide), wide)
        raise AssertionError(f"{op} is not one of the reductions that fold")

    def _squared_magnitude(self, value: int, dtype: DType) -> int:
        """The square of a number's size."""
        if self.dtypes[value].kind != "c":
            return self._elementwise_item("square", value)
        return self._apply("squared size", lambda _, n: _size(n[0]), [value], dtype)

    def _log_sum_exp(self, value: int, dtype: DType) -> int:
        """Shifted by the greatest element, unless that is infinite."""
        top = self._fold(Prim.MAX, value, dtype)
        shift = self._apply("finite or 0", lambda f, n: _finite(f, n[0]), [top], dtype)
        away = self._elementwise_item("exp", self._elementwise_item("subtract", value, shift))
        total = self._elementwise_item("log", self._fold(Prim.ADD, away, dtype))
        return self._elementwise_item("add", total, shift)


@lru_cache(1024)
def is_costly(op: Elementwise) -> bool:
    """Whether computing an op again takes longer than reading what it gave."""
    return any(call.prim in FUNCTIONS for call in calls_of(op.scalar))


def _size(number: Number) -> Number:
    """The square of a complex number's size."""
    assert isinstance(number, Pair)
    return number.real * number.real + number.imag * number.imag


def _finite(f: Function, number: Number) -> Number:
    """A number, or 0 where it is infinite or NaN."""
    value = real(number)
    return f.select(f.absolute(value) < math.inf, value, 0.0)


def widest_lane_bytes(folding: StagedBody) -> int:
    """Bytes of the widest lane that elements are computed with."""
    kinds = zip(folding.items, folding.dtypes, folding.of_row, strict=True)
    walked = [lane_bytes(d) for item, d, row in kinds if not row or isinstance(item, ReductionFold)]
    return max(
        [*walked, *[lane_bytes(f.dtype) for f in folding.items if isinstance(f, ReductionFold)]]
    )
