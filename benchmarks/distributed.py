"""What a cluster costs and brings: two worker processes of Dask on this machine, one thread each.

    python benchmarks/distributed.py [sweep blocks training partition ...] [--runs 1000]

sweep: runs of about 100 ms by `program.sweep(..., client=client)`, beside two plain processes that do
half of them each with a program of their own: what is between the two is the price of handing work
over.  Goal for 1,000 runs: at most 5 %.

blocks: jitted functions over dask arrays beside the same functions of `dask.array` with NumPy: the time
with all arrays in the workers' memory, and the most memory that the workers take beside what they had
while arrays are made, used and dropped block by block.  Goals: at most 0.5 of the time on fused
chains, and never more memory.

training: steps of `nn.train(..., client=client)` beside `nn.train` in one process with two threads, on
the same two processors.  Nothing can be won so: what is measured is the price of working apart, which
is that of a step on a machine of its own, less the network.

partition: a graph cut for both workers by `graph.partition(2)`: the time of a run alone, and of each
of many that overlap, as predicted and as measured, beside one process with a thread.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# This file is called as the package that it measures: that is to be found elsewhere.
if str(Path(__file__).parent) in sys.path:
    sys.path.remove(str(Path(__file__).parent))

import numpy as np

import tawny as tw
import tawny.numpy as tnp
from tawny import nn, optim
from tawny.tree import leaves

WORKERS = 2
ELEMENTS = 7_000_000


def slow_graph() -> tw.Graph:
    """A graph whose run takes a thread about 100 ms, and whose result is one number."""
    k = tw.var("k")
    x = tnp.linspace(0, 1, ELEMENTS)
    for _ in range(4):
        x = tnp.sin(x * k) + tnp.exp(-x)
    return tw.Graph([k], tnp.sum(x), name="slow")


def run_share(ks: np.ndarray, barrier: Any, seconds: Any) -> None:
    """A plain process that makes its share of the runs."""
    program = slow_graph().compile(threads=1)
    program(1.0)
    barrier.wait()
    start = time.perf_counter()
    program.sweep(k=ks)
    barrier.wait()
    seconds.put(time.perf_counter() - start)


def by_hand(ks: np.ndarray) -> float:
    """Seconds that two processes take which share the runs and nothing else."""
    context = multiprocessing.get_context("spawn")
    barrier, seconds = context.Barrier(WORKERS), context.Queue()
    shares = [ks[n::WORKERS] for n in range(WORKERS)]
    processes = [context.Process(target=run_share, args=(s, barrier, seconds)) for s in shares]
    for process in processes:
        process.start()
    found = [seconds.get() for _ in processes]
    for process in processes:
        process.join()
    return max(found)


def sweep(client: Any, runs: int) -> None:
    """The overhead of a sweep."""
    ks = np.linspace(0.5, 1.5, runs)
    program = slow_graph().compile(threads=1)
    program.sweep(k=ks[:4], client=client)  # compiled on the workers
    rounds: list[tuple[float, float]] = []
    for _ in range(2):
        start = time.perf_counter()
        program.sweep(k=ks, client=client)
        rounds.append((time.perf_counter() - start, by_hand(ks)))
    there, alone = (min(column) for column in zip(*rounds, strict=True))
    print(f"sweep of {runs} runs of {1e3 * WORKERS * alone / runs:.0f} ms on {WORKERS} workers")
    print(f"  two plain processes {alone:8.2f} s")
    print(f"  sweep(client=)      {there:8.2f} s   overhead {100 * (there / alone - 1):.1f} %")


# --------------------------------------------------------------------------- blocks

Function = Callable[[Any, Any, Any], Any]
"""Of the functions' module and two matrices."""

