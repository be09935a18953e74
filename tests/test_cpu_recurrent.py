"""Recurrent layers, run natively: any sizes, any number of threads, memory that holds nothing of use."""

from __future__ import annotations

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.engine.cpu import unavailable

pytestmark = pytest.mark.skipif(
    unavailable() is not None, reason="compiled code cannot be run here"
)

STEPS = 4
SIZES = [(16, 256), (3, 128), (5, 192), (33, 160), (2, 512), (64, 64), (16, 100), (1, 256), (7, 9)]


def unrolled(kind: str, batch: int, units: int, dtype: str) -> tw.Graph:
    """A layer whose weights are constants; the last state."""
    gates, rng = {"LSTM": 4, "GRU": 3}[kind], np.random.default_rng(batch)
    shapes = (units, gates * units), (units, gates * units), (gates * units,)
    w, u, bias = (tnp.asarray(rng.normal(0, 0.3, s).astype(dtype)) for s in shapes)
    x = tw.var("x", shape=(STEPS, batch, units), dtype=dtype)
    fed = x @ w + bias
    h = c = tnp.zeros((batch, units), dtype=dtype)
    for t in range(STEPS):
        if kind == "LSTM":
            i, f, g, o = tnp.split(fed[t] + h @ u, 4, axis=-1)
            c = tnp.sigmoid(f) * c + tnp.sigmoid(i) * tnp.tanh(g)
            h = tnp.sigmoid(o) * tnp.tanh(c)
        else:
            r, z, n = tnp.split(fed[t], 3, axis=-1)
            hr, hz, hn = tnp.split(h @ u + bias, 3, axis=-1)
            update = tnp.sigmoid(z + hz)
            h = (1 - update) * tnp.tanh(n + tnp.sigmoid(r + hr) * hn) + update * h
    return tw.Graph([x], h)


@pytest.mark.parametrize(("batch", "units"), SIZES)
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("float64", 1e-13)])
def test_recurrent_layers_with_any_number_of_threads(
    kind: str, batch: int, units: int, dtype: str, error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAWNY_DEBUG", "1")
    graph = unrolled(kind, batch, units, dtype)
    rng = np.random.default_rng(1)
    first, second = (rng.standard_normal((STEPS, batch, units)).astype(dtype) for _ in range(2))
    want = graph.compile(engine="reference")(first)
    seen: set[bytes] = set()
    for threads in (1, 2, 3):
        program = graph.compile(engine="cpu", threads=threads)
        program(second)
        got = program(first)
        np.testing.assert_allclose(got, want, rtol=0, atol=error * units**0.5)
        seen.add(got.tobytes())
    assert len(seen) == 1
