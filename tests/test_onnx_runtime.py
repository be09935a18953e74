"""ONNX Runtime's own operators of floating-point numbers, beside ONNX Runtime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_beside import MICROSOFT, alone, both, normal, rng

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
    "FusedConv": (
        [normal(1, 3, 6, 6), normal(4, 3, 3, 3), normal(4), normal(1, 4, 6, 6)],
        {"pads": [1, 1, 1, 1], "activation": "LeakyRelu", "activation_params": [0.2]},
        1,
    ),
    "EmbedLayerNormalization": (
        [
            rng.integers(0, 9, (2, 5)).astype("int32"),
            rng.integers(0, 2, (2, 5)).astype("int32"),
            normal(9, 8),
            normal(6, 8),
            normal(2, 8),
            normal(8),
            normal(8),
            np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "int32"),
        ],
        {"epsilon": 1e-5},
        2,
    ),
    "RotaryEmbedding": (
        [normal(2, 3, 5, 8), np.array([3], "int64"), normal(20, 4), normal(20, 4)],
        {"interleaved": 1},
        1,
    ),
    "MatMulNBits": (
        [
            normal(3, 40),
            rng.integers(0, 255, (6, 2, 16)).astype("uint8"),
            normal(6, 2),
            rng.integers(0, 255, (6, 1)).astype("uint8"),
        ],
        {"K": 40, "N": 6, "bits": 4, "block_size": 32},
        1,
    ),
}
KNOWN = {"MatMulNBits": (1, 2, 3)}
"""Operands that are constants."""

KEYS = normal(2, 5, 8)
ATTENTIONS: dict[str, tuple[str, list[Any], dict[str, Any], int]] = {
    "one input": ("Attention", [normal(2, 5, 8), normal(8, 24), normal(24)], {}, 1),
    "causal, with a past": (
        "Attention",
        [normal(2, 3, 8), normal(8, 24), normal(24), None, normal(2, 2, 2, 4, 4)],
        {"unidirectional": 1},
        2,
    ),
    "lengths": (
        "Attention",
        [normal(2, 5, 8), normal(8, 24), normal(24), np.array([3, 5], "int32")],
        {},
        1,
    ),
    "a mask of places": (
        "Attention",
        [normal(1, 4, 8), normal(8, 24), normal(24), np.array([[1, 1, 1, 0]], "int32")],
        {},
        1,
    ),
    "several heads": ("MultiHeadAttention", [KEYS, normal(2, 6, 8), normal(2, 6, 8)], {}, 1),
    "several heads with biases": (
        "MultiHeadAttention",
        [KEYS, normal(2, 6, 8), normal(2, 6, 8), normal(24), None, normal(2, 2, 5, 6)],
        {"scale": 0.3},
        1,
    ),
    "several heads with a past": (
        "MultiHeadAttention",
        [
            KEYS,
            normal(2, 5, 8),
            normal(2, 5, 8),
            None,
            None,
            None,
            normal(2, 2, 3, 4),
            normal(2, 2, 3, 4),
        ],
        {},
        3,
    ),
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention(name: str) -> None:
    op, operands, attributes, outputs = ATTENTIONS[name]
    ours, theirs = both(op, operands, MICROSOFT, outputs, num_heads=2, **attributes)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("interleaved", [0, 1])
def test_heads_that_share_keys(packed: bool, interleaved: int) -> None:
    q, k, v = normal(2, 1, 64), normal(2, 1, 32), normal(2, 1, 32)
    parts = [np.concatenate([q, k, v], -1), None, None] if packed else [q, k, v]
    operands = [*parts, normal(2, 2, 6, 16), normal(2, 2, 6, 16)]
    operands += [np.array([3, 6], "int32"), np.array(7, "int32"), normal(9, 8), normal(9, 8)]
    ours, theirs = both(
        "GroupQueryAttention",
        operands,
        MICROSOFT,
        3,
        known=(6,),
        num_heads=4,
        kv_num_heads=2,
        do_rotary=1,
        rotary_interleaved=interleaved,
    )
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-5)
    for a, b in zip(ours[1:], theirs[1:], strict=True):  # what is behind the ends is not said
        np.testing.assert_allclose(a[0, :, :4], b[0, :, :4], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(a[1], b[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", ["Relu", "Tanh", "Sigmoid", "Clip", "HardSigmoid"])
def test_functions_of_fused_convolutions(activation: str) -> None:
    operands = [normal(1, 2, 5, 5), normal(3, 2, 3, 3)]
    given = {"Clip": [-0.5, 0.7], "HardSigmoid": [0.3, 0.4]}.get(activation)
    more = {} if given is None else {"activation_params": given}
    ours, theirs = both("FusedConv", operands, MICROSOFT, activation=activation, **more)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", FUSED)
def test_fused_operators(op: str) -> None:
    operands, attributes, outputs = FUSED[op]
    ours, theirs = both(op, operands, MICROSOFT, outputs, known=KNOWN.get(op, ()), **attributes)
    for a, b in zip(ours, theirs, strict=True):
        tolerance = 2e-4 if "FastGelu" in op else 1e-5
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance / 10)


def gaussian(x: Any) -> Any:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def test_operators_that_its_processors_lack() -> None:
    x, y, bias = normal(2, 3, 4), normal(2, 3, 4), normal(4)
    made = alone("BiasAdd", [x, bias, y], MICROSOFT)
    np.testing.assert_allclose(made, x + bias + y, rtol=1e-6)
    made = alone("BiasSplitGelu", [x, bias], MICROSOFT)
    both_halves = x + bias
    np.testing.assert_allclose(
        made, both_halves[..., :2] * gaussian(both_halves[..., 2:]), rtol=1e-5, atol=1e-6
    )
    w = normal(4, 5)
    made = alone("GemmFastGelu", [x, w], MICROSOFT)
    np.testing.assert_allclose(made, gaussian(x @ w), atol=1e-3)
    image, scale, shift = normal(2, 3, 3, 8), normal(8), normal(8)
    made = alone("GroupNorm", [image, scale, shift], MICROSOFT, groups=2, activation=1)
    split = image.reshape(2, 9, 2, 4)
    split = (split - split.mean((1, 3), keepdims=True)) / split.std((1, 3), keepdims=True)
    want = split.reshape(image.shape) * scale + shift
    np.testing.assert_allclose(made, want / (1 + np.exp(-want)), rtol=1e-4, atol=1e-4)
    q, one, zero = (
        rng.integers(0, 255, (2, 8)).astype("uint8"),
        np.array(1.0, "float32"),
        np.array(3, "uint8"),
    )
    made = alone("QLinearReduceMean", [q, one, zero, one, zero], MICROSOFT, axes=[1], keepdims=0)
    np.testing.assert_array_equal(made, np.rint((q.astype(int) - 3).mean(1)) + 3)
    made = alone(
        "QLinearSoftmax",
        [q, one, zero, np.array(1 / 256, "float32"), np.array(0, "uint8")],
        MICROSOFT,
    )
    shares = np.exp(q.astype(float) - q.max(1, keepdims=True))
    want = np.minimum(np.rint(shares / shares.sum(1, keepdims=True) * 256), 255)
    np.testing.assert_array_equal(made, want)
