"""What must hold for programs on every engine: the same properties from one table of names.

An engine is judged by all of them once its name is in `engines.ENGINES`.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
from engines import examples, skip_without_binding
from program_checks import (
    check_against_fresh_evaluation,
    check_poisoned,
    check_steps,
    check_within_a_budget,
    programs,
)
from random_programs import check_program

pytestmark = pytest.mark.filterwarnings("ignore:Graph. input")

SLICE_SECONDS = 1.5
"""For how long each engine runs programs of a fresh seed."""


def test_a_fresh_slice_of_random_programs(engine: str) -> None:
    """Another slice each time: what fails names its seed, for `tests/fuzz_programs.py`."""
    first = time.time_ns() % 2**40
    print(f"random programs from seed {first}")
    end = time.monotonic() + SLICE_SECONDS
    for seed in range(first, first + 2000):
        check_program(seed, engine)
        if time.monotonic() > end:
            break


def test_a_fixed_slice_of_random_programs(engine: str) -> None:
    for seed in range(examples(engine, 60)):
        check_program(seed, engine)


def test_random_programs_agree_with_a_fresh_evaluation(engine: str) -> None:
    @settings(max_examples=examples(engine, 150), deadline=None)
    @given(programs(), st.data())
    def check(program, data) -> None:
        check_against_fresh_evaluation(engine, program, data)

    check()


def test_random_programs_within_a_budget(engine: str) -> None:
    @settings(max_examples=examples(engine, 60), deadline=None)
    @given(programs(), st.data())
    def check(program, data) -> None:
        check_within_a_budget(engine, program, data)

    check()


def test_poisoned_memory(engine: str) -> None:
    @settings(max_examples=examples(engine, 100), deadline=None)
    @given(programs(), st.data())
    def check(program, data) -> None:
        check_poisoned(engine, program, data)

    check()


def test_steps_are_runs_one_after_the_other(engine: str) -> None:
    @settings(max_examples=examples(engine, 60), deadline=None)
    @given(programs(), st.data())
    def check(program, data) -> None:
        check_steps(engine, program, data)

    check()


@settings(max_examples=60, deadline=None)
@given(programs(), st.booleans(), st.booleans())
def test_bound_memory_is_not_written(engine, program, incremental: bool, optimise: bool) -> None:
    skip_without_binding(engine)
    variables, outputs, updates = program
    graph = tw.Graph(variables, outputs, updates=updates)
    p = graph.compile(engine=engine, incremental=incremental, optimise=optimise)
    mine = {v.name: np.full((3, 3), k + 0.5) for k, v in enumerate(variables)}
    p.set(**mine)
    bound = {n: a for n, a in mine.items() if n not in {v.name for v in updates}}
    p.set(bind=True, **bound)
    for k in range(3):
        for name, array in bound.items():
            array += k
            p.touch(name)
        before = {n: a.copy() for n, a in bound.items()}
        p.run(views=True)
        p.run(2)
        for name, array in bound.items():
            np.testing.assert_array_equal(array, before[name])
