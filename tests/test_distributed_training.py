"""Training on a cluster: the steps of one machine, whatever happens to the workers."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawny.numpy as tnp
from clusters import WORKERS, further_worker, kill, start_cluster, wait_until, worker_processes
from optimiser_oracle import Oracle
from tawny import nn, optim
from tawny.distributed import replication
from tawny.tree import leaves, map_leaves, unflatten
from training_loop import Slopes, flat, unflat

pytest.importorskip("distributed")

DATA = np.random.default_rng(1)
X = DATA.normal(size=(43, 6))
LABELS = DATA.integers(0, 3, 43)


def plain(width: int = 8) -> Any:
    """A model whose loss is a mean over rows."""
    return nn.Sequential(
        nn.Linear(6, width, activation="tanh", dtype="float64"),
        nn.Linear(width, 3, dtype="float64"),
    ).initialise(3)


def noisy() -> Any:
    """A model that looks at all rows it is given, and draws random numbers."""
    return nn.Sequential(
        nn.Linear(6, 8, activation="tanh", dtype="float64"),
        nn.BatchNorm(8, dtype="float64"),
        nn.Dropout(0.25),
        nn.Linear(8, 3, dtype="float64"),
    ).initialise(3)


def train(model: Any, rule: Any = None, **options: Any) -> Any:
    """A history; the model is trained."""
    settings: dict[str, Any] = {"epochs": 3, "batch": 10, "seed": 5, **options}
    return nn.train(model, nn.cross_entropy, (X, LABELS), rule or optim.Adam(0.02), **settings)


def assert_close(got: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
    """Two models with their histories, to rounding."""
    (model, history), (other, wanted) = got, expected
    np.testing.assert_allclose(
        flat(model.parameters), flat(other.parameters), rtol=1e-7, atol=1e-10
    )
    for name in ("batch_loss", "rate", "loss"):
        np.testing.assert_allclose(getattr(history, name), getattr(wanted, name), rtol=1e-9)
    assert history.validation.keys() == wanted.validation.keys()
    for name, values in history.validation.items():
        np.testing.assert_allclose(values, wanted.validation[name], rtol=1e-9)
    assert history.reason == wanted.reason


def assert_same(got: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
    """Two models with their histories, bit by bit."""
    (model, history), (other, wanted) = got, expected
    for structure in ("parameters", "state"):
        one, two = flat(getattr(model, structure)), flat(getattr(other, structure))
        np.testing.assert_array_equal(one, two)
    for name in ("batch_loss", "rate", "loss", "validation", "reason"):
        assert getattr(history, name) == getattr(wanted, name), name


# ------------------------------------------------------------------- right numbers

RULES: dict[str, Any] = {
    "adam": optim.Adam(0.02),
    "all_at_once": optim.Optimiser(
        optim.AdamW(optim.Decay(0.05, 0.1)), optim.DaiYuanCG(), optim.Nesterov(0.6),
        optim.ElasticNet(0.01, 0.02), optim.ClipNorm(2.0),
    ),
    "follows_the_loss": optim.Optimiser(optim.Plateau(0.1, patience=2), regularisation=optim.L2(0.1)),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_training_is_that_of_one_machine(client: Any, name: str) -> None:
    """With a last batch of three rows, validation and metrics; what travels is cut if it is long."""
    options: dict[str, Any] = {
        "validation": (X, LABELS), "metrics": {"accuracy": nn.accuracy}, "stopping": optim.Early(9),
    }  # fmt: skip
    width = 2200 if name == "adam" else 8
    here, there = plain(width), plain(width)
    expected = train(here, RULES[name], **options)
    history = train(there, RULES[name], client=client, **options)
    assert_close((there, history), (here, expected))
    assert history.workers == [(0, WORKERS)]
    assert history.steps == 15


def test_three_workers_and_given_batches(client: Any) -> None:
    batches = [((X[:20], X[:20]), LABELS[:20]), ((X[20:], X[20:]), LABELS[20:])]

    class Twice(nn.Module):
        """A model of two arguments."""

        def __init__(self) -> None:
            self.one = nn.Linear(6, 3, dtype="float32")
            self.other = nn.Linear(6, 3, dtype="float64")

        def forward(self, x: Any, y: Any) -> Any:
            return self.one(x).astype("float64") + self.other(y)

    models = [Twice().initialise(1) for _ in range(2)]
    with further_worker(client, "third"):
        found = [
            nn.train(model, nn.cross_entropy, batches, optim.SGD(0.1), 2, client=at)
            for model, at in zip(models, (client, None), strict=True)
        ]
    assert found[0].workers == [(0, WORKERS + 1)]
    np.testing.assert_allclose(found[0].batch_loss, found[1].batch_loss, rtol=1e-6)
    np.testing.assert_allclose(*[flat(m.parameters) for m in models], rtol=1e-4, atol=1e-6)


def shard_step(slopes: Slopes, state: Any, parameters: Any, x: Any, y: Any, step: int) -> Any:
    """Value, statistics and slopes of a batch of which each worker has half."""
    half = len(x) - len(x) // 2
    parts = slice(0, half), slice(half, None)
    found = [
        slopes.at(parameters, state, x[rows], y[rows], step + (rank << 32))
        for rank, rows in enumerate(parts)
    ]
    shares = [half / len(x), 1 - half / len(x)]

    def mean(*values: Any) -> Any:
        return sum(np.asarray(v) * share for v, share in zip(values, shares, strict=True))

    columns = zip(*[leaves(one) for one in found], strict=True)
    return unflatten(found[0], [mean(*column) for column in columns])


def test_statistics_are_those_of_shards_and_draws_are_apart(client: Any) -> None:
    """Step by step as a plain loop makes it: means of batch statistics, a draw for each rank."""
    model = noisy()
    slopes, rule = Slopes(noisy(), nn.cross_entropy, 5), optim.SGD(0.1, momentum=0.5)
    splits = tuple(np.cumsum([a.size for a in leaves(model.parameters)])[:-1].tolist())
    oracle, w, state = Oracle(rule, splits), flat(model.parameters), model.state
    losses = []
    for step, rows in enumerate(optim.Mini(10).rows(43, 0, 5)):
        found = shard_step(slopes, state, unflat(w, model.parameters), X[rows], LABELS[rows], step)
        losses.append(float(found["value"]))
        w, state = oracle.step(w, flat(found["slopes"]), None), map_leaves(np.array, found["state"])
    history = train(model, rule, epochs=1, client=client)
    np.testing.assert_allclose(history.batch_loss, losses, rtol=1e-8)
    np.testing.assert_allclose(flat(model.parameters), w, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(flat(model.state), flat(state), rtol=1e-8)


def test_bits_depend_on_the_number_of_workers_alone(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not on how many steps a task has."""
    models = [noisy() for _ in range(2)]
    first = models[0], train(models[0], client=client)
    monkeypatch.setattr(replication, "TASK_SECONDS", 0.0)
    assert_same((models[1], train(models[1], client=client)), first)


