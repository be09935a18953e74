"""Native kernels against the reference: any strides, dtypes, sizes and numbers of threads."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from cpu_checks import DTYPES, check, sampled, tolerance, viewed
from tawny.array import Array, array_for
from tawny.engine.cpu import CHAPTERS, kernel_table
from tawny.engine.cpu.kernel_table import NATIVE, Kernel, kernel_for
from tawny.engine.layout import Views, contiguous
from tawny.engine.llvm.runtime.library import compile_ir
from tawny.node import Node, Value, make
from tawny.ops.differentiation import Again
from tawny.ops.indexing import Gather
from tawny.ops.joining import Concat
from tawny.ops.movement import Copy
from tawny.ops.pooling import (
    AvgPool,
    AvgPoolGradient,
    MaxPool,
    MaxPoolGradient,
    Upsampling,
    UpsamplingGradient,
)


def test_every_chapter_declares_kernels() -> None:
    homes = {rule.__module__ for rule in NATIVE.values()}
    assert homes == {chapter.__name__ for chapter in CHAPTERS}


# ------------------------------------------------------------------ movement

MOVES = {
    "copy": lambda x, r: array_for(make(Copy(), (x.node,))),
    "reshape": lambda x, r: tnp.reshape(x, (-1,)),
    "concat": lambda x, r: tnp.concat([x, x[:, ::-1], x], axis=r.randrange(3)),
    "pad": lambda x, r: tnp.pad(x, [(r.randrange(3), r.randrange(3)) for _ in range(3)]),
    "roll": lambda x, r: tnp.roll(x, (r.randrange(9), r.randrange(9)), axis=(0, r.choice((1, 2)))),
    "tile": lambda x, r: tnp.tile(x, (r.randrange(1, 4), 1, r.randrange(1, 4))),
    "repeat": lambda x, r: tnp.repeat(x, r.randrange(1, 4), axis=r.randrange(3)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("move", MOVES)
def test_movement(move: str, dtype: str) -> None:
    random = Random(f"{move} {dtype}")
    for shape in ((5, 7, 9), (1, 40, 3), (2, 3, 130), (17, 1, 17), (0, 3, 2)):
        x = tw.var("x", shape=shape, dtype=dtype)
        y = MOVES[move](viewed(random, x), random)
        check({x: sampled(random, shape, dtype)}, [y], threads=random.choice((1, 3)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_lies_crosswise_is_turned(dtype: str) -> None:
    random = Random(dtype)
    for shape in ((70, 130), (3, 40, 50), (2, 9, 8, 7), (300, 2), (1, 33, 65)):
        x = tw.var("x", shape=shape, dtype=dtype)
        order = tuple(random.sample(range(len(shape)), len(shape)))
        outputs = [
            array_for(make(Copy(), (y.node,)))
            for y in (tnp.permute_dims(x, order), tnp.permute_dims(x, order)[::-1, ..., ::2], x.T)
        ]
        value = sampled(random, shape, dtype)
        if value.dtype.kind == "f":
            value.reshape(-1)[::5] = np.nan
        check({x: value}, outputs, threads=(1, 3))


def test_what_is_computed_again_is_a_copy() -> None:
    random = Random(0)
    for shape in ((), (3, 4), (0,), (300, 400)):
        x, y = tw.var("x", shape=shape), tw.var("y", shape=shape)
        given = {x: sampled(random, shape, "float64"), y: sampled(random, shape, "float64")}
        outputs = [array_for(make(Again(), (z.node, y.node))) for z in (x, x + 1, x.T)]
        check(given, outputs[: 2 + (shape != ())], threads=(1, 3))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_large_copies_are_cut_and_shared(threads: int) -> None:
    random = Random(threads)
    for shape in ((300, 410), (70_001,), (3, 30_000), (30_000, 3)):
        x = tw.var("x", shape=shape, dtype="float32")
        outputs = [tnp.reshape(x.T, (-1,)), tnp.concat([x, x], axis=0), tnp.pad(x, 1)]
        check({x: sampled(random, shape, "float32")}, outputs, threads=threads)


def test_joining_different_dtypes_is_left_to_numpy() -> None:
    x, y = tw.var("x", shape=(2,), dtype="float32"), tw.var("y", shape=(3,), dtype="int8")
    given = {x: np.ones(2, np.float32), y: np.ones(3, np.int8)}
    check(given, [array_for(make(Concat(0), (x.node, y.node)))], native=False)


# ------------------------------------------------------------------ indexing


@pytest.mark.parametrize("seed", range(60))
def test_gather(seed: int) -> None:
    random = Random(seed)
    rank = random.randint(1, 4)
    dtype = random.choice(("float32", "int8", "complex128", "float16"))
    x = tw.var("x", shape=tuple(random.randint(1, 5) for _ in range(rank)), dtype=dtype)
    source = viewed(random, x)
    axes = tuple(sorted(random.sample(range(rank), random.randint(1, min(2, rank)))))
    common = tuple(
        random.randint(0 if random.random() < 0.1 else 1, 4) for _ in range(random.randint(0, 3))
    )
    given: dict[Array, Value] = {x: sampled(random, x.shape, dtype)}
    indices: list[Node] = []
    for axis in axes:
        shape = tuple(1 if random.random() < 0.3 else n for n in common)
        kind = random.choice(("int64", "int32", "int8", "uint8"))
        n = source.shape[axis]
        i = tw.var(f"i{axis}", shape=shape, dtype=kind)
        given[i] = (
            np.random.default_rng(seed)
            .integers(0 if kind == "uint8" else -n, n, shape)
            .astype(kind)
        )
        indices.append(i.node)
    op = Gather(axes, random.randint(0, rank - len(axes)))
    picked = array_for(make(op, (source.node, *indices)))
    check(given, [picked], threads=random.choice((1, 3)))


@pytest.mark.parametrize("bad", [3, -4, 100])
def test_an_index_outside_is_an_error_that_names_the_place(bad: int) -> None:
    x, i = tw.var("x", shape=(3, 2)), tw.var("i", shape=(2,), dtype="int64")
    w = tw.var("w", shape=(2, 2))
    picked = tnp.take(x, i, axis=0)
    p = tw.Graph([x, i], picked * 2, updates={w: w + picked}).compile(engine="cpu")
    p.set(w=np.zeros((2, 2)))
    data = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(p(data, [0, -1]), data[[0, -1]] * 2)
    with pytest.raises(IndexError, match=r"gather: index .* out of bounds.*test_cpu_kernels\.py"):
        p(data, [0, bad])
    np.testing.assert_array_equal(p.state["w"], data[[0, -1]], "a failed run changes no state")
    np.testing.assert_array_equal(p(i=[1, 1]), data[[1, 1]] * 2)


# ------------------------------------------------------------------- pooling


@pytest.mark.parametrize("seed", range(40))
def test_pooling(seed: int) -> None:
    random = Random(seed)
    sizes = tuple(random.randint(1, 8) for _ in range(random.choice((1, 2, 3))))
    window = tuple(random.randint(1, min(3, n)) for n in sizes)
    strides = tuple(random.randint(1, 3) for _ in sizes)
    padding = tuple((random.randrange(w), random.randrange(w)) for w in window)
    channels, batch = random.choice((1, 3, 16, 37, 100)), random.choice((0, 1, 3))
    dtype = random.choice(("float32", "float64", "float16"))
    x = tw.var("x", shape=(batch, *sizes, channels), dtype=dtype)
    value = sampled(random, x.shape, dtype).round(1)  # so that there are equals
    if seed % 4 == 0:
        value.reshape(-1)[::7] = np.nan
    pooled = make(MaxPool(window, strides, padding), (x.node,))
    g = tw.var("g", shape=pooled.shape, dtype=dtype)
    given = {x: value, g: sampled(random, pooled.shape, dtype)}
    forward = [pooled, make(AvgPool(window, strides, padding), (x.node,))]
    check(given, list(map(array_for, forward)), threads=random.choice((1, 2, 3)))
    backward = [
        make(MaxPoolGradient(window, strides, padding), (x.node, g.node)),
        make(AvgPoolGradient(window, strides, padding, sizes), (g.node,)),
    ]
    half = dtype == "float16"
    check(given, list(map(array_for, backward)), tol=1e-2 if half else 1e-5, native=not half)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_upsampling(dtype: str) -> None:
    random = Random(dtype)
    for sizes, factors in (
        ((3,), (2,)),
        ((3, 5), (2, 3)),
        ((2, 3, 2), (1, 2, 4)),
        ((4, 4), (1, 1)),
    ):
        x = tw.var("x", shape=(2, *sizes, random.choice((1, 5, 40))), dtype=dtype)
        value = sampled(random, x.shape, dtype)
        flipped = tnp.flip(x, axis=1)
        wide = make(Upsampling(factors), (flipped.node,))
        g = tw.var("g", shape=wide.shape, dtype=dtype)
        back = make(UpsamplingGradient(factors), (tnp.flip(g, axis=-1).node,))
        given = {x: value, g: sampled(random, wide.shape, dtype)}
        check(given, [array_for(wide), array_for(back)], tol=tolerance(value.dtype, 16))


# ---------------------------------------------------------------- reductions

REDUCTIONS = {
    "sum": tnp.sum, "prod": tnp.prod, "mean": tnp.mean, "var": tnp.var, "max": tnp.max,
    "min": tnp.min, "all": tnp.all, "any": tnp.any, "logsumexp": tnp.logsumexp,
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(name: str, dtype: str) -> None:
    if np.dtype(dtype).kind == "c" and name in ("max", "min", "logsumexp"):
        return
    random = Random(f"{name} {dtype}")
    shapes = [(), (1,), (3,), (70,), (5, 17), (17, 5), (2, 1, 40), (3, 4, 5, 6), (130, 33)]
    for shape in shapes:
        x = tw.var("x", shape=shape, dtype=dtype)
        y = viewed(random, x)
        axes = tuple(a for a in range(y.ndim) if random.random() < 0.6)
        out = REDUCTIONS[name](y, axis=axes, keepdims=random.random() < 0.5)
        value = sampled(random, shape, dtype)
        if name == "prod" and value.dtype.kind in "fc":
            value = (value * 0.1 + 1).astype(dtype)
        tol = tolerance(out.dtype, value.size)
        check({x: value}, [out], tol=tol, threads=random.choice((1, 2)))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_reductions_of_special_values(special: float) -> None:
    x = tw.var("x", shape=(3, 50), dtype="float32")
    value = np.linspace(-2, 2, 150, dtype=np.float32).reshape(3, 50)
    value[1, 7] = special
    outputs = [
        f(x, axis=axis)
        for f in (tnp.sum, tnp.max, tnp.min, tnp.mean, tnp.var, tnp.logsumexp, tnp.any)
        for axis in (0, 1, None)
    ]
    check({x: value}, outputs, tol=1e-5)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), (1, 2)])
@pytest.mark.parametrize("shape", [(2, 3, 40_000), (40_000, 2, 3), (60, 50, 70)])
def test_sums_do_not_depend_on_threads(shape: tuple[int, ...], axis: Any) -> None:
    x = tw.var("x", shape=shape, dtype="float32")
    value = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    graph = tw.Graph([x], [tnp.sum(x * 2 + 1, axis=axis), tnp.max(x, axis=axis), x - 1])
    results = [graph.compile(engine="cpu", threads=n)(value) for n in (1, 2, 3, 7)]
    for other in results[1:]:
        for got, want in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(got, want)
    exact = np.sum(value.astype(np.float64) * 2 + 1, axis=axis)
    np.testing.assert_allclose(results[0][0], exact, rtol=2e-6, atol=2e-3)


def test_long_sums_are_accurate() -> None:
    x = tw.var("x", shape=(2_000_003,), dtype="float32")
    value = np.random.default_rng(0).random(2_000_003, dtype=np.float32)
    got = tw.Graph([x], tnp.sum(x)).compile(engine="cpu")(value)
    np.testing.assert_allclose(got, np.sum(value.astype(np.float64)), rtol=3e-7)


# -------------------------------------------------------------------- groups


def softmax(x: Array) -> Array:
    return tnp.softmax(x, axis=-1)


def layer_norm(x: Array) -> Array:
    away = x - tnp.mean(x, axis=-1, keepdims=True)
    return away / tnp.sqrt(tnp.mean(away * away, axis=-1, keepdims=True) + 1e-5) * 2 + 1


def several(x: Array) -> list[Array]:
    squares = x * x
    return [squares, tnp.sum(squares, axis=-1), tnp.max(squares, axis=-1) + 1]


def columns(x: Array) -> list[Array]:
    return [tnp.sum(tnp.exp(x) * 2, axis=0), tnp.mean(x * x)]


@pytest.mark.parametrize("case", [softmax, layer_norm, several, columns])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (100, 10), (7, 130), (33, 64), (2, 5000)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_groups_run_as_one_kernel(case: Any, shape: tuple[int, ...], dtype: str) -> None:
    x = tw.var("x", shape=shape, dtype=dtype)
    graph = tw.Graph([x], case(x))
    p, r = (graph.compile(engine=e, incremental=False) for e in ("cpu", "reference"))
    steps = [s.array.node.name for s in p.plan.steps]
    assert len(steps) < len(r.plan.steps) or max(shape) == 1
    assert "by NumPy" not in p._compiled._engine.describe(p._compiled.task.lowered.steps)
    value = np.random.default_rng(1).normal(size=shape).astype(dtype)
    got, want = ([*y] if isinstance(y, tuple) else [y] for y in (p(value), r(value)))
    tol = 1e-5 if dtype == "float32" else 1e-13
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


# -------------------------------------------------------------------- random


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("count", [0, 1, 7, 16, 33, 20_001])
def test_random_numbers(dtype: str, count: int) -> None:
    for draw, tol in (
        (tw.random.uniform, 0.0),
        (tw.random.normal, 4e-3 if dtype == "float16" else 2e-6),
    ):
        tw.random.seed(3)
        x = draw(shape=(count,), dtype=dtype)
        v = tw.var("v")
        graph = tw.Graph([v], [x, v])
        p, r = (graph.compile(engine=e, threads=3) for e in ("cpu", "reference"))
        for _ in range(3):
            got, want = p(v=0.0)[0], r(v=0.0)[0]
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=tol, atol=tol)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64"])
def test_random_integers(dtype: str) -> None:
    limits = np.iinfo(dtype)
    least, most = int(limits.min), int(limits.max)
    for low, high in ((0, 10), (least, most + 1), (5, 6), (least, least + 3)):
        tw.random.seed(3)
        v = tw.var("v")
        x = tw.random.integers(low, high, shape=(20_001,), dtype=dtype)
        graph = tw.Graph([v], [x, v])
        programs = [graph.compile(engine="cpu", threads=n) for n in (1, 2, 3, 5)]
        assert "by NumPy" not in str(programs[0].plan)
        reference = graph.compile(engine="reference")
        for _ in range(2):
            want = reference(v=0.0)[0]
            for p in programs:
                np.testing.assert_array_equal(p(v=0.0)[0], want)


def test_random_integers_between_bounds_that_are_computed() -> None:
    low = tw.var("low", dtype="int64")
    p = tw.Graph([low], tw.random.integers(low, 5, shape=(8,))).compile(engine="cpu")
    assert "by NumPy" not in str(p.plan)
    assert set(p(low=3).tolist()) <= {3, 4}
    with pytest.raises(ValueError, match="low must be less than high"):
        p(low=9)
    assert set(p(low=4).tolist()) == {4}


# ------------------------------------------------------- what kernels may ask for

STAGED = """
define void @first(ptr %row, i64 %worker, i64 %workers) {
  %place = getelementptr ptr, ptr %row, i64 2
  %scratch = load ptr, ptr %place
  %cell = getelementptr i64, ptr %scratch, i64 %worker
  store i64 %workers, ptr %cell
  ret void
}
define void @second(ptr %row, i64 %worker, i64 %workers) {
  %at = getelementptr ptr, ptr %row, i64 1
  %result = load ptr, ptr %at
  %place = getelementptr ptr, ptr %row, i64 2
  %scratch = load ptr, ptr %place
  %cell = getelementptr i64, ptr %scratch, i64 1
  %seen = load i64, ptr %cell
  %number = sitofp i64 %seen to double
  store double %number, ptr %result
  ret void
}
"""


def test_scratch_and_a_function_that_finishes(monkeypatch: pytest.MonkeyPatch) -> None:
    library = compile_ir(STAGED)

    def rule(node, operands, results):
        return Kernel(library, "first", parallel=True, scratch=512, after=(("second", False),))

    monkeypatch.setitem(NATIVE, Copy, rule)
    kernel_table._ANSWERS.clear()
    try:
        x = tw.var("x")
        copied = array_for(make(Copy(), ((x + 1).node,)))
        p = tw.Graph([x], [copied * 2]).compile(engine="cpu", threads=3, optimise=False)
        assert [b.bytes for b in p.plan.blocks if b.kind == "scratch"] == [512]
        assert float(p(1.0)[0]) == 4.0, "the second of two shares is seen by what comes after"
    finally:
        kernel_table._ANSWERS.clear()


def test_prepared_operands_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Value] = []

    def twice(value: Value) -> Value:
        made.append(value)
        return value * 2

    plain = NATIVE[Concat]

    def rule(node, operands, results):
        dense = [contiguous(m.shape, m.dtype) if m.constant else m for m in operands]
        kernel = plain(node, dense, results)
        chosen = tuple((i, twice) for i, m in enumerate(operands) if m.constant)
        return Kernel(kernel.library, kernel.symbol, kernel.parameters, prepared=chosen)

    monkeypatch.setitem(NATIVE, Concat, rule)
    kernel_table._ANSWERS.clear()
    try:
        x = tw.var("x", shape=(1, 2))
        weights = tnp.asarray(np.arange(6.0).reshape(2, 3))
        p = tw.Graph([x], tnp.concat([x, weights.T[::-1]], axis=0)).compile(
            engine="cpu", optimise=False
        )
        for k in range(3):
            got = p(np.full((1, 2), float(k)))
            np.testing.assert_array_equal(got, [[k, k], [4, 10], [2, 8], [0, 6]])
        assert len(made) == 1
        assert made[0].tolist() == [[2.0, 5.0], [1.0, 4.0], [0.0, 3.0]]
    finally:
        kernel_table._ANSWERS.clear()


def test_a_kernel_that_cannot_be_made_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(node, operands, results):
        return Kernel(compile_ir("define nonsense"), "nothing")

    monkeypatch.setitem(NATIVE, Copy, rule)
    kernel_table._ANSWERS.clear()
    try:
        x = tw.var("x", shape=(2,))
        copied = array_for(make(Copy(), (x.node,)))
        with pytest.warns(tw.PerformanceWarning, match="copy.*NumPy computes it: RuntimeError"):
            p = tw.Graph([x], copied + 1).compile(engine="cpu", optimise=False)
        assert p(np.ones(2)).tolist() == [2.0, 2.0]
    finally:
        kernel_table._ANSWERS.clear()


def test_answers_are_remembered_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Node] = []
    monkeypatch.setitem(NATIVE, Copy, lambda node, operands, results: asked.append(node))
    monkeypatch.setattr(kernel_table, "MOST", 2)
    kernel_table._ANSWERS.clear()
    nodes = [make(Copy(), (tw.var(shape=(n,)).node,)) for n in (1, 2, 3, 3, 1)]
    for node in nodes:
        memory = tuple(Views()(i).memory for i in node.inputs)
        assert kernel_for(node, memory, memory, 2) is None
    assert [n.shape for n in asked] == [(1,), (2,), (3,), (1,)]
    kernel_table._ANSWERS.clear()
