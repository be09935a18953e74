"""Functions over dask arrays: NumPy's numbers, however arrays are cut into blocks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from random_graphs import assert_close, evaluated, graph_of
from tawny.array import wrap
from tawny.distributed.blocks import tasks
from tawny.distributed.blocks.arrays import compute_blocks
from tawny.graph.options import CompileOptions
from tawny.memory.budget import parse_bytes

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

RNG = np.random.default_rng(0)
SHAPE = (11, 13)
CHUNKS = ((4, 1, 6), (5, 8))


@pytest.fixture(autouse=True)
def scheduler() -> Any:
    """Tasks run one after the other, in this thread."""
    with dask.config.set(scheduler="sync"):
        yield


def numbers(shape: tuple[int, ...] = SHAPE, dtype: str = "float64") -> np.ndarray:
    x = RNG.normal(size=shape) * 3
    return (x + 1j * RNG.normal(size=shape)).astype(dtype) if dtype[0] == "c" else x.astype(dtype)


def in_chunks(x: np.ndarray, chunks: Any = CHUNKS) -> Any:
    return da.from_array(x, chunks=chunks)


def check(got: Any, expected: Any, tolerance: float = 1e-12) -> None:
    """Dask arrays with these numbers, dtypes and shapes, which they know before they are computed."""
    found = got if isinstance(got, (tuple, list)) else (got,)
    wanted = expected if isinstance(expected, (tuple, list)) else (expected,)
    assert len(found) == len(wanted)
    for g, w in zip(found, wanted, strict=True):
        value = np.asarray(w)
        assert isinstance(g, da.Array)
        made = g.compute()
        assert (g.shape, g.dtype) == (made.shape, made.dtype) == (value.shape, value.dtype)
        np.testing.assert_allclose(made, value, rtol=tolerance, atol=tolerance)


Function = Callable[[Any, Any, Any], Any]
"""Of the functions' module, a matrix, and a vector as long as its first axis."""

