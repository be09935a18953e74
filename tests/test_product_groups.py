"""Products that a group uses up some rows at a time: op, rewriting, kernel, programs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from codegen_harness import SIGNATURE, guarded, poisoned
from cpu_checks import tolerance
from fusion_checks import again, apply, assert_same_bits
from grouping_engine import GroupingEngine
from product_group_checks import BodyToBe, has_body, node_of, several
from program_checks import check_against_fresh_evaluation, check_poisoned, check_within_a_budget
from tawny import models, nn, optim
from tawny.array import Array
from tawny.engine.cpu import CpuEngine, kernel_table, unavailable
from tawny.engine.cpu.kernel_table import Kernel
from tawny.engine.cpu.rules import panels, products
from tawny.engine.cpu.threads.pool import NOMINAL_THREADS
from tawny.engine.layout import Memory, contiguous
from tawny.engine.lowering import overwrites
from tawny.engine.protocol import ENGINES
from tawny.engine.reference import run
from tawny.engine.reference.kernel import KERNELS
from tawny.files.encoding import decode_op, encode_op
from tawny.graph import pipeline
from tawny.memory.inplace import match
from tawny.node import Node, make, toposort, variable
from tawny.op import ELEMENTWISE
from tawny.ops.body import Body, BodyStep
from tawny.ops.fused_products import (
    PLAIN,
    Activation,
    Epilogue,
    FusedProduct,
    is_rowwise,
    matmul_op,
)
from tawny.ops.fusion import Group, expand_group
from tawny.ops.linalg import Matmul
from tawny.ops.reduction import Sum
from tawny.rewrite import spec
from tawny.rewrite.flow import Flow
from tawny.rewrite.fusion import fuse_products
from tawny.rewrite.groups.elementwise import group_elementwise
from tawny.rewrite.groups.products import product_first, product_group_pass

WORKERS = (1, 2, 3, 5)

native = pytest.mark.skipif(unavailable() is not None, reason="compiled code cannot be run here")


def always(op: FusedProduct, operands: Sequence[Node]) -> bool:
    del op, operands
    return True


join_all = product_group_pass(always, min_bytes=0)


@pytest.fixture
def low_panels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Panels of few rows, for any product."""
    kernel_table._ANSWERS.clear()
    monkeypatch.setattr(panels, "LEAST_ROWS", 1)
    monkeypatch.setattr(panels, "PANEL_BYTES", 1)
    monkeypatch.setattr(panels, "SPARED", 0)
    yield
    kernel_table._ANSWERS.clear()


def product_groups(nodes: Sequence[Node]) -> list[Node]:
    return [n for n in toposort(nodes) if has_body(n)]


# ---------------------------------------------------------------------- the op


def chosen(rng: random.Random, shape: tuple[int, int], dtype: str) -> Body:
    """A body of a product and other operands, some of them stretched, with some results."""
    made = BodyToBe(rng, shape, dtype)
    for operand in range(1, made.count):
        name = rng.choice(("add", "multiply", "subtract", "maximum"))
        made.step(name, operand, rng.choice((0, -1)) % len(made.values))
    for _ in range(rng.randint(0, 3)):
        made.step("add", rng.randrange(len(made.values)), 0)
    made.step("abs", 0)
    return made.body()


