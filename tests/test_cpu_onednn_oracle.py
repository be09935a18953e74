"""Our own kernels against oneDNN's: the layers of networks, and random geometry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onednn_harness import by_onednn, by_us, drawn, judge, needs_onednn
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
)
from tawny.ops.fusion import Activation, Epilogue, FusedConvolution, FusedMatmul
from tawny.ops.linalg import Matmul
from tawny.ops.pooling import AvgPool, AvgPoolGradient, MaxPool, MaxPoolGradient

pytestmark = needs_onednn

# ---------------------------------------------------------------------- layers

RESNET50 = """
    3 64 7 7 2 224 | 64 64 1 1 1 56 | 64 64 3 3 1 56 | 64 256 1 1 1 56 | 256 64 1 1 1 56
    256 128 1 1 1 56 | 128 128 3 3 2 56 | 256 512 1 1 2 56 | 128 512 1 1 1 28 | 512 128 1 1 1 28
    128 128 3 3 1 28 | 512 256 1 1 1 28 | 256 256 3 3 2 28 | 512 1024 1 1 2 28 | 256 1024 1 1 1 14
    1024 256 1 1 1 14 | 256 256 3 3 1 14 | 1024 512 1 1 1 14 | 512 512 3 3 2 14
    1024 2048 1 1 2 14 | 512 2048 1 1 1 7 | 2048 512 1 1 1 7 | 512 512 3 3 1 7
"""
INCEPTION_V3 = """
    3 32 3 3 2 149 | 32 32 3 3 1 73 | 64 80 1 1 1 36 | 80 192 3 3 1 36 | 192 48 1 1 1 35
    48 64 5 5 1 35 | 64 96 3 3 1 35 | 288 384 3 3 2 35 | 768 192 1 1 1 17 | 128 128 1 7 1 17
    128 192 7 1 1 17 | 160 160 7 1 1 17 | 160 192 1 7 1 17 | 192 320 3 3 2 17 | 1280 448 1 1 1 8
    384 384 1 3 1 8 | 384 384 3 1 1 8 | 448 384 3 3 1 8 | 2048 320 1 1 1 8
