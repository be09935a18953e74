"""Solvers against SciPy's and finite differences, on every engine, mapped and nested."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.sparse.linalg

import tawny as tw
import tawny.numpy as tnp
from tawny.engine.evaluation import evaluate

RNG = np.random.default_rng(0)
NOISE = RNG.normal(size=(12, 12))
GENERAL = NOISE + 6 * np.eye(12)
POSITIVE = NOISE @ NOISE.T + 6 * np.eye(12)
TWISTED = GENERAL + 1j * RNG.normal(size=(12, 12))
HERMITIAN = TWISTED @ TWISTED.conj().T + 6 * np.eye(12)
SIDE = RNG.normal(size=12)


def computed(outputs: Any, engine: str, variables: Any = (), *values: Any) -> Any:
    return tw.Graph(list(variables), outputs).compile(engine=engine)(*values)


def derivatives(f: Callable[[Any], Any], x: float, several: bool) -> list[float]:
    """First and second derivatives in each mode, and in mixtures; all of these if `several`."""

    def tangent(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda a: tw.jvp(g, (a,), (1.0,))[1]

    made = [tw.grad(f), tangent(f), tangent(tw.grad(f)), tw.grad(tangent(f))]
    made += [tw.grad(tw.grad(f)), tangent(tangent(f))] if several else []
    return [float(a) for a in evaluate(*[g(x) for g in made])]


def check_derivatives(f: Callable[[Any], Any], x: float, several: bool = True) -> None:
    """All are what finite differences of the function say."""
    step, tolerance = 1e-3, 1e-6
    places = x + step * np.array([1.0, 0.0, -1.0, 2.0, -2.0])
    ahead, here, behind, *far = (float(y) for y in tw.vmap(f)(places).numpy())
    slope = (8 * (ahead - behind) - (far[0] - far[1])) / (12 * step)
    bend = (16 * (ahead + behind) - (far[0] + far[1]) - 30 * here) / (12 * step**2)
    found = derivatives(f, x, several)
    np.testing.assert_allclose(found[:2], slope, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found[2:], bend, rtol=100 * tolerance, atol=100 * tolerance)


# ---------------------------------------------------------------- linear systems

SYSTEMS: dict[str, tuple[Any, Any, Any, Any]] = {
    "cg": (tw.solve.cg, scipy.sparse.linalg.cg, POSITIVE, SIDE),
    "cg, complex": (tw.solve.cg, scipy.sparse.linalg.cg, HERMITIAN, SIDE * (1 - 2j)),
    "cg, float32": (tw.solve.cg, scipy.sparse.linalg.cg, POSITIVE.astype("f"), SIDE.astype("f")),
    "gmres": (tw.solve.gmres, scipy.sparse.linalg.gmres, GENERAL, SIDE),
    "gmres, complex": (tw.solve.gmres, scipy.sparse.linalg.gmres, TWISTED, SIDE),
    "gmres, float32": (
        tw.solve.gmres,
        scipy.sparse.linalg.gmres,
        GENERAL.astype("f"),
        SIDE.astype("f"),
    ),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_are_solved_as_by_scipy(name: str, engine: str) -> None:
    ours, theirs, matrix, b = SYSTEMS[name]
    rtol = 1e-5 if matrix.dtype == "float32" else 1e-11
    x, info = computed(list(ours(matrix, b, rtol=rtol)), engine)
    wanted, flag = theirs(matrix, b, rtol=rtol)
    assert int(info) == flag == 0
    assert x.dtype == wanted.dtype
    assert np.linalg.norm(matrix @ x - b) <= 1.1 * rtol * np.linalg.norm(b)
    np.testing.assert_allclose(x, wanted, rtol=1e3 * rtol, atol=rtol)


@pytest.mark.parametrize("options", [{"restart": 3}, {"restart": 3, "maxiter": 1}, {"restart": 50}])
def test_restarts_are_those_of_scipy(options: Any) -> None:
    x, info = tw.solve.gmres(GENERAL, SIDE, rtol=1e-10, **options)
    wanted, flag = scipy.sparse.linalg.gmres(GENERAL, SIDE, rtol=1e-10, **options)
    assert bool(int(info)) == bool(flag)
    np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-6)


def test_steps_of_conjugate_gradients_are_those_of_scipy() -> None:
    x, info = tw.solve.cg(POSITIVE, SIDE, rtol=1e-12, maxiter=4)
    wanted, flag = scipy.sparse.linalg.cg(POSITIVE, SIDE, rtol=1e-12, maxiter=4)
    assert int(info) == flag == 4
    np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-10)


@pytest.mark.parametrize("solve", [tw.solve.cg, tw.solve.gmres])
def test_guesses_preconditioners_and_structures(solve: Any) -> None:
    exact = np.linalg.solve(POSITIVE, SIDE)
    near = np.linalg.inv(POSITIVE) + 1e-3 * np.eye(12)
    for options in ({"x0": exact + 0.1}, {"M": near}, {"M": lambda v: v / POSITIVE.diagonal()}):
        x, info = solve(POSITIVE, SIDE, rtol=1e-11, **options)
        assert int(info) == 0
        np.testing.assert_allclose(x.numpy(), exact, rtol=1e-8)

    def product(parts: Any) -> Any:
        made = POSITIVE @ tnp.concat([parts["a"], parts["b"][0].ravel()])
        return {"b": (made[4:].reshape(4, 2),), "a": made[:4]}

    b = {"a": SIDE[:4], "b": (SIDE[4:].reshape(4, 2),)}
    x, info = solve(product, b, rtol=1e-11)
    np.testing.assert_allclose(x["b"][0].numpy().ravel(), exact[4:], rtol=1e-8)
    x, info = solve(POSITIVE, np.zeros(12))
    assert int(info) == 0
    assert not x.numpy().any()


@pytest.mark.parametrize("solve", [tw.solve.cg, tw.solve.gmres])
def test_derivatives_of_systems_are_those_of_the_direct_solution(solve: Any) -> None:
    def loss(solve: Any, a: Any, b: Any) -> Any:
        return tnp.sum(tnp.sin(solve(a, b)))

    found = tw.grad(lambda a, b: loss(lambda *s: solve(*s, rtol=1e-13)[0], a, b), argnums=(0, 1))
    wanted = tw.grad(lambda a, b: loss(tnp.linalg.solve, a, b), argnums=(0, 1))
    for got, one in zip(found(POSITIVE, SIDE), wanted(POSITIVE, SIDE), strict=True):
        np.testing.assert_allclose(got.numpy(), one.numpy(), rtol=1e-9, atol=1e-12)

    def along(s: Any) -> Any:
        matrix = POSITIVE + tnp.diag(SIDE**2) * s
        x, _ = solve(lambda v: matrix @ v, SIDE * s, rtol=1e-13, M=lambda v: v / 6)
        return tnp.sum(tnp.cos(x))

    check_derivatives(along, 0.7)


def test_complex_systems_have_the_derivatives_of_the_direct_solution() -> None:
    def loss(solve: Any) -> Any:
        return lambda a, b: tnp.sum(tnp.abs(solve(a, b)) ** 2)

    found = tw.grad(loss(lambda a, b: tw.solve.gmres(a, b, rtol=1e-13)[0]), argnums=(0, 1))
    wanted = tw.grad(loss(tnp.linalg.solve), argnums=(0, 1))
    b = SIDE * (1 - 1j)
    for got, one in zip(found(TWISTED, b), wanted(TWISTED, b), strict=True):
        np.testing.assert_allclose(got.numpy(), one.numpy(), rtol=1e-9, atol=1e-12)


def test_systems_that_have_no_solution_say_so() -> None:
    singular = np.diag([1.0, 2.0, 0.0])
    for solve in (tw.solve.cg, tw.solve.gmres):
        x, info = solve(singular, np.ones(3), maxiter=5)
        assert int(info) > 0
    x, info = tw.solve.gmres(np.zeros((3, 3)), np.ones(3), maxiter=2)
    assert int(info) > 0
    assert x.numpy().tolist() == [0, 0, 0]
    slope = tw.grad(lambda b: tw.solve.cg(POSITIVE, b, rtol=1e-12, maxiter=2)[0][0])(SIDE)
    assert np.isnan(slope.numpy()).all(), "the system of the derivative does not converge either"


# ---------------------------------------------------------- roots and fixed points


def tridiagonal(x: Any, xp: Any = tnp) -> Any:
    """Broyden's."""
    zero = xp.zeros(1, x.dtype)
    return (
        (3 - 0.5 * x) * x - xp.concatenate([zero, x[:-1]]) - 2 * xp.concatenate([x[1:], zero]) + 1
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_roots_are_those_of_scipy(dtype: str, engine: str) -> None:
    found = tw.solve.root(tridiagonal, -np.ones(20, dtype))
    x, converged, steps = computed(list(found), engine)
    wanted = scipy.optimize.root(tridiagonal, -np.ones(20), args=(np,), tol=1e-12)
    assert bool(converged)
    assert int(steps) < 12
    assert x.dtype == dtype
    np.testing.assert_allclose(x, wanted.x, rtol=1e-10 if dtype == "float64" else 1e-5)


def test_steps_towards_a_root_are_shortened() -> None:
    """Plain steps of Newton's go astray here."""
    assert float(tw.solve.root(tnp.arctan, 3.0).x) == pytest.approx(0, abs=1e-12)
    valley = tw.solve.root(
        lambda x: tnp.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]]), np.array([-1.2, 1.0])
    )
    np.testing.assert_allclose(valley.x.numpy(), [1, 1])


