"""Gathers that read joined pieces where they lie: op, kernels, rewriting, programs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from codegen_harness import SIGNATURE, guarded, poisoned
from cpu_checks import DTYPES, sampled, viewed
from cpu_checks import check as check_engines
from fusion_checks import again, apply, assert_same_bits
from grouping_engine import grouping_engine
from program_checks import check_against_fresh_evaluation, check_poisoned, check_within_a_budget
from tawny.array import Array, wrap
from tawny.engine.cpu import unavailable
from tawny.engine.cpu.rules import indexing
from tawny.engine.layout import Memory, contiguous
from tawny.engine.reference import compute, run
from tawny.engine.reference.kernel import KERNELS
from tawny.files.encoding import decode_op, encode_op
from tawny.files.op_checks import MalformedError, check_op
from tawny.models.mask_rcnn import pyramid_crop
from tawny.node import Node, make, toposort, variable
from tawny.ops.fusion import expand_group
from tawny.ops.indexing import Gather
from tawny.ops.joining import Concat
from tawny.ops.pieces import GatherPieces
from tawny.rewrite import spec
from tawny.rewrite.flow import Flow
from tawny.rewrite.gathers import MOST_PIECES, gather_pieces
from tawny.rewrite.ledger import graph_cost
from tawny.rewrite.pipeline import PIPELINE

native = pytest.mark.skipif(unavailable() is not None, reason="compiled code cannot be run here")

INDICES = ("int64", "int32", "int8", "uint8", "uint16", "uint64", "int16", "uint32")


def drawn(seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Pieces, some of them empty or strided, and places in them, some counted from the end."""
    rng = random.Random(seed)
    dtype, inner = rng.choice(DTYPES), tuple(rng.choices((0, 1, 2, 3, 17), k=rng.randint(0, 3)))
    if rng.random() < 0.8:
        inner = tuple([n or 5 for n in inner])
    pieces = []
    for _ in range(rng.randint(1, MOST_PIECES)):
        x = sampled(rng, (rng.choice((0, 1, 2, 5, 9)), *inner), dtype)
        kind = rng.random()
        if kind < 0.2:
            x = np.asfortranarray(x)
        elif kind < 0.4:
            x = np.repeat(x, 2, axis=0)[::2]
        elif kind < 0.5:
            x = x[::-1]
        elif kind < 0.6 and x.ndim > 1:
            x = np.repeat(x, 3, axis=-1)[..., 1::3]
        pieces.append(x)
    if not any(map(len, pieces)):
        pieces.append(sampled(rng, (3, *inner), dtype))
    total = sum(map(len, pieces))
    kind = np.dtype(rng.choice(INDICES))
    least = -total if kind.kind == "i" else 0
    shape = tuple(rng.choices((0, 1, 2, 3, 30), weights=(1, 4, 4, 4, 4), k=rng.randint(0, 3)))
    numbers = np.random.default_rng(seed)
    places = np.asarray(numbers.integers(least, total, shape)).astype(kind)
    if rng.random() < 0.3:
        places = np.asfortranarray(places)
    return pieces, places


def node_of(pieces: Sequence[np.ndarray], places: np.ndarray) -> Node:
    operands = [variable(None, a.shape, a.dtype) for a in (*pieces, places)]
    return make(GatherPieces(len(pieces)), tuple(operands))


def joined(pieces: Sequence[np.ndarray], places: np.ndarray) -> np.ndarray:
    """What NumPy gives."""
    return np.asarray(np.concatenate(pieces, axis=0)[places.astype(np.intp)])


# ---------------------------------------------------------------------- the op


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_the_op_is_what_numpy_gathers_from_the_joined_pieces(seed: int) -> None:
    pieces, places = drawn(seed)
    node = node_of(pieces, places)
    spec.check(Flow((node,)), "making")
    want = joined(pieces, places)
    assert (node.shape, node.dtype) == (want.shape, want.dtype)
    got = KERNELS[GatherPieces](node.op, *pieces, places)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_array_equal(got, want)
    (plain,) = expand_group(node)
    assert [n.name for n in (plain.inputs[0], plain)] == ["concat", "gather"]
    feeds = dict(zip(node.inputs, (*pieces, places), strict=True))
    np.testing.assert_array_equal(run([plain], feeds)[0], want)


