"""Bands: rules of rows against whole arrays, and programs in bands against the reference engine."""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from random_graphs import assert_close, graph_of
from tawny.array import Array, array_for
from tawny.engine.cpu import kernel_table, unavailable
from tawny.engine.cpu.kernels import copies, elementwise
from tawny.engine.cpu.products import loops, product
from tawny.engine.cpu.threads.pool import NOMINAL_THREADS
from tawny.engine.llvm.runtime import library
from tawny.engine.reference import run
from tawny.graph.bands import cuts, search
from tawny.graph.bands.search import BandCandidate, BandSearch
from tawny.graph.graph import Graph
from tawny.graph.program import Program
from tawny.graph.relief import CutFinerBands
from tawny.node import Node, make, toposort, variable
from tawny.op import CLASSES, Elementwise, Op
from tawny.ops.bands import Bands, byte_range, cut_bands
from tawny.ops.body import Body, BodyStep
from tawny.ops.body_rows import band
from tawny.ops.convolution import ConvolutionInputGradient
from tawny.rows import Rows, row_axis, row_count, shape_of_rows

F32 = np.dtype("float32")

native = pytest.mark.skipif(unavailable() is not None, reason="needs compiled code")

# ---------------------------------------------------------------- random stretches

Shape = tuple[int, ...]


def drawn(rng: random.Random, shape: Shape, dtype: str = "float32") -> np.ndarray:
    values = np.random.default_rng(rng.randrange(2**32)).uniform(-1, 1, shape)
    return values.astype(dtype)


def image_step(rng: random.Random, x: Array) -> Array:
    """A step on (batch, rows, columns, channels)."""
    channels = x.shape[-1]
    kind = rng.randrange(9)
    if kind < 3:
        window, stride = rng.choice([1, 3, 3, 5]), rng.choice([1, 1, 2])
        kernel = drawn(rng, (window, window, channels, rng.choice([3, channels, 8])))
        dilation = rng.choice([1, 1, 2])
        y = tnp.conv2d(
            x,
            kernel,
            strides=stride,
            dilation=dilation,
            padding=rng.choice(["SAME", "SAME", [(2, 1), (4, 4)]]) if x.shape[1] > 8 else "SAME",
        )
        return tnp.relu(y + drawn(rng, (y.shape[-1],))) if rng.random() < 0.5 else y
    if kind == 3 and min(x.shape[1:3]) > 3:
        pool = rng.choice([tnp.max_pool2d, tnp.avg_pool2d])
        return pool(x, rng.choice([2, 3]), strides=rng.choice([1, 2]), padding="SAME")
    if kind == 4 and x.shape[1] < 40:
        return tnp.upsampling2d(x, 2)
    if kind == 5:
        return x * tnp.sigmoid(x) + drawn(rng, (1, 1, x.shape[2], 1))
    if kind == 6:
        return tnp.softmax(x, axis=-1)
    if kind == 7:
        return tnp.concat([x, tnp.tanh(x)], axis=-1)
    return x - tnp.mean(x, axis=(2, 3), keepdims=True)


def matrix_step(rng: random.Random, x: Array) -> Array:
    """A step on (rows, columns) or stacks of such."""
    kind = rng.randrange(7)
    if kind < 2:
        y = x @ drawn(rng, (x.shape[-1], rng.choice([4, 7, 16])))
        return tnp.tanh(y + drawn(rng, (y.shape[-1],))) if rng.random() < 0.5 else y
    if kind == 2:
        return tnp.exp(x - tnp.max(x, axis=-1, keepdims=True))
    if kind == 3 and rng.random() < 0.3:
        return x + tnp.roll(x, rng.choice([1, -2]), rng.choice([-1, -1, 0]))
    if kind == 3:
        return tnp.reshape(tnp.reshape(x, (*x.shape[:-1], x.shape[-1], 1)) * 2.0, x.shape)
    if kind == 4 and x.ndim == 3:
        return tnp.matrix_transpose(tnp.matrix_transpose(x) @ x)[:, : x.shape[1]]
    if kind == 5:
        return x[..., : max(1, x.shape[-1] - 1)] + drawn(rng, (max(1, x.shape[-1] - 1),))
    return tnp.astype(tnp.astype(x, "float64") * 0.5, "float32")