FUNCTIONS: dict[str, Function] = {
    "chain": lambda m, x, v: m.exp(-x * x) * m.sin(x) + v[:, None] / 2,
    "where": lambda m, x, v: m.where(x > 0, x, v[:, None] * 2),
    "sum": lambda m, x, v: (m.sum(x), m.sum(x, axis=0), m.sum(x, axis=1, keepdims=True)),
    "mean": lambda m, x, v: (m.mean(x), m.mean(x, axis=(0, 1)), m.mean(x, axis=1)),
    "moments": lambda m, x, v: (m.var(x), m.std(x, axis=0, ddof=1), m.var(x, axis=1)),
    "product": lambda m, x, v: (m.prod(x), m.prod(x, axis=0)),
    "extremes": lambda m, x, v: (m.max(x), m.min(x, axis=0), m.max(x, axis=1, keepdims=True)),
    "places": lambda m, x, v: (m.argmax(x), m.argmin(x, axis=0), m.argmax(x, axis=1, keepdims=True)),
    "truth": lambda m, x, v: (m.any(x > 5), m.all(x > -9, axis=0), m.any(x > 2, axis=1)),
    "norms": lambda m, x, v: (m.linalg.norm(x), m.linalg.norm(x, axis=0), m.linalg.norm(x, 1)),
    "standard": lambda m, x, v: (x - m.mean(x, axis=0)) / m.std(x, axis=0),
    "softmax": lambda m, x, v: m.exp(x) / m.sum(m.exp(x), axis=1, keepdims=True),
    "gram": lambda m, x, v: x.T @ x,
    "vectors": lambda m, x, v: (v @ x, x.T @ v, v @ v, x[0] @ x[1]),
    "stacks": lambda m, x, v: m.matmul(x[:, None, :], m.stack([x, x + 1], axis=2)),
    "solve": lambda m, x, v: m.linalg.solve(x @ x.T + 50 * m.eye(11), v),
    "tensordot": lambda m, x, v: (m.tensordot(x, x, axes=2), m.tensordot(x, x, axes=((0,), (0,)))),
    "einsum": lambda m, x, v: (m.einsum("ij,i->j", x, v), m.einsum("ij,kj->ik", x, x), m.einsum("ij->", x)),
    "outer": lambda m, x, v: m.outer(v, x[0]),
    "differences": lambda m, x, v: (x[2:] - 2 * x[1:-1] + x[:-2], m.diff(x, axis=1), m.gradient(x, axis=0)),
    "laplace": lambda m, x, v: m.roll(x, 1, 0) + m.roll(x, -1, 0) + m.roll(x, (1, 3), (0, 1)) - 3 * x,
    "rolled": lambda m, x, v: m.roll(x, 5),
    "slices": lambda m, x, v: (x[::2, 1:], x[::-3], x[-1], x[2:3, ::-1], x[5:5]),
    "pad": lambda m, x, v: (m.pad(x, ((2, 1), (0, 3))), m.pad(x, 2, mode="edge"), m.pad(x, 1, mode="reflect")),
    "join": lambda m, x, v: (m.concatenate([x, x[:3], 2 * x]), m.stack([v, v], axis=1)),
    "reshape": lambda m, x, v: (m.reshape(x, -1), m.reshape(x[:10], (2, 5, 13)), m.reshape(x[:, :12], (33, 4)), v[None, :, None]),
    "axes": lambda m, x, v: (x.T, m.swapaxes(x[None], 0, 2), m.flip(x, axis=1), m.rot90(x)),
    "broadcast": lambda m, x, v: (m.broadcast_to(v, (2, 11)), m.tile(x, (2, 1)), m.repeat(x, 2, axis=0)),
    "created": lambda m, x, v: x * m.arange(13.0) + m.linspace(0, 1, 11)[:, None] + m.eye(11, 13, 1),
    "triangles": lambda m, x, v: (m.tril(x), m.triu(x, 2), m.trace(x @ x.T)),
    "lanes": lambda m, x, v: (m.sort(x, axis=0), m.cumsum(x, axis=1), m.argsort(x, axis=1), m.median(x, axis=0)),
    "spectrum": lambda m, x, v: m.abs(m.fft.fft(x, axis=0)) + m.abs(m.fft.ifft(x, axis=1)),
    "convolve": lambda m, x, v: tuple([m.convolve(v, m.asarray([1.0, 2, 3]), mode) for mode in ("full", "same", "valid")]),
    "picked": lambda m, x, v: (m.take(x, m.asarray([3, 1, -1]), axis=0), x[m.asarray([0, 2]), 1:], m.searchsorted(m.arange(5.0), x)),
    "statistics": lambda m, x, v: (m.cov(x), m.corrcoef(x), m.average(x, axis=0, weights=m.abs(v))),
    "factors": lambda m, x, v: m.linalg.svd(x.T @ x)[1],
    "given": lambda m, x, v: (x, v + 0),
}  # fmt: skip


