"""Every layer against its formula in plain NumPy, and its derivatives against differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import naive_windows
import tawny as tw
import tawny.numpy as tnp
from tawny import nn
from tawny.testing import check_grads
from tawny.tree import leaves, map_leaves

RNG = np.random.default_rng(0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@dataclass
class Case:
    """A layer, shapes of its inputs, and what it gives of parameters, state and inputs."""

    name: str
    build: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    formula: Callable[..., Any]


def F(cls, *args, **options):
    """A layer of double precision."""
    return lambda: cls(*args, dtype="float64", **options)


def conv(**options):
    padding = options.pop("padding", "VALID")
    return lambda p, s, x: (
        naive_windows.correlate(x, p["weight"], padding=padding, **options) + p["bias"]
    )


def spread(**options):
    return lambda p, s, x: naive_windows.spread(x, p["weight"], **options) + p["bias"]


def batch_norm(p, s, x):
    y = (x - s["mean"]) / np.sqrt(s["variance"] + 1e-5)
    return y * p["scale"] + p["shift"]


def layer_norm(p, s, x):
    y = (x - x.mean((-2, -1), keepdims=True)) / np.sqrt(x.var((-2, -1), keepdims=True) + 1e-5)
    return y * p["scale"] + p["shift"]


def group_norm(p, s, x):
    out = np.empty_like(x)
    for b in range(x.shape[0]):
        for first in range(0, 6, 3):
            part = x[b, ..., first : first + 3]
            out[b, ..., first : first + 3] = (part - part.mean()) / math.sqrt(part.var() + 1e-5)
    return out * p["scale"] + p["shift"]


def rnn(p, s, x):
    h = np.zeros((len(x), p["recurrent"].shape[0]))
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ p["weight"] + h @ p["recurrent"] + p["bias"])
    return h


def lstm_all(p, s, x):
    n = p["recurrent"].shape[0]
    h = c = np.zeros((len(x), n))
    hs = []
    for t in range(x.shape[1]):
        a = x[:, t] @ p["weight"] + h @ p["recurrent"] + p["bias"]
        i, f, g, o = (a[:, k * n : (k + 1) * n] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        hs.append(h)
    return np.stack(hs, axis=1)


def gru(p, s, x):
    n = p["recurrent"].shape[0]
    h = np.zeros((len(x), n))
    columns = [slice(k * n, (k + 1) * n) for k in range(3)]
    for t in range(x.shape[1]):
        a, b = x[:, t] @ p["weight"] + p["bias"], h @ p["recurrent"] + p["recurrent_bias"]
        r, z = (sigmoid(a[:, k] + b[:, k]) for k in columns[:2])
        new = np.tanh(a[:, columns[2]] + r * b[:, columns[2]])
        h = (1 - z) * new + z * h
    return h


def attention(mask=None):
    def formula(p, s, q, k=None, v=None):
        k = q if k is None else k
        v = k if v is None else v
        project = {
            name: x @ p[name]["weight"] + p[name]["bias"]
            for name, x in (("query", q), ("key", k), ("value", v))
        }
        out = np.zeros(q.shape)
        d = 3
        for b in range(q.shape[0]):
            for head in range(2):
                part = slice(head * d, (head + 1) * d)
                scores = project["query"][b, :, part] @ project["key"][b, :, part].T / math.sqrt(d)
                if mask is not None:
                    scores = np.where(mask(*scores.shape), scores, -np.inf)
                out[b, :, part] = softmax(scores) @ project["value"][b, :, part]
        return out @ p["output"]["weight"] + p["output"]["bias"]

    return formula


def pooled(kind, window, **options):
    return lambda p, s, x: kind(x, window, **options)


IMAGE = (2, 5, 6, 4)

CASES = [
    Case("linear", F(nn.Linear, 3, 4), ((2, 5, 3),), lambda p, s, x: x @ p["weight"] + p["bias"]),
    Case("linear_no_bias", F(nn.Linear, 3, 4, bias=False), ((2, 3),), lambda p, s, x: x @ p["weight"]),
    Case("linear_activation", F(nn.Linear, 3, 4, activation="tanh"), ((2, 3),), lambda p, s, x: np.tanh(x @ p["weight"] + p["bias"])),
    Case("fully_connected", F(nn.FullyConnected, 12, 4), ((2, 2, 3, 2),), lambda p, s, x: x.reshape(2, 12) @ p["weight"] + p["bias"]),
    Case("conv1d", F(nn.Conv1d, 3, 4, 3, stride=2, padding="same"), ((2, 7, 3),), conv(strides=2, padding="SAME")),
    Case("conv2d", F(nn.Conv2d, 4, 3, (3, 2)), (IMAGE,), conv()),
    Case("conv2d_number", F(nn.Conv2d, 4, 3, 3, padding=1, stride=(2, 1)), (IMAGE,), conv(padding=((1, 1), (1, 1)), strides=(2, 1))),
    Case("conv2d_pairs", F(nn.Conv2d, 4, 3, 3, padding=((0, 2), (1, 0))), (IMAGE,), conv(padding=((0, 2), (1, 0)))),
    Case("conv2d_dilated", F(nn.Conv2d, 4, 3, 2, dilation=(2, 3)), (IMAGE,), conv(dilation=(2, 3))),
    Case("conv2d_groups", F(nn.Conv2d, 4, 6, 2, groups=2), (IMAGE,), conv(groups=2)),
    Case("conv3d", F(nn.Conv3d, 2, 3, 2, dilation=2), ((1, 4, 3, 4, 2),), conv(dilation=2)),
    Case("conv1d_dilated", F(nn.Conv1d, 3, 4, 3, dilation=2), ((2, 7, 3),), conv(dilation=2)),
    Case("conv_transpose1d", F(nn.ConvTranspose1d, 3, 4, 3, stride=2), ((2, 4, 3),), spread(strides=2, padding="VALID")),
    Case("conv_transpose2d", F(nn.ConvTranspose2d, 4, 3, 3, stride=2, padding="same"), ((1, 3, 2, 4),), spread(strides=2, padding="SAME")),
    Case("conv_transpose2d_number", F(nn.ConvTranspose2d, 4, 3, 4, stride=2, padding=1), ((1, 3, 2, 4),), spread(strides=2, padding=((1, 1), (1, 1)))),
    Case("conv_transpose3d", F(nn.ConvTranspose3d, 2, 2, 2, stride=2), ((1, 2, 2, 2, 2),), spread(strides=2, padding="VALID")),
    Case("max_pool1d", lambda: nn.MaxPool1d(2), ((2, 6, 3),), pooled(naive_windows.max_pool, 2)),
    Case("max_pool2d", lambda: nn.MaxPool2d(3, stride=2, padding="same"), (IMAGE,), pooled(naive_windows.max_pool, 3, strides=2, padding="SAME")),
    Case("max_pool3d", lambda: nn.MaxPool3d(2), ((1, 4, 2, 2, 3),), pooled(naive_windows.max_pool, 2)),
    Case("avg_pool1d", lambda: nn.AvgPool1d(3, stride=1, padding=1), ((2, 6, 3),), pooled(naive_windows.avg_pool, 3, strides=1, padding=((1, 1),))),
    Case("avg_pool2d", lambda: nn.AvgPool2d((2, 3)), (IMAGE,), pooled(naive_windows.avg_pool, (2, 3))),
    Case("avg_pool3d", lambda: nn.AvgPool3d(2), ((1, 4, 2, 2, 3),), pooled(naive_windows.avg_pool, 2)),
    Case("global_max_pool1d", nn.GlobalMaxPool1d, ((2, 6, 3),), lambda p, s, x: x.max(1)),
    Case("global_max_pool2d", nn.GlobalMaxPool2d, (IMAGE,), lambda p, s, x: x.max((1, 2))),
    Case("global_max_pool3d", nn.GlobalMaxPool3d, ((1, 2, 3, 2, 2),), lambda p, s, x: x.max((1, 2, 3))),
    Case("global_avg_pool1d", nn.GlobalAvgPool1d, ((2, 6, 3),), lambda p, s, x: x.mean(1)),
    Case("global_avg_pool2d", nn.GlobalAvgPool2d, (IMAGE,), lambda p, s, x: x.mean((1, 2))),
    Case("global_avg_pool3d", nn.GlobalAvgPool3d, ((1, 2, 3, 2, 2),), lambda p, s, x: x.mean((1, 2, 3))),
    Case("up_sampling1d", lambda: nn.UpSampling1d(3), ((2, 4, 3),), lambda p, s, x: x.repeat(3, 1)),
    Case("up_sampling2d", lambda: nn.UpSampling2d((2, 3)), (IMAGE,), lambda p, s, x: x.repeat(2, 1).repeat(3, 2)),
    Case("up_sampling3d", lambda: nn.UpSampling3d(2), ((1, 2, 1, 2, 2),), lambda p, s, x: x.repeat(2, 1).repeat(2, 2).repeat(2, 3)),
    Case("padding1d", lambda: nn.Padding1d(((1, 2),)), ((2, 3, 2),), lambda p, s, x: np.pad(x, ((0, 0), (1, 2), (0, 0)))),
    Case("padding2d", lambda: nn.Padding2d(((1, 0), (2, 3)), 0.5), (IMAGE,), lambda p, s, x: np.pad(x, ((0, 0), (1, 0), (2, 3), (0, 0)), constant_values=0.5)),
    Case("padding3d", lambda: nn.Padding3d(1), ((1, 2, 1, 2, 2),), lambda p, s, x: np.pad(x, ((0, 0), (1, 1), (1, 1), (1, 1), (0, 0)))),
    Case("reshape", lambda: nn.Reshape(3, -1), ((2, 6, 2),), lambda p, s, x: x.reshape(2, 3, 4)),
    Case("flatten", nn.Flatten, ((2, 3, 4),), lambda p, s, x: x.reshape(2, 12)),
    Case("slice", lambda: nn.Slice((1, 5, 2), None, -1), ((2, 6, 3, 2),), lambda p, s, x: x[:, 1:5:2, :, -1]),
    Case("lambda", lambda: nn.Lambda(lambda x: 2 * x), ((2, 3),), lambda p, s, x: 2 * x),
    Case("lambda_array", lambda: nn.LambdaArray(lambda xs: xs[0] - xs[1]), ((2, 3), (2, 3)), lambda p, s, x, y: x - y),
    Case("input", lambda: nn.Input(3, None), ((2, 3, 7),), lambda p, s, x: x),
    Case("activation", lambda: nn.Activation("softmax", axis=0), ((4, 3),), lambda p, s, x: softmax(x.T).T),
    Case("add", nn.Add, ((2, 3), (2, 3), (2, 3)), lambda p, s, x, y, z: x + y + z),
    Case("mul", nn.Mul, ((2, 3), (2, 3), (2, 3)), lambda p, s, x, y, z: x * y * z),
    Case("max", nn.Max, ((2, 3), (2, 3)), lambda p, s, x, y: np.maximum(x, y)),
    Case("average", nn.Average, ((2, 3), (2, 3), (2, 3)), lambda p, s, x, y, z: (x + y + z) / 3),
    Case("dot", nn.Dot, ((2, 3, 4), (2, 4, 5)), lambda p, s, x, y: np.einsum("bij,bjk->bik", x, y)),
    Case("concatenate", nn.Concatenate, ((2, 3), (2, 4)), lambda p, s, x, y: np.concatenate([x, y], -1)),
    Case("concatenate_rows", lambda: nn.Concatenate(1), ((2, 3, 2), (2, 4, 2)), lambda p, s, x, y: np.concatenate([x, y], 1)),
    Case("batch_norm", F(nn.BatchNorm, 4), (IMAGE,), batch_norm),
    Case("batch_norm_plain", F(nn.BatchNorm, 4, affine=False), ((5, 4),), lambda p, s, x: (x - s["mean"]) / np.sqrt(s["variance"] + 1e-5)),
    Case("layer_norm", F(nn.LayerNorm, (3, 4)), ((2, 5, 3, 4),), layer_norm),
    Case("group_norm", F(nn.GroupNorm, 2, 6), ((2, 4, 3, 6),), group_norm),
    Case("group_norm_flat", F(nn.GroupNorm, 2, 6), ((3, 6),), group_norm),
    Case("rnn", F(nn.RNN, 3, 4), ((2, 5, 3),), rnn),
    Case("lstm", F(nn.LSTM, 3, 4), ((2, 5, 3),), lambda p, s, x: lstm_all(p, s, x)[:, -1]),
    Case("lstm_sequences", F(nn.LSTM, 3, 4, sequences=True), ((2, 5, 3),), lstm_all),
    Case("gru", F(nn.GRU, 3, 4), ((2, 5, 3),), gru),
    Case("attention", F(nn.MultiHeadAttention, 6, 2), ((2, 4, 6),), attention()),
    Case("attention_causal", F(nn.MultiHeadAttention, 6, 2, causal=True), ((2, 4, 6),), attention(lambda n, m: np.tri(n, m, dtype=bool))),
    Case("attention_cross", F(nn.MultiHeadAttention, 6, 2), ((2, 4, 6), (2, 3, 6), (2, 3, 6)), attention()),
    *(Case(name, lambda name=name: getattr(nn, name)(), ((2, 3),), lambda p, s, x: x) for name in ("Dropout", "GaussianDropout", "GaussianNoise", "AlphaDropout")),
]  # fmt: skip


def drawn(shape):
    return RNG.standard_normal(shape)


def prepared(case: Case) -> tuple[nn.Module, list[np.ndarray]]:
    """The case's layer with parameters unlike the first ones, and inputs."""
    layer = case.build()
    layer.parameters = map_leaves(lambda x: drawn(x.shape) / 2, layer.parameters)
    layer.state = map_leaves(lambda x: RNG.uniform(0.5, 2, x.shape), layer.state)
    return layer, [drawn(shape) for shape in case.shapes]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_inference_is_the_formula(case: Case) -> None:
    layer, inputs = prepared(case)
    given = layer(*inputs)
    expected = case.formula(layer.parameters, layer.state, *inputs)
    assert given.shape == expected.shape
    assert given.dtype == np.float64
    np.testing.assert_allclose(given.numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_derivatives_agree_with_differences(case: Case) -> None:
    layer, inputs = prepared(case)
    check_grads(
        lambda p, *xs: layer.apply(p, *xs, training=not case.name[0].isupper()),
        (layer.parameters, *inputs),
        order=1,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_every_parameter_and_input_has_a_slope(case: Case) -> None:
    """What feeds a layer learns, through recurrent layers and slices too."""
    layer, inputs = prepared(case)

    def loss(p, xs):
        y = layer.apply(p, *xs)
        return (y * drawn(y.shape)).sum()

    slopes, feeding = tw.grad(loss, argnums=(0, 1))(layer.parameters, inputs)
    for slope in (*leaves(slopes), *feeding):
        assert np.any(slope.numpy() != 0)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_compiled_values_and_slopes_are_those_of_the_reference(case: Case) -> None:
    """In training mode, with parameters as variables; noise is drawn alike by both engines."""
    layer, inputs = prepared(case)

    def variable(x):
        return tw.var(shape=x.shape, dtype="float32")

    parameters, xs = map_leaves(variable, layer.parameters), [variable(x) for x in inputs]
    wanted = [*leaves(parameters), *xs]
    y = layer.apply(parameters, *xs, training=True)
    slopes = tw.gradients((y * tw.numpy.cos(y)).sum(), wanted)
    graph = tw.Graph(wanted, [y, *slopes])
    values = [v.astype("float32") for v in (*leaves(layer.parameters), *inputs)]
    given, expected = (graph.compile(engine=e)(*values) for e in ("cpu", "reference"))
    for ours, theirs in zip(given, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5 * (1 + np.abs(theirs).max()))


# ---------------------------------------------------------------- activations

ACTIVATIONS = {
    "elu": lambda x: np.where(x > 0, x, np.exp(x) - 1),
    "gelu": lambda x: x * np.vectorize(lambda t: 0.5 * math.erfc(-t / math.sqrt(2)))(x),
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "identity": lambda x: x,
    "leaky_relu": lambda x: np.maximum(x, 0) - 0.01 * np.maximum(-x, 0),
    "log_softmax": lambda x: np.log(softmax(x)),
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.minimum(np.maximum(x, 0), 6),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)),
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "softmax": softmax,
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "tanh": np.tanh,
    "trelu": lambda x: np.maximum(x - 1, 0),
}


