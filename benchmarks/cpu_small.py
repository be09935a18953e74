"""A thousand tiny ops: time for one evaluation, and to make the program ready; what a call costs.

    python benchmarks/cpu_small.py [--ops 1000 3000 10000] [--peers numpy torch jax onnxruntime]

The same random chain of additions, differences, products, maxima and tanh on float32[64], each op
reading the previous value and one of the last sixteen.  Then a single addition on float32[64], in
every way that it can be called: with a value given and a new array for the result, with the array
bound and the result seen where it lies, as one of many steps of a native call, as a jitted function.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from timing import Timed, installed, interleaved, table

SIZE = 64


def program(count: int) -> list[tuple[str, int, int]]:
    """Names and operands of the ops; value 0 is the input."""
    draw = random.Random(0)
    kinds = ["add", "subtract", "multiply", "maximum", "tanh"]
    return [
        (draw.choices(kinds, [3, 3, 1, 2, 4])[0], i, draw.randrange(max(0, i - 15), i + 1))
        for i in range(count)
    ]


def chained(np: Any, ops: list[tuple[str, int, int]], x: Any) -> Any:
    """The ops in the functions of a library that has NumPy's names."""
    values = [x]
    for kind, a, b in ops:
        function = getattr(np, kind)
        made = function(values[a]) if kind == "tanh" else function(values[a], values[b])
        values.append(made)
    return values[-1]


def tawny(ops: list[tuple[str, int, int]], x: np.ndarray) -> tuple[Callable[[], object], float]:
    """A compiled program, its input bound."""
    import tawny as tw
    import tawny.numpy as tnp

    start = time.perf_counter()
    v = tw.var("x", shape=x.shape, dtype="float32")
    compiled = tw.Graph([v], chained(tnp, ops, v)).compile()
    seconds = time.perf_counter() - start
    compiled.set(x=x, bind=True)

    def run() -> object:
        compiled.touch("x")
        return compiled.run(views=True)

    return run, seconds


def numpy(ops: list[tuple[str, int, int]], x: np.ndarray) -> tuple[Callable[[], object], float]:
    """NumPy itself."""
    return (lambda: chained(np, ops, x)), 0.0


def torch(ops: list[tuple[str, int, int]], x: np.ndarray) -> tuple[Callable[[], object], float]:
    """PyTorch, one op at a time."""
    import torch as library

    t = library.from_numpy(x)
    return (lambda: chained(library, ops, t)), 0.0


def jax(ops: list[tuple[str, int, int]], x: np.ndarray) -> tuple[Callable[[], object], float]:
    """JAX, jitted."""
    import jax as library

    function = library.jit(lambda v: chained(library.numpy, ops, v))
    given = library.numpy.asarray(x)
    start = time.perf_counter()
    function(given).block_until_ready()
    return (lambda: function(given).block_until_ready()), time.perf_counter() - start


def onnxruntime(
    ops: list[tuple[str, int, int]], x: np.ndarray
) -> tuple[Callable[[], object], float]:
    """ONNX Runtime on one thread."""
    import onnxruntime as library
    from onnx import TensorProto, helper

    kinds = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "maximum": "Max", "tanh": "Tanh"}
    nodes = [
        helper.make_node(kinds[k], [f"v{a}"] if k == "tanh" else [f"v{a}", f"v{b}"], [f"v{n}"])
        for n, (k, a, b) in enumerate(ops, 1)
    ]
    ends = [
        helper.make_tensor_value_info(f"v{n}", TensorProto.FLOAT, x.shape) for n in (0, len(ops))
    ]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = library.SessionOptions()
    options.intra_op_num_threads = 1
    start = time.perf_counter()
    session = library.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    seconds = time.perf_counter() - start
    return (lambda: session.run(None, {"v0": x})[0]), seconds


PEERS = {"numpy": numpy, "torch": torch, "jax": jax, "onnxruntime": onnxruntime}
STEPS = 1000
ONE = [("add", 0, 0)]


def ways(x: np.ndarray) -> dict[str, Callable[[], object]]:
    """One op, called in every way."""
    import tawny as tw
    import tawny.numpy as tnp

    v = tw.var("x", shape=x.shape, dtype="float32")
    plain = tw.Graph([v], v + v).compile()
    state = tw.Graph([], tnp.sum(v), updates={v: v * 0.5 + 1}).compile()
    for p in (plain, state):
        p.set(x=x)
    jitted = tw.jit(lambda a: a + a)
    nested = tw.jit(lambda given: given["a"] + given["b"])

    def set_and_run() -> object:
        plain.set(x=x)
        return plain.run()

    return {
        "tawny": lambda: plain(x),
        "set, run": set_and_run,
        "bound, seen": tawny(ONE, x)[0],
        "updates": state.run,
        f"{STEPS} steps": lambda: state.run(STEPS),
        "jit": lambda: jitted(x),
        "jit, nested": lambda: nested({"a": x, "b": x}),
    }


def check(x: np.ndarray, peers: list[str]) -> None:
    """All compute the same; on a short chain, since rounding grows along a long one."""
    ops = program(40)
    expected = chained(np, ops, x)
    for make in (tawny, *(PEERS[p] for p in peers)):
        run, _ = make(ops, x)
        np.testing.assert_allclose(np.asarray(run()).reshape(-1), expected, rtol=1e-4, atol=1e-5)


def main() -> int:
    """Print a table for each number of ops."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, nargs="*", default=[1000])
    parser.add_argument("--peers", nargs="*", default=installed(PEERS), choices=list(PEERS))
    args = parser.parse_args()
    x = np.linspace(-1, 1, SIZE, dtype=np.float32)
    check(x, args.peers)
    for count in args.ops:
        ops = program(count)
        made = {"tawny": tawny(ops, x)} | {name: PEERS[name](ops, x) for name in args.peers}
        timed = interleaved({name: run for name, (run, _) in made.items()}, rounds=30, calls=5)
        print(table(f"{count} ops on float32[{SIZE}]", timed, unit="us"))
        print("  built in (s): " + ", ".join(f"{n} {s:.3f}" for n, (_, s) in made.items() if s))
    calls = ways(x) | {name: PEERS[name](ONE, x)[0] for name in args.peers}
    timed = interleaved(calls, rounds=30, calls=100)
    name = f"{STEPS} steps"
    timed[name] = Timed(timed[name].best / STEPS, timed[name].median / STEPS)
    print(table(f"one op on float32[{SIZE}], a call", timed, unit="us"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