def gathered(rng: random.Random, x: Array, table: Array) -> Array:
    places = np.random.default_rng(rng.randrange(2**32)).integers(-11, 11, x.shape[:-1])
    return tnp.take(table, places, axis=0) * x[..., :1]


def stretch(seed: int, steps: int) -> tuple[list[Array], list[Array]]:
    """Inputs, and outputs of random steps; old values are read again."""
    rng = random.Random(seed)
    shape = rng.choice(
        [(1, 24, 10, 3), (1, 33, 7, 4), (6, 9, 8, 3), (40, 12), (1, 37, 5), (8, 6, 5)]
    )
    x = tw.var("x", shape=shape, dtype="float32")
    table = tw.var("table", shape=(11, 5), dtype="float32")
    values = [x]
    for _ in range(steps):
        chosen = values[-1 - min(rng.randrange(3), len(values) - 1)]
        roll = rng.random()
        if roll < 0.15:
            same = [v for v in values if v.shape == chosen.shape]
            values.append(chosen + rng.choice(same))
        elif roll < 0.22 and chosen.ndim < 4:
            values.append(gathered(rng, chosen, table))
        else:
            values.append((image_step if len(chosen.shape) == 4 else matrix_step)(rng, chosen))
    read = {i for n in toposort([v.node for v in values]) for i in n.inputs}
    ends = [v for v in values[1:] if v.node not in read]
    return [x, table], [*ends, *rng.sample(values[1:], rng.randrange(2))]


