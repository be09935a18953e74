"""What `explain` shows: the stages between a graph and a program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

import tawny as tw
import tawny.numpy as np
from tawny.graph.pipeline import PIPELINE, PLANNING
from tawny.graph.relief import PlannedVersion, relieve
from tawny.graph.stages import Stages
from tawny.memory.budget import MemoryBudgetError


def graph() -> tw.Graph:
    x = tw.var("x", (300, 300))
    return tw.Graph([x], [np.sum(np.exp(x * 1 + 0) @ x), np.sin(np.cos(x)) + 1])


def listed_names(stages: Stages) -> list[str]:
    """The names of stages, without the candidates of relief."""
    return [stage.name for stage in stages if not stage.name.startswith("relieve: ")]


@pytest.fixture
def program(engine: str) -> tw.Program:
    return graph().compile(engine=engine)


def test_stages_lead_from_the_graph_to_the_program(program: tw.Program, engine: str) -> None:
    stages = program.explain()
    listed = [stage.name for stage in PIPELINE]
    assert listed_names(stages) == listed, "every stage of the one list, in its order"
    assert listed[:3] == ["record", "simplify", "fuse"]
    assert stages[0].nodes == len(graph().order)
    assert stages[1].nodes < stages[0].nodes, "x * 1 + 0 is x"
    assert stages[-1].bytes == program.plan.peak_bytes
    assert stages[-1].nodes == len(program.plan.steps)
    assert stages[0].bytes > stages[1].bytes > stages[-1].bytes > 0
    assert all(stage.seconds >= 0 for stage in stages)
    assert f"\n{engine}" in repr(stages) or engine not in {"cpu", "reference"}


def test_a_graph_explains_what_compiling_would_do(program: tw.Program, engine: str) -> None:
    asked, done = graph().explain(engine=engine), program.explain()
    assert [stage[:3] for stage in asked] == [stage[:3] for stage in done][:-2]


def test_budgets_and_switches_are_stages_too(engine: str) -> None:
    x, w = tw.var("x", (2000, 16)), tw.var("w", (16, 16))
    y = x
    for _ in range(12):
        y = np.tanh(y @ w)
    long = tw.Graph([x, w], tw.gradients(np.sum(y * y), [x])[0])
    peak = long.plan(engine=engine, incremental=False, threads=2).peak_bytes
    stages: Any = long.explain(engine=engine, incremental=False, memory=0.9 * peak, threads=2)
    assert "relieve: recompute" in [stage.name for stage in stages]
    assert stages[-1].bytes <= 0.9 * peak < peak
    assert listed_names(long.explain(engine=engine, optimise=False)) == [s.name for s in PLANNING]


def test_the_table_is_aligned_and_a_sequence() -> None:
    stages = graph().explain()
    lines = repr(stages).splitlines()
    assert lines[0].split() == ["stage", "nodes", "bytes", "ms"]
    assert len({len(line) for line in lines}) == 1
    assert isinstance(stages, Stages)
    assert list(stages) == stages[:]
    assert len(lines) == len(stages) + 1


class Halve:
    """A candidate that halves what is above the budget, as often as it may."""

    name, recomputes, times = "halve", True, 3

    def __init__(self, planner: Any, budget: int | None) -> None:
        self.budget, self.left = budget, self.times

    def propose(self, planned: Any) -> Any:
        if self.budget is None or planned.arena <= self.budget:
            return None
        if not self.left:
            raise MemoryBudgetError(self.budget, planned.arena)
        self.left -= 1
        return SimpleNamespace(arena=planned.arena // 2)


class Refuse(Halve):
    """A candidate whose search never succeeds, and needs more."""

    name = "refuse"

    def propose(self, planned: Any) -> Any:
        if planned.arena > 100 and self.budget is not None:
            raise MemoryBudgetError(self.budget, planned.arena + 5)


@pytest.mark.parametrize(
    ("budget", "names", "arena"),
    [(None, [], 800), (800, [], 800), (300, ["halve"] * 2, 200), (100, ["halve"] * 3, 100)],
)
def test_relief_asks_interchangeable_candidates_until_the_plan_fits(
    budget: int | None, names: list[str], arena: int
) -> None:
    start, noted = cast("PlannedVersion", SimpleNamespace(arena=800)), list[str]()
    given: Any = start, None, budget, lambda name, _: noted.append(name), (Refuse, Halve)
    free, planned = relieve(*given)
    assert (noted, planned.arena, free) == (names, arena, start)


def test_relief_that_fails_names_the_least_that_was_planned() -> None:
    start: Any = SimpleNamespace(arena=800)
    given: Any = start, None, 99, lambda *_: None, (Refuse, Halve)
    with pytest.raises(MemoryBudgetError) as caught:
        relieve(*given)
    assert caught.value.least_bytes == 100


def test_stages_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    x = tw.var("x", (3,))
    with caplog.at_level("DEBUG", logger="tawny"):
        program = tw.Graph([x], np.exp(x)).compile(engine="reference")
    said = [record.getMessage() for record in caplog.records if record.name == "tawny"]
    assert [text.split(": ")[1] for text in said[: len(program.explain())]] == [
        stage.name.split(": ")[0] for stage in program.explain()
    ]
