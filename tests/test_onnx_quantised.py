"""Quantised operators, beside ONNX Runtime: integers are equal."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import tawny as tw  # noqa: E402
from onnx_beside import MICROSOFT, both, bytes_of, normal, rng, run_both  # noqa: E402


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("terms", [4, 64])
def test_convolutions_of_bytes_are_exact(terms: int, groups: int) -> None:
    x, kernel = bytes_of(2, terms, 14, 14), bytes_of(8, terms // groups, 3, 3)
    zeros = [np.array(131, "uint8"), np.array(117, "uint8")]
    ours, theirs = both("ConvInteger", [x, kernel, *zeros], pads=[1, 1, 1, 1], group=groups)
    np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize("terms", [16, 255, 1000])
def test_products_of_bytes_are_exact(terms: int) -> None:
    x, y = bytes_of(5, terms), bytes_of(terms, 7, dtype="int8")
    zeros = [np.array(200, "uint8"), np.array(-3, "int8")]
    ours, theirs = both("MatMulInteger", [x, y, *zeros])
    np.testing.assert_array_equal(ours[0], theirs[0])
    scales = [np.array(s, "float32") for s in (0.011, 0.007, 0.9)]
    a, b, c = scales
    operands = [x, a, zeros[0], y, b, zeros[1], c, np.array(120, "uint8")]
    ours, theirs = both("QLinearMatMul", operands)
    np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize("per_channel", [False, True])
def test_quantised_convolutions_are_equal(per_channel: bool) -> None:
    x, kernel = bytes_of(1, 16, 10, 10), bytes_of(8, 16, 3, 3, dtype="int8")
    shape = (8,) if per_channel else ()
    k_scale = np.asarray(rng.uniform(0.001, 0.01, shape), "float32")
    k_zero = np.zeros(shape, "int8")
    bias = rng.integers(-5000, 5000, 8).astype("int32")
    operands = [x, np.array(0.02, "float32"), np.array(128, "uint8"), kernel, k_scale, k_zero]
    operands += [np.array(0.25, "float32"), np.array(119, "uint8"), bias]
    ours, theirs = both("QLinearConv", operands, strides=[2, 2], pads=[1, 1, 1, 1])
    np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_quantisation_is_equal(dtype: str) -> None:
    x, scale = normal(4, 300) * 40, np.asarray(rng.uniform(0.1, 1, 4), "float32")
    zero = bytes_of(4, dtype=dtype)
    ours, theirs = both("QuantizeLinear", [x, scale, zero], axis=0)
    np.testing.assert_array_equal(ours[0], theirs[0])
    ours, theirs = both("DequantizeLinear", [theirs[0], scale, zero], axis=0)
    np.testing.assert_array_equal(ours[0], theirs[0])


def test_dynamic_quantisation_is_equal() -> None:
    for x in (normal(5, 60), abs(normal(5, 60)), np.zeros((3, 3), "float32")):
        ours, theirs = both("DynamicQuantizeLinear", [x], outputs=3)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


A = bytes_of(3, 8, 6, 6), np.array(0.02, "float32"), np.array(120, "uint8")
B = bytes_of(3, 8, 6, 6), np.array(0.05, "float32"), np.array(70, "uint8")
END = np.array(0.11371, "float32"), np.array(31, "uint8")

LAYERS = {
    "QLinearAdd": ([*A, *B, *END], {}),
    "QLinearMul": ([*A, *B, *END], {}),
    "QLinearSigmoid": ([*A, np.array(1 / 256, "float32"), np.array(0, "uint8")], {}),
    "QLinearLeakyRelu": ([*A, *END], {"alpha": 0.2}),
    "QLinearGlobalAveragePool": ([*A, *END], {}),
    "QLinearAveragePool": (
        [*A, *END],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 0]},
    ),
    "QLinearConcat": ([*END, *A, *B], {"axis": 1}),
    "QLinearWhere": ([A[0] > 100, *A, *B, *END], {}),
}


@pytest.mark.parametrize("op", LAYERS)
def test_quantised_layers_are_equal(op: str) -> None:
    operands, attributes = LAYERS[op]
    known = tuple(i for i, x in enumerate(operands) if not x.ndim)
    ours, theirs = both(op, operands, MICROSOFT, known=known, **attributes)
    np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("quantised", [False, True])
def test_quantised_products_with_a_bias(bias: bool, quantised: bool) -> None:
    a, b = bytes_of(5, 40), bytes_of(40, 7, dtype="int8")
    scale = rng.uniform(0.001, 0.01, 7).astype("float32")
    operands = [a, A[1], A[2], b, scale, np.zeros(7, "int8")]
    operands += [rng.integers(-4000, 4000, 7).astype("int32") if bias else None]
    operands += [*END] if quantised else []
    ours, theirs = both("QGemm", operands, MICROSOFT)
    if quantised:
        np.testing.assert_array_equal(ours[0], theirs[0])
    else:
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)


@pytest.mark.parametrize("rows", [1, 5])
def test_products_that_quantise_first(rows: int) -> None:
    b, scale, zero = bytes_of(40, 7, dtype="int8"), np.array(0.01, "float32"), np.array(3, "int8")
    operands = [normal(rows, 40), b, scale, zero, normal(7)]
    ours, theirs = both("DynamicQuantizeMatMul", operands, MICROSOFT)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-5)
    a = bytes_of(rows, 40)
    operands = [a, b, A[1], scale, A[2], zero, normal(7)]
    ours, theirs = both("MatMulIntegerToFloat", operands, MICROSOFT)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("steps", [4, 40])
def test_recurrent_layers_that_quantise_first(direction: str, steps: int) -> None:
    count = 2 if direction == "bidirectional" else 1
    w, r = (bytes_of(count, n, 24, dtype="int8") for n in (5, 6))
    operands = [normal(steps, 1, 5), w, r, normal(count, 48), None, None, None, None]
    for _ in range(2):
        operands += [np.full(count, 0.005, "float32"), np.zeros(count, "int8")]
    ours, theirs = both(
        "DynamicQuantizeLSTM",
        operands,
        MICROSOFT,
        3,
        known=(1, 2, *range(8, 12)),
        hidden_size=6,
        direction=direction,
    )
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_quantised_attention() -> None:
    x, weights = bytes_of(2, 5, 8), bytes_of(8, 24, dtype="int8")
    operands = [x, weights, normal(24), A[1], np.array(0.01, "float32"), None, A[2]]
    operands += [np.array(0, "int8")]
    known = (1, 3, 4, 6, 7)
    ours, theirs = both("QAttention", operands, MICROSOFT, num_heads=2, known=known)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-5)


QDQ = """<ir_version: 8, opset_import: ["": 18]>
quantised (float[{x}] x) => (y, z)
<float xs = {{0.02}}, uint8 xz = {{131}}, float ys = {{0.31}}, uint8 yz = {{97}}>
{{
    q = QuantizeLinear(x, xs, xz)
    d = DequantizeLinear(q, xs, xz)
    w = DequantizeLinear<axis = {axis}>(kernel, scales, zeros)
    b = DequantizeLinear<axis = 0>(bias, bias_scales)
    p = {op}(d, w, b)
    r = Relu(p)
    y = QuantizeLinear(r, ys, yz)
    z = DequantizeLinear(y, ys, yz)
}}"""

PRODUCTS = {
    "convolution": ("Conv<pads = [1, 1, 1, 1], strides = [2, 2]>", (1, 8, 9, 9), (6, 8, 3, 3), 0),
    "apart": ("Conv<pads = [1, 1, 1, 1], group = 8>", (1, 8, 9, 9), (8, 1, 3, 3), 0),
    "matrices": ("Gemm<transB = 1>", (5, 40), (7, 40), 0),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_between_quantisers_are_of_integers(name: str) -> None:
    op, shape, kernel, axis = PRODUCTS[name]
    text = QDQ.format(op=op, x=", ".join(map(str, shape)), axis=axis)
    model = onnx.parser.parse_model(text)
    scales = rng.uniform(0.001, 0.01, kernel[0]).astype("float32")
    for title, value in {
        "kernel": bytes_of(*kernel, dtype="int8"),
        "scales": scales,
        "zeros": np.zeros(kernel[0], "int8"),
        "bias": rng.integers(-4000, 4000, kernel[0]).astype("int32"),
        "bias_scales": scales * np.float32(0.02),
    }.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, title))
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=shape).astype("float32")
        ours, theirs = run_both(model, {"x": x}, ["y", "z"])
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])


def test_what_only_moves_keeps_its_integers() -> None:
    text = """<ir_version: 8, opset_import: ["": 18]>
    moved (float[2, 3, 4] x) => (y)
    <float s = {0.02}, uint8 z = {131}, int64[2] shape = {4, 6}>
    { q = QuantizeLinear(x, s, z)
      d = DequantizeLinear(q, s, z)
      t = Transpose<perm = [2, 0, 1]>(d)
      r = Reshape(t, shape)
      y = QuantizeLinear(r, s, z) }"""
    graph = tw.onnx.load(onnx.parser.parse_model(text).SerializeToString())
    assert isinstance(graph, tw.Graph)
    names = [n.op.facts().name for n in graph.order if n.value is None]
    assert names.count("rint") == 1
