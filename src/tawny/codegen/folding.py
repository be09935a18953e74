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

import numpy as np

from tawny import dtype as dt
from tawny.codegen.bodies import Read, View, generated, nonunit, sources_of, whole_view
from tawny.codegen.builder import F64, Function
from tawny.codegen.casts import cast
from tawny.codegen.numbers import Number, Pair, lane_bytes, real
from tawny.codegen.scalar import applied, primitive
from tawny.dtype import DType
from tawny.op import ELEMENTWISE, Elementwise
from tawny.ops.creation import BroadcastTo, Cast, Copy
from tawny.ops.fused import Body, Step
from tawny.ops.movement import Reshape
from tawny.ops.reduction import (
    AllTrue,
    AnyTrue,
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
class Apply:
    """What is computed from reads, steps and folds before it, by their numbers."""

    name: str
    """What it does: with dtypes it says all of it."""
    inputs: tuple[int, ...]
    dtype: DType
    emit: Emit = field(compare=False)


class Fold(NamedTuple):
    """A value folded over all elements of a row with a primitive, then divided."""

    prim: Prim
    input: int
    dtype: DType
    """What it is folded in."""
    divisor: float | None = None

    @property
    def identity(self) -> float:
        """What folding begins with."""
        match self.prim:
            case Prim.ADD:
                return -0.0 if self.dtype.kind == "f" else 0
            case Prim.MUL | Prim.AND:
                return 1
            case Prim.MAX:
                return _least(self.dtype)
            case Prim.MIN:
                return _greatest(self.dtype)
            case _:
                return 0

    def combined(self, f: Function, one: Number, other: Number) -> Number:
        """Two partial results as one."""
        prim = {Prim.AND: Prim.BIT_AND, Prim.OR: Prim.BIT_OR}.get(self.prim, self.prim)
        return primitive(f, prim, self.dtype, [one, other])[0]

    def finished(self, f: Function, total: Number) -> Number:
        """The value, once everything is folded."""
        if self.divisor is None:
            return total
        divisor = cast(f, f.constant(F64, self.divisor), dt.FLOAT64, self.dtype)
        return primitive(f, Prim.DIV, self.dtype, [total, spread(f, divisor, lanes_of(total))])[0]


Item = Read | Apply | Fold


def _least(dtype: DType) -> float:
    if dtype.kind == "f":
        return -math.inf
    return int(np.iinfo(dtype).min) if dtype.kind in "iu" else 0


def _greatest(dtype: DType) -> float:
    if dtype.kind == "f":
        return math.inf
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" else 1


@dataclass(frozen=True)
class Folding:
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
            if not row or isinstance(item, Fold)
        )


@lru_cache(1024)
def folding(body: Body) -> Folding | None:
    """A body in stages; None where it folds nothing or is left to NumPy."""
    shape = body.space()
    reductions = [s for s in body.steps if isinstance(s.op, Reduction)]
    if not reductions or 0 in shape:
        return None
    if not all(_foldable(body, s) or generated(body, s) for s in body.steps):
        return None
    space = nonunit(shape)
    folded = {_folded(body, step, space) for step in reductions}
    if len(folded) != 1 or None in folded:
        return None
    (axes,) = folded
    assert axes is not None
    return _Building(body, space, axes).folding()


def _foldable(body: Body, step: Step) -> bool:
    """Whether code can be generated for a reduction."""
    given = body.type_of(step.inputs[0])[1]
    op = step.op
    if isinstance(op, LogSumExp):
        return step.dtype.kind == "f" and step.dtype != dt.FLOAT16
    if isinstance(op, Prod):
        return step.dtype.kind != "c"
    if isinstance(op, (Max, Min, Var)):
        return given.kind != "c"
    return isinstance(op, (Sum, Mean, AllTrue, AnyTrue))


def _folded(body: Body, step: Step, space: Shape) -> frozenset[int] | None:
    """The axes of the space that a reduction folds; None where it runs over another space."""
    assert isinstance(step.op, Reduction)
    shape = body.type_of(step.inputs[0])[0]
    if nonunit(shape) != space:
        return None
    view = whole_view(shape)
    return frozenset([axis for a in step.op.axes if (axis := view[a]) is not None])


