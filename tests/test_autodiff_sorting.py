"""Derivatives of sorting, order statistics, histograms and sets."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from gradient_cases import Row, Samples, check, check_single
from tawny.testing import check_grads

SAMPLES = Samples(3)
apart, complex_, positive, real = SAMPLES.apart, SAMPLES.complex, SAMPLES.positive, SAMPLES.real

BINS = np.array([0, 2, 2, 5, 0])
EDGES = np.array([-2.0, -0.5, 0.6, 2.5])

SORTING = [
    Row("sort", tnp.sort, [apart(5)]),
    Row("sort", lambda x: tnp.sort(x, axis=0), [apart(3, 4)]),
    Row("sort", lambda x: tnp.sort(x, axis=1, descending=True), [apart(2, 3, 2)]),
    Row("sort", lambda x: tnp.sort(x, axis=None), [apart(2, 3)]),
    Row("sort", tnp.sort, [real(0)]),
    Row("sort", lambda x: tnp.sort(x, axis=0), [real(0, 2)]),
    Row("sort", tnp.sort, [apart(4) + 1j * apart(4)]),
    Row("sort", lambda x: tnp.sort(x.T[::-1], axis=0), [apart(3, 4)]),
    Row("partition", lambda x: tnp.partition(x, 1, axis=0), [apart(3, 2)]),
    Row("top_k", lambda x: tnp.top_k(x, 2).values, [apart(3, 4)]),
    Row("top_k", lambda x: tnp.top_k(x, 2, axis=0, largest=False).values, [apart(3, 4)]),
    Row(
        "take_along_axis of argsort",
        lambda x: tnp.take_along_axis(x, tnp.argsort(x, axis=0), axis=0),
        [apart(3, 2)],
    ),
]

STATISTICS = [
    *(
        Row("median", lambda x, o=o: tnp.median(x, **o), [apart(3, 4)])
        for o in ({}, {"axis": 0}, {"axis": 1, "keepdims": True})
    ),
    Row("median", lambda x: tnp.median(x, axis=(0, 2)), [apart(3, 2, 3)]),
    Row("median", tnp.median, [apart(5) + 1j * apart(5)]),
    Row("quantile", lambda x, q: tnp.quantile(x, q), [apart(5), np.array([0.1, 0.6, 0.93])]),
    Row(
        "quantile",
        lambda x, q: tnp.quantile(x, q, axis=0, keepdims=True),
        [apart(4, 2), np.array(0.4)],
    ),
    Row("quantile", lambda x: tnp.quantile(x, 0.5, axis=1), [apart(2, 5)]),
    Row(
        "percentile",
        lambda x, q: tnp.percentile(x, q, axis=1),
        [apart(2, 4), np.array([[20.0, 55.0]])],
    ),
]

HOLES = np.array([[False, True, False, False], [True, False, False, True]])


def holed(name: str, *further: np.ndarray, **options: object) -> Row:
    """A function that ignores NaN, of numbers with some put among them."""
    call = lambda x, *rest: getattr(tnp, name)(tnp.where(HOLES, math.nan, x), *rest, **options)  # noqa: E731
    return Row(name, call, [apart(2, 4), *further])


IGNORING_NAN = [
    *(holed("nanmedian", **o) for o in ({}, {"axis": 0}, {"axis": 1, "keepdims": True})),
    holed("nanquantile", np.array([0.2, 0.7]), axis=1),
    holed("nanquantile", np.array(0.35)),
    holed("nanpercentile", np.array(35.0), axis=0, keepdims=True),
]

COUNTING = [
    Row("bincount", lambda w: tnp.bincount(BINS, w), [real(5)]),
    Row("bincount", lambda w: tnp.bincount(BINS, w, length=9), [real(5)]),
    Row("bincount", lambda w: tnp.bincount(tnp.asarray(BINS) > 1, w), [real(5)]),
    Row("bincount", lambda w: tnp.bincount(np.zeros(0, int), w, minlength=3), [real(0)]),
    Row(
        "histogram",
        lambda w: tnp.histogram(np.linspace(-3, 3, 7), EDGES, weights=w).hist,
        [real(7)],
    ),
    Row(
        "histogram",
        lambda w: tnp.histogram(np.linspace(-3, 3, 7), EDGES, weights=w).hist,
        [complex_(7)],
    ),
    Row(
        "histogram",
        lambda w: tnp.histogram(np.linspace(-3, 3, 7), EDGES, weights=w, density=True).hist,
        [positive(7)],
    ),
    Row("histogram", lambda e: tnp.histogram(np.linspace(-1.8, 2, 7), e, density=True), [EDGES]),
    Row(
        "histogram",
        lambda x: tnp.histogram(x, 3, density=True),
        [np.array([0.1, 0.5, 1.7, 2.9, 2.8])],
    ),
    Row("histogram_bin_edges", lambda x: tnp.histogram_bin_edges(x, 4), [apart(5)]),
    Row("histogram_bin_edges", lambda x: tnp.histogram_bin_edges(x, 4), [np.array([1.5])]),
]

OTHER = np.array([2.1, 7.0, -1.9])

SETS = [
    Row("unique", tnp.unique, [apart(5)]),
    Row("unique", lambda x: tnp.unique(x, return_counts=True, return_index=True), [apart(2, 3)]),
    Row("unique", lambda x: tnp.unique(x, axis=1), [apart(2, 3)]),
    Row("unique_all", tnp.unique_all, [apart(2, 2)]),
    Row("unique_counts", tnp.unique_counts, [apart(4)]),
    Row("unique_inverse", tnp.unique_inverse, [apart(4)]),
    Row("unique_values", tnp.unique_values, [apart(4)]),
    Row("union1d", lambda x, y: tnp.union1d(x, y), [apart(4), apart(3) + 0.1]),
    Row("setdiff1d", lambda x: tnp.setdiff1d(x, OTHER), [apart(4) + 0.3]),
    Row("setdiff1d", lambda x: tnp.setdiff1d(x, OTHER, assume_unique=True), [apart(4) + 0.3]),
    Row("setxor1d", lambda x, y: tnp.setxor1d(x, y), [apart(4), apart(3) + 0.1]),
]

TABLE = [*SORTING, *STATISTICS, *IGNORING_NAN, *COUNTING, *SETS]


@pytest.mark.parametrize("row", TABLE, ids=repr)
def test_slopes_agree_with_differences(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("row", [*SORTING, *STATISTICS[:5], *SETS[:4]], ids=repr)
def test_slopes_of_single_precision(row: Row) -> None:
    check_single(row)


def test_equal_elements_are_sorted_in_their_own_order() -> None:
    weights = np.array([1.0, 2.0, 4.0, 8.0])
    x = np.array([3.0, 1.0, 3.0, 1.0])
    np.testing.assert_array_equal(
        tw.grad(lambda x: tnp.sum(tnp.sort(x) * weights))(x), [4, 1, 8, 2]
    )
    descending = tw.grad(lambda x: tnp.sum(tnp.sort(x, descending=True) * weights))(x)
    np.testing.assert_array_equal(descending, [1, 4, 2, 8])


def test_the_first_of_equal_elements_gets_the_slope_of_a_set() -> None:
    x = np.array([2.0, 1.0, 2.0])
    for function in (
        tnp.unique,
        tnp.unique_values,
        lambda x: tnp.union1d(x, x),
        lambda x: tnp.unique_all(x).values,
    ):
        np.testing.assert_array_equal(
            tw.grad(lambda x, f=function: tnp.sum(f(x) ** 2))(x), [4, 2, 0]
        )
    both = tw.grad(lambda x, y: tnp.sum(tnp.intersect1d(x, y) ** 2), (0, 1))(
        x, np.array([2.0, 5.0])
    )
    np.testing.assert_array_equal(both[0], [4, 0, 0])
    np.testing.assert_array_equal(both[1], [0, 0])
    placed = tw.grad(lambda x: tnp.sum(tnp.intersect1d(x, [2.0], return_indices=True)[0]))(x)
    np.testing.assert_array_equal(placed, [1, 0, 0])


def test_what_is_no_argument_stays_a_constant() -> None:
    x = np.array([2.0, 1.0, 2.0])
    assert tnp.unique(x).node.value is not None
    np.testing.assert_array_equal(tw.grad(lambda y: tnp.sum(tnp.unique(x) * y))(np.ones(2)), [1, 2])


def test_nan_has_no_slope_where_it_is_ignored() -> None:
    x = np.array([2.0, math.nan, 1.0, 5.0])
    for function in (
        tnp.nanmedian,
        lambda x: tnp.nanquantile(x, 0.5),
        lambda x: tnp.nanpercentile(x, 50.0),
    ):
        np.testing.assert_allclose(tw.grad(function)(x), [1, 0, 0, 0])


def test_places_have_zero_slopes() -> None:
    x = np.array([0.5, -1.0, 2.0])
    for function in (
        tnp.argsort,
        lambda x: tnp.argpartition(x, 1),
        lambda x: tnp.lexsort([x]),
        lambda x: tnp.searchsorted(EDGES, x),
        lambda x: tnp.digitize(x, EDGES),
        lambda x: tnp.isin(x, [2.0]),
        lambda x: tnp.top_k(x, 2).indices,
        lambda x: tnp.histogram(x, EDGES).hist,
        tnp.nanargmax,
        tnp.nanargmin,
    ):
        np.testing.assert_array_equal(
            tw.grad(lambda x, f=function: tnp.sum(f(x)) * 1.0)(x), np.zeros(3)
        )


def test_a_histogram_stretches_with_its_extremes() -> None:
    """Half a width on either side of equal numbers is kept."""
    check_grads(lambda x: tnp.histogram_bin_edges(x, 3), [np.array([2.0, 5.0, 3.0])])
    slopes = tw.jvp(lambda x: tnp.histogram_bin_edges(x, 2), (np.array([2.0]),), (np.ones(1),))[1]
    np.testing.assert_array_equal(slopes, [1, 1, 1])
