"""Folds of columns, walked in tiles or one by one: the same bits, on any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.engine.cpu.kernels.reduction import plan
from tawny.engine.llvm.runtime.host import host

RNG = np.random.default_rng(0)

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda np, x: np.sum(x, axis=0),
    "mean": lambda np, x: np.mean(x, axis=0),
    "largest": lambda np, x: np.max(x, axis=0),
    "product": lambda np, x: np.prod(1 + x / 64, axis=0),
    "place of the least": lambda np, x: np.argmin(x, axis=0),
    "variance": lambda np, x: np.var(x, axis=0),
    "of exponentials": lambda np, x: np.sum(np.exp(x / 8 - x[0] / 8), axis=0),
    "softmax": lambda np, x: np.exp(x - np.max(x, 0)) / np.sum(np.exp(x - np.max(x, 0)), 0),
    "standardised": lambda np, x: (x - np.mean(x, 0)) / np.sqrt(np.var(x, 0) + 1),
    "several": lambda np, x: (np.sum(x, 0), np.min(x, 0), np.sum(x * x, 0)),
    "two axes": lambda np, x: np.sum(x.reshape((-1, 4, x.shape[1])), axis=(0, 1)),
    "outer axis": lambda np, x: np.sum(x.reshape((4, -1, x.shape[1])), axis=1),
    "all true": lambda np, x: np.all(x > -3, axis=0),
}


def computed(function: Any, value: np.ndarray, threads: int) -> list[np.ndarray]:
    x = tw.var("x", value.shape, value.dtype)
    program = tw.Graph([x], function(tnp, x)).compile(threads=threads)
    result = program(value)
    return [*result] if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
def test_tiles_change_no_bit(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function = FUNCTIONS[name]
    for rows, columns in ((4 * 13, 70), (4 * 300, 33), (4 * 33, 517), (4 * 5000, 70)):
        value = (RNG.normal(size=(rows, columns)) * 3).astype(dtype)
        with monkeypatch.context() as patch:
            patch.setattr(plan, "TILED_BYTES", 1 << 60)
            plain = computed(function, value, 1)
        for tile_bytes, threads in ((1 << 13, 1), (1 << 10, 2), (1 << 13, 3)):
            with monkeypatch.context() as patch:
                patch.setattr(plan, "TILED_BYTES", 1)
                patch.setattr(plan, "TILE_BYTES", tile_bytes)
                tiled = computed(function, value, threads)
            for one, other in zip(plain, tiled, strict=True):
                np.testing.assert_array_equal(one, other)
    if dtype in ("float64", "int32"):
        want = function(np, value)
        for one, other in zip(plain, [*want] if isinstance(want, tuple) else [want], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.skipif(not host().has_fma, reason="NumPy computes folds on this processor")
def test_large_columns_are_walked_in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they outgrow the caches, and only there."""
    found: list[int] = []
    monkeypatch.setattr(
        plan, "reduction_library", lambda key, layout, of=plan.reduction_library: (
            found.append(layout.tile) or of(key, layout)
        )
    )  # fmt: skip
    for shape in ((3000, 1000), (40, 1000), (3000, 8)):
        x = tw.var("x", shape)
        tw.Graph([x], tnp.sum(x, axis=0)).compile()
    assert [tile > 1 for tile in found] == [True, False, False]