def test_every_activation_has_a_formula() -> None:
    assert set(ACTIVATIONS) == set(nn.layers.activations.ACTIVATIONS)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name: str) -> None:
    x = 4 * drawn((5, 7))
    np.testing.assert_allclose(
        getattr(nn, name)(x).numpy(), ACTIVATIONS[name](x), rtol=1e-12, atol=1e-14
    )
    np.testing.assert_array_equal(nn.Activation(name)(x).numpy(), getattr(nn, name)(x).numpy())
    check_grads(getattr(nn, name), (x,), order=2)


def test_activations_far_out_are_finite() -> None:
    x = np.array([-1e4, -100.0, 100.0, 1e4])
    for name in ACTIVATIONS:
        function = getattr(nn, name)
        value, slope = tw.value_and_grad(lambda x, f=function: f(x).sum())(x)
        assert np.isfinite(value.numpy()), name
        assert np.all(np.isfinite(slope.numpy())), name


def test_options_of_activations() -> None:
    x = drawn(9)
    np.testing.assert_allclose(
        nn.Activation("leaky_relu", slope=0.3)(x).numpy(), np.where(x > 0, x, 0.3 * x)
    )
    np.testing.assert_allclose(
        nn.Activation("elu", alpha=2.0)(x).numpy(), np.where(x > 0, x, 2 * np.expm1(x))
    )
    np.testing.assert_allclose(
        nn.Activation("trelu", threshold=0.5)(x).numpy(), np.maximum(x - 0.5, 0)
    )
    np.testing.assert_allclose(nn.Activation(lambda x: x**3)(x).numpy(), x**3)


