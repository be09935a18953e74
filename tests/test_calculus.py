"""Calculus on samples: what a single case cannot say."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import tawny.numpy as tp
from tawny.array import Array
from tawny.ops.creation import var

GRID = st.integers(-6, 6).map(lambda n: n / 2)
SAMPLES = np.sin(np.arange(12.0)).reshape(3, 4)
LINE = np.arange(5.0)


def v(*shape: int, dtype: str = "float64") -> Array:
    return var(shape=shape, dtype=dtype)


@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(0, 9), elements=GRID),
    st.lists(st.tuples(GRID, GRID), min_size=1, max_size=6),
    st.none() | GRID,
    st.none() | GRID,
)
def test_interpolation_meets_every_point(x, points, left, right) -> None:
    """Repeated points too: which of them counts is NumPy's choice."""
    xp, fp = np.array(sorted(points)).T
    got = tp.interp(x, xp, fp, left, right).numpy()
    np.testing.assert_allclose(got, np.interp(x, xp, fp, left, right), atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(
    hnp.arrays(np.int64, st.integers(1, 20), elements=st.integers(-30, 30)),
    st.integers(1, 9),
)
def test_unwrapping_integers_is_exact(p, period) -> None:
    got = tp.unwrap(p, period=period).numpy()
    np.testing.assert_array_equal(got, np.unwrap(p, period=period))
    assert got.dtype == p.dtype


@pytest.mark.parametrize(
    "call",
    [
        lambda lazy: np.cov(lazy(SAMPLES), aweights=[1, 2, 3, 4]),
        lambda lazy: np.cov(SAMPLES, lazy(SAMPLES), False, ddof=0),
        lambda lazy: np.corrcoef(lazy(SAMPLES)),
        lambda lazy: np.gradient(lazy(SAMPLES), 2.0, axis=0),
        lambda lazy: np.gradient(lazy(SAMPLES), 2.0, lazy(LINE[:4])),
        lambda lazy: np.trapezoid(lazy(LINE), lazy(LINE) ** 2),
        lambda lazy: np.interp(0.5, LINE, lazy(LINE), left=1.0),
        lambda lazy: np.unwrap(3 * lazy(LINE), period=4),
        lambda lazy: np.ediff1d(lazy(LINE), to_begin=1.0),
        lambda lazy: np.nancumsum(lazy(LINE), dtype="float32"),
        lambda lazy: np.polyfit(lazy(LINE), LINE**2, 1, w=lazy(LINE) + 1),
        lambda lazy: np.average(lazy(SAMPLES), 1, lazy(LINE[1:]), True),
        lambda lazy: np.nanpercentile(lazy(SAMPLES), [30, 40], axis=1),
        lambda lazy: np.argpartition(lazy(LINE), 2),
    ],
)
def test_numpys_own_functions_stay_lazy(call) -> None:
    got, expected = call(tp.asarray), call(np.asarray)
    several = isinstance(expected, tuple)
    for g, w in zip(got if several else [got], expected if several else [expected], strict=True):
        assert isinstance(g, Array)
        np.testing.assert_allclose(g.numpy(), w, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tp.ediff1d(v(3, dtype="int32"), to_end=1.5), TypeError),
        (lambda: tp.gradient(v(3), edge_order=3), ValueError),
        (lambda: tp.gradient(v(2), edge_order=2), ValueError),
        (lambda: tp.gradient(v(3, 3), 1.0, 2.0, 3.0), TypeError),
        (lambda: tp.gradient(v(3), [1.0, 2.0]), ValueError),
        (lambda: tp.gradient(v(3), axis=1), np.exceptions.AxisError),
        (lambda: tp.trapezoid(v()), np.exceptions.AxisError),
        (lambda: tp.interp(v(3), v(2, 2), v(2)), ValueError),
        (lambda: tp.interp(v(3), v(2), v(3)), ValueError),
        (lambda: tp.interp(v(3), v(0), v(0)), ValueError),
        (lambda: tp.interp(v(3, dtype="complex128"), v(2), v(2)), TypeError),
        (lambda: tp.interp(v(3), v(2), v(2), period=0), ValueError),
        (lambda: tp.polyfit(v(3), v(4), 1), ValueError),
        (lambda: tp.polyfit(v(3), v(3), -1), ValueError),
        (lambda: tp.polyfit(v(3), v(3), 2, cov=True), ValueError),
        (lambda: tp.polyfit(v(3), v(3), 1, w=v(2)), ValueError),
        (lambda: tp.cov(v(2, 2, 2)), ValueError),
        (lambda: tp.cov(v(2, 3), v(4)), ValueError),
        (lambda: tp.cov(v(2, 3), fweights=[1, 2]), ValueError),
        (lambda: tp.cov(v(2, 3), fweights=[1, -2, 1]), ValueError),
        (lambda: tp.cov(v(2, 3), fweights=[1, 1.5, 1]), TypeError),
        (lambda: tp.average(v(2, 3), weights=v(3)), TypeError),
        (lambda: tp.average(v(2, 3), 0, v(3)), ValueError),
        (lambda: tp.nanquantile(v(3), 1.5), ValueError),
        (lambda: tp.argpartition(v(3), 3), ValueError),
    ],
)
def test_mistakes_are_refused_when_built(call, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^\w+: .*\[test_calculus.py:\d+\]"):
        call()