"""
MNIST = "1 32 5 5 1 28"


def layers(text: str) -> list[tuple[int, ...]]:
    """Channels, outputs, window, stride, side of the image."""
    rows = [row for line in text.strip().splitlines() for row in line.split("|")]
    return [tuple(map(int, row.split())) for row in rows]


@pytest.mark.parametrize("name", ["RESNET50", "INCEPTION_V3", "MNIST"])
def test_the_layers_of_networks_forwards(name):
    for channels, outputs, high, wide, stride, side in layers(globals()[name]):
        x = drawn(1, side, side, channels)
        kernel = drawn(high, wide, channels, outputs) / np.float32(high * wide * channels) ** 0.5
        bias = drawn(outputs)
        pads = ((high // 2, high // 2), (wide // 2, wide // 2))
        op = Convolution((stride, stride), pads, (1, 1), 1)
        fused = FusedConvolution(
            *(op.strides, op.padding, op.dilation, 1), Epilogue(True, False, Activation.RELU)
        )
        magnitude = by_onednn(op, np.abs(x), np.abs(kernel))
        judge(by_us(fused, x, kernel, bias), by_onednn(fused, x, kernel, bias), magnitude)
        judge(by_us(op, x, kernel), by_onednn(op, x, kernel, known=(1,)), magnitude)


@pytest.mark.parametrize("name", ["RESNET50", "INCEPTION_V3", "MNIST"])
def test_the_layers_of_networks_backwards(name):
    for channels, outputs, high, wide, stride, side in layers(globals()[name])[::2]:
        x, kernel = drawn(1, side, side, channels), drawn(high, wide, channels, outputs)
        pads = ((high // 2, high // 2), (wide // 2, wide // 2))
        geometry = (stride, stride), pads, (1, 1), 1
        places = (side + 2 * (high // 2) - high) // stride + 1
        columns = (side + 2 * (wide // 2) - wide) // stride + 1
        slope = drawn(1, places, columns, outputs)
        back = ConvolutionInputGradient(*geometry, (side, side))
        magnitude = by_onednn(back, np.abs(kernel), np.abs(slope))
        judge(by_us(back, kernel, slope), by_onednn(back, kernel, slope), magnitude)
        down = ConvolutionKernelGradient(*geometry, (high, wide))
        magnitude = by_onednn(down, np.abs(x), np.abs(slope))
        judge(by_us(down, x, slope), by_onednn(down, x, slope), magnitude)


# ------------------------------------------------------------ random geometry

few = settings(max_examples=25, deadline=None)


@st.composite
def geometries(draw):
    """Shapes of an input and a kernel, strides, padding, dilation, groups."""
    rank = draw(st.integers(1, 3))
    groups = draw(st.sampled_from((1, 1, 1, 2, 3, 8)))
    inner, outer = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    if groups == 8 and draw(st.booleans()):
        inner = outer = 1
    window, strides, padding, dilation, sizes = [], [], [], [], []
    for _ in range(rank):
        window.append(draw(st.integers(1, 4)))
        strides.append(draw(st.integers(1, 3)))
        dilation.append(draw(st.integers(1, 2)))
        span = (window[-1] - 1) * dilation[-1] + 1
        pads = draw(st.integers(0, span - 1)), draw(st.integers(0, span - 1))
        padding.append(pads)
        sizes.append(draw(st.integers(max(1, span - sum(pads)), span + 9 - 2 * rank)))
    x = (draw(st.integers(1, 3)), *sizes, inner * groups)
    kernel = (*window, inner, outer * groups)
    return x, kernel, tuple(strides), tuple(padding), tuple(dilation), groups


@few
@given(geometries(), st.booleans(), st.booleans(), st.sampled_from(Activation), st.booleans())
def test_random_convolutions(geometry, bias, residual, activation, known):
    x, kernel = drawn(*geometry[0]), drawn(*geometry[1])
    op = Convolution(*geometry[2:])
    magnitude = by_onednn(op, np.abs(x), np.abs(kernel))
    assume(magnitude is not None)  # it would multiply padding
    fused = FusedConvolution(*geometry[2:], Epilogue(bias, residual, activation))
    extra = [drawn(geometry[1][-1])] * bias + [drawn(*magnitude.shape, seed=1)] * residual
    theirs = by_onednn(fused, x, kernel, *extra, known=(1,) if known else ())
    judge(by_us(fused, x, kernel, *extra), theirs, magnitude + 8)


@few
@given(geometries())
def test_random_gradients_of_convolutions(geometry):
    x, kernel, *rest = geometry
    op = Convolution(*rest)
    slope = drawn(*op.infer_shape(x, kernel))
    for back, other in (
        (ConvolutionInputGradient(*rest, x[1:-1]), drawn(*kernel)),
        (ConvolutionKernelGradient(*rest, kernel[:-2]), drawn(*x)),
    ):
        pair = (other, slope)
        magnitude = by_onednn(back, *map(np.abs, pair))
        if magnitude is None:  # it would multiply padding
            assert isinstance(back, ConvolutionKernelGradient)
            continue
        judge(by_us(back, *pair), by_onednn(back, *pair), magnitude)


@st.composite
def products(draw):
    """Operands of a product: stacks that broadcast, of matrices that may be transposed."""
    stack = draw(st.lists(st.integers(1, 3), max_size=2))
    rows, depth, columns = (draw(st.integers(1, 40)) for _ in range(3))
    left = [n if draw(st.booleans()) else 1 for n in stack]
    right = stack[draw(st.integers(0, len(stack))) :]
    a, b = drawn(*left, rows, depth), drawn(*right, depth, columns)
    exchanged = draw(st.booleans()), draw(st.booleans())
    if draw(st.booleans()):
        a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    if draw(st.booleans()):
        b = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)
    a = a.swapaxes(-1, -2) if exchanged[0] else a
    b = b.swapaxes(-1, -2) if exchanged[1] else b
    return a, b, exchanged


@few
@given(products(), st.booleans(), st.booleans(), st.sampled_from(Activation), st.booleans())
def test_random_products(product, bias, residual, activation, known):
    a, b, exchanged = product
    plain = FusedMatmul(*exchanged, Epilogue())
    magnitude = by_onednn(plain, *map(np.abs, (a, b)))
    assert magnitude is not None
    op = FusedMatmul(*exchanged, Epilogue(bias, residual, activation))
    extra = [drawn(magnitude.shape[-1])] * bias + [drawn(*magnitude.shape, seed=1)] * residual
    theirs = by_onednn(op, a, b, *extra, known=(1,) if known else ())
    judge(by_us(op, a, b, *extra), theirs, magnitude + 8)


def test_products_of_many_shapes():
    for m, k, n in ((1, 2048, 1000), (100, 1024, 10), (16, 256, 1024), (100, 784, 300)):
        a, b = drawn(m, k), drawn(k, n)
        magnitude = np.abs(a) @ np.abs(b)
        judge(by_us(Matmul(), a, b), by_onednn(Matmul(), a, b), magnitude)


@st.composite
def poolings(draw):
    """Shape of an input, window, strides, padding."""
    rank = draw(st.integers(1, 3))
    window, strides, padding, sizes = [], [], [], []
    for _ in range(rank):
        window.append(draw(st.integers(1, 3)))
        strides.append(draw(st.integers(1, 3)))
        padding.append(tuple(draw(st.integers(0, window[-1] - 1)) for _ in range(2)))
        sizes.append(draw(st.integers(window[-1], window[-1] + 5)))
    shape = (draw(st.integers(1, 2)), *sizes, draw(st.sampled_from((1, 3, 8, 16, 19))))
    return shape, tuple(window), tuple(strides), tuple(padding)


@few
@given(poolings())
def test_random_poolings(pooling):
    shape, *geometry = pooling
    x, window = drawn(*shape), geometry[0]
    np.testing.assert_array_equal(by_us(MaxPool(*geometry), x), by_onednn(MaxPool(*geometry), x))
    pooled = by_us(AvgPool(*geometry), x)
    np.testing.assert_allclose(by_onednn(AvgPool(*geometry), x), pooled, rtol=1e-5, atol=1e-6)
    slope = drawn(*pooled.shape)
    back = AvgPoolGradient(*geometry, shape[1:-1])
    np.testing.assert_allclose(by_onednn(back, slope), by_us(back, slope), rtol=1e-5, atol=1e-5)
    most = MaxPoolGradient(*geometry)
    tied = np.round(x)
    for given_x in (x, tied):
        ours, theirs = by_us(most, given_x, slope), by_onednn(most, given_x, slope)
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-5, err_msg=str(window))
