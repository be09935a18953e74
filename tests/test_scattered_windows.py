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


def test_kernels_of_groups_are_copied_where_outputs_lie_apart() -> None:
    """As PyTorch has them, and its optimisers change them."""
    x, k = tw.var("x", (1, 9, 8, 24), "float32"), tw.var("k", (24, 1, 3, 3), "float32")

    def loss(x: Any, k: Any) -> Any:
        turned = tnp.transpose(k, (2, 3, 1, 0))
        return tnp.sum(tnp.conv2d(x, turned, padding="SAME", groups=24) ** 2)

    graph = tw.Graph([x, k], [loss(x, k), tw.grad(loss, argnums=0)(x, k)])
    program = graph.compile()
    assert "copy_scattered" in {r.rule.name for r in program.rewrites}
    values = [rng.normal(size=v.shape).astype("float32") for v in (x, k)]
    want = graph.compile(engine="reference")(*values)
    for options in ({}, {"disable": ["copy_scattered"]}):
        for got, exact in zip(graph.compile(**options)(*values), want, strict=True):
            np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-3)
    copies = [s for s in program.plan.steps if s.array.node.name == "copy"]
    assert len(copies) == 1  # the result and its slope share it
