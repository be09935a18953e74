"""Plans of real graphs: sound, exact, legal pebblings, explained; poisoned memory changes nothing."""

from __future__ import annotations

import tracemalloc

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from program_checks import check_poisoned, programs
from tawny.pebble import from_schedule, play

mpl.use("Agg")


@pytest.mark.filterwarnings("ignore:Graph. input")
@settings(max_examples=400, deadline=None)
@given(programs(), st.data())
def test_poisoned_memory_and_the_checkers(program, data: st.DataObject) -> None:
    check_poisoned("reference", program, data)


@pytest.mark.filterwarnings("ignore:Graph. input")
@settings(max_examples=80, deadline=None)
@given(programs())
def test_every_plan_is_a_legal_pebbling(program) -> None:
    variables, outputs, updates = program
    plan = tw.Graph(variables, outputs, updates=updates).plan(incremental=False)
    pebbling = from_schedule(plan.layout.schedule)
    assert play(pebbling.game, pebbling.moves).space == plan.layout.schedule.peak


def figure_1(n: int = 1000):
    x1, x3 = tw.var("x1", shape=(n, n)), tw.var("x3", shape=(n, n))
    x2 = 2 - x1
    x4 = x2 * x3
    return x1, x2, x3, x4, tnp.sin(x4)


def test_the_reports_figure_1_needs_two_blocks() -> None:
    x1, x2, x3, x4, x5 = figure_1()
    p = tw.Graph([x1, x3], [x5]).compile(engine="reference")
    assert p.plan.peak_bytes == p.plan.lower_bound_bytes == 16_000_000
    assert p.plan.unshared_bytes == 24_000_000
    assert [b.kind for b in p.plan.blocks] == ["kept", "kept"]
    assert "peak 16.0 MB in 2 blocks, lower bound 16.0 MB" in str(p.plan)
    assert "in place of <multiply" in p.plan.why(x5)
    assert "kept for later runs" in p.plan.why(x2)
    assert "outside the plan" in p.plan.why(x1)
    assert "in place of subtract" not in p.plan.why(x4)
    with pytest.raises(ValueError, match="not computed by this program"):
        p.plan.why(x1 + 1)
    once = tw.Graph([x1, x3], [x5]).plan(incremental=False)
    assert once.peak_bytes == 8_000_000
    assert "peak: 16.0 MB here, 8.0 MB there" in p.plan.diff(once)
    assert p.plan.diff(p.plan) == "no difference"


