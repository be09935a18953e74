"""Recurrent layers written out step by step."""

from __future__ import annotations

import numpy as np

import tawny as tw
import tawny.numpy as tnp


def unrolled(kind: str, batch: int, steps: int, units: int, dtype: str = "float32") -> tw.Graph:
    """A layer whose weights are constants; the last state."""
    gates, rng = {"LSTM": 4, "GRU": 3}[kind], np.random.default_rng(batch)
    shapes = (units, gates * units), (units, gates * units), (gates * units,)
    w, u, bias = (tnp.asarray(rng.normal(0, 0.3, s).astype(dtype)) for s in shapes)
    x = tw.var("x", shape=(steps, batch, units), dtype=dtype)
    fed = x @ w + bias
    h = c = tnp.zeros((batch, units), dtype=dtype)
    for t in range(steps):
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