# ------------------------------------------------------------------ embedding


def test_embedding_takes_rows_and_learns() -> None:
    layer = nn.Embedding(7, 3, dtype="float64")
    indices = np.array([[1, 4, 1], [0, 6, -1]])
    np.testing.assert_array_equal(layer(indices).numpy(), layer.parameters["weight"][indices])
    weights = drawn((2, 3, 3))
    slope = tw.grad(lambda p: (layer.apply(p, indices) * weights).sum())(layer.parameters)
    expected = np.zeros((7, 3))
    np.add.at(expected, indices, weights)
    np.testing.assert_allclose(slope["weight"].numpy(), expected)


def test_an_embedding_learns_through_every_recurrent_layer() -> None:
    """In Owl recurrent layers pass no slope to what feeds them."""
    indices = np.array([[1, 4, 2], [0, 6, 3]])
    for kind in (nn.RNN, nn.LSTM, nn.GRU):
        model = nn.Sequential(nn.Embedding(7, 3), kind(3, 4), nn.Linear(4, 2))
        slopes = tw.grad(lambda p, m=model: (m.apply(p, indices) ** 2).sum())(model.parameters)
        moved = np.any(slopes[0]["weight"].numpy() != 0, axis=-1)
        np.testing.assert_array_equal(moved, [True] * 5 + [False, True])


