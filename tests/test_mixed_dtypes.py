"""Products, convolutions and pooling of operands of any two dtypes: promoted first, run natively."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from cpu_checks import sampled
from tawny import nn, optim
from tawny.array import Array

DTYPES = ("bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64")
Function = Callable[[Any, Any], Array]

PRODUCTS: dict[str, tuple[Function, tuple[int, ...], tuple[int, ...]]] = {
    "matmul": (tnp.matmul, (5, 6), (6, 7)),
    "dot": (tnp.dot, (6,), (6,)),
    "stacked": (tnp.matmul, (2, 9, 8), (8, 7)),
    "tensordot": (lambda a, b: tnp.tensordot(a, b, axes=2), (4, 5, 6), (5, 6, 7)),
    "convolve": (tnp.convolve, (20,), (5,)),
    "conv1d": (tnp.conv1d, (2, 9, 4), (3, 4, 5)),
    "conv2d": (tnp.conv2d, (2, 9, 9, 4), (3, 3, 4, 8)),
    "conv3d": (tnp.conv3d, (2, 5, 5, 5, 4), (3, 3, 3, 4, 5)),
    "depthwise_conv2d": (tnp.depthwise_conv2d, (2, 9, 9, 4), (3, 3, 4, 1)),
    "conv_transpose2d": (tnp.conv_transpose2d, (2, 5, 5, 4), (3, 3, 4, 8)),
    "kernel_gradient": (
        lambda a, b: tnp.conv_kernel_gradient(a, b, kernel_shape=(3, 3, 4, 8), padding="SAME"),
        (2, 9, 9, 4),
        (2, 9, 9, 8),
    ),
    "input_gradient": (
        lambda a, b: tnp.conv_input_gradient(a, b, input_shape=(2, 9, 9, 4), padding="SAME"),
        (3, 3, 4, 8),
        (2, 9, 9, 8),
    ),
}
POOLS: dict[str, Callable[[Any], Array]] = {
    "max": lambda x: tnp.max_pool2d(x, 2),
    "max_padded": lambda x: tnp.max_pool2d(x, 3, strides=2, padding="SAME"),
    "mean": lambda x: tnp.avg_pool2d(x, 2),
}


def by_numpy(program: tw.Program) -> str:
    """What is said of steps that NumPy computes."""
    return str(program.plan).partition("by NumPy: ")[2]


JOINS: dict[str, Function] = {
    "concat": lambda a, b: tnp.concat([a, b, a], axis=1),
    "stack": lambda a, b: tnp.stack([a, b]),
    "append": lambda a, b: tnp.append(a, b, 0),
    "where": lambda a, b: tnp.where(a > 0, a, b),
}


@pytest.mark.parametrize("name", JOINS)
def test_joins_promote_and_are_native(name: str) -> None:
    """What NumPy would make beside the plan's memory is made inside of it."""
    random = Random(name)
    for one, other in product(DTYPES, DTYPES):
        a, b = (sampled(random, (6, 8), dtype) for dtype in (one, other))
        x, y = (tw.var(shape=v.shape, dtype=v.dtype) for v in (a, b))
        joined = tw.Graph([x, y], JOINS[name](x, y)).compile()
        assert by_numpy(joined) == "", (one, other)
        want = JOINS[name](a, b).numpy()
        got = joined(a, b)
        assert got.dtype == want.dtype == np.result_type(one, other)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_promote_and_are_native(name: str) -> None:
    """As those of operands that were cast before, bit by bit, and not by NumPy."""
    function, ours, theirs = PRODUCTS[name]
    random = Random(name)
    for one, other in product(DTYPES, DTYPES):
        if one == other == "bool":
            continue
        common = np.result_type(one, other)
        a, b = sampled(random, ours, one), sampled(random, theirs, other)
        x, y = (tw.var(shape=v.shape, dtype=v.dtype) for v in (a, b))
        u, v = (tw.var(shape=v.shape, dtype=common) for v in (a, b))
        mixed = tw.Graph([x, y], [function(x, y)]).compile()
        assert by_numpy(mixed) == "", (one, other)
        (got,) = mixed(a, b)
        (want,) = tw.Graph([u, v], [function(u, v)]).compile()(a.astype(common), b.astype(common))
        assert got.dtype == common, (one, other)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", PRODUCTS)
