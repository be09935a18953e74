"""Products with their epilogues, transposes taken in, batch normalisation taken into weights."""

from __future__ import annotations

import numpy as np
import pytest

import tawny.numpy as tnp
from fusion_checks import again, apply, assert_same_bits, random_graph, values
from random_graphs import assert_same_bits as same_bits
from random_graphs import graph_of
from tawny.array import Array, wrap
from tawny.dtype import FLOAT32
from tawny.engine.reference import run
from tawny.node import Node, make, toposort
from tawny.op import ELEMENTWISE
from tawny.operator import emit
from tawny.ops.convolution import Convolution
from tawny.ops.creation import var
from tawny.ops.fused_products import Activation, Epilogue, FusedProduct, TransposedMatmul
from tawny.ops.linalg import Matmul
from tawny.rewrite import batch_norm
from tawny.rewrite.batch_norm import fold_batch_norm
from tawny.rewrite.constants import nbytes
from tawny.rewrite.flow import Flow
from tawny.rewrite.fusion import fuse_products
from tawny.rewrite.groups.elementwise import group_elementwise


def v(name: str, *shape: int, dtype: str = "float32") -> Array:
    return var(name, shape=shape, dtype=dtype)


def constant(*shape: int, seed: int = 0, low: float = -1.0) -> Array:
    rng = np.random.default_rng(seed)
    return tnp.asarray(rng.uniform(low, 1, shape).astype("float32"))


def fused(*outputs: Array) -> tuple[list[Node], list[str]]:
    """The outputs after fusion, checked to have the same bits and to be stable; rules applied."""
    flow, ledger = apply(fuse_products, outputs=outputs)
    assert_same_bits([o.node for o in outputs], flow.outputs)
    flow_again, nothing = again(flow, fuse_products)
    assert flow_again.outputs == flow.outputs
    assert not nothing.entries
    return list(flow.outputs), ledger.names


def inner(node: Node) -> set[str]:
    """Names of all ops but leaves."""
    return {n.name for n in toposort([node]) if n.inputs}


# ---------------------------------------------------------------------- transposes


def test_transposes_of_both_operands() -> None:
    a, b = v("a", 4, 3), v("b", 5, 4)
    (out,), names = fused(a.T @ b.T)
    assert out.op == TransposedMatmul(True, True)
    assert out.inputs == (a.node, b.node)
    assert names == ["matmul_transpose"]
    assert fused(a.T @ v("c", 4, 5))[0][0].op == TransposedMatmul(True, False)
    assert fused(v("c", 5, 3) @ a.T)[0][0].op == TransposedMatmul(False, True)


def test_the_same_node_twice() -> None:
    a = v("a", 4, 3)
    (left, right, twice), _ = fused(a.T @ a, a @ a.T, a.T @ a.T.T)
    assert left.op == TransposedMatmul(True, False)
    assert right.op == TransposedMatmul(False, True)
    assert left.inputs == right.inputs == (a.node, a.node)
    assert twice is left
    s = v("s", 3, 3)
    (out,), _ = fused(s.T @ s.T)
    assert out.op == TransposedMatmul(True, True)


def test_stacks_exchange_the_last_axes_only() -> None:
    a = v("a", 2, 3, 4)
    good = tnp.permute_dims(a, (0, 2, 1))
    (out,), _ = fused(good @ v("b", 3, 5))
    assert out.op == TransposedMatmul(True, False)
    for axes in ((2, 1, 0), (1, 0, 2), (1, 2, 0), (2, 0, 1)):
        moved = tnp.permute_dims(a, axes)
        y = moved @ v("c", moved.shape[-1], 5)
        (out,), names = fused(y)
        assert out is y.node
        assert not names


def test_vectors() -> None:
    a, x = v("a", 4, 3), v("x", 4)
    (out,), _ = fused(a.T @ x)
    assert out.op == TransposedMatmul(True, False)
    assert out.shape == (3,)
    (out,), _ = fused(x @ v("b", 5, 4).T + v("c", 5))
    assert out.op == FusedProduct(TransposedMatmul(False, True), Epilogue(bias=True))
    (out,), _ = fused(x @ v("y", 4) + v("z"))
    assert out.op == FusedProduct(Matmul(), Epilogue(residual=True))