@pytest.fixture
def eager_cutting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut wherever it saves a byte, into as many bands as can be."""
    monkeypatch.setattr("tawny.graph.relief.MIN_ARENA", 0)
    monkeypatch.setattr("tawny.graph.relief.WORTHWHILE_SHARE", 1.0)
    for name, value in {"BAND_BYTES": 1, "BAND_SHARE": 0.0, "MAX_SLOWDOWN": 1e9}.items():
        monkeypatch.setattr(search, name, value)


def feeds(inputs: Sequence[Array], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {x.node.name: rng.uniform(-1, 1, x.shape).astype(x.dtype) for x in inputs}


def results(program: Program, given: dict[str, Any]) -> list[np.ndarray]:
    program.set(**given)
    found = program.run()
    return [np.array(a) for a in (found if isinstance(found, (list, tuple)) else [found])]


def bands_of(program: Program) -> list[Node]:
    steps = [s.array.node for s in program.plan.steps]
    owners = [n.inputs[0] if n.name == "part" else n for n in steps]
    return [n for n in dict.fromkeys(owners) if isinstance(n.op, Bands)]


# ------------------------------------------------------------------------- rows


def test_rows_lie_along_the_first_axis_of_several_elements() -> None:
    assert [row_axis(s) for s in [(), (1,), (3,), (1, 1, 4, 2), (0, 3)]] == [0, 1, 0, 2, 0]
    assert [row_count(s) for s in [(), (1, 1), (3,), (1, 1, 4, 2)]] == [1, 1, 3, 4]
    assert shape_of_rows((1, 8, 3), (2, 5)) == (1, 3, 3)


def body_of(outputs: Sequence[Node]) -> tuple[list[Node], Body]:
    """The graph of some nodes as a body; leaves are its operands."""
    order = toposort(outputs)
    operands = [n for n in order if not n.inputs]
    steps = [n for n in order if n.inputs]
    number = {n: i for i, n in enumerate((*operands, *steps))}
    return operands, Body.of(
        tuple([(n.shape, n.dtype) for n in operands]),
        tuple(
            [BodyStep(n.op, tuple([number[i] for i in n.inputs]), n.shape, n.dtype) for n in steps]
        ),
        tuple([number[n] for n in outputs]),
    )


def followed(body: Body, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    leaves = [variable(None, a.shape, a.dtype) for a in operands]
    values = list(leaves)
    for step in body.steps:
        values.append(make(step.op, tuple([values[i] for i in step.inputs])))
        assert (values[-1].shape, values[-1].dtype) == (step.shape, step.dtype)
    given = dict(zip(leaves, operands, strict=True))
    return [np.array(v) for v in run([values[r] for r in body.results], given)]


def rows_of(array: np.ndarray, rows: Rows | None) -> np.ndarray:
    if rows is None:
        return array
    key = [slice(None)] * array.ndim
    key[row_axis(array.shape)] = slice(*rows)
    return array[tuple(key)]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 5), st.data())
def test_some_rows_are_those_of_the_whole(seed: int, steps: int, data: st.DataObject) -> None:
    inputs, outputs = stretch(seed, steps)
    operands, body = body_of([outputs[0].node])
    rows = row_count(outputs[0].shape)
    first = data.draw(st.integers(0, max(0, rows - 1)))
    last = data.draw(st.integers(first + 1, max(rows, first + 1)))
    found = band(body, [(first, last)])
    if found is None:
        return
    values = feeds(inputs, seed)
    arrays = [values[n.name] if n.value is None else np.array(n.value) for n in operands]
    (whole,) = followed(body, arrays)
    taken = [rows_of(a, r) for a, r in zip(arrays, found.reads, strict=True)]
    (part,) = followed(found.body, taken)
    np.testing.assert_allclose(part, rows_of(whole, (first, last)), rtol=2e-5, atol=2e-5)


def test_every_rule_of_rows_is_tried() -> None:
    """The random stretches contain every op that has a rule, fused ops apart."""
    seen = {
        type(n.op).slice_rows
        for seed in range(400)
        for n in toposort([o.node for o in stretch(seed, 5)[1]])
    }
    made_by_fusion = {
        "FusedProduct",
        "TransposedMatmul",
        "GatherPieces",
        "Group",
        "MatmulBytes",
        "ConvolutionBytes",
        "MatmulHalves",
        "ConvolutionHalves",
    }
    made_apart = {"ConvolutionInputGradient", "ArgExtremum", "BroadcastTo"}
    ops = (*CLASSES.values(), Elementwise)
    rules = {op.slice_rows for op in ops} - {Op.slice_rows}
    missing = {rule.__qualname__.partition(".")[0] for rule in rules - seen}
    assert missing <= made_by_fusion | made_apart


def transposed(x: Array, kernel: np.ndarray) -> Array:
    """A transposed convolution, whose kernel is read as it is."""
    sizes = tuple(2 * n for n in x.shape[1:3])
    op = ConvolutionInputGradient((2, 2), ((0, 0), (0, 0)), (1, 1), 1, sizes)
    return array_for(make(op, (tnp.asarray(kernel).node, x.node)))


@pytest.mark.parametrize(
    ("make_output", "shape"),
    [
        (lambda x: tnp.argmax(x, axis=-1), (1, 12, 5)),
        (lambda x: tnp.broadcast_to(x, (12, 3, 5)) * 1.0, (12, 1, 5)),
        (lambda x: transposed(x, drawn(random.Random(0), (2, 2, 4, 3))), (6, 5, 4, 3)),
    ],
    ids=["argmax", "broadcast_to", "conv_transpose"],
)
def test_rules_that_random_stretches_have_not(make_output: Any, shape: Shape) -> None:
    x = tw.var("x", shape=shape, dtype="float32")
    operands, body = body_of([make_output(x).node])
    value = drawn(random.Random(1), shape)
    arrays = [value if n.value is None else np.array(n.value) for n in operands]
    (whole,) = followed(body, arrays)
    rows = row_count(whole.shape)
    for first in range(0, rows, 2):
        found = band(body, [(first, min(first + 2, rows))])
        assert found is not None
        taken = [rows_of(a, r) for a, r in zip(arrays, found.reads, strict=True)]
        assert any(r is not None for r in found.reads)
        (part,) = followed(found.body, taken)
        np.testing.assert_allclose(part, rows_of(whole, (first, first + 2)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "make_output",
    [
        lambda x: tnp.sum(x, axis=1),
        lambda x: tnp.cumulative_sum(x, axis=1),
        lambda x: tnp.flip(x, axis=1),
        lambda x: tnp.concat([x, x], axis=1),
        lambda x: tnp.permute_dims(x, (0, 2, 1)) * 1.0,
    ],
    ids=["sum over rows", "scan", "flip", "concat of rows", "transpose"],
)
def test_what_needs_all_rows_is_not_cut(make_output: Any) -> None:
    x = tw.var("x", shape=(1, 12, 6), dtype="float32")
    assert band(body_of([make_output(x).node])[1], [(0, 4)]) is None


# ------------------------------------------------------------------------ the op


def chain(rows: int = 16, window: int = 3) -> tuple[Node, Body]:
    x = tw.var("x", shape=(1, rows, 4, 4), dtype="float32")
    kernel = drawn(random.Random(0), (window, window, 4, 4))
    y = tnp.conv2d(x, kernel, padding="SAME")
    return y.node, body_of([y.node])[1]


def test_a_result_may_lag_behind_in_the_memory_of_its_operand() -> None:
    _, body = chain()
    assert Bands(body, 4).overwrites() == ((0, 0),)
    assert Bands(body, 1).overwrites() == ((0, 0),)
    _, wide = chain(window=7)
    assert Bands(wide, 4).overwrites() == ((0, 0),)
    assert Bands(wide, 1).overwrites() == (), "two bands before, a row is still read"


def test_bands_cover_every_row_once() -> None:
    _, body = chain(17)
    found = cut_bands(body, 5)
    assert found is not None
    assert [b.rows[0] for b in found] == [(0, 5), (5, 10), (10, 15), (15, 17)]
    places = [byte_range(body.type_of(body.results[0]), b.rows[0]) for b in found]
    assert [p.first for p in places[1:]] == [p.last for p in places[:-1]]


def test_bands_refuse_other_operands_and_what_cannot_be_cut() -> None:
    node, body = chain()
    x, kernel = node.inputs
    with pytest.raises(ValueError, match="its body takes"):
        make(Bands(body, 4), (kernel, x))
    total = tnp.sum(array_for(x), axis=1)
    _, whole = body_of([total.node])
    with pytest.raises(ValueError, match="cannot be cut"):
        make(Bands(whole, 2), (x,))


# --------------------------------------------------------------------- programs


@native
@settings(max_examples=120, deadline=None)
@given(st.integers(0, 10**9), st.integers(2, 12), st.sampled_from([1, 2, 3]))
def test_programs_in_bands_are_right(seed: int, steps: int, threads: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAWNY_DEBUG", "1")
        for name in ("MIN_ARENA", "WORTHWHILE_SHARE"):
            patch.setattr(
                f"tawny.graph.relief.{name}", {"MIN_ARENA": 0, "WORTHWHILE_SHARE": 1.0}[name]
            )
        for name, value in {"BAND_BYTES": 1, "BAND_SHARE": 0.0, "MAX_SLOWDOWN": 1e9}.items():
            patch.setattr(search, name, value)
        inputs, outputs = stretch(seed, steps)
        graph = Graph(inputs, outputs, unused="ignore")
        program = graph.compile(threads=threads)
        for draw in range(2):
            given = feeds(inputs, seed + draw)
            expected = results(graph.compile(engine="reference"), given)
            assert_close(results(program, given), expected)
        # Bands are chosen for a nominal number of threads: others have other scratch memory.
        chosen = graph.plan(threads=NOMINAL_THREADS).peak_bytes
        assert chosen <= _peak_without_bands(graph, NOMINAL_THREADS)


def _peak_without_bands(graph: Graph, threads: int = NOMINAL_THREADS) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tawny.graph.relief.MIN_ARENA", 10**18)
        return graph.plan(threads=threads).peak_bytes


@native
def test_most_random_stretches_are_cut(eager_cutting: None) -> None:
    found = []
    for seed in range(40):
        inputs, outputs = stretch(seed, 8)
        found.append(bool(bands_of(Graph(inputs, outputs, unused="ignore").compile())))
    assert sum(found) >= 15


@native
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(5, 40))
def test_random_graphs_of_all_ops_are_right_in_bands(seed: int, steps: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tawny.graph.relief.MIN_ARENA", 0)
        for name, value in {"BAND_BYTES": 1, "BAND_SHARE": 0.0, "MAX_SLOWDOWN": 1e9}.items():
            patch.setattr(search, name, value)
        graph = graph_of(seed, steps, impure=False)
        inputs = [array_for(n) for n in graph.feeds]
        made = Graph(inputs, [array_for(n) for n in graph.outputs], unused="ignore")
        given = {n.name: v for n, v in graph.feeds.items()}
        with np.errstate(all="ignore"):
            plain = results(_plain(made), given)
            assert_near(results(made.compile(), given), plain)


def assert_near(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    for one, other in zip(got, expected, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        rounding = 1e-4 if one.dtype in ("float32", "complex64") else 1e-12
        np.testing.assert_allclose(one, other, rtol=rounding, atol=rounding)


def narrow(rows: int = 64, between: int = 96) -> tuple[Array, Array]:
    """A wide value between narrow ones."""
    rng = random.Random(0)
    x = tw.var("x", shape=(1, rows, 32, 8), dtype="float32")
    wide = tnp.relu(tnp.conv2d(x, drawn(rng, (3, 3, 8, between)), padding="SAME"))
    return x, tnp.conv2d(wide, drawn(rng, (3, 3, between, 8)), padding="SAME")


@native
def test_what_is_between_is_never_whole(eager_cutting: None) -> None:
    x, y = narrow()
    program = Graph([x], [y]).compile()
    (node,) = bands_of(program)
    assert [s.op.facts().name for s in node.op.body.steps] == ["fused_product", "convolution"]
    assert program.plan.peak_bytes < _peak_without_bands(Graph([x], [y])) / 3
    assert "bands" in str(program.rewrites)
    assert "1 of 1 steps compiled" in str(program.plan)


@native
def test_a_result_is_written_over_an_operand_that_dies(
    eager_cutting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two convolutions between what needs all rows: one memory, and a few rows."""
    monkeypatch.setenv("TAWNY_DEBUG", "1")
    monkeypatch.setattr(search, "BAND_BYTES", 8000)
    rng = random.Random(0)
    x = tw.var("x", shape=(1, 2, 32, 8), dtype="float32")
    y = tnp.repeat(x, 32, axis=1)
    for _ in range(2):
        y = tnp.tanh(tnp.conv2d(y, drawn(rng, (3, 3, 8, 8)), padding="SAME"))
    graph = Graph([x], [tnp.sum(y, axis=1)])
    program = graph.compile()
    given = feeds([x], 3)
    assert_close(results(program, given), results(graph.compile(engine="reference"), given))
    whole = 64 * 32 * 8 * 4
    assert bands_of(program)
    assert program.plan.peak_bytes < 2 * whole
    over = [s for s in program.plan.steps if s.over is not None]
    assert any(isinstance(s.array.node.op, Bands) for s in over)


