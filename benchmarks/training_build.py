"""What building a training program costs, counted in its steps, in fresh processes.

    python benchmarks/training_build.py [--rounds 5]

Each process trains one network for three epochs of one batch each by `nn.train`.  `build` is all
that comes before the first step ends, without a step's own time: recording forward and backward
passes and the update, optimising, planning, loading kernels, and what that imports.  Kernels and
byte code are on disk.  The best of the rounds is printed; a training program should cost less than
20 of its steps.

What was found: Python's cyclic collector walked all nodes again and again; it waits until a program
is built.  A program was planned twice, with and without the updates in the variables' memory: the
second plan is given up as soon as it cannot be smaller.  Graphs with and without groups were put
into several orders each, to see that groups need no more memory: what every order needs around the
fullest step tells that for less, since a training step is narrow between its two halves.  Every
pass and every stage of planning put the nodes in order again, a tenth of all work: each graph is
walked once, and the order handed on.  What a step needs, where orders are searched for, depends on
few of those done: it is remembered.  `numpy.ma` took as long to import as a small graph to record;
nobody needs it to know that an array has no mask.  Comparing the memory of all pairs of bound
variables grows with their square: sorted by address, neighbours tell.

To compare two versions on a busy machine, count executed instructions of Python by function
(`sys.settrace` with `f_trace_opcodes`); times differ by more from run to run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

LIMIT: Final = 20

BATCH: Final = 100


def characters(length: int) -> Callable[[], tuple[Any, Any]]:
    """A character LSTM with the sizes of the report's example, on windows of some length."""

    def make() -> tuple[Any, Any]:
        from tawny import models

        rng = np.random.default_rng(0)
        batch = rng.integers(0, 60, (BATCH, length)), rng.integers(0, 60, BATCH)
        return models.CharacterLSTM(60), batch

    return make


def digits() -> tuple[Any, Any]:
    """The report's MNIST network."""
    from tawny import models

    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCH, 28, 28, 1), np.float32)
    return models.Mnist(), (x, rng.integers(0, 10, BATCH))


NETS: Final[dict[str, Callable[[], tuple[Any, Any]]]] = {
    "MNIST": digits,
    "character LSTM, windows of 100": characters(100),
    "character LSTM, windows of 32": characters(32),
}


def one(net: str) -> dict[str, float]:
    """Train in this process, and tell seconds of building and of a step."""
    model, batch = NETS[net]()
    ends: list[float] = []
    start = time.perf_counter()
    from tawny import nn, optim

    def note(now: Any) -> None:
        if now.event == "batch":
            ends.append(time.perf_counter())

    optimiser = optim.Adam(1e-3)
    nn.train(model, nn.cross_entropy, batch, optimiser, epochs=8, batch=BATCH, callbacks=[note])
    step = min(np.diff(ends))
    return {"build": ends[0] - start - step, "step": step}


def main() -> None:
    """Measure in fresh processes, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", choices=NETS, help="in this process")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one)))
        return
    print(f"{'':32}{'build ms':>10}{'step ms':>10}{'steps':>8}  (limit {LIMIT})")
    for net in NETS:
        command = [sys.executable, __file__, "--one", net]
        runs = [
            json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            for _ in range(given.rounds + 1)
        ][1:]
        build, step = (min(run[name] for run in runs) * 1e3 for name in ("build", "step"))
        print(f"{net:32}{build:10.0f}{step:10.2f}{build / step:8.1f}")


if __name__ == "__main__":
    main()
