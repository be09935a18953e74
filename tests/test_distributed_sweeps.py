"""Sweeps over a cluster: the numbers of one machine, whatever happens to the workers."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from cluster_functions import end_process, invert, note_run, pause, run_graph
from clusters import (
    SOURCE,
    WORKERS,
    further_worker,
    kill,
    start_cluster,
    wait_until,
    worker_processes,
)
from random_graphs import assert_same_bits
from tawny import nn, optim, progress
from tawny.distributed import clients, replication
from tawny.tree import leaves

key_split = pytest.importorskip("dask.utils").key_split


def noisy_graph() -> tw.Graph:
    """What depends on the lists and what does not, random draws, and outputs in a structure."""
    x, rate, shift = (
        tw.var("x", (50, 20), "float32"),
        tw.var("rate"),
        tw.var(shape=(3,), dtype="int32"),
    )
    with tw.random.local_seed(5):
        noise = tw.random.normal(shape=(20,))
    common = tnp.tanh(x) @ x.T
    y = tnp.sum(common, axis=1) * rate + tnp.mean(noise)
    return tw.Graph(
        [x, rate, shift], {"y": [y, shift * 2], "rate": rate, "flag": rate > 0}, name="noisy"
    )


# ------------------------------------------------------------------- right numbers


@pytest.mark.parametrize("count", [0, 1, 2, 300])
def test_a_sweep_has_the_bits_and_the_order_of_one_machine(client: Any, count: int) -> None:
    rng = np.random.default_rng(count)
    here, there = noisy_graph().compile(), noisy_graph().compile()
    values = {"x": rng.normal(size=(50, 20)), "v1": [1, 2, 3]}
    rates = rng.normal(size=count)
    for program in (here, there):
        program.set(values)
        program.draw = 7
    expected, got = here.sweep(rate=rates), there.sweep(rate=rates, client=client)
    assert len(got) == count
    assert [list(y) for y in got] == [list(y) for y in expected]
    assert_same_bits(leaves(got), leaves(expected))
    assert all(type(value) is np.ndarray and value.flags.writeable for value in leaves(got))
    if count:  # both programs go on from the last run
        assert_same_bits(leaves(there.run()), leaves(here.run()))
        assert there.draw == here.draw == 8 + count


def test_several_variables_and_shapes_are_swept(client: Any) -> None:
    rng = np.random.default_rng(0)
    program = noisy_graph().compile(optimise=False, memory="1MB")
    lists = {
        "x": rng.normal(size=(9, 50, 20)),
        "rate": [0.5, tnp.asarray(2.0), 3, np.float32(4), *range(5)],
        "v1": rng.integers(0, 9, (9, 3)),
    }
    got = program.sweep(lists, client=client)
    program.draw = 0
    assert_same_bits(leaves(got), leaves(program.sweep(lists)))


@dataclass
class Price:
    """Outputs as a user's own class."""

    value: Any
    slope: Any


def test_outputs_come_in_the_structure_of_the_graph(client: Any) -> None:
    x = tw.var("x")
    shapes = {
        "one": x * 2,
        "list": [x, x + 1],
        "tuple": (x, {"deep": (x + 1,)}),
        "dataclass": Price(x * 2, [x, x]),
    }
    for outputs in shapes.values():
        program = tw.Graph([x], outputs).compile()
        assert program.sweep(x=[1.0, 2.0], client=client) == program.sweep(x=[1.0, 2.0])


def test_a_variable_may_be_called_client(client: Any) -> None:
    v = tw.var("client")
    program = tw.Graph([v], v * 2).compile()
    assert program.sweep(client=[1.0, 2.0]) == [2.0, 4.0]
    assert program.sweep({"client": [1.0, 2.0]}, client=client) == [2.0, 4.0]