@native
def test_a_step_that_fails_says_why_and_the_program_stays_usable(eager_cutting: None) -> None:
    table = tw.var("table", shape=(9, 64), dtype="float32")
    rows = tw.var("rows", shape=(50,), dtype="int64")
    kernel = drawn(random.Random(0), (64, 3))
    graph = Graph([table, rows], [tnp.exp(tnp.take(table, rows, axis=0)) @ kernel])
    program = graph.compile()
    assert bands_of(program)
    values = drawn(random.Random(1), (9, 64))
    good = np.arange(50) % 9
    bad = good.copy()
    bad[37] = 9
    wanted = np.exp(values[good]) @ kernel
    np.testing.assert_allclose(
        results(program, {"table": values, "rows": good})[0], wanted, rtol=1e-5
    )
    with pytest.raises(IndexError, match="index 9"):
        results(program, {"table": values, "rows": bad})
    np.testing.assert_allclose(
        results(program, {"table": values, "rows": good})[0], wanted, rtol=1e-5
    )


@native
def test_bands_do_not_depend_on_the_number_of_threads(eager_cutting: None) -> None:
    x, y = narrow()
    given = feeds([x], 0)
    found = [results(Graph([x], [y]).compile(threads=n), given)[0] for n in (1, 2, 3)]
    assert all(np.array_equal(found[0], other) for other in found[1:])