def test_embedding_refuses_what_is_no_row() -> None:
    layer = nn.Embedding(7, 3)
    with pytest.raises(
        TypeError, match=r"Embedding: the input has dtype float64; accepted: integers"
    ):
        layer(np.ones((2, 2)))
    with pytest.raises(IndexError, match="index 7"):
        layer(np.array([7]))
    x = tw.var("x", shape=(1,), dtype="int64")
    program = tw.Graph([x], [layer(x)]).compile()
    with pytest.raises(IndexError, match="index 7"):
        program(np.array([7]))


# ------------------------------------------------------------------ recurrent


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_a_recurrent_layer_goes_on_from_where_it_stopped(kind) -> None:
    layer = kind(3, 4, dtype="float64")
    x = drawn((2, 6, 3))
    whole, _ = layer.run(tw.numpy.asarray(x))
    _, state = layer.run(tw.numpy.asarray(x[:, :4]))
    np.testing.assert_allclose(
        layer(x[:, 4:], start=state).numpy(), whole[:, -1].numpy(), rtol=1e-12
    )


class Light(nn.Recurrent):
    """A cell of a user's."""

    gates = 2

    def zero_state(self, x):
        return (tnp.zeros((x.shape[0], self.units), dtype=self.weight.dtype),)

    def step(self, projected, state):
        (h,) = state
        z, n = tnp.split(projected + h @ self.recurrent, 2, axis=-1)
        return (tnp.sigmoid(z) * h + (1 - tnp.sigmoid(z)) * tnp.tanh(n),)


