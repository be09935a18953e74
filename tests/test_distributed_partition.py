"""Graphs in segments on a cluster: the numbers of one machine, whatever happens to the workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from cluster_functions import invert
from clusters import kill, start_cluster, worker_processes
from random_graphs import assert_same_bits
from tawny.distributed import pipeline
from tawny.tree import leaves

pytest.importorskip("distributed")
pytest.importorskip("pymetis")

WIDTH = 32


def network(layers: int = 4) -> tw.Graph:
    """Layers with weights that are inputs, random noise, and outputs in a structure."""
    x = tw.var("x", (8, WIDTH), "float32")
    weights = [tw.var(f"w{k}", (WIDTH, WIDTH), "float32") for k in range(layers)]
    with tw.random.local_seed(3):
        y = x + tw.random.normal(shape=x.shape, dtype="float32")
    for weight in weights:
        y = tnp.tanh(y @ weight)
    return tw.Graph([x, *weights], {"y": y, "sums": [tnp.sum(y), x]}, name="network")


def training(layers: int = 4) -> tw.Graph:
    """A step of gradient descent with momentum, a counter that all updates read, and a swap."""
    x, y = tw.var("x", (8, WIDTH)), tw.var("y", (8, WIDTH))
    weights = [tw.var(f"w{k}", (WIDTH, WIDTH)) for k in range(layers)]
    momenta = [tw.var(f"m{k}", (WIDTH, WIDTH)) for k in range(layers)]
    step, first, second = tw.var("step"), tw.var("first", (3,)), tw.var("second", (3,))

    def loss(weights: Any) -> Any:
        z = x
        for weight in weights:
            z = tnp.tanh(z @ weight)
        return tnp.mean((z - y) ** 2)

    value, slopes = tw.value_and_grad(loss)(weights)
    updates: dict[Any, Any] = {step: step + 1, first: second, second: first}
    for weight, momentum, slope in zip(weights, momenta, slopes, strict=True):
        updates[momentum] = 0.9 * momentum + slope
        updates[weight] = weight - updates[momentum] / (10 + step)
    return tw.Graph([x, y], [value, first], updates, name="training")


def values_of(graph: tw.Graph, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(size=node.shape).astype(node.dtype) / 4
        for node, name in graph.names.items()
    }


# ------------------------------------------------------------------- right numbers


def test_runs_and_sweeps_have_the_bits_of_one_machine(client: Any) -> None:
    graph = network()
    parts = graph.partition(2, threads=1)
    assert {segment.worker for segment in parts.segments} == {0, 1}
    whole = graph.compile(threads=1)
    with parts.compile(client) as there:
        for program in (whole, there):
            program.set(values_of(graph))
            program.draw = 4
        assert_same_bits(leaves(there.run()), leaves(whole.run()))
        xs = np.random.default_rng(1).normal(size=(12, 8, WIDTH)).astype("float32")
        assert_same_bits(leaves(there.sweep(x=xs)), leaves(whole.sweep(x=xs)))
        assert_same_bits(leaves(there(xs[3])), leaves(whole(xs[3])))
        assert there.draw == whole.draw == 18


def test_training_has_the_state_of_one_machine(client: Any) -> None:
    graph = training()
    whole = graph.compile(threads=1)
    with graph.partition(2, threads=1).compile(client) as there:
        for program in (whole, there):
            program.set(values_of(graph))
        for batch in range(3):
            given = values_of(graph, batch)
            x, y = given["x"], given["y"]
            np.testing.assert_allclose(there(x, y)[0], whole(x, y)[0], rtol=1e-12)
        np.testing.assert_allclose(there.run(5)[0], whole.run(5)[0], rtol=1e-12)
        assert_same_state(there, whole)
        for program in (whole, there):
            program.set(step=100.0)
            program.run(2)
        assert_same_state(there, whole)
        assert float(there.state["step"]) == 102


def assert_same_state(there: Any, whole: Any) -> None:
    state = whole.state
    assert there.state.keys() <= state.keys()
    for name, value in there.state.items():
        np.testing.assert_allclose(value, state[name], rtol=1e-10, atol=1e-14, err_msg=name)


# ------------------------------------------------------------- what happens to workers


def test_a_killed_worker_costs_no_step_and_none_is_counted_twice() -> None:
    graph = training()
    whole = graph.compile(threads=1)
    with start_cluster(2) as cluster, cluster.get_client() as client:
        client.wait_for_workers(2, timeout=60)
        with graph.partition(2, threads=1).compile(client) as there:
            for program in (whole, there):
                program.set(values_of(graph))
                program.run(3)
            kill(min(worker_processes(client).values()))
            for program in (whole, there):
                program.run(4)
            assert_same_state(there, whole)
            assert float(there.state["step"]) == float(whole.state["step"])
            # the state is gone while it is asked for
            kill(next(iter(worker_processes(client).values())))
            assert_same_state(there, whole)


def test_snapshots_bound_what_is_made_again(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "SNAPSHOT_RUNS", 3)
    graph = training(2)
    whole = graph.compile(threads=1)
    with graph.partition(2, threads=1).compile(client) as there:
        for program in (whole, there):
            program.set(values_of(graph))
            program.run(8)
        assert_same_state(there, whole)
        assert len(there._log) <= 3 + pipeline.AHEAD


# ------------------------------------------------------------------- what is refused


def test_a_run_that_fails_changes_nothing(client: Any) -> None:
    x, total = tw.var("x"), tw.var("total")
    inverse = tw.delay(invert, x, shape=(), dtype="float64")
    steps = tnp.cumsum(tnp.full((3,), inverse))
    graph = tw.Graph([x], steps[2] + total, updates={total: total + steps[1]}, name="failing")
    with graph.partition(2, threads=1).compile(client) as there:
        there.set(total=1.0)
        assert float(there(2.0)) == 2.5
        with pytest.raises(ZeroDivisionError, match="divided by zero") as caught:
            there(0.0)
        assert any("in a segment, on a worker" in note for note in caught.value.__notes__)
        assert float(there.state["total"]) == 2.0
        assert float(there(4.0)) == 2.75
        assert float(there.state["total"]) == 2.5
    with pytest.raises(ValueError, match="no value yet"):
        there.run()


def test_more_workers_are_asked_for_than_there_are(client: Any) -> None:
    parts = network().partition(3)
    with pytest.raises(RuntimeError, match="cut for 3 workers; the client has 2: start more"):
        parts.compile(client)
    with pytest.raises(TypeError, match=r"accepted: a distributed\.Client"):
        parts.compile("tcp://127.0.0.1:8786")


def test_a_worker_with_too_little_memory_says_so(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lend_little() -> None:
        from tawny.distributed import stages

        real = stages.worker_facts
        stages.worker_facts = lambda: real()._replace(memory=1000, taken=0)  # type: ignore[assignment]

    def lend_all() -> None:
        from tawny.distributed import programs, stages

        stages.worker_facts = programs.worker_facts

    client.run(lend_little)
    try:
        with network().partition(2, threads=1).compile(client) as there:
            there.set(values_of(network()))
            with pytest.raises(MemoryError, match=r"worker \d at tcp.* has 0\.0 MB for it"):
                there.run()
    finally:
        client.run(lend_all)
    with network().partition(2, threads=1).compile(client) as there:
        there.set(values_of(network()))
        there.run()
