"""Native places of extremes, running sums and products, and long rows swept several times."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from cpu_checks import DTYPES, check, sampled, tolerance, viewed
from tawny.array import Array

REAL = [d for d in DTYPES if np.dtype(d).kind != "c"]
SHAPES = [(1,), (5,), (1, 5), (7, 130), (130, 7), (3, 4, 70), (2, 1, 300), (64, 64), (3, 40, 2)]


def places(x: Array) -> list[Array]:
    """Of the greatest and least elements, along every axis and of all."""
    axes = (None, *range(x.ndim))
    return [
        f(x, axis=a, keepdims=k) for f in (tnp.argmax, tnp.argmin) for a in axes for k in (0, 1)
    ]


# ------------------------------------------------------------- places of extremes


@pytest.mark.parametrize("dtype", REAL)
def test_places_of_extremes(dtype: str) -> None:
    random = Random(dtype)
    for shape in SHAPES:
        x = tw.var("x", shape=shape, dtype=dtype)
        value = sampled(random, shape, dtype)
        if value.dtype.kind == "f":
            value = value.round(0)  # so that there are equals
        check({x: value}, [*places(x), *places(viewed(random, x))], threads=(1, 3))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_places_among_special_values(dtype: str) -> None:
    value = np.full((5, 50), -np.inf, dtype)
    value[1, 7], value[1, 3], value[2, 9] = np.nan, np.inf, 1
    value[3, 40] = value[3, 30] = np.nan
    value[4] = 0.0
    value[4, ::2] = -0.0
    for given in (value, -value, np.full((5, 50), np.nan, dtype)):
        x = tw.var("x", shape=given.shape, dtype=dtype)
        check({x: given}, [*places(x), *places(x.T)], threads=(1, 2))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_places_where_all_are_the_least(dtype: str) -> None:
    limits = np.iinfo(dtype)
    for number in (limits.min, limits.max):
        x = tw.var("x", shape=(3, 40), dtype=dtype)
        check({x: np.full((3, 40), number, dtype)}, places(x))


@pytest.mark.parametrize("shape", [(200_003,), (2, 70_001), (70_001, 2), (300, 700)])
def test_places_in_long_rows(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = tw.var("x", shape=shape, dtype="float32")
    value = rng.normal(size=shape).astype(np.float32).round(2)
    outputs = [f(y, axis=a) for f in (tnp.argmax, tnp.argmin) for y in (x, x.T) for a in (None, 0)]
    check({x: value}, outputs, threads=(1, 2, 3, 5))


def test_places_are_found_in_what_is_computed() -> None:
    x = tw.var("x", shape=(100, 300), dtype="float32")
    y = tw.var("y", shape=(100,), dtype="int64")
    found = tnp.argmax(x * 2 - 1, axis=1)
    p = tw.Graph([x, y], [tnp.mean(found == y), found, tnp.max(x * 2 - 1, axis=1)]).compile()
    assert {s.array.node.name for s in p.plan.steps} == {"group"}
    value = np.random.default_rng(0).normal(size=(100, 300)).astype(np.float32)
    right = value.argmax(1)
    right[::4] = 0
    share, places_found, _ = p(value, right)
    np.testing.assert_array_equal(places_found, value.argmax(1))
    assert share == np.mean(value.argmax(1) == right)


# ------------------------------------------------------------- complex products


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_products_of_complex_numbers_that_are_not_finite(dtype: str) -> None:
    """In order they are NumPy's to the bit; in another order they are no more finite than those."""
    parts = np.array([0.0, -0.0, 1.0, 2.5, np.inf, -np.inf, np.nan])
    pairs = np.empty((7, 7), dtype)
    pairs.real, pairs.imag = parts[:, None], parts
    one, two = np.meshgrid(pairs, pairs)
    x = tw.var("x", shape=(2, 49 * 49), dtype=dtype)
    value = np.stack([one.reshape(-1), two.reshape(-1)])
    check({x: value}, [tnp.prod(x, axis=0)], threads=(1, 2, 3))
    y = tw.var("y", shape=(49 * 49, 2), dtype=dtype)
    p = tw.Graph([y], tnp.prod(y, axis=1)).compile(engine="cpu")
    with np.errstate(all="ignore"):
        expected = np.prod(value.T, axis=1)
    np.testing.assert_array_equal(np.isfinite(p(value.T)), np.isfinite(expected))


@pytest.mark.parametrize("shape", [(200_003,), (2, 70_001), (70_001, 2), (300, 700)])
def test_long_products_of_complex_numbers(shape: tuple[int, ...]) -> None:
    x = tw.var("x", shape=shape, dtype="complex128")
    angle = np.random.default_rng(0).normal(size=shape)
    outputs = [tnp.prod(x, axis=a) for a in (None, 0, len(shape) - 1)]
    check({x: np.exp(1j * angle)}, outputs, tol=1e-10, threads=(1, 2, 3, 5))


# ------------------------------------------------------------------------ scans


@pytest.mark.parametrize("scan", [tnp.cumulative_sum, tnp.cumulative_prod])
@pytest.mark.parametrize("dtype", DTYPES)
def test_running_folds(scan: Any, dtype: str) -> None:
    random = Random(f"{scan.__name__} {dtype}")
    inexact = np.dtype(dtype).kind == "c"
    for shape in [*SHAPES, (0,), (3, 0), (0, 3), (2, 3, 4, 5)]:
        x = tw.var("x", shape=shape, dtype=dtype)
        y = viewed(random, x)
        value = sampled(random, shape, dtype)
        if value.dtype.kind == "f" and value.size > 3:
            value.reshape(-1)[:3] = random.choice(((-0.0, 1, 2), (np.inf, 1, 0), (1, np.nan, 2)))
        outputs = [
            scan(y, axis=axis, include_initial=initial)
            for axis in range(y.ndim)
            for initial in (False, True)
        ]
        check({x: value}, outputs, tol=1e-4 if inexact else 0.0, threads=(1, 2, 3, 5))


