"""Control-C in the middle of a run: it ends soon, and the program can be run again."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from engines import BINDING
from interruptions import interrupted
from tawny.engine.cpu import stopping, table
from tawny.engine.cpu.interpreter import interpreter

PRELUDE = """
import os, signal, threading, time
import numpy, tawny as tw, tawny.numpy as np

signal.signal(signal.SIGINT, signal.default_int_handler)
count = tw.var("count")

def interrupted(program, seconds):
    # how long a run took that was interrupted; None if it was over before
    threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGINT]).start()
    start = time.monotonic()
    try:
        program.run()
        time.sleep(60)
    except KeyboardInterrupt:
        return time.monotonic() - start

def check(output, x, value, engine, **options):
    # the state and the results after an interrupted run are those of a program that never was
    program = tw.Graph([x], [output], updates={count: count + 1}).compile(engine=engine, **options)
    program.set(x=value, count=0.0)
    (first,) = program.run()
    program.set(x=value)
    start = time.monotonic()  # not of the first run, whose pages are new
    program.run()
    whole = time.monotonic() - start
    for done in range(2, 7):
        program.set(x=value)
        took = interrupted(program, whole / 5)
        assert program.state["count"] == program.draw, "the state is that after whole runs"
        if program.draw == done and took < 0.8 * whole + 0.1:
            break
    else:
        raise AssertionError(f"{took} s of {whole} s")
    program.set(x=value)
    assert program.run()[0].tobytes() == first.tobytes()
    assert program.state["count"] == program.draw == done + 1
"""

LARGE = {
    "one product": """
x = tw.var("x", shape=(2200, 2200), dtype="float32")
value = numpy.random.default_rng(0).random((2200, 2200), "float32")
check(x @ x, x, value, "cpu", threads=1)
""",
    "one elementwise kernel": """
x = tw.var("x", shape=(5_000_000,))
y = x
for _ in range(12):
    y = np.sin(y + 0.1)
check(y, x, numpy.random.default_rng(0).random(5_000_000), "cpu", threads=2)
""",
    "many steps": """
x = tw.var("x", shape=(1000, 1000))
y = x
for _ in range(150):
    y = np.concat([y[1:], y[:1]], axis=0)
value = numpy.random.default_rng(0).random((1000, 1000))
for engine in ("cpu", "reference"):
    check(y, x, value, engine, optimise=False)
