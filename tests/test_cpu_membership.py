"""Native membership of sets against NumPy: pairs of dtypes, shapes, NaN, zeros, views, threads."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from cpu_checks import DTYPES, check, viewed

SHAPES = [(), (0,), (1,), (5,), (9,), (40,), (3, 30), (6000,), (4, 0)]


def small_numbers(random: Random, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Of which many are equal, with special ones."""
    rng, kind = np.random.default_rng(random.randrange(2**31)), np.dtype(dtype)
    value = np.asarray(rng.integers(0, 60, shape)).astype(kind)
    if kind.kind == "c":
        value = np.asarray(value + 1j * rng.integers(0, 3, shape)).astype(kind)
    if kind.kind in "fc" and value.size > 4:
        value.reshape(-1)[:4] = (np.nan, np.inf, -0.0, -np.inf)
    if kind.kind == "c" and value.size > 6:
        value.reshape(-1)[4:6] = (complex(1, np.nan), complex(np.nan, 1))
    return value


@pytest.mark.parametrize("dtype", [*DTYPES, "int16", "uint32", "uint64"])
def test_membership(dtype: str) -> None:
    random = Random(dtype)
    sets = [n for _ in range(2) for n in random.sample(SHAPES, len(SHAPES))]
    for shape, among in zip(2 * SHAPES, sets, strict=True):
        other = random.choice((dtype, dtype, "float32", "int8", "bool", "complex64"))
        x = tw.var("x", shape=shape, dtype=dtype)
        s = tw.var("s", shape=among, dtype=other)
        given = {x: small_numbers(random, shape, dtype), s: small_numbers(random, among, other)}
        outputs = [tnp.isin(viewed(random, x), viewed(random, s), invert=random.random() < 0.5)]
        native = dtype != "uint64" or other != "int8"
        check(given, outputs, native=native, threads=(1, 3))


def test_large_integers_are_told_apart() -> None:
    """They are compared as integers, or by NumPy where no dtype has all of them."""
    x = tw.var("x", shape=(20,), dtype="int64")
    for dtype, native in (("int64", True), ("uint64", False)):
        s = tw.var("s", shape=(30,), dtype=dtype)
        value = 2**62 + np.arange(20)
        check({x: value, s: (2**62 + 2 * np.arange(30)).astype(dtype)}, [tnp.isin(x, s)],
              native=native)  # fmt: skip


def test_membership_needs_scratch_for_the_set_alone() -> None:
    x, s = tw.var("x", shape=(50_000,)), tw.var("s", shape=(1000,))
    p = tw.Graph([x, s], tnp.isin(x, s)).compile(incremental=False)
    assert p.plan.peak_bytes <= 50_000 + 2 * 8000 + 64
    rng = np.random.default_rng(0)
    value, members = rng.integers(0, 5000, 50_000) / 4, rng.integers(0, 5000, 1000) / 4
    np.testing.assert_array_equal(p(value, members), np.isin(value, members))