class _Building:
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

    def folding(self) -> Folding | None:
        """The items of all results; None where a row is seen along other axes than its own."""
        results: list[tuple[int, View]] = []
        for value in self.body.results:
            view = self._natural(value)
            if view is None or not self._build(value, view):
                return None
            results.append((self.known[value, view], view))
        return Folding(
            self.space,
            self.folded,
            tuple(self.items),
            tuple(self.dtypes),
            tuple(self.of_row),
            tuple(self.stages),
            tuple(results),
        )

    def _natural(self, value: int) -> View | None:
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
                self.known[key] = self._made(step, [self.known[s] for s in sources])
        return True

    def _sources(self, step: Step, view: View) -> list[tuple[int, View]] | None:
        if not isinstance(step.op, Reduction):
            return sources_of(self.body, step, view)
        given = self.body.type_of(step.inputs[0])[0]
        seen = whole_view(given)
        axes = [a for n, a in enumerate(seen) if n not in step.op.axes and a is not None]
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

    def _apply(self, name: str, emit: Emit, inputs: Sequence[int], dtype: DType) -> int:
        stages = [self.stages[i] + isinstance(self.items[i], Fold) for i in inputs]
        of_row = all(self.of_row[i] for i in inputs)
        return self._add(Apply(name, tuple(inputs), dtype, emit), dtype, of_row, max(stages))

    def _fold(self, prim: Prim, value: int, dtype: DType, divisor: float | None = None) -> int:
        stage = self.stages[value] + isinstance(self.items[value], Fold)
        return self._add(Fold(prim, self._cast(value, dtype), dtype, divisor), dtype, True, stage)

    def _cast(self, value: int, dtype: DType) -> int:
        given = self.dtypes[value]
        if given == dtype:
            return value
        return self._apply(
            f"cast {dtype}", lambda f, n: cast(f, n[0], given, dtype), [value], dtype
        )

    def _elementwise(self, name: str, *inputs: int) -> int:
        op = ELEMENTWISE[name]
        dtypes = tuple([self.dtypes[i] for i in inputs])
        return self._apply(
            name, lambda f, n: applied(f, op, dtypes, n), inputs, op.infer_dtype(*dtypes)
        )

    def _made(self, step: Step, inputs: list[int]) -> int:
        """The item of a step."""
        op, dtypes = step.op, tuple([self.dtypes[i] for i in inputs])
        if isinstance(op, Elementwise):
            return self._apply(
                op.info.name, lambda f, n: applied(f, op, dtypes, n), inputs, step.dtype
            )
        if isinstance(op, Cast):
            return self._cast(inputs[0], step.dtype)
        if isinstance(op, (BroadcastTo, Reshape, Copy)):
            return inputs[0]
        assert isinstance(op, Reduction)
        return self._cast(self._reduced(op, inputs[0], step.dtype), step.dtype)

    def _reduced(self, op: Reduction, value: int, dtype: DType) -> int:
        """The item of a reduction, its dtype perhaps a wider one."""
        wide = dt.FLOAT32 if dtype == dt.FLOAT16 else dtype
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
                given = self._cast(value, wide)
                mean = self._fold(Prim.ADD, given, wide, self.count)
                away = self._elementwise("square", self._elementwise("subtract", given, mean))
                return self._fold(Prim.ADD, away, wide, max(self.count - op.correction, 0.0))
            case LogSumExp():
                return self._log_sum_exp(self._cast(value, dtype), dtype)
        raise AssertionError(f"{op} is not one of the reductions that fold")

    def _log_sum_exp(self, value: int, dtype: DType) -> int:
        """Shifted by the greatest element, unless that is infinite."""
        top = self._fold(Prim.MAX, value, dtype)
        shift = self._apply("finite or 0", lambda f, n: _finite(f, n[0]), [top], dtype)
        away = self._elementwise("exp", self._elementwise("subtract", value, shift))
        total = self._elementwise("log", self._fold(Prim.ADD, away, dtype))
        return self._elementwise("add", total, shift)


def _finite(f: Function, number: Number) -> Number:
    """A number, or 0 where it is infinite or NaN."""
    value = real(number)
    return f.select(f.absolute(value) < math.inf, value, 0.0)


def lanes_of(number: Number) -> int:
    """Lanes of a number; 0 for a scalar."""
    part = number.real if isinstance(number, Pair) else number
    return part.type.lanes


def spread(f: Function, number: Number, lanes: int) -> Number:
    """A scalar in every lane; a vector as it is."""
    if lanes_of(number) == lanes:
        return number
    if isinstance(number, Pair):
        return Pair(f.splat(number.real, lanes), f.splat(number.imag, lanes))
    return f.splat(number, lanes)


def widest(folding: Folding) -> int:
    """Bytes of the widest lane that is computed with."""
    return max(map(lane_bytes, folding.dtypes))
