"""Incomplete gamma and beta functions against 30 digits, and their slopes."""

from __future__ import annotations

import itertools
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import tawny as tw
import tawny.numpy as tnp
from tawny import special
from tawny.autodiff.checking import check_grads

RNG = np.random.default_rng(0)
COUNT = 16
SHAPES = 10 ** RNG.uniform(-4, 4, 3 * COUNT)
OTHERS = 10 ** RNG.uniform(-3, 4, 3 * COUNT)
NORMAL = RNG.normal(size=3 * COUNT)


def _gamma_places() -> np.ndarray:
    """A third anywhere, a third in the body of the distribution, a third in its tails."""
    spread = np.sqrt(SHAPES)
    body, tails = SHAPES + NORMAL * spread, SHAPES + 8 * NORMAL * spread
    anywhere = SHAPES * 10 ** RNG.uniform(-1, 1, 3 * COUNT)
    return np.abs(np.choose(np.arange(3 * COUNT) % 3, [anywhere, body, tails])) + 1e-9


def _beta_places() -> np.ndarray:
    mean = SHAPES / (SHAPES + OTHERS)
    spread = np.sqrt(mean * (1 - mean) / (SHAPES + OTHERS + 1))
    anywhere = RNG.uniform(0, 1, 3 * COUNT)
    near = [mean + factor * NORMAL * spread for factor in (1, 8)]
    return np.clip(np.choose(np.arange(3 * COUNT) % 3, [anywhere, *near]), 1e-9, 1 - 1e-9)


GAMMA = (SHAPES, _gamma_places())
BETA = (SHAPES, OTHERS, _beta_places())

CASES: dict[str, tuple[Any, Any, tuple[np.ndarray, ...]]] = {
    "gammainc": (special.gammainc, lambda a, x: mp.gammainc(a, 0, x, regularized=True), GAMMA),
    "gammaincc": (special.gammaincc, lambda a, x: mp.gammainc(a, x, regularized=True), GAMMA),
    "betainc": (special.betainc, lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True), BETA),
}
"""Each with its value in 30 digits, and where it is asked for."""


@pytest.fixture(scope="module")
def exact() -> dict[str, np.ndarray]:
    """All values."""
    with mp.workdps(30):
        return {
            name: np.array(
                [float(value(*map(mp.mpf, place))) for place in zip(*where, strict=True)]
            )
            for name, (_, value, where) in CASES.items()
        }


@pytest.mark.parametrize("name", CASES)
def test_values(engine: str, name: str, exact: dict[str, np.ndarray]) -> None:
    """To 1e-12 of themselves, however small; natively, also in float32."""
    function, _, where = CASES[name]
    variables = [tw.var(shape=x.shape) for x in where]
    program = tw.Graph(variables, [function(*variables)]).compile(engine)
    if engine == "cpu":
        assert "by NumPy" not in str(program.plan)
    (got,) = program(*where)
    want = exact[name]
    assert (want > 1e-290).sum() > 2 * COUNT
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-290)


@pytest.mark.parametrize("name", CASES)
def test_dtypes(name: str) -> None:
    """Narrow numbers are computed wide and rounded once; integers give float64."""
    function = CASES[name][0]
    parameters = [2.5, 1.25][: len(CASES[name][2]) - 1]
    arguments = [*parameters, [0.125, 0.5, 0.75]]
    want = function(*map(np.asarray, arguments)).numpy()
    for dtype in ("float32", "float16"):
        got = function(*[np.asarray(x, dtype) for x in arguments]).numpy()
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, want.astype(dtype))
    assert function(*[1] * len(arguments)).dtype == np.float64
    with pytest.raises(TypeError, match=f"{name}: operand 0 has dtype complex128"):
        function(1j, *arguments[1:])


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_edges_of_gamma_are_those_of_scipy(name: str) -> None:
    numbers = [0.0, 1.0, 2.5, np.inf, -1.0, np.nan]
    a, x = map(np.array, zip(*itertools.product(numbers, numbers), strict=True))
    got = getattr(special, name)(a, x).numpy()
    np.testing.assert_allclose(got, getattr(scipy.special, name)(a, x), rtol=1e-14)