""",
}


@pytest.mark.parametrize("name", LARGE)
def test_control_c_ends_a_run_soon(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + LARGE[name]],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("", "")


# ------------------------------------------------------------------ at every place


def recurrence() -> tw.Graph:
    """Variables that change in place, by copies and by their own old values; a step by the host."""
    x, a, b, h = (tw.var(name, (4,)) for name in "xabh")
    n = tw.var("n")
    y = tnp.sin(x) + a
    outputs = [y * b, y + x, tnp.real(tnp.fft.fft(tnp.fft.fft(y * 2)))]
    updates = {a: a * 0.5 + x, b: a, n: n + 1, h: tnp.sort(h + x)[::-1]}
    return tw.Graph([x, a, b, n, h], outputs, updates=updates)


def after_runs(state: dict[str, np.ndarray], runs: int) -> dict[str, np.ndarray]:
    """The variables after so many runs, by NumPy."""
    x, a, b, n, h = (state[name] for name in "xabnh")
    for _ in range(runs):
        a, b, n, h = a * 0.5 + x, a, n + 1, np.sort(h + x)[::-1]
    return {"x": x, "a": a, "b": b, "n": n, "h": h}


CALLED = {
    "run": lambda p, given: p.run(),
    "runs": lambda p, given: p.run(3),
    "a call with a value": lambda p, given: p(x=given),
    "set": lambda p, given: p.set(x=given, b=given),
    "get": lambda p, given: p.get("a"),
}


@pytest.mark.parametrize("name", CALLED)
def test_wherever_control_c_comes_runs_are_whole(name: str, engine: str) -> None:
    """Every variable is that of before a run or of after it, and the next run is right."""
    rng = np.random.default_rng(3)
    program, place, line = recurrence().compile(engine=engine), 0, ""
    program.set(n=0.0, **{v: rng.random(4) for v in "xabh"})
    while line is not None:
        place += 1 if engine in BINDING else 7
        program.run()
        before, drawn, given = dict(program.state), program.draw, rng.random(4)
        line = interrupted(lambda given=given: CALLED[name](program, given), place)
        after = dict(program.state)
        if name == "set":
            chosen = {v: [before[v], given] if v in "xb" else [before[v]] for v in before}
            for v, value in after.items():
                assert any(np.array_equal(value, one) for one in chosen[v]), (line, v)
        else:
            known = before | {"x": after["x"]}
            for v, value in after_runs(known, program.draw - drawn).items():
                np.testing.assert_allclose(after[v], value, rtol=1e-12, err_msg=f"{v}: {line}")
        program.run()
        for v, value in after_runs(after, 1).items():
            np.testing.assert_allclose(program.state[v], value, rtol=1e-12, err_msg=f"{v}: {line}")
    assert place > 5


@pytest.mark.parametrize("updated", [True, False])
def test_wherever_control_c_comes_calls_with_all_inputs_are_whole(
    updated: bool, engine: str
) -> None:
    x, a, n = tw.var("x", (4,)), tw.var("a", (4,)), tw.var("n")
    updates = {a: a * 0.5 + x, n: n + 1} if updated else {}
    program = tw.Graph([x, a, n], tnp.sin(x) * a + n, updates=updates).compile(engine=engine)
    rng, place, line = np.random.default_rng(3), 0, ""
    while line is not None:
        place += 1
        for _ in range(3):
            given = rng.random(4), rng.random(4), np.asarray(rng.random())
            program(*given)
        before, drawn = dict(program.state), program.draw
        given = rng.random(4), rng.random(4), np.asarray(rng.random())
        line = interrupted(lambda given=given: program(*given), place)
        after, (new_x, new_a, new_n) = dict(program.state), given
        if program.draw > drawn and updated:
            np.testing.assert_array_equal(after["a"], new_a * 0.5 + new_x, err_msg=line or "")
            assert after["n"] == new_n + 1
        else:
            for name, value in zip("xan", given, strict=True):
                known = before[name], value
                assert any(np.array_equal(after[name], one) for one in known), (line, name)
        want = np.sin(after["x"]) * after["a"] + after["n"]
        np.testing.assert_allclose(program.run(), want, rtol=1e-12, err_msg=line or "")
    assert place > 5


# ------------------------------------------------------------------ every kernel in pieces


@pytest.fixture
def all_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step is cut into pieces, as many as a long one has."""
    monkeypatch.setattr(table, "LONG_SECONDS", -1.0)
    monkeypatch.setattr(stopping, "PIECE_SECONDS", 1e-7)


X = np.random.default_rng(1).random((60, 80))

PIECED = {
    "elementwise": lambda x: np_of(x).sin(x) + x,
    "sum of all": lambda x: np_of(x).sum(x),
    "sum of rows": lambda x: np_of(x).sum(x, axis=1),
    "sum of columns": lambda x: np_of(x).sum(x, axis=0),
    "largest": lambda x: np_of(x).max(x, axis=0),
    "product": lambda x: x @ x.T,
    "stacked products": lambda x: x.reshape(6, 10, 80) @ x.reshape(6, 80, 10),
    "running sum": lambda x: np_of(x).cumsum(x, axis=0),
    "sort": lambda x: np_of(x).sort(x, axis=0),
    "sort of all": lambda x: np_of(x).sort(x.reshape(-1)),
    "copies": lambda x: np_of(x).concatenate([x.T[::-1], x.T], axis=1),
    "taken rows": lambda x: x[np.arange(60) * 7 % 60],
    "transform": lambda x: np_of(x).fft.rfft(x, axis=1),
    "triangular": lambda x: np_of(x).linalg.cholesky(x[:40] @ x[:40].T + 50 * np.eye(40)),
    "softmax": lambda x: np_of(x).exp(x) / np_of(x).sum(np_of(x).exp(x), axis=1, keepdims=True),
}


def np_of(x: object) -> object:
    """NumPy's namespace for its arrays, ours for lazy ones."""
    return tnp if isinstance(x, tw.Array) else np