def test_a_transpose_that_others_read_stays() -> None:
    a = v("a", 4, 3)
    (out, t), _ = fused(a.T @ v("b", 4, 5), a.T)
    assert out.op == TransposedMatmul(True, False)
    assert t is a.T.node


# ----------------------------------------------------------------------- epilogues


def test_a_dense_layer_is_one_node() -> None:
    x, w, b = v("x", 8, 4), v("w", 4, 3), v("b", 3)
    for name in ("relu", "sigmoid", "tanh", "softplus"):
        (out,), names = fused(getattr(tnp, name)(x @ w + b))
        assert out.op == FusedProduct(Matmul(), Epilogue(True, False, Activation(name)))
        assert out.inputs == (x.node, w.node, b.node)
        assert names == ["product_bias", "product_activation"]
        assert len(out.sources) == 3


def test_bias_residual_and_activation() -> None:
    x, w, b, r = v("x", 8, 4), v("w", 4, 3), v("b", 1, 3), v("r", 8, 3)
    (out,), names = fused(tnp.relu(r + (b + x.T.T @ w)))
    assert out.op == FusedProduct(Matmul(), Epilogue(True, True, Activation.RELU))
    assert out.inputs == (x.node, w.node, b.node, r.node)
    assert names == ["matmul_transpose", "product_bias", "product_residual", "product_activation"]
    assert out.op.may_overwrite(*[(i.shape, i.dtype) for i in out.inputs]) == {3}
    cost = out.cost()
    assert cost == (8 * 3 * (2 * 4 + 3), 4 * (32 + 12 + 3 + 24), 4 * 24)


def test_what_is_not_taken_in() -> None:
    x, w, b = v("x", 8, 4), v("w", 4, 3), v("b", 3)
    p = x @ w
    wide = v("wide", 2, 8, 3)
    for y in (
        p + p,  # the product is read twice
        p + wide,  # the sum is larger than the product
        p + v("column", 8, 1),
        p + v("number"),
        p + v("double", 3, dtype="float64"),
        tnp.relu(p) * p,
        tnp.exp(p),
        p - b,
    ):
        (out,), names = fused(y)
        assert out is y.node
        assert not names


def test_an_output_is_not_taken_in() -> None:
    x, w, b = v("x", 8, 4), v("w", 4, 3), v("b", 3)
    p = x @ w
    y = p + b
    outputs, names = fused(p, tnp.relu(y))
    assert outputs[0] is p.node
    assert "fused_matmul" not in inner(outputs[1])
    assert not names
    (first, second), _ = fused(y, tnp.relu(y))
    assert first.op == FusedProduct(Matmul(), Epilogue(bias=True))
    assert second.inputs == (first,)


def test_one_bias_and_one_residual_in_that_order() -> None:
    x, w, b, r = v("x", 8, 4), v("w", 4, 3), v("b", 3), v("r", 8, 3)
    (out,), _ = fused(x @ w + b + v("c", 3))
    assert out.name == "add"
    (out,), _ = fused(x @ w + r + b)  # another order of rounding
    assert out.name == "add"
    assert out.inputs[0].op == FusedProduct(Matmul(), Epilogue(residual=True))
    (out,), _ = fused(tnp.relu(x @ w) + r)
    assert out.name == "add"


def test_two_products_the_later_takes_the_other() -> None:
    x, w, y, u = v("x", 8, 4), v("w", 4, 3), v("y", 8, 4), v("u", 4, 3)
    first, second = x @ w, y @ u
    (out,), _ = fused(first + second)
    assert out.inputs == (y.node, u.node, first.node)
    (out,), _ = fused(second + first)
    assert out.inputs == (x.node, w.node, second.node)


@pytest.mark.parametrize(
    ("product", "addend", "name"),
    [
        (lambda: v("x", 4, 3) @ v("w", 3, 6), lambda: v("y", 4, 2, 6)[:, 1], "fused_matmul"),
        (lambda: v("x", 4, 3) @ v("w", 3, 6), lambda: v("y", 6, 4).T, "add"),
        (lambda: v("x", 4, 3) @ v("w", 3, 1), lambda: v("y", 1, 4).T, "fused_matmul"),
        (
            lambda: tnp.conv2d(v("x", 1, 5, 5, 3), v("w", 3, 3, 3, 2)),
            lambda: v("y", 1, 2, 3, 3).transpose(0, 2, 3, 1),
            "add",
        ),
        (
            lambda: tnp.conv2d(v("x", 1, 5, 5, 3), v("w", 3, 3, 3, 2)),
            lambda: v("y", 1, 3, 3, 4)[..., 2:],
            "fused_convolution",
        ),
    ],
)
def test_an_addend_is_a_residual_where_its_last_axis_has_neighbours(product, addend, name) -> None:
    (out,), _ = fused(product() + addend())
    assert out.name == name


