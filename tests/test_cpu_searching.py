"""Native searching against NumPy: any dtypes, NaN, falling edges, threads."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from cpu_checks import check, sampled, viewed

KINDS = ("float32", "float64", "float16", "int8", "uint8", "int64", "uint64", "bool")


@pytest.mark.parametrize("seed", range(40))
def test_searching(seed: int) -> None:
    random = Random(seed)
    kinds = [random.choice(KINDS) for _ in range(2)]
    n = random.choice((0, 1, 2, 5, 100, 300))
    x = tw.var("x", shape=(n,), dtype=kinds[0])
    shape = random.choice(((), (7,), (4, 5), (20_000,), (3, 0)))
    v = tw.var("v", shape=shape, dtype=kinds[1])
    ordered = np.sort(sampled(random, (n,), kinds[0]))
    wanted = sampled(random, shape, kinds[1])
    for value in (ordered, wanted):
        if value.dtype.kind == "f" and value.size > 3 and seed % 3 == 0:
            value.reshape(-1)[-2:] = np.nan
            value.reshape(-1)[0] = -np.inf
    given = {x: ordered[::-1].copy(), v: wanted}
    outputs = [
        tnp.searchsorted(tnp.flip(x), viewed(random, v), side=side) for side in ("left", "right")
    ]
    check(given, outputs, threads=(1, 2, 3, 5))


@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
def test_intervals(dtype: str, falls: bool) -> None:
    random = Random(dtype)
    for edges in ([1, 2, 2, 5], [3], [2, 2, 2], [], list(range(50))):
        bins = np.asarray(edges[::-1] if falls else edges, dtype)
        x = tw.var("x", shape=(4, 30), dtype=dtype)
        b = tw.var("b", shape=bins.shape, dtype=dtype)
        given = {x: sampled(random, x.shape, dtype), b: bins}
        outputs = [tnp.digitize(x.T, b, right=right) for right in (False, True)]
        check(given, outputs, threads=(1, 3))


def test_edges_that_neither_rise_nor_fall_are_refused() -> None:
    x, b = tw.var("x", shape=(5,)), tw.var("b", shape=(3,))
    p = tw.Graph([x, b], tnp.digitize(x, b)).compile(engine="cpu")
    value = np.arange(5.0)
    with pytest.raises(ValueError, match=r"digitize: bins must be monotonic.*test_cpu_searching"):
        p(value, [0.0, 2.0, 1.0])
    np.testing.assert_array_equal(p(b=[0.0, 1.0, 2.0]), [1, 2, 3, 3, 3])


@pytest.mark.parametrize("steps", [1, 5])
def test_numpy_computes_what_a_kernel_gives_up(steps: int) -> None:
    """Edges with a NaN in front: NumPy takes them, so the program goes on after that step."""
    x, b = tw.var("x", shape=(4,)), tw.var("b", shape=(3,))
    count = tw.var("count", dtype="int64")
    found = tnp.digitize(x + 1.0, b)
    p = tw.Graph([x, b], found * 2, updates={count: count + tnp.sum(found)}).compile(engine="cpu")
    edges, values = np.array([np.nan, 1.0, 0.5]), np.array([0.0, 0.7, 2.0, np.nan])
    p.set(x=values - 1.0, b=edges, count=np.int64(0))
    expected = np.digitize(values - 1.0 + 1.0, edges)
    np.testing.assert_array_equal(p.run(steps=steps), expected * 2)
    assert p.state["count"] == steps * expected.sum()
    p.set(b=np.array([0.0, 1.0, 2.0]))
    np.testing.assert_array_equal(p.run(), np.digitize(values, [0.0, 1.0, 2.0]) * 2)