def drawn(seed: int) -> tuple[FusedProduct, list[np.ndarray]]:
    """A product group and its operands, which lie in memory in some way."""
    rng = random.Random(seed)
    dtype = rng.choice(("float32", "float64", "float32", "int32"))
    rows, columns, depth = rng.randint(2, 60), rng.randint(2, 70), rng.choice((0, 1, 3, 17, 40))
    activation = rng.choice((Activation.NONE, Activation.RELU))
    epilogue = Epilogue(rng.random() < 0.3, rng.random() < 0.3, activation)
    transpose_a, transpose_b = rng.random() < 0.5, rng.random() < 0.5
    body = chosen(rng, (rows, columns), dtype)
    shapes = [
        (depth, rows) if transpose_a else (rows, depth),
        (columns, depth) if transpose_b else (depth, columns),
        *[rng.choice(((columns,), (1, columns)))] * epilogue.bias,
        *[(rows, columns)] * epilogue.residual,
        *[s for s, _ in body.operands[1:]],
    ]
    numbers = np.random.default_rng(seed)
    arrays = [np.asarray(numbers.integers(-9, 9, s) / 4).astype(dtype) for s in shapes]
    residual = 1 + epilogue.arity if epilogue.residual else -1
    for i, x in enumerate(arrays):
        if x.ndim == 2 and i != residual and rng.random() < 0.4:
            arrays[i] = np.asfortranarray(x)
        elif x.ndim == 2 and i != residual and rng.random() < 0.3:
            arrays[i] = np.repeat(x, 2, axis=0)[::2]
    return FusedProduct(matmul_op(transpose_a, transpose_b), epilogue, body), arrays


@pytest.mark.parametrize("seed", range(30))
def test_the_op_is_the_product_and_then_the_body(seed: int) -> None:
    op, arrays = drawn(seed)
    node = node_of(op, arrays)
    spec.check(Flow((node,)), "making")
    plain = expand_group(node)
    assert not product_groups(plain)
    feeds = dict(zip(node.inputs, arrays, strict=True))
    found = several(KERNELS[FusedProduct](op, *arrays))
    for got, want in zip(found, run(plain, feeds), strict=True):
        np.testing.assert_array_equal(got, want)


def summed(*shapes: tuple[int, ...], op: Any = None) -> Body:
    """The sum of operands, the first of them a product."""
    kind = np.dtype("float32")
    made = op or ELEMENTWISE["add"]
    given = [(s, kind) for s in shapes]
    shape = made.infer_shape(*shapes)
    step = BodyStep(made, tuple(range(len(shapes))), shape, kind)
    return Body.of(tuple(given), (step,), (len(shapes),))


def f32(*shape: int) -> Node:
    return variable(None, shape, np.dtype("float32"))


def test_it_costs_both_but_the_product_is_not_moved() -> None:
    node = make(
        FusedProduct(Matmul(), PLAIN, summed((8, 6), (8, 6))), (f32(8, 4), f32(4, 6), f32(8, 6))
    )
    assert node.cost() == (2 * 4 * 48 + 48, 4 * (32 + 24 + 48), 4 * 48)


ROW = Sum((1,), True, np.dtype("float32"))

REFUSED: list[tuple[str, Body, tuple[tuple[int, ...], ...]]] = [
    ("another product", summed((8, 5), (8, 5)), ((8, 4), (4, 6), (8, 5))),
    ("another operand", summed((8, 6), (8, 6)), ((8, 4), (4, 6), (8, 1))),
    ("an operand missing", summed((8, 6), (8, 6)), ((8, 4), (4, 6))),
    ("operands of the product missing", summed((8, 6)), ((8, 4),)),
    ("a stack of products", summed((2, 8, 6), (8, 6)), ((2, 8, 4), (4, 6), (8, 6))),
    ("a fold", summed((8, 6), op=ROW), ((8, 4), (4, 6))),
    ("more axes", summed((8, 6), (3, 8, 6)), ((8, 4), (4, 6), (3, 8, 6))),
    ("one row", summed((1, 6), (1, 6)), ((1, 4), (4, 6), (1, 6))),
    ("one column", summed((8, 1), (8, 1)), ((8, 4), (4, 1), (8, 1))),
]


