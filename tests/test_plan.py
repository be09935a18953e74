"""Plans of real graphs: sound, exact, legal pebblings, explained; poisoned memory changes nothing."""

from __future__ import annotations

import random
import tracemalloc

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from program_checks import programs
from tawny.graph.in_place_updates import vertices_in_cycles
from tawny.memory.blocks import allocate_blocks
from tawny.memory.ordering.portfolio import depth_first_order
from tawny.pebble import from_schedule, play

mpl.use("Agg")


@pytest.mark.filterwarnings("ignore:Graph. input")
@settings(max_examples=120, deadline=None)
@given(programs(), st.sampled_from(["default", "seed", "budget", "least"]), st.booleans())
def test_every_plan_is_a_legal_pebbling(program, how: str, incremental: bool) -> None:
    variables, outputs, updates = program
    graph = tw.Graph(variables, outputs, updates=updates)
    options = {"engine": "reference", "incremental": incremental}
    plan = graph.plan(**options)
    if how == "seed":
        plan = graph.plan(plan="seed", **options)
    elif how != "default":
        least = 0
        try:
            graph.plan(memory=0, **options)
        except tw.MemoryBudgetError as error:
            least = error.least_bytes
        middle = (least + plan.peak_bytes) // 2
        plan = graph.plan(memory=least if how == "least" else middle, **options)
    pebbling = from_schedule(plan.layout.schedule)
    space = play(pebbling.game, pebbling.moves).space
    if any(value.pinned for value in plan.lowered.problem.values):
        assert space <= plan.layout.schedule.peak, "what may be there from before has its own bytes"
    else:
        assert space == plan.layout.schedule.peak


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
    with pytest.raises(ValueError, match="is of another graph: this one does not compute it"):
        p.plan.why(x1 + 1)
    once = tw.Graph([x1, x3], [x5]).plan(incremental=False)
    assert once.peak_bytes == 8_000_000
    assert "peak: 16.0 MB here, 8.0 MB there" in p.plan.diff(once)
    assert p.plan.diff(p.plan) == "no difference"


def test_variables_and_constants_lie_beside_the_peak() -> None:
    x, weight = tw.var("x", (10,), "float32"), tw.var("w", (10, 10), "float32")
    known = np.arange(1000.0, dtype="float32").reshape(10, 100)
    graph = tw.Graph([x, weight], x @ weight @ known)
    assert graph.plan().resident_bytes == 4 * (10 + 100 + 1000)
    assert "4.4 kB of variables and constants beside it" in str(graph.plan())
    plan = tw.Graph([x], x * 2).plan()
    said = "variables and constants: 4.4 kB here, 44 B there (-4,396 bytes)"
    assert said in graph.plan().diff(plan)


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
    assert [s.bytes for s in plan.steps if s.array.node in plan.in_place_updates] == [0]
    assert "fused_matmul" in plan.why(hidden)


# ------------------------------------------------------------------ training steps


def perceptron(layers: int, width: int, batch: int, method: str) -> tw.Graph:
    """A training step of dense layers, by gradient descent, with momentum or as Adam does it."""
    x = tw.var("x", shape=(batch, width), dtype="float32")
    parameters = [tw.var(f"w{i}", shape=(width, width), dtype="float32") for i in range(layers)]
    hidden = x
    for w in parameters:
        hidden = tnp.tanh(hidden @ w)
    loss = ((hidden - x) ** 2).mean()
    updates: dict[tnp.ndarray, tnp.ndarray] = {}
    for w, slope in zip(parameters, tw.gradients(loss, parameters), strict=True):
        if method == "descent":
            updates[w] = w - 0.1 * slope
            continue
        m = tw.var(f"m_{w.node.name}", shape=w.shape, dtype="float32")
        updates[m] = speed = m * 0.9 + slope * 0.1
        if method == "momentum":
            updates[w] = w - 0.1 * speed
            continue
        v = tw.var(f"v_{w.node.name}", shape=w.shape, dtype="float32")
        updates[v] = spread = v * 0.99 + slope * slope * 0.01
        updates[w] = w - 0.1 * speed / (tnp.sqrt(spread) + 1e-8)
    return tw.Graph([x, *parameters], loss, updates=updates)


METHODS = ("descent", "momentum", "adam")


@pytest.mark.parametrize("method", METHODS)
def test_a_training_step_keeps_nothing_and_updates_in_place(method: str, engine: str) -> None:
    graph = perceptron(8, 64, 64, method)
    plan = graph.plan(engine=engine)
    assert plan.kept == ()
    assert plan.peak_bytes == graph.plan(engine=engine, incremental=False).peak_bytes
    assert set(plan.in_place_updates.values()) == {target.node for target in graph.updates}
    block = 64 * 64 * 4
    assert plan.peak_bytes <= (8 + 3) * block + 128, "activations, and few values beside them"


