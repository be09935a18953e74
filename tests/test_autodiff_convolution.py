"""Derivatives of convolutions, pooling and upsampling in one, two and three dimensions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from gradient_cases import Row
from gradient_rows import Function, both, check, drawn, joined, named, of_real, rows, unchecked
from tawny.node import toposort
from tawny.op import Op
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
)
from tawny.ops.pooling import MaxPoolGradient, MaxPoolSelect
from tawny.testing import check_grads

RANKS = (1, 2, 3)
SIZES = (5, 4, 3)
WINDOW = (3, 2, 2)


def uneven(rank: int) -> list[tuple[int, int]]:
    """Explicit padding, another on each side."""
    return [(1, 2), (2, 0), (0, 1)][:rank]


# -------------------------------------------------------------------- convolutions


def convolution(rank: int, strides: Any, dilation: int, groups: int, padding: Any) -> list[Row]:
    """A convolution and both of its transposes."""
    x = (2, *SIZES[:rank], 2)
    kernel = (*WINDOW[:rank], 2 // groups, 4)
    options: Any = {
        "strides": strides,
        "dilation": dilation,
        "groups": groups,
        "padding": uneven(rank) if padding == "uneven" else padding,
    }
    conv = named(f"conv{rank}d")
    y = conv(tw.var(shape=x), tw.var(shape=kernel), **options).shape
    says = f"{rank}D strides={strides} dilation={dilation} groups={groups} {padding}"
    make = both if rank == 2 else of_real
    return joined(
        make(f"conv{rank}d {says}", lambda x, k: conv(x, k, **options), x, kernel),
        make(
            f"conv_input_gradient {says}",
            lambda k, y: tnp.conv_input_gradient(k, y, input_shape=x, **options),
            kernel,
            y,
        ),
        make(
            f"conv_kernel_gradient {says}",
            lambda x, y: tnp.conv_kernel_gradient(x, y, kernel_shape=kernel, **options),
            x,
            y,
        ),
    )


def transposed(rank: int, strides: int, padding: Any) -> list[Row]:
    given = uneven(rank) if padding == "uneven" else padding
    conv = named(f"conv_transpose{rank}d")
    return of_real(
        f"conv_transpose{rank}d strides={strides} {padding}",
        lambda x, k: conv(x, k, strides=strides, padding=given),
        (2, *SIZES[:rank], 2),
        (*WINDOW[:rank], 2, 3),
    )


def depthwise(rank: int, strides: int, dilation: int, padding: str) -> list[Row]:
    conv = named(f"depthwise_conv{rank}d")
    return of_real(
        f"depthwise_conv{rank}d strides={strides} dilation={dilation} {padding}",
        lambda x, k: conv(x, k, strides=strides, dilation=dilation, padding=padding),
        (2, *SIZES[:rank], 3),
        (*(2,) * rank, 3, 2),
    )


PADDINGS = ("SAME", "VALID", "uneven")
CONVOLUTIONS = joined(
    *(
        convolution(rank, strides, dilation, groups, padding)
        for rank in RANKS
        for strides, dilation, groups, padding in itertools.product(
            (1, 2), (1, 2), (1, 2), PADDINGS
        )
        if rank < 3 or strides + dilation + groups != 5
    ),
    convolution(2, (2, 1), 1, 1, "SAME"),
    *(
        transposed(rank, strides, padding)
        for rank, strides, padding in itertools.product(RANKS, (1, 2, 3), PADDINGS)
    ),
    *(
        depthwise(rank, strides, dilation, padding)
        for rank, (strides, dilation), padding in itertools.product(
            RANKS, ((1, 1), (2, 1), (1, 2)), PADDINGS[:2]
        )
    ),
    of_real("conv1d of an empty batch", tnp.conv1d, (0, 5, 2), (3, 2, 4)),
    of_real(
        "conv1d of strides",
        lambda x, k: tnp.conv1d(x[:, ::2], k[::-1], padding="SAME"),
        (2, 9, 2),
        (3, 2, 4),
    ),
)


@rows(CONVOLUTIONS)
def test_convolutions(function: Function, args: tuple[Any, ...]) -> None:
    check(function, args)


def ops_of(slopes: list[tw.Array], *kinds: type[Op]) -> list[int]:
    nodes = toposort([s.node for s in slopes])
    return [sum(isinstance(n.op, kind) for n in nodes) for kind in kinds]


def test_the_slopes_of_a_convolution_are_its_transposes() -> None:
    x, kernel = tw.var(shape=(2, 8, 8, 3)), tw.var(shape=(3, 3, 3, 4))
    loss = tnp.sum(tnp.square(tnp.conv2d(x, kernel, padding="SAME")))
    kinds = (Convolution, ConvolutionInputGradient, ConvolutionKernelGradient)
    slopes = tw.gradients(loss, [x, kernel])
    assert ops_of(slopes, *kinds) == [1, 1, 1]
    assert ops_of(tw.gradients(loss, [kernel]), *kinds) == [1, 0, 1]


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_convolutions_in_single_precision(dtype: str) -> None:
    x, kernel = drawn(2, 5, 4, 2, dtype=dtype), drawn(3, 2, 2, 3, dtype=dtype)
    check_grads(tnp.conv2d, (x, kernel), order=1)
    slope = tw.grad(lambda k: tnp.sum(tnp.abs(tnp.conv2d(x, k, padding="SAME"))))(kernel)
    assert slope.dtype == np.dtype(dtype)


def test_images_of_whole_numbers_have_no_slope() -> None:
    x, kernel = np.arange(20).reshape(2, 5, 2), drawn(3, 2, 4)
    check(lambda k: tnp.conv1d(x, k, padding="SAME"), (kernel,))


# ------------------------------------------------------------------------- pooling


def pooling(rank: int, strides: int | None, padding: str) -> list[Row]:
    """Pooling and its transposes, in all the ways they are written."""
    shape = (2, *SIZES[:rank], 2)
    given: Any = [(1, 0), (0, 1), (1, 1)][:rank] if padding == "uneven" else padding
    options: Any = {"window": 2, "strides": strides, "padding": given}
    top, mean = named(f"max_pool{rank}d"), named(f"avg_pool{rank}d")
    pooled = top(tw.var(shape=shape), **options).shape
    says = f"{rank}D strides={strides} {padding}"
    return joined(
        of_real(f"max_pool{rank}d {says}", lambda x: top(x, **options), shape),
        both(f"avg_pool{rank}d {says}", lambda x: mean(x, **options), shape)
        if rank == 1
        else of_real(f"avg_pool{rank}d {says}", lambda x: mean(x, **options), shape),
        of_real(
            f"max_pool_gradient {says}",
            lambda x, y: tnp.max_pool_gradient(x, y, **options),
            shape,
            pooled,
        ),
        of_real(
            f"max_pool_select {says}",
            lambda x, y: tnp.max_pool_select(x, y, **options),
            shape,
            shape,
        ),
        of_real(
            f"avg_pool_gradient {says}",
            lambda y: tnp.avg_pool_gradient(y, input_shape=shape, **options),
            pooled,
        ),
    )


POOLING = joined(
    *(
        pooling(rank, strides, padding)
        for rank, strides, padding in itertools.product(RANKS, (None, 1, 3), PADDINGS)
    ),
    *(
        both(f"upsampling{rank}d", lambda x, r=rank: named(f"upsampling{r}d")(x, 2), s)
        for rank, s in zip(RANKS, ((2, 3, 2), (2, 3, 2, 2), (1, 2, 2, 2, 2)), strict=True)
    ),
    both("upsampling2d unevenly", lambda x: tnp.upsampling2d(x, (3, 1)), (2, 2, 3, 2)),
    *(
        both("upsampling_gradient", lambda x: tnp.upsampling_gradient(x, 2), (2, *(4,) * r, 2))
        for r in RANKS
    ),
    *(
        of_real(f"{name} {keep}", lambda x, f=name, k=keep: named(f)(x, keepdims=k), (2, 3, 4, 2))
        for name in ("global_max_pool", "global_avg_pool")
        for keep in (False, True)
    ),
    of_real("max_pool1d of an empty batch", lambda x: tnp.max_pool1d(x, 2), (0, 4, 2)),
    of_real("max_pool1d of strides", lambda x: tnp.max_pool1d(x[:, ::-2], 2), (2, 8, 2)),
)


@rows(POOLING)
def test_pooling(function: Function, args: tuple[Any, ...]) -> None:
    check(function, args)


def test_every_public_function_is_checked() -> None:
    assert unchecked(CONVOLUTIONS + POOLING, "convolution", "pooling") == []


@pytest.mark.parametrize("name", ["max_pool1d", "avg_pool1d", "upsampling1d"])
def test_pooling_in_single_precision(name: str) -> None:
    x = drawn(2, 6, 2, dtype="float32")
    check_grads(lambda x: named(name)(x, 2), (x,), order=1)
    assert tw.grad(lambda x: tnp.sum(named(name)(x, 2)))(x).dtype == np.float32


def test_the_first_of_equal_elements_has_the_whole_slope() -> None:
    x = np.array([1.0, 1, 0, 2, 2, 2]).reshape(1, 6, 1)
    slope = tw.grad(lambda x: tnp.sum(tnp.max_pool1d(x, 3)))(x).numpy()
    np.testing.assert_array_equal(slope.reshape(-1), [1, 0, 0, 1, 0, 0])
    _, tangent = tw.jvp(lambda x: tnp.max_pool1d(x, 3), [x], [np.arange(6.0).reshape(1, 6, 1)])
    np.testing.assert_array_equal(tangent.numpy().reshape(-1), [0, 3])


def test_slopes_of_pooling_are_picked_and_never_searched_for_twice() -> None:
    x = tw.var(shape=(2, 6, 6, 3))
    loss = tnp.sum(tnp.sin(tnp.max_pool2d(x, 2)))
    assert ops_of(tw.gradients(loss, [x]), MaxPoolGradient, MaxPoolSelect) == [1, 0]
    _, tangent = tw.jvp(lambda x: tnp.max_pool2d(x, 2), [x], [tnp.ones(x.shape)])
    assert ops_of([tangent], MaxPoolGradient, MaxPoolSelect) == [0, 1]


def test_where_a_maximum_is_found_has_no_slope() -> None:
    x, y = drawn(2, 4, 2), drawn(2, 2, 2)
    slope = tw.grad(lambda a: tnp.sum(tnp.max_pool_gradient(a, y, 2)))(x)
    np.testing.assert_array_equal(slope.numpy(), np.zeros_like(x))
    slope = tw.grad(lambda a: tnp.sum(tnp.max_pool_select(a, x, 2)))(x)
    np.testing.assert_array_equal(slope.numpy(), np.zeros_like(x))


def network(x: Any, first: Any, second: Any, last: Any) -> Any:
    """A small network of all kinds of layers."""
    x = tnp.tanh(tnp.conv2d(x, first, strides=2, padding="SAME"))
    x = tnp.max_pool2d(x, 2, strides=1, padding="SAME")
    x = tnp.conv_transpose2d(x, second, strides=2, padding="SAME")
    x = tnp.avg_pool2d(tnp.upsampling2d(tnp.sin(x), 2), 3, strides=2, padding="SAME")
    return tnp.sum(tnp.tanh(tnp.global_avg_pool(x) @ last))


def test_a_network_to_third_order() -> None:
    args = (drawn(2, 6, 5, 2), drawn(3, 3, 2, 3), drawn(2, 2, 3, 2), drawn(2, 3))
    check_grads(network, args, order=3, rtol=1e-5, atol=1e-5)
