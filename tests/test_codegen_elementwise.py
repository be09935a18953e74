"""Elementwise kernels: layouts, broadcasting, tails, shares of threads, several results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny.numpy  # noqa: F401
from codegen_harness import (
    Memory,
    body_of,
    call,
    guarded,
    numbers,
    poisoned,
    run,
    run_body,
    same_bits,
)
from tawny import dtype as dt
from tawny.engine.cpu.kernels.elementwise import (
    collapse_axes,
    elementwise_kernel,
    register_lanes,
    vector_lanes,
)
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.scalar.bodies import lower_body
from tawny.engine.reference.kernel import KERNELS
from tawny.op import ELEMENTWISE
from tawny.ops.body import Body, BodyStep
from tawny.ops.creation import Cast
from tawny.ops.fusion import Group
from tawny.ops.movement import BroadcastTo, Copy, Reshape
from tawny.ops.reduction import Sum

F4 = np.dtype("f4")
REAL = [d for d in dt.DTYPES if d.kind != "c"]


def sample(shape: tuple[int, ...], dtype: str | np.dtype = "f4", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    if np.dtype(dtype).kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "f2", "f4", "f8", "c8", "c16"])
def test_every_size_up_to_several_vectors(dtype):
    a, b = sample((200,), dtype), sample((200,), dtype, 1)
    for n in range(71):
        np.testing.assert_array_equal(run("add", a[:n], b[:n]), a[:n] + b[:n], strict=True)


def test_elements_at_addresses_aligned_to_an_element_only():
    room = sample((500,))
    for shift in range(1, 5):
        x, y = room[shift : shift + 100], room[2 * shift + 100 : 2 * shift + 200]
        np.testing.assert_array_equal(run("add", x, y), x + y)


LAYOUTS = {
    "whole": lambda: (sample((9, 70)), sample((9, 70), seed=1)),
    "bias": lambda: (sample((9, 70)), sample((70,))),
    "column": lambda: (sample((9, 70)), sample((9, 1))),
    "short rows": lambda: (sample((50, 3)), sample((3,))),
    "short columns": lambda: (sample((50, 3)), sample((50, 1))),
    "channels": lambda: (sample((2, 5, 8, 9)), sample((5, 1, 1))),
    "outer": lambda: (sample((130, 1)), sample((1, 90))),
    "transposed": lambda: (sample((70, 30)).T, sample((30, 70))),
    "both transposed": lambda: (sample((70, 30)).T, sample((70, 30), seed=1).T),
    "axes exchanged": lambda: (sample((4, 5, 70)).transpose(1, 0, 2), sample((5, 4, 70))),
    "slices": lambda: (sample((40, 90))[::2, 5:80], sample((20, 75))),
    "steps": lambda: (sample((9, 300))[:, ::3], sample((9, 100))),
    "backwards": lambda: (sample((9, 70))[::-1, ::-1], sample((70,))[::-1]),
    "window": lambda: (np.lib.stride_tricks.sliding_window_view(sample((100,)), 70), sample((70,))),
    "transposed squares": lambda: (sample((130, 129)).T, sample((129, 130))),
    "transposed inside": lambda: (sample((3, 40, 21)).transpose(0, 2, 1), sample((40,))),
    "transposed and stretched": lambda: (sample((70, 1, 30)).T, sample((9, 1))),
    "transposed apart": lambda: (sample((40, 3, 33)).transpose(2, 1, 0), sample((3, 40))),
    "transposed steps": lambda: (sample((80, 50))[::2, ::-1].T, sample((40,))),
    "one element": lambda: (sample(()), sample((9, 70))),
    "one element each": lambda: (sample(()), sample((), seed=1)),
    "one among axes": lambda: (sample((1, 1)), sample((1, 1, 1), seed=1)),
    "empty": lambda: (sample((0, 70)), sample((70,))),
    "empty inside": lambda: (sample((9, 0)), sample((9, 1))),
    "long rows": lambda: (sample((3, 1000)), sample((3, 1))),
    "long bias": lambda: (sample((9, 301)), sample((301,))),
    "whole vectors": lambda: (sample((9, 128)), sample((128,))),
    "long rows, many axes": lambda: (sample((2, 3, 4, 300)), sample((3, 1, 300))),
    "long rows of a slice": lambda: (sample((9, 700))[::3, 99:400], sample((3, 301))),
    "broadcast twice": lambda: (np.broadcast_to(sample((5, 1, 70)), (5, 6, 70)), sample((6, 1))),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "c16", "f2", "?"])
def test_every_layout(name, dtype):
    x, y = LAYOUTS[name]()
    keep = [np.array(v).astype(dtype) for v in (x, y)]
    x, y = (like(v, k) for v, k in zip((x, y), keep, strict=True))
    want = x + y
    got = run("add", x, y)
    np.testing.assert_array_equal(got, want, strict=True)
    for workers in (2, 3, 7):
        np.testing.assert_array_equal(run("add", x, y, workers=workers), got)


def like(view: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values in memory laid out as a view of the same shape is, in their own dtype."""
    steps = [s // view.itemsize * values.itemsize for s in view.strides]
    low = sum(min(s * (n - 1), 0) for s, n in zip(steps, view.shape, strict=True) if n)
    high = sum(max(s * (n - 1), 0) for s, n in zip(steps, view.shape, strict=True) if n)
    room = np.zeros(high - low + values.itemsize, np.uint8)
    out = np.ndarray(view.shape, values.dtype, room, -low, steps)
    out[...] = values
    return out


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_views_and_broadcasts(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 9), max_size=4)))
    operands = []
    for seed in range(3):
        own = [data.draw(st.sampled_from([n, n, 1])) for n in shape]
        own = own[data.draw(st.integers(0, len(own))) :] if data.draw(st.booleans()) else own
        order = data.draw(st.permutations(range(len(own))))
        steps = [data.draw(st.sampled_from([1, 1, 2, -1])) for _ in own]
        large = sample([abs(steps[a]) * own[a] for a in order], "f4", seed)
        moved = large.transpose(np.argsort(order)) if own else large
        view = moved[tuple(slice(None, None, s) for s in steps)] if own else moved
        operands.append(view)
    x, y, z = operands
    want = np.where(x > 0, y, z)
    body = Body.of(
        tuple((v.shape, v.dtype) for v in operands),
        (
            BodyStep(ELEMENTWISE["relu"], (0,), x.shape, F4),
            BodyStep(ELEMENTWISE["where"], (3, 1, 2), want.shape, F4),
        ),
        (4,),
    )
    workers = data.draw(st.sampled_from([1, 2, 5]))
    (got,) = run_body(body, operands, workers)
    np.testing.assert_array_equal(got, want, strict=True)


