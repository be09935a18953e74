"""Native scatter: any part, repeated indices in order, the same bits for any number of threads."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from cpu_checks import DTYPES, check, sampled, viewed
from tawny.array import Array, array_for
from tawny.node import Value, make
from tawny.ops.indexing import COMBINE, Range, Scatter

MODES = ("set", *COMBINE)


def some_range(random: Random, n: int) -> Range:
    """A range within an axis of `n` elements, perhaps backwards or by steps."""
    step = random.choice((1, 1, -1, 2))
    length = random.randint(1, max(1, n // abs(step)))
    return (0 if step > 0 else n - 1), length, step


def shrunk(random: Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to another one."""
    short = tuple([1 if random.random() < 0.3 else n for n in shape])
    return short[random.choice((0, 0, 1)) :] if len(short) > 1 else short


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(24))
def test_scatter(mode: str, seed: int) -> None:
    random = Random(f"{mode} {seed}")
    dtype = random.choice(DTYPES)
    if np.dtype(dtype).kind == "c" and mode in ("min", "max"):
        dtype = "float16"
    shape = tuple(random.choice((1, 2, 3, 5)) for _ in range(random.randint(0, 4)))
    if seed % 6 == 0:
        shape = (*shape[:2], 700)
    rank = len(shape)
    ranges = tuple(some_range(random, n) for n in shape)
    axes = tuple(sorted(random.sample(range(rank), random.randint(0, min(2, rank)))))
    place = random.randint(0, rank - len(axes)) if axes else 0
    common = tuple(random.randint(1, 4) for _ in range(random.randint(0, 2))) if axes else ()
    if axes and seed % 3 == 0:
        common = (200,)
    x = tw.var("x", shape=shape, dtype=dtype)
    given: dict[Array, Value] = {x: sampled(random, shape, dtype)}
    indices: list[Array] = []
    for axis in axes:
        n = ranges[axis][1]
        kind = random.choice(("int64", "int32") if n > 100 else ("int8", "uint8", "int64"))
        i = tw.var(f"i{axis}", shape=shrunk(random, common), dtype=kind)
        lowest = 0 if kind == "uint8" else -n
        given[i] = np.random.default_rng(seed).integers(lowest, n, i.shape).astype(kind)
        indices.append(i)
    left = [ranges[a][1] for a in range(rank) if a not in axes]
    picked = np.broadcast_shapes(*[i.shape for i in indices])
    v = tw.var("v", shape=shrunk(random, (*left[:place], *picked, *left[place:])), dtype=dtype)
    given[v] = sampled(random, v.shape, dtype)
    source = x if dtype == "bool" or random.random() < 0.5 else x + np.zeros((), dtype)
    values = tnp.flip(v) if random.random() < 0.3 else v
    nodes = (source.node, values.node, *[i.node for i in indices])
    out = array_for(make(Scatter(ranges, axes, place, mode), nodes))
    inexact = np.dtype(dtype).kind == "c"
    check(given, [out], tol=1e-4 if inexact else 0.0, threads=(1, 2, 3, 5))


def test_views_are_scattered_into_copies() -> None:
    random = Random(4)
    for _ in range(20):
        x = tw.var("x", shape=(6, 5, 4), dtype="float32")
        y = viewed(random, x)
        out = y.at[..., 1].add(2.0).at[0].set(y[-1])
        check({x: sampled(random, x.shape, "float32")}, [out, y + 0], threads=(1, 3))


@pytest.mark.parametrize("mode", MODES)
def test_many_values_for_one_place_are_taken_in_order(mode: str) -> None:
    """Rounding shows the order: sums of float32 of very different sizes."""
    rng = np.random.default_rng(1)
    for shape, count in (((50,), 40_000), ((7, 300), 500), ((3,), 9)):
        x, i = tw.var("x", shape=shape, dtype="float32"), tw.var("i", shape=(count,), dtype="int64")
        v = tw.var("v", shape=(count, *shape[1:]), dtype="float32")
        values = rng.choice([1.0, 1e8, -1e8, 1e-4], v.shape).astype(np.float32)
        places = rng.integers(-shape[0], shape[0], count)
        out = getattr(x.at[i], mode)(v)
        check({x: np.ones(shape, np.float32), i: places, v: values}, [out], threads=(1, 2, 3, 5))


def test_empty_parts_change_nothing() -> None:
    x = tw.var("x", shape=(4, 3))
    i, v = tw.var("i", shape=(0,), dtype="int64"), tw.var("v", shape=(0, 3))
    given = {x: np.arange(12.0).reshape(4, 3), i: np.zeros(0, np.int64), v: np.zeros((0, 3))}
    check(given, [x.at[i].add(v), x.at[1:1].set(5.0)], threads=(1, 3))


@pytest.mark.parametrize("bad", [4, -5, 2**40])
def test_an_index_outside_changes_no_state(bad: int) -> None:
    w = tw.var("w", shape=(4, 2))
    i = tw.var("i", shape=(2,), dtype="int64")
    p = tw.Graph([i], tnp.sum(w), updates={w: w.at[i].add(1.0)}).compile(engine="cpu")
    p.set(w=np.zeros((4, 2)))
    p([0, -1])
    expected = [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    with pytest.raises(IndexError, match=r"scatter: index .* out of bounds.*test_cpu_scatter\.py"):
        p([1, bad])
    assert p.state["w"].tolist() == expected, "a failed run changes no state"
    p([1, 1])
    assert p.state["w"][1].tolist() == [2.0, 2.0]


def test_an_embedding_and_its_gradient_run_natively() -> None:
    table, rows = (
        tw.var("table", shape=(30, 16), dtype="float32"),
        tw.var("rows", shape=(5, 8), dtype="int64"),
    )
    target = tnp.take(table, rows, axis=0)
    slope = tw.gradients(tnp.sum(target * target), [table])[0]
    p = tw.Graph([table, rows], slope).compile(engine="cpu")
    assert "by NumPy" not in str(p.plan)
    rng = np.random.default_rng(0)
    value = rng.normal(size=(30, 16)).astype(np.float32)
    places = rng.integers(0, 30, (5, 8))
    expected = np.zeros_like(value)
    np.add.at(expected, places, 2 * value[places])
    np.testing.assert_allclose(p(value, places), expected, rtol=1e-5)