COMPILED = {"chain", "moments", "places", "gram", "differences", "created", "solve"}
"""The functions that are tried on the engine that compiles."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_blocks_have_the_numbers_of_numpy(name: str) -> None:
    x, v = numbers(), numbers((11,))
    engine = "cpu" if name in COMPILED else "reference"
    function = tw.jit(lambda x, v: FUNCTIONS[name](tnp, x, v), engine=engine)
    check(function(in_chunks(x), in_chunks(v, ((3, 8),))), FUNCTIONS[name](np, x, v), 1e-9)


def test_functions_of_tawny_numpy_give_dask_arrays() -> None:
    x = numbers()
    chunked = in_chunks(x)
    check(tnp.sin(chunked), np.sin(x))
    check(tnp.add(chunked, 2), x + 2)
    check(tnp.divmod(chunked, 2.0), np.divmod(x, 2.0))
    check(tnp.linalg.norm(chunked, axis=0), np.linalg.norm(x, axis=0))
    check(tnp.std(chunked, axis=1, ddof=1), np.std(x, axis=1, ddof=1))
    check(tnp.concatenate([chunked, x]), np.concatenate([x, x]))
    check(tnp.zeros_like(chunked), np.zeros_like(x))
    check(tnp.var(tnp.astype(chunked, "float16")), np.var(x.astype("float16")), 1e-3)
    check(tw.special.erf(chunked), np.vectorize(math.erf)(x))
    assert tnp.shape(chunked) == SHAPE
    assert tnp.ndim(chunked) == 2


def test_a_graph_over_blocks_keeps_the_structure_of_its_outputs() -> None:
    x, k = tw.var("x", SHAPE), tw.var("k")
    graph = tw.Graph([x, k], {"a": [x * k, tnp.sum(x)], "k": k}, name="parts")
    value = numbers()
    made = tw.map_blocks(graph, x=in_chunks(value), k=2.0)
    check(made["a"], (value * 2, np.sum(value)))
    check(made["k"], np.float64(2.0))
    assert made["a"][0].name.startswith("parts-multiply-")


def test_arguments_of_jitted_functions_keep_their_meaning() -> None:
    x = numbers(dtype="float32")

    @tw.jit(static=["axis"])
    def scaled(data: Any, factor: float, axis: int, options: Any) -> Any:
        total = tnp.sum(data["x"] * factor + data["y"], axis=axis)
        return {"total": total, "nothing": None} if options else total

    found = scaled({"x": in_chunks(x), "y": x}, 0.5, 1, True)
    check(found["total"], np.sum(x * np.float32(0.5) + x, axis=1), 1e-5)
    assert found["nothing"] is None
    assert scaled({"x": in_chunks(x), "y": tnp.asarray(x)}, 0.5, 0, False).dtype == "float32"


def test_gradients_over_blocks() -> None:
    x, w = numbers(), numbers((13,))
    loss = tw.value_and_grad(lambda w, x: tnp.mean(tnp.tanh(x @ w) ** 2))
    value, slope = tw.jit(loss)(w, in_chunks(x))
    expected, reference = tw.jit(loss)(w, x)
    check((value, slope), (expected, reference), 1e-10)


def test_convolutions_and_pools_over_blocks() -> None:
    x, kernel = numbers((3, 17, 15, 2)), numbers((3, 3, 2, 4))
    chunked = in_chunks(x, ((1, 2), (6, 4, 7), (9, 6), (2,)))

    def layer(x: Any) -> Any:
        y = tw.nn.relu(tnp.conv2d(x, kernel, stride=2, padding="SAME"))
        return y, tnp.max_pool2d(y, 2), tnp.avg_pool2d(x, 3, stride=1, padding="SAME")

    check(tw.jit(layer)(chunked), tw.jit(layer)(x))


def test_gradients_of_convolutions_are_sums_over_blocks_of_images() -> None:
    x, kernel = numbers((7, 8, 6, 2)), numbers((3, 3, 2, 4))

    def loss(kernel: Any, x: Any) -> Any:
        y = tnp.max_pool2d(tw.nn.relu(tnp.conv2d(x, kernel, padding="SAME")), 2)
        return tnp.sum(tnp.conv2d(tnp.avg_pool2d(y, 2, stride=1), tnp.ones((2, 2, 4, 1))) ** 2)

    slopes = tw.jit(tw.grad(loss, argnums=(0, 1)))
    found = slopes(kernel, in_chunks(x, ((2, 4, 1), (8,), (6,), (2,))))
    assert found[1].chunks[0] == (2, 4, 1)
    check(found, slopes(kernel, x))


# ---------------------------------------------------------------- however it is cut


def cuts(n: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Ways to cut an axis, with chunks without elements."""
    places = st.lists(st.integers(0, n), max_size=4).map(sorted)
    return places.map(lambda p: tuple(np.diff([0, *p, n]).tolist()))