def test_a_product_does_not_wait_where_that_costs_memory() -> None:
    x = v("x", 8, 640)
    h = tnp.exp(x)  # large, and read by the product alone
    p = h @ v("w", 640, 4)
    late = tnp.sort(tnp.sort(v("y", 8, 640)) @ v("u", 640, 4))
    (out,), names = fused(p + late)
    assert out.name == "add"
    assert not names
    small = tnp.exp(v("z", 8, 2)) @ v("w2", 2, 4)  # what it reads is smaller than what it makes
    (out,), names = fused(small + late)
    assert out.op == FusedProduct(Matmul(), Epilogue(residual=True))


def test_rules_can_be_switched_off() -> None:
    x, w, b = v("x", 4, 8), v("w", 4, 3), v("b", 3)
    y = tnp.relu(x.T @ w + b)
    flow, ledger = apply(fuse_products, outputs=[y], off=["product_bias"])
    assert ledger.names == ["matmul_transpose"]
    assert inner(flow.outputs[0]) == {"transposed_matmul", "add", "relu"}
    flow, _ = apply(fuse_products, outputs=[y], off=["matmul_transpose"])
    assert inner(flow.outputs[0]) == {"fused_matmul", "transpose"}


def test_convolutions() -> None:
    x, w, b = v("x", 2, 9, 9, 4), v("w", 3, 3, 2, 6), v("b", 6)
    y = tnp.conv2d(x, w, strides=2, groups=2, padding="SAME")
    (out,), _ = fused(tnp.relu(y + b + v("r", *y.shape)))
    assert isinstance(out.op, FusedProduct)
    assert out.op.epilogue == Epilogue(True, True, Activation.RELU)
    assert isinstance(out.op.product, Convolution)
    assert out.op.product.strides == (2, 2)
    assert out.op.product.groups == 2
    types = [(i.shape, i.dtype) for i in out.inputs]
    assert out.op.may_overwrite(*types) == {3}
    assert out.cost().operations == 2 * 5 * 5 * 6 * (2 * 18 + 3)
    (out,), _ = fused(tnp.tanh(tnp.conv1d(v("x", 2, 9, 4), v("w", 3, 4, 6), padding="SAME") + b))
    assert isinstance(out.op, FusedProduct)


def test_operands_are_checked() -> None:
    x, w = v("x", 8, 4).node, v("w", 4, 3).node
    both = FusedProduct(Matmul(), Epilogue(bias=True, residual=True))
    with pytest.raises(TypeError, match="3 operands came; accepted: 4"):
        make(both, (x, w, v("b", 3).node))
    with pytest.raises(ValueError, match=r"operand 2 has shape \(4,\); it must be \(3,\)"):
        make(both, (x, w, v("b", 4).node, v("r", 8, 3).node))
    with pytest.raises(ValueError, match=r"operand 3 has shape \(3,\); it must be \(8, 3\)"):
        make(both, (x, w, v("b", 3).node, v("r", 3).node))
    with pytest.raises(TypeError, match="operand 2 has dtype float64; the product has float32"):
        make(both, (x, w, v("b", 3, dtype="float64").node, v("r", 8, 3).node))
    with pytest.raises(ValueError, match="to be transposed it must have two axes"):
        make(TransposedMatmul(True, False), (v("x", 4).node, w))
    with pytest.raises(ValueError, match="matmul: operand 1"):
        make(TransposedMatmul(True, False), (x, w))


# ------------------------------------------------------------- batch normalisation


def normalised(y: Array, channels: int) -> Array:
    mean, beta, gamma = (constant(channels, seed=s) for s in (1, 2, 3))
    variance = constant(channels, seed=4, low=0.1)
    return (y - mean) / tnp.sqrt(variance + 1e-3) * gamma + beta


