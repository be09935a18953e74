"""Pooling: ties, padding, the transposes' defining property, and mistakes."""

from __future__ import annotations

import numpy as np
import pytest

import tawny.eager as np_now
import tawny.numpy as tnp

RNG = np.random.default_rng(6)


def test_among_equals_the_first_takes_the_gradient() -> None:
    x = np.zeros((1, 4, 4, 1))
    g = np.arange(1.0, 5.0).reshape(1, 2, 2, 1)
    got = np_now.max_pool_gradient(x, g, 2)[0, :, :, 0]
    np.testing.assert_array_equal(got, [[1, 0, 2, 0], [0, 0, 0, 0], [3, 0, 4, 0], [0, 0, 0, 0]])


def test_padding_never_takes_the_gradient() -> None:
    x = np.full((1, 3, 1), -np.inf)
    got = np_now.max_pool_gradient(x, np.ones((1, 3, 1)), 3, strides=1, padding="SAME")
    np.testing.assert_array_equal(got[0, :, 0], [2, 1, 0])
    lowest = np.full((1, 3, 1), np.iinfo(np.int8).min, np.int8)
    np.testing.assert_array_equal(np_now.max_pool1d(lowest, 3, strides=1, padding="SAME"), lowest)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("strides", [1, 2, 3])
def test_gradients_are_the_transposes(strides: int, padding: str) -> None:
    x, v = RNG.normal(size=(2, 2, 7, 8, 3))
    options = {"strides": strides, "padding": padding}
    y = np_now.avg_pool2d(x, (2, 3), **options)
    g = RNG.normal(size=y.shape)
    dx = np_now.avg_pool_gradient(g, (2, 3), input_shape=x.shape, **options)
    np.testing.assert_allclose(np.sum(y * g), np.sum(x * dx))
    chosen = np_now.max_pool_select(x, v, (2, 3), **options)
    back = np_now.max_pool_gradient(x, g, (2, 3), **options)
    np.testing.assert_allclose(np.sum(chosen * g), np.sum(v * back))
    np.testing.assert_array_equal(
        np_now.max_pool_select(x, x, (2, 3), **options), np_now.max_pool2d(x, (2, 3), **options)
    )


def test_max_pool_gradient_agrees_with_finite_differences() -> None:
    x = RNG.permutation(40).reshape(1, 20, 2) * 1.0
    options = {"strides": 2, "padding": "SAME"}
    g = RNG.normal(size=np_now.max_pool1d(x, 3, **options).shape)
    got = np_now.max_pool_gradient(x, g, 3, **options)
    for i in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[i] = 0.25
        up, down = (np_now.max_pool1d(x + s * step, 3, **options) for s in (1, -1))
        assert np.isclose(np.sum(g * (up - down)) / 0.5, got[i])


def test_averages_count_real_elements_only() -> None:
    x = np.ones((1, 5, 5, 1))
    for padding in ("SAME", ((1, 1), (0, 2))):
        pooled = np_now.avg_pool2d(x, 3, strides=2, padding=padding)
        np.testing.assert_array_equal(pooled, np.ones_like(pooled))


X = np.zeros((1, 6, 6, 2))
MISTAKES = [
    (lambda: tnp.max_pool1d(X, 2), ValueError, r"max_pool1d: operand 0 .* 3 axes"),
    (lambda: tnp.max_pool2d(X, 7), ValueError, "reaches over 7 and must fit"),
    (lambda: tnp.max_pool2d(X, 0), ValueError, "window .* at least 1"),
    (lambda: tnp.max_pool2d(X, (2, 2, 2)), ValueError, "window .* 3 numbers"),
    (lambda: tnp.max_pool2d(X, 2, padding=((2, 0), (0, 0))), ValueError, "padding alone"),
    (lambda: tnp.max_pool2d(X * 1j, 2), TypeError, "max_pool2d: operand 0 has dtype complex128"),
    (lambda: tnp.max_pool_gradient(X, X, 2), ValueError, r"\(1, 3, 3, 2\)"),
    (lambda: tnp.max_pool_select(X, X[:, 1:], 2), ValueError, "as operand 0"),
    (lambda: tnp.avg_pool_gradient(X, 2, input_shape=X.shape), ValueError, r"\(1, 3, 3, 2\)"),
    (lambda: tnp.avg_pool_gradient(X, 2, input_shape=(1, 6, 2)), ValueError, "4 axes"),
    (lambda: tnp.global_avg_pool(X[0, 0]), ValueError, "3, 4 or 5 axes"),
    (lambda: tnp.upsampling2d(X, 0), ValueError, "factor .* at least 1"),
    (lambda: tnp.upsampling1d(X, 2), ValueError, "3 axes"),
    (lambda: tnp.upsampling_gradient(X, 4), ValueError, r"multiples of \(4, 4\)"),
]


@pytest.mark.parametrize(("call", "kind", "message"), MISTAKES)
def test_mistakes_are_refused_when_built(call, kind, message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        call()
    assert "[test_pooling.py:" in str(caught.value)
