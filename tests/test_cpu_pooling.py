"""Gradients of pooling by native kernels: windows that tile, overlap, leave gaps, or are large.

Also what is chosen where the maxima are.
"""

from __future__ import annotations

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from cpu_checks import check
from tawny.array import array_for
from tawny.node import make
from tawny.ops.pooling import AvgPoolGradient, MaxPool, MaxPoolGradient, MaxPoolSelect

GEOMETRIES = {
    "tiling": ((8, 6), (2, 2), (2, 2), ((0, 0), (0, 0))),
    "tiling, one axis": ((9,), (3,), (3,), ((0, 0),)),
    "tiling, three axes": ((4, 4, 6), (2, 2, 3), (2, 2, 3), ((0, 0),) * 3),
    "a rest that no window sees": ((9, 7), (2, 2), (2, 2), ((0, 0), (0, 0))),
    "tiles that begin outside": ((7, 7), (2, 2), (2, 2), ((1, 0), (1, 0))),
    "overlapping": ((9, 11), (3, 3), (2, 2), ((1, 1), (1, 1))),
    "overlapping everywhere": ((6, 5), (3, 3), (1, 1), ((1, 1), (0, 2))),
    "gaps": ((11, 10), (2, 2), (3, 4), ((0, 0), (0, 0))),
    "large": ((12, 12), (5, 5), (3, 3), ((2, 2), (2, 2))),
    "large and tiling": ((10, 10), (5, 5), (5, 5), ((0, 0), (0, 0))),
}


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("channels", [1, 16, 37])
def test_gradients(name: str, channels: int) -> None:
    sizes, window, strides, padding = GEOMETRIES[name]
    rng = np.random.default_rng(len(name) + channels)
    shape = (2, *sizes, channels)
    x = tw.var("x", shape=shape, dtype="float32")
    pooled = make(MaxPool(window, strides, padding), (x.node,))
    g = tw.var("g", shape=pooled.shape, dtype="float32")
    seen = rng.integers(-3, 4, shape).astype(np.float32)  # so that there are equals
    seen.reshape(-1)[::11] = np.nan
    seen.reshape(-1)[::13] = -np.inf
    slope = rng.standard_normal(pooled.shape).astype(np.float32)
    most = array_for(make(MaxPoolGradient(window, strides, padding), (x.node, g.node)))
    mean = array_for(make(AvgPoolGradient(window, strides, padding, sizes), (g.node,)))
    graph = tw.Graph([x, g], [most, mean])
    want = graph.compile(engine="reference")(seen, slope)
    for threads in (1, 2):
        got = graph.compile(engine="cpu", threads=threads)(seen, slope)
        for ours, theirs in zip(got, want, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_choices(name: str, dtype: str) -> None:
    """What another array has where the first maximum of each window is, whatever it is."""
    sizes, window, strides, padding = GEOMETRIES[name]
    for channels in (1, 5, 16, 37):
        rng = np.random.default_rng(len(name) + channels)
        shape = (2, *sizes, channels)
        x, y = (tw.var(n, shape=shape, dtype=dtype) for n in "xy")
        seen = rng.integers(-3, 4, shape).astype(dtype)
        seen.reshape(-1)[::11] = np.nan
        seen.reshape(-1)[::13] = -np.inf
        choices = rng.standard_normal(shape).astype(dtype)
        choices.reshape(-1)[::7] = np.inf
        pair = (x.node, tnp.flip(y, axis=1).node)
        chosen = array_for(make(MaxPoolSelect(window, strides, padding), pair))
        check({x: seen, y: choices}, [chosen], threads=(1, 2, 3))


def test_slopes_of_maxima_forward_need_no_numpy() -> None:
    x = tw.var("x", shape=(2, 8, 8, 5), dtype="float32")
    _, slope = tw.jvp(lambda x: tnp.max_pool2d(x, 2), (x,), (x * 2,))
    p = tw.Graph([x], slope).compile(engine="cpu")
    assert "by NumPy" not in str(p.plan)
    value = np.random.default_rng(0).permutation(640).reshape(x.shape).astype("float32")
    windows = value.reshape(2, 4, 2, 4, 2, 5).max(axis=(2, 4))
    np.testing.assert_array_equal(p(value), 2 * windows)
