"""Values computed on the spot: by NumPy, or node by node by compiled kernels."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings

import tawny as tw
import tawny.eager as now
import tawny.numpy as tnp
from random_graphs import RandomGraph, graphs
from tawny.engine import evaluation, reference
from tawny.engine.cpu import single, unavailable
from tawny.node import toposort

pytestmark = pytest.mark.skipif(unavailable() is not None, reason="compiled code cannot be run")

NARROW = frozenset(map(np.dtype, ("float16", "float32", "complex64")))

RNG = np.random.default_rng(0)

compiled = partial(reference.run, by=evaluation.compute)


@given(graphs(smooth=True, impure=False))
@settings(max_examples=60, deadline=None)
def test_compiled_kernels_one_by_one_agree_with_numpy(graph: RandomGraph) -> None:
    expected = reference.run(graph.outputs, graph.feeds)
    narrow = any(n.dtype in NARROW for n in toposort(graph.outputs))
    tol = 1e-4 if narrow else 1e-9
    for got, want in zip(compiled(graph.outputs, graph.feeds), expected, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=tol, atol=tol)


def test_large_convolutions_and_pooling_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def spied(node, operands, draw):
        value = compute(node, operands, draw)
        compiled.append(node.name if value is not None else "none")
        return value

    compute = single.compute
    monkeypatch.setattr(single, "compute", spied)
    x = RNG.normal(size=(1, 160, 160, 32)).astype(np.float32)
    k = RNG.normal(size=(3, 3, 32, 32)).astype(np.float32)
    result = tw.evaluate(tnp.max_pool2d(tnp.conv2d(x, k, padding="SAME"), 2))
    assert compiled == ["convolution", "max_pool"]
    lazy = tw.var("x", shape=x.shape, dtype="float32")
    program = tw.Graph([lazy], tnp.max_pool2d(tnp.conv2d(lazy, k, padding="SAME"), 2)).compile(
        engine="reference"
    )
    np.testing.assert_allclose(result, program(x), rtol=1e-4, atol=1e-3)
    now.conv2d(x[:, :8, :8], k, padding="SAME")
    now.add(x, x)
    assert compiled == ["convolution", "max_pool"]


def test_random_numbers_are_those_of_the_reference() -> None:
    drawn = tw.random.uniform(shape=(7, 5)).node
    for draw in (0, 3):
        (ours,) = compiled([drawn], draw=draw)
        np.testing.assert_array_equal(ours, reference.run([drawn], draw=draw)[0])


def test_a_kernel_that_fails_says_why_as_numpy_does() -> None:
    x = tw.var("x", shape=(3,))
    i = tw.var("i", shape=(2,), dtype="int64")
    taken = tnp.take(x, i, axis=0).node
    feeds = {x.node: np.arange(3.0), i.node: np.array([0, 7])}
    with pytest.raises(IndexError, match=r"gather: index 7 .*test_evaluation.py"):
        compiled([taken], feeds)


def test_at_once_computes_arrays_as_they_are_made() -> None:
    x = np.linspace(0.0, 1.0, 12).reshape(3, 4)
    with now.at_once():
        y = tnp.sin(tnp.asarray(x).T) * 2
        assert y.node.value is not None
        assert not y.node.inputs
        u, s, v = tnp.linalg.svd(y)
        assert s.node.value is not None
        unknown = tw.var("x", shape=(3,)) + 1
        assert unknown.node.value is None
        slope = tw.grad(lambda a: tnp.sum(tnp.sin(a) ** 2))(x)
        drawn = tw.random.uniform(shape=(3,))
        assert drawn.node.value is not None
        broken = tnp.linalg.inv
        with pytest.raises(np.linalg.LinAlgError, match="inv: Singular matrix"):
            broken(np.zeros((2, 2)))
    assert (tnp.sin(x) * 2).node.value is None
    np.testing.assert_allclose(y.numpy(), np.sin(x.T) * 2)
    np.testing.assert_allclose((u[:, :3] * s @ v).numpy(), y.numpy(), atol=1e-12)
    np.testing.assert_allclose(slope.numpy(), np.sin(2 * x))
