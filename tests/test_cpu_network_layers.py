"""Convolutions of published networks, and their gradients: compiled kernels against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import tawny as tw
from tawny.array import array_for
from tawny.engine.cpu import unavailable
from tawny.engine.reference.kernel import KERNELS
from tawny.node import make
from tawny.op import Op
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
)
from tawny.ops.fused_products import Activation, Epilogue, FusedProduct

pytestmark = pytest.mark.skipif(unavailable() is not None, reason="needs compiled code")

NETWORKS = {
    "ResNet50": """
        3 64 7 7 2 224 | 64 64 1 1 1 56 | 64 64 3 3 1 56 | 64 256 1 1 1 56 | 256 64 1 1 1 56
        256 128 1 1 1 56 | 128 128 3 3 2 56 | 256 512 1 1 2 56 | 128 512 1 1 1 28
        512 128 1 1 1 28 | 128 128 3 3 1 28 | 512 256 1 1 1 28 | 256 256 3 3 2 28
        512 1024 1 1 2 28 | 256 1024 1 1 1 14 | 1024 256 1 1 1 14 | 256 256 3 3 1 14
        1024 512 1 1 1 14 | 512 512 3 3 2 14 | 1024 2048 1 1 2 14 | 512 2048 1 1 1 7
        2048 512 1 1 1 7 | 512 512 3 3 1 7
    """,
    "InceptionV3": """
        3 32 3 3 2 149 | 32 32 3 3 1 73 | 64 80 1 1 1 36 | 80 192 3 3 1 36 | 192 48 1 1 1 35
        48 64 5 5 1 35 | 64 96 3 3 1 35 | 288 384 3 3 2 35 | 768 192 1 1 1 17
        128 128 1 7 1 17 | 128 192 7 1 1 17 | 160 160 7 1 1 17 | 160 192 1 7 1 17
        192 320 3 3 2 17 | 1280 448 1 1 1 8 | 384 384 1 3 1 8 | 384 384 3 1 1 8
        448 384 3 3 1 8 | 2048 320 1 1 1 8
    """,
    "MNIST": "1 32 5 5 1 28",
}
"""Channels, outputs, window, stride, side of the image."""


def layers(name: str) -> list[tuple[int, ...]]:
    rows = NETWORKS[name].replace("\n", "|").split("|")
    return [tuple(map(int, row.split())) for row in rows if row.strip()]


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def judge(op: Op, *arrays: np.ndarray) -> None:
    """Compare sums of products with NumPy's; one too many, or too few, is far more than allowed."""
    variables = [tw.var(f"x{n}", shape=a.shape, dtype=a.dtype) for n, a in enumerate(arrays)]
    result = array_for(make(op, tuple(v.node for v in variables)))
    program = tw.Graph(variables, result).compile(engine="cpu")
    assert "by NumPy" not in str(program.plan)
    witness = KERNELS[type(op)]
    error = np.abs(program(*arrays).astype(np.float64) - witness(op, *arrays))
    magnitude = witness(op, *map(np.abs, arrays))
    assert error.max() <= 2e-6 * magnitude.max() + 1e-30, op


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_forwards(name: str) -> None:
    for channels, outputs, high, wide, stride, side in layers(name):
        kernel = drawn(high, wide, channels, outputs) / np.float32(high * wide * channels) ** 0.5
        pads = ((high // 2, high // 2), (wide // 2, wide // 2))
        geometry = (stride, stride), pads, (1, 1), 1
        fused = FusedProduct(Convolution(*geometry), Epilogue(True, False, Activation.RELU))
        judge(fused, drawn(1, side, side, channels), kernel, drawn(outputs))


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_backwards(name: str) -> None:
    for channels, outputs, high, wide, stride, side in layers(name)[::2]:
        x, kernel = drawn(1, side, side, channels), drawn(high, wide, channels, outputs)
        pads = ((high // 2, high // 2), (wide // 2, wide // 2))
        geometry = (stride, stride), pads, (1, 1), 1
        slope = drawn(*Convolution(*geometry).infer_shape(x.shape, kernel.shape))
        judge(ConvolutionInputGradient(*geometry, (side, side)), kernel, slope)
        judge(ConvolutionKernelGradient(*geometry, (high, wide)), x, slope)
