"""Programs whose engine runs fused groups: incremental changes, updates, budgets, parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from grouping_engine import grouping_engine
from poisoned import Poisoned
from program_checks import check_poisoned, programs
from tawny.array import array_for
from tawny.engine.reference.executable import ReferenceExecutable
from tawny.engine.reference.fusion import _apply as apply_step
from tawny.node import Node, Part, Value, Variable, toposort
from tawny.ops.fusion import Group
from tawny.ops.reduction import Reduction
from test_rewrite_group_memory import wide_graph


@pytest.fixture(autouse=True, scope="module")
def engine() -> Iterator[str]:
    with grouping_engine() as name:
        yield name


def compiled(*args, **options):
    return tw.Graph(*args).compile(engine="grouping", **options)


def groups_of(program) -> list[Node]:
    return [s.array.node for s in program.plan.steps if isinstance(s.array.node.op, Group)]


class Hostile(ReferenceExecutable):
    """Runs groups as badly as a kernel may.

    Each sweep computes everything between reductions again from the operands, as they are in
    memory then; each result is in memory as soon as its step is done.
    """

    def thunk(self, position: int):
        schedule = self.task.layout.schedule
        node = self.task.lowered.steps[schedule.sequence[position]]
        plain = super().thunk(position)
        if not isinstance(node.op, Group):
            return plain
        body, stages = node.op.body, node.op.body.stages()
        writes = schedule.writes[position]
        places = [self.target((node, result), at) for result, at in enumerate(writes)]
        operands = [
            self.reader(source, storage)
            for source, storage in zip(node.inputs, schedule.reads[position], strict=True)
        ]
        first = len(operands)

        def run(draw: int) -> None:
            totals: dict[int, Value] = {}
            for sweep in range(max(stages) + 1):
                values: dict[int, Value] = dict(totals)

                def value(number: int, values: dict[int, Value] = values) -> Value:
                    if number < first:
                        return operands[number]()
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
                                np.copyto(place(), made)

        return run


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
@settings(max_examples=300, deadline=None)
@given(programs(), st.data())
def test_poisoned_memory_and_kernels_that_write_early(program, data: st.DataObject) -> None:
    check_poisoned("grouping", program, data, Hostile)


# ------------------------------------------------------------------ several results


def big(name: str, *shape: int):
    return tw.var(name, shape=shape or (64, 64), dtype="float32")


def values(*variables, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {v.name: rng.uniform(-1, 1, v.shape).astype(v.dtype) for v in variables}


def assert_agrees(program, graph: tw.Graph, **given) -> None:
    """The program gives what the graph gives without any optimisation."""
    plain = graph.compile(engine="reference", optimise=False)
    for got, want in zip(program(**given), plain(**given), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def same_steps(program, variable, names: list[str]) -> bool:
    """Whether a change of a variable makes steps of these names run."""
    nodes = program._compiled.nodes_after_change(program._compiled.bit(variable.node))
    return sorted(n.name for n in nodes) == names


def two_results():
    """Two products, each overwritten by one result of a group."""
    x, a, b = big("x"), big("a"), big("b")
    u, v = x @ a, x @ b
    p = tnp.sin(u) * 0.5
    return [x, a, b], [tnp.sum(p @ (p * v))]


@pytest.mark.parametrize("executable", [ReferenceExecutable, Hostile])
def test_a_group_of_two_results_reuses_both_dying_operands(executable) -> None:
    inputs, outputs = two_results()
    graph = tw.Graph(inputs, outputs)
    p = graph.compile(engine="grouping", incremental=False)
    (group,) = [n for n in groups_of(p) if len(n.parts) == 2]
    (position,) = [s.position for s in p.plan.steps if s.array.node is group]
    layout = p.plan.layout
    assert sorted(o for _, o in layout.schedule.in_place_pairs[position]) == [0, 1]
    assert set(layout.writes(position)) == set(layout.reads(position)) - {None}
    assert p.plan.lower_bound_bytes == 3 * 64 * 64 * 4, "both, and a product of one"
    task = p._compiled.task
    p._compiled.__dict__["executable"] = Poisoned(executable(task), task)
    assert_agrees(p, graph, **values(*inputs))


def test_parts_are_kept_one_by_one() -> None:
    x, y = big("x"), big("y")
    a = tnp.sin(x @ x)
    b = tnp.exp(a) * 0.5
    graph = tw.Graph([x, y], [tnp.sum(b @ x), a * y])
    p = graph.compile(engine="grouping")
    (group,) = [n for n in groups_of(p) if n.parts]
    parts = [n for n in p.plan.kept if isinstance(n.op, Part)]
    assert [n.inputs[0] for n in parts] == [group], "only what a later run may read is kept"
    kinds = {b.kind for b in p.plan.blocks if any(t.node.name == "part" for t in b.arrays)}
    assert kinds == {"kept", "transient"}
    assert "kept for later runs" in p.plan.why(tw.array.wrap(parts[0]))
    assert_agrees(p, graph, **values(x, y))
    given = values(x, y)
    p(y=given["y"] * 2)
    assert same_steps(p, y, ["multiply"])
    np.testing.assert_allclose(
        p.get(tw.array.wrap(parts[0])), np.sin(given["x"] @ given["x"]), rtol=1e-4, atol=1e-4
    )


# ------------------------------------------------------------------ incremental changes


def test_what_runs_at_different_times_is_in_no_group_together() -> None:
    x, y = big("x"), big("y")
    early = tnp.exp(tnp.sin(x) * 2)
    late = tnp.tanh(early * tnp.cos(y)) + 1
    graph = tw.Graph([x, y], [late])
    p = graph.compile(engine="grouping")
    assert len(groups_of(p)) == 2
    assert_agrees(p, graph, **values(x, y))
    assert same_steps(p, y, ["cos", "group"])
    assert same_steps(p, x, ["group", "group"])
    given = values(x, y)
    given["y"] = values(y, seed=1)["y"]
    np.testing.assert_array_equal(p(y=given["y"])[0], graph.compile(engine="reference")(**given)[0])
    whole = graph.compile(engine="grouping", incremental=False)
    assert len(whole.plan.steps) == 1
    often = graph.compile(engine="grouping", often=[x])
    assert len(often.plan.steps) == 2


def test_a_graph_that_was_optimised_before_is_grouped_by_time() -> None:
    x, y = big("x"), big("y")
    graph = tw.Graph([x, y], [tnp.tanh(tnp.exp(tnp.sin(x)) * tnp.cos(y))])
    whole = tw.optimise(graph)
    assert any(isinstance(n.op, Group) for n in whole.order)
    p = whole.compile(engine="grouping")
    assert len(p.plan.steps) == 3, "of x, of y, of both"
    assert same_steps(p, x, ["group", "group"])
    given = values(x, y)
    np.testing.assert_allclose(
        p(**given)[0], np.tanh(np.exp(np.sin(given["x"])) * np.cos(given["y"])), rtol=1e-5
    )


# ------------------------------------------------------------------------- updates


def momentum():
    w, g, x = big("w"), big("g"), big("x")
    slope = tnp.tanh(x * w)
    new = 0.9 * g + slope
    return w, g, x, {w: w - 0.1 * new, g: new}


@pytest.mark.parametrize("executable", [None, Hostile])
def test_updates_of_one_group_are_made_in_the_variables_memory(executable) -> None:
    w, g, x, updates = momentum()
    p = tw.Graph([x], tnp.sum(x), updates=updates).compile(engine="grouping")
    (group,) = groups_of(p)
    homes = p._compiled.in_place_updates
    assert {s.inputs[0] for s in homes if isinstance(s.op, Part)} == {group}
    assert {v.name for v in homes.values()} == {"w", "g"}
    if executable is not None:
        task = p._compiled.task
        p._compiled.__dict__["executable"] = Poisoned(executable(task), task)
    state = values(w, g, x)
    p.set(**state)
    a, b, xs = (state[n].astype(np.float64) for n in "wgx")
    for _ in range(4):
        p.run()
        new = 0.9 * b + np.tanh(xs * a)
        a, b = a - 0.1 * new, new
    np.testing.assert_allclose(p.state["w"], a, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(p.state["g"], b, rtol=1e-3, atol=1e-3)


def test_a_variable_that_a_later_step_of_the_group_reads_is_copied() -> None:
    w, v = big("w"), big("v")
    first = tnp.sin(v)
    updates = {w: first, v: tnp.exp(first) * w}  # w is read after its new value is there
    p = tw.Graph([], tnp.sum(v), updates=updates).compile(engine="grouping")
    assert [t.name for t in p._compiled.in_place_updates.values()] != ["w", "v"]
    state = values(w, v)
    p.set(**state)
    p.run()
    np.testing.assert_allclose(p.state["w"], np.sin(state["v"]), rtol=1e-6)
    np.testing.assert_allclose(p.state["v"], np.exp(np.sin(state["v"])) * state["w"], rtol=1e-5)


def test_a_group_that_can_fail_changes_no_variable_before() -> None:
    w, n = tw.var("w", shape=(2048,)), tw.var("n", shape=(2048,), dtype="int64")
    new = w + 1
    powers = tnp.astype(tnp.flip(new), "int64") ** n + 1
    p = tw.Graph([n], tnp.sum(powers), updates={w: new}).compile(engine="grouping")
    assert any("pow" in [s.op.facts().name for s in g.op.body.steps] for g in groups_of(p))
    p.set(w=np.ones(2048), n=np.full(2048, 3))
    p.run()
    np.testing.assert_array_equal(p.state["w"], np.full(2048, 2.0))
    with pytest.raises(ValueError, match="negative integer powers"):
        p(n=np.full(2048, -1))
    np.testing.assert_array_equal(p.state["w"], np.full(2048, 2.0))


# --------------------------------------------------------------------------- budgets


def test_a_budget_that_groups_cannot_meet_is_met_without_them() -> None:
    x, y = big("x", 256, 256), big("y", 256, 256)
    graph = tw.Graph([x, y], [tnp.sum(tnp.exp(x @ y), axis=0), tnp.sum(tnp.sin(y @ x), axis=0)])
    least: dict[str, int] = {}
    for engine in ("grouping", "reference"):
        with pytest.raises(tw.MemoryBudgetError) as error:
            graph.compile(engine=engine, memory=0)
        least[engine] = error.value.least_bytes
    assert least["grouping"] <= least["reference"]
    p = graph.compile(engine="grouping", memory=least["grouping"])
    assert p.plan.peak_bytes <= least["grouping"]
    assert_agrees(p, graph, **values(x, y))


def test_the_version_without_groups_is_tried_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where groups keep more alive than the budget allows, and the single ops do not."""
    monkeypatch.setattr("tawny.rewrite.groups.memory.SPARE", 10.0)
    monkeypatch.setattr("tawny.rewrite.groups.relief.LARGEST", 0)
    monkeypatch.setattr("tawny.graph.relief.MAX_COMPARED_STEPS", 0)
    x = big("x", 256, 256)
    w = [big(f"w{i}", 256, 256) for i in range(4)]
    u, v, p, q = (x @ m for m in w)
    graph = tw.Graph([x, *w], [tnp.sin(u * v) + tnp.sin(p * q)])
    size = 256 * 256 * 4
    free = graph.compile(engine="grouping", incremental=False)
    assert free.plan.peak_bytes == 4 * size, "all four products at once"
    tight = graph.compile(engine="grouping", incremental=False, memory=3 * size)
    assert tight.plan.peak_bytes <= 3 * size
    assert len(groups_of(tight)) < len(groups_of(free))
    assert_agrees(tight, graph, **values(x, *w))


