"""Graphs cut for several machines: who has what, what it needs, and that nothing changes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from engines import examples
from random_graphs import RandomGraph, assert_close, assert_same_bits, graph_of
from tawny.array import array_for
from tawny.graph.partition import choice, metis
from tawny.graph.partition.items import Items
from tawny.graph.partition.levels import Levels
from tawny.graph.partition.segments import SegmentBuilder
from tawny.graph.partition.timing import Link, PipelineStage, makespan, stream_seconds
from tawny.node import Node, toposort
from tawny.tree import leaves

pytest.importorskip("pymetis")


def graph_with_updates(made: RandomGraph, random: Random) -> tw.Graph:
    """The graph, with some of its variables taking values that fit them; swaps among them."""
    nodes = toposort(made.outputs)
    updates: dict[Node, Node] = {}
    for variable in made.feeds:
        fitting = [n for n in nodes if (n.shape, n.dtype) == (variable.shape, variable.dtype)]
        fitting = [n for n in fitting if not n.parts] + [
            v for v in made.feeds if (v.shape, v.dtype) == (variable.shape, variable.dtype)
        ]
        if random.random() < 0.5:
            updates[variable] = random.choice(fitting)
    return tw.Graph(
        [array_for(v) for v in made.feeds],
        [array_for(n) for n in made.outputs],
        {array_for(v): array_for(n) for v, n in updates.items()},
        unused="ignore",
    )


def values_of(graph: tw.Graph, made: RandomGraph) -> dict[str, Any]:
    return {graph.names[node]: value for node, value in made.feeds.items()}


def assigned(graph: tw.Graph, workers: Sequence[int]) -> tuple[Items, Levels]:
    """The places of the nodes of a graph whose units are handed out in this order."""
    targets = [target for target, _ in graph.update_nodes]
    sources = graph.results[len(graph.output_nodes) :]
    items = Items(graph.results, dict(zip(targets, sources, strict=True)))
    return items, Levels(items, handed_out(items, workers))


def handed_out(items: Items, workers: Sequence[int]) -> dict[Node, int]:
    """The units of a graph, each given to the next of these workers."""
    units = list(dict.fromkeys(items.units.values()))
    given = {unit: workers[k % len(workers)] for k, unit in enumerate(units)}
    return {item: given[items.units[item]] for item in items.all}


# -------------------------------------------------------------------- what is cut


@given(st.integers(0, 2**32), st.lists(st.integers(0, 3), min_size=3, max_size=9))
@settings(max_examples=150, deadline=None)
def test_segments_are_convex_and_have_every_node_once(seed: int, workers: list[int]) -> None:
    random = Random(seed)
    graph = graph_with_updates(graph_of(seed, 16), random)
    items, levels = assigned(graph, workers)
    builder = SegmentBuilder(items, levels, graph.names, "cut")
    pieces = builder.build(graph.output_nodes)
    placed = [node for piece in pieces.pieces for node in piece.nodes]
    assert len(placed) == len(set(placed)) == len(items.nodes)
    assert set(placed) == set(items.nodes)
    for piece_number, piece in enumerate(pieces.pieces):
        assert all(given.segment < piece_number for given in piece.reads.values()), "acyclic"
    for place in {levels.places[node] for node in items.nodes}:
        inside = {node for node in items.nodes if levels.places[node] == place}
        left: set[Node] = set()  # nodes outside that depend on the segment
        for node in items.nodes:
            read = items.reads[node]
            if node in inside:
                assert not left.intersection(read), "a path leaves the segment and comes back"
            elif inside.intersection(read) or left.intersection(read):
                left.add(node)
    for variable, source in items.updates.items():
        if items.source(source) in levels.places:
            assert levels.places[items.source(source)].worker == levels.places[variable].worker


@given(st.integers(0, 2**32), st.lists(st.integers(0, 3), min_size=3, max_size=9))
@settings(max_examples=60, deadline=None)
def test_any_way_to_cut_computes_the_same(seed: int, workers: list[int]) -> None:
    """Segments of any assignment, run one after the other, give every bit of the whole graph."""
    made = graph_of(seed, 14)
    graph = graph_with_updates(made, Random(seed))
    options: dict[str, Any] = {"engine": "reference", "optimise": False}
    with mock.patch.object(choice, "_assignments", lambda items, _: [handed_out(items, workers)]):
        parts = graph.partition(4, **options).compile()
    whole = graph.compile(**options)
    for program in (whole, parts):
        program.set(values_of(graph, made))
    for _ in range(3):
        assert_same_bits(leaves(parts.run()), leaves(whole.run()), signs=False)
    state = whole.state
    assert_same_bits([*parts.state.values()], [state[name] for name in parts.state], signs=False)


def test_segments_in_order_are_the_whole_graph(engine: str) -> None:
    for seed in range(examples(engine, 18)):
        made = graph_of(seed, 12, smooth=True)
        graph = graph_with_updates(made, Random(seed))
        whole = graph.compile(engine=engine)
        parts = graph.partition(1 + seed % 4, engine=engine).compile()
        for program in (whole, parts):
            program.set(values_of(graph, made))
            program.draw = 5
        for _ in range(2):
            expected = leaves(whole.run())
            if not all(np.isfinite(value).all() for value in expected):
                break
            assert_close(leaves(parts.run()), expected)
        else:
            state = whole.state
            assert_close([*parts.state.values()], [state[name] for name in parts.state])


# ------------------------------------------------------------------- what is said


def chain(layers: int = 6, width: int = 64) -> tw.Graph:
    """Layers one after the other, with weights of their own."""
    x = tw.var("x", (16, width))
    weights = [tw.var(f"w{k}", (width, width)) for k in range(layers)]
    y = x
    for weight in weights:
        y = tnp.tanh(y @ weight)
    return tw.Graph([x, *weights], y, name="chain")


def training_chain(layers: int = 4) -> tw.Graph:
    """A step of gradient descent on such a chain."""
    x = tw.var("x", (16, 64))
    weights = [tw.var(f"w{k}", (64, 64)) for k in range(layers)]

    def loss(weights: Any) -> Any:
        y = x
        for weight in weights:
            y = tnp.tanh(y @ weight)
        return tnp.mean(y * y)

    value, slopes = tw.value_and_grad(loss)(weights)
    updates = {w: w - 0.1 * s for w, s in zip(weights, slopes, strict=True)}
    return tw.Graph([x], value, updates, name="training")


def test_a_chain_is_cut_once_for_each_worker() -> None:
    for workers in (1, 2, 3):
        parts = chain().partition(workers)
        assert [segment.worker for segment in parts.segments] == [*range(workers)]
        assert [segment.level for segment in parts.segments] == [*range(workers)]
        assert parts.travelling_bytes == (workers - 1) * 16 * 64 * 8
        each = [len(segment.variables) for segment in parts.segments]
        assert sum(each) == 7
        assert max(each) <= 6 // workers + 1


def test_weights_lie_where_they_are_updated() -> None:
    parts = training_chain().partition(2)
    for worker in range(2):
        names = {n for s in parts.segments if s.worker == worker for n in s.variables}
        updated = {
            s.graph.names[target]
            for s in parts.segments
            if s.worker == worker
            for target, _ in s.graph.update_nodes
        }
        assert updated == names - {"x"}
        assert len(updated) == 2
    assert parts.travelling_bytes == 2 * 16 * 64 * 8, "activations forward, their slopes back"


def test_workers_need_what_was_said() -> None:
    """The bytes of each worker: the plans of its segments, weights, and values of runs under way."""
    parts = chain(4).partition(2, micro_batches=3)
    first, second = parts.worker_bytes
    weights, activations = 2 * 64 * 64 * 8, 16 * 64 * 8
    assert first.variables == weights + activations
    assert second.variables == weights
    assert first.values == 3 * activations
    assert second.values == 3 * 2 * activations, "what comes, and the output"
    for worker, own in enumerate(parts.worker_bytes):
        plans = [s.plan.peak_bytes for s in parts.segments if s.worker == worker]
        assert own.plans == sum(plans)
        assert own.total == own.plans + own.constants + own.variables + own.values
    assert parts.peak_bytes == max(first.total, second.total)
    for segment in parts.segments:
        compiled = segment.graph.compile(**segment.options._asdict())
        assert compiled.plan.peak_bytes == segment.peak_bytes


def test_constants_count() -> None:
    x = tw.var("x", (16, 64))
    y = x
    for k in range(4):
        y = tnp.tanh(y @ tnp.asarray(np.full((64, 64), k / 64)))
    parts = tw.Graph([x], y).partition(2)
    assert [own.constants for own in parts.worker_bytes] == [2 * 64 * 64 * 8] * 2


def wide_graph() -> tw.Graph:
    """What takes less memory if some of it is computed again."""
    x = tw.var("x", (4096,))
    y, kept = x, []
    for k in range(12):
        y = tnp.cumsum(tnp.sin(y) + k)
        kept.append(y)
    for one in reversed(kept):
        y = tnp.cumsum(y * one)
    return tw.Graph([x], tnp.sum(y))


@pytest.mark.parametrize("make", [chain, training_chain, wide_graph])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_memory_is_kept_to_or_the_least_is_named(make: Any, workers: int) -> None:
    graph = make()
    with pytest.raises(tw.MemoryBudgetError, match="too few") as caught:
        graph.partition(workers, memory=1)
    least = caught.value.least_bytes
    parts = graph.partition(workers, memory=least)
    assert parts.peak_bytes <= least
    with pytest.raises(tw.MemoryBudgetError):
        graph.partition(workers, memory=least - 1)
    free = graph.partition(workers)
    assert free.peak_bytes >= least
    assert graph.partition(workers, memory=free.peak_bytes).peak_bytes <= free.peak_bytes
    rng = np.random.default_rng(0)
    whole, small = graph.compile(), parts.compile()
    for program in (whole, small):
        program.set({n: rng.normal(size=v.shape) / 64 for v, n in graph.names.items()})
        rng = np.random.default_rng(0)
    np.testing.assert_allclose(small.run(), whole.run(), rtol=1e-9)


def test_printed_it_says_what_each_has_to_do() -> None:
    said = repr(training_chain().partition(2, memory="1GB"))
    assert said.startswith("training: 3 segments on 2 workers, 16.4 kB travel in a run")
    for word in ("segment", "nodes", "FLOP", "peak", "worker 1:", "of 1 GB", "one machine takes"):
        assert word in said
    assert "many overlap" not in said
    assert "each if many overlap" in repr(chain().partition(2))
    assert repr(chain().partition(2).segments[0]).startswith("<Segment 1 on worker 1: ")


def test_what_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain()
    for arguments, said in (
        ({"workers": 0}, "workers is 0; it must be from 1"),
        ({"workers": 2, "micro_batches": 0}, "micro_batches is 0"),
        ({"workers": 2, "memory": "some"}, "no number of bytes"),
        ({"workers": 2, "threads": 0}, "threads is 0"),
    ):
        with pytest.raises(ValueError, match=said):
            graph.partition(**arguments)
    with pytest.raises(TypeError, match="bandwidth is 0; accepted: a number above zero"):
        graph.partition(2, bandwidth=0)
    with pytest.raises(ValueError, match="each run depends on the one before it"):
        training_chain().partition(2, micro_batches=2)
    parts = graph.partition(2).compile()
    with pytest.raises(ValueError, match="no value yet: 'x', 'w0'"):
        parts.run()
    with pytest.raises(ValueError, match="no variable of this graph"):
        parts.set(z=1.0)
    with pytest.raises(TypeError, match="given twice"):
        parts(np.zeros((16, 64)), x=np.zeros((16, 64)))
    monkeypatch.setattr(metis, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'tawny\[dask\]'"):
        graph.partition(2)


def test_the_same_graph_is_cut_alike_in_every_process() -> None:
    script = (
        "import test_partition as t\n"
        "for make in (t.chain, t.training_chain, t.wide_graph):\n"
        "    for s in make().partition(3).segments:\n"
        "        print(s.worker, s.level, s.peak_bytes, s.graph.trace())\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert len(found.pop()) > 100


# ------------------------------------------------------------- what it would take


def test_predicted_times_are_those_of_a_pipeline() -> None:
    """Two segments of 3 and 5 seconds, a second from one to the other."""
    link = Link(1.0, 10.0)
    apart = [PipelineStage(0, 0, 3.0, {}), PipelineStage(1, 1, 5.0, {0: 20})]
    assert makespan(apart, link, 1, 1) == 3 + 1 + 2 + 5
    assert makespan(apart, link, 2, 2) == 3 + 1 + 2 + 5 + 5
    assert makespan(apart, link, 2, 1) == 2 * 11
    assert stream_seconds(apart, link, 3) == 5.0, "the slower one sets the pace"
    together = [PipelineStage(0, 0, 3.0, {}), PipelineStage(0, 1, 5.0, {0: 20})]
    assert makespan(together, link, 1, 1) == 3 + 1 + 5
    assert stream_seconds(together, link, 3) == pytest.approx(8.0, rel=0.1)
    back = [
        PipelineStage(0, 0, 2.0, {}),
        PipelineStage(1, 1, 2.0, {0: 0}),
        PipelineStage(0, 2, 2.0, {1: 0, 0: 0}),
    ]
    assert makespan(back, link, 1, 1) == 2 + 1 + 2 + 1 + 2
    assert stream_seconds(back, link, 4) == pytest.approx(4.0, rel=0.1)


def test_a_run_takes_its_segments_and_the_way_between_them() -> None:
    parts = chain().partition(2, latency=0.5, bandwidth=8192.0)
    own = sum(segment.estimate.seconds for segment in parts.segments)
    assert parts.seconds == pytest.approx(own + 0.5 + 1.0)
    assert parts.stream_seconds < parts.seconds
    assert parts.workers[1].seconds == parts.segments[1].estimate.seconds