def test_slopes_of_mixed_operands(name: str) -> None:
    """Each operand's slope has the operand's dtype, and no step is NumPy's."""
    function, ours, theirs = PRODUCTS[name]
    a, b = sampled(Random(1), ours, "float64"), sampled(Random(2), theirs, "float32")
    x, y = tw.var(shape=ours), tw.var(shape=theirs, dtype="float32")
    slopes = tw.gradients(tnp.sum(tnp.square(function(x, y))), [x, y])
    assert [s.dtype for s in slopes] == [np.float64, np.float32]
    graph = tw.Graph([x, y], slopes)
    program = graph.compile()
    assert by_numpy(program) == ""
    for got, want in zip(program(a, b), graph.compile("reference")(a, b), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_pools_are_native(name: str, dtype: str) -> None:
    """Of integers and truths too, with their least and greatest among them."""
    rng = np.random.default_rng(3)
    if dtype in ("bool", "float16", "float32", "float64"):
        a = (rng.normal(size=(2, 8, 8, 5)) > 0).astype(dtype)
    else:
        info = np.iinfo(dtype)
        a = rng.integers(info.min, info.max, (2, 8, 8, 5), dtype=dtype, endpoint=True)
        a[0, :4] = info.min
        a[1, 0] = info.max
    x = tw.var(shape=a.shape, dtype=dtype)
    graph = tw.Graph([x], [POOLS[name](x)])
    program = graph.compile()
    assert by_numpy(program) == ""
    (got,), (want,) = program(a), graph.compile("reference")(a)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=0 if name != "mean" else 1e-12)


# ------------------------------------------------------------------------ layers

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(6, 4), (3, 6)),
    "FullyConnected": (lambda: nn.FullyConnected(6, 4), (3, 2, 3)),
    "Conv1d": (lambda: nn.Conv1d(3, 4, 3), (2, 8, 3)),
    "Conv2d": (lambda: nn.Conv2d(3, 4, 3), (2, 8, 8, 3)),
    "Conv3d": (lambda: nn.Conv3d(3, 4, 3), (2, 4, 4, 4, 3)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 4, 3), (2, 8, 8, 3)),
    "BatchNorm": (lambda: nn.BatchNorm(6), (3, 6)),
    "BatchNormPlain": (lambda: nn.BatchNorm(6, affine=False), (3, 6)),
    "LayerNorm": (lambda: nn.LayerNorm(6), (3, 6)),
    "LayerNormShift": (lambda: nn.LayerNorm(6, scale=False), (3, 6)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 6), (3, 6)),
    "RNN": (lambda: nn.RNN(3, 4), (2, 5, 3)),
    "LSTM": (lambda: nn.LSTM(3, 4), (2, 5, 3)),
    "GRU": (lambda: nn.GRU(3, 4), (2, 5, 3)),
    "MultiHeadAttention": (lambda: nn.MultiHeadAttention(4, 2), (2, 5, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_take_inputs_in_their_own_dtype(name: str) -> None:
    """What comes out has the parameters' dtype, whatever comes in, and is that of a cast input."""
    make, shape = LAYERS[name]
    layer = make()
    for dtype in ("uint8", "int64", "float16", "float64"):
        x = sampled(Random(name), shape, dtype)
        for training in (False, True):
            got = layer.apply(layer.parameters, x, training=training)
            want = layer.apply(layer.parameters, x.astype("float32"), training=training)
            assert got.dtype == np.float32
            np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_layers_follow_given_parameters() -> None:
    """Parameters of another dtype decide; complex inputs keep their imaginary parts."""
    layer = nn.Linear(3, 2)
    x = np.ones((4, 3), "float32")
    wide = {name: np.asarray(v, "float64") for name, v in layer.parameters.items()}
    assert layer.apply(wide, x).dtype == np.float64
    turned = layer(x * 1j).numpy()
    assert turned.dtype == np.complex64
    assert np.any(turned.imag)


def small_network() -> nn.Module:
    """A little of everything that images meet."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding="same"),
        nn.BatchNorm(8),
        nn.relu,
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, activation="relu"),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(3 * 3 * 8, 5),
    )


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float64"])
def test_networks_of_other_images_are_native(dtype: str) -> None:
    """Training, evaluation and prediction: no step by NumPy, numbers as those of cast images."""
    rng = np.random.default_rng(0)
    images = (rng.random((12, 16, 16, 3)) * 3).astype(dtype)
    labels = rng.integers(0, 5, 12)
    graph = nn.training_graph(small_network(), nn.cross_entropy, (images, labels), optim.Adam(0.01))
    assert by_numpy(graph.compile()) == ""
    found: list[Any] = []
    for given in (images, images.astype("float32")):
        model = small_network()
        history = nn.train(
            model, nn.cross_entropy, (given, labels), optimiser=optim.Adam(0.01), epochs=2, batch=6
        )
        x = tw.var(shape=given.shape, dtype=given.dtype)
        assert by_numpy(tw.Graph([x], [model(x)]).compile()) == ""
        found.append((history.loss, nn.predict(model, given)))
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert found[0][1].dtype == np.float32
