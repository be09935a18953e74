"""Sorting, searching and sets: what a single case cannot say."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import tawny.numpy as tp
from tawny.array import Array
from tawny.engine.reference import run
from tawny.graph.graph import Graph
from tawny.ops.creation import var

VALUES = hnp.arrays(
    np.float64, st.integers(1, 12), elements=st.sampled_from([-1.0, 0.0, 1.0, 2.5, np.nan, np.inf])
)


def v(*shape: int, dtype: str = "float64") -> Array:
    return var(shape=shape, dtype=dtype)


@given(VALUES, st.booleans())
@settings(deadline=None)
def test_argsort_sorts_and_is_stable(x: np.ndarray, descending: bool) -> None:
    lazy = tp.asarray(x)
    order = tp.argsort(lazy, descending=descending).numpy()
    ordered = tp.sort(lazy, descending=descending).numpy()
    np.testing.assert_array_equal(x[order], ordered)
    for i, j in pairwise(order):
        if x[i] == x[j]:
            assert i < j


@given(VALUES, st.data())
@settings(deadline=None)
def test_top_k_is_the_front_of_the_sorted_array(x: np.ndarray, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, x.size))
    largest = data.draw(st.booleans())
    values, indices = tp.top_k(tp.asarray(x), k, largest=largest)
    np.testing.assert_array_equal(values.numpy(), tp.sort(x, descending=largest).numpy()[:k])
    np.testing.assert_array_equal(x[indices.numpy()], values.numpy())


@given(
    hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(-5, 5)),
    hnp.arrays(np.float64, st.integers(0, 4), elements=st.floats(0, 1)),
)
@settings(deadline=None)
def test_quantiles_are_numpys(x: np.ndarray, q: np.ndarray) -> None:
    np.testing.assert_array_equal(tp.quantile(tp.asarray(x), q).numpy(), np.quantile(x, q))
    np.testing.assert_array_equal(tp.median(tp.asarray(x)).numpy(), np.median(x))


@given(hnp.arrays(np.float64, st.integers(0, 20), elements=st.floats(-3, 3)), st.integers(1, 7))
@settings(deadline=None)
def test_histograms_are_numpys(x: np.ndarray, bins: int) -> None:
    counts, edges = tp.histogram(tp.asarray(x), bins, (-2, 2))
    expected, expected_edges = np.histogram(x, bins, (-2, 2))
    np.testing.assert_array_equal(edges.numpy(), expected_edges)
    np.testing.assert_array_equal(counts.numpy(), expected)


def test_median_of_nothing_is_nan_without_a_warning() -> None:
    np.testing.assert_array_equal(tp.median(v(0, 2), axis=1).shape, (0,))
    assert np.isnan(tp.median(np.zeros((0,))).numpy())
    assert np.isnan(tp.nanmedian(np.full(3, np.nan)).numpy())


def test_bincount_of_a_variable_needs_a_length() -> None:
    x = v(3, dtype="int64")
    with pytest.raises(TypeError, match=r"bincount: the array depends on variable.*length="):
        tp.bincount(x)
    counts = tp.bincount(x, length=3)
    (value,) = run([counts.node], {x.node: np.array([0, 2, 2])})
    np.testing.assert_array_equal(value, [1, 0, 2])
    for wrong in ([0, 3, 1], [-1, 0, 0]):
        with pytest.raises(ValueError, match=r"bincount: .*from 0 to 2.*\[test_sorting.py:\d+\]"):
            run([counts.node], {x.node: np.array(wrong)})


def test_bincount_length_comes_from_known_places_though_weights_are_not() -> None:
    weights = v(3)
    sums = tp.bincount(tp.asarray([0, 2, 2]), weights)
    (value,) = run([sums.node], {weights.node: np.array([1.0, 2.0, 3.0])})
    np.testing.assert_array_equal(value, [1.0, 0.0, 5.0])


def test_histogram_of_a_variable_needs_a_range() -> None:
    with pytest.raises(TypeError, match=r"histogram: .*range="):
        tp.histogram(v(4))
    assert tp.histogram(v(4), 3, (0, 1)).hist.shape == (3,)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: tp.unique(x),
        lambda x: tp.unique_all(x),
        lambda x: tp.union1d([1.0], x),
        lambda x: tp.intersect1d(x, x),
        lambda x: tp.setdiff1d(x, [1.0]),
        lambda x: tp.setxor1d(x, [1.0]),
    ],
)
def test_sets_of_variables_are_refused(call) -> None:
    with pytest.raises(TypeError, match=r"depends on variable 'x'.*distinct.*test_sorting.py"):
        call(var("x", shape=(3,)))


def test_sets_of_computed_constants_are_known() -> None:
    x = tp.asarray([3.0, 1.0, 3.0]) * 2
    assert tp.unique_values(x).shape == (2,)
    assert tp.unique_counts(x)._fields == ("values", "counts")
    assert tp.unique_inverse(x)._fields == ("values", "inverse_indices")
    assert tp.unique_all(x)._fields == ("values", "indices", "inverse_indices", "counts")


def test_isin_is_lazy() -> None:
    x = v(3)
    found = tp.isin(x, [1.0, 2.0])
    (value,) = run([found.node], {x.node: np.array([0.0, 1.0, 2.0])})
    np.testing.assert_array_equal(value, [False, True, True])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tp.sort(v(3), axis=1), np.exceptions.AxisError),
        (lambda: tp.sort(v()), np.exceptions.AxisError),
        (lambda: tp.searchsorted(v(2, 2), v(2)), ValueError),
        (lambda: tp.searchsorted(v(2), v(2), side="middle"), ValueError),
        (lambda: tp.top_k(v(3), 4), ValueError),
        (lambda: tp.partition(v(3), 3), ValueError),
        (lambda: tp.quantile(v(3), 1.5), ValueError),
        (lambda: tp.percentile(v(3), -1), ValueError),
        (lambda: tp.quantile(v(0), 0.5), ValueError),
        (lambda: tp.digitize(v(3), v(2, 2)), ValueError),
        (lambda: tp.bincount(v(3)), TypeError),
        (lambda: tp.histogram(v(3), [2, 1]), ValueError),
        (lambda: tp.histogram(v(3), 0), ValueError),
        (lambda: tp.histogram(v(3), 2, (1, 0)), ValueError),
    ],
)
def test_mistakes_are_refused_when_built(call, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^\w+: .*\[test_sorting.py:\d+\]"):
        call()


@pytest.mark.parametrize("function", ["quantile", "percentile", "nanquantile", "nanpercentile"])
@pytest.mark.parametrize("q", [0.0, 0.25, 0.8766, 1.0])
def test_quantiles_of_more_elements_than_small_floats_count(function: str, q: float) -> None:
    """Places in 2,688 elements cannot be told apart in float16."""
    values = np.arange(2688, dtype=np.float32).astype(np.float16)
    np.random.default_rng(0).shuffle(values)
    whole = 100.0 if "percent" in function else 1.0
    x = var("x", shape=values.shape, dtype="float16")
    found = Graph([x], getattr(tp, function)(x, q * whole)).compile()(values)
    wanted = np.sort(values.astype(np.float64))[round(q * 2687)]
    assert abs(float(found) - wanted) <= 6  # q and results are rounded to float16


SETS_OF_ONE = ("unique", "unique_values", "unique_counts", "unique_all", "unique_inverse")
SETS_OF_TWO = ("union1d", "intersect1d", "setdiff1d", "setxor1d")


@pytest.mark.parametrize("name", [*SETS_OF_ONE, *SETS_OF_TWO])
def test_sets_of_many_float16(name: str) -> None:
    """As of the same numbers in float32: NumPy's own sort of float16 goes wrong on some machines."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        some = [np.round(rng.standard_normal(4000) * 3).astype(np.float16) for _ in range(2)]
        given = some[: 1 if name in SETS_OF_ONE else 2]
        got = getattr(tp, name)(*given)
        wide = getattr(np, name)(*[x.astype(np.float32) for x in given])
        pairs = [x if isinstance(x, tuple) else (x,) for x in (got, wide)]
        for one, other in zip(*pairs, strict=True):
            np.testing.assert_array_equal(one.numpy(), other)
        first = got[0] if isinstance(got, tuple) else got
        assert first.dtype == np.float16
