"""L-BFGS and Newton's method with line searches, against SciPy and against their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny.numpy as tnp
from tawny import nn, optim
from tawny.optim.descent import Iterate, _CurvaturePairs
from tawny.optim.line_search import LinePoint, StrongWolfe


def rosenbrock(x: Any) -> Any:
    return tnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


RNG = np.random.default_rng(0)
BASIS = np.linalg.qr(RNG.normal(size=(12, 12)))[0]
MATRIX = BASIS @ np.diag(np.logspace(-1, 2, 12)) @ BASIS.T
TARGET = RNG.normal(size=12)
ROWS = RNG.normal(size=(60, 4))
TRUTHS = np.where(RNG.random(60) < 1 / (1 + np.exp(-ROWS @ [1.0, -2.0, 0.5, 0.0])), 1.0, -1.0)


def quadratic(x: Any) -> Any:
    return 0.5 * x @ (MATRIX @ x) - tnp.sum(TARGET * x)


def logistic(x: Any) -> Any:
    return tnp.mean(tnp.log1p(tnp.exp(-TRUTHS * (ROWS @ x)))) + 0.01 * tnp.sum(x * x)


def saddle(x: Any) -> Any:
    """Has its minima at (0, 1) and (0, -1), and a saddle between them."""
    return x[0] ** 2 + (x[1] ** 2 - 1) ** 2


PROBLEMS: dict[str, tuple[Callable[[Any], Any], list[float], float]] = {
    "rosenbrock": (rosenbrock, [-1.2, 1.0], 1e-6),
    "rosenbrock_20": (rosenbrock, np.linspace(-1.5, 1.5, 20).tolist(), 1e-5),
    "quadratic": (quadratic, [0.0] * 12, 1e-4),
    "logistic": (logistic, [0.0] * 4, 1e-5),
    "saddle": (saddle, [1.0, 0.01], 1e-6),
}


@pytest.mark.parametrize("method", [None, optim.LBFGS(3), optim.Newton()], ids=repr)
@pytest.mark.parametrize("name", PROBLEMS)
def test_minima_are_those_of_scipy(name: str, method: Any, engine: str) -> None:
    function, start, near = PROBLEMS[name]
    found = optim.minimise(function, start, method, engine=engine, steps=2000)
    theirs = scipy.optimize.minimize(
        lambda x: float(function(tnp.asarray(x)).numpy()), found.x, method="BFGS"
    )
    assert found.converged, found.reason
    assert found.slope <= 1e-6
    assert found.value <= theirs.fun + 1e-10
    np.testing.assert_allclose(found.x, theirs.x, atol=near)
    assert found.value == pytest.approx(float(function(tnp.asarray(found.x)).numpy()), abs=1e-10)
    rises = np.diff(found.history)
    assert np.all(rises <= 1e-12 * np.abs(found.history[:-1])), "but for rounding it falls"


def test_as_few_looks_as_scipy() -> None:
    """The same method takes about as many evaluations there."""
    found = optim.minimise(rosenbrock, [-1.2, 1.0])
    theirs = scipy.optimize.minimize(
        scipy.optimize.rosen, [-1.2, 1.0], jac=scipy.optimize.rosen_der, method="L-BFGS-B"
    )
    assert found.evaluations <= 1.5 * theirs.nfev
    assert found.steps <= found.evaluations


def test_a_parabola_is_one_step_of_newton() -> None:
    found = optim.minimise(quadratic, [1.0] * 12, optim.Newton(), tolerance=1e-8)
    assert (found.steps, found.evaluations) == (2, 2)
    np.testing.assert_allclose(found.x, np.linalg.solve(MATRIX, TARGET), rtol=1e-9)


@pytest.mark.parametrize("method", [None, optim.Newton()], ids=repr)
def test_structures_and_dtypes_stay(method: Any) -> None:
    start = {"w": np.zeros((2, 2), "float32"), "b": np.zeros((), "float64")}

    def function(p: Any) -> Any:
        return tnp.sum((p["w"] - 2.0) ** 2) + (p["b"] + 1.0) ** 4 + p["b"] ** 2

    found = optim.minimise(function, start, method)
    assert found.converged
    assert found.x["w"].dtype == np.float32
    np.testing.assert_allclose(found.x["w"], 2, rtol=1e-6)
    root = scipy.optimize.brentq(lambda b: 4 * (b + 1) ** 3 + 2 * b, -1, 0)
    assert float(found.x["b"]) == pytest.approx(root, rel=1e-6)


ENDS: dict[str, tuple[Callable[[Any], Any], list[float], tuple[str, ...]]] = {
    "never ends": (lambda x: -tnp.sum(x), [1.0], ("steps", "diverged")),
    "leads out of the domain": (lambda x: tnp.sum(tnp.log(x)), [1.0], ("no descent", "diverged")),
    "has a kink": (lambda x: tnp.sum(tnp.abs(x)), [3.0, -2.0], ("no descent", "converged")),
    "is no number": (lambda x: tnp.sum(tnp.sqrt(x)), [-1.0], ("diverged",)),
    "is flat": (lambda x: tnp.sum(x * 0.0), [1.0], ("converged",)),
    "is walled": (lambda x: tnp.sum(x - tnp.log(1.0 - x)) ** 2, [0.5], ("converged",)),
}


@pytest.mark.parametrize("method", [None, optim.Newton()], ids=repr)
@pytest.mark.parametrize("name", ENDS)
def test_every_search_ends(name: str, method: Any) -> None:
    function, start, reasons = ENDS[name]
    found = optim.minimise(function, start, method, steps=60)
    assert found.reason in reasons
    if found.reason != "diverged":
        assert found.value <= float(function(tnp.asarray(start)).numpy())


def test_rules_stop_a_search_too() -> None:
    below = optim.minimise(rosenbrock, [-1.2, 1.0], stopping=optim.Below(0.5, when="batch"))
    assert below.reason == "loss below 0.5"
    seen: list[int] = []

    def callback(step: int, value: float) -> bool:
        seen.append(step)
        return step == 3

    assert optim.minimise(rosenbrock, [-1.2, 1.0], callback=callback).reason == "callback"
    assert seen == [1, 2, 3]


def test_training_refuses_line_searches() -> None:
    data = np.zeros((4, 2), "float32"), np.zeros((4, 1), "float32")
    with pytest.raises(TypeError, match=r"LBFGS looks at the function several times .*minimise"):
        nn.train(nn.Linear(2, 1), nn.quadratic, data, optim.LBFGS())
    with pytest.raises(ValueError, match="memory is 0; it must be at least 1"):
        optim.LBFGS(0)
    with pytest.raises(ValueError, match="0 < decrease < curvature < 1"):
        optim.StrongWolfe(0.5, 0.1)
    with pytest.raises(TypeError, match=r"search is 3; accepted: optim\.StrongWolfe"):
        optim.LBFGS(search=3)  # type: ignore[arg-type]


def test_directions_are_those_of_the_dense_formula() -> None:
    """H' = (I - r s y^T) H (I - r y s^T) + r s s^T, from a multiple of the identity."""
    rng = np.random.default_rng(1)
    curved = np.diag([1.0, 4.0, 9.0, 2.0])
    guide, points = _CurvaturePairs(5), list[Iterate]()
    for _ in range(5):
        x = rng.normal(size=4)
        points.append(Iterate(x, 0.0, curved @ x))
    pairs = list[tuple[Any, Any]]()
    for one, other in pairwise(points):
        guide.update(one, other)
        pairs.append((other.x - one.x, other.slope - one.slope))
    s, y = pairs[-1]
    inverse = (s @ y) / (y @ y) * np.eye(4)
    for s, y in pairs:
        r = 1 / (s @ y)
        left = np.eye(4) - r * np.outer(s, y)
        inverse = left @ inverse @ left.T + r * np.outer(s, s)
    direction, first = guide.direction(points[-1])
    assert first == 1.0
    np.testing.assert_allclose(direction, -inverse @ points[-1].slope, rtol=1e-10)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.floats(-3, 3), min_size=3, max_size=6),
    st.floats(0.01, 20.0),
    st.sampled_from([(1e-4, 0.9), (1e-4, 0.1), (0.2, 0.3)]),
)
def test_steps_keep_the_strong_wolfe_conditions(
    waves: list[float], first: float, constants: tuple[float, float]
) -> None:
    """On smooth lines that rise in the end, such a step exists and is found."""
    decrease, curvature = constants

    def line(a: float) -> LinePoint:
        terms = range(len(waves))
        value = 0.05 * a * a + sum(waves[k] * math.sin((k + 1) * a) for k in terms)
        slope = 0.1 * a + sum(waves[k] * (k + 1) * math.cos((k + 1) * a) for k in terms)
        return LinePoint(a, value, slope)

    start = line(0.0)
    if start.slope > -1e-3:
        return
    found = StrongWolfe(decrease, curvature, 200).step(line, start, first, 0.0)
    assert found is not None
    assert found.far > 0
    assert found.value <= start.value + decrease * found.far * start.slope + 1e-12
    assert abs(found.slope) <= curvature * abs(start.slope) * (1 + 1e-9)