EXACT = [
    ELEMENTWISE[name]
    for name in (
        "add subtract multiply divide negative abs sign square maximum minimum floor "
        "trunc relu clip where less less_equal equal not_equal logical_and logical_or logical_not "
        "bitwise_and bitwise_xor bitwise_invert isnan floor_divide remainder fma sqrt"
    ).split()
]
"""Ops that give the reference's bits at every dtype but complex, whatever the sign of a NaN."""


@given(st.data())
@settings(max_examples=80, deadline=None)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_bodies_give_the_bits_of_the_reference(data):
    shape = (37,)
    dtypes = data.draw(st.lists(st.sampled_from(REAL), min_size=1, max_size=4))
    operands = [numbers(d, 37, i) for i, d in enumerate(dtypes)]
    types, steps = [(shape, d) for d in dtypes], list[BodyStep]()
    for _ in range(data.draw(st.integers(1, 10))):
        values = len(types) + len(steps)
        kinds = [d for _, d in types] + [s.dtype for s in steps]
        if data.draw(st.integers(0, 5)) == 0:
            wanted = data.draw(st.sampled_from([dt.BOOL, dt.FLOAT16, dt.FLOAT32, dt.FLOAT64]))
            op, inputs = Cast(wanted), (data.draw(st.integers(0, values - 1)),)
        else:
            op = data.draw(st.sampled_from(EXACT))
            inputs = tuple(data.draw(st.integers(0, values - 1)) for _ in range(op.info.arity or 0))
        try:
            dtype = op.infer_dtype(*[kinds[i] for i in inputs])
        except TypeError:
            continue
        if dtype.kind != "c":
            steps.append(BodyStep(op, inputs, shape, dtype))
    if not steps:
        return
    first = len(types)
    chosen = data.draw(st.sets(st.integers(first, first + len(steps) - 1), min_size=1, max_size=4))
    body = Body.of(tuple(types), tuple(steps), tuple(sorted(chosen)))
    want = KERNELS[Group](Group(body), *operands)
    for got, expected in zip(
        run_body(body, operands), want if len(chosen) > 1 else (want,), strict=True
    ):
        good = same_bits(got, expected)
        assert good.all(), (body, np.flatnonzero(~good)[:4], got[~good][:4], expected[~good][:4])