@native
def test_weights_are_arranged_once_for_all_bands(eager_cutting: None) -> None:
    x, y = narrow()
    program = Graph([x], [y]).compile()
    bands_of(program)
    table = program._compiled.executable._table
    plain_program = _plain(Graph([x], [y]))
    assert table.prepared_bytes <= plain_program._compiled.executable._table.prepared_bytes * 1.01


@native
def test_programs_own_the_code_that_their_bands_call(eager_cutting: None) -> None:
    """What memory of kernels forgets must stay where it is as long as a program calls it."""
    x, y = narrow()
    program = Graph([x], [y]).compile()
    assert bands_of(program)
    called = {entry.kernel for entry in program._compiled.executable._table._entries}
    kernel_table._ANSWERS.clear()
    library._recent.clear()
    for home in (copies, elementwise, loops, product):
        for one in vars(home).values():
            if hasattr(one, "cache_clear"):
                one.cache_clear()
    gc.collect()
    living = [one for one in gc.get_objects() if type(one) is library.MachineCode]
    assert called <= {place for one in living for place in one.addresses.values()}


def _plain(graph: Graph) -> Program:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tawny.graph.relief.MIN_ARENA", 10**18)
        return graph.compile()


@native
def test_incremental_programs_keep_what_others_read(eager_cutting: None) -> None:
    x, y = narrow()
    scale = tw.var("scale", shape=(), dtype="float32")
    graph = Graph([x, scale], [y * scale])
    program = graph.compile()
    values = feeds([x], 1)["x"]
    (first,) = results(program, {"x": values, "scale": np.float32(2)})
    (second,) = results(program, {"scale": np.float32(3)})
    np.testing.assert_allclose(second, first * 1.5, rtol=1e-5)
    reference = graph.compile(engine="reference")
    (wanted,) = results(reference, {"x": values, "scale": np.float32(3)})
    np.testing.assert_allclose(second, wanted, rtol=1e-4, atol=1e-4)