def refusal(node: Node, operands: Sequence[np.ndarray]) -> str:
    with pytest.raises(IndexError) as caught:
        compute(node, operands, 0)
    return str(caught.value)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.data())
def test_places_outside_are_refused_as_a_gather_refuses_them(
    seed: int, data: st.DataObject
) -> None:
    pieces, places = drawn(seed)
    total = sum(map(len, pieces))
    places = np.array(places, np.int64, order="K")
    if not places.size:
        places = np.zeros((2, 3), np.int64)
    for _ in range(data.draw(st.integers(1, 3))):
        at = tuple([data.draw(st.integers(0, n - 1)) for n in places.shape])
        places[at] = data.draw(st.sampled_from([total, -total - 1, total + 90, -(2**60)]))
    node = node_of(pieces, places)
    (plain,) = expand_group(node)
    said = refusal(node, [*pieces, places])
    assert said == refusal(plain, [np.concatenate(pieces, axis=0), places])
    assert said.startswith("gather: index ")
    assert "test_gather_pieces.py" in said


def f32(*shape: int) -> Node:
    return variable(None, shape, np.dtype("float32"))


def i64(*shape: int) -> Node:
    return variable(None, shape, np.dtype("int64"))


REFUSED: list[tuple[str, int, tuple[Node, ...]]] = [
    ("too few operands", 2, (f32(3, 4), i64(2))),
    ("too many operands", 1, (f32(3, 4), f32(3, 4), i64(2))),
    ("no pieces", 0, (i64(2),)),
    ("a piece without axes", 2, (f32(), f32(), i64(2))),
    ("another inner axis", 2, (f32(3, 4), f32(3, 5), i64(2))),
    ("more axes", 2, (f32(3, 4), f32(3, 4, 1), i64(2))),
    ("another dtype", 2, (f32(3, 4), i64(3, 4), i64(2))),
    ("places that are no integers", 2, (f32(3, 4), f32(3, 4), f32(2))),
]


@pytest.mark.parametrize(
    ("count", "operands"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_what_does_not_fit_is_refused(count: int, operands: tuple[Node, ...]) -> None:
    with pytest.raises((ValueError, TypeError), match="gather_pieces"):
        make(GatherPieces(count), operands)


def test_files_keep_it_and_are_checked() -> None:
    op = GatherPieces(3)
    assert decode_op(encode_op(op)) == op
    kind = ((3,), np.dtype("int64"))
    check_op(op, [kind] * 4)
    for wrong, count in ((op, 3), (op, 5), (GatherPieces(0), 1), (GatherPieces(-1), 0)):
        with pytest.raises(MalformedError, match="gather_pieces"):
            check_op(wrong, [kind] * count)


def test_it_costs_as_much_as_the_gather_alone() -> None:
    node = make(GatherPieces(2), (f32(5, 4), f32(3, 4), i64(6)))
    (plain,) = expand_group(node)
    assert node.cost() == plain.cost() == (24, 4 * 24 + 8 * 6, 4 * 24)
    assert graph_cost([*node.inputs, node]) == node.cost()


# ------------------------------------------------------------------- the kernel


def called(
    pieces: Sequence[np.ndarray], places: np.ndarray, workers: int
) -> tuple[np.ndarray, bool]:
    """What the kernel gives, and whether it failed."""
    node = node_of(pieces, places)
    operands = (*pieces, places)
    memories = [Memory(a.shape, a.strides, a.dtype) for a in operands]
    kernel = indexing.gather_pieces(node, memories, [contiguous(node.shape, node.dtype)])
    result = poisoned(node.shape, node.dtype)
    row = [a.ctypes.data for a in (*operands, result)]
    cells = np.array([*row, *kernel.parameters], np.int64)
    function = SIGNATURE(kernel.library.address(kernel.symbol))
    for worker in reversed(range(workers)):
        function(cells.ctypes.data, worker, workers)
    assert guarded(result), "it wrote outside of its result"
    assert kernel.fallible
    assert not kernel.scratch
    return result, bool(cells[-1])


@native
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_kernels_agree_with_numpy(seed: int) -> None:
    pieces, places = drawn(seed)
    want = joined(pieces, places)
    for workers in (1, 2, 3, 5):
        got, failed = called(pieces, places, workers)
        assert not failed
        assert got.tobytes() == want.tobytes()


@native
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0, 1, 2**40, -1, -(2**40)]))
def test_kernels_say_that_a_place_is_outside(seed: int, beyond: int) -> None:
    pieces, places = drawn(seed)
    total = sum(map(len, pieces))
    places = places.astype(np.int64) if places.size else np.zeros((2, 3), np.int64)
    places[(-1,) * places.ndim] = total + beyond if beyond >= 0 else beyond - total
    _, failed = called(pieces, places, 2)
    assert failed


