"""Native correlations and convolutions against NumPy: any dtypes, lengths, modes, strides, threads."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from cpu_checks import DTYPES, check, sampled, tolerance

LENGTHS = [(1, 1), (1, 7), (7, 1), (5, 5), (6, 4), (4, 6), (100, 3), (3, 100), (1000, 33),
           (33, 1000), (64, 64), (257, 130)]  # fmt: skip


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", [*DTYPES, "int16", "uint64"])
def test_correlations(dtype: str, mode: str) -> None:
    random = Random(f"{dtype} {mode}")
    for n, m in LENGTHS:
        x, y = tw.var("x", shape=(n,), dtype=dtype), tw.var("y", shape=(m,), dtype=dtype)
        given = {x: sampled(random, (n,), dtype), y: sampled(random, (m,), dtype)}
        outputs = [
            tnp.correlate(x, y, mode),
            tnp.convolve(x, y, mode),
            tnp.correlate(tnp.flip(x), y[::2], mode),
        ]
        check(given, outputs, tol=tolerance(np.dtype(dtype), 4 * min(n, m)), threads=(1, 2, 3))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_what_does_not_overlap_is_not_multiplied(dtype: str, mode: str) -> None:
    """An infinite or undefined number reaches the shifts that see it, and no others."""
    for n, m in LENGTHS:
        value, other = np.ones(n, dtype), np.ones(m, dtype)
        value[n // 2], other[0], other[-1] = np.nan, np.inf, 0
        x, y = tw.var("x", shape=(n,), dtype=dtype), tw.var("y", shape=(m,), dtype=dtype)
        p = tw.Graph([x, y], tnp.correlate(x, y, mode)).compile(engine="cpu")
        with np.errstate(all="ignore"):
            expected = np.correlate(value, other, mode)
        np.testing.assert_array_equal(np.isfinite(p(value, other)), np.isfinite(expected))


def test_a_long_correlation_needs_no_memory_beside() -> None:
    x, y = tw.var("x", shape=(100_000,)), tw.var("y", shape=(50,))
    p = tw.Graph([x, y], tnp.correlate(x, y)).compile(incremental=False)
    assert p.plan.peak_bytes <= 8 * 100_000
    value, other = np.random.default_rng(0).normal(size=100_000), np.arange(50.0)
    np.testing.assert_allclose(p(value, other), np.correlate(value, other), atol=1e-9)
