"""From graphs to planning problems: scratch memory, and which results may overwrite what."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from memory_checks import assert_apart
from tawny.engine.lowering import lower
from tawny.engine.protocol import ENGINES, Task
from tawny.engine.reference.executable import ReferenceEngine, ReferenceExecutable
from tawny.memory.plan import plan
from tawny.node import Node
from tawny.ops.linalg import Matmul

SCRATCH = 1000


class ScratchExecutable(ReferenceExecutable):
    """Fills the scratch memory of a step before and after it runs."""

    def run(self, positions, draw) -> None:
        for position in positions:
            self._fill(position)
            super().run([position], draw)
            self._fill(position)

    def _fill(self, position: int) -> None:
        offset = self.task.layout.scratch.get(position)
        if offset is not None:
            self.arena[offset : offset + SCRATCH] = 0xAB


class ScratchEngine(ReferenceEngine):
    """Needs scratch memory for matrix products."""

    def scratch(self, node: Node, threads: int) -> int:
        return SCRATCH if isinstance(node.op, Matmul) else 0

    def prepare(self, task: Task) -> ReferenceExecutable:
        return ScratchExecutable(task)


@pytest.fixture
def scratch_engine() -> Iterator[str]:
    ENGINES["scratch"] = ScratchEngine()
    yield "scratch"
    del ENGINES["scratch"]


def product_chain(length: int):
    x, w = tw.var("x", shape=(8, 8)), tw.var("w", shape=(8, 8))
    y = x
    for _ in range(length):
        y = tnp.sin(y @ w)
    return x, w, y


def test_scratch_is_planned_for_the_step_that_needs_it() -> None:
    _, _, y = product_chain(3)
    lowered = lower([y.node], scratch=lambda node: ScratchEngine().scratch(node, 1))
    asked = {s for s, node in enumerate(lowered.steps) if isinstance(node.op, Matmul)}
    assert {s for s, step in enumerate(lowered.problem.steps) if step.scratch == SCRATCH} == asked
    layout = plan(lowered.problem)
    assert {layout.sequence[position] for position in layout.scratch} == asked
    assert_apart((s.bytes, s.birth, s.death, offset) for s, offset in layout.placed_storages)
    assert layout.arena == 2 * 8 * 8 * 8 + 1024, "one scratch at a time, beside operand and result"
    assert plan(lower([y.node]).problem).scratch == {}


@pytest.mark.parametrize("memory", [None, 2 * 8 * 8 * 8 + 1024])
def test_scratch_of_an_engine_disturbs_nothing(scratch_engine: str, memory: int | None) -> None:
    x, w, y = product_chain(3)
    graph = tw.Graph([x, w], [y, y @ tnp.cos(x)])
    expected = graph.compile(engine="reference")
    p = graph.compile(engine=scratch_engine, memory=memory and memory + 4096)
    assert [b.kind for b in p.plan.blocks].count("scratch") >= 4
    rng = np.random.default_rng(0)
    for _ in range(3):
        values = rng.random((2, 8, 8)) / 4
        for got, want in zip(p(*values), expected(*values), strict=True):
            np.testing.assert_array_equal(got, want)
        (a, b), (c, d) = (q(w=values[0]) for q in (p, expected))
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)


@pytest.mark.parametrize("incremental", [True, False])
def test_an_update_in_the_variables_memory_takes_none_of_the_arena(
    engine: str, incremental: bool
) -> None:
    w, s, x = (tw.var(n, shape=(4096,)) for n in "wsx")
    slope = w * x
    squares = s + slope * slope
    graph = tw.Graph(
        [w, s, x],
        tnp.sum(slope),
        updates={s: squares, w: w - 0.1 * slope / tnp.sqrt(squares + 1.0)},
    )
    p = graph.compile(engine=engine, incremental=incremental)
    assert p.plan.peak_bytes < 2.5 * 4096 * 8, "the slope and a temporary, not the new values"
    state = {n: np.linspace(0.5, 1.5, 4096) for n in "wsx"}
    p.set(**state)
    for _ in range(3):
        p.run()
        g = state["w"] * state["x"]
        state["s"] = state["s"] + g * g
        state["w"] = state["w"] - 0.1 * g / np.sqrt(state["s"] + 1.0)
    np.testing.assert_allclose(p.state["w"], state["w"], rtol=1e-12)
    np.testing.assert_allclose(p.state["s"], state["s"], rtol=1e-12)