@native
def test_one_row_is_shared_by_threads() -> None:
    rng = np.random.default_rng(0)
    pieces = [rng.normal(size=(n, 50_000)) for n in (2, 0, 3)]
    for at in range(-5, 5):
        for workers in (1, 2, 3):
            got, _ = called(pieces, np.array(at), workers)
            np.testing.assert_array_equal(got, np.concatenate(pieces)[at])


@native
@pytest.mark.parametrize("seed", range(40))
def test_both_engines_agree_on_views(seed: int) -> None:
    rng = random.Random(seed)
    dtype = DTYPES[seed % len(DTYPES)]
    inputs: dict[Array, np.ndarray] = {}
    inner = rng.choice(((), (4,), (4, 4), (2, 3)))
    pieces = []
    for number in range(rng.randint(1, 4)):
        x = tw.var(f"x{number}", shape=(4, *inner), dtype=dtype)
        inputs[x] = sampled(rng, x.shape, dtype)
        seen = viewed(rng, x)
        pieces.append(seen if seen.shape[1:] == inner else x)
    count = sum(p.shape[0] for p in pieces)
    places = tw.var("i", shape=rng.choice(((), (7,), (3, 4), (500, 40))), dtype="int64")
    numbers = np.random.default_rng(seed)
    inputs[places] = np.asarray(numbers.integers(-count, count, places.shape))
    op = GatherPieces(len(pieces))
    gathered = wrap(make(op, tuple([a.node for a in (*pieces, viewed(rng, places))])))
    check_engines(inputs, [gathered], threads=(1, 2, 3))


# ----------------------------------------------------------------- the rewriting

a, b, c = (tw.var(n, shape=(4, 5), dtype="float32") for n in "abc")
wide = tw.var("w", shape=(4, 7), dtype="float32")
i = tw.var("i", shape=(6,), dtype="int64")
k = tw.var("k", shape=(2, 3), dtype="int32")
n = tw.var("n", shape=(6,), dtype="int64")


def within(places: Array, count: int) -> Array:
    """Places that are there, whatever comes."""
    return places % count


def rows(x: Array, places: Array = i) -> Array:
    return tnp.take(x, within(places, x.shape[0]), axis=0)


def both() -> Array:
    return tnp.concat([tnp.sin(a), tnp.cos(b)], axis=0)


READ: list[tuple[str, int, Callable[[], list[Array]]]] = [
    ("two pieces", 1, lambda: [rows(both())]),
    ("several gathers", 3, lambda: [rows(x := both()), rows(x, k) * 2, tnp.sum(rows(x, n))]),
    ("by an index", 1, lambda: [both()[within(k, 8)]]),
    ("variables", 1, lambda: [rows(tnp.concat([a, b, c], axis=0))]),
    ("one piece twice", 1, lambda: [rows(tnp.concat([x := tnp.sin(a), x], axis=0))]),
    ("views", 1, lambda: [rows(tnp.concat([tnp.flip(tnp.sin(a), axis=1), tnp.sin(b)], axis=0))]),
    ("a piece that is asked for", 1, lambda: [rows(tnp.concat([x := tnp.sin(a), b], axis=0)), x]),
    ("as many pieces as there may be", 1, lambda: [rows(tnp.concat([tnp.sin(a) * m for m in range(2, 10)], axis=0))]),
    ("a gather of a gather", 2, lambda: [rows(tnp.concat([rows(both()), tnp.sin(c)], axis=0), k)]),
    ("halves of an array", 2, lambda: [rows(tnp.concat([(x := tnp.sin(a))[:2], b], axis=0)), rows(tnp.concat([x[2:], c], axis=0))]),
    ("vectors", 1, lambda: [rows(tnp.concat([tnp.sin(a[0]), tnp.sin(b[1])], axis=0))]),
    ("asked for twice", 1, lambda: [x := rows(both()), x]),
]  # fmt: skip
"""Graphs, and how many gathers read pieces after the pass."""

