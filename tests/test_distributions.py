"""Distributions: the same numbers on both engines, their moments and shapes, slopes, mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

import tawny as tw
import tawny.numpy as tnp
from tawny import random
from tawny.array import Array

N = 20_000

CONTINUOUS: dict[str, tuple[Callable[..., Array], Any]] = {
    "laplace": (lambda **o: random.laplace(1.0, 2.0, **o), scipy.stats.laplace(1, 2)),
    "gumbel": (lambda **o: random.gumbel(1.0, 2.0, **o), scipy.stats.gumbel_r(1, 2)),
    "logistic": (lambda **o: random.logistic(1.0, 2.0, **o), scipy.stats.logistic(1, 2)),
    "gamma 0.3": (lambda **o: random.gamma(0.3, 2.0, **o), scipy.stats.gamma(0.3, scale=2)),
    "gamma 1": (lambda **o: random.gamma(1.0, **o), scipy.stats.gamma(1.0)),
    "gamma 7.5": (lambda **o: random.gamma(7.5, 0.5, **o), scipy.stats.gamma(7.5, scale=0.5)),
    "gamma 900": (lambda **o: random.gamma(900.0, **o), scipy.stats.gamma(900.0)),
    "chisquare": (lambda **o: random.chisquare(3.0, **o), scipy.stats.chi2(3)),
    "student_t": (lambda **o: random.student_t(4.0, **o), scipy.stats.t(4)),
    "beta": (lambda **o: random.beta(0.5, 3.0, **o), scipy.stats.beta(0.5, 3)),
}


def on_both(make: Callable[[], Array]) -> Any:
    """The numbers of a draw, the same on both engines but for rounding."""
    found = []
    for engine in ("cpu", "reference"):
        with random.local_seed(7):
            found.append(tw.Graph([], [make()]).compile(engine)()[0])
    if found[0].dtype.kind == "f":
        np.testing.assert_allclose(
            found[0], found[1], rtol=1e-5 if found[0].itemsize == 4 else 1e-9, atol=1e-6
        )
    else:
        np.testing.assert_array_equal(found[0], found[1])
    return found[0]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "float64") for name in CONTINUOUS), ("laplace", "float32"), ("gamma 7.5", "float32")],
)
def test_continuous_distributions(name: str, dtype: str) -> None:
    make, theirs = CONTINUOUS[name]
    value = on_both(lambda: make(shape=(N,), dtype=dtype))
    assert value.dtype == dtype
    assert np.all(np.isfinite(value))
    assert scipy.stats.kstest(value.astype(float), theirs.cdf).pvalue > 0.001
    spread = theirs.std() if np.isfinite(theirs.std()) else 1.0
    assert abs(value.mean() - theirs.mean()) < 5 * spread / np.sqrt(N)


@pytest.mark.parametrize("mean", [0.0, 0.1, 9.99, 10.0, 45.0, 1e9])
def test_poisson(mean: float) -> None:
    value = on_both(lambda: random.poisson(mean, shape=(N,)))
    assert value.dtype == np.int64
    assert value.min() >= 0
    assert abs(value.mean() - mean) <= 5 * np.sqrt(mean / N)
    if mean:
        assert abs(value.var() - mean) <= 6 * mean * np.sqrt((2 + 1 / mean) / N)
    if 0 < mean < 100:
        edges = np.unique(scipy.stats.poisson.ppf(np.linspace(0.02, 0.98, 12), mean))
        cells = np.concatenate([[-1], edges, [np.inf]])
        chances = np.diff(scipy.stats.poisson.cdf(cells, mean))
        counts = np.histogram(value, np.concatenate([[-0.5], edges + 0.5, [1e18]]))[0]
        used = chances > 1e-4
        share = chances[used] / chances[used].sum()
        assert scipy.stats.chisquare(counts[used], share * counts[used].sum()).pvalue > 0.001


def test_poisson_of_arrays_and_other_dtypes() -> None:
    means = np.array([0.5, 5.0, 50.0, 5000.0])
    value = on_both(lambda: random.poisson(means, shape=(4000, 4), dtype="float32"))
    assert value.dtype == np.float32
    np.testing.assert_allclose(value.mean(axis=0), means, rtol=0.05)


def test_categories() -> None:
    p = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    with np.errstate(divide="ignore"):
        logits = np.log(p)
    value = on_both(lambda: random.categorical(logits, shape=(N, 2)))
    for row in range(2):
        counts = np.bincount(value[:, row], minlength=3)
        np.testing.assert_allclose(counts / N, p[row], atol=0.02)
    assert np.all(value[:, 1] < 2)
    turned = random.categorical(logits.T, axis=0)
    assert turned.shape == (2,)
    assert random.categorical(np.zeros((4, 5, 3)), axis=1).shape == (4, 3)
    assert random.categorical([0, 1, 2]).shape == ()


def test_normal_vectors() -> None:
    mean, root = np.array([1.0, -2.0, 0.5]), np.array([[1.0, 0, 0], [0.5, 2.0, 0], [-1, 0.3, 0.7]])
    cov = root @ root.T
    value = on_both(lambda: random.multivariate_normal(mean, cov, shape=(N,)))
    np.testing.assert_allclose(value.mean(axis=0), mean, atol=0.08)
    np.testing.assert_allclose(np.cov(value.T), cov, atol=0.2)
    whitened = np.linalg.solve(root, (value - mean).T)
    for part in whitened:
        assert scipy.stats.kstest(part, "norm").pvalue > 0.001
    assert random.multivariate_normal(np.zeros((4, 1, 2)), np.stack([np.eye(2)] * 3)).shape == (
        4,
        3,
        2,
    )


def test_shares() -> None:
    alpha = np.array([0.5, 2.0, 4.0])
    value = on_both(lambda: random.dirichlet(alpha, shape=(N,)))
    np.testing.assert_allclose(value.sum(axis=-1), 1, rtol=1e-12)
    np.testing.assert_allclose(value.mean(axis=0), alpha / alpha.sum(), atol=0.01)
    for k, part in enumerate(value.T):
        law = scipy.stats.beta(alpha[k], alpha.sum() - alpha[k])
        assert scipy.stats.kstest(part, law.cdf).pvalue > 0.001


def test_slopes_reach_shift_and_scale() -> None:
    """By the numbers drawn: the slope of the mean of loc + scale z is 1 and the mean of z."""

    def mean(make: Callable[..., Array]) -> Callable[[Any, Any], Array]:
        def function(loc: Any, scale: Any) -> Array:
            with random.local_seed(3):
                return tnp.mean(make(loc, scale))

        return function

    for make in (random.laplace, random.gumbel, random.logistic):
        drawn = mean(lambda a, b, make=make: make(a, b, shape=(50,)))
        by_loc, by_scale = tw.grad(drawn, argnums=(0, 1))(1.0, 2.0)
        assert float(by_loc) == pytest.approx(1.0)
        assert float(by_scale) == pytest.approx((float(drawn(1.0, 2.0)) - 1.0) / 2.0)
    drawn = mean(lambda k, scale: random.gamma(k, scale, shape=(50,)))
    by_shape, by_scale = tw.grad(drawn, argnums=(0, 1))(3.0, 2.0)
    assert float(by_shape) == 0.0
    assert float(by_scale) == pytest.approx(float(drawn(3.0, 2.0)) / 2.0)


def test_every_run_draws_anew() -> None:
    program = tw.Graph(
        [], [random.gamma(2.0, shape=(4,)), random.poisson(30.0, shape=(4,))]
    ).compile()
    first, second = program(), program()
    assert np.any(first[0] != second[0])
    assert np.any(first[1] != second[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: random.gamma(0.0), "gamma: shape_parameter is 0.0; it must be greater than 0"),
        (lambda: random.beta(1.0, -1.0), "beta: b is -1.0"),
        (lambda: random.poisson(-1.0), r"poisson: mean is -1.0; it must be from 0 to 2\*\*52"),
        (lambda: random.poisson(1.0, dtype=bool), "dtype is bool"),
        (lambda: random.laplace(0.0, -1.0), "scale is -1.0"),
        (lambda: random.student_t(0.0), "df is 0.0"),
        (lambda: random.dirichlet(1.0), "alpha has no axes"),
        (lambda: random.categorical(1.0), "logits has no axes"),
        (lambda: random.categorical(np.zeros((2, 3)), shape=(3,)), "must be 3 or 1 to broadcast"),
        (lambda: random.multivariate_normal([1.0, 2.0], np.eye(3)), r"\(2,\) and cov \(3, 3\)"),
        (lambda: random.gamma(1.0, dtype=int), "dtype is int64; accepted"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()
