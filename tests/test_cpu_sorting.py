"""Native sorting against NumPy: any dtypes and axes, NaN, zeros, equals, threads, in place."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from cpu_checks import check

SORTED = (
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "complex64",
    "complex128",
)
SHORT = [(1,), (7,), (64,), (128,), (3, 100), (2, 33, 4), (600, 40), (0,), (3, 0)]
LONG = [(257,), (1025,), (5000,), (3, 700), (20, 300), (2, 300, 3), (1, 400, 1), (0, 300)]
ROWS = [*SHORT, *LONG]


def with_equals(random: Random, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers of which many are equal, with extreme and special ones."""
    kind = np.dtype(dtype)
    value = np.asarray(np.random.default_rng(random.randrange(2**31)).integers(-4, 5, shape))
    if kind.kind == "c":
        parts = [with_equals(random, shape, f"f{kind.itemsize // 2}") for _ in range(2)]
        value = np.empty(shape, kind)
        value.real, value.imag = parts[0], np.flip(parts[1])
        return value
    value = value.astype(kind)
    few = value.reshape(-1)[::3]
    if kind.kind == "f":
        few[:] = np.resize(np.array([0.0, -0.0, np.inf, -np.inf, np.nan], kind), few.shape)
    elif kind.kind in "iu":
        limits = np.iinfo(kind)
        few[:] = np.resize(np.array([limits.min, limits.max], kind), few.shape)
    return value


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", SORTED)
def test_rows_are_sorted(dtype: str, descending: bool) -> None:
    """As the reference engine does, to the bit: zeros, NaN, equals in the order they came."""
    random = Random(f"{dtype} {descending}")
    for shape in ROWS:
        x = tw.var("x", shape=shape, dtype=dtype)
        value = with_equals(random, shape, dtype)
        for axis in range(len(shape)):
            outputs = [
                f(y, axis=axis, descending=descending)
                for f in (tnp.sort, tnp.argsort)
                for y in (x, tnp.flip(x))
            ]
            graph = tw.Graph([x], outputs)
            r = graph.compile(engine="reference", optimise=False)
            for threads in (1, 3):
                p = graph.compile(engine="cpu", optimise=False, threads=threads)
                assert "by NumPy" not in str(p.plan)
                for got, want in zip(p(value), r(value), strict=True):
                    assert (got.dtype, got.tobytes()) == (want.dtype, want.tobytes())


@pytest.mark.parametrize("seed", range(20))
def test_sorted_over_what_is_sorted(seed: int) -> None:
    """The result may lie where the operand lay, whichever way that is seen."""
    random = Random(seed)
    shape = random.choice(((40,), (20, 30), (30, 20), (4, 5, 6)))
    x = tw.var("x", shape=shape, dtype="float32")
    y = tnp.negative(x)
    y = tnp.permute_dims(y, tuple(random.sample(range(y.ndim), y.ndim)))
    y = tnp.flip(y, axis=0) if random.random() < 0.5 else y
    out = tnp.sort(y, axis=random.randrange(y.ndim), descending=random.random() < 0.5)
    value = np.random.default_rng(seed).normal(size=shape).astype("float32")
    check({x: value}, [out + 1], threads=(1, 3))


def test_variables_that_become_sorted(engine: str) -> None:
    """The result may lie in the variable that it is made from, seen crosswise or not."""
    x, y = tw.var("x", shape=(30, 30)), tw.var("y", shape=(30, 30))
    updates = {x: tnp.sort(x, axis=0), y: tnp.sort(y.T, axis=1)}
    p = tw.Graph([], [tnp.sum(x)], updates=updates).compile(engine=engine)
    value = np.random.default_rng(0).normal(size=(30, 30))
    p.set(x=value, y=value)
    p.run(2)
    np.testing.assert_array_equal(p.state["x"], np.sort(value, axis=0))
    np.testing.assert_array_equal(p.state["y"], np.sort(np.sort(value.T, axis=1).T, axis=1))


@pytest.mark.parametrize("dtype", SORTED)
@pytest.mark.parametrize("descending", [False, True])
def test_every_digit_counts(dtype: str, descending: bool) -> None:
    """Numbers of any bits, and numbers that differ in a few bits alone."""
    kind, count = np.dtype(dtype), 3000
    rng = np.random.default_rng(0)
    x = tw.var("x", shape=(count,), dtype=dtype)
    outputs = [f(x, descending=descending) for f in (tnp.sort, tnp.argsort)]
    graph = tw.Graph([x], outputs)
    p, r = (graph.compile(engine=e, optimise=False) for e in ("cpu", "reference"))
    anything = rng.integers(0, 256, count * kind.itemsize, np.uint8)
    for byte in (None, *range(kind.itemsize)):
        raw = anything.copy()
        if byte is not None:
            raw.reshape(count, -1)[:, np.arange(kind.itemsize) != byte] = 17
        value = (raw & 1).view(kind) if dtype == "bool" else raw.view(kind)
        for got, want in zip(p(value), r(value), strict=True):
            assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128"])
def test_long_rows_that_are_in_order_or_all_equal(dtype: str) -> None:
    x = tw.var("x", shape=(2000,), dtype=dtype)
    outputs = [f(x, descending=d) for f in (tnp.sort, tnp.argsort) for d in (False, True)]
    graph = tw.Graph([x], outputs)
    p, r = (graph.compile(engine=e) for e in ("cpu", "reference"))
    rising = np.arange(2000).astype(dtype)
    for value in (rising, rising[::-1], np.ones(2000, dtype), np.sort(rising)):
        for got, want in zip(p(value), r(value), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("axis", [0, 1])
def test_long_rows_are_sorted_where_they_lie(axis: int) -> None:
    """The memory of the operand becomes that of the result; what is needed beside is planned."""
    x = tw.var("x", shape=(400, 500))
    value = np.random.default_rng(0).normal(size=x.shape)
    out = tnp.sort(tnp.negative(x), axis=axis)
    p = tw.Graph([x], out).compile(engine="cpu", optimise=False, incremental=False)
    np.testing.assert_array_equal(p(value), np.sort(-value, axis=axis))
    assert value.nbytes < p.plan.peak_bytes < 1.1 * value.nbytes


def test_variables_that_become_sorted_in_long_rows(engine: str) -> None:
    x, y = tw.var("x", shape=(300, 300)), tw.var("y", shape=(300, 300))
    updates = {x: tnp.sort(x, axis=0), y: tnp.sort(y.T, axis=1)}
    p = tw.Graph([], [tnp.sum(x)], updates=updates).compile(engine=engine)
    value = np.random.default_rng(0).normal(size=(300, 300))
    p.set(x=value, y=value)
    p.run(2)
    np.testing.assert_array_equal(p.state["x"], np.sort(value, axis=0))
    np.testing.assert_array_equal(p.state["y"], np.sort(np.sort(value.T, axis=1).T, axis=1))


@pytest.mark.parametrize("k", [1, 3])
def test_greatest_of_a_row_need_no_numpy(k: int) -> None:
    x = tw.var("x", shape=(4, 50))
    value = np.random.default_rng(0).permutation(200).reshape(4, 50).astype(float)
    outputs = [*tnp.top_k(x, k), *tnp.top_k(x, k, axis=0, largest=False)]
    p, r = (tw.Graph([x], outputs).compile(engine=e) for e in ("cpu", "reference"))
    assert "by NumPy" not in str(p.plan)
    for got, want in zip(p(value), r(value), strict=True):
        np.testing.assert_array_equal(got, want)
