"""Copies of a program that run side by side: the bits of one, weights that are there once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from engines import BINDING
from random_graphs import assert_same_bits
from tawny.engine.cpu import unavailable
from tawny.tree import leaves

RNG = np.random.default_rng(0)


def network(rows: int = 8) -> tw.Graph:
    """A few layers with known weights, one of them drawn at random in each run."""
    x = tw.var("x", (rows, 64), "float32")
    scale = tw.var("scale", (), "float32")
    weights = [np.random.default_rng(k).normal(size=(64, 64)).astype("float32") for k in range(3)]
    y = x
    for w in weights:
        y = tnp.tanh(y @ w) * scale
    with tw.random.local_seed(3):
        kept = tw.random.uniform(shape=(64,), dtype="float32") < 0.5
    return tw.Graph([x, scale], {"y": y * kept, "sum": tnp.sum(y)})


def requests(count: int) -> np.ndarray:
    return RNG.normal(size=(count, 8, 64)).astype("float32")


@pytest.mark.parametrize(("threads", "copies"), [(1, 1), (2, 2), (4, 2), (2, 3), (5, 2)])
def test_a_sweep_of_copies_has_the_bits_of_one_program(
    engine: str, threads: int, copies: int
) -> None:
    program = network().compile(engine=engine, threads=threads)
    program.set(scale=0.5)
    if engine not in BINDING:
        with pytest.raises(ValueError, match=r"throughput: programs of engine .* one after the"):
            program.throughput(copies)
        return
    xs = requests(7)
    serving = program.throughput(copies)
    assert (serving.copies, serving.threads) == (
        copies,
        max(1, program.plan.threads // copies),
    )
    assert_same_bits(leaves(serving.sweep(x=xs)), leaves(program.sweep(x=xs)))


def test_each_request_gives_what_it_gives_alone() -> None:
    program = network().compile(threads=2)
    program.set(scale=0.5)
    serving = program.throughput(2)
    xs, scales = requests(40), RNG.normal(size=40).astype("float32")
    plain = [program(x, scale=s)["sum"] for x, s in zip(xs, scales, strict=True)]
    program.set(scale=0.5)
    common = [program(x)["sum"] for x in xs]
    with ThreadPoolExecutor(6) as threads:
        own = threads.map(lambda k: serving(xs[k], scale=scales[k])["sum"], range(40))
        shared = threads.map(lambda x: serving(x)["sum"], xs)
        np.testing.assert_array_equal([*own], plain)
        np.testing.assert_array_equal([*shared], common)


def test_copies_run_at_the_same_time() -> None:
    """A function that waits for its twin ends only if both are called."""
    together = threading.Barrier(2, timeout=30)

    def meet(a: Any) -> Any:
        together.wait()
        return a

    x = tw.var("x", (2,))
    program = tw.Graph([x], tw.delay(meet, x, shape=(2,), dtype="float64")).compile(threads=2)
    found = program.throughput().sweep(x=[[1.0, 2.0], [3.0, 4.0]])
    assert [y.tolist() for y in found] == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.skipif(unavailable() is not None, reason="needs compiled code")
def test_weights_are_there_once() -> None:
    x, w = tw.var("x", (300, 64), "float32"), tw.var("w", (64, 64), "float32")
    known = np.ones((64, 64), "float32")
    program = tw.Graph([x, w], (x @ known) @ w).compile(threads=4)
    program.set(w=known)
    serving = program.throughput(2)
    copies = [serving._idle.get() for _ in range(2)]
    bound = [id(copy._program._compiled.executable.variables[1]) for copy in copies]
    assert len(set(bound)) == 1
    tables = [copy._program._compiled.executable._table for copy in copies]
    assert [id(a) for a in tables[0]._prepared.values()] == [
        id(a) for a in tables[1]._prepared.values()
    ]
    pools = [copy._program._compiled.executable._pool for copy in copies]
    assert pools[0] is not pools[1]


def test_a_request_that_fails_leaves_the_others_alone() -> None:
    program = network().compile(threads=2)
    program.set(scale=0.5)
    serving = program.throughput(2)
    with pytest.raises(ValueError, match=r"variable 'x' was given shape \(3,\); it has \(8, 64\)"):
        serving.sweep(x=[np.zeros((8, 64)), np.zeros(3), np.zeros((8, 64))])
    with pytest.raises(TypeError, match="unknown variable 'rate'"):
        serving(rate=1.0)
    x = requests(1)[0]
    np.testing.assert_array_equal(serving(x)["sum"], program(x)["sum"])


def test_what_cannot_be_copied_is_refused() -> None:
    n = tw.var("n")
    counter = tw.Graph([], n, updates={n: n + 1}).compile()
    with pytest.raises(ValueError, match=r"throughput: updates change 'n', so each run depends"):
        counter.throughput()
    x = tw.var("x")
    program = tw.Graph([x], x + 1).compile()
    with pytest.raises(ValueError, match=r"copies is 0; it must be from 1 to 1024"):
        program.throughput(0)
    with pytest.raises(ValueError, match="variables have no value yet: 'x'"):
        program.throughput()()
    with pytest.raises(TypeError, match="2 values were given; there are 1 inputs"):
        program.throughput()(1.0, 2.0)
    with pytest.raises(TypeError, match="input 'x' was given twice"):
        program.throughput()(1.0, x=2.0)
    with pytest.raises(ValueError, match="the lists must be of one length"):
        program.throughput().sweep()