@st.composite
def cut_arrays(draw: Any) -> tuple[np.ndarray, Any]:
    """An array of a few elements, some of them NaN, and the same in blocks."""
    shape = draw(st.tuples(st.integers(0, 6), st.integers(1, 7)))
    dtype = draw(st.sampled_from(["float64", "float32", "int32", "uint8", "bool", "complex128"]))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = (
            rng.integers(-3, 4, shape) + (1j if dtype[0] == "c" else 0) * rng.integers(-2, 3, shape)
        ).astype(dtype)
    if dtype[0] in "fc" and draw(st.booleans()):
        x[rng.random(shape) < 0.2] = np.nan
    return x, da.from_array(x, chunks=tuple([draw(cuts(n)) for n in shape]))


def reductions(m: Any, x: Any) -> list[Any]:
    found = [
        m.sum(x, axis=0),
        m.sum(x),
        m.mean(x, axis=1),
        m.any(x),
        m.all(x, axis=0),
        m.prod(x, axis=1),
    ]
    found += [x * 2, x.T, x[1:] + x[:-1] if x.dtype != bool else x[1:]]
    found += [m.var(x, axis=1), m.concatenate([x, x], axis=1), m.reshape(x, -1)]
    if x.dtype.kind != "c":
        found += [m.max(x, axis=1), m.argmax(x, axis=1), m.argmin(x, axis=1), m.sort(x, axis=0)]
        if x.shape[0]:
            found += [m.argmax(x), m.min(x, axis=0), m.argmin(x, axis=0), m.max(x)]
    if x.dtype != bool and x.dtype.itemsize > 2:
        found += [x.T @ x, m.roll(x, 2, axis=1)]
    return found


@settings(max_examples=12, deadline=None)
@given(cut_arrays())
def test_however_an_array_is_cut(pair: tuple[np.ndarray, Any]) -> None:
    x, chunked = pair
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = reductions(np, x)
        found = tw.jit(lambda x: reductions(tnp, x), engine="reference")(chunked)
        values = dask.compute(*found)
    for g, made, w in zip(found, values, expected, strict=True):
        value = np.asarray(w)
        assert (g.shape, g.dtype) == (made.shape, made.dtype) == (value.shape, value.dtype)
        np.testing.assert_allclose(made, value, rtol=1e-5 if made.dtype.itemsize < 8 else 1e-12)


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_in_blocks(seed: int) -> None:
    """All ops, in random graphs and random blocks, some of them within a small budget."""
    graph, random = graph_of(seed, 12, smooth=True, impure=False), Random(seed)
    expected = evaluated(graph.outputs, graph.feeds)
    given = tw.Graph(
        [wrap(n) for n in graph.feeds], [wrap(n) for n in graph.outputs], unused="ignore"
    )
    values: dict[Any, Any] = {}
    for node, value in graph.feeds.items():
        cut = [
            np.diff([0, *sorted(random.choices(range(n + 1), k=2)), n]).tolist()
            for n in value.shape
        ]
        values[node] = (
            da.from_array(value, chunks=tuple(map(tuple, cut))) if random.random() < 0.8 else value
        )
    memory = random.choice([None, None, 10_000])
    made = compute_blocks(given, values, CompileOptions(engine="reference"), memory, "test")
    assert [x.shape for x in made] == [w.shape for w in expected]
    assert_close(dask.compute(*made), expected)


def test_bits_do_not_depend_on_the_order_in_which_tasks_run() -> None:
    x = in_chunks(numbers((64, 50)), (9, 11))
    function = tw.jit(
        lambda x: (tnp.std(x), tnp.sum(tnp.exp(x), axis=0), x.T @ x, tnp.mean(x, axis=1))
    )
    first = dask.compute(*function(x), scheduler="sync")
    for workers in (2, 7):
        again = dask.compute(*function(x), scheduler="threads", num_workers=workers)
        for a, b in zip(first, again, strict=True):
            assert a.tobytes() == b.tobytes()


