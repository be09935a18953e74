"""Loops against Python's own over NumPy, on every engine; their plans, draws, files, errors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from graph_fuzz import opened
from loop_programs import LAZY, PLAIN, PROGRAMS, LoopProgram, RandomLoops, values_of
from poisoned import Poisoned
from tawny.engine.cpu import loops, table
from tawny.graph.files import from_bytes
from tawny.node import toposort
from tawny.ops.loops import BodyOp, DrawNumbering, ScanLoop
from tawny.tree import leaves

RANDOM_PROGRAMS = 12
"""Random programs of an ordinary run; `python tests/loop_fuzz.py` tries many."""


def graph_of(program: LoopProgram) -> tw.Graph:
    variables = [tw.var(f"v{i}", s, d) for i, (s, d) in enumerate(program.inputs)]
    made = [a for a in leaves(program.run(LAZY, *variables)) if a is not None]
    return tw.Graph(variables, made, unused="ignore")


def plain(program: LoopProgram, values: list[Any]) -> list[Any]:
    return [np.asarray(a) for a in leaves(program.run(PLAIN, *values)) if a is not None]


def check(program: LoopProgram, engine: str, **options: Any) -> None:
    """A program gives what Python's loops over NumPy give, again and again."""
    compiled = graph_of(program).compile(engine=engine, **options)
    values = values_of(program, 0)
    for seed in range(3):
        values[seed % len(values)] = values_of(program, seed + 5)[seed % len(values)]
        found = compiled(*values)
        for got, wanted in zip(found, plain(program, values), strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(
                got, wanted, rtol=1e-6, atol=1e-6 if got.itemsize < 8 else 1e-12
            )


def without_none(program: LoopProgram) -> LoopProgram:
    def run(o: Any, *arrays: Any) -> Any:
        return [a for a in leaves(program.run(o, *arrays)) if a is not None]

    return LoopProgram(run, program.inputs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_give_what_plain_loops_give(name: str, engine: str) -> None:
    program = without_none(PROGRAMS[name])
    check(program, engine)
    check(program, engine, optimise=False)
    check(program, engine, incremental=False)
    if engine == "cpu":
        check(program, engine, threads=3)


@pytest.mark.parametrize("seed", range(RANDOM_PROGRAMS))
def test_random_loops_give_what_plain_loops_give(seed: int, engine: str) -> None:
    program = LoopProgram(RandomLoops(seed), PROGRAMS["recurrent"].inputs)
    check(program, engine)
    if seed % 3 == 0:
        check(program, engine, optimise=False)


@pytest.mark.parametrize("name", ["recurrent", "nested, reversed", "swapped carries"])
def test_memory_that_nobody_should_read_may_be_lost(name: str, engine: str) -> None:
    program = without_none(PROGRAMS[name])
    values = values_of(program, 1)
    variables = [tw.var(None, s, d) for s, d in program.inputs]
    graph = tw.Graph(variables, [2 * a for a in program.run(LAZY, *variables)], unused="ignore")
    compiled = graph.compile(engine=engine)
    own: Any = compiled
    inner = own._compiled
    inner.__dict__["executable"] = Poisoned(inner.executable, inner.task)
    for got, wanted in zip(compiled(*values), plain(program, values), strict=True):
        np.testing.assert_allclose(got, 2 * wanted, rtol=1e-12)


def test_bodies_run_natively() -> None:
    for name, program in PROGRAMS.items():
        plan = str(graph_of(without_none(program)).plan(engine="cpu"))
        assert "by NumPy" not in plan, name


def test_the_peak_is_exact() -> None:
    """Carries of 8 kB, one of them twice; rows in and out; the body's own values."""
    x = tw.var("x", (10, 1000))

    def step(carry: Any, row: Any) -> Any:
        return carry @ tnp.ones((1000, 1)) * tnp.cumsum(row), tnp.sum(carry)

    graph = tw.Graph([x], list(tw.scan(step, np.zeros(1000), x)))
    program = graph.compile(engine="cpu", threads=1)
    own: Any = program
    assert own._compiled.executable.arena.nbytes == program.plan.peak_bytes
    last, sums = program(np.full((10, 1000), 1e-4))
    assert last.shape == (1000,)
    assert sums.shape == (10,)


def test_a_body_is_compiled_once_whatever_the_length() -> None:
    x = tw.var("x", (100_000,))
    graph = tw.Graph([x], list(tw.scan(lambda s, r: (s * 0.5 + r, s), 0.0, x)))
    assert len(graph.order) < 10
    last, _ = graph.compile()(np.ones(100_000))
    np.testing.assert_allclose(last, 2.0)


# ----------------------------------------------------------------------- draws


def drawn(engine: str, **options: Any) -> Any:
    with tw.random.local_seed(3):

        def inner(i: Any, c: Any) -> Any:
            return c + tw.random.normal(shape=(2,))

        def outer(c: Any, _: Any) -> Any:
            return tw.fori_loop(0, 3, inner, c), tw.random.integers(0, 1000, shape=(2,))

        once = tw.random.uniform()
        graph = tw.Graph([], [*tw.scan(outer, np.zeros(2), length=5), once])
    program = graph.compile(engine=engine, **options)
    return [program() for _ in range(2)]


def test_each_step_draws_numbers_of_its_own(engine: str) -> None:
    first, second = drawn(engine)
    assert not np.array_equal(first[1], second[1]), "each run draws anew"
    assert len(np.unique(first[1])) > 8, "so does each step"
    for other in (drawn(engine, optimise=False), drawn("reference")):
        for one, wanted in zip([*first, *second], [*other[0], *other[1]], strict=True):
            np.testing.assert_allclose(one, wanted, rtol=1e-12)


def test_what_is_drawn_outside_is_the_same_for_all_steps(engine: str) -> None:
    noise = tw.random.normal(shape=(3,))
    _, rows = tw.scan(lambda c, _: (c + 1, noise * c), 1.0, length=4)
    (found,) = tw.Graph([], [rows]).compile(engine=engine)()
    np.testing.assert_allclose(found, found[0] * np.arange(1, 5)[:, None])


# ----------------------------------------------------------- steps of a program


def loops_in(graph: tw.Graph) -> list[ScanLoop]:
    return [n.op for n in toposort(graph.results) if isinstance(n.op, ScanLoop)]


def executed(program: tw.Program) -> set[str]:
    """The ops that the last run computed, as a graph calls them."""
    nodes = [a.node for a in program.last_run.executed]
    return {(n.inputs[0] if n.name == "part" else n).name for n in nodes}


def test_what_does_not_change_is_computed_before_the_loop() -> None:
    x, w = tw.var("x", (4, 3)), tw.var("w", (3, 3))
    graph = tw.Graph(
        [x, w], tw.scan(lambda c, r: (c + r @ tnp.linalg.inv(w), None), np.zeros(3), x)[0]
    )
    (loop,) = loops_in(graph)
    assert "inv" not in [n.name for n in loop.body.steps]
    program = graph.compile()
    program(np.ones((4, 3)), np.eye(3))
    program(x=np.zeros((4, 3)))
    assert executed(program) == {"loop"}, "the inverse is kept"


def test_a_loop_runs_when_its_operands_change() -> None:
    x, y = tw.var("x", (4,)), tw.var("y")
    total, _ = tw.scan(lambda c, r: (c + tnp.sin(r), None), 0.0, x)
    program = tw.Graph([x, y], total * y).compile()
    program(np.ones(4), 2.0)
    assert float(program(y=3.0)) == pytest.approx(12 * np.sin(1))
    assert "loop" not in executed(program)


def test_equal_loops_are_one() -> None:
    x = tw.var("x", (4,))
    one, other = (tw.scan(lambda c, r: (c * r, c), 1.0, x)[1] for _ in range(2))
    assert one.node is other.node


def test_what_nobody_reads_is_dropped() -> None:
    x = tw.var("x", (4, 50))

    def step(carry: Any, row: Any) -> Any:
        total, unused = carry
        return (total + row[0], unused + row), (tnp.sin(row), total)

    sums = tw.scan(step, (0.0, np.zeros(50)), x)[1][1]
    made = tw.optimise(tw.Graph([x], sums))
    (loop,) = loops_in(made)
    assert (loop.carries, len(loop.body.results)) == (1, 2)
    np.testing.assert_allclose(made.compile()(np.ones((4, 50))), [0, 1, 2, 3])


def test_what_nobody_reads_of_branches_and_long_loops_is_dropped() -> None:
    x = tw.var("x", (50,))

    def step(c: Any) -> Any:
        i, a, unused = c
        return i + 1, a * 0.5, unused @ tnp.ones((50, 50))

    last = tw.while_loop(lambda c: tnp.any(c[1] > 1), step, (0, x, x))
    chosen = tw.cond(last[1][0] > 0, lambda: (tnp.sort(x), x * 2), lambda: (x, x * 3))[1]

    def outer(c: Any, _: Any) -> Any:
        return c + tw.cond(c[0] > 0, lambda: (tnp.sort(c), c * 2), lambda: (c, c * 3))[1], None

    made = tw.optimise(tw.Graph([x], [last[1], tw.scan(outer, chosen, length=2)[0]]))
    ops = [n.op for n in toposort(made.results) if isinstance(n.op, BodyOp)]
    inner = [n.op for op in ops for b in op.bodies() for n in b.steps if isinstance(n.op, BodyOp)]
    results = sorted((op.declaration.name, len(op.result_types())) for op in (*ops, *inner))
    assert results == [("loop", 1), ("switch", 1), ("switch", 1), ("while_loop", 1)]
    found = made.compile()(np.full(50, 4.0))
    assert found[0].tolist() == [1.0] * 50
    assert found[1].tolist() == [72.0] * 50


def test_parts_of_a_loop_number_their_draws_as_the_whole() -> None:
    whole = DrawNumbering()
    parts = whole.over_segments(3, 5)
    again = parts.over_segments(2, 2)
    for draw in (0, 7, 2**63 + 5):
        for i in range(4):
            segment, tail = parts.number(draw, i), whole.part(i)
            wanted = [whole.number(draw, 3 + 5 * i + j) for j in range(5)]
            assert [whole.number(segment, j) for j in range(5)] == wanted
            assert tail.number(draw, 2) == whole.number(draw, i + 2)
            inner = DrawNumbering(0, 5)
            segments = [inner.number(again.number(draw, i), j) for j in range(2)]
            assert segments == [parts.number(draw, 2 + 2 * i + j) for j in range(2)]


def test_updates_go_through_loops_in_place() -> None:
    state = tw.var("state", (1000,))
    moved = tw.fori_loop(0, 10, lambda i, s: s.at[i].add(1.0), state)
    program = tw.Graph([], [], updates={state: moved}).compile()
    program.set(state=np.zeros(1000))
    program.run(steps=3)
    assert program.state["state"][:11].tolist() == [3.0] * 10 + [0.0]


def test_loops_are_in_files(tmp_path: Path) -> None:
    for name, program in PROGRAMS.items():
        graph, values = graph_of(without_none(program)), values_of(program, 2)
        graph.save(tmp_path / "loops.tawny")
        loaded = tw.load(tmp_path / "loops.tawny")
        wanted = plain(without_none(program), values)
        for got, one in zip(loaded.compile()(*values), wanted, strict=True):
            np.testing.assert_allclose(got, one, rtol=1e-5, err_msg=name)
        loaded.save(tmp_path / "again.tawny")
        assert (tmp_path / "again.tawny").read_bytes() == (tmp_path / "loops.tawny").read_bytes()


def test_derivatives_of_users_in_bodies_are_left_out_of_files(tmp_path: Path) -> None:
    clipped = tw.checkpoint(lambda a: tnp.sin(a) * a)
    x = tw.var("x", (4,))
    graph = tw.Graph([x], tw.scan(lambda c, r: (clipped(c) + r, c), 0.5, x)[0])
    graph.save(tmp_path / "loop.tawny")
    value = np.arange(4.0)
    found = tw.load(tmp_path / "loop.tawny").compile()(value)
    np.testing.assert_allclose(found, graph.compile()(value))


def test_functions_of_the_user_run_in_each_step(engine: str) -> None:
    seen: list[float] = []

    def note(a: Any) -> Any:
        seen.append(float(a))
        return a * 2

    x = tw.var("x", (3,))
    last, _ = tw.scan(lambda c, r: (tw.delay(note, c) + r, None), 1.0, x)
    program = tw.Graph([x], last).compile(engine=engine)
    assert float(program(np.ones(3))) == 15.0
    assert seen == [1.0, 3.0, 7.0]


def test_what_fails_in_a_step_says_where(engine: str) -> None:
    k = tw.var("k", (3,), "int64")
    graph = tw.Graph([k], tw.scan(lambda c, n: (c + 2**n, c), np.asarray(1), k)[0])
    program = graph.compile(engine=engine)
    with pytest.raises(ValueError, match=r"negative.*test_loops\.py"):
        program(np.array([1, -1, 2]))
    assert int(program(np.array([1, 1, 2]))) == 9


# ---------------------------------------------------------------------- errors


ROWS = np.ones((3, 2))

MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "shape": (
        lambda: tw.scan(lambda c, r: (c + r, None), 0.0, ROWS),
        ValueError,
        r"carry is float64\[\] before a step and float64\[2\] after it \(made at test_loops.py:",
    ),
    "dtype": (
        lambda: tw.scan(lambda c, r: ({"a": c["a"] + 1j}, r), {"a": np.ones(2)}, ROWS),
        ValueError,
        r"carry, a, is float64\[2\] before a step and complex128\[2\] after",
    ),
    "structure": (
        lambda: tw.scan(lambda c, r: ((c, c), r), np.ones(2), ROWS),
        TypeError,
        r"an array before a step and \(\., \.\) after it",
    ),
    "no pair": (lambda: tw.scan(lambda c, r: c, 0.0, ROWS), TypeError, "a pair"),
    "lengths": (
        lambda: tw.scan(lambda c, r: (c, r[0]), 0.0, [ROWS, ROWS[:2]]),
        ValueError,
        "1, has 2 rows and 0 has 3",
    ),
    "length": (
        lambda: tw.scan(lambda c, r: (c, r), 0.0, ROWS, 4),
        ValueError,
        "length is 4, but xs have 3 rows",
    ),
    "negative length": (
        lambda: tw.scan(lambda c, r: (c, r), 0.0, length=-1),
        ValueError,
        "at least 0",
    ),
    "no length": (lambda: tw.scan(max, [1, 3, 2]), ValueError, r"np\.scan"),
    "fractional length": (
        lambda: tw.scan(lambda c, r: (c, r), 0.0, length=2.5),  # type: ignore[arg-type]
        TypeError,
        "an integer",
    ),
    "fractional bound": (
        lambda: tw.fori_loop(0, 2.5, lambda i, c: c, 0.0),  # type: ignore[arg-type]
        TypeError,
        "high must be an integer",
    ),
    "no function": (lambda: tw.scan(3, 0.0, ROWS), TypeError, "the function is int"),  # type: ignore[arg-type]
    "text": (
        lambda: tw.scan(lambda c, r: (c, "a"), 0.0, ROWS),
        TypeError,
        "a row is str",
    ),
    "number as rows": (lambda: tw.scan(lambda c, r: (c, r), 0.0, 3.0), ValueError, "no axis"),
    "results of branches": (
        lambda: tw.cond(True, lambda a: a, lambda a: a[0], np.ones(3)),
        ValueError,
        r"what if_false gives is float64\[\], and float64\[3\] in if_true",
    ),
    "structures of branches": (
        lambda: tw.switch(0, [lambda: (1, 2), lambda: 1]),
        TypeError,
        r"branch 0 gives \(\., \.\) and branch 1 an array",
    ),
    "no branches": (lambda: tw.switch(0, []), ValueError, "at least one"),
    "fractional index": (lambda: tw.switch(0.5, [lambda: 1]), TypeError, "one integer"),
    "choice": (
        lambda: tw.cond(np.ones(2) > 0, lambda: 1, lambda: 2),
        TypeError,
        r"bool\[2\]; it must give one truth value",
    ),
    "number for a choice": (lambda: tw.cond(1.0, lambda: 1, lambda: 2), TypeError, "truth value"),
    "no truth value": (
        lambda: tw.while_loop(lambda c: c, lambda c: c, 1.0),
        TypeError,
        "truth value",
    ),
    "carry of a while": (
        lambda: tw.while_loop(lambda c: c[0] > 0, lambda c: c[:2], np.ones(3)),
        ValueError,
        r"float64\[3\] before a step and float64\[2\] after it",
    ),
    "branch": (
        lambda: tw.scan(lambda c, r: (c + 1 if c > 0 else c, r), 0.0, ROWS),
        TypeError,
        "cannot branch.*tw.cond",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_explained(name: str) -> None:
    call, kind, text = MISTAKES[name]
    with pytest.raises(kind, match=text):
        call()


def test_arrays_of_a_step_cannot_be_used_outside() -> None:
    kept: list[Any] = []

    def step(carry: Any, row: Any) -> Any:
        kept.append(carry * row)
        return carry + row, None

    tw.scan(step, 0.0, np.ones(3))
    with pytest.raises(ValueError, match="step of a loop"):
        tw.Graph([], kept[0])
    for use in (tw.evaluate, float, np.asarray):
        with pytest.raises(TypeError, match=r"step of a loop.*let it return what is used later"):
            use(kept[0])


def test_dicts_may_have_their_items_in_another_order() -> None:
    def step(c: Any, r: Any) -> Any:
        return {"b": (c["b"][0], {"d": c["a"], "c": r}), "a": c["a"] + r}, None

    first = {"a": 0.0, "b": (5.0, {"c": 0.0, "d": 1.0})}
    last, _ = tw.scan(step, first, np.arange(1.0, 4.0))
    assert [float(x) for x in leaves(last)] == [6, 5, 3, 3]
    assert list(last) == ["a", "b"]
    x = tw.var("x")
    chosen = tw.cond(x > 0, lambda: {"p": x, "q": -x}, lambda: {"q": x * 2, "p": x * 3})
    found = tw.Graph([x], chosen).compile()(-1.0)
    assert (float(found["p"]), float(found["q"])) == (-3, -2)


def test_numbers_take_the_dtype_that_steps_give() -> None:
    x = np.ones(3, "float32")
    last, rows = tw.scan(lambda c, r: (c + r, (c, 1)), 0, x)
    assert (last.dtype, rows[0].dtype, rows[1].dtype) == ("float32", "float32", "int64")
    assert last.numpy() == 3


# -------------------------------------------------------------------- branches


def test_only_the_branch_that_is_taken_is_computed(engine: str) -> None:
    called: list[str] = []

    def noted(name: str) -> Callable[[Any], Any]:
        def note(a: Any) -> Any:
            called.append(name)
            return a

        return lambda a: tw.delay(note, tnp.sin(a)) * 2

    x = tw.var("x")
    program = tw.Graph([x], tw.cond(x > 0, noted("yes"), noted("no"), x)).compile(engine=engine)
    found = [float(program(v)) for v in (1.0, -1.0)]
    assert found == pytest.approx([2 * np.sin(1), -2 * np.sin(1)])
    assert called == ["yes", "no"]


def test_what_a_branch_alone_computes_may_fail_in_the_other() -> None:
    m, singular = tw.var("m", (2, 2)), np.zeros((2, 2))
    safe = tw.cond(tnp.linalg.det(m) != 0, lambda: tnp.linalg.inv(m), lambda: m)
    program = tw.Graph([m], safe).compile()
    assert program(singular).tolist() == singular.tolist()
    assert program(2 * np.eye(2)).tolist() == (np.eye(2) / 2).tolist()


def test_a_choice_that_is_known_is_made_by_the_optimiser() -> None:
    x = tw.var("x")
    made = tw.optimise(tw.Graph([x], tw.cond(False, tnp.sin, lambda a: a * 2, x)))
    assert [n.name for n in made.order if n.name in ("switch", "sin")] == []
    assert float(made.compile()(3.0)) == 6


def test_numbers_of_branches_take_the_dtype_of_the_others() -> None:
    x = tw.var("x", dtype="float32")
    assert tw.cond(x > 0, lambda: 0, lambda: x).dtype == "float32"


def test_draws_of_branches(engine: str) -> None:
    def draw() -> Any:
        return tw.random.normal(shape=(2,))

    def rows() -> Any:
        with tw.random.local_seed(4):
            return tw.scan(
                lambda c, _: (c + 1, tw.cond(c < 2, draw, lambda: draw() + 100)), 0, length=4
            )[1]

    found = tw.Graph([], rows()).compile(engine=engine)()
    wanted = tw.Graph([], rows()).compile(engine="reference", optimise=False)()
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert len(np.unique(found)) == 8
    assert (found[2:] > 50).all()


# ------------------------------------------------------------------ as long as


def test_bounds_may_be_known_when_the_program_runs(engine: str) -> None:
    n, x = tw.var("n", dtype="int64"), tw.var("x", (3,))
    program = tw.Graph([n, x], tw.fori_loop(1, n, lambda i, c: c + i, x)).compile(engine=engine)
    for count in (5, 0, 3):
        wanted = np.ones(3) + sum(range(1, count))
        np.testing.assert_allclose(program(count, np.ones(3)), wanted)


def test_the_peak_of_a_loop_of_unknown_length_is_fixed() -> None:
    x = tw.var("x", (500,))
    last = tw.while_loop(lambda c: tnp.sum(c) > 1, lambda c: tnp.cumsum(c)[::-1] * 1e-3, x)
    program = tw.Graph([x], last).compile(engine="cpu", threads=1)
    own: Any = program
    for scale in (1.0, 1e9):
        program(np.full(500, scale))
        assert own._compiled.executable.arena.nbytes == program.plan.peak_bytes


def test_arrays_without_variables_are_computed_when_they_are_asked_for() -> None:
    last = tw.while_loop(lambda c: c[0] < 200_000, lambda c: (c[0] + 1, c[1] * 0.5 + 1), (0, 1.0))
    assert (int(last[0]), float(last[1])) == (200_000, 2.0)
    sums = tw.scan(lambda c, r: (c + r, c), 0.0, np.ones(50_000))[1]
    assert float(sums[-1]) == 49_999


def test_a_loop_that_takes_long_goes_on_where_it_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its draws, in the middle of several runs, and after a failure."""
    monkeypatch.setattr(loops, "steps_at_once", lambda node: 7)
    monkeypatch.setattr(table, "steps_at_once", lambda node: 7)
    state, places = tw.var("state", (3,)), tw.var("places", (40,), "int64")
    numbers = tw.var("numbers", (5,))

    def step(c: Any) -> Any:
        i, a, n = c
        with tw.random.local_seed(6):
            return i + 1, a * 0.5 + tw.random.normal(shape=(3,)), n + numbers[places[i]]

    _, last, total = tw.while_loop(lambda c: c[0] < 40, step, (0, state, 0.0))
    graph = tw.Graph([places, numbers], [total * 1, last], updates={state: last + 1})
    programs = [graph.compile(engine=engine) for engine in ("cpu", "reference")]
    assert "by NumPy" not in str(programs[0].plan)
    for program in programs:
        program.set(state=np.zeros(3), places=np.arange(40) % 5, numbers=np.arange(5.0))
    found, wanted = (program.run(steps=4) for program in programs)
    for got, one in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, one, rtol=1e-12)
    np.testing.assert_allclose(programs[0].state["state"], programs[1].state["state"], rtol=1e-12)
    with pytest.raises(IndexError, match=r"99.*test_loops\.py"):
        programs[0](places=np.where(np.arange(40) == 20, 99, 1))
    assert float(programs[0](places=np.ones(40, "int64"))[0]) == 40


NEVER_ENDS = """
import os, signal, threading, time
import numpy, tawny as tw, tawny.numpy as np
signal.signal(signal.SIGINT, signal.default_int_handler)
x, n = tw.var("x", (10,)), tw.var("n")
goes_on = tw.while_loop(lambda c: np.all(c[0] < 5), lambda c: (c[0] * c[1], c[1]), (x, n))[0]
program = tw.Graph([x, n], goes_on, updates={x: x + 1}).compile()
assert program(numpy.ones(10), 2.0).tolist() == [8.0] * 10
for options in ({}, {"x": numpy.zeros(10)}):
    threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
    try:
        program(n=0.5, **options)
        raise SystemExit("it ended")
    except KeyboardInterrupt:
        pass
    program.set(x=numpy.full(10, 2.0))
    assert program(n=2.0).tolist() == [8.0] * 10, "it is as it was"
    assert program.state["x"].tolist() == [3.0] * 10
print("stopped")
"""


def test_a_loop_that_never_ends_is_interrupted() -> None:
    made = subprocess.run(
        [sys.executable, "-c", NEVER_ENDS], capture_output=True, text=True, timeout=120, check=False
    )
    assert made.stdout == "stopped\n", made.stderr


# --------------------------------------------------------------- hostile files


def a_graph() -> tw.Graph:
    x = tw.var("x", (4, 3))

    def step(c: Any, r: Any) -> Any:
        return tw.while_loop(lambda a: tnp.sum(a) < 0, lambda a: a + 1, c + r), tnp.sum(c * 2.5)

    last, sums = tw.scan(step, np.zeros(3), x)
    return tw.Graph([x], [tw.cond(sums[0] > 0, tnp.sin, tnp.cos, last), sums])


def body(data: dict[str, Any], op: str, *path: Any) -> Any:
    """What lies at a path in the attributes of the first node of an op."""
    found = next(n for n in data["nodes"] if n["op"] == op)["attributes"]
    for key in path:
        found = found[key]
    return found


def inner(data: dict[str, Any], op: str) -> Any:
    """The first node of an op in the loop."""
    return next(n for n in body(data, "loop", "body", "nodes") if n["op"] == op)


def nest(data: dict[str, Any]) -> None:
    """Loops in loops, too many of them."""
    loop = next(n for n in data["nodes"] if n["op"] == "switch")
    for _ in range(40):
        old = json.loads(json.dumps(loop["attributes"]))
        node = {"op": "switch", "attributes": old, "inputs": [0, 1], "types": [[[3], "float64"]]}
        branch = {"arguments": [[[], "int64"], [[3], "float64"]], "nodes": [node], "results": [2]}
        loop["attributes"] = {"branches": [branch]}


HOSTILE: list[tuple[Callable[[Any], object], str]] = [
    (lambda g: body(g, "loop").__setitem__("length", -1), "length is -1"),
    (lambda g: body(g, "loop").__setitem__("length", 7), "takes"),
    (lambda g: body(g, "loop").__setitem__("carries", 9), "too few arguments"),
    (lambda g: body(g, "loop").__setitem__("carries", 0), "loop"),
    (lambda g: body(g, "loop").__setitem__("stacked", 2), "loop"),
    (lambda g: body(g, "loop").__setitem__("reverse", 1), "reverse"),
    (lambda g: body(g, "loop", "body").__setitem__("results", [99]), "results"),
    (lambda g: body(g, "loop", "body").__setitem__("results", []), "too few"),
    (lambda g: body(g, "loop", "body").pop("nodes"), "expected an object of"),
    (lambda g: body(g, "loop", "body", "arguments").pop(), "inputs"),
    (lambda g: body(g, "loop", "body", "arguments", 1).__setitem__(1, "float32"), "loop"),
    (lambda g: body(g, "loop", "body", "nodes").append({"op": "variable"}), "variable"),
    (lambda g: inner(g, "add").__setitem__("op", "os.system"), "not known"),
    (lambda g: inner(g, "add").__setitem__("inputs", [0]), "operands"),
    (lambda g: inner(g, "add").__setitem__("inputs", [10**9, 0]), "inputs"),
    (lambda g: inner(g, "add").__setitem__("types", [[[9], "float64"]]), "what is written"),
    (lambda g: inner(g, "add").__setitem__("value", "AAAA"), "no value of its own"),
    (lambda g: inner(g, "constant").__setitem__("value", "AAAA"), "bytes"),
    (lambda g: inner(g, "constant").__setitem__("value", 3), "base64"),
    (lambda g: inner(g, "constant").__setitem__("value", "!"), "base64"),
    (lambda g: inner(g, "part")["attributes"].__setitem__("index", 4), "parts"),
    (lambda g: body(g, "switch", "branches").clear(), "nothing to choose"),
    (lambda g: body(g, "switch", "branches", 0, "results").clear(), "nothing|others"),
    (lambda g: body(g, "switch", "branches", 0, "arguments", 0).__setitem__(0, [5]), "switch"),
    (nest, "nested"),
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_bodies_in_files_are_refused(number: int) -> None:
    change, text = HOSTILE[number]
    file = opened(a_graph())
    change(file.graph)
    with pytest.raises(tw.GraphFileError, match=text):
        from_bytes(file.bytes())


def test_lines_of_steps_are_in_files(tmp_path: Path) -> None:
    k = tw.var("k", (3,), "int64")
    graph = tw.Graph([k], tw.scan(lambda c, n: (c + 2**n, c), np.asarray(1), k)[0])
    graph.save(tmp_path / "loop.tawny")
    with pytest.raises(ValueError, match=r"negative.*test_loops\.py"):
        tw.load(tmp_path / "loop.tawny").compile()(np.array([1, -1, 2]))
