"""Matrix products and convolutions in programs of the native engine, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.engine.cpu.products.matmul import matmul_kernel
from tawny.engine.cpu.products.winograd import APART
from tawny.engine.cpu.rules.products import product
from tawny.engine.layout import Memory, contiguous
from tawny.node import make
from tawny.ops.linalg import Matmul


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


W, B = drawn(40, 24), drawn(24)
KERNEL = drawn(3, 3, 8, 16)

PROGRAMS = {
    "matmul": lambda x: x @ W,
    "dense layer": lambda x: tnp.relu(x @ W + B),
    "residual": lambda x: tnp.tanh((x @ W + B) @ W.T + x),
    "transposed left": lambda x: x.T @ x,
    "transposed weights": lambda x: x @ drawn(24, 40).T,
    "vector": lambda x: x @ drawn(40),
    "outer product of rows": lambda x: tnp.einsum("bi,bj->ij", x, x[:, ::2]),
    "attention": lambda x: tnp.einsum(
        "qhd,khd->hqk", x.reshape((10, 4, 10)), tnp.exp(x).reshape((10, 4, 10))
    ),
    "convolution": lambda x: tnp.relu(
        tnp.conv2d(x.reshape((1, 10, 5, 8)), KERNEL, strides=2, padding="SAME") + drawn(16)
    ),
    "channels first": lambda x: tnp.conv2d(
        x.reshape((1, 8, 10, 5)).transpose((0, 2, 3, 1)),
        KERNEL,
        padding="SAME",
    ),
    "transposed convolution": lambda x: tnp.conv_transpose2d(
        x.reshape((1, 5, 5, 16)),
        drawn(3, 3, 16, 8),
        strides=2,
        padding="SAME",
    ),
    "depthwise": lambda x: tnp.depthwise_conv1d(
        x.reshape((1, 10, 40)), drawn(3, 40, 1), padding="SAME"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree_with_the_reference(name):
    x, value = tw.var("x", shape=(10, 40), dtype="float32"), drawn(10, 40)
    graph = tw.Graph([x], PROGRAMS[name](x))
    native, reference = graph.compile(engine="cpu"), graph.compile(engine="reference")
    got, want = native(value), reference(value)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    assert "by NumPy" not in str(native.plan)
    np.testing.assert_array_equal(graph.compile(engine="cpu", threads=1)(value), got)


def test_a_training_step_agrees_with_the_reference():
    x = tw.var("x", shape=(4, 12, 12, 3), dtype="float32")
    kernel = tw.var("kernel", shape=(3, 3, 3, 8), dtype="float32")
    weights = tw.var("weights", shape=(12 * 12 * 8, 5), dtype="float32")

    def loss(kernel, weights):
        seen = tnp.relu(tnp.conv2d(x, kernel, padding="SAME"))
        return tnp.mean((seen.reshape((4, -1)) @ weights) ** 2)

    slopes = tw.grad(loss, argnums=(0, 1))(kernel, weights)
    graph = tw.Graph([x, kernel, weights], list(slopes))
    values = [drawn(*v.shape, seed=i) for i, v in enumerate((x, kernel, weights))]
    got = graph.compile(engine="cpu")(*values)
    want = graph.compile(engine="reference")(*values)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_known_weights_are_packed_once_where_every_run_would_have_to():
    a = contiguous((64, 40), np.dtype(np.float32))
    result = contiguous((64, 24), np.dtype(np.float32))
    node = make(Matmul(), (tnp.asarray(drawn(64, 40)).node, tnp.asarray(W).node))
    plain = contiguous((40, 24), np.dtype(np.float32), constant=True)
    columns = Memory((40, 24), (4, 160), np.dtype(np.float32), constant=True)
    variable = Memory((40, 24), (4, 160), np.dtype(np.float32))
    assert not product(node, (a, plain), (result,), 2).prepared
    assert product(node, (a, columns), (result,), 2).prepared
    assert not product(node, (a, variable), (result,), 2).prepared


def test_plans_count_what_is_arranged_before_the_run(monkeypatch):
    monkeypatch.setenv("TAWNY_THREADS", "3")
    monkeypatch.setattr("tawny.engine.cpu.kernel_table._ANSWERS", {})
    x = tw.var("x", shape=(1, 12, 12, 32), dtype="float32")
    kernel = tw.var("kernel", shape=(3, 3, 32, 48), dtype="float32")
    known = tw.Graph([x], tnp.conv2d(x, drawn(3, 3, 32, 48), padding="SAME")).compile(engine="cpu")
    unknown = tw.Graph([x, kernel], tnp.conv2d(x, kernel, padding="SAME")).compile(engine="cpu")
    nbytes = 16 * (32 + APART) * 48 * 4  # 16 matrices instead of 9 taps
    assert f"; {nbytes:,} bytes of constants arranged before the run" in str(known.plan)
    assert "arranged" not in str(unknown.plan)
    values = drawn(1, 12, 12, 32), drawn(3, 3, 32, 48)
    np.testing.assert_array_equal(known(values[0]), unknown(*values))


def test_scratch_memory_is_planned():
    x = tw.var("x", shape=(200, 300), dtype="float32")
    y = tw.var("y", shape=(500, 300), dtype="float32")
    program = tw.Graph([x, y], x @ y.T).compile(engine="cpu")
    scratch = [b.bytes for b in program.plan.blocks if b.kind == "scratch"]
    assert len(scratch) == 1
    assert scratch[0] > 0
    np.testing.assert_allclose(
        program(drawn(200, 300), drawn(500, 300)),
        drawn(200, 300) @ drawn(500, 300).T,
        rtol=1e-4,
        atol=1e-4,
    )


def test_products_of_one_kernel_share_what_is_arranged(monkeypatch):
    """Images of different sizes: the kernel is transformed once, and each result is right."""
    monkeypatch.setenv("TAWNY_THREADS", "3")
    monkeypatch.setattr("tawny.engine.cpu.kernel_table._ANSWERS", {})
    kernel = drawn(3, 3, 64, 64) / 24
    images = [tw.var(f"x{n}", shape=(1, n, 24, 64), dtype="float32") for n in (24, 32, 40)]
    graph = tw.Graph(images, [tnp.conv2d(x, kernel, padding="SAME") for x in images])
    alone = tw.Graph(images[:1], tnp.conv2d(images[0], kernel, padding="SAME"))
    programs = [graph.compile(threads=2), alone.compile(threads=2)]
    several, one = (p._compiled.executable._table.prepared_bytes for p in programs)
    assert several == one > kernel.nbytes
    given = {x.node.name: drawn(*x.shape) for x in images}
    reference = graph.compile(engine="reference")(**given)
    for got, want in zip(programs[0](**given), reference, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("columns", [0, 1, 3, 16, 19, 64])
@pytest.mark.parametrize("rows", [0, 1, 3, 40])
@pytest.mark.parametrize("depth", [0, 1])
def test_known_matrices_may_have_no_rows(rows, columns, depth):
    for dtype in ("float32", "float64"):
        x, right = tw.var("x", shape=(rows, depth), dtype=dtype), np.ones((depth, columns), dtype)
        products = [x @ right, x @ tnp.matrix_transpose(tnp.asarray(right.T.copy()))]
        for optimise in (True, False):
            program = tw.Graph([x], products).compile(optimise=optimise)
            for got in program(np.full((rows, depth), 2.0, dtype)):
                np.testing.assert_array_equal(got, np.full((rows, columns), 2.0 * depth, dtype))


@pytest.mark.parametrize("columns", [1, 3, 16, 19, 64])
def test_a_matrix_without_rows_is_packed_to_nothing(columns):
    given = [contiguous(shape, np.dtype("float64")) for shape in ((40, 0), (0, columns))]
    made = matmul_kernel(*given, contiguous((40, columns), np.dtype("float64")), prepared=True)
    assert made is not None
    if made.preparation is not None:
        assert made.preparation(np.ones((0, columns))).size == made.preparation.nbytes == 0
