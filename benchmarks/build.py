"""How long it takes to record a graph, beside JAX's tracing and PyTensor's construction.

The program is the same in all three: `STEPS` rounds of ten mixed operations (arithmetic, a Python
scalar, broadcasting, transcendental functions, a comparison with a selection, a reduction, a
reshape, a matrix product), 10,000 nodes in all.  Tawny infers shapes and dtypes, interns each node
and captures its source line, as it does for users.  Contenders are interleaved; the best of
several rounds is printed, since the machines are noisy.

What was found when profiling: finding the line number of a node costs more than making the node,
so only the instruction is recorded and the line is worked out on demand; inferred dtypes are
remembered per op and operand dtypes; of the frames between a node and the user's line nearly all
are in files that are known to be nobody's, so these are asked for first; the rest is Python calls.

Then what the optimiser takes for graphs of 1,000 to 100,000 nodes, as `optimise.py` measures it.

    python benchmarks/build.py          # `make bench` installs the peers
"""

from __future__ import annotations

import argparse
import atexit
import gc
import itertools
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy

from optimise import BOUND, GRAPHS, SIZES, measure, table  # beside this file
from rounds import NODES_PER_ROUND, mixed

STEPS = 1000

PEERS = Path(__file__).parent.parent / ".venv-peers" / "bin" / "python"
"""The Python of the environment for libraries whose dependencies exclude ours."""


def program(names, x, w):
    """The ten-node rounds, written with the names of one library."""
    return mixed(names, x, w, STEPS)


def build_tawny() -> object:
    """Record the program with Tawny."""
    import tawny
    import tawny.numpy

    x = tawny.var("x", shape=(32, 32), dtype="float32")
    w = tawny.var("w", shape=(32, 32), dtype="float32")
    return program(tawny.numpy, x, w)


def build_jax() -> object:
    """Trace the program with JAX; jitted helpers of jax.numpy count as one node each."""
    import jax
    import jax.numpy

    shape = jax.ShapeDtypeStruct((32, 32), numpy.float32)
    return jax.make_jaxpr(lambda x, w: program(jax.numpy, x, w))(shape, shape)


Contender = Callable[[], float]
"""Builds once, and gives the seconds."""


def timed(build: Callable[[], object]) -> Contender:
    """What builds in this process; raises ImportError where its library is not installed."""
    build()

    def seconds() -> float:
        gc.collect()
        start = time.perf_counter()
        build()
        return time.perf_counter() - start

    return seconds


def elsewhere(file: str) -> Contender:
    """What a file beside this one builds in the environment of peers that cannot live beside us."""
    if not PEERS.exists():
        raise ImportError(f"there is no {PEERS}")
    command = [str(PEERS), str(Path(__file__).parent / file), str(STEPS)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if child.stdout is None or child.stdin is None or child.stdout.readline() != "ready\n":
        child.communicate()
        raise ImportError(f"{file} cannot be run by {PEERS}")
    atexit.register(child.kill)
    asks, answers = child.stdin, child.stdout

    def seconds() -> float:
        asks.write("again\n")
        asks.flush()
        return float(answers.readline())

    seconds()
    return seconds


CONTENDERS: dict[str, Callable[[], Contender]] = {
    "tawny": lambda: timed(build_tawny),
    "jax.make_jaxpr": lambda: timed(build_jax),
    "pytensor": lambda: elsewhere("build_pytensor.py"),
}


def main() -> None:
    """Print microseconds a node for each contender that is installed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    found: dict[str, Contender] = {}
    missing: dict[str, str] = {}
    for name, make in CONTENDERS.items():
        try:
            found[name] = make()
        except ImportError as error:
            missing[name] = str(error)
    measured = [{name: build() for name, build in found.items()} for _ in range(rounds)]
    best = {name: min(one[name] for one in measured) for name in found}
    nodes = STEPS * NODES_PER_ROUND
    print(f"recording {nodes:,} nodes, best of {rounds} interleaved rounds")
    for name, seconds in best.items():
        ratio = seconds / best["tawny"]
        print(f"  {name:<16}{seconds * 1e6 / nodes:8.2f} us/node {ratio:8.1f} x tawny")
    for name, reason in missing.items():
        print(f"  {name:<16}is not there ({reason}); make bench installs it")
    print()
    optimiser()


def optimiser() -> None:
    """Print microseconds a node of the whole pipeline, and how they grow with the graph."""
    print(f"optimising, at most {BOUND * 1e6:.0f} us/node; one graph of each kind and size")
    for make in GRAPHS:
        rows = [measure(make, size) for size in SIZES]
        print(table(rows))
        for small, large in itertools.pairwise(rows):
            growth = float(large["per_node"]) / float(small["per_node"])
            factor = int(large["nodes"]) / int(small["nodes"])
            print(f"  {factor:.0f} times the nodes, {growth:.2f} times the time a node")
        print()


if __name__ == "__main__":
    main()
