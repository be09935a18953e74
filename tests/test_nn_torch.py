"""Layers and losses beside PyTorch's, with the same weights; skipped where it is not installed."""

from __future__ import annotations

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny import nn
from tawny.tree import map_leaves

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.standard_normal(shape)


def tensor(x, grad=False):
    return torch.tensor(np.asarray(x), requires_grad=grad)


def channels_first(x):
    return x.movedim(-1, 1)


def channels_last(x):
    return x.movedim(1, -1)


def kernel_to_torch(w):
    """(*window, inputs, outputs) as (outputs, inputs, *window)."""
    return np.moveaxis(np.moveaxis(w, -1, 0), -1, 1)


def transposed_kernel_to_torch(w):
    """(*window, inputs, outputs) as (inputs, outputs, *window)."""
    return np.moveaxis(np.moveaxis(w, -1, 0), -1, 0)


def load(module, values):
    with torch.no_grad():
        for name, value in values.items():
            getattr(module, name).copy_(tensor(value))
    return module.double()


def compare(layer, theirs, *inputs, training=False, rtol=1e-9):
    """Values, and slopes of the inputs, of a random weighted sum."""
    given = layer.apply(layer.parameters, *inputs, training=training)
    xs = [tensor(x, grad=True) for x in inputs]
    expected = theirs(*xs)
    assert given.shape == tuple(expected.shape)
    np.testing.assert_allclose(given.numpy(), expected.detach().numpy(), rtol=rtol, atol=1e-11)
    weights = drawn(*given.shape)
    (expected * tensor(weights)).sum().backward()
    slopes = tw.grad(
        lambda xs: (layer.apply(layer.parameters, *xs, training=training) * weights).sum()
    )(list(inputs))
    for slope, x in zip(slopes, xs, strict=True):
        np.testing.assert_allclose(slope.numpy(), x.grad.numpy(), rtol=rtol, atol=1e-10)


def randomised(layer):
    layer.parameters = map_leaves(lambda x: drawn(*x.shape) / 2, layer.parameters)
    return layer


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"groups": 2}, {"stride": 2, "padding": 2, "dilation": 2}], ids=str)  # fmt: skip
def test_convolution(rank, options) -> None:
    layer = randomised(getattr(nn, f"Conv{rank}d")(4, 6, 3, dtype="float64", **options))
    theirs = getattr(torch.nn, f"Conv{rank}d")(4, 6, 3, **options).double()
    p = layer.parameters
    load(theirs, {"weight": kernel_to_torch(p["weight"]), "bias": p["bias"]})
    compare(
        layer, lambda x: channels_last(theirs(channels_first(x))), drawn(2, *[7, 6, 5][:rank], 4)
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"stride": 2}, {"stride": 2, "padding": 1}], ids=str)
def test_transposed_convolution(rank, options) -> None:
    """PyTorch's kernel is that of the convolution it transposes."""
    layer = randomised(getattr(nn, f"ConvTranspose{rank}d")(4, 3, 3, dtype="float64", **options))
    theirs = getattr(torch.nn, f"ConvTranspose{rank}d")(4, 3, 3, **options).double()
    p = layer.parameters
    load(theirs, {"weight": transposed_kernel_to_torch(p["weight"]), "bias": p["bias"]})
    compare(
        layer, lambda x: channels_last(theirs(channels_first(x))), drawn(2, *[4, 3, 2][:rank], 4)
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pooling(rank) -> None:
    x = drawn(2, *[6, 5, 4][:rank], 3)
    for padding in (0, 1):
        theirs = getattr(torch.nn, f"MaxPool{rank}d")(3, stride=2, padding=padding)
        ours = getattr(nn, f"MaxPool{rank}d")(3, stride=2, padding=padding)
        compare(ours, lambda x, f=theirs: channels_last(f(channels_first(x))), x)
        theirs = getattr(torch.nn, f"AvgPool{rank}d")(
            3, stride=2, padding=padding, count_include_pad=False
        )
        ours = getattr(nn, f"AvgPool{rank}d")(3, stride=2, padding=padding)
        compare(ours, lambda x, f=theirs: channels_last(f(channels_first(x))), x)


def test_linear() -> None:
    layer = randomised(nn.Linear(5, 3, dtype="float64"))
    p = layer.parameters
    theirs = load(torch.nn.Linear(5, 3).double(), {"weight": p["weight"].T, "bias": p["bias"]})
    compare(layer, theirs, drawn(2, 4, 5))


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm(training) -> None:
    layer = randomised(nn.BatchNorm(3, dtype="float64"))
    layer.state = {"mean": drawn(3), "variance": RNG.uniform(0.5, 2, 3)}
    p, s = layer.parameters, layer.state
    theirs = load(
        torch.nn.BatchNorm2d(3).double(),
        {"weight": p["scale"], "bias": p["shift"], "running_mean": s["mean"], "running_var": s["variance"]},
    )  # fmt: skip
    theirs.train(training)
    x = drawn(4, 5, 6, 3)
    compare(layer, lambda x: channels_last(theirs(channels_first(x))), x, training=training)
    if training:
        _, state = layer.advance(p, s, x)
        np.testing.assert_allclose(state["mean"].numpy(), theirs.running_mean.numpy(), rtol=1e-10)
        np.testing.assert_allclose(
            state["variance"].numpy(), theirs.running_var.numpy(), rtol=1e-10
        )


def test_layer_and_group_norm() -> None:
    layer = randomised(nn.LayerNorm((4, 6), dtype="float64"))
    p = layer.parameters
    theirs = load(torch.nn.LayerNorm((4, 6)).double(), {"weight": p["scale"], "bias": p["shift"]})
    compare(layer, theirs, drawn(3, 4, 6))
    layer = randomised(nn.GroupNorm(2, 6, dtype="float64"))
    p = layer.parameters
    group = load(torch.nn.GroupNorm(2, 6).double(), {"weight": p["scale"], "bias": p["shift"]})
    compare(layer, lambda x: channels_last(group(channels_first(x))), drawn(3, 4, 5, 6))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent(kind, bias) -> None:
    """Two layers, which are one module there."""
    theirs = getattr(torch.nn, kind)(3, 4, num_layers=2, batch_first=True, bias=bias).double()
    parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    layers = (
        getattr(nn, kind)(inputs, 4, sequences=True, bias=bias, dtype="float64")
        for inputs in (3, 4)
    )
    stack = nn.Sequential(*layers)
    rename = {f"{part}_l{n}": f"{n}.{part}_l0" for part in parts for n in range(2)}
    nn.load_torch(stack, theirs, rename=rename)
    compare(stack, lambda x: theirs(x)[0], drawn(2, 6, 3))


def test_recurrent_from_both_ends() -> None:
    theirs = torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True).double()
    layers = [nn.LSTM(3, 4, sequences=True, dtype="float64") for _ in range(2)]

    def both(x):
        back = tnp.flip(layers[1](tnp.flip(x, axis=1)), axis=1)
        return tnp.concat([layers[0](x), back], axis=-1)

    parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    rename = {
        f"{part}_l0{end}": f"{n}.{part}_l0"
        for part in parts
        for n, end in enumerate(("", "_reverse"))
    }
    nn.load_torch(nn.Sequential(*layers), theirs, rename=rename)
    x = drawn(2, 6, 3)
    np.testing.assert_allclose(both(x).numpy(), theirs(tensor(x))[0].detach().numpy(), rtol=1e-9)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("stride", "padding", "more"), [(2, 1, 1), (2, 2, 1), (3, 2, 2)])
