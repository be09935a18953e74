"""Corners of functions: large and small numbers, places without a slope, infinite operands."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import tawny as tw
import tawny.numpy as tnp


def on(engine, function, *operands):
    """`function` of variables, compiled for an engine and given `operands`."""
    given = [tw.var(shape=np.shape(x), dtype=np.asarray(x).dtype) for x in operands]
    return tw.Graph(given, function(*given)).compile(engine=engine)(*operands)


@pytest.mark.parametrize("large", [0.0, 1e3, 1e4, 1e5, 1e6, -1e6, 1e30])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_softmax_keeps_its_digits_where_logits_are_large(dtype, large, engine) -> None:
    x = np.array([large, large, large - 1], dtype)
    exact = scipy.special.log_softmax(x.astype("longdouble") - np.longdouble(large))
    got = on(engine, tnp.log_softmax, x)
    np.testing.assert_allclose(got, exact, rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(on(engine, tnp.softmax, x), np.exp(exact), rtol=1e-6)


@pytest.mark.parametrize("function", [tnp.softmax, tnp.log_softmax])
def test_softmax_of_nothing_is_nothing(function) -> None:
    assert function(np.ones((3, 0))).shape == (3, 0)
    assert function(np.ones((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("power", [-np.inf, -3, -2, -1, -0.5, 0.5, 1, 2, 3, np.inf])
def test_norms_have_slope_0_at_0(power, engine) -> None:
    def slope(x):
        return tw.gradients(tnp.linalg.vector_norm(x, ord=power), [x])[0]

    np.testing.assert_array_equal(on(engine, slope, np.zeros(3)), np.zeros(3))
    if power < 0:  # one element of 0 makes it 0, whatever the others do
        np.testing.assert_array_equal(on(engine, slope, np.array([0.0, 3.0, 4.0])), np.zeros(3))
    x = np.array([1.5, -3.0, 4.0])
    steps = 1e-6 * np.eye(3)
    by_differences = [
        (np.linalg.norm(x + h, power) - np.linalg.norm(x - h, power)) / 2e-6 for h in steps
    ]
    np.testing.assert_allclose(on(engine, slope, x), by_differences, rtol=1e-6, atol=1e-9)


HEIGHTS = {
    "falling for ever": [0, -np.inf + 0j],
    "rising beside": [1 + np.inf * 1j, 2 + 0j],
    "nothing": [np.nan + 1j, 2 + 2j],
    "finite": [1 + 2j, 3 - 1j],
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", HEIGHTS)
def test_interpolation_between_complex_heights(name) -> None:
    heights = np.array(HEIGHTS[name])
    at = np.array([-1, 0, 0.25, 0.5, 1, 2])
    got = tnp.interp(at, [0, 1], heights).numpy()
    expected = np.interp(at, [0, 1], heights)
    np.testing.assert_array_equal(got.real, expected.real)
    np.testing.assert_array_equal(got.imag, expected.imag)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_the_transform_of_nothing_is_zero(name, engine, monkeypatch) -> None:
    monkeypatch.setenv("TAWNY_DEBUG", "1")  # memory that nobody wrote is NaN
    dtype = "float64" if name == "rfft" else "complex128"
    x = np.zeros((0, 2), dtype)
    for _ in range(3):
        got = on(engine, lambda z: getattr(tnp.fft, name)(z, n=3, axis=0) + 0, x)
        assert got.tolist() == np.zeros_like(getattr(np.fft, name)(x, n=3, axis=0)).tolist()