NORMALISED = {
    "the whole expression": lambda y, c: normalised(y, c),
    "scale and shift": lambda y, c: y * constant(c, seed=1) + constant(c, seed=2),
    "scale alone": lambda y, c: constant(1, c, seed=1) * y,
    "a number": lambda y, c: 2.0 - y / 3.0,
    "negative": lambda y, c: -y + constant(c, seed=2),
    "fma": lambda y, c: wrap_fma(constant(c, seed=1), y, constant(c, seed=2)),
    "twice": lambda y, c: normalised(normalised(y, c), c),
    "after a bias": lambda y, c: normalised(y + constant(c, seed=9), c),
}


def wrap_fma(*operands: Array) -> Array:
    return emit(ELEMENTWISE["fma"], *operands)


@pytest.mark.parametrize("kind", ["conv", "grouped", "matmul", "transposed"])
@pytest.mark.parametrize("case", NORMALISED)
def test_batch_normalisation_goes_into_weights(case: str, kind: str) -> None:
    x = v("x", 2, 9, 9, 4)
    if kind == "conv":
        product = tnp.conv2d(x, constant(3, 3, 4, 6), padding="SAME")
    elif kind == "grouped":
        product = tnp.conv2d(x, constant(3, 3, 2, 6), groups=2, padding="SAME")
    elif kind == "matmul":
        product = x @ constant(4, 6)
    else:
        flow, _ = apply(fuse_products, outputs=[x @ constant(6, 4).T])
        product = wrap(flow.outputs[0])
    y = tnp.relu(NORMALISED[case](product, 6))
    flow, ledger = apply(fold_batch_norm, fuse_products, outputs=[y])
    (out,) = flow.outputs
    assert len([n for n in toposort([out]) if n.inputs]) == 1
    assert isinstance(out.op, FusedProduct)
    assert out.op.epilogue.activation is Activation.RELU
    assert ledger.names == ["batch_norm", "product_activation"]
    np.testing.assert_allclose(values([out])[0], values([y.node])[0], rtol=1e-4, atol=1e-5)
    assert again(flow, fold_batch_norm, fuse_products)[0].outputs == flow.outputs


@pytest.mark.parametrize("kind", ["conv", "matmul", "transposed"])
@pytest.mark.parametrize("case", NORMALISED)
def test_large_weights_are_not_copied_by_batch_normalisation(case: str, kind: str) -> None:
    x = v("x", 2, 9, 9, 16)
    if kind == "conv":
        product = tnp.conv2d(x, constant(3, 3, 16, 40), padding="SAME")
    elif kind == "matmul":
        product = x @ constant(16, 80)
    else:
        flow, _ = apply(fuse_products, outputs=[x @ constant(80, 16).T])
        product = wrap(flow.outputs[0])
    y = NORMALISED[case](product, product.shape[-1])
    flow, ledger = apply(fold_batch_norm, fuse_products, outputs=[tnp.relu(y + product.shape[-1])])
    (out,) = flow.outputs
    (step,) = [n for n in toposort([out]) if n.inputs]
    assert isinstance(step.op, FusedProduct)
    assert step.op.epilogue == Epilogue(True, False, Activation.RELU, scaled=True)
    weights = product.node.inputs[1]
    assert nbytes(weights) > batch_norm.SMALL
    assert step.inputs[1] is weights, "the very constant, no copy"
    assert step.inputs[2].shape == (2, product.shape[-1])
    assert ledger.names == ["batch_norm", "product_activation"]
    wanted = values([tnp.relu(y + product.shape[-1]).node])[0]
    np.testing.assert_allclose(values([out])[0], wanted, rtol=1e-4, atol=1e-4)
    assert again(flow, fold_batch_norm, fuse_products)[0].outputs == flow.outputs


def test_a_scaled_product_can_be_normalised_again() -> None:
    x, w = v("x", 1, 6, 6, 16), constant(3, 3, 16, 40)
    once, _ = apply(fold_batch_norm, outputs=[normalised(tnp.conv2d(x, w, padding="SAME"), 40)])
    y = wrap(once.outputs[0])
    (twice,) = apply(fold_batch_norm, outputs=[normalised(y, 40)])[0].outputs
    assert isinstance(twice.op, FusedProduct)
    assert twice.op.epilogue == Epilogue(True, scaled=True)
    wanted = values([normalised(normalised(tnp.conv2d(x, w, padding="SAME"), 40), 40).node])[0]
    np.testing.assert_allclose(values([twice])[0], wanted, rtol=1e-4, atol=1e-4)