def test_groups_that_raise_the_peak_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tawny.rewrite.groups.memory.SPARE", 10.0)
    monkeypatch.setattr("tawny.rewrite.groups.relief.LARGEST", 0)
    x = big("x", 256, 256)
    w = [big(f"w{i}", 256, 256) for i in range(4)]
    u, v, p, q = (x @ m for m in w)
    graph = tw.Graph([x, *w], [tnp.sin(u * v) + tnp.sin(p * q)])
    size = 256 * 256 * 4
    plan = graph.compile(engine="grouping", incremental=False).plan
    assert plan.peak_bytes == 3 * size
    assert not any(isinstance(s.array.node.op, Group) for s in plan.steps)


def graph_of(outputs: Sequence[Node]) -> tw.Graph:
    """A graph of all the variables that the outputs depend on."""
    inputs = [array_for(n) for n in toposort(outputs) if isinstance(n.op, Variable)]
    return tw.Graph(inputs, [array_for(n) for n in outputs])


def test_programs_known_to_need_no_more_with_groups_are_planned_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned: list[object] = []
    monkeypatch.setattr("tawny.graph.relief.plan_below", lambda *a, **_: planned.append(a))
    graph = graph_of(wide_graph(7, 120))
    graph.plan(engine="grouping", incremental=False)
    assert not planned
    monkeypatch.setattr("tawny.rewrite.groups.relief.LARGEST", 0)
    graph.plan(engine="grouping", incremental=False)
    assert planned


@pytest.mark.parametrize(("seed", "count"), [(5019, 250), (20044, 120), (7, 60)])
def test_programs_of_large_arrays_need_no_more_with_groups(seed: int, count: int) -> None:
    graph = graph_of(wide_graph(seed, count))
    options = {"engine": "grouping", "incremental": False}
    single = graph.plan(disable=["group", "product_group"], **options).peak_bytes
    assert graph.plan(**options).peak_bytes <= 1.011 * single
