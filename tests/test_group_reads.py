"""Groups that read rolled arrays where they lie, and count for themselves: NumPy's bits, one step."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from cpu_checks import sampled, viewed
from tawny.array import Array
from tawny.graph.program import Program
from tawny.ops.fusion import Group
from tawny.ops.movement import Roll

LARGE = 300_000
"""Elements that are too many for a constant to be folded."""


def steps_of(program: Program) -> list[str]:
    assert "by NumPy" not in str(program.plan)
    return [s.array.node.name for s in program.plan.steps]


def laplacian(np: Any, u: Any) -> Any:
    axes = [(s, a) for a in range(u.ndim) for s in (1, -1)]
    total = np.roll(u, *axes[0])
    for shift, axis in axes[1:]:
        total = total + np.roll(u, shift, axis)
    return total - 2 * u.ndim * u


def same_bits(got: Any, want: Any) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert got.tobytes() == want.tobytes()


# ----------------------------------------------------------------------- rolls


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "complex64"])
@pytest.mark.parametrize("shape", [(512,), (64, 96), (9, 8, 70), (2, 33, 3, 65)])
def test_a_periodic_stencil_is_one_step(shape: tuple[int, ...], dtype: str) -> None:
    u = tw.var("u", shape, dtype)
    program = tw.Graph([u], laplacian(tnp, u)).compile(threads=2)
    value = sampled(Random(1), shape, dtype)
    same_bits(program(value), laplacian(np, value))
    assert steps_of(program) == ["group"]
    assert program.plan.peak_bytes == -(-value.nbytes // 64) * 64


@pytest.fixture
def short_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let groups read what is rolled however short rows are, and however small arrays."""
    monkeypatch.setattr("tawny.rewrite.groups.reads.LONG_ROW", 1)
    monkeypatch.setattr("tawny.rewrite.groups.reads._SIDE_BY_SIDE", object)
    monkeypatch.setattr("tawny.engine.cpu.TINY", 0)


def rolled(random: Random, x: Array) -> Array:
    """The array rolled along some axes."""
    axes = random.sample(range(x.ndim), random.randint(1, x.ndim))
    shifts = [random.choice((1, -1, random.randint(-99, 99))) for _ in axes]
    return tnp.roll(x, tuple(shifts), tuple(axes))


def random_sum(random: Random) -> tuple[dict[Array, Any], Array]:
    """Views of arrays, rolled or not, some stretched, computed with in any order."""
    rank = random.randint(1, 4)
    longest = {1: 700, 2: 90, 3: 20, 4: 9}[rank]
    shape = tuple([random.choice((1, random.randint(2, longest))) for _ in range(rank)])
    dtype = random.choice(("float32", "float64", "float16", "int8", "bool", "complex128"))
    given: dict[Array, Any] = {}
    values: list[Array] = []
    for n in range(random.randint(1, 3)):
        x = tw.var(f"x{n}", shape, dtype)
        given[x] = sampled(random, shape, dtype)
        turned = viewed(random, x) if random.random() < 0.4 else x
        part = turned if turned.shape == shape else x
        if random.random() < 0.3:
            axis = random.randrange(rank)
            part = part[tuple([slice(0, 1) if a == axis else slice(None) for a in range(rank)])]
        values += [rolled(random, part) for _ in range(random.randint(1, 2))]
        values += [part] * random.randint(0, 1)
    random.shuffle(values)
    total = values[0] + values[-1]
    for value in values:
        product = dtype != "complex128" and random.random() < 0.3  # whose order engines choose
        total = tnp.multiply(total, value) if product else tnp.add(total, value)
    return given, total


@pytest.mark.usefixtures("short_rows")
@pytest.mark.parametrize("seed", range(12))
def test_rolled_reads_have_the_bits_of_rolls(seed: int) -> None:
    met = 0
    for number in range(8):
        given, total = random_sum(Random(100 * seed + number))
        graph = tw.Graph(list(given), total)
        with np.errstate(all="ignore"):
            want = graph.compile(engine="reference", optimise=False)(*given.values())
            for threads in (1, 2):
                program = graph.compile(threads=threads, disable=["contracting"])
                found = program(*given.values())
                assert (found.dtype, found.shape) == (want.dtype, want.shape)
                np.testing.assert_array_equal(found, want)
                groups = [n.array.node.op for n in program.plan.steps]
                bodies = [op.body for op in groups if isinstance(op, Group)]
                met += any(type(s.op) is Roll for body in bodies for s in body.steps)
    assert met >= 4


@pytest.mark.parametrize("incremental", [True, False])
def test_nothing_is_written_over_what_is_rolled(engine: str, incremental: bool) -> None:
    u, k = tw.var("u", (40, 80)), tw.var("k")
    h = tnp.exp(u)
    outputs = [h + tnp.roll(h, 3, 1) * k, tnp.roll(h, 1, 0) - h]
    program = tw.Graph([u, k], outputs).compile(engine=engine, incremental=incremental)
    value = sampled(Random(2), (40, 80), "float64")
    for factor in (2.0, 3.0):
        program.set(u=value, k=factor) if factor == 2.0 else program.set(k=factor)
        first, second = program.run()
        made = np.exp(value)
        np.testing.assert_allclose(first, made + np.roll(made, 3, 1) * factor, rtol=1e-14)
        np.testing.assert_allclose(second, np.roll(made, 1, 0) - made, rtol=1e-12, atol=1e-12)