@native
def test_updates_of_variables_in_bands(eager_cutting: None) -> None:
    x, y = narrow()
    graph = Graph([], [tnp.sum(y)], {x: x + 0.1 * y})
    given = feeds([x], 2)
    found = []
    for program in (graph.compile(), graph.compile(engine="reference")):
        program.set(**given)
        for _ in range(3):
            value = np.array(program.run()[0])
        found.append(value)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3)


@native
def test_small_programs_are_left_alone() -> None:
    x, y = narrow()
    assert not bands_of(Graph([x], [y]).compile())
    assert cuts.MIN_ARENA == 2**24


@native
def test_long_attention_needs_no_square_matrix() -> None:
    """Each head by itself, a row of heads after the other."""
    rng = random.Random(0)
    x = tw.var("x", shape=(16, 512, 32), dtype="float32")
    q, k, v = (x @ drawn(rng, (32, 32)) for _ in range(3))
    y = tnp.softmax(q @ tnp.matrix_transpose(k), axis=-1) @ v
    graph = Graph([x], [y])
    program = graph.compile()
    assert bands_of(program)
    assert program.plan.peak_bytes < 0.6 * _peak_without_bands(graph)
    given = feeds([x], 0)
    np.testing.assert_allclose(
        results(program, given)[0],
        results(graph.compile(engine="reference"), given)[0],
        rtol=1e-4,
        atol=1e-4,
    )


def test_a_candidate_has_nothing_else_in_between() -> None:
    x = tw.var("x", shape=(1, 16, 8), dtype="float32")
    y = tnp.exp(x)
    total = tnp.sum(y)
    z = y * total
    assert BandSearch([z.node], None).cut_around(y.node) is None


def test_candidates_do_not_wait_for_each_other() -> None:
    """Each alone can run as one; both as one each cannot."""
    x, y = (tw.var(name, shape=(16, 8), dtype="float32") for name in "xy")
    seed, other = tnp.exp(x), tnp.tanh(y)
    first, second = seed * 2.0, other + 1.0
    third, last = seed + other, second * first
    nodes = [tnp.sum(a).node for a in (third, last)]
    one = [a.node for a in (seed, first, third)]
    two = BandCandidate(frozenset([a.node for a in (other, second, last)]))
    band_search = BandSearch(nodes, None)
    assert band_search._body(BandCandidate(frozenset(one))) is not None
    assert band_search._body(two) is not None
    band_search.reserve(one)
    assert band_search._body(two) is None


@native
def test_bands_are_switched_off_by_name_and_by_class(eager_cutting: None) -> None:
    x, y = narrow()
    graph = Graph([x], [y])
    assert bands_of(graph.compile())
    for name in ("bands", "contracting"):
        assert not bands_of(graph.compile(disable=name))
        assert graph.plan(disable=[name]).peak_bytes == _peak_without_bands(graph)
    with pytest.raises(ValueError, match="bends"):
        graph.compile(disable=["bends"])
    for wrong in (graph.compile, graph.plan, lambda disable: tw.optimise(graph, disable=disable)):
        with pytest.raises(TypeError, match="accepted: a list of names"):
            wrong(disable=3)


