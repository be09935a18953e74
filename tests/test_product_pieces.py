"""Products that a group uses up in pieces, some columns of each at a time: gates of recurrent nets."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from codegen_harness import SIGNATURE, guarded, poisoned
from cpu_checks import tolerance
from product_group_checks import BodyToBe, has_body, node_of, several
from recurrent_graphs import unrolled
from tawny.array import Array, array_for
from tawny.engine.cpu import CpuEngine, kernel_table, unavailable
from tawny.engine.cpu.kernel_table import Kernel
from tawny.engine.cpu.kernels.element import element_of
from tawny.engine.cpu.products.choice import PIECE_SUMS
from tawny.engine.cpu.products.tile import tallest
from tawny.engine.cpu.rules import products
from tawny.engine.cpu.threads.pool import NOMINAL_THREADS
from tawny.engine.layout import Memory, contiguous
from tawny.engine.lowering import overwrites
from tawny.engine.reference import run
from tawny.engine.reference.kernel import KERNELS
from tawny.files.encoding import decode_op, encode_op
from tawny.memory.inplace import match
from tawny.node import Node, make, toposort, variable
from tawny.op import ELEMENTWISE
from tawny.ops.body import Body, BodyStep
from tawny.ops.fused_products import PLAIN, Activation, Epilogue, FusedProduct, matmul_op
from tawny.ops.fusion import expand_group
from tawny.ops.linalg import Matmul
from tawny.rewrite.groups.products import LEAST_IN_PIECES

native = pytest.mark.skipif(unavailable() is not None, reason="compiled code cannot be run here")

WORKERS = (1, 2, 3, 5)


# ---------------------------------------------------------------------- the op


def chosen(rng: random.Random, pieces: int, shape: tuple[int, int], dtype: str) -> Body:
    """A body of pieces of a product and other operands, some of them stretched."""
    made = BodyToBe(rng, shape, dtype, pieces)
    for operand in range(1, made.count):
        name = rng.choice(("add", "multiply", "maximum"))
        made.step(name, operand, rng.choice((0, len(made.values) - 1)))
    made.step("add", 0, len(made.values) - 1)
    made.step("subtract", rng.randrange(pieces), len(made.values) - 1)
    return made.body()


def drawn(seed: int) -> tuple[FusedProduct, list[np.ndarray]]:
    """A product group of pieces and its operands."""
    rng = random.Random(seed)
    dtype = rng.choice(("float32", "float32", "float64"))
    pieces, rows = rng.randint(2, 4), rng.randint(6, 20)
    width, depth = 16 * rng.randint(1, 12), rng.choice((1, 3, 17, 40))
    activation = rng.choice((Activation.NONE, Activation.RELU))
    epilogue = Epilogue(rng.random() < 0.4, rng.random() < 0.5, activation)
    transpose_a, transpose_b = rng.random() < 0.3, rng.random() < 0.3
    body = chosen(rng, pieces, (rows, width), dtype)
    columns = pieces * width
    shapes = [
        (depth, rows) if transpose_a else (rows, depth),
        (columns, depth) if transpose_b else (depth, columns),
        *[rng.choice(((columns,), (1, columns)))] * epilogue.bias,
        *[(rows, columns)] * epilogue.residual,
        *[s for s, _ in body.operands[pieces:]],
    ]
    numbers = np.random.default_rng(seed)
    arrays = [np.asarray(numbers.integers(-9, 9, s) / 4).astype(dtype) for s in shapes]
    if transpose_b:
        arrays[1] = np.asfortranarray(arrays[1])
    return FusedProduct(matmul_op(transpose_a, transpose_b), epilogue, body, pieces), arrays


@pytest.mark.parametrize("seed", range(20))
def test_the_op_is_the_product_in_pieces_and_then_the_body(seed: int) -> None:
    op, arrays = drawn(seed)
    node = node_of(op, arrays)
    plain = expand_group(node)
    assert not any(map(has_body, toposort(plain)))
    feeds = dict(zip(node.inputs, arrays, strict=True))
    found = several(KERNELS[FusedProduct](op, *arrays))
    for got, want in zip(found, run(plain, feeds), strict=True):
        np.testing.assert_array_equal(got, want)
    assert decode_op(encode_op(op)) == op


def f32(*shape: int) -> Node:
    return variable(None, shape, np.dtype("float32"))


def summed(count: int, *shape: int, kind: str = "float32") -> Body:
    """The sum of some arrays of one shape."""
    kind, add = np.dtype(kind), ELEMENTWISE["add"]
    steps = [BodyStep(add, (0, 1), shape, kind)]
    steps += [BodyStep(add, (count + i, i + 2), shape, kind) for i in range(count - 2)]
    return Body.of(((shape, kind),) * count, tuple(steps), (2 * count - 2,))


@pytest.mark.parametrize(
    ("pieces", "body", "columns"),
    [
        (3, summed(3, 8, 4), 16),
        (2, summed(2, 8, 5), 16),
        (2, summed(3, 8, 4), 8),
        (0, summed(2, 8, 4), 8),
        (2, summed(2, 4, 4), 8),
    ],
)
def test_what_does_not_fit_is_refused(pieces: int, body: Body, columns: int) -> None:
    with pytest.raises(ValueError, match="fused_product"):
        make(FusedProduct(Matmul(), PLAIN, body, pieces), (f32(8, 4), f32(4, columns)))


def test_neither_pieces_nor_operands_of_the_product_are_overwritten() -> None:
    body = summed(3, 8, 8)
    op = FusedProduct(Matmul(), Epilogue(residual=True), body, 2)
    node = make(op, (f32(8, 8), f32(8, 16), f32(8, 16), f32(8, 8)))
    assert overwrites(node) == ((3, 0),)


# ------------------------------------------------------------------- the kernel


def kernel_of(
    op: FusedProduct,
    arrays: Sequence[np.ndarray],
    constant: bool = False,
    threads: int = NOMINAL_THREADS,
) -> Kernel | None:
    """The kernel; operand 1 may be a constant."""
    memories = [
        Memory(a.shape, a.strides, a.dtype, constant=constant and i == 1)
        for i, a in enumerate(arrays)
    ]
    node = node_of(op, arrays)
    results = [contiguous(*kind) for kind in node.parts or [(node.shape, node.dtype)]]
    return products.product(node, memories, results, threads)


def called(
    kernel: Kernel, operands: Sequence[np.ndarray], results: Sequence[np.ndarray], workers: int
) -> None:
    """Call a kernel for all workers; scratch memory holds nothing of use before."""
    ready = dict(kernel.prepared)
    operands = [ready[i](a) if i in ready else a for i, a in enumerate(operands)]
    scratch = poisoned((kernel.scratch,), np.dtype(np.uint8))
    row = [a.ctypes.data for a in (*operands, *results, *[scratch] * (kernel.scratch > 0))]
    cells = np.array([*row, *kernel.parameters], np.int64)
    function = SIGNATURE(kernel.library.address(kernel.symbol))
    for worker in reversed(range(workers)):
        function(cells.ctypes.data, worker, workers)
    assert guarded(scratch), "it wrote outside of its scratch memory"


@native
@pytest.mark.parametrize("seed", range(30))
def test_kernels_agree_with_the_reference(seed: int) -> None:
    """For any number of workers, and of those that were expected, with the same bits."""
    op, arrays = drawn(seed)
    wanted = several(KERNELS[FusedProduct](op, *arrays))
    seen: set[bytes] = set()
    for slots, constant in ((1, False), (2, True), (3, False), (5, True)):
        kernel = kernel_of(op, arrays, constant, slots)
        assert kernel is not None
        assert bool(kernel.prepared) == constant
        for workers in WORKERS:
            results = [poisoned(w.shape, w.dtype) for w in wanted]
            called(kernel, arrays, results, workers)
            assert all(map(guarded, results)), "it wrote outside of its results"
            seen.add(b"".join(r.tobytes() for r in results))
            for got, want in zip(results, wanted, strict=True):
                tol = tolerance(got.dtype, 40) * 30
                np.testing.assert_allclose(got, want, rtol=tol, atol=tol)
    assert len(seen) == 1


@native
@pytest.mark.parametrize("seed", range(30))
def test_results_may_lie_over_operands(seed: int) -> None:
    op, arrays = drawn(seed)
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
        called(kernel, given, results, workers)
        for got, want in zip(results, wanted, strict=True):
            assert got.tobytes() == want.tobytes()


def test_the_cases_write_over_operands() -> None:
    assert sum(bool(drawn(seed)[0].overwrites()) for seed in range(30)) > 8


@native
def test_what_fits_no_tiles_is_left_alone() -> None:
    def kernel(
        rows: int,
        width: int,
        pieces: int = 2,
        turned: bool = False,
        kind: str = "float32",
        constant: bool = False,
    ) -> Kernel | None:
        body = summed(pieces, rows, width, kind=kind)
        op = FusedProduct(Matmul(), PLAIN, body, pieces)
        right = np.zeros((40, pieces * width), kind, order="F" if turned else "C")
        return kernel_of(op, [np.zeros((rows, 40), kind), right], constant=constant)

    assert kernel(16, 256) is not None
    assert kernel(16, 256, kind="float64") is not None
    assert kernel(16, 256, 4) is not None
    assert kernel(16, 256, 5) is None
    assert kernel(2, 256) is None
    assert kernel(16, 257) is None
    assert kernel(16, 2**13) is None
    assert kernel(16, 2**13, constant=True) is not None
    assert kernel(128, 2**11, constant=True) is None
    assert kernel(16, 256, turned=True) is None
    assert kernel(16, 256, turned=True, constant=True) is not None
    assert kernel(16, 256, kind="float16") is None


@native
def test_a_piece_is_not_mistaken_for_another_operand() -> None:
    """The same code with other reads is another kernel."""
    rng, kind, shape = np.random.default_rng(0), np.dtype("float32"), (16, 32)
    arrays = [rng.standard_normal(s).astype("f4") for s in ((16, 8), (8, 64), shape)]
    step = ELEMENTWISE["add"]
    for other in (1, 2):
        body = Body.of(((shape, kind),) * 3, (BodyStep(step, (0, other), shape, kind),), (3,))
        op = FusedProduct(Matmul(), PLAIN, body, 2)
        kernel = kernel_of(op, arrays)
        assert kernel is not None
        result = poisoned(shape, kind)
        called(kernel, arrays, [result], 2)
        (want,) = several(KERNELS[FusedProduct](op, *arrays))
        np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-5)


@native
def test_long_products_wait_in_scratch_memory() -> None:
    """The common axis is cut into blocks, and sums wait for the next one."""
    rng, kind, shape = np.random.default_rng(0), np.dtype("float32"), (16, 32)
    add = ELEMENTWISE["add"]
    body = Body.of(
        ((shape, kind),) * 5,
        (
            *summed(4, *shape).steps[:1],
            BodyStep(add, (2, 3), shape, kind),
            BodyStep(add, (5, 6), shape, kind),
        ),
        (7,),
    )
    op = FusedProduct(Matmul(), PLAIN, body, 4)
    arrays = [rng.standard_normal(s).astype("f4") for s in ((16, 2000), (2000, 128), shape)]
    kernel = kernel_of(op, arrays)
    assert kernel is not None
    assert kernel.scratch > 0
    (want,) = several(KERNELS[FusedProduct](op, *arrays))
    seen: set[bytes] = set()
    for workers in WORKERS[:2]:
        result = poisoned(shape, kind)
        called(kernel, arrays, [result], workers)
        assert guarded(result)
        np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-3)
        seen.add(result.tobytes())
    assert len(seen) == 1


# ------------------------------------------------------------------- rewriting


def joined(program: Any) -> list[Node]:
    nodes = toposort(program._compiled.results)
    return [n for n in nodes if isinstance(n.op, FusedProduct) and n.op.pieces > 1]


def unjoined(monkeypatch: pytest.MonkeyPatch, graph: tw.Graph, **options: Any) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(CpuEngine, "can_fuse_product", lambda *_: False)
        return graph.compile(engine="cpu", **options)


def cells(*names: str) -> list[Array]:
    shapes = {"h": (16, 256), "u": (256, 512), "c": (16, 256)}
    return [tw.var(n, shape=shapes[n], dtype="float32") for n in names]


def halves(z: Array) -> tuple[Array, Array]:
    return z[:, :256], z[:, 256:]


def gated(h: Array, u: Array, c: Array) -> Array:
    i, f = halves(h @ u)
    return tnp.sigmoid(i) * tnp.tanh(f) + c


def read_elsewhere(h: Array, u: Array, c: Array) -> Any:
    z = h @ u
    i, f = halves(z)
    return tnp.sigmoid(i) * f + c, tnp.sum(z)


def piece_elsewhere(h: Array, u: Array, c: Array) -> Any:
    i, f = halves(h @ u)
    return tnp.sigmoid(i) * f + c, tnp.cumsum(i, axis=0)


def gap(h: Array, u: Array, c: Array) -> Any:
    z = h @ u
    return tnp.sigmoid(z[:, :256]) * tnp.concat([z[:, 257:], z[:, :1]], axis=1) + c


def overlapping(h: Array, u: Array, c: Array) -> Any:
    z = h @ u
    return tnp.sigmoid(z[:, :256]) * tnp.tanh(z[:, 128:384]) + c


@native
@pytest.mark.parametrize(
    ("build", "count"),
    [(gated, 1), (read_elsewhere, 0), (piece_elsewhere, 0), (gap, 0), (overlapping, 0)],
)
def test_what_is_joined(
    build: Callable[..., Any], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel_table._ANSWERS.clear()
    inputs = cells("h", "u", "c")
    graph = tw.Graph(inputs, build(*inputs))
    program = graph.compile(incremental=False)
    assert len(joined(program)) == count
    plain = unjoined(monkeypatch, graph, incremental=False)
    rng = np.random.default_rng(0)
    given = {v.name: rng.standard_normal(v.shape).astype("f4") for v in graph.variables}
    for p in (program, plain):
        p.set(**given)
    got, want = program.run(), plain.run()
    for a, b in zip(several(got), several(want), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    kernel_table._ANSWERS.clear()


# -------------------------------------------------------------------- networks


def is_expected(pieces: int, batch: int, units: int) -> bool:
    """Whether products of a layer are joined with what reads them."""
    element = element_of(np.dtype("float32"))
    assert element is not None
    columns = 4 * pieces * units
    return (
        pieces * min(batch, tallest(pieces)) >= PIECE_SUMS
        and units % element.lanes == 0
        and batch * columns >= LEAST_IN_PIECES
    )


SIZES = [(16, 256), (3, 128), (5, 192), (33, 160), (2, 512), (64, 64), (16, 100), (1, 256)]


@native
@pytest.mark.parametrize(("batch", "units"), SIZES)
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_with_any_number_of_threads(
    kind: str, batch: int, units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bits of whole products, in memory that holds nothing of use, and no more of it."""
    monkeypatch.setenv("TAWNY_DEBUG", "1")
    graph = unrolled(kind, batch, 4, units)
    plain = unjoined(monkeypatch, graph)
    x = np.random.default_rng(1).standard_normal(graph.variables[0].shape).astype("f4")
    want = plain(x)
    np.testing.assert_allclose(want, graph.compile(engine="reference")(x), rtol=2e-4, atol=2e-5)
    for threads in (1, 2, 3):
        program = graph.compile(engine="cpu", threads=threads)
        for _ in range(2):
            assert program(x).tobytes() == want.tobytes()
        alone = unjoined(monkeypatch, graph, threads=threads)
        assert program.plan.peak_bytes <= alone.plan.peak_bytes
    assert bool(joined(program)) == is_expected({"LSTM": 4, "GRU": 3}[kind], batch, units)


@native
def test_training_a_recurrent_layer_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = unrolled("LSTM", 16, 3, 128)
    (x,), (h,) = graph.variables, graph.output_nodes
    given = array_for(x)
    loss = tnp.sum(array_for(h) ** 2)
    (slope,) = tw.gradients(loss, [given])
    training = tw.Graph([given], [loss, slope])
    program, plain = training.compile(), unjoined(monkeypatch, training)
    value = np.random.default_rng(1).standard_normal(x.shape).astype("f4")
    for a, b in zip(program(value), plain(value), strict=True):
        assert a.tobytes() == b.tobytes()
