"""Graphs and programs as people write them: names for variables, odd names, numbers of any kind."""

from __future__ import annotations

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from engines import BINDING
from tawny.memory.budget import parse_bytes

# -------------------------------------------------------------------- variables


def test_shape_and_dtype_of_a_variable_by_position() -> None:
    for x in (
        tw.var("x", (3, 4), "float32"),
        tw.var("x", shape=(3, 4), dtype="float32"),
        tw.var("x", [3, np.int64(4)], np.float32),
        tw.var("x", (tnp.asarray(3), 4), dtype=np.float32),
    ):
        assert (x.name, x.shape, x.dtype) == ("x", (3, 4), np.float32)
    for size in (3, np.int64(3), np.asarray(3), tnp.asarray(3)):
        assert tw.var("v", size).shape == (3,)
    assert tw.var().shape == ()
    with pytest.raises(TypeError, match=r"^var: name must be a non-empty string, not \(3, 4\)"):
        tw.var((3, 4))


ASSIGNMENTS = {
    "an element": "w[0] = 1.0",
    "a slice": "w[1:] = 0",
    "adding": "w += 1.0",
    "scaling": "w *= 2",
    "twice": "w[0] = 1.0; w[1] = 2.0",
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_a_name_that_no_longer_stands_for_its_variable_is_explained(name: str) -> None:
    space = {"w": tw.var("weights", (3,))}
    exec(compile(ASSIGNMENTS[name], "model.py", "exec"), space)
    w = space["w"]
    said = r"was variable 'weights' until it was assigned to \(model.py:1.*\): .*x.at\[i\].set\(v\)"
    with pytest.raises(ValueError, match=rf"^Graph: input 0 {said}.*\[test_program"):
        tw.Graph([w], [w * 2])
    with pytest.raises(ValueError, match=rf"^Graph: the target of an update {said}"):
        tw.Graph([], [w * 2], updates={w: w})
    weights = tw.var("weights", (3,))
    program = tw.Graph([weights], [weights * 2]).compile(engine="reference")
    with pytest.raises(ValueError, match=rf"what affected is given {said}"):
        program.affected(w)


def test_assigning_to_an_argument_of_a_jitted_function_is_numpys() -> None:
    @tw.jit
    def f(w):
        w[0] = 1.0
        w += 1
        return w

    np.testing.assert_array_equal(f(np.zeros(2)), [2.0, 1.0])


# -------------------------------------------------------------- values and names


def test_known_lazy_arrays_are_values(engine: str) -> None:
    x, n = tw.var("x", (3,)), tw.var("n", (), "int64")
    program = tw.Graph([x, n], [x * 2 + n]).compile(engine=engine)
    given, number = tnp.arange(3.0) + 1, tnp.asarray(4)
    expected = np.array([6.0, 8.0, 10.0])
    np.testing.assert_array_equal(program(given, number)[0], expected)
    np.testing.assert_array_equal(program(n=number, x=given)[0], expected)
    program.set(x=tnp.zeros(3), n=tnp.asarray(1))
    np.testing.assert_array_equal(program.run()[0], np.ones(3))
    swept = program.sweep(n=[tnp.asarray(k) for k in range(3)])
    assert [row[0][0] for row in swept] == [0.0, 1.0, 2.0]
    program.set({x: tnp.ones(3), "n": 0})
    np.testing.assert_array_equal(program.run()[0], np.full(3, 2.0))
    with pytest.raises(TypeError, match=r"variable 'x': the array depends on variable 'x'"):
        program(x=x + 1)
    with pytest.raises(ValueError, match=r"variable 'x' was given shape \(2,\); it has \(3,\)"):
        program(x=tnp.zeros(2))
    with pytest.raises(TypeError, match="'n' was given dtype float64; it has int64"):
        program(n=tnp.asarray(0.5))
    np.testing.assert_array_equal(program.get("x"), np.ones(3))


def test_variables_by_name(engine: str) -> None:
    price, rate = tw.var("price", (2,)), tw.var("rate")
    fixed = tnp.exp(price)
    out = fixed * rate
    graph = tw.Graph([price, rate], [out])
    for often in ("rate", ["rate"], rate, [rate], ("rate",), iter(["rate"])):
        plan = graph.plan(often=often, engine=engine)
        assert len(plan.kept) == len(graph.plan(often=[rate], engine=engine).kept) > 0
    program = graph.compile(engine=engine)
    program(np.ones(2), 2.0)
    assert program.affected("price") == program.affected(price)
    assert program.affected("rate", price) == program.affected(rate, "price")
    for wrong, said in (
        ("prize", "'prize' is no variable of this graph; accepted: price, rate"),
        (tw.var("other"), "'other' is no variable of this graph"),
        (out, "what affected is given is multiply .* not a variable"),
        (3, "what affected is given is int; accepted: variables"),
    ):
        with pytest.raises((TypeError, ValueError), match=said):
            program.affected(wrong)
    with pytest.raises(ValueError, match=r"^often: 'prize' is no variable of this graph"):
        graph.compile(often=["prize"])
    with pytest.raises(TypeError, match="often is int; accepted: variables, or their names"):
        graph.compile(often=3)
    with pytest.raises(ValueError, match=r"^get: 'prize' is no variable"):
        program.get("prize")


def test_updates_by_name_and_without_outputs(engine: str) -> None:
    n, step = tw.var("n"), tw.var("step")
    for updates in ({"n": n + step}, {n: n + step}):
        for outputs in ([], (), None):
            program = tw.Graph([step], outputs, updates=updates).compile(engine=engine)
            program.set(n=1.0, step=2.0)
            assert program.run(steps=3) == ()
            assert program.get("n") == 7.0
            assert program(step=1.0) == ()
            assert program.state["n"] == 8.0
    swapped = tw.Graph([n, step], [], updates={"n": step, "step": n}).compile(engine=engine)
    assert swapped(1.0, 2.0) == ()
    assert (swapped.get("n"), swapped.get("step")) == (2.0, 1.0)
    kept = tw.Graph([step], {}, updates={"n": n + step}).compile(engine=engine)
    kept.set(n=0.0)
    assert kept(1.0) == {}
    for wrong, said in (
        ({"m": n + 1}, "no variable is called 'm'; accepted: step, n"),
        ({"n": n + tw.var("n")}, "two variables are called 'n'"),
        ({3: n}, "the target of an update is int"),
        ({"n": 3}, "the update of 'n' is int, not an array"),
        ([(n, n + 1)], "updates is list; accepted: a dict from variables, or their names"),
        (n, "updates is Array; accepted: a dict"),
        ({"n": n + 1, n: n + 2}, "variable 'n' is updated twice"),
    ):
        with pytest.raises((TypeError, ValueError), match=said):
            tw.Graph([step, n], [n * step], updates=wrong)
    with pytest.raises(ValueError, match="there is no output and no update"):
        tw.Graph([n], [])
    with pytest.raises(TypeError, match="inputs must be a list of variables, not int"):
        tw.Graph(3, [n])


@pytest.mark.parametrize(
    "name", ["self", "bind", "values", "steps", "lists", "by_name", "x y", "a.b", "λ", "None"]
)
def test_variables_may_have_any_name(name: str, engine: str) -> None:
    v = tw.var(name)
    program = tw.Graph([v], [v * 2], updates={name: v + 1}).compile(engine=engine)
    assert program(**{name: 3.0}) == (6.0,)
    assert program.state[name] == 4.0
    program.set(**{name: 5.0})
    assert program.run() == (10.0,)
    program.set({name: 6.0})
    assert program.run() == (12.0,)
    assert program.sweep(**{name: [1.0, 2.0]}) == [(2.0,), (4.0,)]
    assert program.sweep({name: [1.0, 2.0]}) == [(2.0,), (4.0,)]
    assert program.affected(name) == [*program.affected(v)]
    if engine in BINDING:
        own = np.array(7.0)
        program.set({name: own}, bind=True)
        assert program.run() == (14.0,)
        assert own == 8.0
        program.touch(name)


def test_a_variable_called_bind_and_the_option() -> None:
    flag, x = tw.var("bind", (), "bool"), tw.var("x")
    program = tw.Graph([flag, x], [tnp.where(flag, x, -x)]).compile(engine="reference")
    program.set({"bind": True}, x=1.0)
    assert program.run() == (1.0,)
    program.set({"bind": False})
    assert program.run() == (-1.0,)
    with pytest.raises(ValueError, match="a variable is called 'bind', as is the option"):
        program.set(bind=True)
    assert program.run() == (-1.0,)
    program.set(bind=np.bool_(True))
    assert program.run() == (1.0,)
    other = tw.Graph([x], [x * 1]).compile(engine="reference")
    with pytest.raises(TypeError, match="bind is 1; it must be True or False"):
        other.set(bind=1)
    with pytest.raises(TypeError, match="values are list; accepted: a dict"):
        other.set([1.0])
    with pytest.raises(TypeError, match="variable 'x' was given twice"):
        other.set({"x": 1.0}, x=2.0)


# ---------------------------------------------------------------------- numbers


def test_numbers_of_steps(engine: str) -> None:
    n = tw.var("n", (), "int64")
    program = tw.Graph([n], [n * 10], updates={n: n + 1}).compile(engine=engine)
    program.set(n=0)
    with pytest.raises(ValueError, match="steps is 0, and the program has not run yet"):
        program.run(steps=0)
    assert program.run(steps=2) == (10,)
    assert program.run(steps=0) == (10,)
    assert np.asarray(program.run(0, views=True)[0]) == 10
    assert program.state["n"] == 2
    assert program.draw == 2
    assert program.run(np.int64(2)) == (30,)
    assert program.run(tnp.asarray(1)) == (40,)
    for wrong, said in (
        (-1, "steps is -1; it must be at least 0"),
        (1.5, "steps must be an integer, not float 1.5"),
        ("2", "steps must be an integer, not str '2'"),
        (None, "steps must be an integer, not NoneType None"),
    ):
        with pytest.raises((TypeError, ValueError), match=said):
            program.run(wrong)
    assert program.state["n"] == 5


BYTES = {
    1.5e6: 1_500_000,
    np.float64(2e6): 2_000_000,
    np.int32(7): 7,
    1234.5: 1234,
    12.0: 12,
    "1.5e6": 1_500_000,
    "1e-3 GB": 1_000_000,
    "2.5E3kB": 2_500_000,
    "64 KiB": 65_536,
    ".5MB": 500_000,
    "12": 12,
}


@pytest.mark.parametrize("given", BYTES)
def test_budgets(given: object) -> None:
    assert parse_bytes(given) == BYTES[given]


@pytest.mark.parametrize(
    "given", [float("nan"), 1.5, float("inf"), -1.0, "1e", "e6", "-5", "1.5.2MB", [1], 1j, "5 XB"]
)
def test_wrong_budgets(given: object) -> None:
    x = tw.var("x", (4,))
    with pytest.raises((TypeError, ValueError), match=r"^memory: .*\[test_program_spellings.py"):
        tw.Graph([x], [x * 2]).compile(memory=given)


def test_a_budget_may_be_a_float_and_threads_an_integer() -> None:
    x = tw.var("x", (64,))
    graph = tw.Graph([x], [tnp.sin(x) @ x])
    assert graph.compile(memory=1.5e6).plan.peak_bytes <= 1.5e6
    assert graph.compile(threads=np.int64(2))(np.zeros(64)) == (0.0,)
    for wrong, said in (
        ({"threads": "2"}, "threads must be an integer, not str '2'"),
        ({"threads": 1.5}, "threads must be an integer, not float 1.5"),
        ({"threads": 0}, "threads is 0; it must be at least 1"),
        ({"disable": 3}, "rules are named by int"),
        ({"plan": 3}, "plan is 3; accepted"),
        ({"engine": 3}, "3"),
    ):
        for use in (graph.compile, graph.plan, graph.explain):
            with pytest.raises((TypeError, ValueError), match=said):
                use(**wrong)
    with pytest.raises(TypeError, match=r"^diff: int is no Plan"):
        graph.plan().diff(3)
