"""What a cluster costs and brings: two worker processes of Dask on this machine, one thread each.

    python benchmarks/distributed.py [sweep ...] [--runs 1000]

sweep: runs of about 100 ms by `program.sweep(..., client=client)`, beside two plain processes that do
half of them each with a program of their own: what is between the two is the price of handing work
over.  Goal for 1,000 runs: at most 5 %.
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


PARTS: dict[str, Callable[[Any, argparse.Namespace], None]] = {
    "sweep": lambda client, args: sweep(client, args.runs),
}


def main() -> int:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[*PARTS], choices=[*PARTS])
    parser.add_argument("--runs", type=int, default=1000)
    args = parser.parse_args()
    with tw.cluster(WORKERS, threads=1) as cluster, cluster.get_client() as client:
        for part in args.parts:
            PARTS[part](client, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
