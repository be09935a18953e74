"""When functions with effects run: in the first run, after a change of what they read, or always."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from tawny.op import FACTS


class Counted:
    """A function that counts its calls, and adds a number to what it is given."""

    def __init__(self, by: float = 0.0) -> None:
        self.calls = 0
        self.by = by

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        self.calls += 1
        return np.add(sum(arrays, np.zeros(2)), self.by)


def delayed(f, *arrays, **options):
    return tw.delay(f, *arrays, shape=(2,), dtype="float64", **options)


def test_a_function_runs_when_what_it_reads_changed(engine: str) -> None:
    x, y = tw.var("x", (2,)), tw.var("y", (2,))
    f, always, pure, none = Counted(), Counted(), Counted(), Counted(1.0)
    out = [
        delayed(f, x) + y,
        delayed(always, x, always=True) + y,
        delayed(pure, x, pure=True) + y,
        delayed(none) + y,
    ]
    program = tw.Graph([x, y], out).compile(engine=engine)
    ones = np.ones(2)

    def counts() -> tuple[int, ...]:
        return tuple([g.calls for g in (f, always, pure, none)])

    program(x=ones, y=ones)
    assert counts() == (1, 1, 1, 1)
    program(y=2 * ones)
    assert counts() == (1, 2, 1, 1)
    program.run(steps=3)
    assert counts() == (1, 5, 1, 1)
    results = program(x=2 * ones)
    assert counts() == (2, 6, 2, 1)
    for result, expected in zip(results, (4.0, 4.0, 4.0, 3.0), strict=True):
        np.testing.assert_array_equal(result, np.full(2, expected))


def test_what_follows_a_function_is_not_computed_again(engine: str) -> None:
    x, y = tw.var("x", (2,)), tw.var("y", (2,))
    heavy = tnp.exp(delayed(Counted(), x))
    program = tw.Graph([x, y], [heavy * y]).compile(engine=engine)
    program(np.ones(2), np.ones(2))
    program(y=np.zeros(2))
    assert [a.node.name for a in program.last_run.executed] == ["multiply"]
    assert "delay" in [a.node.name for a in program.affected(x)]
    assert "delay" not in [a.node.name for a in program.affected(y)]


def test_a_function_of_an_updated_variable_runs_in_each_step(engine: str) -> None:
    n, z = tw.var("n", (2,)), tw.var("z", (2,))
    f, g = Counted(1.0), Counted(5.0)
    graph = tw.Graph([z], [delayed(g, z)], updates={n: delayed(f, n)})
    program = graph.compile(engine=engine)
    program.set(n=np.zeros(2), z=np.zeros(2))
    program.run(steps=4)
    assert (f.calls, g.calls) == (4, 1)
    np.testing.assert_array_equal(program.state["n"], np.full(2, 4.0))


def test_functions_with_effects_are_never_merged_or_folded(engine: str) -> None:
    x = tw.var("x", (2,))
    f = Counted()
    known = delayed(f, np.ones(2)) + delayed(f, np.ones(2))
    program = tw.Graph([x], [known + x, delayed(f, x) - delayed(f, x)]).compile(engine=engine)
    assert f.calls == 0, "compiling calls nothing"
    program(np.ones(2))
    assert f.calls == 4
    program(np.zeros(2))
    assert f.calls == 6
    again = tw.Graph([x], [known + x]).compile(engine=engine)
    again(np.ones(2))
    again(np.zeros(2))
    assert f.calls == 8, "another program calls them once for itself"


def test_without_incremental_runs_everything_runs(engine: str) -> None:
    x, y = tw.var("x", (2,)), tw.var("y", (2,))
    f = Counted()
    program = tw.Graph([x, y], [delayed(f, x) + y]).compile(engine=engine, incremental=False)
    program(np.ones(2), np.ones(2))
    program(y=np.zeros(2))
    assert f.calls == 2
    jitted = tw.jit(lambda a: delayed(f, a))
    jitted(np.ones(2))
    jitted(np.ones(2))
    assert f.calls == 4


def test_printing_follows_what_is_printed(engine: str) -> None:
    x, y = tw.var("x"), tw.var("y")
    file = io.StringIO()
    program = tw.Graph([x, y], [tw.lazy_print(x * 2, file=file) + y]).compile(engine=engine)
    program(1.0, 1.0)
    program(y=2.0)
    program(x=3.0)
    assert file.getvalue().split() == ["2.", "6."]


def test_pure_and_always_contradict_each_other() -> None:
    with pytest.raises(ValueError, match=r"^delay: a pure function .* no need to run always"):
        delayed(Counted(), pure=True, always=True)


def test_a_failed_run_calls_all_functions_again() -> None:
    x, y = tw.var("x", (2,)), tw.var("y", (2,))
    f = Counted()

    def failing(a):
        if a[0] < 0:
            raise RuntimeError("negative")
        return a

    program = tw.Graph([x, y], [delayed(f, x) + delayed(failing, y)]).compile()
    program(np.ones(2), np.ones(2))
    with pytest.raises(RuntimeError, match="negative"):
        program(y=-np.ones(2))
    program(y=np.ones(2))
    assert f.calls == 2


# --------------------------------------------------------------- random programs

OPS = (tnp.sin, tnp.exp, lambda a: a * 2, lambda a: a[::-1])


@st.composite
def programs(draw):
    """A graph of variables, ops and functions with effects, and which inputs change in each run."""
    variables = [tw.var(f"v{k}", (2,)) for k in range(draw(st.integers(1, 3)))]
    values: list = [(v, frozenset({k}), False) for k, v in enumerate(variables)]
    functions = []
    for _ in range(draw(st.integers(2, 9))):
        a, b = (draw(st.sampled_from(values)) for _ in range(2))
        reads, anew = a[1] | b[1], a[2] or b[2]
        kind = draw(st.integers(0, 4))
        if kind == 0:
            f = Counted(draw(st.floats(-1, 1)))
            functions.append((f, reads, anew))
            values.append((delayed(f, a[0], b[0]), reads, anew))
        elif kind == 1 and draw(st.booleans()):
            f = Counted()
            functions.append((f, reads, True))
            values.append((delayed(f, a[0], always=True), a[1], True))
        elif kind == 2:
            values.append((draw(st.sampled_from(OPS))(a[0]), a[1], a[2]))
        else:
            values.append((a[0] + b[0], reads, anew))
    count = draw(st.integers(1, 3))
    outputs = [values[-1][0], *[draw(st.sampled_from(values))[0] for _ in range(count)]]
    changes = draw(st.lists(st.sets(st.integers(0, len(variables) - 1)), min_size=1, max_size=5))
    return variables, outputs, functions, changes


@settings(max_examples=40, deadline=None)
@given(case=programs(), budget=st.sampled_from([None, 1.0, 0.8, 0.5, 0.0]))
def test_functions_run_exactly_when_what_they_read_changed(engine: str, case, budget) -> None:
    """Whatever is kept or computed again within a budget."""
    variables, outputs, functions, changes = case
    graph = tw.Graph(variables, outputs, unused="ignore")
    memory = None
    if budget is not None:
        memory = int(graph.plan(engine=engine).peak_bytes * budget)
        try:
            graph.plan(engine=engine, memory=memory)
        except tw.MemoryBudgetError as error:
            memory = error.least_bytes
    program = graph.compile(engine=engine, memory=memory)
    used = {id(n.op.function.it) for n in graph.order if n.name == "delay"}
    functions = [row for row in functions if id(row[0]) in used]
    expected = [1 for _ in functions]
    state = {v.name: np.full(2, 0.1 * k) for k, v in enumerate(variables)}
    program.set(state)
    for f, *_ in functions:
        f.calls = 0
    program.run()
    for number, changed in enumerate(changes):
        new = {variables[k].name: np.full(2, 0.01 * number + 0.1 * k) for k in changed}
        state |= new
        made = program(**new)
        for place, (_, reads, anew) in enumerate(functions):
            expected[place] += bool(anew or reads & changed)
        assert [f.calls for f, *_ in functions] == expected
        calls = [f.calls for f, *_ in functions]
        fresh = tw.Graph(variables, outputs, unused="ignore").compile(
            engine="reference", incremental=False, optimise=False
        )
        for value, wanted in zip(made, fresh(**state), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12)
        for (f, *_), count in zip(functions, calls, strict=True):
            f.calls = count


def test_every_kind_of_user_function_says_when_it_runs() -> None:
    x = tw.var("x", (2,))
    made = [
        tw.delay(np.sin, x),
        tw.map_elements(abs, x),
        tw.fold(max, x),
        tnp.scan(max, x),
        tw.lazy_print(x),
        tw.delay(np.sin, x, always=True),
    ]
    facts = [a.node.op.facts() for a in made]
    assert [(f.impure, f.volatile) for f in facts] == [
        *itertools.repeat((True, False), 5),
        (True, True),
    ]
    drawn = {name for name, declared in FACTS.items() if declared.volatile}
    assert drawn == {name for name in FACTS if name.startswith("random_")}