def test_a_scale_that_is_not_finite_is_left_alone() -> None:
    y = tnp.conv2d(v("x", 1, 6, 6, 16), constant(3, 3, 16, 40), padding="SAME")
    for other in (tnp.zeros(40, dtype="float32"), constant(40) * float("nan")):
        flow, ledger = apply(fold_batch_norm, outputs=[y / other])
        assert flow.outputs == ((y / other).node,)
        assert not ledger.entries


def test_operands_of_a_scale_are_checked() -> None:
    x, w = v("x", 8, 4).node, v("w", 4, 3).node
    scaled = FusedProduct(Matmul(), Epilogue(True, scaled=True))
    assert make(scaled, (x, w, v("b", 2, 3).node)).shape == (8, 3)
    for shape in ((3,), (1, 3), (3, 2), (2, 4)):
        with pytest.raises(ValueError, match=r"operand 2 has shape .*; it must be \(2, 3\)"):
            make(scaled, (x, w, v("b", *shape).node))
    with pytest.raises(ValueError, match="a scale needs a bias"):
        make(FusedProduct(Matmul(), Epilogue(scaled=True)), (x, w))


def test_batch_normalisation_is_left_alone() -> None:
    x, w = v("x", 2, 9, 9, 4), constant(3, 3, 4, 6)
    y = tnp.conv2d(x, w, padding="SAME")
    scale = constant(6, seed=1)
    cases = [
        (tnp.conv2d(x, v("w", 3, 3, 4, 6), padding="SAME") * scale,),  # weights that are trained
        (y * v("s", 6),),  # statistics that are given
        (y * constant(9, 1, seed=1),),  # not one number a channel
        (y * scale, y),  # the product is an output
        (y * scale + y,),  # or read twice
        (scale / y,),
        (y + scale,),  # only a bias: exact as it is
        (y * tnp.astype(scale, "float64"),),
        (y / tnp.zeros(6, dtype="float32"),),  # the weights would be infinite
        (tnp.relu(y) * scale,),
    ]
    for outputs in cases:
        flow, ledger = apply(fold_batch_norm, outputs=outputs)
        assert flow.outputs == tuple(o.node for o in outputs)
        assert not ledger.entries
    flow, _ = apply(fold_batch_norm, outputs=[y * scale], off=["batch_norm"])
    assert flow.outputs == ((y * scale).node,)


def test_a_residual_block() -> None:
    """Two convolutions with batch normalisation, a shortcut: as many nodes as convolutions."""
    x = v("x", 1, 8, 8, 4)
    h = tnp.relu(normalised(tnp.conv2d(x, constant(3, 3, 4, 4), padding="SAME"), 4))
    y = normalised(tnp.conv2d(h, constant(3, 3, 4, 4, seed=5), padding="SAME"), 4)
    out = tnp.relu(y + x)
    flow, _ = apply(fold_batch_norm, fuse_products, group_elementwise, outputs=[out])
    made = [n for n in toposort(flow.outputs) if n.inputs]
    assert [n.name for n in made] == ["fused_convolution", "fused_convolution"]
    op = made[1].op
    assert isinstance(op, FusedProduct)
    assert op.epilogue == Epilogue(True, True, Activation.RELU)
    np.testing.assert_allclose(values(flow.outputs)[0], values([out.node])[0], rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------- random graphs


@pytest.mark.parametrize("seed", range(100))
def test_random_graphs_keep_their_bits(seed: int) -> None:
    passes = (fuse_products, group_elementwise)
    outputs = [a.node for a in random_graph(seed, 60)]
    flow, _ = again(Flow(tuple(outputs)), *passes)
    assert_same_bits(outputs, flow.outputs)
    assert again(flow, *passes)[0].outputs == flow.outputs
    graph = graph_of(seed, 40)
    flow, _ = again(Flow(graph.outputs), *passes)
    same_bits(run(flow.outputs, graph.feeds), run(graph.outputs, graph.feeds))
    assert again(flow, *passes)[0].outputs == flow.outputs


def test_plain_ops_stay_plain() -> None:
    y = v("x", 8, 4) @ v("w", 4, 3)
    assert type(fused(y)[0][0].op) is Matmul
    z = tnp.conv2d(v("x", 1, 8, 8, 4), v("w", 3, 3, 4, 4), padding="SAME")
    assert type(fused(z)[0][0].op) is Convolution
    assert z.dtype == FLOAT32
