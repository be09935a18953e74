"""The same graph becomes the same program: in every process, on any number of threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.engine.cpu import unavailable
from tawny.engine.cpu.threads.pool import NOMINAL_THREADS

pytestmark = pytest.mark.skipif(unavailable() is not None, reason="compiled code cannot be run")

SCRIPT = Path(__file__).with_name("determinism.py")

LARGE = "TAWNY_LARGE_TESTS" in os.environ
"""Whether networks and more random graphs are compiled too, which takes some minutes."""

WAYS = (
    ("0",),
    ("1", "--tick", "1e-7", "--history", "1"),
    ("2", "--tick", "1e-2", "--history", "2", "--salt", "3"),
    *([("3", "--history", "5", "--salt", "4"), ("4", "--tick", "3e-5")] if LARGE else []),
)
"""Seeds of hashes, and what else differs between processes."""

BY_THREADS = {"places", "shown", "dealt"}
"""What the number of threads may change: offsets, their picture, how kernels deal their work."""


def started(seed: str, *options: str, **environment: str) -> subprocess.Popen[str]:
    large = ["--large"] if LARGE else []
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-W", "ignore::UserWarning", str(SCRIPT), *options, *large],
        env={**os.environ, "PYTHONHASHSEED": seed, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def told(process: subprocess.Popen[str]) -> dict[str, dict[str, str]]:
    out, _ = process.communicate()
    assert process.returncode == 0
    found: dict[str, dict[str, str]] = json.loads(out)
    return found


def differing(one: dict[str, dict[str, str]], other: dict[str, dict[str, str]]) -> list[Any]:
    assert one.keys() == other.keys()
    return [
        (name, stage)
        for name, stages in one.items()
        for stage in stages.keys() | other[name].keys()
        if stages.get(stage) != other[name].get(stage)
    ]


@pytest.fixture(scope="module")
def first() -> dict[str, dict[str, str]]:
    """What the first process finds, on two threads."""
    return told(started(*WAYS[0], TAWNY_THREADS="2"))


def chain(length: int = 8) -> tw.Graph:
    """Products of matrices that all wait for the way back; each thread needs scratch memory."""
    x = tw.var("x", shape=(300, 300))
    saved = [x]
    for _ in range(length):
        saved.append(tnp.sin(saved[-1] @ saved[-1]))
    out = saved[-1]
    for one in reversed(saved[:-1]):
        out = out @ tnp.cos(one)
    return tw.Graph([x], out)


def test_a_budget_with_room_for_all_threads_changes_no_choice() -> None:
    whole = {"incremental": False}
    budget = chain().compile(threads=NOMINAL_THREADS, **whole).plan.peak_bytes * 17 // 20
    plans = [chain().compile(memory=budget, threads=n, **whole).plan for n in (1, 2, 3, 4)]
    assert sum(step.again for step in plans[0].steps) > 0
    assert len({plan.peak_bytes for plan in plans}) > 1, "scratch memory differs"
    for plan in plans:
        assert plan.peak_bytes <= budget
        assert not plan.adapted
        assert "chosen for" not in str(plan)
        assert plan.layout.sequence == plans[0].layout.sequence
        assert plan.layout.schedule.in_place_pairs == plans[0].layout.schedule.in_place_pairs


def test_a_budget_without_room_for_all_threads_is_met_by_another_choice_that_is_said() -> None:
    whole = {"incremental": False}
    budget = chain().compile(threads=NOMINAL_THREADS, **whole).plan.peak_bytes * 19 // 20
    few, many = (chain().compile(memory=budget, threads=n, **whole) for n in (2, 16))
    assert not few.plan.adapted
    assert many.plan.adapted
    assert "chosen for 16 threads" in str(many.plan)
    assert many.plan.threads == 16
    assert many.plan.peak_bytes <= budget
    again = [sum(step.again for step in program.plan.steps) for program in (few, many)]
    assert again[0] < again[1]
    x = np.random.default_rng(0).standard_normal((300, 300)) / 100
    assert few(x).tobytes() == many(x).tobytes()


def test_the_least_that_is_named_can_be_met_on_these_threads() -> None:
    whole = {"threads": 16, "incremental": False}
    with pytest.raises(tw.MemoryBudgetError) as error:
        chain(3).compile(memory=1_000_000, **whole)
    least = error.value.least_bytes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tw.PerformanceWarning)
        assert chain(3).compile(memory=least, **whole).plan.peak_bytes <= least


def test_threads_that_are_asked_for_have_scratch_memory() -> None:
    """Not those of the process: its number may be another one."""
    scratch = [
        max(s.scratch for s in chain().compile(threads=n).plan.layout.problem.steps)
        for n in (1, 2, 4, 8)
    ]
    assert scratch == sorted(set(scratch))


def test_every_stage_is_looked_at(first: dict[str, dict[str, str]]) -> None:
    stages = [set(found) for found in first.values()]
    assert all(found == stages[0] for found in stages), "nothing is refused"
    assert len(stages[0]) == 12
    for stage in stages[0] - {"in_place_updates", "kept", "adapted"}:
        assert len({found[stage] for found in first.values()}) > len(first) / 3, stage


@pytest.mark.parametrize("way", WAYS[1:], ids=" ".join)
def test_programs_do_not_depend_on_seeds_histories_and_clocks(
    way: tuple[str, ...], first: dict[str, dict[str, str]]
) -> None:
    assert not differing(told(started(*way, TAWNY_THREADS="2")), first)


@pytest.mark.parametrize("threads", [1, 3, 5, 16])
def test_threads_change_how_work_is_dealt_and_nothing_else(
    threads: int, first: dict[str, dict[str, str]]
) -> None:
    """Scratch memory, and with it offsets: no step, order, band, kernel or bit.

    Large networks within half of their memory have no room for the scratch memory of many threads.
    """
    found = differing(told(started("0", TAWNY_THREADS=str(threads))), first)
    adapted = {name for name, stage in found if stage == "adapted"}
    assert all(LARGE and "within" in name for name in adapted)
    assert [one for one in found if one[1] not in BY_THREADS and one[0] not in adapted] == []
    if threads == 16:
        assert {stage for _, stage in found} == BY_THREADS, "they are looked at for a reason"