KEPT: list[tuple[str, Callable[[], list[Array]]]] = [
    ("the joined array is asked for", lambda: [rows(x := both()), x]),
    ("it is read by something else", lambda: [rows(x := both()), tnp.sum(x)]),
    ("it is read through a view", lambda: [rows(x := both()), rows(tnp.transpose(x), k)]),
    ("joined along another axis", lambda: [rows(tnp.concat([tnp.sin(a), wide], axis=1))]),
    ("gathered along another axis", lambda: [tnp.take(both(), within(i, 5), axis=1)]),
    ("two index arrays", lambda: [both()[within(i, 8), within(n, 5)]]),
    ("one of the gathers is another", lambda: [rows(x := both()), x[within(i, 8), within(n, 5)]]),
    ("too many pieces", lambda: [rows(tnp.concat([tnp.sin(a) * m for m in range(2, 11)], axis=0))]),
    ("it is gathered by itself", lambda: [tnp.take(x := tnp.concat([i, n], axis=0) % 12, x, axis=0), tnp.take(y := tnp.concat([i % 6, n % 6], axis=0), y, axis=0)]),
    ("a piece keeps a larger array", lambda: [rows(tnp.concat([tnp.sin(a)[:2], b], axis=0))]),
    ("only one half of an array is in such a join", lambda: [rows(tnp.concat([(x := tnp.sin(a))[:2], b], axis=0)), rows(y := tnp.concat([x[2:], c], axis=0)), y]),
]  # fmt: skip


def gathers(nodes: Sequence[Node]) -> list[Node]:
    return [n for n in toposort(nodes) if isinstance(n.op, GatherPieces)]


@pytest.mark.parametrize(("count", "build"), [r[1:] for r in READ], ids=[r[0] for r in READ])
def test_gathers_read_pieces(count: int, build: Callable[[], list[Array]]) -> None:
    outputs = build()
    before = Flow(tuple(o.node for o in outputs))
    flow, ledger = apply(gather_pieces, outputs=outputs)
    made = gathers(flow.outputs)
    assert len(made) == count
    assert not [n for n in toposort(flow.outputs) if isinstance(n.op, (Gather, Concat))]
    assert set(ledger.names) == {"gather_pieces"}
    for _, (whole, *old), new in ledger.entries:
        assert isinstance(whole.op, Concat)
        assert [g.inputs[0] for g in old] == [whole] * len(new)
        assert [g.sources for g in old] == [g.sources for g in new]
    spec.check(flow, "gather_pieces", before)
    assert_same_bits(before.outputs, flow.outputs)
    same, recorded = again(flow, gather_pieces)
    assert same is flow
    assert not recorded.entries
    off, recorded = apply(gather_pieces, outputs=outputs, off=["gather_pieces"])
    assert off.outputs == before.outputs
    assert not recorded.entries


@pytest.mark.parametrize("build", [r[1] for r in KEPT], ids=[r[0] for r in KEPT])
def test_joined_arrays_are_kept(build: Callable[[], list[Array]]) -> None:
    outputs = build()
    before = Flow(tuple(o.node for o in outputs))
    assert [n for n in before.order() if isinstance(n.op, Concat)]
    flow, ledger = apply(gather_pieces, outputs=outputs)
    assert flow.outputs == before.outputs
    assert not ledger.entries


def test_the_whole_pipeline_has_it_and_it_can_be_switched_off() -> None:
    assert gather_pieces in PIPELINE
    graph = tw.Graph([a, b, i], rows(both()))
    done = tw.optimise(graph)
    assert done.rewrites.counts()["gather_pieces"] == 1
    (entry,) = [r for r in done.rewrites if r.rule.name == "gather_pieces"]
    assert entry.bytes == 2 * 4 * 40  # the joined array, read and written
    assert gathers([o.node for o in done.outputs])
    assert tw.optimise(done).rewrites.counts() == {}
    for off in ("gather_pieces", "exact"):
        assert "gather_pieces" not in tw.optimise(graph, disable=[off]).rewrites.counts()


# --------------------------------------------------------------------- programs

ENGINE_NAMES = ["grouping", pytest.param("cpu", marks=native)]


@pytest.fixture(params=ENGINE_NAMES)
def engine(request: pytest.FixtureRequest):
    if request.param == "cpu":
        yield "cpu"
        return
    with grouping_engine() as name:
        yield name