RECURRENT = [nn.RNN, nn.LSTM, nn.GRU, Light]


def written_out(layer, x, start=None, mask=None):
    """The outputs of a layer, one step after the other."""
    projected = x @ layer.weight + layer.bias
    state = layer.zero_state(x) if start is None else start
    outputs = []
    for t in range(x.shape[1]):
        new = layer.step(projected[:, t], state)
        if mask is not None:
            new = tuple(tnp.where(mask[:, t, None], n, s) for n, s in zip(new, state, strict=True))
        state = new
        outputs.append(state[0])
    return tnp.stack(outputs, axis=1)


@pytest.mark.parametrize("kind", RECURRENT)
@pytest.mark.parametrize(
    ("batch", "steps"), [(3, 1), (3, 7), (130, 5), (128, 6), (300, 3), (1, 257)]
)
def test_recurrent_layers_are_loops_over_blocks_of_time(kind, batch, steps) -> None:
    """The values and slopes of the same steps written one after the other."""
    layer = kind(2, 3, sequences=True, dtype="float64")
    x, mask = drawn((batch, steps, 2)), drawn((batch, steps)) > -0.5
    given = tnp.asarray(x)
    want = written_out(layer, given)
    np.testing.assert_allclose(layer(given).numpy(), want.numpy(), rtol=1e-9, atol=1e-12)
    masked = layer(given, mask=mask).numpy()
    wanted = written_out(layer, given, mask=tnp.asarray(mask)).numpy()
    np.testing.assert_allclose(masked, wanted, rtol=1e-9, atol=1e-12)
    if steps < 100:
        check_grads(lambda p: layer.apply(p, given, mask=mask), (layer.parameters,), order=1)


