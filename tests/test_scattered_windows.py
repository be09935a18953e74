"""Images that lie scattered in memory are brought together before windows overlap on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp

rng = np.random.default_rng(7)

ORDERS = {
    "time before channels": ((1, 30, 8, 20), (0, 3, 1, 2), True),
    "channels first": ((1, 8, 30, 20), (0, 2, 3, 1), False),
    "pixels turned": ((1, 30, 20, 8), (0, 2, 1, 3), False),
}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("window", [1, 3])
def test_views_are_copied_where_nothing_is_side_by_side(name: str, window: int) -> None:
    shape, axes, scattered = ORDERS[name]
    x = tw.var("x", shape, "float32")
    kernel: Any = rng.normal(size=(window, window, 8, 16)).astype("float32")
    graph = tw.Graph([x], tnp.conv2d(tnp.transpose(x * 2, axes), kernel, padding="SAME"))
    program = graph.compile()
    rules = {r.rule.name for r in program.rewrites}
    assert ("copy_scattered" in rules) == (scattered and window > 1)
    value = rng.normal(size=shape).astype("float32")
    want = graph.compile(engine="reference")(value)
    np.testing.assert_allclose(program(value), want, rtol=1e-4, atol=1e-4)
    if scattered and window > 1:
        plain = graph.compile(disable=["copy_scattered"])
        np.testing.assert_allclose(plain(value), want, rtol=1e-4, atol=1e-4)