# ------------------------------------------------------------------- what is stored


def task_names(*found: Any) -> list[str]:
    """What the tasks of dask arrays are called, without those that only hand on."""
    keys = {k for x in found for k in x.__dask_graph__()}
    names = [k[0] if isinstance(k, tuple) else k for k in keys]
    return sorted([name for name in names if not name.startswith(("array-", "program-", "value-"))])


def test_a_chain_is_one_task_for_each_block() -> None:
    x = in_chunks(numbers((40, 10)), (10, 10))
    found = tw.jit(lambda x: tnp.sqrt(tnp.abs(tnp.sin(x) * x + 1)) @ np.ones((10, 3)))(x)
    assert len(task_names(found)) == 4


def test_reductions_of_the_same_blocks_share_their_tasks() -> None:
    x = in_chunks(numbers((40, 10)), (10, 10))
    found = tw.jit(lambda x: (tnp.sum(tnp.exp(x)), tnp.max(tnp.exp(x), axis=0), tnp.var(x)))(x)
    names = task_names(*found)
    assert len(names) == 4 + 3
    assert len([n for n in names if "-blocks-" in n]) == 4


def test_blocks_that_lie_alike_share_a_program() -> None:
    x = in_chunks(numbers((100, 10)), (10, 10))
    found = tw.jit(lambda x: x[2:] - 2 * x[1:-1] + x[:-2])(x)
    programs = {k for k in found.__dask_graph__() if isinstance(k, str)}
    assert len(programs) <= 4
    value = x.compute()
    check(found, value[2:] - 2 * value[1:-1] + value[:-2])


def test_only_borders_of_neighbours_travel() -> None:
    x = in_chunks(numbers((100, 10)), (10, 10))
    found = tw.jit(lambda x: tnp.roll(x, 1, axis=0) + x)(x)
    parts = [k for k in found.__dask_graph__() if k[0].startswith("part-")]
    assert {k[-1] for k in parts} == {"9:10,0:10"}


def smooth(m: Any, x: Any, steps: int) -> Any:
    for _ in range(steps):
        x = (m.roll(x, 1, axis=0) + m.roll(x, -1, axis=0)) / 2
    return x


@pytest.mark.parametrize(("steps", "stages"), [(3, 1), (25, 3)])
def test_chains_of_stencils_are_stored_before_borders_outgrow_blocks(
    steps: int, stages: int
) -> None:
    x = numbers((160, 5))
    found = tw.jit(lambda x: smooth(tnp, x, steps), engine="reference")(in_chunks(x, (20, 5)))
    stored = [n for n in task_names(found) if not n.startswith("part-")]
    assert len(set(stored)) == stages
    check(found, smooth(np, x, steps))


# ---------------------------------------------------------------------------- budget


@pytest.mark.parametrize("memory", [100_000, 400_000, "1MB"])
def test_blocks_are_made_small_enough_for_the_budget(memory: Any) -> None:
    x = numbers((400, 300))
    chunked = in_chunks(x, (400, 300))
    with dask.config.set(num_workers=1):
        found = tw.jit(lambda x: tnp.cumsum(tnp.exp(x) @ x.T, axis=1) + tnp.sum(x), memory=memory)(
            chunked
        )
    share = parse_bytes(memory)
    for task in found.__dask_graph__().values():
        call = next((a for a in getattr(task, "args", ()) if isinstance(a, tasks.BlockCall)), None)
        if call is not None:
            assert sum([math.prod(o.shape) * o.dtype.itemsize for o in call.operands]) <= share
    np.testing.assert_allclose(
        found.compute(), np.cumsum(np.exp(x) @ x.T, axis=1) + np.sum(x), rtol=1e-9
    )


