"""Many steps in one native call: the same as one by one, interrupted between them."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from engines import skip_without_binding
from tawny.array import Array
from tawny.engine.cpu.interpreter import TURNS
from tawny.graph.program import Program


def counted(program: Program) -> list[int]:
    """The turns that each call of the interpreter from now on is told to run."""
    executable, turns = program._compiled.executable, list[int]()
    plain = executable._interpret

    def interpret(call: int) -> int:
        turns.append(ctypes.c_int64.from_address(call + 8 * TURNS).value)
        return plain(call)

    executable._interpret = interpret
    return turns


def test_all_updates_happen_at_once(engine: str) -> None:
    a, b, c = (tw.var(n, shape=(3,)) for n in "abc")
    graph = tw.Graph([], [a[::-1], a + b], updates={a: b, b: a, c: a[::-1]})
    p = graph.compile(engine=engine)
    start = {"a": np.arange(3.0), "b": np.full(3, 5.0), "c": np.zeros(3)}
    p.set(**start)
    for steps in (1, 2, 5):
        before = p.state
        if steps % 2 == 0:
            before = {"a": before["b"], "b": before["a"]}
        shown, total = p.run(steps)
        np.testing.assert_array_equal(shown, before["a"][::-1], "as it was in the last run")
        np.testing.assert_array_equal(p.get(graph.outputs[0]), before["a"][::-1])
        np.testing.assert_array_equal(total, start["a"] + start["b"])
        np.testing.assert_array_equal(p.state["a"], before["b"])
        np.testing.assert_array_equal(p.state["b"], before["a"])
        np.testing.assert_array_equal(p.state["c"], before["a"][::-1])


def test_an_output_that_is_updated_is_what_it_was(engine: str) -> None:
    w = tw.var("w", shape=(2,))
    p = tw.Graph([], [w], updates={w: w + 1}).compile(engine=engine)
    p.set(w=np.zeros(2))
    assert p.run()[0].tolist() == [0.0, 0.0]
    (seen,) = p.run(3, views=True)
    assert np.asarray(seen).tolist() == [3.0, 3.0]
    assert not (isinstance(seen, np.ndarray) and seen.flags.writeable)
    assert p.state["w"].tolist() == [4.0, 4.0]


def test_every_step_draws_numbers_of_its_own() -> None:
    def program() -> Program:
        tw.random.seed(5)
        total = tw.var("total", shape=(4,))
        drawn = tw.random.uniform(shape=(4,))
        p = tw.Graph([], [drawn], updates={total: total + drawn}).compile(engine="cpu")
        p.set(total=np.zeros(4))
        return p

    at_once, one_by_one = program(), program()
    calls = counted(at_once)
    (last,) = at_once.run(50)
    drawn = [one_by_one.run()[0] for _ in range(50)]
    assert len({d.tobytes() for d in drawn}) == 50
    np.testing.assert_array_equal(last, drawn[-1])
    np.testing.assert_array_equal(at_once.state["total"], one_by_one.state["total"])
    assert at_once.draw == 50
    assert sum(calls) == 50
    assert len(calls) < 10


def test_many_small_steps_are_one_native_call() -> None:
    x, n = tw.var("x", shape=(8,)), tw.var("n")
    graph = tw.Graph([], tnp.sum(x), updates={x: x * 0.5 + 1, n: n + 1})
    p = graph.compile(engine="cpu")
    p.set(x=np.zeros(8), n=0.0)
    p.run(2)  # the second is as all that follow
    calls = counted(p)
    p.run(1000)
    assert sum(calls) == 1000
    assert len(calls) < 50
    assert p.state["n"] == 1002
    np.testing.assert_array_equal(p.state["x"], 2.0)
    assert 0 < p.last_run.seconds < 1e-3, "of a step, not of all"


def test_functions_of_python_are_called_in_every_step(engine: str) -> None:
    seen: list[float] = []
    x = tw.var("x")
    y = tw.delay(lambda a: seen.append(float(a)) or a * 2, x + 1)
    for update in (y, y - 1):
        seen.clear()
        p = tw.Graph([], x, updates={x: update}).compile(engine=engine)
        p.set(x=0.0)
        p.run(4)
        expected, value = [], 0.0
        for _ in range(4):
            expected.append(value + 1)
            value = 2 * (value + 1) - (update is not y)
        assert seen == expected
        assert p.state["x"] == value


def test_a_step_that_fails_leaves_the_ones_before(engine: str) -> None:
    table, i, w = tw.var("table", shape=(6,)), tw.var("i", dtype="int64"), tw.var("w")
    picked = tnp.take(table, tnp.reshape(i, (1,)), axis=0)
    graph = tw.Graph([table], picked, updates={i: i + 1, w: w + tnp.sum(picked)})
    p = graph.compile(engine=engine)
    p.set(table=np.arange(1.0, 7.0), i=0, w=0.0)
    with pytest.raises(IndexError, match="gather: index 6 is out of bounds"):
        p.run(100)
    assert (int(p.state["i"]), float(p.state["w"])) == (6, 21.0)
    assert p.draw == 6
    p.set(i=-1)
    assert p.run().tolist() == [6.0]
    assert (int(p.state["i"]), float(p.state["w"])) == (0, 27.0)


def test_updated_variables_are_not_bound_to_read_only_arrays(engine: str) -> None:
    skip_without_binding(engine)
    a, b = tw.var("a", shape=(2,)), tw.var("b", shape=(2,))
    p = tw.Graph([], a * 2, updates={a: b, b: a}).compile(engine=engine)
    locked = np.ones(2)
    locked.flags.writeable = False
    p.set(a=np.full(2, 3.0), b=np.zeros(2))
    with pytest.raises(ValueError, match="'a' is updated, but bound to a read-only array"):
        p.set(a=locked, bind=True)
    assert p.run().tolist() == [6.0, 6.0]
    assert locked.tolist() == [1.0, 1.0]


def test_large_updates_are_shared_and_right() -> None:
    a, b = (tw.var(n, shape=(300, 500)) for n in "ab")
    x: Array = tnp.concat([a[1:], a[:1]], axis=0)
    for threads in (1, 3):
        p = tw.Graph([], tnp.sum(x), updates={a: b, b: x}).compile(engine="cpu", threads=threads)
        rng = np.random.default_rng(0)
        one, two = rng.random((2, 300, 500))
        p.set(a=one, b=two)
        p.run(3)
        for _ in range(3):
            one, two = two, np.roll(one, -1, axis=0)
        np.testing.assert_array_equal(p.state["a"], one)
        np.testing.assert_array_equal(p.state["b"], two)


INTERRUPTED = """
import signal, threading, time
import numpy, tawny as tw, tawny.numpy as np

a, b, c, n = (tw.var(name, shape=(50,)) for name in "abcn")
graph = tw.Graph([], [np.sum(n)], updates={n: n + 1, a: b, b: c, c: a})
p = graph.compile(engine="cpu")
start = numpy.arange(150.0).reshape(3, 50)
p.set(a=start[0], b=start[1], c=start[2], n=numpy.zeros(50))
signal.signal(signal.SIGINT, signal.default_int_handler)
for _ in range(3):
    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
    begin = time.monotonic()
    try:
        p.run(10**9)
        print("not interrupted")
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - begin < 2.0)
    done = p.draw
    assert done > 10, done
    state = p.state
    assert (state["n"] == done).all(), "what is computed in its place, as often as the rest"
    for place, name in enumerate("abc"):
        assert (state[name] == start[(place + done) % 3]).all(), name
assert p.run()[0] == 50 * done
"""


def test_control_c_is_heard_between_steps() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("interrupted True\n" * 3, "")