@st.composite
def programs(draw: st.DrawFn):
    """Rows of joined matrices, some of which are read otherwise, too."""
    matrices = [tw.var(name, shape=(3, 3)) for name in "abc"]
    pool: list[Any] = list(matrices)
    for _ in range(draw(st.integers(1, 5))):
        pick = st.sampled_from(pool)
        parts = [draw(pick) for _ in range(draw(st.integers(1, 4)))]
        parts = [tnp.tanh(p) if draw(st.booleans()) else tnp.transpose(p) for p in parts]
        whole = tnp.concat(parts, axis=0)
        low = -whole.shape[0]
        for _ in range(draw(st.integers(1, 2))):
            places = tnp.asarray(draw(st.lists(st.integers(low, -low - 1), min_size=3, max_size=3)))
            if draw(st.booleans()):
                places = tnp.astype(tnp.abs(tnp.tanh(draw(pick)[0])) * 2.9, "int64")
            pool.append(tnp.take(whole, places, axis=0) * 0.5)
        if draw(st.integers(0, 3)) == 0:
            pool.append(whole[:3] + 1)
    outputs = draw(st.lists(st.sampled_from(pool[3:]), min_size=1, max_size=3))
    targets = draw(st.lists(st.sampled_from(matrices), max_size=2, unique_by=id))
    return matrices, outputs, {t: tnp.tanh(draw(st.sampled_from(pool))) for t in targets}


SOME = settings(max_examples=50, deadline=None)


def read_of(program: Any) -> list[Node]:
    steps = [p.array.node for p in program.plan.steps]
    return [node for node in steps if isinstance(node.op, GatherPieces)]


@pytest.mark.filterwarnings("ignore:Graph. input")
class TestAnyProgram:
    def test_agrees_with_a_fresh_evaluation(self, engine: str) -> None:
        SOME(
            given(programs(), st.data())(lambda p, d: check_against_fresh_evaluation(engine, p, d))
        )()

    def test_within_a_budget(self, engine: str) -> None:
        few = settings(max_examples=20, deadline=None)
        few(given(programs(), st.data())(lambda p, d: check_within_a_budget(engine, p, d)))()

    def test_such_programs_read_pieces(self, engine: str) -> None:
        found = [0]

        def count(program: Any) -> None:
            graph = tw.Graph(program[0], program[1], updates=program[2])
            found[0] += bool(read_of(graph.compile(engine=engine, incremental=False)))

        fixed = settings(max_examples=40, deadline=None, derandomize=True)
        fixed(given(programs())(count))()
        assert found[0] > 10


@pytest.mark.filterwarnings("ignore:Graph. input")
def test_poisoned_memory() -> None:
    with grouping_engine() as name:
        SOME(given(programs(), st.data())(lambda p, d: check_poisoned(name, p, d)))()


def large(name: str, *shape: int, dtype: str = "float32") -> Array:
    return tw.var(name, shape=shape, dtype=dtype)


def summed(count: int = 1) -> tw.Graph:
    """Rows of three large joined arrays."""
    x, places = large("x", 300, 64), large("i", 5, dtype="int64")
    whole = tnp.concat([tnp.cumulative_sum(x * m, axis=0) for m in range(1, 4)], axis=0)
    return tw.Graph([x, places], [tnp.take(whole, places + m, axis=0) for m in range(count)])


def test_places_outside_are_refused_at_the_users_line(engine: str) -> None:
    graph = summed()
    program = graph.compile(engine=engine, incremental=False)
    plain = graph.compile(engine="reference", optimise=False)
    assert read_of(program)
    x = np.random.default_rng(0).normal(size=(300, 64)).astype("float32")
    for bad in (900, -901, 2**40):
        said = []
        for p in (program, plain):
            with pytest.raises(IndexError, match="out of bounds") as caught:
                p(x=x, i=np.array([0, 1, 2, bad, 4]))
            said.append(str(caught.value))
        assert said[0] == said[1]
    good = np.array([-900, 899, 301, 0, -5])
    np.testing.assert_allclose(program(x=x, i=good)[0], plain(x=x, i=good)[0], rtol=1e-6)