def test_what_does_not_fit_is_refused_by_op_and_line() -> None:
    x = in_chunks(numbers((40, 30)), (10, 10))
    with pytest.raises(
        MemoryError,
        match=r"sort of operands of shapes \(1200,\) cannot .*memory=.*test_dask_arrays.py:\d+\]",
    ):
        tw.jit(lambda x: tnp.sort(tnp.ravel(x)), memory=4000)(x)


# --------------------------------------------------------------------------- refusals


def refusals() -> Sequence[tuple[str, Callable[[Any, Any], Any], type[Exception], str]]:
    variable = tw.var("v", SHAPE)
    graph = tw.Graph([variable], variable + 1)
    n = tw.var("n")
    counter = tw.Graph([], n, updates={n: n + 1})
    return [
        ("unknown chunks", lambda x, _: tnp.sin(x[x > 0]), ValueError, "unknown sizes; x.compute_chunk_sizes"),
        ("unknown chunks", lambda x, _: tw.jit(tnp.sin)(x[x > 0]), ValueError, "unknown sizes"),
        ("beside lazy arrays", lambda x, v: tnp.add(v, x), TypeError, "beside a lazy array; .*tw.jit"),
        ("operators", lambda x, v: v + x, TypeError, "add: operand 1 is a dask array"),
        ("eager", lambda x, _: tw.eager.sin(x), TypeError, "dask array; .*compute it first"),
        ("random", lambda x, _: tw.jit(lambda a: a + tw.random.normal(shape=SHAPE))(x), ValueError, "dask.array.random"),
        ("delay", lambda x, _: tw.jit(lambda a: tw.delay(np.sin, a, shape=SHAPE))(x), ValueError, "pure=True"),
        ("values", lambda x, _: tnp.unique(x), TypeError, "must be known"),
        ("no graph", lambda x, _: tw.map_blocks(tnp.sin, x=x), TypeError, "accepted: a tw.Graph"),
        ("no value", lambda x, _: tw.map_blocks(graph), ValueError, "no value: 'v'"),
        ("no variable", lambda x, _: tw.map_blocks(graph, w=x), ValueError, "'w' is no variable"),
        ("shape", lambda x, _: tw.map_blocks(graph, v=x.T), ValueError, r"float64\[13, 11\]; the variable is float64\[11, 13\]"),
        ("updates", lambda x, _: tw.map_blocks(counter, n=1.0), ValueError, "updates change 'n'"),
        ("delayed", lambda x, _: tnp.sin(dask.delayed(np.sin)(1.0)), TypeError, "Delayed of Dask; accepted: dask arrays"),
        ("program", lambda x, _: graph.compile()(x), TypeError, "compute it first"),
    ]  # fmt: skip


@pytest.mark.parametrize("case", range(len(refusals())))
def test_refusals_say_what_to_do(case: int) -> None:
    _, call, kind, text = refusals()[case]
    with pytest.raises(kind, match=text) as caught:
        call(in_chunks(numbers()), tw.var("v", SHAPE))
    assert "test_dask_arrays.py" in str(caught.value)


def test_a_block_of_another_shape_than_promised_is_refused() -> None:
    wrong = da.map_blocks(lambda b: b[1:], in_chunks(numbers()), dtype="float64", chunks=CHUNKS)
    with pytest.raises(ValueError, match=r"a block has shape .*compute_chunk_sizes"):
        tw.jit(lambda x: x + 1)(wrong).compute()


def test_importing_and_calling_without_dask_arrays_loads_no_dask() -> None:
    import subprocess
    import sys

    code = (
        "import sys, numpy, tawny as tw, tawny.numpy as np\n"
        "tw.jit(lambda x: np.sum(x))(numpy.ones(3)); float(np.sum(np.ones(3)))\n"
        "assert 'dask' not in sys.modules and 'tawny.distributed' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