# ---------------------------------------------------------------------- budgets


def waiting(depth: int = 6) -> Graph:
    """A wide map of an image waits for what is computed of its coarser map, as in a pyramid."""
    rng = random.Random(0)
    x = tw.var("x", shape=(1, 128, 32, 3), dtype="float32")
    wide = tnp.relu(tnp.conv2d(x, drawn(rng, (3, 3, 3, 32)) / 4, padding="SAME"))
    wide += tnp.relu(tnp.conv2d(wide, drawn(rng, (3, 3, 32, 32)) / 12, padding="SAME"))
    y = tnp.relu(tnp.conv2d(wide, drawn(rng, (3, 3, 32, 64)) / 12, strides=2, padding="SAME"))
    for _ in range(depth):
        inner = tnp.relu(tnp.conv2d(y, drawn(rng, (3, 3, 64, 64)) / 18, padding="SAME"))
        y = tnp.relu(y + tnp.conv2d(inner, drawn(rng, (1, 1, 64, 64)) / 8, padding="SAME"))
    back = tnp.upsampling2d(tnp.conv2d(y, drawn(rng, (1, 1, 64, 32)) / 8, padding="SAME"), 2)
    merged = tnp.conv2d(wide, drawn(rng, (1, 1, 32, 32)) / 6, padding="SAME") + back
    return Graph([x], [tnp.max(merged, axis=(1, 2))])


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of any size are cut; bands have some thousand bytes, and may take much longer."""
    monkeypatch.setattr("tawny.graph.relief.MIN_ARENA", 0)
    for name, value in {"BAND_BYTES": 2**16, "MAX_SLOWDOWN": 1.5, "RECOMPUTE_SHARE": 1.0}.items():
        monkeypatch.setattr(search, name, value)


def least_bytes(graph: Graph, threads: int | None = None) -> int:
    """The least that a program is said to need."""
    with pytest.raises(tw.MemoryBudgetError) as error:
        graph.compile(memory=1, incremental=False, threads=threads)
    return error.value.least_bytes


@pytest.mark.filterwarnings("ignore::tawny.PerformanceWarning")
@native
def test_what_waits_is_computed_again_by_the_bands_that_read_it(
    scarce: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = waiting()
    given = feeds(graph.inputs, 0)
    plain = graph.compile(incremental=False, threads=2)
    tight = graph.compile(memory=least_bytes(graph, 2), incremental=False, threads=2)
    wide = 128 * 32 * 32 * 4
    assert tight.plan.peak_bytes < plain.plan.peak_bytes - wide / 2
    expected = results(graph.compile(engine="reference"), given)
    assert_near(results(tight, given), expected)
    monkeypatch.setattr(CutFinerBands, "propose", lambda *_: None)
    assert tight.plan.peak_bytes < 0.9 * least_bytes(graph, 2)


@pytest.mark.filterwarnings("ignore::tawny.PerformanceWarning")
@native
def test_budgets_down_to_the_least_are_kept(scarce: None) -> None:
    graph = waiting()
    least, most = least_bytes(graph), graph.plan(incremental=False).peak_bytes
    given = feeds(graph.inputs, 1)
    expected = results(graph.compile(engine="reference"), given)
    peaks = []
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        budget = least + int(part * (most - least))
        program = graph.compile(memory=budget, incremental=False)
        assert program.plan.peak_bytes <= budget
        assert_near(results(program, given), expected)
        peaks.append(program.plan.peak_bytes)
    assert peaks == sorted(peaks)
    with pytest.raises(tw.MemoryBudgetError):
        graph.compile(memory=least - 1, incremental=False)


@native
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9), st.integers(3, 14), st.sampled_from([1, 2, 3]))
@example(314, 14, 1)  # what is computed again reads a result, and is read for an operand
def test_tight_programs_are_right(seed: int, steps: int, threads: int) -> None:
    """Random stretches within the least bytes that can be reached, in poisoned memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAWNY_DEBUG", "1")
        patch.setattr("tawny.graph.relief.MIN_ARENA", 0)
        for name, value in {
            "BAND_BYTES": 256,
            "BAND_SHARE": 0.0,
            "MAX_SLOWDOWN": 1e9,
            "RECOMPUTE_SHARE": 1e9,
        }.items():
            patch.setattr(search, name, value)
        inputs, outputs = stretch(seed, steps)
        graph = Graph(inputs, outputs, unused="ignore")
        least = least_bytes(graph, threads=threads)
        program = graph.compile(memory=least, incremental=False, threads=threads)
        assert program.plan.peak_bytes <= least
        for draw in range(2):
            given = feeds(inputs, seed + draw)
            expected = results(graph.compile(engine="reference"), given)
            assert_close(results(program, given), expected)