def test_updates_of_a_periodic_field(engine: str) -> None:
    u = tw.var("u", (64, 64))
    program = tw.Graph([], [tnp.sum(u)], updates={u: u + 0.1 * laplacian(tnp, u)}).compile(
        engine=engine
    )
    value = sampled(Random(3), (64, 64), "float64")
    program.set(u=value)
    program.run(5)
    for _ in range(5):
        value = value + 0.1 * laplacian(np, value)
    np.testing.assert_allclose(program.state["u"], value, rtol=1e-12, atol=1e-12)


def test_what_others_read_too_is_made_once() -> None:
    x, w = tw.var("x", (70, 70)), tw.var("w", (70, 70))
    r = tnp.roll(x, 2, 0)
    program = tw.Graph([x, w], [r @ w, r + x]).compile()
    a, b = (sampled(Random(n), (70, 70), "float64") for n in (4, 5))
    product, total = program(a, b)
    np.testing.assert_allclose(product, np.roll(a, 2, 0) @ b, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(total, np.roll(a, 2, 0) + a)
    assert sorted(steps_of(program)) == ["add", "matmul", "roll"]


def test_energies_slopes_and_batches_of_rolls() -> None:
    def energy(np: Any, s: Any) -> Any:
        return np.sum(s * (np.roll(s, 1, 0) + np.roll(s, 1, 1)))

    value = sampled(Random(6), (40, 70), "float64")
    around = [np.roll(value, shift, axis) for shift in (1, -1) for axis in (0, 1)]
    slope = tw.jit(tw.grad(lambda s: energy(tnp, s)))(value)
    np.testing.assert_allclose(slope, np.sum(around, axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        tw.jit(lambda s: energy(tnp, s))(value), energy(np, value), rtol=1e-12
    )
    small = sampled(Random(8), (3, 64), "float64")
    found = tw.jit(tw.jacobian(lambda s: laplacian(tnp, s)))(small)
    columns = [laplacian(np, unit.reshape(3, 64)) for unit in np.eye(192)]
    wanted = np.stack(columns, axis=-1).reshape(3, 64, 3, 64)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_short_rows_are_copied() -> None:
    x = tw.var("x", (500, 3))
    program = tw.Graph([x], x + tnp.roll(x, 1, 1)).compile()
    assert steps_of(program) == ["roll", "add"]


# -------------------------------------------------------------------- counting

ARANGES = [(0, 1), (5, 3), (100, -7), (0.1, 0.3), (-2.5, 0.7), (1e5, 1e-3), (1e16, 0.1), (7, 0.5)]
REALS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def compared(made: list[Array], wanted: list[Any]) -> None:
    """Compiled code alone gives these bits."""
    program = tw.Graph([], made).compile(optimise=False)
    assert "by NumPy" not in str(program.plan)
    with np.errstate(all="ignore"):
        for got, want in zip(program(), wanted, strict=True):
            same_bits(got, want)


@pytest.mark.parametrize("dtype", [*REALS, *INTEGERS, "complex64", "complex128"])
@pytest.mark.filterwarnings("ignore:overflow")
def test_arange_has_the_bits_of_numpy(dtype: str) -> None:
    made, wanted = list[Array](), list[Any]()
    for (start, step), length in itertools.product(ARANGES, (2, 17, 333)):
        stop = start + step * (length - 0.5)
        low, high = (start, stop) if step > 0 else (stop, start)
        if np.dtype(dtype).kind in "iu":
            limits = np.iinfo(dtype)
            if low < limits.min or high > limits.max:
                continue
        want = np.arange(start, stop, step, dtype=dtype)
        if want.size > 1:
            made.append(tnp.arange(start, stop, step, dtype=dtype))
            wanted.append(want)
    compared(made, wanted)


LOST_STEPS = [
    (-(2**62), -(2**62) - 1, -0.25),
    (2**62, 2**62 + 3, 0.5),
    (2**60, 2**60 + 5, 1.5),
    (-(2**70), -(2**70) + 2, 0.125),
    (0, 5, float("inf")),
    (10**300, 10**300 + 7, 1.0),
]
"""Integers between which there are steps, whose sums with a step are rounded back to them."""


@pytest.mark.parametrize("optimise", [False, True])
@pytest.mark.parametrize("spaced", LOST_STEPS)
def test_arange_has_as_many_numbers_as_numpy_where_steps_are_lost(
    spaced: tuple[Any, Any, Any], engine: str, optimise: bool
) -> None:
    for dtype in ("float64", "float32") if abs(spaced[0]) < 2**100 else ("float64",):
        made = tnp.arange(*spaced, dtype=dtype)
        want = np.arange(*spaced, dtype=dtype)
        assert made.shape == want.shape
        got = tw.Graph([], made).compile(engine=engine, optimise=optimise)()
        same_bits(np.asarray(got), want)


@pytest.mark.parametrize("first", [*REALS, "int32"])
@pytest.mark.parametrize("second", REALS)
@pytest.mark.filterwarnings("ignore:(overflow|invalid)")
def test_linspace_has_the_bits_of_numpy(first: str, second: str) -> None:
    made, wanted = list[Array](), list[Any]()
    ends = [(0, 1), (0.1, 7.3), (5, -3), (1e-5, 1e-5), (0, 5e-324), (0, 1e-45), (-1e4, 1e4)]
    for (low, high), length in itertools.product(ends, (2, 3, 333)):
        a, b = np.array(low, first), np.array(high, second)
        for endpoint, dtype in ((True, None), (False, None), (True, "int64"), (False, "float32")):
            made.append(tnp.linspace(a, b, length, endpoint, dtype=dtype))
            wanted.append(np.linspace(a, b, length, endpoint, dtype=dtype))
    compared(made, wanted)


def test_eye_has_the_bits_of_numpy() -> None:
    shapes = [(2, 2), (5, 70), (70, 5), (64, 300), (300, 64)]
    offsets = (0, 3, -4, 1000, 2**31, 2**32 - 1, -(2**32), 2**32 + 3, 2**62, -(2**62))
    arguments = list(itertools.product(shapes, offsets, ("float32", "bool", "complex64")))
    made = [tnp.eye(*shape, k, dtype=dtype) for shape, k, dtype in arguments]
    compared(made, [np.eye(*shape, k, dtype=dtype) for shape, k, dtype in arguments])


def counted(np: Any, v: Any, s: Any, m: Any) -> dict[str, Any]:
    """Programs that count more elements than a constant is folded of."""
    return {
        "multiply": v * np.arange(LARGE),
        "axes of size 1": (v * np.arange(LARGE)).reshape(LARGE, 1)
        + np.arange(LARGE, dtype="float32").reshape(LARGE, 1),
        "linspace": v + np.linspace(0, 1, LARGE),
        "logspace": v * np.logspace(0, 1, LARGE),
        "computed ends": np.linspace(s, 2.0, LARGE) * v,
        "sum": np.sum(v * np.arange(LARGE)),
        "functions": np.sum(np.sin(np.linspace(0, s, LARGE))),
        "argmax": np.argmax(v + np.arange(LARGE) * 0.5),
        "mean": np.mean(np.arange(0.0, LARGE) * v),
        "strided": (v * 2)[::2] * np.arange(LARGE // 2),
        "rolled": np.roll(v, 5) * np.arange(LARGE),
        "eye": m + np.eye(600),
        "identity": np.identity(600) @ m,
        "tri": m * np.tri(600),
        "indices": np.indices((600, 600))[0] * m,
        "meshgrid": np.meshgrid(np.arange(600.0), np.arange(600))[0] + m,
    }


ONE_STEP = ("multiply", "linspace", "computed ends", "sum", "functions", "mean", "rolled", "eye")


def counting_inputs() -> tuple[list[Array], list[Any]]:
    variables = [tw.var("v", (LARGE,)), tw.var("s"), tw.var("m", (600, 600))]
    return variables, [sampled(Random(7), x.shape, "float64") for x in variables]


@pytest.mark.parametrize("incremental", [True, False])
def test_groups_count_for_themselves(incremental: bool) -> None:
    variables, values = counting_inputs()
    wanted = counted(np, *values)
    for name, made in counted(tnp, *variables).items():
        graph = tw.Graph(variables, made, unused="ignore")
        program = graph.compile(incremental=incremental)
        np.testing.assert_allclose(program(*values), wanted[name], rtol=1e-12, err_msg=name)
        steps = steps_of(program)
        assert len(steps) == 1 or name not in ONE_STEP, (name, steps)


def test_a_group_that_counts_reads_no_memory_for_it() -> None:
    v = tw.var("v", (LARGE,))
    program = tw.Graph([v], v * np.float32(2) + tnp.linspace(0, 1, LARGE)).compile()
    assert program.plan.peak_bytes == LARGE * 8
    assert program.rewrites.counts()["group_reads"] == 1


def test_slopes_and_batches_of_what_is_counted() -> None:
    low, high = np.array(0.25), np.array(1.5)

    def total(a: Array, b: Array) -> Array:
        return tnp.sum(tnp.linspace(a, b, LARGE) * tnp.arange(LARGE))

    weights = np.linspace(0, 1, LARGE)
    places = np.arange(LARGE)
    slopes = tw.jit(tw.grad(total, argnums=(0, 1)))(low, high)
    np.testing.assert_allclose(slopes[0], np.sum((1 - weights) * places), rtol=1e-10)
    np.testing.assert_allclose(slopes[1], np.sum(weights * places), rtol=1e-10)
    rises = tw.jit(tw.jacobian(lambda b: tnp.linspace(0.0, b, 1000) * tnp.arange(1000)))(high)
    np.testing.assert_allclose(rises, np.linspace(0.0, 1.0, 1000) * np.arange(1000), rtol=1e-13)