@pytest.mark.usefixtures("all_long")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", PIECED)
def test_steps_in_pieces_give_what_whole_ones_give(name: str, threads: int) -> None:
    x = tw.var("x", shape=X.shape)
    n = tw.var("n")
    graph = tw.Graph([x], PIECED[name](x), updates={n: n + 1})
    program = graph.compile(engine="cpu", threads=threads)
    program.set(n=0.0)
    for _ in range(2):
        np.testing.assert_allclose(program(X), PIECED[name](X), rtol=1e-12, atol=1e-14)
    assert program.state["n"] == 2


@pytest.mark.usefixtures("all_long")
def test_other_threads_run_what_takes_long_themselves() -> None:
    x = tw.var("x", shape=X.shape)
    program = tw.Graph([x], x @ x.T).compile(engine="cpu")
    found: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: found.append(program(X)))
    thread.start()
    thread.join()
    np.testing.assert_allclose(found[0], X @ X.T)


@pytest.mark.usefixtures("interruptible", "all_long")
def test_a_handler_that_raises_nothing_does_not_stop_a_run(monkeypatch) -> None:
    monkeypatch.setattr(stopping, "HEARD_SECONDS", 1e-3)
    x = tw.var("x", shape=X.shape)
    program = tw.Graph([x], x @ x.T).compile(engine="cpu")
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    plain = interpreter()

    def slow(call: int) -> int:
        signal.raise_signal(signal.SIGINT)
        while not heard:
            time.sleep(1e-3)
        return plain(call)

    listen = program._compiled.executable._listen
    monkeypatch.setattr(listen, "_interpret", slow)
    np.testing.assert_allclose(program(X), X @ X.T)
    assert heard == [signal.SIGINT]


@pytest.mark.usefixtures("all_long")
def test_without_a_thread_to_spare_the_caller_computes(monkeypatch) -> None:
    def none_left(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    x = tw.var("x", shape=X.shape)
    program = tw.Graph([x], x @ x.T).compile(engine="cpu", threads=1)
    monkeypatch.setattr(stopping._thread, "start_new_thread", none_left)
    np.testing.assert_allclose(program(X), X @ X.T)


@pytest.mark.usefixtures("all_long")
@pytest.mark.parametrize("threads", [1, 3])
def test_a_step_in_pieces_fails_as_a_whole_one(threads: int) -> None:
    x, i = tw.var("x", shape=(4000,)), tw.var("i", shape=(3000,), dtype="int64")
    y = tnp.sin(x[i] * 2.0) + 1.0
    program = tw.Graph([x, i], y).compile(engine="cpu", threads=threads)
    values, places = np.arange(4000.0), np.arange(3000)
    places[[5, 2999]] = 4000
    with pytest.raises(IndexError, match="4000"):
        program(values, places)
    places[[5, 2999]] = 3999
    np.testing.assert_allclose(program(i=places), np.sin(values[places] * 2.0) + 1.0)


@pytest.mark.parametrize("all_are", ["short", "long"])
def test_programs_may_have_more_kernels_than_the_interpreter_places(
    all_are: str, request: pytest.FixtureRequest
) -> None:
    if all_are == "long":
        request.getfixturevalue("all_long")
    names = (
        "sin cos tan exp expm1 log1p sqrt abs negative square floor ceil trunc sinh cosh tanh "
        "arcsinh arctan exp2 sign"
    ).split()
    x = tw.var("x", shape=(4,))
    outputs = [getattr(tnp, name)(x) for name in names]
    program = tw.Graph([x], outputs).compile(engine="cpu", optimise=False, threads=1)
    value = np.array([0.2, 1.5, 0.7, 2.0])
    for name, found in zip(names, program(value), strict=True):
        np.testing.assert_allclose(found, getattr(np, name)(value), err_msg=name)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_thread_has_a_piece_of_what_threads_share(monkeypatch, threads: int) -> None:
    """However short what is cut is: the steps of a band are."""
    monkeypatch.setattr(table, "LONG_SECONDS", -1.0)
    x = tw.var("x", shape=(300, 400))
    program = tw.Graph([x], tnp.sin(x) @ tnp.cos(x).T).compile(threads=threads)
    made = program._compiled.executable._table
    shared = [entry for entry in made._entries if entry.threads]
    assert shared
    assert all(made._row[entry.row + 2] >= threads for entry in shared)