def test_what_is_no_root_is_nan() -> None:
    for f, start in (
        (lambda x: x * x + 1, 1.0),
        (lambda x: x * x - 4, 0.0),
        (lambda x: tnp.sqrt(x), -1.0),
    ):
        found = tw.solve.root(f, start)
        assert not bool(found.converged)
        assert np.isnan(float(found.x))
    slow = tw.solve.root(lambda x: x * x, 1.0, maxiter=3)
    assert not bool(slow.converged)
    assert int(slow.steps) == 3
    exact = tw.solve.root(lambda x: x * x, 0.0)
    assert (float(exact.x), bool(exact.converged)) == (0, True)


def test_derivatives_of_roots() -> None:
    check_derivatives(lambda a: tw.solve.root(lambda x: x**3 + a * x - 2, 1.0).x, 0.8)

    def pair(a: Any) -> Any:
        start = {"x": 1.0, "y": np.ones(2)}

        def f(s: Any, b: Any) -> Any:
            return {"x": s["x"] ** 2 - a - b, "y": tnp.sin(s["y"]) - s["x"] * 0.3 * a}

        found = tw.solve.root(f, start, (a * a,)).x
        return found["x"] * tnp.sum(found["y"])

    check_derivatives(pair, 0.6)


def test_fixed_points_are_those_of_scipy(engine: str) -> None:
    def f(x: Any, a: Any, b: Any, xp: Any = tnp) -> Any:
        return xp.sqrt(a / (x + b))

    a, b, start = np.array([10.0, 12.0]), np.array([3.0, 5.0]), np.array([1.2, 1.3])
    x, converged, _ = computed(list(tw.solve.fixed_point(f, start, (a, b), tol=1e-12)), engine)
    assert bool(converged)
    np.testing.assert_allclose(
        x, scipy.optimize.fixed_point(f, start, args=(a, b, np), xtol=1e-12), rtol=1e-10
    )