def chain(shape: tuple[int, ...], dtype: np.dtype) -> Body:
    """sin(x)**2 + sqrt(abs(x)) * exp(-x * x), and the product besides."""

    def step(name: str, *inputs: int) -> BodyStep:
        return BodyStep(ELEMENTWISE[name], inputs, shape, dtype)

    steps = (
        step("sin", 0),
        step("square", 1),
        step("abs", 0),
        step("sqrt", 3),
        step("square", 0),
        step("negative", 5),
        step("exp", 6),
        step("multiply", 4, 7),
        step("add", 2, 8),
    )
    return Body.of(((shape, dtype),), steps, (9, 8))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_shares_of_threads_give_the_same_bits(dtype):
    x = sample((10_007,), dtype)
    body = chain(x.shape, x.dtype)
    first, second = run_body(body, [x])
    product = np.sqrt(np.abs(x)) * np.exp(-x * x)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(second, product, rtol=8 * eps, atol=np.finfo(dtype).tiny)
    np.testing.assert_allclose(first, np.sin(x) ** 2 + product, rtol=8 * eps)
    for workers in (2, 3, 7):
        for got, want in zip(run_body(body, [x], workers), (first, second), strict=True):
            np.testing.assert_array_equal(got, want)


def test_a_result_may_lie_over_an_operand():
    for n in (1, 5, 16, 64, 100, 1000):
        x, y = sample((n,)), sample((n,), seed=1)
        want = x * y
        body = body_of("multiply", x, y)
        over = poisoned((n,), F4)
        over[...] = x
        kernel = elementwise_kernel(body, [Memory.of(over), Memory.of(y)], [Memory.of(over)])
        call(kernel, [over, y], [over], 3)
        np.testing.assert_array_equal(over, want)
        assert guarded(over)


def test_mixed_dtypes_in_one_body():
    x, n = sample((333,)), sample((333,), "i8")
    c = sample((333,), "?")
    body = Body.of(
        ((x.shape, x.dtype), (n.shape, n.dtype), (c.shape, c.dtype)),
        (
            BodyStep(Cast(dt.FLOAT32), (1,), (333,), F4),
            BodyStep(ELEMENTWISE["where"], (2, 0, 3), (333,), F4),
            BodyStep(ELEMENTWISE["greater"], (0, 3), (333,), dt.BOOL),
            BodyStep(ELEMENTWISE["logical_and"], (5, 2), (333,), dt.BOOL),
            BodyStep(ELEMENTWISE["divide"], (1, 1), (333,), dt.FLOAT64),
        ),
        (4, 6, 7),
    )
    with np.errstate(invalid="ignore"):
        whole = n.astype("f4")
        want = (np.where(c, x, whole), (x > whole) & c, n / n)
    for got, expected in zip(run_body(body, [x, n, c], 2), want, strict=True):
        np.testing.assert_array_equal(got, expected, strict=True)


