"""The first elements of sorts: the very elements and places of whole sorts, by less work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.array import wrap
from tawny.node import make
from tawny.ops.partial_sorting import PartialArgSort, PartialSort

SHAPES = [((300,), 0, 7), ((5, 4000), 1, 10), ((3000, 3), 0, 40), ((2, 1025, 2), 1, 256)]


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers of which many are equal, some not finite, and both zeros."""
    rng = np.random.default_rng(0)
    if np.dtype(dtype).kind != "f":
        info = np.iinfo(dtype)
        found = rng.integers(max(info.min, -500), min(info.max, 500), shape, endpoint=True)
        found.reshape(-1)[:2] = info.min, info.max
        return found.astype(dtype)
    found = np.round(rng.normal(size=shape), 2)
    flat = found.reshape(-1)
    flat[rng.integers(0, found.size, 9)] = [
        np.nan,
        -np.nan,
        np.inf,
        -np.inf,
        0,
        -0.0,
        0,
        -0.0,
        np.nan,
    ]
    return found.astype(dtype)


def run(f: Callable[..., Any], x: np.ndarray, engine: str = "cpu") -> tuple[list[str], Any]:
    v = tw.var("x", shape=x.shape, dtype=x.dtype)
    program = tw.Graph([v], [f(v)]).compile(engine)
    steps = [step.array.node.name for step in program.plan.steps]
    return steps, program(x)[0]


def bits(x: np.ndarray) -> bytes:
    return np.ascontiguousarray(x).tobytes()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "uint32"])
def test_first_elements_are_those_of_the_sort(dtype: str) -> None:
    for shape, axis, count in SHAPES:
        x = drawn(shape, dtype)
        first = (slice(None),) * axis + (slice(0, count),)
        whole = run(lambda v, a=axis: tnp.sort(v, axis=a), x)[1]
        steps, found = run(lambda v, a=axis, f=first: tnp.sort(v, axis=a)[f], x)
        assert steps == ["partial_sort"]
        assert bits(found) == bits(whole[first])
        for descending in (False, True):
            whole = run(lambda v, a=axis, d=descending: tnp.argsort(v, axis=a, descending=d), x)[1]
            steps, found = run(
                lambda v, a=axis, d=descending, f=first: tnp.argsort(v, axis=a, descending=d)[f], x
            )
            assert steps == ["partial_argsort"]
            np.testing.assert_array_equal(found, whole[first])


@pytest.mark.parametrize("order", ["rising", "falling", "equal"])
def test_rows_of_any_order(order: str) -> None:
    x = {"rising": np.arange(5000.0), "falling": np.arange(5000.0)[::-1], "equal": np.ones(5000)}[
        order
    ]
    _, places = run(lambda v: tnp.argsort(v)[:100], x.copy())
    np.testing.assert_array_equal(places, np.argsort(x, kind="stable")[:100])


def test_top_k_searches_once(engine: str) -> None:
    x = drawn((6, 700), "float32")
    x[np.isnan(x)] = 1
    v = tw.var("x", shape=x.shape, dtype=x.dtype)
    found = tnp.top_k(v, 5)
    program = tw.Graph([v], [found.values, found.indices]).compile(engine)
    values, places = program(x)
    expected = np.argsort(-x, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))


def test_sorts_of_which_more_is_read_stay_whole() -> None:
    x = drawn((1000,), "float64")
    for f in (
        lambda v: tnp.sort(v)[:600],
        lambda v: tnp.sort(v)[-5:],
        lambda v: tnp.sort(v) * 2,
        lambda v: tnp.sort(v, descending=True)[:5],
        lambda v: tnp.sort(v[:200])[:5],
    ):
        assert "partial_sort" not in run(f, x)[0]


def test_several_slices_share_one_search() -> None:
    x = drawn((1000,), "float64")
    x[np.isnan(x)] = 0
    steps, found = run(lambda v: tnp.sort(v)[9] + tnp.sum(tnp.sort(v)[:10]), x)
    assert steps.count("partial_sort") == 1
    low = np.sort(x)[:10]
    np.testing.assert_allclose(found, low[9] + low.sum())


def test_bits_do_not_depend_on_threads() -> None:
    x = drawn((64, 2000), "float64")
    v = tw.var("x", shape=x.shape)
    found = [tw.Graph([v], [tnp.argsort(v)[:, :20]]).compile(threads=t)(x)[0] for t in (1, 2, 3)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("op", [PartialSort(0, 4), PartialSort(1, 2), PartialArgSort(0, 9, False)])
def test_what_has_fewer_elements_is_refused(op: Any) -> None:
    with pytest.raises(ValueError, match="operand 0 has shape"):
        make(op, (tw.var(shape=(3,)).node,))


def test_batches_and_costs() -> None:
    x = drawn((3, 400), "float64")
    x[np.isnan(x)] = 0
    for op, whole in ((PartialSort(0, 5), np.sort), (PartialArgSort(0, 5, False), np.argsort)):
        mapped = tw.vmap(lambda v, o=op: wrap(make(o, (v.node,))))(x)
        np.testing.assert_array_equal(mapped.numpy(), whole(x, axis=1, kind="stable")[:, :5])
        node = make(op, (tw.var(shape=(400,)).node,))
        assert node.cost().operations == 400 + 5 * 3