def test_derivatives_of_fixed_points() -> None:
    check_derivatives(
        lambda a: tw.solve.fixed_point(lambda x: tnp.cos(a * x), 0.3, tol=1e-14).x, 0.8
    )
    matrix = NOISE / np.linalg.norm(NOISE, 2) * 0.7

    def state(a: Any) -> Any:
        found = tw.solve.fixed_point(
            lambda h: tnp.tanh(h @ (a * matrix) + SIDE), np.zeros(12), tol=1e-14
        )
        return tnp.sum(found.x**2)

    check_derivatives(state, 0.9)


def test_complex_fixed_points() -> None:
    def point(a: Any) -> Any:
        return tw.solve.fixed_point(lambda z: (z + a) / (3 + 1j), 0j, tol=1e-14).x

    assert complex(point(1 + 2j)) == pytest.approx((1 + 2j) / (2 + 1j))
    slope = tw.grad(lambda a: tnp.real(point(a)))(1 + 2j)
    wanted = tw.grad(lambda a: tnp.real(a / (2 + 1j)))(1 + 2j)
    assert complex(slope) == pytest.approx(complex(wanted))


def test_points_that_do_not_attract_are_nan() -> None:
    for f in (lambda x: 2 * x + 1, lambda x: -x, lambda x: x * np.nan):
        found = tw.solve.fixed_point(f, 1.0)
        assert not bool(found.converged)
        assert np.isnan(float(found.x))


# ------------------------------------------------------------- initial value problems


def oscillator(t: Any, y: Any, xp: Any = tnp) -> Any:
    """Van der Pol's, with a force."""
    return xp.stack([y[1], 2 * (1 - y[0] ** 2) * y[1] - y[0] + xp.sin(t)])


TIMES = np.array([0.0, 0.7, 1.5, 4.0])


