"""Programs whose engine runs fused groups: incremental changes, updates, budgets, parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
from grouping_engine import grouping_engine
from program_checks import (
    Poisoned,
    check_against_fresh_evaluation,
    check_poisoned,
    check_within_a_budget,
    programs,
)
from tawny.engine.reference.fused import _apply as apply_step
from tawny.node import Node, Value
from tawny.ops.fused import Group
from tawny.ops.reduction import Reduction


@pytest.fixture(autouse=True, scope="module")
def engine() -> Iterator[str]:
    with grouping_engine() as name:
        yield name


def compiled(*args, **options):
    return tw.Graph(*args).compile(engine="grouping", **options)


def groups_of(program) -> list[Node]:
    return [s.array.node for s in program.plan.steps if isinstance(s.array.node.op, Group)]


class Hostile(Poisoned):
    """Runs groups as badly as a kernel may.

    Each sweep computes everything between reductions again from the operands, as they are in
    memory then; each result is in memory as soon as its step is done.
    """

    def _moment(self, position: int):
        schedule = self._task.layout.schedule
        node = self._lowered.steps[schedule.sequence[position]]
        plain = super()._moment(position)
        if not isinstance(node.op, Group):
            return plain
        body, stages = node.op.body, node.op.body.stages()
        places = self._places(position)
        operands = [
            self._operand(source, storage)
            for source, storage in zip(node.inputs, schedule.reads[position], strict=True)
        ]
        first = len(operands)

        def run(variables: Sequence[Value], draw: int) -> None:
            totals: dict[int, Value] = {}
            for sweep in range(max(stages) + 1):
                values: dict[int, Value] = dict(totals)

                def value(number: int, values: dict[int, Value] = values) -> Value:
                    if number < first:
                        return operands[number](variables)
                    return values[number]

                needed = needed_in(body, stages, sweep)
                for number, step in enumerate(body.steps):
                    if number not in needed or first + number in totals:
                        continue
                    made = apply_step(step.op, step.dtype, [value(i) for i in step.inputs])
                    values[first + number] = made.copy()
                    if isinstance(step.op, Reduction):
                        totals[first + number] = made
                    if stages[number] == sweep:
                        for result, place in zip(body.results, places, strict=True):
                            if result == first + number:
                                np.copyto(place(variables), made)

        return run

    def _places(self, position: int):
        """Where the results go, given the variables."""
        from tawny.graph.lowering import types

        schedule = self._task.layout.schedule
        node = self._lowered.steps[schedule.sequence[position]]
        out = []
        for index, (storage, (shape, dtype)) in enumerate(
            zip(schedule.writes[position], types(node), strict=True)
        ):
            home = self._homes.get((node, index))
            at = self._at(self._offsets[storage], shape, dtype)
            out.append((lambda v, at=at: at) if home is None else (lambda v, h=home: v[h]))
        return out


def needed_in(body, stages, sweep) -> set[int]:
    """The steps that a sweep computes: those of its stage, and what they are made of."""
    first = len(body.operands)
    needed = {n for n, stage in enumerate(stages) if stage == sweep}
    for number in range(len(stages) - 1, -1, -1):
        if number in needed:
            for i in body.steps[number].inputs:
                if i >= first and not isinstance(body.steps[i - first].op, Reduction):
                    needed.add(i - first)
    return needed


# --------------------------------------------------------------------- random programs


@pytest.mark.filterwarnings("ignore:Graph. input")
@settings(max_examples=500, deadline=None)
@given(programs(), st.data())
def test_random_programs_agree_with_a_fresh_evaluation(program, data: st.DataObject) -> None:
    check_against_fresh_evaluation("grouping", program, data)


@pytest.mark.filterwarnings("ignore:Graph. input")
@settings(max_examples=200, deadline=None)
@given(programs(), st.data())
def test_random_programs_within_a_budget(program, data: st.DataObject) -> None:
    check_within_a_budget("grouping", program, data)


@pytest.mark.filterwarnings("ignore:Graph. input")
@settings(max_examples=300, deadline=None)
@given(programs(), st.data())
def test_poisoned_memory_and_kernels_that_write_early(program, data: st.DataObject) -> None:
    check_poisoned("grouping", program, data, Hostile)