def test_batches_with_fewer_rows_than_workers(client: Any) -> None:
    here, there = plain(), plain()
    expected = train(here, batch=1, steps=5)
    with pytest.warns(RuntimeWarning, match="a batch has 1 rows; 1 of 2 workers have nothing"):
        history = train(there, batch=1, steps=5, client=client)
    assert_close((there, history), (here, expected))


def summed(prediction: Any, target: Any) -> Any:
    return tnp.sum(tnp.square(prediction - tnp.expand_dims(target, -1)))


def test_losses_that_are_sums_are_sums_over_all_workers(client: Any) -> None:
    models = [plain(), plain()]
    for model, at in zip(models, (None, client), strict=True):
        nn.train(model, summed, (X, LABELS * 1.0), optim.SGD(1e-3), batch=10, client=at)
    np.testing.assert_allclose(*[flat(m.parameters) for m in models], rtol=1e-9)


def test_losses_that_cannot_be_cut_are_said(client: Any) -> None:
    def spread(prediction: Any, target: Any) -> Any:
        return tnp.var(prediction) + 0.1 * tnp.mean(target)

    with pytest.warns(RuntimeWarning, match="neither the mean nor the sum of the losses of their"):
        nn.train(plain(), spread, (X, LABELS * 1.0), optim.SGD(0.1), steps=1, client=client)


# ---------------------------------------------------------- what surrounds the steps