def test_map_gives_results_in_order_and_as_they_are_ready(client: Any) -> None:
    x, seconds = tw.var("x"), tw.var("seconds")
    slow = tw.delay(pause, x * 2, seconds, shape=(), dtype="float64")
    graph = tw.Graph([x, seconds], slow)
    waits = [1.0, *[0.0] * 11]
    results = tw.map(graph, client, x=np.arange(12.0), seconds=waits)
    assert len(results) == 12
    order = [position for position, _ in results.as_ready()]
    assert sorted(order) == [*range(12)]
    assert order.index(0) > 5, "the others did not wait for the first"
    assert [float(y) for y in results] == [2.0 * k for k in range(12)]
    assert (results[3], results[-1], results[2:4]) == (6.0, 22.0, [4.0, 6.0])
    assert repr(results) == "<Results of map: 12 of 12 runs>"
    common = tw.map(graph, client, {"seconds": 0}, x=[1.0, 2.0])
    assert [*common] == [2.0, 4.0]


def test_what_all_runs_share_is_computed_once_by_each_worker(client: Any, tmp_path: Path) -> None:
    folder = np.frombuffer(str(tmp_path).encode(), np.uint8)
    x, rate = tw.var("x", (2,)), tw.var("rate")
    common = tw.delay(note_run, tnp.exp(x), folder, shape=(2,), dtype="float64", pure=False)
    program = tw.Graph([x, rate], common * rate).compile()
    program.set(x=[1.0, 2.0])
    for _ in range(2):
        program.sweep(rate=np.arange(100.0), client=client)
    seen = [path.name.partition("-")[0] for path in tmp_path.iterdir()]
    assert len(seen) == len(set(seen)) <= 2
    assert str(os.getpid()) not in seen


