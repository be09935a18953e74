"""Cost of the optimiser for each node, as graphs grow: it must stay flat and below the bound.

    python benchmarks/optimise.py [--json FILE] [--check]

Processor time, the best of several rounds.  Where other work shares the machine its caches are
shared too, and everything takes longer: `loop` is what one step of a plain Python loop over as much
memory took in between, and `loops` how many such steps the optimiser needs for a node.  That number
hardly depends on the load, nor on the machine.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Sequence

import tawny as tw
import tawny.numpy as np
from rounds import NODES_PER_ROUND, mixed  # beside this file
from tawny.array import Array
from tawny.engine.reference import run
from tawny.rewrite.pipeline import optimise

BOUND = 30e-6
"""Seconds for each node, whatever the size of the graph."""
SIZES = (1_000, 10_000, 100_000)


def chain(count: int) -> Array:
    """Arithmetic that no rule shortens, one op after another."""
    x = tw.var("x", shape=(4,))
    y = x
    for i in range(count // 4):
        y = np.sin(y * 1.5) - x / (i + 3)
    return y


def adjoints(count: int) -> Array:
    """Sums with zeros, ones and repeats, as differentiation leaves them: half disappears."""
    x = tw.var("x", shape=(8, 4))
    y = x
    zeros, ones = np.zeros((8, 4)), np.ones((8, 4))
    for i in range(count // 6):
        grad = zeros + np.tanh(y) * ones
        y = np.sum(grad, axis=1, keepdims=True) + np.repeat(y[:, :1], 4, axis=1) * (0.5 + i)
    return y


def updates(count: int) -> Array:
    """AdaGrad steps: each becomes two fused nodes."""
    w, squares = tw.var("w", shape=(8,)), tw.var("s", shape=(8,))
    for _ in range(count // 7):
        grad = np.tanh(w)
        squares = squares + grad * grad
        w = w + -grad * (0.005 / np.sqrt(squares + 1e-32))
    return w + squares


def constants(count: int) -> Array:
    """A long computation on constants alone: one constant is left."""
    y = np.asarray([1.0, 2.0])
    for i in range(count // 3):
        y = np.sin(y) * (1.0 + i)
    return y + tw.var("x", shape=(2,))


def program(count: int) -> Array:
    """What `build.py` records: three passes in turn change something in every round."""
    x, w = (tw.var(name, shape=(32, 32), dtype="float32") for name in "xw")
    return mixed(np, x, w, count // NODES_PER_ROUND)


GRAPHS: tuple[Callable[[int], Array], ...] = (chain, adjoints, updates, constants, program)


Row = dict[str, float | int | str]
ROUNDS = 3


def plain_loop(count: int) -> float:
    """Processor seconds for each step of a loop that makes tuples and finds them in a dictionary."""
    start = time.process_time()
    table: dict[tuple[int, int], tuple[int, int]] = {}
    last = (0, 0)
    for i in range(count):
        key = (i, i + 1)
        table[key] = last
        last = table.get((i >> 1, (i >> 1) + 1), key)
    return (time.process_time() - start) / count


def measure(make: Callable[[int], Array], size: int) -> Row:
    """Processor seconds for each node of one graph: the best of some rounds."""
    best = loop = float("inf")
    nodes = left = 0
    for _ in range(ROUNDS):
        graph = make(size)
        gc.collect()
        loop = min(loop, plain_loop(size))
        start = time.process_time()
        result = optimise([graph.node], evaluate=run)
        best = min(best, time.process_time() - start)
        nodes, left = result.rewrites.nodes_before, result.rewrites.nodes_after
    return {
        "graph": make.__name__,
        "nodes": nodes,
        "left": left,
        "seconds": best,
        "per_node": best / nodes,
        "loop": loop,
    }


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    lines = [
        f"{'graph':10} {'nodes':>8} {'left':>8} {'seconds':>8} {'us/node':>8} {'us/loop':>8} {'loops':>6}"
    ]
    for r in rows:
        per_node, loop = float(r["per_node"]) * 1e6, float(r["loop"]) * 1e6
        lines.append(
            f"{r['graph']:10} {r['nodes']:8} {r['left']:8} {r['seconds']:8.3f} "
            f"{per_node:8.1f} {loop:8.2f} {per_node / loop:6.0f}"
        )
    return "\n".join(lines)


def main() -> int:
    """Print a table; with --check fail if a bound is passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="also write the rows to this file")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    rows = [measure(make, size) for make in GRAPHS for size in SIZES]
    print(table(rows))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"rows": rows}, file)
    return int(arguments.check and any(float(r["per_node"]) > BOUND for r in rows))


if __name__ == "__main__":
    sys.exit(main())