@pytest.mark.parametrize(("body", "shapes"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_does_not_fit_is_refused(body: Body, shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises((ValueError, TypeError), match=r"matmul|fused_product"):
        make(FusedProduct(Matmul(), PLAIN, body), tuple([f32(*s) for s in shapes]))


def test_a_result_that_is_no_matrix_is_refused() -> None:
    kind = np.dtype("float32")
    step = BodyStep(ELEMENTWISE["abs"], (1,), (6,), kind)
    body = Body.of((((8, 6), kind), ((6,), kind)), (step,), (2,))
    assert not is_rowwise(body)


@pytest.mark.parametrize("seed", range(8))
def test_files_keep_it(seed: int) -> None:
    op, _ = drawn(seed)
    assert decode_op(encode_op(op)) == op


def test_operands_of_the_product_are_never_overwritten() -> None:
    epilogue = Epilogue(bias=True, residual=True)
    body = summed((8, 8), (8, 8))
    node = make(
        FusedProduct(matmul_op(False, True), epilogue, body),
        (f32(8, 8), f32(8, 8), f32(8), f32(8, 8), f32(8, 8)),
    )
    assert overwrites(node) == ((4, 0),)
    assert node.op.may_overwrite() == {4}


@pytest.mark.parametrize("seed", range(12))
def test_a_body_with_another_first_operand_is_the_same_function(seed: int) -> None:
    rng = random.Random(seed)
    body = chosen(rng, (4, 5), "float64")
    numbers = np.random.default_rng(seed)
    arrays = [numbers.normal(size=s) for s, _ in body.operands]
    place = rng.randrange(len(arrays))
    moved = [arrays[place], *arrays[:place], *arrays[place + 1 :]]
    found = KERNELS[Group](Group(product_first(body, place)), *moved)
    for got, want in zip(
        several(found), several(KERNELS[Group](Group(body), *arrays)), strict=True
    ):
        np.testing.assert_array_equal(got, want)


# ------------------------------------------------------------------- the kernel


def kernel_of(
    op: FusedProduct, arrays: Sequence[np.ndarray], threads: int = NOMINAL_THREADS
) -> Kernel | None:
    memories = [Memory(a.shape, a.strides, a.dtype) for a in arrays]
    node = node_of(op, arrays)
    results = [contiguous(*kind) for kind in node.parts or [(node.shape, node.dtype)]]
    return products.product(node, memories, results, threads)


def called(
    kernel: Kernel,
    operands: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
    workers: int,
) -> None:
    """Call a kernel for all workers; scratch memory holds nothing of use before."""
    scratch = poisoned((kernel.scratch,), np.dtype(np.uint8))
    row = [a.ctypes.data for a in (*operands, *results, scratch)]
    cells = np.array([*row, *kernel.parameters], np.int64)
    function = SIGNATURE(kernel.library.address(kernel.symbol))
    for worker in reversed(range(workers)):
        function(cells.ctypes.data, worker, workers)
    assert guarded(scratch), "it wrote outside of its scratch memory"


@native
@pytest.mark.usefixtures("low_panels")
@pytest.mark.parametrize("height", [1, 3, 16])
@pytest.mark.parametrize("seed", range(24))
def test_kernels_agree_with_the_reference(
    seed: int, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any number of workers, and of those that were expected, with the same bits."""
    op, arrays = drawn(seed)
    (rows, columns), dtype = op.body.operands[0]
    monkeypatch.setattr(panels, "PANEL_BYTES", height * columns * dtype.itemsize)
    wanted = several(KERNELS[FusedProduct](op, *arrays))
    seen: list[bytes] = []
    for slots in (1, 3, 5):
        kernel = kernel_of(op, arrays, slots)
        if rows <= height:
            assert kernel is None
            return
        assert kernel is not None
        for workers in WORKERS:
            results = [poisoned(w.shape, w.dtype) for w in wanted]
            called(kernel, arrays, results, workers)
            assert all(map(guarded, results)), "it wrote outside of its results"
            seen.append(b"".join(r.tobytes() for r in results))
            for got, want in zip(results, wanted, strict=True):
                tol = tolerance(got.dtype, 40) * 30
                np.testing.assert_allclose(got, want, rtol=tol, atol=tol)
    assert len(set(seen)) == 1


@native
@pytest.mark.usefixtures("low_panels")
@pytest.mark.parametrize("seed", range(40))
def test_results_may_lie_over_operands(seed: int) -> None:
    op, arrays = drawn(seed)
    arrays = [np.array(a, order="C") if i >= op.product_arity else a for i, a in enumerate(arrays)]
    kernel = kernel_of(op, arrays)
    assert kernel is not None
    wanted = [poisoned(*op.body.type_of(r)) for r in op.body.results]
    called(kernel, arrays, wanted, 2)
    over = match(op.overwrites())
    for workers in WORKERS:
        given = [a.copy(order="K") for a in arrays]
        results = [
            given[over[r]] if r in over else poisoned(w.shape, w.dtype)
            for r, w in enumerate(wanted)
        ]
        kernel = kernel_of(op, given)
        assert kernel is not None
        called(kernel, given, results, workers)
        for got, want in zip(results, wanted, strict=True):
            assert got.tobytes() == want.tobytes()


def test_the_cases_write_over_operands() -> None:
    assert sum(bool(drawn(seed)[0].overwrites()) for seed in range(40)) > 10


@native
@pytest.mark.usefixtures("low_panels")
def test_the_rows_of_a_panel_do_not_depend_on_threads() -> None:
    op, arrays = drawn(3)
    found = []
    for threads in (1, 64):
        kernel = kernel_of(op, arrays, threads)
        assert kernel is not None
        found.append(kernel.parameters[:3])
    assert found[0] == found[1]


# ----------------------------------------------------------------- the rewriting


def var(name: str, *shape: int) -> Array:
    return tw.var(name, shape=shape, dtype="float32")


a, b, c, w, s = var("a", 6, 4), var("b", 4, 5), var("c", 6, 5), var("w", 6, 5), var("s", 6, 5)
square, v = var("q", 5, 5), var("v", 5)


def updated(product: Array) -> list[Array]:
    """What AdaGrad makes of a gradient."""
    squares = s + product * product
    return [w - 0.1 * product / tnp.sqrt(squares + 1e-8), squares]


JOINED: list[tuple[str, Callable[[], list[Array]]]] = [
    ("an update of two variables", lambda: updated(a @ b)),
    ("a transposed operand", lambda: updated(tnp.matrix_transpose(var("t", 4, 6)) @ b)),
    ("an epilogue", lambda: updated(tnp.maximum(a @ b + v, 0))),
    ("one step, no group", lambda: [w - 0.1 * (a @ b)]),
    ("an operand that dies", lambda: [tnp.sin(a @ b) * tnp.cumulative_sum(c, axis=0) + 1]),
    ("rows, columns and numbers", lambda: [(w - (a @ b) * v) * var("m", 6, 1) + var("n") + v]),
    (
        "conversions",
        lambda: [(w - tnp.astype(tnp.astype(a @ b, "float64") * 0.1, "float32")) * 1.5],
    ),
    ("a variable that is updated and multiplied", lambda: [square - 0.1 * (square @ square) * 2]),
]

LEFT: list[tuple[str, Callable[[], list[Array]]]] = [
    ("the product is read again", lambda: [*updated(p := a @ b), tnp.sum(p, axis=0)]),
    ("the product is asked for", lambda: [*updated(p := a @ b), p]),
    ("the product is read twice by the group through a view", lambda: [tnp.sin(p := square @ square) * tnp.matrix_transpose(p) + square]),
    ("a result is written over the product", lambda: [tnp.sin(a @ b) * 2 + 1]),
    ("a result is written over the product, not over a constant", lambda: [tnp.sin(a @ b) * 2 + tnp.asarray(np.ones((6, 5), "float32"))]),
    ("the group folds", lambda: [tnp.sum(tnp.sin(a @ b) * w, axis=1)]),
    ("a stack of products", lambda: [(tnp.broadcast_to(a, (2, 6, 4)) @ b) * var("z", 2, 6, 5) + 1]),
    ("more axes than the product has", lambda: [tnp.sin(a @ b) * var("z", 2, 6, 5) + 1]),
    ("one row", lambda: [(a[:1] @ b) * var("z", 1, 5) + 1]),
    ("one step, written over the product", lambda: [tnp.sin(a @ b)]),
    ("a vector", lambda: [(a @ b[:, 0]) * var("z", 6) + 1]),
    ("large operands would have to wait", lambda: [tnp.sin(tnp.cumulative_sum(var("x", 6, 90), axis=0) @ var("y", 90, 5)) * tnp.cumulative_sum(c, axis=0) + 1]),
]  # fmt: skip


@pytest.mark.parametrize("build", [r[1] for r in JOINED], ids=[r[0] for r in JOINED])
def test_products_are_joined(build: Callable[[], list[Array]]) -> None:
    outputs = build()
    before, _ = apply(fuse_products, group_elementwise, outputs=outputs)
    flow, ledger = again(before, join_all)
    assert ledger.names == ["product_group"]
    ((_, old, (new,)),) = ledger.entries
    assert old[0] in old[1].inputs
    assert product_groups(flow.outputs) == [new]
    spec.check(flow, "joining", before)
    assert_same_bits(before.outputs, flow.outputs)
    for passes in ((join_all,), (group_elementwise, join_all)):
        same, recorded = again(flow, *passes)
        assert same.outputs == flow.outputs
        assert not recorded.entries
    off, recorded = apply(
        fuse_products, group_elementwise, join_all, outputs=outputs, off=["product_group"]
    )
    assert off.outputs == before.outputs
    assert "product_group" not in recorded.names


@pytest.mark.parametrize("build", [r[1] for r in LEFT], ids=[r[0] for r in LEFT])
def test_products_are_left_alone(build: Callable[[], list[Array]]) -> None:
    before, _ = apply(fuse_products, group_elementwise, outputs=build())
    assert [n for n in toposort(before.outputs) if "matmul" in n.name]
    flow, ledger = again(before, join_all)
    assert flow is before
    assert not ledger.entries


def test_small_products_and_what_the_engine_declines_are_left_alone() -> None:
    outputs = updated(a @ b)
    asked: list[tuple[FusedProduct, Sequence[Node]]] = []

    def never(op: FusedProduct, operands: Sequence[Node]) -> bool:
        asked.append((op, operands))
        return False

    for last, times in (
        (product_group_pass(never), 0),
        (product_group_pass(never, min_bytes=121), 0),
        (product_group_pass(never, min_bytes=120), 1),
    ):
        flow, _ = apply(fuse_products, group_elementwise, last, outputs=outputs)
        assert not product_groups(flow.outputs)
        assert len(asked) == times
    op, operands = asked[0]
    assert is_rowwise(op.body)
    assert list(operands[:2]) == [a.node, b.node]


def test_one_of_two_products_is_joined() -> None:
    outputs = [w - (a @ b) * tnp.sin(var("d", 6, 4) @ b)]
    flow, ledger = apply(fuse_products, group_elementwise, join_all, outputs=outputs)
    assert ledger.names.count("product_group") == 1
    spec.check(flow, "joining")


def test_what_runs_at_other_times_is_not_joined() -> None:
    outputs = updated(a @ b)
    before, _ = apply(fuse_products, group_elementwise, outputs=outputs)

    def moments(nodes: Sequence[Node]) -> Callable[[Node], object]:
        assert nodes == before.order()
        return lambda node: "matmul" in node.name

    flow, _ = again(before, product_group_pass(always, moments, 0))
    assert flow is before
    flow, _ = again(before, product_group_pass(always, lambda _: lambda _: 0, 0))
    assert product_groups(flow.outputs)


# ------------------------------------------------------------------ any program


class JoiningEngine(GroupingEngine):
    """The reference engine on graphs with product groups."""

    def can_fuse_product(self, op: FusedProduct, operands: Sequence[Node]) -> bool:
        del op, operands
        return True


@pytest.fixture
def any_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products are joined, too, and small arrays grouped."""
    monkeypatch.setattr("tawny.engine.cpu.TINY", 0)
    monkeypatch.setitem(ENGINES, "joining", JoiningEngine())
    monkeypatch.setattr(
        pipeline,
        "product_group_pass",
        lambda can_join, keys=None: product_group_pass(can_join, keys, 0),
    )


@st.composite
def programs(draw: st.DrawFn):
    """A few products of three matrices and what is done with them; updates, so that some are joined."""
    matrices = [tw.var(name, shape=(3, 3)) for name in "abc"]
    pool = list(matrices)
    for _ in range(draw(st.integers(1, 5))):
        x, y, z, u = (draw(st.sampled_from(pool)) for _ in range(4))
        product = (tnp.transpose(x) if draw(st.booleans()) else x) @ y * 0.25
        made = tnp.tanh(z - product * (u if draw(st.booleans()) else z))
        pool.append(made)
    outputs = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3))
    targets = draw(st.lists(st.sampled_from(matrices), min_size=1, max_size=3, unique_by=id))
    return (
        matrices,
        outputs,
        {
            t: t
            - 0.1
            * (draw(st.sampled_from(pool)) @ draw(st.sampled_from(pool)))
            * tnp.sin(draw(st.sampled_from([t, *pool])))
            for t in targets
        },
    )


ENGINE_NAMES = ["joining", pytest.param("cpu", marks=native)]
SOME = settings(max_examples=60, deadline=None)


@pytest.mark.usefixtures("any_product", "low_panels")
@pytest.mark.filterwarnings("ignore:Graph. input")
@pytest.mark.parametrize("engine", ENGINE_NAMES)
class TestAnyProgram:
    def test_agrees_with_a_fresh_evaluation(self, engine: str) -> None:
        SOME(
            given(programs(), st.data())(lambda p, d: check_against_fresh_evaluation(engine, p, d))
        )()

    def test_within_a_budget(self, engine: str) -> None:
        few = settings(max_examples=25, deadline=None)
        few(given(programs(), st.data())(lambda p, d: check_within_a_budget(engine, p, d)))()

    def test_such_programs_have_product_groups(self, engine: str) -> None:
        found = [0]

        def count(program) -> None:
            graph = tw.Graph(program[0], program[1], updates=program[2])
            found[0] += bool(joined(graph.compile(engine=engine, incremental=False)))

        settings(max_examples=20, deadline=None)(given(programs())(count))()
        assert found[0] > 5


@pytest.mark.usefixtures("any_product")
@pytest.mark.filterwarnings("ignore:Graph. input")
def test_poisoned_memory() -> None:
    SOME(given(programs(), st.data())(lambda p, d: check_poisoned("joining", p, d)))()


def joined(program) -> list[Node]:
    return [p.array.node for p in program.plan.steps if has_body(p.array.node)]


# --------------------------------------------------------------- large programs

M, N, K = 1100, 257, 12
"""A product of more than a megabyte, in panels of two heights."""


def large(name: str, *shape: int) -> Array:
    return tw.var(name, shape=shape, dtype="float32")


def values(graph: tw.Graph, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {x.name: rng.uniform(0.5, 1, x.shape).astype(x.dtype) for x in graph.inputs}


def training(optimiser: str = "adagrad") -> tw.Graph:
    """A step whose gradient is a large product."""
    x, g = large("x", K, M), large("g", K, N)
    weight, first, second = large("w", M, N), large("s", M, N), large("r", M, N)
    slope = tnp.matrix_transpose(x * tnp.mean(weight)) @ g
    if optimiser == "sgd":
        updates = {weight: weight - 0.1 * slope}
    elif optimiser == "adagrad":
        squares = first + slope * slope
        updates = {first: squares, weight: weight - 0.1 * slope / tnp.sqrt(squares + 1e-8)}
    else:
        mean, squares = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope * slope
        updates = {
            first: mean,
            second: squares,
            weight: weight - 0.1 * mean / tnp.sqrt(squares + 1e-8),
        }
    used = {"sgd": [], "adagrad": [first], "adam": [first, second]}[optimiser]
    return tw.Graph([x, g, weight, *used], tnp.sum(x), updates=updates)


def unjoined(monkeypatch: pytest.MonkeyPatch, graph: tw.Graph, **options: Any) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(CpuEngine, "can_fuse_product", lambda *_: False)
        program = graph.compile(engine="cpu", **options)
    assert not joined(program)
    return program


@native
@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("optimiser", ["sgd", "adagrad", "adam"])
def test_updates_are_made_in_place_with_the_bits_of_the_whole_product(
    optimiser: str, incremental: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAWNY_DEBUG", "1")
    graph = training(optimiser)
    program = graph.compile(engine="cpu", incremental=incremental, threads=2)
    whole = unjoined(monkeypatch, graph, incremental=incremental, threads=2)
    plain = graph.compile(engine="reference", optimise=False)
    assert len(joined(program)) == 1
    assert set(program._compiled.in_place_updates.values()) == {t for t, _ in graph.update_nodes}
    assert program.plan.peak_bytes < M * N * 4 / 2 < M * N * 4 <= whole.plan.peak_bytes
    assert "by NumPy" not in str(program.plan)
    for p in (program, whole, plain):
        p.set(**values(graph))
    for round in range(4):
        for p in (program, whole, plain):
            p.set(x=values(graph, round)["x"])
            p.run()
        for name, value in program.state.items():
            assert value.tobytes() == whole.state[name].tobytes()
            np.testing.assert_allclose(value, plain.state[name], rtol=2e-5, atol=2e-5)


@native
def test_any_number_of_threads_gives_the_same_bits() -> None:
    graph = training()
    states = []
    for threads in WORKERS:
        program = graph.compile(engine="cpu", threads=threads)
        assert joined(program)
        program.set(**values(graph))
        program.run(steps=3)
        states.append({name: value.tobytes() for name, value in program.state.items()})
    assert all(state == states[0] for state in states)


@native
@pytest.mark.parametrize("view", [False, True])
def test_a_variable_that_is_multiplied_and_updated_is_not_overwritten(view: bool) -> None:
    weight, x = large("w", 640, 640), large("x", 640, 640)
    left = tnp.matrix_transpose(weight) if view else weight
    graph = tw.Graph(
        [weight, x], tnp.sum(x), updates={weight: weight - 0.001 * tnp.sin(left @ x) * weight}
    )
    program = graph.compile(engine="cpu")
    assert joined(program)
    assert not program._compiled.in_place_updates
    program.set(**(given := values(graph)))
    state, other = given["w"].astype("float64"), given["x"].astype("float64")
    for _ in range(3):
        program.run()
        state = state - 0.001 * np.sin((state.T if view else state) @ other) * state
    np.testing.assert_allclose(program.state["w"], state, rtol=1e-3, atol=1e-4)


@native
def test_an_operand_of_both_is_not_overwritten() -> None:
    x, y = large("x", 640, 640), large("y", 640, 640)
    t, dies = tnp.cumulative_sum(x, axis=0) * 0.01, tnp.cumulative_sum(y, axis=1) * 0.01
    graph = tw.Graph([x, y], tnp.sin(t @ y) * t + dies)
    program = graph.compile(engine="cpu", incremental=False)
    (node,) = joined(program)
    given = values(graph)
    wide = {name: value.astype("float64") for name, value in given.items()}
    first, second = np.cumsum(wide["x"], 0) * 0.01, np.cumsum(wide["y"], 1) * 0.01
    want = np.sin(first @ wide["y"]) * first + second
    np.testing.assert_allclose(program(**given), want, rtol=2e-3, atol=2e-2)
    assert node.inputs[0] in node.inputs[2:]


@native
def test_incremental_runs_do_not_compute_the_product_again() -> None:
    x, y, scale, other = large("x", M, K), large("y", K, N), large("c"), large("z", M, N)
    out = other - tnp.sin(x @ y) * scale
    graph = tw.Graph([x, y, scale, other], out)
    program, always_whole = (
        graph.compile(engine="cpu"),
        graph.compile(engine="cpu", incremental=False),
    )
    assert not joined(program)
    assert joined(always_whole)
    given = values(graph)
    np.testing.assert_allclose(program(**given), always_whole(**given), rtol=1e-6)
    program.set(c=2.0)
    always_whole.set(c=2.0)
    np.testing.assert_allclose(program.run(), always_whole.run(), rtol=1e-6)
    assert not [n for n in program.last_run.executed if "matmul" in n.node.name]


@native
def test_what_a_product_group_computes_can_be_asked_for() -> None:
    graph = training("sgd")
    program = graph.compile(engine="cpu")
    program.set(**values(graph))
    program.run()
    names = [x.node.name for x in program.last_run.executed]
    assert "transposed_matmul" in names
    assert "product_group" not in names
    assert "product_group" in program.rewrites.counts()


def test_engines_that_cannot_leave_it_alone() -> None:
    assert not joined(training().compile(engine="reference"))


@native
def test_more_scratch_memory_than_the_product_is_not_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel_table._ANSWERS.clear()
    monkeypatch.setattr(panels, "NOMINAL_THREADS", 64)
    monkeypatch.setattr(panels, "PANEL_BYTES", 2**14)
    assert not joined(training().compile(engine="cpu"))
    kernel_table._ANSWERS.clear()


@native
def test_products_are_joined_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "PANEL_BYTES", 2**14)
    kernel_table._ANSWERS.clear()
    found = [joined(training().compile(engine="cpu", threads=n)) for n in (1, 2, 64)]
    assert found[0]
    assert [len(nodes) for nodes in found] == [len(found[0])] * 3
    kernel_table._ANSWERS.clear()


@native
@pytest.mark.usefixtures("low_panels")
def test_weights_that_are_packed_before_the_run_stay_so() -> None:
    """Where each run would have to pack them they are packed once, which panels cannot use."""
    op = FusedProduct(matmul_op(False, True), PLAIN, summed((8, 6), (8, 6)))
    node = make(op, (f32(8, 4), f32(6, 4), f32(8, 6)))
    left, right, other = (contiguous(i.shape, i.dtype) for i in node.inputs)
    known = contiguous(right.shape, right.dtype, True)
    assert products.product(node, (left, right, other), (other,), 2) is not None
    assert products.product(node, (left, known, other), (other,), 2) is None


# ------------------------------------------------------------------------ MNIST


def mnist(batch: int) -> tw.Graph:
    x = np.random.default_rng(0).random((batch, 28, 28, 1), dtype=np.float32)
    model = models.Mnist()
    return nn.training_graph(
        model, nn.cross_entropy, (x, np.arange(batch) % 10), optim.AdaGrad(0.005)
    )


@native
@pytest.mark.parametrize(("batch", "most"), [(100, 23_000_000), (50, 12_000_000)])
def test_the_gradient_of_the_largest_weight_is_never_whole(batch: int, most: int) -> None:
    """What is left is the gradient of pooling: two images of all filters, and a pooled one."""
    assert mnist(batch).plan(engine="cpu", incremental=False, threads=2).peak_bytes < most


@native
def test_training_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = mnist(20)
    program = graph.compile(engine="cpu", incremental=False)
    whole = unjoined(monkeypatch, graph, incremental=False)
    assert joined(program)
    for p in (program, whole):
        p.set(**mnist_values(graph))
        p.draw = 0
    for _ in range(3):
        np.testing.assert_array_equal(program.run(), whole.run())
    for name, value in program.state.items():
        assert value.tobytes() == whole.state[name].tobytes(), name


def mnist_values(graph: tw.Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    out = {}
    for node in graph.variables:
        if node.dtype.kind == "f":
            out[node.name] = np.asarray(rng.uniform(0.01, 0.05, node.shape)).astype(node.dtype)
        else:
            out[node.name] = np.asarray(rng.integers(0, 10, node.shape)).astype(node.dtype)
    return out