def test_short_runs_are_joined_to_tasks(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []

    def submit(client: Any, key: str, *given: Any) -> Any:
        keys.append(key)
        return clients.submit(client, key, *given)

    monkeypatch.setattr("tawny.distributed.mapping.submit", submit)
    program = noisy_graph().compile()
    program.set(x=np.zeros((50, 20)), v1=[1, 2, 3])
    program.sweep(rate=np.arange(2000.0), client=client)
    assert len(keys) == len(set(keys)) < 400
    assert {key_split(key) for key in keys} == {"sweep noisy"}, "what the dashboard calls them"


def test_newcomers_take_part(client: Any, tmp_path: Path) -> None:
    folder = np.frombuffer(str(tmp_path).encode(), np.uint8)
    x = tw.var("x")
    slow = tw.delay(pause, x * x, 0.05, shape=(), dtype="float64")
    noted = tw.Graph([x], tw.delay(note_run, slow, folder, shape=(), dtype="float64"))
    results = tw.map(noted, client, x=np.arange(200.0))
    assert float(results[3]) == 9.0
    with further_worker(client, "newcomer", "--preload", "cluster_functions") as process:
        assert [float(y) for y in results] == [k * k for k in range(200)]
    seen = [path.name.partition("-")[0] for path in tmp_path.iterdir()]
    assert len(seen) == 200
    assert str(process) in seen


@pytest.mark.parametrize("how", ["dask", "joblib", "multiprocessing"])
def test_graphs_travel_by_other_means(client: Any, how: str) -> None:
    """As their own files, so that any library may take them to its processes."""
    x = tw.var("x", (4, 4))
    graph = tw.Graph([x], tnp.linalg.inv(tnp.exp(x) @ x.T + 9 * tnp.eye(4)))
    values = np.random.default_rng(0).normal(size=(3, 4, 4))
    if how == "dask":
        sent = client.scatter(graph)
        got = client.gather([client.submit(run_graph, sent, value) for value in values])
    elif how == "joblib":
        joblib = pytest.importorskip("joblib")
        calls = [joblib.delayed(run_graph)(graph, value) for value in values]
        got = joblib.Parallel(n_jobs=2)(calls)
        joblib.externals.loky.get_reusable_executor().shutdown()
    else:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            got = pool.starmap(run_graph, [(graph, value) for value in values])
    assert_same_bits(got, [run_graph(graph, value) for value in values])


def test_a_sweep_says_at_a_terminal_how_far_it_is(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(progress.LongWork, "now", lambda self, text: lines.append(text))
    x = tw.var("x")
    graph = tw.Graph([x], x + 1)
    list(tw.map(graph, client, x=np.arange(50.0)))
    assert lines[0] == "0 of 50 on 2 threads of workers"
    assert len(lines) > 2


# -------------------------------------------------------------- what goes wrong


def test_an_error_of_a_run_says_which(client: Any) -> None:
    x = tw.var("x")
    program = tw.Graph([x], tw.delay(invert, x, shape=(), dtype="float64")).compile()
    with pytest.raises(ZeroDivisionError, match="nothing can be divided") as caught:
        program.sweep(x=[1.0, 2.0, 0.0, 4.0], client=client)
    assert (
        "sweep: in run 2 of 4, on a worker  [test_distributed_sweeps.py"
        in caught.value.__notes__[-1]
    )
    assert program.sweep(x=[1.0, 2.0], client=client) == [1.0, 0.5]


def test_what_cannot_be_swept_is_refused_before_anything_runs(client: Any) -> None:
    n, x = tw.var("n"), tw.var("x", (2,))
    counter = tw.Graph([x], n + x, updates={n: n + 1})
    with pytest.raises(
        ValueError, match=r"map: updates change 'n', so each run depends on the one"
    ):
        tw.map(counter, client, x=[[1, 2]])
    program = tw.Graph([x, n], x * n).compile()
    cases: dict[str, tuple[Any, type[Exception]]] = {
        r"sweep: variables have no value yet: 'n'": (lambda: program.sweep(x=[[1, 2]], client=client), ValueError),
        r"'x' was given shape \(3,\)": (lambda: program.sweep(n=[1], x=[[1, 2, 3]], client=client), ValueError),
        r"sweep: 'y' is no variable of this graph": (lambda: program.sweep(y=[1], n=[1], x=[[1, 2]], client=client), ValueError),
        r"sweep: client is str; accepted: a distributed\.Client": (lambda: program.sweep(n=[1], client="tcp://"), TypeError),
        r"map: graph is Program; .*; a program has sweep": (lambda: tw.map(program, client, x=[[1, 2]]), TypeError),
        r"map: variable 'n' was given twice": (lambda: tw.map(program.graph, client, {"n": 1}, n=[1]), TypeError),
        r"map: the lists must be of one length": (lambda: tw.map(program.graph, client), ValueError),
    }  # fmt: skip
    for message, (call, kind) in cases.items():
        with pytest.raises(kind, match=message):
            call()
    f = tw.Graph([x], tw.delay(lambda v: v, x)).compile()
    with pytest.raises(ValueError, match=r"sweep: node 1, delay .* tw\.register_function"):
        f.sweep(x=[[1, 2]], client=client)


def test_a_killed_worker_costs_no_result_and_none_comes_twice(client: Any, tmp_path: Path) -> None:
    folder = np.frombuffer(str(tmp_path).encode(), np.uint8)
    x = tw.var("x")
    slow = tw.delay(pause, x * x, 0.02, shape=(), dtype="float64")
    noted = tw.delay(note_run, slow, folder, shape=(), dtype="float64")
    program = tw.Graph([x], noted).compile()
    before = worker_processes(client)
    killer = threading.Timer(0.5, kill, [next(iter(before.values()))])
    results = tw.map(program.graph, client, x=np.arange(100.0))
    killer.start()
    positions = [position for position, _ in results.as_ready()]
    assert sorted(positions) == [*range(100)]
    assert [float(y) for y in results] == [k * k for k in range(100)]
    wait_until(lambda: worker_processes(client) != before)
    seen = {path.name.partition("-")[0] for path in tmp_path.iterdir()}
    assert str(next(iter(before.values()))) in seen, "it was killed before it did anything"


def test_runs_that_end_workers_are_named(
    client: Any, shared_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_cluster.scheduler, "allowed_failures", 0)
    x = tw.var("x")
    program = tw.Graph([x], tw.delay(end_process, x, shape=(), dtype="float64")).compile()
    with pytest.raises(
        RuntimeError, match=r"sweep: run [01] ended 1 worker, the last at tcp://.*memory"
    ):
        program.sweep(x=[1.0, 1.0], client=client)


def test_a_worker_with_another_version_is_refused_by_name(client: Any, tmp_path: Path) -> None:
    """A worker that finds another Tawny: this one under another version."""
    package = tmp_path / "tawny"
    package.mkdir()
    for part in (SOURCE / "tawny").iterdir():
        if part.name != "__init__.py":
            (package / part.name).symlink_to(part)
    text = (SOURCE / "tawny" / "__init__.py").read_text()
    (package / "__init__.py").write_text(text.replace(tw.__version__, "0.0.7"))
    x = tw.var("x")
    program = tw.Graph([x], x + 1).compile()
    with further_worker(client, "old-one", path=tmp_path):
        said = rf"sweep: worker old-one at tcp://\S+ has Tawny 0\.0\.7; the client has {tw.__version__}"
        with pytest.raises(RuntimeError, match=said):
            program.sweep(x=[1.0], client=client)
        with pytest.raises(RuntimeError, match=said.replace("sweep", "map")):
            tw.map(program.graph, client, x=[1.0])
        data = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")
        given: tuple[Any, ...] = nn.Linear(2, 1), nn.mean_squared, data, optim.SGD(0.1)
        with pytest.raises(RuntimeError, match=said.replace("sweep", r"nn\.train")):
            nn.train(*given, client=client)
    assert program.sweep(x=[1.0], client=client) == [2.0]
    with ExitStack() as stack:

        def watch(now: Any) -> None:
            if now.step == 2 and now.event == "batch":
                stack.enter_context(further_worker(client, "late-one", path=tmp_path))
                time.sleep(replication.ASKING_SECONDS)

        with pytest.warns(RuntimeWarning, match=r"has Tawny 0\.0\.7.*training goes on without it"):
            history = nn.train(*given, steps=4, epochs=4, client=client, callbacks=[watch])
        assert [count for _, count in history.workers] == [WORKERS]


def test_a_worker_with_too_little_memory_says_what_helps() -> None:
    k = tw.var("k")
    x = tnp.sort(tnp.arange(1e7) * k)
    graph = tw.Graph([k], tnp.sum(tnp.sort(x[::-1] + x) * tnp.flip(x)))
    peak = graph.plan().peak_bytes
    assert peak > 200e6
    with start_cluster(1, memory_limit="300MB") as cluster, cluster.get_client() as client:
        with pytest.raises(MemoryError) as caught:
            list(tw.map(graph, client, k=[1.0, 2.0]))
        said = str(caught.value)
        assert f"map: the plan takes {peak / 1e6:.1f} MB; worker 0 at tcp://" in said
        assert "test_distributed_sweeps.py" in said
        small = tw.Graph([k], k + 1).compile()
        assert small.sweep(k=[1.0], client=client) == [2.0], "the worker can still be used"


def test_a_lost_scheduler_is_said_with_what_is_there() -> None:
    x = tw.var("x")
    graph = tw.Graph([x], tw.delay(pause, x, 0.1, shape=(), dtype="float64"))
    with start_cluster(1) as cluster, cluster.get_client() as client:
        results = tw.map(graph, client, x=np.arange(30.0))
        assert float(results[0]) == 0.0
        cluster.close()
        with pytest.raises(
            ConnectionError, match=r"map: the scheduler was lost; \d+ of 30 runs are there"
        ):
            list(results)
        assert float(results[0]) == 0.0, "what is there stays there"
        with pytest.raises(ConnectionError, match="map: the scheduler was lost"):
            results[29]
        with pytest.raises(ConnectionError, match="client is closed"):
            tw.map(graph, client, x=[1.0])
