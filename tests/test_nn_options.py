"""Every option of a layer does what it says: first values, epsilon, affine, bias, masks, rates."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest

from tawny import nn
from tawny.tree import leaf_paths, map_leaves

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def options_of(layer: type[nn.Module]) -> set[str]:
    """The keywords a layer takes, those it passes on to its base included."""
    return {name for kind in layer.__mro__[:-1] for name in inspect.signature(kind).parameters}


LAYERS = [
    kind
    for kind in map(nn.__dict__.get, nn.__all__)
    if inspect.isclass(kind) and not inspect.isabstract(kind)
]

SIZES: dict[str, tuple[int, ...]] = {
    "Linear": (3, 4), "FullyConnected": (3, 4), "Embedding": (5, 4), "MultiHeadAttention": (4, 2),
    "RNN": (3, 4), "LSTM": (3, 4), "GRU": (3, 4),
    **{f"{kind}{rank}d": (3, 4, 2) for kind in ("Conv", "ConvTranspose") for rank in (1, 2, 3)},
}  # fmt: skip
"""Sizes for every layer that is told how its values start."""


def with_option(name: str) -> list[str]:
    return [kind.__name__ for kind in LAYERS if name in options_of(kind)]


def test_every_layer_that_is_told_how_to_start_is_tried() -> None:
    assert sorted(with_option("init_weight")) == sorted(SIZES)


@pytest.mark.parametrize("option", ["init_weight", "init_bias", "init_recurrent"])
def test_values_start_as_they_are_told(option: str) -> None:
    names = with_option(option)
    assert names
    for name in names:
        layer = getattr(nn, name)(*SIZES[name], **{option: 0.75})
        told = option.removeprefix("init_")
        for path, value in leaf_paths(layer.parameters):
            assert np.all(value == 0.75) == (path.rpartition(".")[2] == told), f"{name}: {path}"


def test_how_values_start_untold() -> None:
    """Weights as `glorot_uniform`, biases 0, but 1 for the forget gate of an LSTM."""
    for name, sizes in SIZES.items():
        layer = getattr(nn, name)(*sizes)
        for path, value in leaf_paths(layer.parameters):
            last = path.rpartition(".")[2]
            if last in ("weight", "recurrent"):
                gates = getattr(layer, "gates", 1)
                window = math.prod(value.shape[:-2])
                fans = window * (value.shape[-2] + value.shape[-1] // gates)
                bound = math.sqrt(6 / fans)
                assert 0.6 * bound < np.abs(value).max() <= bound, f"{name}: {path}"
            elif name == "LSTM":
                np.testing.assert_array_equal(value, [0] * 4 + [1] * 4 + [0] * 8)
            else:
                np.testing.assert_array_equal(value, 0, err_msg=f"{name}: {path}")


def test_ranges_of_distributions_untold() -> None:
    even, normal = (
        nn.Linear(100, 100, init_weight=rule).parameters["weight"]
        for rule in (nn.init.uniform(), nn.init.gaussian())
    )
    assert 0.049 < np.abs(even).max() <= 0.05
    assert normal.std() == pytest.approx(0.05, rel=0.03)


JOINS = {
    "Add": lambda x, y: x + y,
    "Mul": lambda x, y: x * y,
    "Max": np.maximum,
    "Average": lambda x, y: (x + y) / 2,
    "Concatenate": lambda x, y: np.concatenate([x, y], axis=-1),
    "Dot": np.matmul,
}


@pytest.mark.parametrize("name", JOINS)
def test_inputs_of_joins_may_come_in_one_list(name: str) -> None:
    x, y = drawn(3, 3), drawn(3, 3)
    for given in ((x, y), ([x, y],), ((x, y),)):
        np.testing.assert_allclose(getattr(nn, name)()(*given).numpy(), JOINS[name](x, y))


# -------------------------------------------------------------- normalisation


def standard(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon)


def grouped(x: np.ndarray, epsilon: float) -> np.ndarray:
    return standard(x.reshape(3, 5, 2, 2), (1, 3), epsilon).reshape(x.shape)


NORMS: dict[str, tuple[Any, Any, bool]] = {
    "batch, training": (lambda **o: nn.BatchNorm(4, **o), lambda x, e: standard(x, (0, 1), e), True),
    "batch, inference": (lambda **o: nn.BatchNorm(4, **o), lambda x, e: x / np.sqrt(1 + e), False),
    "layer": (lambda **o: nn.LayerNorm(4, **o), lambda x, e: standard(x, (-1,), e), False),
    "group": (lambda **o: nn.GroupNorm(2, 4, **o), grouped, False),
}  # fmt: skip


@pytest.mark.parametrize("name", NORMS)
def test_epsilon_is_added_to_the_variance(name: str) -> None:
    make, formula, training = NORMS[name]
    layer, x = make(epsilon=0.5, dtype="float64"), drawn(3, 5, 4)
    got = layer.apply(layer.parameters, x, training=training).numpy()
    np.testing.assert_allclose(got, formula(x, 0.5), rtol=1e-10)


@pytest.mark.parametrize("name", NORMS)
def test_without_affine_nothing_is_trained(name: str) -> None:
    make, formula, training = NORMS[name]
    layer, x = make(affine=False, dtype="float64"), drawn(3, 5, 4)
    assert layer.parameters == {}
    np.testing.assert_allclose(
        layer.apply({}, x, training=training).numpy(), formula(x, 1e-5), rtol=1e-10
    )


@pytest.mark.parametrize("axis", [1, -2, 2, -1])
def test_the_axis_of_channels_can_be_chosen(axis: int) -> None:
    """In training and in inference, as if the axis came last."""
    x = np.moveaxis(drawn(5, 6, 4), -1, axis)
    plain, layer = (nn.BatchNorm(4, axis=a, dtype="float64") for a in (-1, axis))
    for norm in (plain, layer):
        norm.parameters = {"scale": np.arange(1.0, 5), "shift": np.arange(4.0)}
        norm.state = {"mean": np.arange(4.0) / 2, "variance": np.arange(1.0, 5)}
    last = np.moveaxis(x, axis, -1)
    expected, wanted = plain.advance(plain.parameters, plain.state, last)
    got, state = layer.advance(layer.parameters, layer.state, x)
    np.testing.assert_allclose(got.numpy(), np.moveaxis(expected.numpy(), -1, axis), rtol=1e-12)
    for name, value in wanted.items():
        np.testing.assert_allclose(state[name].numpy(), value.numpy(), rtol=1e-12)
    inferred = np.moveaxis(plain(last).numpy(), -1, axis)
    np.testing.assert_allclose(layer(x).numpy(), inferred, rtol=1e-12)
    assert repr(layer) == ("BatchNorm(4)" if axis == -1 else f"BatchNorm(4, axis={axis})")


def test_an_axis_of_another_size_is_named() -> None:
    with pytest.raises(ValueError, match=r"BatchNorm: .*shape \(5, 6, 4\); its axis 1 must be 4"):
        nn.BatchNorm(4, axis=1)(drawn(5, 6, 4))
    with pytest.raises(ValueError, match="its axis 3 must be 4"):
        nn.BatchNorm(4, axis=3)(drawn(5, 6, 4))


# ------------------------------------------------------------------ recurrent


def test_the_activation_of_a_recurrent_layer() -> None:
    layer = nn.RNN(3, 4, activation="relu", dtype="float64")
    x, p = drawn(2, 5, 3), layer.parameters
    h = np.zeros((2, 4))
    for t in range(5):
        h = np.maximum(x[:, t] @ p["weight"] + h @ p["recurrent"] + p["bias"], 0)
    np.testing.assert_allclose(layer(x).numpy(), h, rtol=1e-12)


# ------------------------------------------------------------------ attention


def looking(**options: Any) -> nn.MultiHeadAttention:
    """One head whose output is how much each of four positions looks at each."""
    layer = nn.MultiHeadAttention(4, 1, dtype="float64", **options)
    p = map_leaves(np.zeros_like, layer.parameters)
    p["value"]["weight"] = p["output"]["weight"] = np.eye(4)
    layer.parameters = p
    return layer


POSITIONS = np.eye(4)[None]


def test_dropout_of_attention_drops_looks_while_training() -> None:
    layer = looking(dropout=0.5)
    np.testing.assert_allclose(layer(POSITIONS).numpy(), 0.25)
    many = np.repeat(POSITIONS, 500, axis=0)
    looks = layer.apply(layer.parameters, many, training=True).numpy()
    assert np.unique(looks).tolist() == [0, 0.5]
    assert abs((looks == 0).mean() - 0.5) < 0.03


MASKS = {
    "none": None,
    "queries and keys": drawn(4, 4) > -0.5,
    "keys of each sample": drawn(3, 1, 1, 4) > -0.5,
    "heads": drawn(1, 1, 4, 1) > -0.5,
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_masks_and_causality_both_hold(name: str, causal: bool) -> None:
    mask = MASKS[name]
    layer = looking(causal=causal)
    allowed = np.ones((3, 4, 4), bool)
    if mask is not None:
        allowed &= mask if mask.ndim == 2 else mask[:, 0]
    if causal:
        allowed &= np.tri(4, dtype=bool)
    count = allowed.sum(-1, keepdims=True)
    expected = np.where(allowed, 1 / np.maximum(count, 1), 0)
    got = layer(np.repeat(POSITIONS, 3, axis=0), mask=mask).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_attention_without_bias() -> None:
    layer = nn.MultiHeadAttention(4, 2, bias=False)
    assert {path.rpartition(".")[2] for path, _ in leaf_paths(layer.parameters)} == {"weight"}


# ---------------------------------------------------------------------- noise


@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_noise_of_other_rates(rate: float) -> None:
    x = np.full((300, 300), 2.0, "float32")

    def noisy(layer: nn.Module) -> np.ndarray:
        return layer.apply({}, x, training=True).numpy()

    dropped = noisy(nn.Dropout(rate))
    assert abs((dropped == 0).mean() - rate) < 0.01
    np.testing.assert_allclose(dropped[dropped != 0], 2 / (1 - rate), rtol=1e-6)
    times = noisy(nn.GaussianDropout(rate))
    assert abs(times.mean() - 2) < 0.03
    assert times.std() == pytest.approx(2 * math.sqrt(rate / (1 - rate)), rel=0.02)
    plus = noisy(nn.GaussianNoise(rate))
    assert abs(plus.mean() - 2) < 0.01
    assert plus.std() == pytest.approx(rate, rel=0.02)
    normal = drawn(300, 300).astype("float32")
    kept = nn.AlphaDropout(rate).apply({}, normal, training=True).numpy()
    assert abs(kept.mean()) < 0.02
    assert abs(kept.var() - 1) < 0.03


@pytest.mark.parametrize(
    "kind", [nn.Dropout, nn.GaussianDropout, nn.GaussianNoise, nn.AlphaDropout]
)
def test_noise_of_rate_0_is_none(kind: Any) -> None:
    x = drawn(4, 5)
    np.testing.assert_array_equal(kind(0).apply({}, x, training=True).numpy(), x)