@pytest.mark.parametrize("method", METHODS)
def test_a_training_step_within_a_budget_gives_the_same(method: str, engine: str) -> None:
    graph = perceptron(8, 16, 32, method)
    free = graph.compile(engine=engine)
    rng = np.random.default_rng(0)
    state = {n.name: rng.random(n.shape, np.float32) for n in graph.variables}
    peaks: list[int] = []
    for share in (0.9, 0.43, 0.7, 0.5, 0.8, 0.6, 0.45):
        budget = int(free.plan.peak_bytes * share)
        tight = graph.compile(engine=engine, memory=budget)
        assert tight.plan.peak_bytes <= budget
        assert len(tight.plan.in_place_updates) == len(graph.updates)
        peaks.append(tight.plan.peak_bytes)
        for program in (free, tight):
            program.set(**state)
        rounding = 0 if engine == "reference" else 1e-5  # not everything is fused in both
        np.testing.assert_allclose(tight.run(3), free.run(3), rtol=rounding)
        for name, value in free.state.items():
            np.testing.assert_allclose(tight.state[name], value, rtol=rounding, atol=rounding)
    shares = (0.9, 0.43, 0.7, 0.5, 0.8, 0.6, 0.45)
    assert sorted(peaks) == [peak for _, peak in sorted(zip(shares, peaks, strict=True))]


def test_the_reports_mnist_step_takes_forty_megabytes() -> None:
    kind = "float32"
    x, y = tw.var("x", shape=(100, 28, 28, 1), dtype=kind), tw.var("y", shape=(100, 10), dtype=kind)
    shapes = {"k": (5, 5, 1, 32), "w1": (6272, 1024), "b1": (1024,), "w2": (1024, 10), "b2": (10,)}
    p = {name: tw.var(name, shape=shape, dtype=kind) for name, shape in shapes.items()}
    images = tnp.max_pool2d(tnp.maximum(tnp.conv2d(x, p["k"], padding="SAME"), 0), 2)
    mask = tw.random.bernoulli(0.9, (100, 6272), kind) * (1 / 0.9)
    hidden = tnp.maximum((tnp.reshape(images, (100, 6272)) * mask) @ p["w1"] + p["b1"], 0)
    logs = tnp.log_softmax(hidden @ p["w2"] + p["b2"], axis=-1)
    loss = -tnp.mean(tnp.sum(logs * y, axis=-1))
    updates: dict[tnp.ndarray, tnp.ndarray] = {}
    for w, slope in zip(p.values(), tw.gradients(loss, list(p.values())), strict=True):
        s = tw.var(f"s_{w.node.name}", shape=w.shape, dtype=kind)
        updates[s] = s + slope * slope
        updates[w] = w - 0.005 * slope / tnp.sqrt(updates[s] + 1e-8)
    graph = tw.Graph([x, y], loss, updates=updates)
    plan = graph.plan(engine="cpu")
    assert len(plan.in_place_updates) == len(updates)
    tw.testing.assert_peak(plan, "40MB")
    tw.testing.assert_peak(graph.plan(engine="cpu", memory="30MB"), "30MB")


@pytest.mark.filterwarnings("ignore:Graph. input")
@settings(max_examples=40, deadline=None)
@given(programs(), st.randoms(use_true_random=False), st.sampled_from(["reference", "cpu"]))
def test_a_smaller_budget_has_no_larger_peak(program, rng: random.Random, engine: str) -> None:
    variables, outputs, updates = program
    graph = tw.Graph(variables, outputs, updates=updates)
    options = {"engine": engine, "incremental": rng.random() < 0.5}
    budgets = list(range(0, graph.plan(**options).peak_bytes + 65, 64))
    rng.shuffle(budgets)
    peaks: dict[int, int] = {}
    least: dict[int, int] = {}
    for budget in budgets:
        try:
            peaks[budget] = graph.plan(memory=budget, **options).peak_bytes
        except tw.MemoryBudgetError as error:
            least[budget] = error.least_bytes
    assert all(peak <= budget for budget, peak in peaks.items())
    assert all(budget < enough == min(peaks.values()) for budget, enough in least.items())
    by_budget = [peak for _, peak in sorted(peaks.items())]
    assert by_budget == sorted(by_budget)
    assert max(least, default=-1) < min(peaks)


def test_updates_that_read_each_other_are_not_all_in_place() -> None:
    a, b, c = (tw.var(n, shape=(5,)) for n in "abc")
    graph = tw.Graph([], tnp.sum(a), updates={a: tnp.sin(b), b: tnp.cos(c), c: a + 1})
    program = graph.compile(engine="reference")
    assert len(program.plan.in_place_updates) == 2
    values = [np.arange(5.0), np.arange(5.0) * 2, np.arange(5.0) * 3]
    program.set(**dict(zip("abc", values, strict=True)))
    program.run(2)
    for _ in range(2):
        values = [np.sin(values[1]), np.cos(values[2]), values[0] + 1]
    for name, value in zip("abc", values, strict=True):
        np.testing.assert_array_equal(program.state[name], value)


