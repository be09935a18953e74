"""Loops against Python's own over NumPy, on every engine; their plans, draws, files, errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from loop_programs import LAZY, PLAIN, PROGRAMS, LoopProgram, RandomLoops, values_of
from poisoned import Poisoned
from tawny.node import toposort
from tawny.ops.loops import ScanLoop
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
    "branch": (
        lambda: tw.scan(lambda c, r: (c + 1 if c > 0 else c, r), 0.0, ROWS),
        TypeError,
        "cannot branch",
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
    with pytest.raises(TypeError, match="step of a loop"):
        kept[0].numpy()


def test_numbers_take_the_dtype_that_steps_give() -> None:
    x = np.ones(3, "float32")
    last, rows = tw.scan(lambda c, r: (c + r, (c, 1)), 0, x)
    assert (last.dtype, rows[0].dtype, rows[1].dtype) == ("float32", "float32", "int64")
    assert last.numpy() == 3