def test_transposed_convolution_with_more_output(rank, stride, padding, more) -> None:
    theirs = getattr(torch.nn, f"ConvTranspose{rank}d")(
        3, 4, 4, stride=stride, padding=padding, output_padding=more
    ).double()
    pads = ((padding, padding - more),) * rank
    layer = getattr(nn, f"ConvTranspose{rank}d")(
        3, 4, 4, stride=stride, padding=pads, dtype="float64"
    )
    nn.load_torch(layer, theirs)
    compare(
        layer, lambda x: channels_last(theirs(channels_first(x))), drawn(2, *[4, 3, 2][:rank], 3)
    )


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal) -> None:
    layer = randomised(nn.MultiHeadAttention(6, 2, causal=causal, dtype="float64"))
    p = layer.parameters
    theirs = load(
        torch.nn.MultiheadAttention(6, 2, batch_first=True).double(),
        {
            "in_proj_weight": np.concatenate([p[k]["weight"].T for k in ("query", "key", "value")]),
            "in_proj_bias": np.concatenate([p[k]["bias"] for k in ("query", "key", "value")]),
        },
    )
    load(theirs.out_proj, {"weight": p["output"]["weight"].T, "bias": p["output"]["bias"]})
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    compare(
        layer,
        lambda q, k, v: theirs(q, k, v, attn_mask=hidden)[0],
        drawn(2, 5, 6),
        drawn(2, 5, 6),
        drawn(2, 5, 6),
    )


def test_embedding() -> None:
    layer = nn.Embedding(7, 3, dtype="float64")
    indices = RNG.integers(0, 7, (2, 5))
    theirs = load(torch.nn.Embedding(7, 3).double(), {"weight": layer.parameters["weight"]})
    np.testing.assert_array_equal(layer(indices).numpy(), theirs(tensor(indices)).detach().numpy())


ACTIVATIONS = ["elu", "gelu", "leaky_relu", "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "softsign", "tanh"]  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name) -> None:
    compare(nn.Activation(name), getattr(torch.nn.functional, name), 3 * drawn(5, 7))


LOSSES = {
    "cross_entropy": (lambda p, t: torch.nn.functional.cross_entropy(p, t), lambda: RNG.integers(0, 4, 6)),
    "mean_squared": (torch.nn.functional.mse_loss, lambda: drawn(6, 4)),
    "mean_absolute": (torch.nn.functional.l1_loss, lambda: drawn(6, 4)),
    "binary_cross_entropy": (lambda p, t: 4 * torch.nn.functional.binary_cross_entropy_with_logits(p, t), lambda: RNG.uniform(0, 1, (6, 4))),
    "huber": (lambda p, t: 4 * torch.nn.functional.huber_loss(p, t), lambda: drawn(6, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name) -> None:
    theirs, target = LOSSES[name]
    p, t = 2 * drawn(6, 4), target()
    q = tensor(p, grad=True)
    expected = theirs(q, tensor(t))
    expected.backward()
    value, slope = tw.value_and_grad(getattr(nn, name))(p, t)
    np.testing.assert_allclose(value.numpy(), expected.item(), rtol=1e-12)
    np.testing.assert_allclose(slope.numpy(), q.grad.numpy(), rtol=1e-9, atol=1e-14)