def test_callbacks_and_rules_see_every_step(client: Any) -> None:
    def run(at: Any) -> tuple[Any, Any, list[Any]]:
        model, seen = plain(), list[Any]()

        def watch(now: Any) -> None:
            seen.append((now.event, now.epoch, now.step, flat(now.parameters)))
            if now.step == 12:
                now.stop("enough")

        history = train(model, callbacks=[watch], client=at, validation=(X, LABELS))
        return model, history, seen

    here, there = run(None), run(client)
    assert_close(there[:2], here[:2])
    assert there[1].reason == "enough"
    assert [row[:3] for row in there[2]] == [row[:3] for row in here[2]]
    for (*_, got), (*_, expected) in zip(there[2], here[2], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-10)
    models = [plain(), plain()]
    below = [train(m, stopping=optim.Below(1.0), epochs=9, client=at) for m, at in zip(models, (None, client), strict=True)]  # fmt: skip
    assert_close((models[1], below[1]), (models[0], below[0]))
    assert below[1].reason == "loss below 1"


def test_a_checkpoint_is_resumed_bit_by_bit(client: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    whole, again = noisy(), noisy()
    through = train(whole, client=client, stopping=optim.Early(5))
    every = nn.Checkpoint(path, every=3)
    train(noisy(), client=client, stopping=optim.Early(5), checkpoint=every, steps=8)
    resumed = train(again.initialise(9), client=client, stopping=optim.Early(5), resume=path)
    assert_same((again, resumed), (whole, through))
    assert resumed.workers == [(0, WORKERS)]


def test_what_began_on_a_cluster_goes_on_alone_and_back(client: Any, tmp_path: Path) -> None:
    path, whole, alone = tmp_path / "run.safetensors", plain(), plain()
    expected = train(whole)
    train(plain(), client=client, checkpoint=path, epochs=1)
    history = train(alone.initialise(9), resume=path, checkpoint=path, epochs=2)
    assert history.workers == [(0, WORKERS), (5, 1)]
    assert_close((alone, train(alone, resume=path, client=client)), (whole, expected))


def test_what_cannot_be_done_is_refused(client: Any) -> None:
    cases: dict[str, tuple[dict[str, Any], type[Exception]]] = {
        "NewtonCG looks at the loss itself": ({"rule": optim.Optimiser(0.1, optim.NewtonCG())}, TypeError),
        "profile times steps in this process": ({"profile": True}, ValueError),
        r"nn\.train: client is str; accepted: a distributed\.Client": ({"client": "tcp://"}, TypeError),
    }  # fmt: skip
    for message, (options, kind) in cases.items():
        with pytest.raises(kind, match=message):
            train(plain(), **{"client": client, **options})
    with pytest.raises(ValueError, match="class"):
        nn.train(plain(), nn.cross_entropy, (X, LABELS + 1), optim.SGD(0.1), client=client)


# ------------------------------------------------------------------- lost workers


def watched(model: Any, client: Any, watch: Any, **options: Any) -> tuple[Any, Any]:
    """A model and its history; `watch` is told of every step, which are tasks of their own."""

    def after_steps(now: Any) -> None:
        if now.event == "batch":
            watch(now)

    return model, train(model, callbacks=[after_steps], client=client, **options)


def test_a_killed_worker_costs_no_step_and_another_takes_its_place(
    client: Any, tmp_path: Path
) -> None:
    """Killed as a checkpoint is to be written: its values come from another.  No step is lost."""
    whole, again, seen = plain(), plain(), list[int]()
    path, killed = tmp_path / "run.safetensors", next(iter(worker_processes(client).values()))

    def write(now: Any) -> bool:
        if now.step == 10 and now.event == "batch":
            kill(killed)
            return True
        return False

    def watch(now: Any) -> None:
        seen.append(now.step)
        if [size for _, size in now.history.workers] == [WORKERS, 1, WORKERS]:
            now.stop("all are there")

    checkpoint = nn.Checkpoint(path, every=write)
    model, history = watched(plain(), client, watch, epochs=10_000, checkpoint=checkpoint)
    assert seen == [*range(1, history.steps + 1)]
    assert [size for _, size in history.workers] == [WORKERS, 1, WORKERS]
    assert history.workers[1][0] == 10
    rest: dict[str, Any] = {"epochs": 10_000, "callbacks": [stop_at(history)]}
    assert_close((model, history), (whole, train(whole, **rest)))
    assert_close((again, train(again, resume=path, **rest)), (model, history))


def stop_at(history: Any) -> Any:
    """A callback that ends training where another was ended."""

    def watch(now: Any) -> None:
        if now.event == "batch" and now.step == history.steps:
            now.stop(history.reason)

    return watch


def test_a_worker_is_killed_within_steps(client: Any) -> None:
    """Many steps a task, at any moment."""
    x = np.random.default_rng(0).normal(size=(400, 300))
    whole, model = (nn.Linear(300, 300, dtype="float64").initialise(1) for _ in range(2))
    given: tuple[Any, ...] = nn.mean_squared, (x, np.tanh(x)), optim.Adam(0.01)
    expected = nn.train(whole, *given, epochs=40, batch=40)
    killed = next(iter(worker_processes(client).values()))
    threading.Timer(0.8, kill, [killed]).start()
    history = nn.train(model, *given, epochs=40, batch=40, client=client)
    assert_close((model, history), (whole, expected))
    wait_until(lambda: killed not in worker_processes(client).values())


def test_without_any_worker_left_training_goes_on_from_the_clients_copy(client: Any) -> None:
    whole = plain()
    expected = train(whole, epochs=8)
    processes = list(worker_processes(client).values())

    def watch(now: Any) -> None:
        if now.step == 15:
            now.update_model()
        if now.step == 18 and processes:
            while processes:
                kill(processes.pop())

    found = watched(plain(), client, watch, epochs=8)
    assert_close(found, (whole, expected))
    assert found[1].workers[0] == (0, WORKERS)


CLIENT = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import distributed
from tawny.files import atomic_write
from test_distributed_training import *

written = 0

def replace(*given, rename=os.replace):
    global written
    if (written := written + 1) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    rename(*given)

atomic_write.os.replace = replace
with distributed.Client({address!r}) as client:
    train(noisy(), client=client, checkpoint=nn.Checkpoint({path!r}, every=3))
"""


def test_a_client_killed_while_it_writes_a_checkpoint(client: Any, tmp_path: Path) -> None:
    """The file before is whole, the workers forget, and training is resumed bit by bit."""
    path, whole, again = tmp_path / "run.safetensors", noisy(), noisy()
    through = train(whole, client=client)
    tests, address = str(Path(__file__).parent), client.scheduler.address
    script = CLIENT.format(tests=tests, path=str(path), address=address)
    ended = subprocess.run([sys.executable, "-c", script], check=False, stderr=subprocess.DEVNULL)
    assert ended.returncode == -9
    resumed = train(again.initialise(9), client=client, resume=path)
    assert_same((again, resumed), (whole, through))


def test_two_trainings_at_a_time_both_end(client: Any) -> None:
    """Each needs all workers at once, and they have a thread each."""
    whole, models = plain(), [plain(), plain()]
    expected = train(whole, epochs=6)
    found: list[Any] = [None, None]

    def run(number: int) -> None:
        found[number] = train(models[number], epochs=6, client=client)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for model, history in zip(models, found, strict=True):
        assert_close((model, history), (whole, expected))


def test_a_lost_scheduler_ends_training_which_is_resumed_on_another(
    client: Any, tmp_path: Path
) -> None:
    path, whole, model, again = tmp_path / "run.safetensors", noisy(), noisy(), noisy()
    with start_cluster(WORKERS) as cluster, cluster.get_client() as lost:

        def watch(now: Any) -> None:
            if now.step == 8:
                cluster.close()

        lost.run(limit_memory, 1000)
        with pytest.raises(MemoryError, match=r"nn\.train: .*; worker \d at tcp://"):
            train(plain(), client=lost)
        lost.run(limit_memory, 10**10)
        every = nn.Checkpoint(path, every=3)
        with pytest.raises(ConnectionError, match=r"nn\.train: the scheduler was lost") as caught:
            train(model, client=lost, checkpoint=every, callbacks=[watch])
        assert "after step 6; the model has the values" in caught.value.__notes__[-1]
    through = train(whole, client=client)
    resumed = train(again.initialise(9), client=client, resume=path)
    assert_same((again, resumed), (whole, through))


def limit_memory(limit: int, dask_worker: Any) -> None:
    """Let a worker have so much memory, without being paused at once if it takes more."""
    manager = dask_worker.memory_manager
    manager.memory_limit, manager.memory_pause_fraction = limit, False