@given(st.integers(1, 7), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_what_lies_on_cycles_or_between_them(count: int, rng: random.Random) -> None:
    before = [{u for u in range(count) if rng.random() < 0.25} for _ in range(count)]
    reached = [set(row) for row in before]
    for _ in range(count):
        for row in reached:
            row.update(*(reached[u] for u in tuple(row)))
    circling = {v for v in range(count) if v in reached[v]}
    expected = {
        v
        for v in range(count)
        if circling & (reached[v] | {v}) and any(v in reached[c] | {c} for c in circling)
    }
    assert vertices_in_cycles(before) == expected


# ----------------------------------------------------------------- how plans are made


def test_the_reports_plan_is_there_for_comparison() -> None:
    graph = perceptron(6, 32, 64, "momentum")
    for options in ({}, {"incremental": False}, {"optimise": False}):
        made = graph.plan(engine="reference", plan="seed", **options)
        problem = made.lowered.problem
        blocks = allocate_blocks(problem, depth_first_order(problem))
        assert made.peak_bytes == sum(-(-size // 64) * 64 for size in blocks.sizes)
        assert made.peak_bytes > graph.plan(engine="reference", **options).peak_bytes
    x = np.ones((64, 32), np.float32)
    programs = [graph.compile(engine="reference", plan=how) for how in ("default", "seed")]
    for program in programs:
        program.set(**{n.name: np.full(n.shape, 0.01, np.float32) for n in graph.variables})
    for _ in range(3):
        np.testing.assert_array_equal(*[program(x) for program in programs])


def test_hard_plans_are_at_least_as_tight() -> None:
    graph = perceptron(3, 16, 32, "adam")
    hard = graph.plan(engine="reference", plan="hard")
    assert hard.peak_bytes <= graph.plan(engine="reference").peak_bytes
    assert hard.peak_bytes == hard.lower_bound_bytes


@pytest.mark.parametrize(
    ("options", "said"),
    [({"plan": "easy"}, "accepted: 'default'"), ({"plan": "seed", "memory": 100}, "no budgets")],
)
def test_unknown_ways_to_plan_are_refused(options, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        chain(4).compile(**options)


# ---------------------------------------------------------------------- the plan object


def test_what_is_alive_is_listed_with_scratch_memory() -> None:
    x = tw.var("x", shape=(300, 300), dtype="float32")
    plan = tw.Graph([x], tnp.sin(tnp.exp(x) @ tnp.cos(x))).plan(incremental=False)
    assert any(block.kind == "scratch" for block in plan.blocks)
    for moment in plan.timeline():
        alive = plan.alive(moment.position)
        assert sum(one.bytes for one in alive) == moment.live_bytes
        assert [one.bytes for one in alive] == sorted((one.bytes for one in alive), reverse=True)
        assert all((one.array is None) == (one.kind == "scratch") for one in alive)
    last = plan.alive(len(plan.steps) - 1)
    assert last[0].array is not None
    assert last[0].array.node is plan.steps[-1].array.node
    with pytest.raises(AssertionError, match=r"scratch    of Array\(matmul"):
        tw.testing.assert_peak(plan, 100)
    with pytest.raises(tw.MemoryBudgetError, match=r"scratch of <matmul.*test_plan.py:\d+> \("):
        tw.Graph([x], tnp.sin(tnp.exp(x) @ tnp.cos(x))).plan(memory=100)


def test_results_in_several_variables_are_named() -> None:
    plan = perceptron(2, 32, 8, "adam").plan(engine="cpu")
    assert any("in m_w0, v_w0, w0" in line for line in str(plan).splitlines())


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
    free = chain(1000).plan(incremental=False, engine="reference")
    tight = chain(1000).plan(memory=free.peak_bytes // 2, incremental=False, engine="reference")
    axes = tight.plot()
    assert "computed again" in {t.get_text() for t in axes.get_legend().get_texts()}
    hatched = [bar for bar in axes.collections if bar.get_hatch()]
    again = {s.position for s in tight.steps if s.again}
    assert len(hatched) == sum(block.first in again for block in tight.blocks)
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
    asked: list[int] = []
    n = tw.largest(lambda n: asked.append(n) or chain(n), most, **options)
    assert n > 1500, "values computed again leave room for more"
    assert len(asked) <= 18, "refused sizes say how much they miss by"
    assert chain(n).plan(memory=most, **options).peak_bytes <= most
    with pytest.raises(tw.MemoryBudgetError):
        chain(n + 1).plan(memory=most, **options)


def test_largest_and_assert_peak() -> None:
    def make(n: int) -> tw.Graph:
        v = tw.var("v", shape=(n, n))
        return tw.Graph([v], tnp.sin(v) @ v)

    asked: list[int] = []
    n = tw.largest(lambda n: asked.append(n) or make(n), "1MB")
    assert len(asked) <= 20
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