def test_edges_of_beta() -> None:
    rows = [
        # a, b, x, share
        (2.0, 3.0, 0.0, 0.0), (2.0, 3.0, 1.0, 1.0), (0.0, 3.0, 0.5, 1.0), (2.0, 0.0, 0.5, 0.0),
        (np.inf, 3.0, 0.5, 0.0), (2.0, np.inf, 0.5, 1.0), (0.0, 0.0, 0.5, np.nan),
        (np.inf, np.inf, 0.5, np.nan), (-1.0, 2.0, 0.5, np.nan), (2.0, -1.0, 0.5, np.nan),
        (2.0, 3.0, -0.1, np.nan), (2.0, 3.0, 1.1, np.nan), (np.nan, 3.0, 0.5, np.nan),
        (2.0, np.nan, 0.5, np.nan), (2.0, 3.0, np.nan, np.nan), (1.0, 1.0, 0.3, 0.3),
    ]  # fmt: skip
    a, b, x, want = map(np.array, zip(*rows, strict=True))
    np.testing.assert_allclose(special.betainc(a, b, x).numpy(), want, rtol=1e-14)


def test_large_parameters() -> None:
    """By their normal limits: half of the distribution is nearly below its mean."""
    for a in (1e6, 1e10, 1e15):
        third = 1 / (3 * np.sqrt(2 * np.pi * a))
        np.testing.assert_allclose(float(special.gammainc(a, a)), 0.5 + third, rtol=1e-11)
        np.testing.assert_allclose(float(special.betainc(a, a, 0.5)), 0.5, rtol=1e-11)


def test_arguments_broadcast() -> None:
    a, b, x = np.array([[0.5], [3.0]]), 2.0, np.array([0.1, 0.4, 0.9])
    np.testing.assert_allclose(
        special.betainc(a, b, x).numpy(), scipy.special.betainc(a, b, x), rtol=1e-13
    )
    each = tw.jacfwd(lambda a: special.gammainc(a, x))(np.array([0.5, 3.0, 7.0]))
    assert np.asarray(each).shape == (3, 3)
    assert np.count_nonzero(each) == 3


PLACES = [(0.3, 0.2), (0.7, 1.4), (2.5, 6.0), (40.0, 35.0), (40.0, 40.0), (900.0, 950.0)]
TRIPLES = [(0.4, 0.7, 0.2), (2.5, 1.5, 0.3), (2.5, 1.5, 0.9), (30.0, 70.0, 0.25), (5.0, 0.3, 0.999)]


@pytest.mark.parametrize("name", CASES)
def test_slopes(name: str) -> None:
    """With respect to parameters as well, against differences of 40 digits."""
    function, value, where = CASES[name]
    places = np.array(PLACES if len(where) == 2 else TRIPLES)
    count = places.shape[1]
    slopes = tw.jit(tw.grad(lambda *x: tnp.sum(function(*x)), tuple(range(count))))(*places.T)
    with mp.workdps(40):
        for number, place in enumerate(places):
            for which in range(count):
                order = tuple(int(which == k) for k in range(count))
                want = float(mp.diff(value, tuple(map(mp.mpf, place)), order))
                got = np.asarray(slopes[which])[number]
                assert abs(got - want) <= 1e-10 * abs(want) + 1e-13, (place, which)


@pytest.mark.parametrize("name", ["gammainc", "betainc"])
def test_slopes_in_both_modes(name: str) -> None:
    function, _, where = CASES[name]
    places = np.array(PLACES[:3] if len(where) == 2 else TRIPLES[1:3])
    check_grads(function, tuple(places.T), order=1)
    check_grads(lambda x: function(*places.T[:-1], x), (places.T[-1],), order=2)


def test_slopes_at_the_ends() -> None:
    x = np.array([0.0, 0.0, 0.0])
    slope = tw.grad(lambda x: tnp.sum(special.gammainc(np.array([0.5, 1.0, 2.0]), x)))(x)
    np.testing.assert_array_equal(np.asarray(slope), [np.inf, 1.0, 0.0])
    slope = tw.grad(lambda a: tnp.sum(special.gammainc(a, x)))(np.array([0.5, 1.0, 2.0]))
    np.testing.assert_array_equal(np.asarray(slope), 0.0)
    ends = np.array([0.0, 1.0, 1.0, 1.0])
    a, b = np.array([1.0, 3.0, 3.0, 3.0]), np.array([4.0, 1.0, 2.0, 0.5])
    slope = tw.grad(lambda x: tnp.sum(special.betainc(a, b, x)))(ends)
    np.testing.assert_array_equal(np.asarray(slope), [4.0, 3.0, 0.0, np.inf])