@pytest.mark.parametrize("times", [TIMES[::-1] / 4, TIMES[[0, 2, 1, 1, 3]]])
def test_trajectories_are_those_of_scipy(times: Any, engine: str) -> None:
    made = tw.solve.ode(oscillator, np.array([1.0, -0.5]), times, rtol=1e-8, atol=1e-10)
    y, success, _ = computed([made.y, made.success, made.steps], engine)
    assert bool(success)
    for at, row in zip(times, y, strict=True):
        wanted = scipy.integrate.solve_ivp(
            lambda t, y: oscillator(t, y, np), (times[0], at), [1.0, -0.5], rtol=1e-11, atol=1e-12
        )
        np.testing.assert_allclose(row, wanted.y[:, -1], rtol=1e-6, atol=1e-7)


def test_an_adaptive_step_is_that_of_scipy() -> None:
    """With the same tolerance it takes as many steps, within a few for the last one."""
    options = {"rtol": 1e-6, "atol": 1e-9}
    made = tw.solve.ode(oscillator, np.array([1.0, -0.5]), [0.0, 20.0], **options)
    wanted = scipy.integrate.solve_ivp(
        lambda t, y: oscillator(t, y, np), (0, 20), [1.0, -0.5], **options
    )
    assert abs(int(made.steps) - (wanted.nfev - 2) // 6) <= 3
    np.testing.assert_allclose(made.y[-1].numpy(), wanted.y[:, -1], rtol=1e-5)


def test_fixed_steps_are_of_order_four(engine: str) -> None:
    def error(steps: int) -> float:
        made = tw.solve.ode(
            lambda t, y: -t * y, 1.0, np.linspace(0, 2, 5), method="rk4", steps=steps
        )
        y, count = computed([made.y, made.steps], engine)
        assert int(count) == 4 * steps
        return abs(y[-1] - np.exp(-2))

    assert error(2) / error(8) == pytest.approx(256, rel=0.4)


def test_structures_dtypes_and_constant_rates() -> None:
    def f(t: Any, s: Any) -> Any:
        return {"v": (-s["x"],), "x": s["v"][0]}

    made = tw.solve.ode(f, {"x": np.ones(2), "v": (np.zeros(2),)}, [0, np.pi / 2, np.pi])
    np.testing.assert_allclose(made.y["x"].numpy(), [[1, 1], [0, 0], [-1, -1]], atol=1e-5)
    turn = tw.solve.ode(lambda t, y: 1j * y, 1 + 0j, [0, np.pi], rtol=1e-9).y
    np.testing.assert_allclose(turn.numpy(), [1, -1], atol=1e-7)
    small = tw.solve.ode(lambda t, y: -y, np.float32(1), [0, 1])
    assert (small.t.dtype, small.y.dtype) == ("float32", "float32")
    np.testing.assert_allclose(small.y[-1].numpy(), np.exp(-1), rtol=1e-4)
    line = tw.solve.ode(lambda t, y: 2.0, 1, [0, 3])
    assert tw.solve.ode(lambda t, y: y, 3.0, [1.0]).y.numpy().tolist() == [3]
    assert line.y.numpy().tolist() == pytest.approx([1, 7])


def test_what_is_not_reached_is_nan() -> None:
    pole = tw.solve.ode(lambda t, y: y * y, 1.0, [0, 0.5, 2.0, 3.0])
    y = pole.y.numpy()
    assert not bool(pole.success)
    assert y[1] == pytest.approx(2)
    assert np.isnan(y[2:]).all()
    stiff = tw.solve.ode(lambda t, y: -1e4 * (y - tnp.cos(t)), 1.0, [0, 0.01, 9], max_steps=200)
    assert (bool(stiff.success), int(stiff.steps)) == (False, 200)
    assert np.isnan(stiff.y.numpy()).tolist() == [False, False, True]
    lost = tw.solve.ode(lambda t, y: y * np.nan, 1.0, [0.0, 1.0])
    assert not bool(lost.success)


@pytest.mark.parametrize("options", [{"rtol": 1e-9, "atol": 1e-10}, {"method": "rk4", "steps": 9}])
def test_derivatives_of_trajectories(options: Any) -> None:
    """In the parameters, the first value and the times at once."""

    def loss(a: Any) -> Any:
        def f(t: Any, y: Any) -> Any:
            return tnp.stack([y[1] * a, -tnp.sin(y[0]) - a * t * y[1]])

        start = tnp.stack([a, a * a])
        times = tnp.stack([a * 0.1, a * a])
        return tnp.sum(tnp.sin(tw.solve.ode(f, start, times, **options).y))

    check_derivatives(loss, 0.9, several=False)


def test_complex_trajectories_have_the_derivatives_of_their_formula() -> None:
    def last(w: Any) -> Any:
        made = tw.solve.ode(lambda t, y: w * y * tnp.cos(t), 1 + 0.5j, [0, 1.0], rtol=1e-11)
        return tnp.real(made.y[-1])

    wanted = tw.grad(lambda w: tnp.real((1 + 0.5j) * tnp.exp(w * np.sin(1))))(2 + 1j)
    assert complex(tw.grad(last)(2 + 1j)) == pytest.approx(complex(wanted), rel=1e-7)


def test_the_gradient_of_many_parameters(engine: str) -> None:
    """Of a network that says the rate, in a program, beside SciPy's finite differences."""
    w = tw.var("w", (2, 2))

    def last(w: Any) -> Any:
        return tnp.sum(
            tw.solve.ode(lambda t, y: tnp.tanh(w @ y), np.ones(2), [0, 0.5, 1], rtol=1e-9).y[1:]
        )

    found = computed([last(w), tw.grad(last)(w)], engine, [w], NOISE[:2, :2])[1]

    def plain(w: Any) -> Any:
        made = scipy.integrate.solve_ivp(
            lambda t, y: np.tanh(w.reshape(2, 2) @ y), (0, 1), np.ones(2),
            t_eval=[0.5, 1], rtol=1e-12, atol=1e-12,
        )  # fmt: skip
        return made.y.sum()

    wanted = scipy.optimize.approx_fprime(NOISE[:2, :2].ravel(), plain, 1e-6)
    np.testing.assert_allclose(found.ravel(), wanted, rtol=1e-4)


# ------------------------------------------------------------------ together with the rest

SOLVERS: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "cg": (lambda a: tw.solve.cg(POSITIVE * a, SIDE, rtol=1e-12)[0][0], [1.0, 2.0, 0.5]),
    "gmres": (lambda a: tw.solve.gmres(GENERAL * a, SIDE, rtol=1e-12)[0][0], [1.0, 2.0, 0.5]),
    "root": (lambda a: tw.solve.root(lambda x: x**3 - a, 1.0).x, [1.0, 27.0, 0.1]),
    "fixed point": (lambda a: tw.solve.fixed_point(lambda x: tnp.cos(a * x), 0.3).x, [0.3, 0.8]),
    "dopri5": (lambda a: tw.solve.ode(lambda t, y: -a * y, 1.0, [0, 1]).y[-1], [1.0, 9.0, 0.1]),
    "rk4": (
        lambda a: tw.solve.ode(lambda t, y: -a * y, 1.0, [0, 1], method="rk4", steps=4).y[-1],
        [1.0, 2.0],
    ),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_in_batches_loops_and_programs(name: str, engine: str) -> None:
    solve, values = SOLVERS[name]
    both = tw.value_and_grad(solve)
    wanted = np.array(evaluate(*[part for v in values for part in both(v)])).reshape(-1, 2).T
    x = tw.var("x", (len(values),))
    batch = tw.vmap(both)(x)
    loop = tw.scan(lambda c, a: (c + solve(a), None), 0.0, x)[0]
    found = computed([*batch, loop, tw.jit(solve)(x[0])], engine, [x], np.array(values))
    options = {"rtol": 1e-5, "atol": 1e-8}
    np.testing.assert_allclose(found[0], wanted[0], **options)
    np.testing.assert_allclose(found[1], wanted[1], **options)
    np.testing.assert_allclose(found[2], wanted[0].sum(), **options)
    np.testing.assert_allclose(found[3], wanted[0][0], **options)


@pytest.mark.parametrize("name", SOLVERS)
def test_gradients_go_through_loops_of_solvers(name: str) -> None:
    solve, values = SOLVERS[name]

    def total(x: Any) -> Any:
        return tw.scan(lambda c, a: (c * 0.5 + solve(a), None), 0.0, x)[0]

    found = tw.grad(total)(np.array(values)).numpy()
    slopes = [float(tw.grad(solve)(v)) for v in values]
    shares = 0.5 ** np.arange(len(values))[::-1]
    np.testing.assert_allclose(found, slopes * shares, rtol=1e-5, atol=1e-8)


def test_rates_may_be_gradients() -> None:
    """Hamilton's equations of a pendulum keep its energy."""

    def energy(q: Any, p: Any) -> Any:
        return p * p / 2 - tnp.cos(q)

    def f(t: Any, state: Any) -> Any:
        by_q, by_p = tw.grad(energy, argnums=(0, 1))(*state)
        return by_p, -by_q

    q, p = tw.solve.ode(f, (1.0, 0.5), np.linspace(0, 10, 5), rtol=1e-9).y
    np.testing.assert_allclose(energy(q, p).numpy(), 0.125 - np.cos(1), rtol=1e-6)


def test_solvers_are_in_files(tmp_path: Path) -> None:
    a = tw.var("a")
    graph = tw.Graph([a], [tw.grad(SOLVERS[name][0])(a) for name in ("root", "dopri5")])
    graph.save(tmp_path / "solvers.tawny")
    loaded = tw.load(tmp_path / "solvers.tawny").compile()(0.6)
    for got, one in zip(loaded, graph.compile()(0.6), strict=True):
        np.testing.assert_allclose(got, one, rtol=1e-9)


MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no function": (lambda: tw.solve.root(3, 1.0), TypeError, "root: the function is int"),
    "other shape": (
        lambda: tw.solve.root(lambda x: x[:2], np.ones(3)),
        ValueError,
        r"gives float64\[2\] \(made at test_solve.py:\d+\) where x0 has float64\[3\]",
    ),
    "other structure": (
        lambda: tw.solve.ode(lambda t, y: (y, y), 1.0, [0, 1]),
        TypeError,
        r"gives \(\., \.\), and y0 is an array",
    ),
    "wider": (
        lambda: tw.solve.ode(lambda t, y: y * np.ones(1), np.ones(1, "f"), [0, 1]),
        ValueError,
        r"float64\[1\].*where y0 has float32\[1\].*np.astype",
    ),
    "half": (
        lambda: tw.solve.fixed_point(lambda x: x, np.ones(2, "e")),
        TypeError,
        "x0 is float16; accepted: float32",
    ),
    "nothing": (lambda: tw.solve.root(lambda x: x, np.ones(0)), ValueError, "no elements"),
    "complex": (lambda: tw.solve.root(lambda x: x, 1j), TypeError, "complex128; accepted: real"),
    "random": (
        lambda: tw.solve.ode(lambda t, y: y * tw.random.normal(), 1.0, [0, 1]),
        ValueError,
        "draws random numbers",
    ),
    "text": (lambda: tw.solve.root(lambda x: x, "one"), TypeError, "x0 is str"),
    "args": (lambda: tw.solve.root(lambda x, a: x, 1.0, 2.0), TypeError, r"args=\(a,\)"),
    "maxiter": (lambda: tw.solve.root(lambda x: x, 1.0, maxiter=0), ValueError, "at least 1"),
    "tol": (lambda: tw.solve.root(lambda x: x, 1.0, tol=-1.0), ValueError, "tol is -1.0"),
    "times": (lambda: tw.solve.ode(lambda t, y: y, 1.0, 3.0), ValueError, "one axis"),
    "complex times": (lambda: tw.solve.ode(lambda t, y: y, 1.0, [1j]), ValueError, "real times"),
    "method": (
        lambda: tw.solve.ode(lambda t, y: y, 1.0, [0, 1], method="BDF"),
        ValueError,
        "'BDF'; accepted: 'dopri5', 'rk4'",
    ),
    "steps": (
        lambda: tw.solve.ode(lambda t, y: y, 1.0, [0, 1], steps=3),
        TypeError,
        "'dopri5' has no steps",
    ),
    "tolerances": (
        lambda: tw.solve.ode(lambda t, y: y, 1.0, [0, 1], rtol=0, atol=0),
        ValueError,
        "one must be above it",
    ),
    "matrix": (
        lambda: tw.solve.cg(np.ones((3, 2)), np.ones(3)),
        ValueError,
        r"A has shape \(3, 2\); it must be \(3, 3\)",
    ),
    "columns": (
        lambda: tw.solve.gmres(np.eye(3), np.ones((3, 2))),
        ValueError,
        "b is no vector.*tw.vmap",
    ),
    "branch": (
        lambda: tw.solve.root(lambda x: x if x > 0 else -x, 1.0),
        TypeError,
        "cannot branch.*tw.cond",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_explained(name: str) -> None:
    call, kind, text = MISTAKES[name]
    with pytest.raises(kind, match=text):
        call()