def test_views_inside_a_body():
    """One operand seen as a column and as a row, and axes of size 1 that come and go."""
    x, y = sample((70,)), sample((3, 70, 1, 70))
    wide = (3, 70, 70)
    body = Body.of(
        ((x.shape, F4), (y.shape, F4)),
        (
            BodyStep(Reshape((70, 1)), (0,), (70, 1), F4),
            BodyStep(BroadcastTo(wide), (2,), wide, F4),
            BodyStep(Reshape(wide), (1,), wide, F4),
            BodyStep(ELEMENTWISE["add"], (3, 4), wide, F4),
            BodyStep(ELEMENTWISE["multiply"], (5, 0), wide, F4),
            BodyStep(Copy(), (6,), wide, F4),
            BodyStep(Reshape((3, 1, 70, 70)), (7,), (3, 1, 70, 70), F4),
        ),
        (7, 8),
    )
    want = (x[:, None] + y[:, :, 0]) * x
    first, second = run_body(body, [x, y])
    np.testing.assert_array_equal(first, want, strict=True)
    np.testing.assert_array_equal(second, want[:, None], strict=True)


def test_copies_broadcasts_and_casts_alone():
    x = sample((5, 1, 7))
    wide = BroadcastTo((5, 66, 7))
    np.testing.assert_array_equal(run(wide, x), np.broadcast_to(x, (5, 66, 7)))
    np.testing.assert_array_equal(run(Copy(), x.T), x.T)
    np.testing.assert_array_equal(run(Cast(dt.INT32), x.T), x.T.astype("i4"))


def test_what_is_not_elementwise_has_no_kernel():
    x = sample((4, 5))
    body = Body.of(((x.shape, F4),), (BodyStep(Sum((1,), False, F4), (0,), (4,), F4),), (1,))
    assert elementwise_kernel(body, [Memory.of(x)], [Memory.of(x)]) is None
    assert run("dawsn", x) is None
    assert run("tan", x.astype("c8")) is None


def test_one_kernel_serves_all_shapes_of_a_pattern():
    def symbol_of(x: np.ndarray, y: np.ndarray) -> int:
        body = body_of("add", x, y)
        kernel = elementwise_kernel(body, [Memory.of(x), Memory.of(y)], [])
        return kernel.library.address(kernel.symbol)

    rows = {symbol_of(sample((n, m)), sample((m,))) for n, m in ((4, 300), (9, 401), (100, 64))}
    rows.add(symbol_of(sample((2, 3, 4, 999)), sample((3, 1, 999))))
    assert len(rows) == 1
    flat = {symbol_of(sample(s), sample(s)) for s in ((5,), (4, 70), (2, 3, 4), ())}
    assert len(flat) == 2
    assert not rows & flat


def test_only_large_work_is_shared():
    def parallel(name: str, n: int) -> bool:
        x = np.zeros(n, "f4")
        return elementwise_kernel(body_of(name, x), [Memory.of(x)], []).parallel

    assert not parallel("negative", 1000)
    assert not parallel("exp", 1000)
    assert parallel("exp", 10**6)
    assert parallel("negative", 10**6)


# ---------------------------------------------------------- two vectors at a time

GATES = ("sigmoid", "tanh", "exp", "multiply", "add", "sigmoid", "multiply")


def gated(arrays: list[np.ndarray], names: tuple[str, ...] = GATES) -> Body:
    """A body: each step takes the newest value and, if it takes two, one of the operands."""
    values = [(a.shape, a.dtype) for a in arrays]
    first, steps, newest = len(values), [], 0
    for number, name in enumerate(names):
        op = ELEMENTWISE[name]
        inputs = (newest,) if op.facts().arity == 1 else (newest, number % first)
        given = [values[i] for i in inputs]
        made = op.infer_shape(*[s for s, _ in given]), op.infer_dtype(*[d for _, d in given])
        steps.append(BodyStep(op, inputs, *made))
        newest = len(values)
        values.append(made)
    return Body.of(tuple(values[:first]), tuple(steps), (newest, newest - 2))


