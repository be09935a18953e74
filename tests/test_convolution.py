"""Convolutions: other witnesses than loops, the transposes' defining property, and mistakes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny.eager as np_now
import tawny.numpy as tnp
from naive_windows import correlate
from tawny.ops.creation import var
from tawny.ops.window import same_padding

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("padding", "mode"), [("SAME", "same"), ("VALID", "valid")])
def test_one_channel_is_scipys_correlation(rank: int, padding: str, mode: str) -> None:
    x, k = RNG.normal(size=(8, 7, 6)[:rank]), RNG.normal(size=(3, 5, 3)[:rank])
    conv = getattr(np_now, f"conv{rank}d")
    got = conv(x[None, ..., None], k[..., None, None], padding=padding)
    np.testing.assert_allclose(got[0, ..., 0], scipy.signal.correlate(x, k, mode), rtol=1e-12)


def test_many_images_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from tawny.engine.reference import windows

    x, k = RNG.normal(size=(5, 6, 6, 4)), RNG.normal(size=(3, 3, 2, 6))
    whole = np_now.conv2d(x, k, groups=2, padding="SAME")
    slopes = np_now.conv_kernel_gradient(x, whole, kernel_shape=k.shape, groups=2, padding="SAME")
    monkeypatch.setattr(windows, "_MOST_BYTES", 2 * x[0].nbytes * 9)
    np.testing.assert_allclose(np_now.conv2d(x, k, groups=2, padding="SAME"), whole, rtol=1e-12)
    parts = np_now.conv_kernel_gradient(x, whole, kernel_shape=k.shape, groups=2, padding="SAME")
    np.testing.assert_allclose(parts, slopes, rtol=1e-12)


@st.composite
def geometries(draw):
    rank = draw(st.integers(1, 3))
    axes = st.lists(st.integers(1, 3), min_size=rank, max_size=rank).map(tuple)
    window, strides, dilation = draw(axes), draw(axes), draw(axes)
    spans = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    sizes = tuple(s + draw(st.integers(0, 4)) for s in spans)
    pairs = st.tuples(st.integers(0, 3), st.integers(0, 3))
    padding = draw(
        st.sampled_from(["SAME", "VALID"])
        | st.lists(pairs, min_size=rank, max_size=rank).map(tuple)
    )
    groups = draw(st.integers(1, 3))
    inputs, outputs = draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))
    x = (draw(st.integers(1, 3)), *sizes, inputs * groups)
    options = {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups}
    return x, (*window, inputs, outputs), options


@settings(max_examples=60, deadline=None)
@given(geometries(), st.integers(0, 2**32 - 1))
def test_gradients_are_the_transposes(geometry, seed: int) -> None:
    x_shape, k_shape, options = geometry
    rng = np.random.default_rng(seed)
    x, k = (rng.integers(-4, 5, s).astype(float) for s in (x_shape, k_shape))
    y = getattr(np_now, f"conv{x.ndim - 2}d")(x, k, **options)
    np.testing.assert_array_equal(y, correlate(x, k, **options))
    g = rng.integers(-4, 5, y.shape).astype(float)
    dx = np_now.conv_input_gradient(k, g, input_shape=x_shape, **options)
    dk = np_now.conv_kernel_gradient(x, g, kernel_shape=k_shape, **options)
    assert np.sum(y * g) == np.sum(x * dx) == np.sum(k * dk)


def test_gradients_agree_with_finite_differences() -> None:
    x, k = RNG.normal(size=(2, 5, 4, 2)), RNG.normal(size=(3, 2, 2, 3))
    options = {"strides": (2, 1), "padding": "SAME"}
    weights = RNG.normal(size=np_now.conv2d(x, k, **options).shape)

    def slope(of, at, step=1e-6):
        out = np.zeros_like(at)
        for i in np.ndindex(*at.shape):
            up, down = at.copy(), at.copy()
            up[i] += step
            down[i] -= step
            out[i] = (of(up) - of(down)) / (2 * step)
        return out

    dx = slope(lambda a: np.sum(weights * np_now.conv2d(a, k, **options)), x)
    dk = slope(lambda a: np.sum(weights * np_now.conv2d(x, a, **options)), k)
    got = np_now.conv_input_gradient(k, weights, input_shape=x.shape, **options)
    np.testing.assert_allclose(got, dx, atol=1e-7)
    got = np_now.conv_kernel_gradient(x, weights, kernel_shape=k.shape, **options)
    np.testing.assert_allclose(got, dk, atol=1e-7)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("strides", [1, 2, 4])
def test_transposed_convolution_undoes_the_shape(padding: str, strides: int) -> None:
    x, k = RNG.normal(size=(1, 6, 2)), RNG.normal(size=(3, 2, 5))
    y = np_now.conv_transpose1d(x, k, strides=strides, padding=padding)
    back = np_now.conv1d(y, k.swapaxes(-1, -2), strides=strides, padding=padding)
    assert back.shape == x.shape
    g = RNG.normal(size=y.shape)
    dx = np_now.conv1d(g, k.swapaxes(-1, -2), strides=strides, padding=padding)
    np.testing.assert_allclose(np.sum(y * g), np.sum(x * dx))
    dk = np_now.conv_kernel_gradient(
        g, x, kernel_shape=(3, 5, 2), strides=strides, padding=padding
    ).swapaxes(-1, -2)
    np.testing.assert_allclose(np.sum(y * g), np.sum(k * dk))


@pytest.mark.parametrize(
    ("n", "span", "stride", "expected"),
    [
        (5, 3, 1, (1, 1)),
        (5, 2, 1, (0, 1)),
        (224, 7, 2, (2, 3)),
        (6, 3, 2, (0, 1)),
        (5, 1, 3, (0, 0)),
    ],
)
def test_same_padding_puts_the_odd_element_last(n, span, stride, expected) -> None:
    assert same_padding(n, span, stride) == expected


def test_equal_convolutions_merge_whatever_the_padding_was_called() -> None:
    x, k = var(shape=(1, 5, 1)), var(shape=(3, 1, 1))
    again = tnp.conv1d(x, k, padding=((1, 1),), strides=(1,))
    assert tnp.conv1d(x, k, padding="SAME").node is again.node


X2, K2 = np.zeros((1, 5, 5, 4)), np.zeros((3, 3, 4, 6))
MISTAKES = [
    (
        lambda: tnp.conv2d(X2[0], K2, padding="SAME"),
        ValueError,
        r"conv2d: operand 0 has shape \(5, 5, 4\)",
    ),
    (
        lambda: tnp.conv2d(X2, K2[0], padding="SAME"),
        ValueError,
        r"conv2d: operand 1 has shape \(3, 4, 6\)",
    ),
    (
        lambda: tnp.conv2d(X2, K2[:, :, :3], padding="SAME"),
        ValueError,
        "axis -2 is 3, .* the 4 channels",
    ),
    (lambda: tnp.conv2d(X2, K2, groups=2, padding="SAME"), ValueError, "times 2 groups"),
    (
        lambda: tnp.conv2d(X2, K2[:, :, :2, :3], groups=2, padding="SAME"),
        ValueError,
        "multiple of groups",
    ),
    (lambda: tnp.conv2d(X2, K2, groups=0, padding="SAME"), ValueError, "groups .* at least 1"),
    (lambda: tnp.conv2d(X2, K2, strides=0, padding="SAME"), ValueError, "stride .* at least 1"),
    (
        lambda: tnp.conv2d(X2, K2, strides=(1, 1, 1), padding="SAME"),
        ValueError,
        "stride .* 3 numbers",
    ),
    (
        lambda: tnp.conv2d(X2, K2, strides=1.5, padding="SAME"),
        TypeError,
        "stride must be an integer",
    ),
    (lambda: tnp.conv2d(X2, K2, padding="HALF"), ValueError, 'padding is .HALF.; accepted: "SAME"'),
    (lambda: tnp.conv2d(X2, K2, padding=1), TypeError, "padding is 1; accepted"),
    (lambda: tnp.conv2d(X2, K2, padding=(1, 1)), TypeError, "padding has 1 for an axis"),
    (lambda: tnp.conv2d(X2, K2, padding=((1, 1),)), ValueError, "padding is"),
    (lambda: tnp.conv2d(X2, K2, padding=((1, -1), (0, 0))), ValueError, "padding is"),
    (lambda: tnp.conv2d(X2, K2, padding="VALID", dilation=3), ValueError, "reaches over 7"),
    (
        lambda: tnp.conv2d(X2 > 0, K2 > 0, padding="SAME"),
        TypeError,
        "conv2d: operand 0 has dtype bool",
    ),
    (lambda: tnp.conv2d(X2, K2[:0], padding="SAME"), ValueError, "window .* at least 1"),
    (lambda: tnp.conv2d(X2, K2, step=2, padding="SAME"), TypeError, "unknown argument 'step'"),
    (
        lambda: tnp.conv_transpose2d(X2, K2[:, :, :3], padding="SAME"),
        ValueError,
        "must be the 4 channels",
    ),
    (
        lambda: tnp.depthwise_conv2d(X2, K2[:, :, :3], padding="SAME"),
        ValueError,
        "must be the 4 channels",
    ),
    (
        lambda: tnp.conv_input_gradient(K2, X2, input_shape=(1, 5, 5, 4), padding="SAME"),
        ValueError,
        r"operand 1 has shape \(1, 5, 5, 4\); .* \(1, 5, 5, 6\)",
    ),
    (
        lambda: tnp.conv_input_gradient(K2, X2, input_shape=(1, 5, 5, 3), padding="SAME"),
        ValueError,
        "input_shape .* needs 4 channels",
    ),
    (
        lambda: tnp.conv_input_gradient(K2, X2, input_shape=(1, 5, 5), padding="SAME"),
        ValueError,
        "4 axes",
    ),
    (
        lambda: tnp.conv_kernel_gradient(X2, X2, kernel_shape=(3, 3, 3, 4), padding="SAME"),
        ValueError,
        "kernel_shape .* 3 channels",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), MISTAKES)
def test_mistakes_are_refused_when_built(call, kind, message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        call()
    assert "[test_convolution.py:" in str(caught.value)