@pytest.mark.parametrize("kind", RECURRENT)
def test_masked_steps_of_recurrent_layers_do_not_count(kind) -> None:
    """Each sequence ends where it would alone, whatever stands behind it."""
    layer, x = kind(2, 3, dtype="float64"), drawn((3, 6, 2))
    lengths = np.array([6, 2, 4])
    last = layer(x, mask=np.arange(6) < lengths[:, None]).numpy()
    for i, n in enumerate(lengths):
        np.testing.assert_allclose(last[i], layer(x[i : i + 1, :n]).numpy()[0], rtol=1e-12)
    for wrong in (np.ones((3, 6)), np.ones((6, 3), bool), np.ones(6, bool)):
        with pytest.raises(ValueError, match=r"mask is .*; accepted: bool\[3, 6\]"):
            layer(x, mask=wrong)


def test_recurrent_graphs_do_not_grow_with_the_sequence() -> None:
    layer = nn.LSTM(2, 3)
    sizes = [
        len(tw.Graph([x], layer(x)).order)
        for x in (tw.var("x", (4, n, 2), "float32") for n in (256, 2560))
    ]
    assert sizes[0] == sizes[1] < 60


def test_lstm_first_values() -> None:
    layer = nn.LSTM(3, 4, forget_bias=2.0)
    np.testing.assert_array_equal(layer.parameters["bias"], [0] * 4 + [2] * 4 + [0] * 8)
    bound = math.sqrt(6 / 7)
    assert np.abs(layer.parameters["weight"]).max() <= bound
    assert np.abs(layer.parameters["weight"]).max() > 0.8 * bound


def test_each_matrix_of_a_recurrent_layer_has_its_own_initialiser() -> None:
    layer = nn.GRU(3, 4, init_weight=nn.init.constant(2), init_recurrent=5)
    assert np.all(layer.parameters["weight"] == 2)
    assert np.all(layer.parameters["recurrent"] == 5)


def test_a_fully_masked_position_looks_nowhere() -> None:
    layer = nn.MultiHeadAttention(4, 2, dtype="float64")
    x = drawn((1, 3, 4))
    mask = np.array([[True, True, False], [False, False, False], [True, False, True]])
    given = layer(x, mask=mask).numpy()
    np.testing.assert_allclose(given[0, 1], layer.parameters["output"]["bias"])
    shorter = layer(x[:, :1], x[:, :2]).numpy()
    np.testing.assert_allclose(given[0, 0], shorter[0, 0], rtol=1e-10)


# -------------------------------------------------------- training, inference


def test_batch_norm_in_training() -> None:
    layer = nn.BatchNorm(3, decay=0.8, epsilon=1e-3, dtype="float64")
    layer.parameters = {"scale": drawn(3), "shift": drawn(3)}
    p, state = layer.parameters, layer.state
    mean, variance = np.zeros(3), np.ones(3)
    for _ in range(3):
        x = 2 * drawn((4, 5, 3)) + 1
        y, state = layer.advance(p, state, x)
        m, v = x.mean((0, 1)), x.var((0, 1))
        np.testing.assert_allclose(
            y.numpy(), (x - m) / np.sqrt(v + 1e-3) * p["scale"] + p["shift"], rtol=1e-10
        )
        mean = 0.8 * mean + 0.2 * m
        variance = 0.8 * variance + 0.2 * x.var((0, 1), ddof=1)
    np.testing.assert_allclose(state["mean"].numpy(), mean, rtol=1e-10)
    np.testing.assert_allclose(state["variance"].numpy(), variance, rtol=1e-10)
    np.testing.assert_array_equal(layer.state["mean"], np.zeros(3))  # a call changes nothing


