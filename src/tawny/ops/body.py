"""Bodies: straight-line programs of ops, which have no arrays of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, final
from weakref import WeakValueDictionary

from tawny.dtype import DType
from tawny.op import Cost, Elementwise, Op, Type, nbytes, primitives
from tawny.ops.movement import Roll
from tawny.ops.reduction import ArgExtremum, Reduction
from tawny.shape import Shape, size


def nonunit(shape: Shape) -> Shape:
    """The sizes other than 1."""
    return shape if 1 not in shape else tuple([n for n in shape if n != 1])


FOLDS: Final = (Reduction, ArgExtremum)
"""Ops that fold axes."""


def folded_axes(op: Op, shape: Shape) -> tuple[int, ...]:
    """The axes that an op which folds an array of `shape` folds."""
    if isinstance(op, ArgExtremum):
        return tuple(range(len(shape))) if op.axis is None else (op.axis,)
    assert isinstance(op, Reduction)
    return op.axes


class BodyStep(NamedTuple):
    """One op of a body.  Input `i` is operand `i` of the body or, past those, an earlier step."""

    op: Op
    inputs: tuple[int, ...]
    shape: Shape
    dtype: DType


@final
@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Body:
    """A straight-line program: what a group computes, whatever arrays it is applied to.

    Equal bodies are the same function, so an engine compiles each once.  Those that `of` gives are
    the same object.
    """

    operands: tuple[Type, ...]
    steps: tuple[BodyStep, ...]
    results: tuple[int, ...]
    """Numbers of the values it gives, counted as the inputs of steps are."""
    key: int
    """The hash, which is asked for often."""

    @staticmethod
    def of(
        operands: tuple[Type, ...], steps: tuple[BodyStep, ...], results: tuple[int, ...]
    ) -> Body:
        """The body of these steps."""
        key = hash((operands, tuple([(s.op, s.inputs) for s in steps]), results))
        body = Body(operands, steps, results, key)
        known = _BODIES.get(key)
        if known is None or known != body:
            _BODIES[key] = known = body
        return known

    def __hash__(self) -> int:
        return self.key

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Body)
            and self.key == other.key
            and self.results == other.results
            and self.operands == other.operands
            and self.steps == other.steps
        )

    def __repr__(self) -> str:
        names = " ".join(s.op.facts().name for s in self.steps)
        return f"<{len(self.operands)} operands: {names}: {len(self.results)} results>"

    def type_of(self, value: int) -> Type:
        """Shape and dtype of an operand or a step."""
        first = len(self.operands)
        if value < first:
            return self.operands[value]
        step = self.steps[value - first]
        return step.shape, step.dtype

    def space(self) -> Shape:
        """The sizes its loops run over: those of the largest array it computes or reduces."""
        shapes = [s.shape for s in self.steps]
        shapes += [self.type_of(s.inputs[0])[0] for s in self.steps if isinstance(s.op, FOLDS)]
        return max(shapes, key=size)

    def stages(self) -> tuple[int, ...]:
        """For each step how many reductions, one after another, must be whole before it can run.

        Steps of one stage can share a sweep over the same elements.
        """
        first, out = len(self.operands), list[int]()
        for step in self.steps:
            stage = 0
            for value in step.inputs:
                if value >= first:
                    before = self.steps[value - first]
                    after = out[value - first] + isinstance(before.op, FOLDS)
                    stage = max(stage, after)
            out.append(stage)
        return tuple(out)

    def last_uses(self) -> tuple[int, ...]:
        """For each value the last step that reads it; results are read after the last step."""
        last = [-1] * (len(self.operands) + len(self.steps))
        for number, step in enumerate(self.steps):
            for value in step.inputs:
                last[value] = number
        for value in self.results:
            last[value] = len(self.steps)
        return tuple(last)

    def swept_until(self) -> tuple[int, ...]:
        """For each value the last stage that may read it, if it is read anew in every sweep.

        A kernel need not store what is between two sweeps: it may compute it again.
        """
        first, stages = len(self.operands), self.stages()
        last = [-1] * (first + len(self.steps))
        for number in range(len(self.steps) - 1, -1, -1):
            step = self.steps[number]
            until = stages[number]
            if not isinstance(step.op, FOLDS):
                until = max(until, last[first + number])
            for value in step.inputs:
                last[value] = max(last[value], until)
        return tuple(last)

    def overwrites(self) -> tuple[tuple[int, int], ...]:
        """Pairs (operand, result): the result may be written over the operand, if it dies here.

        Both span the whole space (axes of size 1 apart) with elements of the same size, so each
        is read where it is written, unless it is rolled; no step reads the operand after the one
        that makes the result;
        and no later sweep needs the operand, even to compute again what is between.  Several
        results may be written at once, each over an operand of its own.
        """
        first, last, space = len(self.operands), self.last_uses(), nonunit(self.space())
        stages, until = self.stages(), self.swept_until()
        rolled = {step.inputs[0] for step in self.steps if type(step.op) is Roll}
        spanning = [
            (operand, kind.itemsize)
            for operand, (shape, kind) in enumerate(self.operands)
            if nonunit(shape) == space and operand not in rolled
        ]
        pairs: list[tuple[int, int]] = []
        for number, result in enumerate(self.results):
            shape, dtype = self.type_of(result)
            if nonunit(shape) != space:
                continue
            step = result - first
            for operand, itemsize in spanning:
                fits = itemsize == dtype.itemsize
                if fits and last[operand] <= step and until[operand] <= stages[step]:
                    pairs.append((operand, number))
        return tuple(pairs)

    def may_fail(self) -> bool:
        """Whether some step may fail."""
        return any(step.op.may_fail(step.dtype) for step in self.steps)

    def cost(self) -> Cost:
        """Each step's operations; each operand read once, each result written once."""
        operations = 0
        for step in self.steps:
            if isinstance(step.op, Elementwise):
                operations += primitives(step.op) * size(step.shape)
            elif isinstance(step.op, FOLDS):
                operations += size(self.type_of(step.inputs[0])[0])
        return Cost(
            operations,
            sum(map(nbytes, self.operands)),
            sum(nbytes(self.type_of(r)) for r in self.results),
        )


_BODIES: Final[WeakValueDictionary[int, Body]] = WeakValueDictionary()
"""Bodies that somebody has, by their keys; of several with one key the last."""