def test_long_running_folds() -> None:
    x = tw.var("x", shape=(300, 401), dtype="float32")
    value = np.random.default_rng(0).normal(size=(300, 401)).astype(np.float32)
    outputs = [tnp.cumulative_sum(y, axis=a, dtype=d) for y in (x, x.T) for a in (0, 1)
               for d in ("float32", "float64")]  # fmt: skip
    check({x: value}, outputs, threads=(1, 2, 3, 5))


# ------------------------------------------------------- rows swept several times


def standardised(x: Array) -> Array:
    away = x - tnp.mean(x, axis=-1, keepdims=True)
    return away / tnp.sqrt(tnp.mean(away * away, axis=-1, keepdims=True) + 1e-5)


def several(x: Array) -> list[Array]:
    top = tnp.max(x, axis=-1, keepdims=True)
    return [tnp.softmax(x), tnp.sum(tnp.exp(x - top), axis=-1), tnp.argmax(x, axis=-1)]


SWEPT = {
    "logsumexp": lambda x: tnp.logsumexp(x, axis=-1),
    "var": lambda x: tnp.var(x, axis=-1),
    "columns": lambda x: tnp.var(x.T, axis=0),
    "softmax": tnp.softmax,
    "standardised": standardised,
    "several": several,
}


@pytest.mark.parametrize("name", SWEPT)
@pytest.mark.parametrize("shape", [(200_003,), (3, 90_001)])
def test_long_rows_are_cut_in_every_sweep(name: str, shape: tuple[int, ...]) -> None:
    x = tw.var("x", shape=shape, dtype="float32")
    value = np.random.default_rng(2).normal(size=shape).astype(np.float32)
    graph = tw.Graph([x], SWEPT[name](x))
    programs = [graph.compile(engine="cpu", threads=n) for n in (1, 2, 3, 5)]
    found = [[*y] if isinstance(y, tuple) else [y] for y in (p(value) for p in programs)]
    for other in found[1:]:
        for got, want in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(got, want)
    exact = graph.compile(engine="reference")(value)
    for got, want in zip(found[0], exact if isinstance(exact, tuple) else [exact], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["logsumexp", "var"])
def test_one_long_row_is_shared_by_threads(name: str) -> None:
    x = tw.var("x", shape=(200_003,), dtype="float32")
    p = tw.Graph([x], SWEPT[name](x)).compile(engine="cpu", optimise=False)
    table = p._compiled.executable._table
    shared = [entry.threads for entry in table._entries]
    assert [n > 0 for n in shared] == [True, False, True, False], "a sweep, its end, and again"


def test_half_precision_adds_up_exponentials_in_single_precision() -> None:
    x = tw.var("x", shape=(100_000,), dtype="float16")
    value = np.full(100_000, 11.0, "float16")
    for engine in ("cpu", "reference"):
        p = tw.Graph([x], tnp.logsumexp(x)).compile(engine=engine)
        assert "by NumPy" not in str(p.plan) or engine == "reference"
        found = p(value)
        assert found.dtype == np.float16
        assert found == np.float16(11 + np.log(100_000)), "100,000 is more than float16 can hold"


@pytest.mark.parametrize("dtype", ["float16", "float64", "int64"])
def test_variances_of_long_rows(dtype: str) -> None:
    x = tw.var("x", shape=(2, 80_000), dtype=dtype)
    value = sampled(Random(dtype), x.shape, dtype)
    tol = tolerance(np.dtype("float64" if dtype == "int64" else dtype), 80_000)
    outputs = [tnp.var(x, axis=1), tnp.var(x), tnp.mean(x, axis=1), tnp.var(x, axis=0)]
    check({x: value}, outputs, tol=tol, threads=(1, 2, 3))


# ------------------------------------------------------------- rows swept several times


def quantised(x: Any, dtype: str) -> Any:
    """Numbers as bytes with a scale, and what these stand for."""
    whole = tnp.clip(tnp.rint(x / np.float32(0.05)) + np.float32(3), -100, 100).astype(dtype)
    return whole, (whole.astype("int32") - 3).astype("float32") * np.float32(0.05)


@pytest.mark.parametrize("length", [1, 15, 16, 33, 300, 5000, 40_000])
def test_what_each_walk_would_compute_again(length: int) -> None:
    """Exact integers after several folds: short rows are written down, long ones computed again."""
    x = tw.var("x", (3, length), "float32")
    _, near = quantised(x, "int8")
    away = tnp.exp(near - near.max(axis=1, keepdims=True))
    whole, back = quantised(away / away.sum(axis=1, keepdims=True) * np.float32(40), "uint8")
    value = np.random.default_rng(length).normal(size=(3, length)).astype("float32")
    for outputs in ([whole, whole.sum(axis=1, dtype="int32")], [back - back.mean(axis=1)[:, None]]):
        graph = tw.Graph([x], outputs)
        got = graph.compile(threads=2)(value)
        for one, other in zip(got, graph.compile(engine="reference")(value), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6 + (one.dtype == "uint8"))