def test_the_peak_it_predicts_is_the_peak_it_allocates() -> None:
    x1, _, x3, _, x5 = figure_1(500)
    graph = tw.Graph([x1, x3], [x5])
    plan = graph.plan(engine="reference")
    tracemalloc.start()
    p = graph.compile(engine="reference")
    made, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert plan.peak_bytes <= made <= plan.peak_bytes + 500_000
    a = np.ones((500, 500))
    p.set(x1=a, x3=a)
    p.run(views=True)
    tracemalloc.start()
    for _ in range(3):
        p.set(x3=a)
        p.run(views=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000, "after the first run nothing is allocated"


def test_timeline_steps_and_html() -> None:
    x1, _, x3, _, x5 = figure_1(10)
    plan = tw.Graph([x1, x3], [x5]).plan(engine="reference")
    moments = plan.timeline()
    assert [m.position for m in moments] == [0, 1, 2]
    assert max(m.live_bytes for m in moments) == plan.lower_bound_bytes
    assert all(m.live_bytes <= m.allocated_bytes <= plan.peak_bytes for m in moments)
    assert [s.over is not None for s in plan.steps] == [False, False, True]
    assert plan._repr_html_().count("<tr>") == 4


def training() -> tuple[tw.Graph, tnp.ndarray, tnp.ndarray]:
    x, w = tw.var("x", shape=(64, 16)), tw.var("w", shape=(16, 16))
    hidden = tnp.tanh(x @ w)
    loss = ((hidden - x) ** 2).mean()
    return tw.Graph([x], [loss], updates={w: w - 0.1 * (x.T @ hidden)}), hidden, loss


def test_why_knows_what_was_written_and_where_updates_lie() -> None:
    graph, hidden, loss = training()
    plan = graph.plan(engine="reference", incremental=False)
    assert "8 bytes at" in plan.why(loss)
    (update,) = graph.updates.values()
    assert plan.why(update).endswith("computed in the memory of variable 'w'")
    assert "in w  " in str(plan)
    assert [s.bytes for s in plan.steps if s.array.node in plan.homes] == [0]
    with pytest.raises(ValueError, match=r"optimised away.*computed for its line: <fused_matmul"):
        plan.why(hidden)


def test_every_value_finds_its_block() -> None:
    graph, _, _ = training()
    for options in ({}, {"incremental": False}, {"optimise": False}):
        plan = graph.plan(engine="reference", **options)
        for node, index in plan.lowered.values:
            block = plan.block_of(node) if index == 0 else None
            holders = [
                b for b, one in enumerate(plan.blocks) if node in [a.node for a in one.arrays]
            ]
            assert block is None or not holders or block == holders[0]
            assert (block is None) <= (not holders)
    assert plan.block_of(graph.input_nodes[0]) is None
    assert plan.block_of(figure_1(3)[-1].node) is None


def test_long_plans_say_how_much_is_not_shown() -> None:
    x = tw.var("x", shape=(4,))
    y = x
    for _ in range(100):
        y = tnp.sin(y) + x
    plan = tw.Graph([x], y).plan(engine="reference", optimise=False)
    hidden = len(plan.steps) - 30
    assert f"... and {hidden} more steps" in str(plan)
    assert f"... and {hidden} more steps" in plan._repr_html_()
    assert plan._repr_html_().count("<tr>") == 31


def test_differences_are_named() -> None:
    graph = chain(1000)
    free = graph.plan(incremental=False, engine="reference")
    tight = graph.plan(memory=free.peak_bytes // 2, incremental=False, engine="reference")
    said = free.diff(tight)
    again = sum(s.again for s in tight.steps)
    assert again > 0
    assert f"steps computed again: 0 here, {again} there" in said
    assert "the same steps in another order, or computed again" in said
    assert "again" in tight._repr_html_()
    kept = graph.plan(engine="reference")
    assert "kept only there: <multiply" in free.diff(kept)
    assert "kept only here: <multiply" in kept.diff(free)
    x1, _, x3, _, x5 = figure_1(10)
    other = tw.Graph([x1, x3], [x5 + 1]).plan(engine="reference", incremental=False)
    assert "steps only there: <add" in tw.Graph([x1, x3], [x5]).plan(
        engine="reference", incremental=False
    ).diff(other)


def test_the_plot_shows_blocks_and_the_peak() -> None:
    x1, _, x3, _, x5 = figure_1(10)
    plan = tw.Graph([x1, x3], [x5]).plan()
    axes = plan.plot()
    assert len(axes.collections) == len(plan.blocks)
    assert {t.get_text() for t in axes.get_legend().get_texts()} == {"live", "peak", "kept"}
    mpl.pyplot.close("all")


def chain(n: int):
    x = tw.var("x", shape=(n,))
    saved = [x]
    for _ in range(8):
        saved.append(tnp.sin(saved[-1]))
    out = saved[-1]
    for s in reversed(saved[:-1]):
        out = out * tnp.cos(s)
    return tw.Graph([x], out)


def test_a_budget_is_kept_or_refused_with_the_least() -> None:
    graph = chain(1000)
    free = graph.plan(incremental=False, engine="reference")
    half = graph.compile(engine="reference", memory=free.peak_bytes // 2, incremental=False)
    assert half.plan.peak_bytes <= free.peak_bytes // 2
    assert any(s.again for s in half.plan.steps)
    x = np.linspace(0, 1, 1000)
    full = graph.compile(engine="reference")
    np.testing.assert_array_equal(half(x), full(x))
    with pytest.raises(tw.MemoryBudgetError) as caught:
        graph.compile(engine="reference", memory="1kB")
    least = caught.value.least_bytes
    assert graph.plan(memory=least, engine="reference").peak_bytes <= least
    assert "test_plan.py" in str(caught.value)
    for bad, error in (("much", ValueError), (-1, ValueError), (1.5, TypeError)):
        with pytest.raises(error):
            graph.plan(memory=bad)


def test_the_largest_size_is_found_with_recomputation() -> None:
    options = {"engine": "reference", "incremental": False}
    most = chain(1000).plan(**options).peak_bytes
    n = tw.largest(chain, most, **options)
    assert n > 1500, "values computed again leave room for more"
    assert chain(n).plan(memory=most, **options).peak_bytes <= most
    with pytest.raises(tw.MemoryBudgetError):
        chain(n + 1).plan(memory=most, **options)


def test_largest_and_assert_peak() -> None:
    def make(n: int) -> tw.Graph:
        v = tw.var("v", shape=(n, n))
        return tw.Graph([v], tnp.sin(v) @ v)

    n = tw.largest(make, "1MB")
    assert make(n).plan().peak_bytes <= 1_000_000 < make(n + 1).plan().peak_bytes
    with pytest.raises(tw.MemoryBudgetError):
        tw.largest(make, 10)
    with pytest.raises(ValueError, match="does the graph grow"):
        tw.largest(lambda n: make(3), "1MB", limit=100)
    with pytest.raises(TypeError, match="not a Graph"):
        tw.largest(lambda n: n, "1MB")
    program = make(10).compile(engine="reference")
    tw.testing.assert_peak(program, "1MB")
    tw.testing.assert_peak(program.plan, program.plan.peak_bytes)
    with pytest.raises(
        AssertionError, match=r"the planned peak is .* more than 100; alive at step"
    ):
        tw.testing.assert_peak(program, 100)
