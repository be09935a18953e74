"""How long it takes to record a graph, beside JAX's tracing and PyTensor's construction.

The program is the same in all three: `STEPS` rounds of ten mixed operations (arithmetic, a Python
scalar, broadcasting, transcendental functions, a comparison with a selection, a reduction, a
reshape, a matrix product), 10,000 nodes in all.  Tawny infers shapes and dtypes, interns each node
and captures its source line, as it does for users.  Contenders are interleaved; the best of
several rounds is printed, since the machines are noisy.

What was found when profiling: finding the line number of a node costs more than making the node,
so only the instruction is recorded and the line is worked out on demand; inferred dtypes are
remembered per op and operand dtypes; the rest is Python calls.

Then what the optimiser takes for graphs of 1,000 to 100,000 nodes, as `optimise.py` measures it.

    python benchmarks/build.py          # needs the `bench` extra for the peers
"""

from __future__ import annotations

import argparse
import gc
import importlib
import itertools
import time
from collections.abc import Callable

import numpy

from optimise import BOUND, GRAPHS, SIZES, measure, mixed, table  # beside this file

STEPS = 1000
NODES_PER_STEP = 10


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


class PyTensorNames:
    """NumPy's names over PyTensor."""

    def __init__(self) -> None:
        self.tensor = importlib.import_module("pytensor.tensor")

    def __getattr__(self, name: str) -> Callable[..., object]:
        return getattr(self.tensor, {"where": "switch"}.get(name, name))


def build_pytensor() -> object:
    """Construct the program's graph with PyTensor."""
    tensor = importlib.import_module("pytensor.tensor")
    x, w = tensor.fmatrix("x"), tensor.fmatrix("w")
    return program(PyTensorNames(), x, w)


CONTENDERS = {"tawny": build_tawny, "jax.make_jaxpr": build_jax, "pytensor": build_pytensor}


def main() -> None:
    """Print microseconds a node for each contender that is installed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    best: dict[str, float] = {}
    missing: set[str] = set()
    for _ in range(rounds):
        for name, build in CONTENDERS.items():
            if name in missing:
                continue
            gc.collect()
            start = time.perf_counter()
            try:
                build()
            except ImportError:
                missing.add(name)
                continue
            best[name] = min(best.get(name, float("inf")), time.perf_counter() - start)
    nodes = STEPS * NODES_PER_STEP
    print(f"recording {nodes:,} nodes, best of {rounds} interleaved rounds")
    for name, seconds in best.items():
        ratio = seconds / best["tawny"]
        print(f"  {name:<16}{seconds * 1e6 / nodes:8.2f} us/node {ratio:8.1f} x tawny")
    for name in sorted(missing):
        print(f"  {name:<16}not installed (pip install 'tawny[bench]')")
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
