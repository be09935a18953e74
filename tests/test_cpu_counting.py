"""Counts of integers: NumPy's, on any threads, and its errors."""

from __future__ import annotations

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_counts_on_any_threads(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for n, bins in ((0, 5), (7, 9), (40_000, 130), (40_000, 5000), (20_000, 100_000)):
        x = rng.integers(0, min(bins, 200), n).astype(dtype)
        for threads in (1, 2, 3):
            v = tw.var("v", shape=(2 * n,), dtype=dtype)
            program = tw.Graph([v], [tnp.bincount(v[::2], length=bins)]).compile(threads=threads)
            assert "by NumPy" not in str(program.plan)
            found = program(np.repeat(x, 2))[0]
            np.testing.assert_array_equal(found, np.bincount(x.astype(int), minlength=bins))


def test_weights_are_added_in_order() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.integers(0, 9, 5000), rng.normal(size=5000)
    v, u = tw.var("v", shape=(5000,), dtype="int64"), tw.var("u", shape=(5000,))
    program = tw.Graph([v, u], [tnp.bincount(v, u, length=11)]).compile()
    assert "by NumPy" not in str(program.plan)
    np.testing.assert_array_equal(program(x, w)[0], np.bincount(x, w, 11))


def test_integers_outside_are_refused_and_the_program_runs_on(engine: str) -> None:
    v = tw.var("v", shape=(3,), dtype="int64")
    program = tw.Graph([v], [tnp.bincount(v, length=5)]).compile(engine)
    for bad in ([1, 2, 5], [1, -1, 2], [2**40, 0, 0]):
        with pytest.raises(ValueError, match="they must be from 0 to 4"):
            program(np.array(bad))
    np.testing.assert_array_equal(program(np.array([1, 1, 4]))[0], [0, 2, 0, 0, 1])


def test_short_rows_are_gathered_whole() -> None:
    """Runs of every length up to those that are moved in a loop, of every size of element."""
    rng = np.random.default_rng(2)
    for dtype in ("uint8", "float16", "float32", "complex128"):
        for length in (1, 2, 3, 5, 12, 31):
            x = rng.integers(0, 99, (4, 6, length)).astype(dtype)
            places = np.array([5, -6, 0, 3])
            v = tw.var("x", shape=x.shape, dtype=dtype)
            program = tw.Graph([v], [tnp.take(v, places, axis=1)]).compile()
            np.testing.assert_array_equal(program(x)[0], np.take(x, places, axis=1))


def test_short_axes_are_repeated() -> None:
    """What is broadcast along a short last axis, from any place on."""
    rng = np.random.default_rng(3)
    for dtype in ("float32", "float64", "int8"):
        for n, length in ((5, 3), (400, 3), (97, 16), (300, 7)):
            x, y = (rng.integers(0, 9, s).astype(dtype) for s in ((3, n, length), (1, n, 1)))
            v, u = (tw.var(k, shape=a.shape, dtype=dtype) for k, a in (("x", x), ("y", y)))
            found = tw.Graph([v, u], [v * u + v]).compile()(x, y)[0]
            np.testing.assert_array_equal(found, x * y + x)
