"""Gradients of pooling by native kernels: windows that tile, overlap, leave gaps, or are large."""

from __future__ import annotations

import numpy as np
import pytest

import tawny as tw
from tawny.array import array_for
from tawny.node import make
from tawny.ops.pooling import AvgPoolGradient, MaxPool, MaxPoolGradient

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
