"""What `explain` shows: the stages between a graph and a program."""

from __future__ import annotations

from typing import Any

import pytest

import tawny as tw
import tawny.numpy as np
from tawny.graph.stages import Stages


def graph() -> tw.Graph:
    x = tw.var("x", (300, 300))
    return tw.Graph([x], [np.sum(np.exp(x * 1 + 0) @ x), np.sin(np.cos(x)) + 1])


@pytest.fixture
def program(engine: str) -> tw.Program:
    return graph().compile(engine=engine)


def test_stages_lead_from_the_graph_to_the_program(program: tw.Program, engine: str) -> None:
    stages = program.explain()
    names = [stage.name for stage in stages]
    assert names[:3] == ["record", "simplify", "fuse"]
    assert names[-1] == "make code, allocate"
    assert "plan" in names
    assert stages[0].nodes == len(graph().order)
    assert stages[1].nodes < stages[0].nodes, "x * 1 + 0 is x"
    assert stages[-1].bytes == program.plan.peak_bytes
    assert stages[-1].nodes == len(program.plan.steps)
    assert [stage.bytes for stage in stages[:3]] == [None] * 3
    assert all(stage.seconds >= 0 for stage in stages)
    assert f"\n{engine}" in repr(stages) or engine not in {"cpu", "reference"}


def test_a_graph_explains_what_compiling_would_do(program: tw.Program, engine: str) -> None:
    asked, done = graph().explain(engine=engine), program.explain()
    assert [stage[:3] for stage in asked] == [stage[:3] for stage in done][:-1]


def test_budgets_and_switches_are_stages_too(engine: str) -> None:
    x, w = tw.var("x", (2000, 16)), tw.var("w", (16, 16))
    y = x
    for _ in range(12):
        y = np.tanh(y @ w)
    long = tw.Graph([x, w], tw.gradients(np.sum(y * y), [x])[0])
    peak = long.plan(engine=engine, incremental=False, threads=2).peak_bytes
    stages: Any = long.explain(engine=engine, incremental=False, memory=0.9 * peak, threads=2)
    assert stages[-1].name == "recompute within budget"
    assert stages[-1].bytes <= 0.9 * peak < peak
    plain = [stage.name for stage in long.explain(engine=engine, optimise=False)]
    assert "simplify" not in plain
    assert plain[0] == "record"


def test_the_table_is_aligned_and_a_sequence() -> None:
    stages = graph().explain()
    lines = repr(stages).splitlines()
    assert lines[0].split() == ["stage", "nodes", "bytes", "ms"]
    assert len({len(line) for line in lines}) == 1
    assert isinstance(stages, Stages)
    assert list(stages) == stages[:]
    assert len(lines) == len(stages) + 1
