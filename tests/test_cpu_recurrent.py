"""Recurrent layers, run natively: any sizes, any number of threads, memory that holds nothing of use."""

from __future__ import annotations

import numpy as np
import pytest

from recurrent_graphs import unrolled
from tawny.engine.cpu import unavailable

pytestmark = pytest.mark.skipif(
    unavailable() is not None, reason="compiled code cannot be run here"
)

STEPS = 4
SIZES = [(16, 256), (3, 128), (5, 192), (33, 160), (2, 512), (64, 64), (16, 100), (1, 256), (7, 9)]


@pytest.mark.parametrize(("batch", "units"), SIZES)
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("float64", 1e-13)])
def test_recurrent_layers_with_any_number_of_threads(
    kind: str, batch: int, units: int, dtype: str, error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAWNY_DEBUG", "1")
    graph = unrolled(kind, batch, STEPS, units, dtype)
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
