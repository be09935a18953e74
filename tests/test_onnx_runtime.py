"""Operators that the standard has no cases for, and quantised ones, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

import tawny as tw  # noqa: E402

rng = np.random.default_rng(11)
MICROSOFT = "com.microsoft"


def both(
    op: str, operands: list[Any], domain: str = "", outputs: int = 1, **attributes: Any
) -> tuple[Any, Any]:
    """The results of one node, by Tawny and by ONNX Runtime."""
    helper = onnx.helper
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(operands)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, name="n", domain=domain, **attributes)
    given = {n: x for n, x in zip(names, operands, strict=True) if x is not None}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in given.items()
    ]
    made = [onnx.ValueInfoProto(name=n) for n in results]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(
        helper.make_graph([node], "g", inputs, made), opset_imports=opsets, ir_version=10
    )
    data = model.SerializeToString()
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    theirs = session.run(None, given)
    graph = tw.onnx.load(data)
    assert isinstance(graph, tw.Graph)
    ours = graph.compile(engine="cpu")(**given)
    return [ours[n] for n in results], theirs


def normal(*shape: int) -> Any:
    return rng.normal(size=shape).astype("float32")


def bytes_of(*shape: int, dtype: str = "uint8") -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


FUSED: dict[str, tuple[list[Any], dict[str, Any], int]] = {
    "Gelu": ([normal(3, 4)], {}, 1),
    "QuickGelu": ([normal(3, 4)], {}, 1),
    "BiasGelu": ([normal(3, 4), normal(4)], {}, 1),
    "FastGelu": ([normal(3, 4), normal(4)], {}, 1),
    "FusedMatMul": (
        [normal(2, 4, 3), normal(2, 5, 4)],
        {"transA": 1, "transB": 1, "alpha": 0.5},
        1,
    ),
    "FusedGemm": (
        [normal(3, 4), normal(5, 4), normal(5)],
        {"transB": 1, "alpha": 2.0, "activation": "Relu"},
        1,
    ),
    "SkipLayerNormalization": (
        [normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8), normal(8)],
        {},
        1,
    ),
    "SkipSimplifiedLayerNormalization": (
        [normal(2, 3, 8), normal(2, 3, 8), normal(8)],
        {"epsilon": 1e-5},
        1,
    ),
}


@pytest.mark.parametrize("op", FUSED)
def test_fused_operators(op: str) -> None:
    operands, attributes, outputs = FUSED[op]
    ours, theirs = both(op, operands, MICROSOFT, outputs, **attributes)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4 if op == "FastGelu" else 1e-5, atol=1e-5)


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
