"""Calls that give arrays for all inputs go the shortest way, and do what all other ways do."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from engines import skip_without_binding
from tawny.graph.program import Program

SHAPE = (5,)


def program(engine: str) -> Program:
    """Two inputs, an updated variable, random numbers, results in the arena and in variables."""
    x, y = tw.var("x", SHAPE), tw.var("y", SHAPE, "float32")
    n = tw.var("n", SHAPE)
    outputs = {"both": x * 2 + y, "view": (tnp.exp(x) + n)[::-1], "y": tnp.sum(y)}
    graph = tw.Graph([x, y], outputs, updates={n: n + x})
    compiled = graph.compile(engine=engine)
    compiled.set(n=np.zeros(SHAPE))
    return compiled


def arrays(draw: random.Random) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(draw.randrange(2**32))
    return rng.normal(size=SHAPE), rng.normal(size=SHAPE).astype("float32")


def steps(draw: random.Random) -> Iterator[str]:
    kinds = ["call"] * 6 + [
        "some",
        "named",
        "set",
        "bind",
        "touch",
        "run",
        "steps",
        "wrong",
        "draw",
    ]
    yield "call"
    yield "call"
    for _ in range(40):
        yield draw.choice(kinds)


def follow(compiled: Program, seed: int) -> list[Any]:
    """What a random sequence of calls gives, and what each computed."""
    draw, found = random.Random(seed), []
    own = np.zeros(SHAPE)
    bound = False
    for step in steps(draw):
        x, y = arrays(draw)
        match step:
            case "call":
                out, bound = compiled(x, y), False
            case "some":
                out, bound = compiled(x), False
            case "named":
                out, bound = compiled(y=y, x=x), False
            case "set":
                compiled.set(y=y)
                out = compiled.run()
            case "bind":
                own[:] = x
                compiled.set(x=own, bind=True)
                out, bound = compiled.run(), True
            case "touch":
                own[:] = x
                if bound:
                    compiled.touch("x")
                out = compiled.run()
            case "run":
                out = compiled.run()
            case "steps":
                out = compiled.run(3)
            case "draw":
                compiled.draw = 7
                out = compiled(x, y)
                bound = False
            case _:
                with pytest.raises((TypeError, ValueError)):
                    compiled(x, y[:2])
                with pytest.raises(TypeError):
                    compiled(x, y, x)
                out = compiled(x, y.astype("float64"))
                bound = False
        run = compiled.last_run
        found.append((step, out, len(run.executed), len(run.reused), compiled.draw))
        assert run.seconds > 0
    return [*found, dict(compiled.state)]


@pytest.mark.parametrize("seed", range(3))
def test_all_ways_are_one(engine: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_binding(engine)
    short, long = program(engine), program(engine)
    monkeypatch.setattr(long._compiled.executable, "direct_run", lambda *_: None, raising=False)
    one, other = follow(short, seed), follow(long, seed)
    assert long._direct is None
    for left, right in zip(one, other, strict=True):
        if isinstance(left, dict):
            np.testing.assert_equal(left, right)
            continue
        assert (left[0], left[2:]) == (right[0], right[2:])
        np.testing.assert_equal(left[1], right[1])


def test_the_shortest_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above compares nothing; it is taken after the first call, by `tw.jit` too."""
    compiled = program("cpu")
    x, y = np.ones(SHAPE), np.ones(SHAPE, "float32")
    compiled(x, y)
    monkeypatch.setattr(compiled, "_assign", None)
    assert compiled(x, y)["both"].tolist() == [3.0] * 5
    jitted = tw.jit(lambda a, b: a - b)
    jitted(x, x)
    monkeypatch.setattr(jitted, "_programs", None)
    assert jitted(3 * x, x).tolist() == [2.0] * 5


def test_results_are_new_arrays() -> None:
    x = tw.var("x", SHAPE)
    compiled = tw.Graph([x], x + 1).compile()
    results = [compiled(np.full(SHAPE, float(i))) for i in range(4)]
    assert [r.tolist() for r in results] == [[i + 1.0] * 5 for i in range(4)]
    given = np.zeros(SHAPE)
    made = compiled(given)
    given[:] = 9
    assert made.tolist() == [1.0] * 5
    assert compiled.get("x").tolist() == [0.0] * 5


def test_numbers_are_drawn_anew_in_each_call() -> None:
    x = tw.var("x", SHAPE)
    compiled = tw.Graph([x], x + tw.random.uniform(shape=SHAPE)).compile()
    zero = np.zeros(SHAPE)
    results = [compiled(zero).tolist() for _ in range(4)]
    assert len({tuple(r) for r in results}) == 4
    compiled.draw = 1
    assert [compiled(zero).tolist() for _ in range(3)] == results[1:]


def test_a_call_that_fails_leaves_the_program_usable() -> None:
    x, i = tw.var("x", SHAPE), tw.var("i", (2,), "int64")
    taken = x[i] * 2
    compiled = tw.Graph([x, i], taken).compile()
    x0, right, wrong = np.arange(5.0), np.array([0, 4]), np.array([0, 7])
    for _ in range(3):
        assert compiled(x0, right).tolist() == [0.0, 8.0]
    with pytest.raises(IndexError, match="7"):
        compiled(x0, wrong)
    with pytest.raises(ValueError, match="not run"):
        compiled.get(taken)
    assert compiled(x0, right).tolist() == [0.0, 8.0]


def test_threads_take_turns() -> None:
    x = tw.var("x", (64,))
    compiled = tw.Graph([x], tnp.sum(x) + x).compile()
    compiled(np.zeros(64))
    wrong: list[int] = []

    def work(number: int) -> None:
        value = np.full(64, float(number))
        wrong.extend(number for _ in range(300) if (compiled(value) != 65.0 * number).any())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_program_is_not_called_inside_of_its_run() -> None:
    inner: list[BaseException] = []

    def again(value: np.ndarray) -> np.ndarray:
        try:
            compiled(np.ones(SHAPE))
        except RuntimeError as error:
            inner.append(error)
        return value

    x = tw.var("x", SHAPE)
    compiled = tw.Graph([x], tw.delay(again, x, shape=SHAPE, dtype="float64") + 1).compile()
    for _ in range(2):
        compiled(np.zeros(SHAPE))
    assert len(inner) == 2
    assert "is running" in str(inner[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_goes_on() -> None:
    x = tw.var("x", (300, 300))
    compiled = tw.Graph([x], x @ x + 1).compile(threads=2)
    value = np.eye(300)
    for _ in range(2):
        compiled(value)
    child = os.fork()
    if not child:
        right = all((compiled(value * n) == n * n * np.eye(300) + 1).all() for n in (1, 2))
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (compiled(value) == np.eye(300) + 1).all()