def step_by_step(body: Body, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Its results by kernels of one step each, which take one vector at a time."""
    values = list(arrays)
    for step in body.steps:
        (value,) = run_body(
            body_of(step.op, *[values[i] for i in step.inputs]), [values[i] for i in step.inputs]
        )
        values.append(value)
    return [values[r] for r in body.results]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_many_functions_give_the_bits_of_each_alone(dtype):
    """For every number of elements that is left over."""
    room, other = sample((200,), dtype), sample((200,), dtype, 1)
    for n in (*range(1, 71), 200):
        arrays = [room[:n], other[:n]]
        body = gated(arrays)
        for workers in (1, 3):
            for got, want in zip(
                run_body(body, arrays, workers), step_by_step(body, arrays), strict=True
            ):
                assert same_bits(got, want).all()


FAR = {
    "parts of rows": lambda: [sample((7, 1024))[:, 256:512], sample((7, 256), seed=1)],
    "parts of short rows": lambda: [sample((7, 320))[:, 80:160], sample((7, 80), seed=1)],
    "rows of three axes": lambda: [sample((3, 4, 5, 700))[:, ::2, 1:, :288], sample((5, 288))[1:]],
    "a row for all": lambda: [sample((6, 300)), sample((300,), seed=1)],
    "turned": lambda: [sample((70, 50)).T, sample((50, 70), seed=1)],
    "every other": lambda: [sample((33, 140))[:, ::2], sample((33, 70), seed=1)],
    "mixed": lambda: [sample((9, 256))[:, :128], sample((9, 128), "f8")],
    "with truth": lambda: [sample((9, 256))[:, :128], sample((9, 128), "?")],
}


@pytest.mark.parametrize("name", FAR)
def test_many_functions_of_arrays_that_lie_apart(name):
    arrays = FAR[name]()
    body = gated(arrays)
    wanted = step_by_step(body, arrays)
    for workers in (1, 2, 3, 7):
        for got, want in zip(run_body(body, arrays, workers), wanted, strict=True):
            assert same_bits(got, want).all()


def test_two_vectors_are_computed_at_a_time_where_functions_are_many():
    def lanes(dtype: str, *names: str) -> float:
        code = lower_body(gated([sample((64,), dtype), sample((64,), dtype)], names)).code
        return vector_lanes(code) / register_lanes(code)

    wide = 2 if host().avx512 else 1
    assert lanes("f4", *GATES) == wide
    assert lanes("f8", "exp", "sin", "log") == wide
    assert lanes("f4", "sigmoid", "sigmoid") == 1
    assert lanes("f4", *["add", "multiply"] * 9) == 1
    assert lanes("c8", "exp", "exp", "exp", "exp") == 1


def test_rows_of_several_axes_for_any_share():
    x = sample((3, 4, 6, 320))[:, 1:, ::2]
    y = sample((4, 1, 320), seed=1)[1:]
    want = x + y
    for workers in range(1, 12):
        np.testing.assert_array_equal(run("add", x, y, workers=workers), want)


@given(
    st.lists(st.integers(2, 5), min_size=1, max_size=4),
    st.data(),
)
@settings(max_examples=100, deadline=None)
def test_collapsing_axes_keeps_every_element(sizes, data):
    arrays = [
        tuple(data.draw(st.sampled_from([0, 1, 7, -3, 100])) for _ in sizes) for _ in range(2)
    ]
    own, step = [], 4
    for n in reversed(sizes):
        own.append(step)
        step *= n
    arrays.append(tuple(reversed(own)))
    lengths, moved = collapse_axes(tuple(sizes), arrays)

    def places(shape, strides):
        grid = np.indices(shape).reshape(len(shape), -1)
        return (grid * np.array(strides)[:, None]).sum(axis=0)

    for before, after in zip(arrays, moved, strict=True):
        np.testing.assert_array_equal(places(sizes, before), places(lengths, after))
