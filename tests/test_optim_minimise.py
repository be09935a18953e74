"""Minima of plain functions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import tawny as tw
import tawny.numpy as tnp
from tawny import optim


def rosenbrock(x):
    return tnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(x):
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def beale(x):
    a, b = x[0], x[1]
    return (1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2


def slope_and_curvature(function, size):
    x = tw.var("x", shape=(size,))
    return (
        tw.Graph([x], tw.grad(function)(x)).compile(),
        tw.Graph([x], tw.hessian(function)(x)).compile(),
    )


@pytest.mark.parametrize(
    ("function", "start"),
    [
        (rosenbrock, [-1.2, 1.0]),
        (rosenbrock, [0.8, 1.2, 0.7, 0.9, 1.1]),
        (himmelblau, [4.0, 3.0]),
        (himmelblau, [-3.5, 3.0]),
        (beale, [3.1, 0.52]),
    ],
)
def test_newton_finds_what_scipy_finds(function, start) -> None:
    result = optim.minimise(function, start, optim.Newton(), tolerance=1e-9, steps=50)
    slope, curvature = slope_and_curvature(function, len(start))
    theirs = scipy.optimize.minimize(
        lambda x: float(function(tnp.asarray(x))),
        start,
        jac=lambda x: slope(x),
        hess=lambda x: curvature(x),
        method="trust-exact",
        options={"gtol": 1e-9},
    )
    assert result.converged
    np.testing.assert_allclose(result.x, theirs.x, rtol=1e-7, atol=1e-9)
    assert result.value == pytest.approx(theirs.fun, abs=1e-12)
    assert result.steps <= 30


def test_newton_makes_the_steps_of_newton() -> None:
    """Against SciPy's own Rosenbrock function and its derivatives."""
    x = np.array([-1.2, 1.0])
    values = []
    for _ in range(6):
        values.append(scipy.optimize.rosen(x))
        x = x - np.linalg.solve(scipy.optimize.rosen_hess(x), scipy.optimize.rosen_der(x))
    result = optim.minimise(
        rosenbrock, [-1.2, 1.0], optim.Optimiser(1.0, optim.Newton()), steps=6, tolerance=0
    )
    np.testing.assert_allclose(result.history, values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(result.x, x, rtol=1e-9)
    assert result.steps == 6
    assert result.reason == "steps"


def test_a_parabola_takes_newton_one_step() -> None:
    matrix = np.array([[3.0, 1.0], [1.0, 2.0]])
    target = np.array([1.0, -4.0])
    result = optim.minimise(
        lambda x: 0.5 * tnp.sum(x * (matrix @ x)) - tnp.sum(target * x), np.zeros(2), optim.Newton()
    )
    np.testing.assert_allclose(result.x, np.linalg.solve(matrix, target), rtol=1e-12)
    assert result.steps == 2  # the second finds that nothing is left to do


@pytest.mark.parametrize(
    "rule",
    [
        optim.Adam(0.05),
        optim.SGD(0.002, momentum=0.9),
        optim.SGD(0.001, momentum=0.9, nesterov=True),
        optim.Optimiser(optim.Constant(0.002), optim.CG()),
        optim.Optimiser(optim.Constant(0.001), optim.NonlinearCG()),
    ],
    ids=str,
)
def test_first_order_methods_come_near(rule) -> None:
    result = optim.minimise(rosenbrock, np.array([0.3, 0.4]), rule, steps=20_000, tolerance=1e-5)
    assert result.converged, result
    np.testing.assert_allclose(result.x, [1.0, 1.0], atol=1e-3)


def test_structures_keep_their_shape() -> None:
    start = {"m": np.zeros((2, 2)), "b": [np.zeros(3), 1.0]}
    wanted = {"m": np.arange(4.0).reshape(2, 2), "b": [np.ones(3), -2.0]}

    def distance(p):
        return (
            tnp.sum((p["m"] - wanted["m"]) ** 2)
            + tnp.sum((p["b"][0] - wanted["b"][0]) ** 2)
            + (p["b"][1] - wanted["b"][1]) ** 2
        )

    result = optim.minimise(distance, start, optim.Newton())
    np.testing.assert_allclose(result.x["m"], wanted["m"], atol=1e-12)
    np.testing.assert_allclose(result.x["b"][0], wanted["b"][0], atol=1e-12)
    np.testing.assert_allclose(result.x["b"][1], -2.0)


def test_numbers_and_integers_are_taken_as_floats() -> None:
    assert optim.minimise(lambda x: (x - 3.0) ** 2, 0, optim.Newton()).x == pytest.approx(3)
    np.testing.assert_allclose(
        optim.minimise(lambda x: tnp.sum((x - 3.0) ** 2), np.array([1, 2]), optim.Newton()).x,
        [3, 3],
    )


def test_single_precision_stays_single() -> None:
    result = optim.minimise(
        lambda x: tnp.sum((x - 3) ** 2), np.zeros(2, np.float32), optim.SGD(0.1)
    )
    assert result.x.dtype == np.float32
    np.testing.assert_allclose(result.x, 3, rtol=1e-5)


def test_the_value_is_that_at_x() -> None:
    result = optim.minimise(rosenbrock, [0.0, 0.0], optim.SGD(1e-3), steps=7)
    assert result.value == pytest.approx(scipy.optimize.rosen(result.x), rel=1e-12)
    assert result.history[0] == scipy.optimize.rosen([0.0, 0.0])
    assert len(result.history) == 7


@pytest.mark.parametrize("momentum", [None, optim.Momentum(0.8), optim.Nesterov(0.8)])
def test_where_it_converged_the_slope_is_as_small_as_asked(momentum) -> None:
    """Not a step further on, where velocity may have carried it."""
    rule = optim.Optimiser(optim.Constant(0.1), momentum=momentum)
    found = optim.minimise(lambda x: tnp.sum(tnp.cosh(x)), [3.0, -1.0], rule, tolerance=1e-3)
    assert found.converged
    assert np.abs(np.sinh(found.x)).max() == pytest.approx(found.slope, rel=1e-9)
    assert found.value == pytest.approx(found.history[-1], rel=1e-12)


def test_divergence_is_said() -> None:
    result = optim.minimise(rosenbrock, [3.0, -3.0], optim.SGD(1.0), steps=100)
    assert result.reason == "diverged"
    assert not result.converged
    assert result.steps < 10


def test_a_slope_that_is_no_number_ends_the_search() -> None:
    result = optim.minimise(lambda x: tnp.sum(tnp.sqrt(x)), [0.0, 1.0], optim.SGD(0.1))
    assert (result.reason, result.steps) == ("diverged", 1)


def test_a_clipped_slope_is_no_small_one() -> None:
    rule = optim.Optimiser(0.1, clipping=optim.ClipValue(1e-9))
    result = optim.minimise(rosenbrock, [0.0, 0.0], rule, steps=3)
    assert result.reason == "steps"
    assert result.slope == pytest.approx(2.0)


def test_a_rule_or_a_callback_stops() -> None:
    seen = []

    def callback(step, value):
        seen.append((step, value))
        return step == 5

    stopped = optim.minimise(rosenbrock, [0.0, 0.0], optim.SGD(1e-3), callback=callback)
    assert stopped.reason == "callback"
    assert [s for s, _ in seen] == [1, 2, 3, 4, 5]
    assert [v for _, v in seen] == stopped.history
    below = optim.minimise(rosenbrock, [0.0, 0.0], optim.SGD(1e-3), stopping=optim.Below(0.8))
    assert below.reason == "loss below 0.8"
    assert below.history[-1] < 0.8 <= min(below.history[:-1])
    early = optim.minimise(lambda x: tnp.abs(x), 0.05, optim.SGD(0.1), stopping=optim.Early(4))
    assert early.reason == "no improvement in 4 losses"
    assert early.steps == 5


def test_engines_agree() -> None:
    runs = [
        optim.minimise(rosenbrock, [0.1, 0.2], optim.Adam(0.05), steps=50, engine=e)
        for e in ("cpu", "reference")
    ]
    np.testing.assert_allclose(runs[0].history, runs[1].history, rtol=1e-10)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(TypeError, match="x0 has dtype complex128"):
        optim.minimise(lambda x: x, 1j)
    with pytest.raises(ValueError, match="steps is 0"):
        optim.minimise(rosenbrock, [0.0, 0.0], steps=0)
    with pytest.raises(TypeError, match="must be one number"):
        optim.minimise(lambda x: x, np.zeros(3))
    with pytest.raises(ValueError, match="engine 'abacus' is not known"):
        optim.minimise(rosenbrock, [0.0, 0.0], engine="abacus")
    with pytest.raises(tw.MemoryBudgetError):
        optim.minimise(lambda x: tnp.sum(tnp.sin(x @ x)), np.ones((50, 50)), memory=10)