def test_batch_norm_statistics_are_update_edges() -> None:
    layer = nn.BatchNorm(3)
    x = tw.var("x", shape=(8, 3), dtype="float32")
    state = {k: tw.var(k, shape=(3,), dtype="float32") for k in ("mean", "variance")}
    y, new = layer.advance(layer.parameters, state, x)
    program = tw.Graph(
        [x, *state.values()], [y], updates={state[k]: new[k] for k in state}
    ).compile()
    program.set(**layer.state)
    expected = {k: v.astype("float64") for k, v in layer.state.items()}
    for _ in range(4):
        batch = drawn((8, 3)).astype("float32")
        program(x=batch)
        expected["mean"] = 0.9 * expected["mean"] + 0.1 * batch.mean(0)
        expected["variance"] = 0.9 * expected["variance"] + 0.1 * batch.var(0, ddof=1)
    for k, value in expected.items():
        np.testing.assert_allclose(program.state[k], value, rtol=1e-5)


def test_batch_norm_folds_into_the_convolution_before_it() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm(4), nn.relu)
    x = tw.var("x", shape=(1, 6, 6, 3), dtype="float32")
    model.state = {1: {"mean": drawn(4), "variance": RNG.uniform(0.5, 2, 4)}}
    program = tw.Graph([x], [model(x)]).compile()
    assert "batch_norm" in str(program.rewrites)
    assert len(program.plan.steps) == 1
    image = drawn((1, 6, 6, 3)).astype("float32")
    np.testing.assert_allclose(program(image)[0], model(image).numpy(), rtol=1e-4, atol=1e-5)


def test_statistics_keep_their_dtype() -> None:
    layer = nn.BatchNorm(2)
    y, state = layer.advance(layer.parameters, layer.state, drawn((4, 2)))
    assert y.dtype == np.float32
    assert state["mean"].dtype == state["variance"].dtype == np.float32


def test_a_batch_of_one_has_finite_statistics() -> None:
    layer = nn.BatchNorm(2)
    _, state = layer.advance(layer.parameters, layer.state, np.ones((1, 2), "float32"))
    assert np.all(np.isfinite(state["variance"].numpy()))


NOISES = {
    "dropout": (nn.Dropout(0.3), lambda y: {"mean": (y.mean(), 1), "zeros": ((y == 0).mean(), 0.3), "kept": (y.max(), 1 / 0.7)}),
    "gaussian_dropout": (nn.GaussianDropout(0.3), lambda y: {"mean": (y.mean(), 1), "std": (y.std(), math.sqrt(0.3 / 0.7))}),
    "gaussian_noise": (nn.GaussianNoise(0.3), lambda y: {"mean": (y.mean(), 1), "std": (y.std(), 0.3)}),
}  # fmt: skip