CHAINS: dict[str, Function] = {
    "chain": lambda m, x, y: m.exp(-x * x) * m.sin(y) + m.sqrt(m.abs(x - y)) * 0.5,
    "chain, summed": lambda m, x, y: m.sum(m.exp(-x * x) * m.sin(y) + m.sqrt(m.abs(x - y)) * 0.5),
    "x + y, summed": lambda m, x, y: m.sum(x + y),
    "moments": lambda m, x, y: [m.mean(x), m.std(x), m.max(x), m.sum(x * y)],
    "standard scores": lambda m, x, _: m.max((x - m.mean(x, axis=0)) / m.std(x, axis=0)),
    "softmax, entropy": lambda m, x, _: m.mean(m.sum(m.exp(x) * x, axis=1) / m.sum(m.exp(x), axis=1)),
    "normal equations": lambda m, x, y: m.tanh(x).T @ y,
    "stencil": lambda m, x, _: m.sum((x[2:, 1:-1] + x[:-2, 1:-1] - 4 * x[1:-1, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]) ** 2),
}  # fmt: skip


def reset_peak() -> int:
    """Forget the most memory that this process took so far; gives what it takes now."""
    Path("/proc/self/clear_refs").write_text("5")
    return taken_bytes("VmRSS")


def taken_bytes(kind: str) -> int:
    """What Linux says of this process's memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(kind))


def most_memory(client: Any, run: Callable[[], Any]) -> int:
    """Bytes that the worker that takes most of them takes beside what it had, while something runs."""
    before = client.run(reset_peak)
    run()
    after = client.run(taken_bytes, "VmHWM")
    return max(after[worker] - before[worker] for worker in before)


def blocks(client: Any, rows: int, rounds: int = 3) -> None:
    """Time and memory of functions over dask arrays."""
    import dask
    import dask.array as da

    from distributed import wait

    def sources() -> list[Any]:
        random = da.random.default_rng(0)
        return [random.random((rows, 100), chunks=(rows // 32, 100)) for _ in range(2)]

    def finish(result: Any, kept: bool) -> float:
        """Compute a result; one that is an array is left with the workers, or dropped by blocks."""
        start = time.perf_counter()
        made = result if isinstance(result, list) else [result]
        if not kept:
            made = [da.max(x) if x.size > rows else x for x in made]
        wait(dask.persist(*made))
        return time.perf_counter() - start

    held = dask.persist(*sources())
    wait(held)
    print(f"blocks: two arrays of {rows * 800 / 1e6:.0f} MB each in 32 blocks on {WORKERS} workers")
    print(f"  {'':18}   dask.array       tawny   ratio  |  dask.array      tawny  (most memory)")
    for name, function in CHAINS.items():
        ways = [lambda x, y, f=function: f(da, x, y), tw.jit(lambda x, y, f=function: f(tnp, x, y))]
        seconds = [
            min(row)
            for row in zip(
                *[[finish(w(*held), True) for w in ways] for _ in range(rounds)], strict=True
            )
        ]
        memory = [
            min([most_memory(client, lambda w=w: finish(w(*sources()), False)) for _ in range(3)])
            for w in ways
        ]
        ratio = seconds[1] / seconds[0]
        print(
            f"  {name:18} {1e3 * seconds[0]:9.0f} ms {1e3 * seconds[1]:8.0f} ms {ratio:7.2f}  |"
            f" {memory[0] / 1e6:8.1f} MB {memory[1] / 1e6:7.1f} MB"
        )


# ------------------------------------------------------------------------- training

MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...], int]] = {
    "two layers of 256": (
        lambda: nn.Sequential(nn.Linear(784, 256, activation="relu"), nn.Linear(256, 10)),
        (784,),
        128,
    ),
    "two layers of 2,048": (
        lambda: nn.Sequential(
            nn.Linear(784, 2048, activation="relu"),
            nn.Linear(2048, 2048, activation="relu"),
            nn.Linear(2048, 10),
        ),
        (784,),
        256,
    ),
    "two convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 32, 3, activation="relu"),
            nn.Conv2d(32, 64, 3, activation="relu"),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(9216, 128, activation="relu"),
            nn.Linear(128, 10),
        ),
        (28, 28, 1),
        128,
    ),
}
"""Models, the shape of a sample, and the rows of a batch."""


def processor_seconds(client: Any) -> float:
    """Seconds that processors have spent on this process, and on the workers of a client."""
    return time.process_time() + (sum(client.run(time.process_time).values()) if client else 0.0)


def train_seconds(
    make: Callable[[], Any], data: Any, batch: int, steps: int, client: Any
) -> tuple[float, float]:
    """Seconds that so many steps take, with all that is done before the first; and of processors."""
    options: dict[str, Any] = {"batch": batch, "epochs": 1000, "steps": steps, "client": client}
    start, spent = time.perf_counter(), processor_seconds(client)
    nn.train(make().initialise(1), nn.cross_entropy, data, optim.Adam(1e-3), **options)
    return time.perf_counter() - start, processor_seconds(client) - spent


def training(client: Any) -> None:
    """The time of a step, on two workers and in one process."""
    rng = np.random.default_rng(0)
    print(f"a step of nn.train: one process of {WORKERS} threads beside {WORKERS} workers of one,")
    print("by the clock and in time of processors, which other work on the machine changes less")
    for name, (make, shape, batch) in MODELS.items():
        rows = 20 * batch
        data = rng.normal(size=(rows, *shape)).astype("float32"), rng.integers(0, 10, rows)
        steps = max(8, int(1.0 / train_seconds(make, data, batch, 8, None)[0]) * 8)
        kinds = [(at, count) for at in (None, client) for count in (steps, 3 * steps)]
        rounds = [[train_seconds(make, data, batch, n, at) for at, n in kinds] for _ in range(3)]
        best = np.min(rounds, axis=0)
        alone, apart = [1e3 * (best[k + 1] - best[k]) / (2 * steps) for k in (0, 2)]
        size = sum([4 * p.size for p in leaves(make().initialise(1).parameters)]) / 1e6
        print(f"  {name:20} {batch} rows, {size:5.1f} MB of gradients")
        for what, one, two in zip(("clock", "processors"), alone, apart, strict=True):
            print(f"    {what:12} {one:8.2f} ms {two:8.2f} ms {two / one:6.2f}x")


def layers(count: int, width: int) -> tw.Graph:
    """Dense layers one after the other, whose weights are constants."""
    rng = np.random.default_rng(0)
    x = tw.var("x", (width, width), "float32")
    y = x
    for _ in range(count):
        weight = rng.normal(size=(width, width)).astype(np.float32) / np.sqrt(width)
        y = tnp.tanh(y @ tnp.asarray(weight))
    return tw.Graph([x], y, name="layers")


def partition(client: Any, count: int = 16) -> None:
    """Predicted and measured times of a graph in segments."""
    graph = layers(12, 1024)
    alone = graph.compile(threads=1)
    parts = graph.partition(WORKERS, threads=1)
    print(parts)
    x = np.random.default_rng(1).normal(size=(1024, 1024)).astype(np.float32)
    best = dict.fromkeys(("alone", "run", "overlapping"), float("inf"))
    with parts.compile(client) as there:
        np.testing.assert_array_equal(there(x), alone(x))
        calls: dict[str, tuple[Callable[[], object], int]] = {
            "alone": (lambda: alone(x), 1),
            "run": (there.run, 1),
            "overlapping": (lambda: there.sweep(x=[x] * count), count),
        }
        for _ in range(4):
            for name, (call, runs) in calls.items():
                start = time.perf_counter()
                call()
                best[name] = min(best[name], (time.perf_counter() - start) / runs)
    predicted = parts.single_seconds, parts.seconds, parts.stream_seconds
    for (name, seconds), said in zip(best.items(), predicted, strict=True):
        print(f"  {name:<12}{1e3 * seconds:8.1f} ms   predicted {1e3 * said:8.1f} ms")


PARTS: dict[str, Callable[[Any, argparse.Namespace], None]] = {
    "sweep": lambda client, args: sweep(client, args.runs),
    "blocks": lambda client, args: blocks(client, args.rows),
    "training": lambda client, _: training(client),
    "partition": lambda client, _: partition(client),
}


def main() -> int:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[*PARTS], choices=[*PARTS])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=320_000)
    args = parser.parse_args()
    with tw.cluster(WORKERS, threads=1) as cluster, cluster.get_client() as client:
        for part in args.parts:
            PARTS[part](client, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