@native
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**9), st.integers(3, 10))
def test_tight_programs_run_what_changed(seed: int, steps: int) -> None:
    """Parts that run at different times are cut apart, whatever is computed again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAWNY_DEBUG", "1")
        patch.setattr("tawny.graph.relief.MIN_ARENA", 0)
        for name, value in {
            "BAND_BYTES": 256,
            "BAND_SHARE": 0.0,
            "MAX_SLOWDOWN": 1e9,
            "RECOMPUTE_SHARE": 1e9,
        }.items():
            patch.setattr(search, name, value)
        inputs, outputs = stretch(seed, steps)
        scale = tw.var("scale", shape=(), dtype="float32")
        scaled = [tnp.tanh(y * scale) + y for y in outputs]
        graph = Graph([*inputs, scale], scaled, unused="ignore")
        with pytest.raises(tw.MemoryBudgetError) as error:
            graph.compile(memory=1)
        program = graph.compile(memory=error.value.least_bytes)
        reference = graph.compile(engine="reference")
        given = feeds([*inputs, scale], seed)
        assert_close(results(program, given), results(reference, given))
        changed = {"scale": np.float32(0.5)}
        assert_close(results(program, changed), results(reference, changed))


@native
def test_a_wide_program_of_two_inputs_has_a_budget() -> None:
    x = tw.var("x", shape=(1, 512, 512, 8), dtype="float32")
    scale = tw.var("scale", shape=(), dtype="float32")
    kernel = drawn(random.Random(0), (3, 3, 8, 8)) / 8
    y = x
    for _ in range(2):
        y = tnp.conv2d(y, kernel, padding="SAME")
    y = tnp.tanh(y) * scale
    for _ in range(2):
        y = tnp.conv2d(y, kernel, padding="SAME")
    graph = Graph([x, scale], [y])
    with pytest.raises(tw.MemoryBudgetError) as error:
        graph.plan(memory=1)
    least = error.value.least_bytes
    assert least < graph.plan().peak_bytes
    assert graph.plan(memory=least).peak_bytes <= least


def test_opened_bands_are_what_they_were_made_of() -> None:
    node, body = chain()
    banded = make(Bands(body, 4), node.inputs)
    assert cuts.expand_bands(banded) == {banded: node}
    assert cuts.expand_bands(node) == {}


def test_a_step_alone_is_written_over_its_operand_in_bands() -> None:
    rng = random.Random(0)
    x = tw.var("x", shape=(1, 64, 16, 8), dtype="float32")
    y = tnp.exp(x)
    same = tnp.conv2d(y, drawn(rng, (3, 3, 8, 8)), padding="SAME")
    wider = tnp.conv2d(y, drawn(rng, (3, 3, 8, 16)), padding="SAME")
    nodes = [tnp.sum(a, axis=1).node for a in (same, wider)]
    found = BandSearch(nodes, None).cut_in_place(same.node, 0)
    assert found is None or found.bands.op.overwrites()
    assert BandSearch(nodes, None).cut_in_place(wider.node, 0) is None


def test_finer_bands_have_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    node, body = chain()
    coarse = make(Bands(body, 12), node.inputs)
    band_search = BandSearch([tnp.sum(array_for(coarse), axis=1).node], None)
    monkeypatch.setattr(search, "RECOMPUTE_SHARE", 1e9)
    found = band_search.cut_finer(coarse)
    assert found is not None
    assert (found.bands.op.body, found.bands.op.height) == (body, 8)
    assert found.replacements == {coarse: found.bands}
    assert band_search.cut_finer(node) is None
    monkeypatch.setattr(search, "RECOMPUTE_SHARE", -1.0)
    assert band_search.cut_finer(coarse) is None