@pytest.mark.parametrize("name", NOISES)
def test_moments_of_noise(name: str) -> None:
    layer, moments = NOISES[name]
    x = np.ones((300, 300), "float32")
    noisy = layer.apply({}, x, training=True).numpy()
    assert noisy.dtype == np.float32
    for what, (given, expected) in moments(noisy).items():
        assert abs(given - expected) < 0.01, what
    np.testing.assert_array_equal(layer(x).numpy(), x)


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    x = RNG.standard_normal((400, 400)).astype("float32")
    y = nn.AlphaDropout(0.2).apply({}, x, training=True).numpy()
    assert abs(y.mean()) < 0.01
    assert abs(y.var() - 1) < 0.02
    least = -1.6732632423543772 * 1.0507009873554805
    a = 1 / math.sqrt(0.8 * (1 + 0.2 * least**2))
    dropped = np.isclose(y, a * least - a * least * 0.2, rtol=1e-5)
    assert abs(dropped.mean() - 0.2) < 0.01
    np.testing.assert_allclose(y[~dropped], a * x[~dropped] - a * least * 0.2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", [nn.Dropout(0.5), nn.GaussianDropout(0.5), nn.GaussianNoise(1.0), nn.AlphaDropout(0.5)], ids=repr)  # fmt: skip
def test_noise_is_drawn_anew_in_each_run_and_the_same_from_the_same_seed(layer) -> None:
    x = tw.var("x", shape=(64,), dtype="float32")
    runs = []
    for _ in range(2):
        tw.random.seed(5)
        program = tw.Graph([x], [layer.apply({}, x, training=True)]).compile()
        runs.append([program(np.ones(64, "float32"))[0].copy() for _ in range(2)])
    assert not np.array_equal(runs[0][0], runs[0][1])
    np.testing.assert_array_equal(runs[0], runs[1])


def test_the_slope_of_dropout_is_its_own_mask() -> None:
    layer = nn.Dropout(0.4)
    x = tw.var("x", shape=(50,), dtype="float32")
    y = layer.apply({}, x, training=True)
    (slope,) = tw.gradients(y.sum(), [x])
    values, slopes = tw.Graph([x], [y, slope]).compile()(np.ones(50, "float32"))
    np.testing.assert_array_equal(values, slopes)
    assert 0 < (values == 0).sum() < 50


# ------------------------------------------------------------ Owl's 44 neurons

OWL = {
    "Input": nn.Input(3), "Linear": nn.Linear(3, 4), "LinearNoBias": nn.Linear(3, 4, bias=False),
    "Embedding": nn.Embedding(3, 4), "LSTM": nn.LSTM(3, 4), "GRU": nn.GRU(3, 4), "Recurrent": nn.RNN(3, 4),
    "Conv1D": nn.Conv1d(3, 4, 2), "Conv2D": nn.Conv2d(3, 4, 2), "Conv3D": nn.Conv3d(3, 4, 2),
    "DilatedConv1D": nn.Conv1d(3, 4, 2, dilation=2), "DilatedConv2D": nn.Conv2d(3, 4, 2, dilation=2), "DilatedConv3D": nn.Conv3d(3, 4, 2, dilation=2),
    "TransposeConv1D": nn.ConvTranspose1d(3, 4, 2), "TransposeConv2D": nn.ConvTranspose2d(3, 4, 2), "TransposeConv3D": nn.ConvTranspose3d(3, 4, 2),
    "FullyConnected": nn.FullyConnected(3, 4),
    "MaxPool1D": nn.MaxPool1d(2), "MaxPool2D": nn.MaxPool2d(2), "AvgPool1D": nn.AvgPool1d(2), "AvgPool2D": nn.AvgPool2d(2),
    "GlobalMaxPool1D": nn.GlobalMaxPool1d(), "GlobalMaxPool2D": nn.GlobalMaxPool2d(), "GlobalAvgPool1D": nn.GlobalAvgPool1d(), "GlobalAvgPool2D": nn.GlobalAvgPool2d(),
    "UpSampling2D": nn.UpSampling2d(2), "Padding2D": nn.Padding2d(1), "Dropout": nn.Dropout(), "Reshape": nn.Reshape(3), "Flatten": nn.Flatten(), "Slice": nn.Slice(0),
    "Lambda": nn.Lambda(abs), "LambdaArray": nn.LambdaArray(sum), "Activation": nn.Activation("relu"),
    "GaussianNoise": nn.GaussianNoise(), "GaussianDropout": nn.GaussianDropout(), "AlphaDropout": nn.AlphaDropout(), "Normalisation": nn.BatchNorm(3),
    "Add": nn.Add(), "Mul": nn.Mul(), "Dot": nn.Dot(), "Max": nn.Max(), "Average": nn.Average(), "Concatenate": nn.Concatenate(),
}  # fmt: skip


def test_each_neuron_of_owl_has_its_layer_and_the_page_says_which() -> None:
    from pathlib import Path

    assert len(OWL) == 44
    page = (Path(__file__).parent.parent / "docs" / "networks.md").read_text()
    rows = dict(
        tuple(cell.strip().strip("`") for cell in line.strip("| \n").split("|")[:2])
        for line in page.splitlines()
        if line.startswith("| `")
    )
    for name, layer in OWL.items():
        assert isinstance(eval(rows[name], {"nn": nn, "f": abs}), type(layer)), name


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(4, 3),
        nn.FullyConnected(4, 3),
        nn.Conv2d(1, 1, 1),
        nn.MaxPool2d(2),
        nn.LSTM(4, 3),
        nn.BatchNorm(4),
        nn.LayerNorm(4),
        nn.GroupNorm(2, 4),
        nn.Embedding(4, 3),
        nn.Flatten(),
        nn.Reshape(2, 2),
        nn.Slice((0, 2)),
        nn.MultiHeadAttention(4, 2),
    ],
    ids=lambda layer: type(layer).__name__,
)
@pytest.mark.parametrize("given", [[[1.0, 2.0, 3.0, 4.0]], (np.ones(4), np.ones(4)), None, 2.0])
def test_what_is_no_array_is_refused(layer: nn.Module, given: object) -> None:
    kind = type(given).__name__
    with pytest.raises(TypeError, match=rf"(the input|q) is {kind}; accepted: an array .*test_nn"):
        layer(given)


def test_shares_may_be_numbers_of_numpy() -> None:
    assert nn.Dropout(np.float32(0.25)).rate == 0.25
    assert nn.GaussianNoise(np.float32(0.25)).std == 0.25
    with pytest.raises(TypeError, match="rate is 'half'; accepted: a number"):
        nn.Dropout("half")