def test_what_runs_at_other_times_is_joined_once(engine: str) -> None:
    graph = summed()
    program, always = (graph.compile(engine=engine, incremental=i) for i in (True, False))
    assert not read_of(program)
    assert read_of(always)
    x = np.random.default_rng(0).normal(size=(300, 64)).astype("float32")
    for p in (program, always):
        p.set(x=x)
    for at in (0, 500):
        places = np.arange(at, at + 5)
        for p in (program, always):
            p.set(i=places)
        np.testing.assert_array_equal(program.run(), always.run())
    names = [n.node.name for n in program.last_run.executed]
    assert "gather" in names
    assert "concat" not in names


def test_what_it_computes_can_be_asked_for(engine: str) -> None:
    x, places = large("x", 30, 4), large("i", 5, dtype="int64")
    whole = tnp.concat([tnp.cumulative_sum(x * m, axis=0) for m in range(2, 5)], axis=0)
    rows = [tnp.take(whole, places + m, axis=0) for m in range(2)]
    program = tw.Graph([x, places], rows).compile(engine=engine, incremental=False)
    program(x=np.ones((30, 4), "float32"), i=np.arange(5))
    names = [n.node.name for n in program.last_run.executed]
    assert "gather_pieces" not in names
    assert names.count("gather") == 2
    assert names.count("concat") == 1
    assert "without memory of its own" in program.plan.why(whole)
    assert "gather_pieces" in str(program.rewrites)


def pyramid() -> tuple[tw.Graph, int]:
    """A few crops from maps that are computed, and the bytes of all maps."""
    image, boxes = large("image", 64, 64, 16), large("boxes", 3, 4)
    maps = [tnp.cumulative_sum(image[:: 2**n, :: 2**n], axis=0) for n in range(4)]
    crops = pyramid_crop(maps, boxes, 3, (256, 256))
    return tw.Graph([image, boxes], crops), 4 * sum(m.size for m in maps)


def test_a_pyramid_is_cropped_without_joining_its_maps(engine: str) -> None:
    graph, nbytes = pyramid()
    program = graph.compile(engine=engine, incremental=False)
    joined = tw.optimise(graph, disable=["gather_pieces"]).plan(
        engine="reference", incremental=False
    )
    assert len(read_of(program)) == 4
    assert joined.peak_bytes == 2 * nbytes
    assert program.plan.peak_bytes < 1.02 * nbytes  # the maps, and a few samples
    rng = np.random.default_rng(0)
    image = rng.normal(size=(64, 64, 16)).astype("float32")
    boxes = np.sort(rng.random((3, 2, 2)), axis=1).reshape(3, 4).astype("float32")
    plain = graph.compile(engine="reference", optimise=False)
    np.testing.assert_allclose(
        program(image=image, boxes=boxes), plain(image=image, boxes=boxes), rtol=1e-4, atol=1e-4
    )


@native
def test_threads_change_no_bits() -> None:
    x, places = large("x", 700, 64), large("i", 900, dtype="int64")
    whole = tnp.concat([tnp.cumulative_sum(x * m, axis=0) for m in range(1, 4)], axis=0)
    graph = tw.Graph([x, places], tnp.take(whole, places, axis=0))
    rng = np.random.default_rng(0)
    values = {"x": rng.normal(size=x.shape).astype("float32"), "i": rng.integers(-2100, 2100, 900)}
    found = []
    for threads in (1, 2, 3):
        program = graph.compile(engine="cpu", incremental=False, threads=threads)
        assert read_of(program)
        assert "by NumPy" not in str(program.plan)
        found.append(program(**values).tobytes())
    assert len(set(found)) == 1


def test_gradients_of_crops_do_not_change(engine: str) -> None:
    image, boxes, weight = large("image", 16, 16, 3), large("boxes", 5, 4), large("w", 5, 3, 3, 3)

    def loss(x: Array) -> Array:
        maps = [tnp.sin(x[:: 2**n, :: 2**n]) for n in range(3)]
        return tnp.sum(pyramid_crop(maps, boxes, 3, (64, 64)) * weight)

    graph = tw.Graph([image, boxes, weight], tw.value_and_grad(loss)(image))
    rng = np.random.default_rng(0)
    values = {
        "image": rng.normal(size=image.shape).astype("float32"),
        "boxes": np.sort(rng.random((5, 2, 2)), axis=1).reshape(5, 4).astype("float32"),
        "w": rng.normal(size=weight.shape).astype("float32"),
    }
    program = graph.compile(engine=engine, incremental=False)
    plain = graph.compile(engine="reference", optimise=False)
    assert read_of(program)
    for got, want in zip(program(**values), plain(**values), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)
