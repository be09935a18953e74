"""Special functions: values against 30 digits, slopes against each other's, special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.linalg
import scipy.special

import tawny as tw
import tawny.numpy as tnp
from tawny import special
from tawny.autodiff.checking import check_grads

RNG = np.random.default_rng(0)
POSITIVE = np.concatenate(
    [
        RNG.uniform(1e-3, 3, 60),
        RNG.uniform(3, 20, 40),
        10 ** RNG.uniform(-10, 2.2, 30),
        1 + 10 ** RNG.uniform(-12, -1, 10),
        2 - 10 ** RNG.uniform(-12, -1, 10),
    ]
)
NEGATIVE = -RNG.uniform(0.01, 20, 60)
LINE = np.concatenate([RNG.uniform(-8, 8, 60), RNG.uniform(-60, 60, 60)])
SHARES = np.concatenate([RNG.uniform(0, 1, 40), 10 ** RNG.uniform(-290, -1, 30)])
INSIDE = np.concatenate([RNG.uniform(-1, 1, 60), 1 - 10 ** RNG.uniform(-15, -1, 20), SHARES[-5:]])


def _inverse(function: Any, guess: Any) -> Callable[[Any], Any]:
    """Where the logarithm of a function is that of a number."""
    return lambda y: mp.findroot(
        lambda t: mp.log(function(t)) - mp.log(y), mp.mpf(float(guess(float(y))))
    )


TAILS = np.concatenate([RNG.uniform(-37, 37, 80), RNG.uniform(-6, 6, 40)])
TENS = RNG.uniform(1, 4.8, 20)


def _log_ndtr(x: Any) -> Any:
    """The logarithm, of so small a share that its complement is needed where it is nearly 1."""
    if x > 0:
        return mp.log1p(-mp.ncdf(-x))
    return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)


def _mills(x: Any) -> Any:
    return mp.npdf(x) / mp.ncdf(x)


CASES: dict[str, tuple[Any, Any, Any, float, float]] = {
    # name: function, in 30 digits, where, units in the last place, absolute error
    "gammaln": (special.gammaln, lambda x: mp.re(mp.loggamma(x)), POSITIVE, 4, 0),
    "gammaln left": (special.gammaln, lambda x: mp.log(abs(mp.gamma(x))), NEGATIVE, 8, 1e-14),
    "gamma": (special.gamma, mp.gamma, POSITIVE, 8, 0),
    "gamma left": (special.gamma, mp.gamma, NEGATIVE, 8, 0),
    "digamma": (special.digamma, mp.digamma, POSITIVE, 4, 0),
    "digamma left": (special.digamma, mp.digamma, NEGATIVE, 8, 1e-14),
    "trigamma": (lambda x: special.polygamma(1, x), lambda x: mp.psi(1, x), POSITIVE, 6, 0),
    "trigamma left": (lambda x: special.polygamma(1, x), lambda x: mp.psi(1, x), NEGATIVE, 6, 0),
    "polygamma 3": (lambda x: special.polygamma(3, x), lambda x: mp.psi(3, x), POSITIVE, 8, 0),
    "i0e": (special.i0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), LINE, 16, 0),
    "i1e": (special.i1e, lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), LINE, 16, 0),
    "i0": (special.i0, lambda x: mp.besseli(0, x), LINE, 16, 0),
    "i1": (special.i1, lambda x: mp.besseli(1, x), LINE, 16, 0),
    "j0": (special.j0, lambda x: mp.besselj(0, x), LINE, 0, 2e-15),
    "j1": (special.j1, lambda x: mp.besselj(1, x), LINE, 0, 2e-15),
    "erfinv": (special.erfinv, mp.erfinv, INSIDE, 8, 0),
    "erfcinv": (special.erfcinv, _inverse(mp.erfc, scipy.special.erfcinv), SHARES, 8, 0),
    "ndtri": (special.ndtri, _inverse(mp.ncdf, scipy.special.ndtri), SHARES, 8, 0),
    "ndtr": (special.ndtr, mp.ncdf, TAILS, 8, 0),
    "log_ndtr": (special.log_ndtr, _log_ndtr, np.concatenate([TAILS, -(10**TENS)]), 8, 0),
    "mills": (tw.grad(lambda x: tnp.sum(special.log_ndtr(x))), _mills, -np.abs(TAILS), 40, 0),
    "logit": (special.logit, lambda p: mp.log(p / (1 - p)), RNG.uniform(0, 1, 60), 8, 0),
    "expit": (special.expit, lambda x: 1 / (1 + mp.exp(-x)), LINE, 8, 0),
    "entr": (special.entr, lambda p: -p * mp.log(p), RNG.uniform(0, 3, 60), 8, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_values_to_the_last_places(name: str) -> None:
    """On both engines, natively on the first, in float64 and float32."""
    function, exact, places, units, small = CASES[name]
    with mp.workdps(30):
        want = np.array([float(exact(mp.mpf(float(x)))) for x in places])
    x = tw.var(shape=places.shape)
    graph = tw.Graph([x], [function(x)])
    for engine in ("cpu", "reference"):
        program = graph.compile(engine)
        if engine == "cpu":
            assert "by NumPy" not in str(program.plan)
        (got,) = program(places)
        error = np.abs(got - want)
        allowed = np.maximum(units * np.spacing(np.abs(want)), small)
        assert np.all(error <= allowed), (engine, places[np.argmax(error / allowed)])
    narrow = places.astype("float32")
    with np.errstate(over="ignore"):
        exactly = np.asarray(function(narrow.astype("float64")).numpy()).astype("float32")
    np.testing.assert_array_equal(function(narrow).numpy(), exactly)
    assert function(narrow).dtype == np.float32
    assert function(narrow.astype("float16")).dtype == np.float16


ODD = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, np.nan, np.inf, -np.inf])
DIFFERENT = {
    "gammaln": [-np.inf],  # infinity, as in C
    "i0": [np.inf, -np.inf], "i1": [np.inf, -np.inf],
    "j0": [np.inf, -np.inf], "j1": [np.inf, -np.inf],  # 0, the limit
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in special.__all__ if n not in (
    "polygamma", "beta", "betainc", "betaln", "expm", "gammainc", "gammaincc", "xlogy",
    "xlog1py")])  # fmt: skip
def test_special_values_are_those_of_scipy(name: str) -> None:
    places = np.array([x for x in ODD if not any(x == d for d in DIFFERENT.get(name, []))])
    with np.errstate(all="ignore"):
        want = getattr(scipy.special, name)(places)
    got = getattr(special, name)(places).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-15)


SLOPES: dict[str, tuple[Any, Any]] = {
    "gammaln": (special.gammaln, [0.3, 1.7, 4.5, 12.0, -1.3]),
    "gamma": (special.gamma, [0.3, 1.7, 4.5, 9.0, -1.3]),
    "digamma": (special.digamma, [0.3, 1.7, 4.5, 12.0]),
    "polygamma": (lambda x: special.polygamma(2, x), [0.7, 1.7, 4.5, 12.0]),
    "i0": (special.i0, [0.0, 0.3, -2.0, 9.0]),
    "i1": (special.i1, [0.0, 0.3, -2.0, 9.0]),
    "i0e": (special.i0e, [0.3, -2.0, 9.0]),
    "i1e": (special.i1e, [0.3, -2.0, 9.0]),
    "j0": (special.j0, [0.0, 0.3, -2.0, 11.0]),
    "j1": (special.j1, [0.0, 0.3, -2.0, 11.0]),
    "erfinv": (special.erfinv, [0.0, 0.3, -0.7]),
    "erfcinv": (special.erfcinv, [0.1, 0.9, 1.6]),
    "ndtr": (special.ndtr, [0.0, 0.3, -2.0]),
    "ndtri": (special.ndtri, [0.1, 0.4, 0.8]),
    "log_ndtr": (special.log_ndtr, [0.0, 0.3, -2.0, -25.0]),
    "logit": (special.logit, [0.1, 0.4, 0.8]),
    "expit": (special.expit, [0.1, 0.4, -3.0]),
    "entr": (special.entr, [0.1, 0.4, 2.0]),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes(name: str) -> None:
    """In both modes and to second order, against differences."""
    function, places = SLOPES[name]
    check_grads(function, (np.array(places),), order=2)


def test_slopes_are_exact() -> None:
    x = np.array([0.3, 1.5, 7.0, 30.0])
    slope = tw.grad(lambda x: tnp.sum(special.gammaln(x)))(x)
    np.testing.assert_allclose(np.asarray(slope), scipy.special.psi(x), rtol=1e-15)
    curve = tw.grad(lambda x: tnp.sum(tw.grad(lambda y: tnp.sum(special.gammaln(y)))(x)))(x)
    np.testing.assert_allclose(np.asarray(curve), scipy.special.polygamma(1, x), rtol=1e-15)


def test_beta_functions() -> None:
    a, b = np.array([0.5, 2.0, 10.0, 1e-3]), np.array([1.5, 3.0, 0.25, 7.0])
    np.testing.assert_allclose(special.beta(a, b).numpy(), scipy.special.beta(a, b), rtol=1e-13)
    np.testing.assert_allclose(special.betaln(a, b).numpy(), scipy.special.betaln(a, b), rtol=1e-12)
    check_grads(special.betaln, (a[:3], b[:3]), order=1)
    assert special.beta(a.astype("float32"), b.astype("float32")).dtype == np.float32


def test_products_with_logarithms() -> None:
    x, y = np.array([0.0, 0.0, 2.0, 0.0]), np.array([0.0, np.inf, 3.0, np.nan])
    for name in ("xlogy", "xlog1py"):
        want = getattr(scipy.special, name)(x, y)
        np.testing.assert_allclose(getattr(special, name)(x, y).numpy(), want, rtol=1e-15)
    slopes = tw.grad(lambda x, y: special.xlogy(x, y), argnums=(0, 1))(0.0, 0.0)
    assert np.all(np.isfinite(np.asarray(slopes)))


@pytest.mark.parametrize("scale", [1e-8, 0.5, 8.0, 300.0])
def test_exponentials_of_matrices(scale: float, engine: str) -> None:
    a = np.random.default_rng(3).normal(size=(2, 4, 4))
    a = (a - np.swapaxes(a, -1, -2)) * scale  # its exponentials are rotations
    x = tw.var(shape=a.shape)
    (got,) = tw.Graph([x], [special.expm(x)]).compile(engine)(a)
    np.testing.assert_allclose(got, scipy.linalg.expm(a), rtol=0, atol=1e-13 * max(scale, 1))


def test_slopes_of_exponentials_of_matrices() -> None:
    rng = np.random.default_rng(4)
    a, e = rng.normal(size=(2, 3, 3)) * 3
    _, tangent = tw.jvp(special.expm, (a,), (e,))
    want = scipy.linalg.expm_frechet(a, e, compute_expm=False)
    np.testing.assert_allclose(tangent.numpy(), want, rtol=1e-11)
    turned = special.expm(np.array([[0.0, math.pi], [-math.pi, 0.0]]) * 1j * -1j).numpy()
    np.testing.assert_allclose(turned, np.eye(2) * -1.0, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: special.gammaln(np.ones(2) * 1j), "gammaln: operand 0 has dtype complex128"),
        (lambda: special.polygamma(-1, 1.0), "n is -1; accepted: 0 to 100"),
        (lambda: special.polygamma(1.5, 1.0), "n must be an integer"),
        (lambda: special.expm(np.ones((2, 3))), r"shape \(2, 3\); accepted: \(\.\.\., n, n\)"),
        (lambda: special.gamma(1.0, 2.0), "gamma: "),
    ],
)
def test_what_cannot_be_is_refused(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_graphs_with_them_are_saved(tmp_path: Any) -> None:
    x = tw.var("x", shape=(3,))
    graph = tw.Graph([x], [special.gammaln(x)])
    graph.save(tmp_path / "graph")
    value = np.array([0.5, 3.0, 20.0])
    again = tw.load(tmp_path / "graph").compile()(value)
    np.testing.assert_array_equal(again[0], graph.compile()(value)[0])
