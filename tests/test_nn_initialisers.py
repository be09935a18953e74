"""Initialisers: moments, bounds, determinism."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tawny import nn, pages
from tawny.nn.init import fans

SHAPES = {
    (300, 200): (300, 200),
    (5, 5, 20, 120): (500, 3000),
    (7, 30, 400): (210, 2800),
    (40000,): (200, 200),
}

EVEN = {
    "standard": lambda i, o: math.sqrt(1 / i),
    "tanh": lambda i, o: math.sqrt(6 / (i + o)),
    "glorot_uniform": lambda i, o: math.sqrt(6 / (i + o)),
    "lecun_uniform": lambda i, o: math.sqrt(3 / i),
    "he_uniform": lambda i, o: math.sqrt(6 / i),
}
NORMAL = {
    "glorot_normal": lambda i, o: math.sqrt(2 / (i + o)),
    "lecun_normal": lambda i, o: math.sqrt(1 / i),
    "he_normal": lambda i, o: math.sqrt(2 / i),
}


def drawn(rule, shape, dtype="float32", seed=0):
    class One(nn.Module):
        def __init__(self):
            self.w = nn.Parameter(shape, rule, dtype)

    return One().initialise(seed).parameters["w"]


def check_even(x, low, high):
    """Mean, variance and fourth moment of an even distribution, and its ends."""
    width, n = high - low, x.size
    assert low <= x.min() < low + 0.01 * width
    assert high - 0.01 * width < x.max() <= high
    centred = (x.astype("float64") - (low + high) / 2) / width
    assert abs(centred.mean()) < 5 * math.sqrt(1 / 12 / n)
    assert abs((centred**2).mean() - 1 / 12) < 5 * math.sqrt((1 / 80 - 1 / 144) / n)


def check_normal(x, mean, std):
    """The first four moments of a normal distribution."""
    z, n = (x.astype("float64") - mean) / std, x.size
    assert abs(z.mean()) < 5 / math.sqrt(n)
    assert abs((z**2).mean() - 1) < 5 * math.sqrt(2 / n)
    assert abs((z**3).mean()) < 5 * math.sqrt(15 / n)
    assert abs((z**4).mean() - 3) < 5 * math.sqrt(96 / n)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_moments(shape, dtype) -> None:
    assert fans(shape) == SHAPES[shape]
    for name, bound in EVEN.items():
        x = drawn(getattr(nn.init, name)(), shape, dtype)
        assert x.dtype == dtype
        check_even(x, -bound(*SHAPES[shape]), bound(*SHAPES[shape]))
    for name, std in NORMAL.items():
        check_normal(drawn(getattr(nn.init, name)(), shape, dtype), 0, std(*SHAPES[shape]))


def test_chosen_distributions() -> None:
    check_even(drawn(nn.init.uniform(-1, 3), (200, 200)), -1, 3)
    check_normal(drawn(nn.init.gaussian(2, 0.5), (200, 200)), 2, 0.5)
    assert np.all(drawn(nn.init.constant(4), (3,)) == 4)
    assert np.all(drawn(0, (3,)) == 0)
    assert np.all(drawn(nn.init.ones(), (3,)) == 1)
    assert np.all(drawn(nn.init.zeros(), (3,)) == 0)


def test_custom() -> None:
    x = drawn(nn.init.custom(lambda rng, shape: np.arange(6).reshape(shape)), (2, 3))
    np.testing.assert_array_equal(x, [[0, 1, 2], [3, 4, 5]])
    assert x.dtype == np.float32
    plain = drawn(lambda rng, shape: rng.random(shape), (2, 3))
    np.testing.assert_array_equal(plain, drawn(lambda rng, shape: rng.random(shape), (2, 3)))
    with pytest.raises(ValueError, match=r"gave shape \(2,\) for a parameter of shape \(3,\)"):
        drawn(lambda rng, shape: np.zeros(2), (3,))


def test_same_seed_same_bits() -> None:
    for name in (*EVEN, *NORMAL):
        rule = getattr(nn.init, name)()
        np.testing.assert_array_equal(drawn(rule, (20, 30), seed=3), drawn(rule, (20, 30), seed=3))
        assert not np.array_equal(drawn(rule, (20, 30), seed=3), drawn(rule, (20, 30), seed=4))


def test_parameters_without_elements_and_axes() -> None:
    for name in (*EVEN, *NORMAL):
        rule = getattr(nn.init, name)()
        assert drawn(rule, (0, 3)).shape == (0, 3)
        assert np.isfinite(drawn(rule, ()))


def test_half_precision() -> None:
    x = drawn(nn.init.he_normal(), (200, 200), "float16")
    assert x.dtype == np.float16
    check_normal(x, 0, math.sqrt(2 / 200))


def test_refused() -> None:
    with pytest.raises(ValueError, match="high must be greater"):
        nn.init.uniform(1, 1)
    with pytest.raises(ValueError, match="std is -1"):
        nn.init.gaussian(0, -1)
    with pytest.raises(TypeError, match="3 is no function"):
        nn.init.custom(3)


def test_every_initialiser_reads_as_it_is_written() -> None:
    for rule in (
        nn.init.uniform(-1, 2),
        nn.init.gaussian(0, 1),
        nn.init.constant(3),
        *(getattr(nn.init, n)() for n in (*EVEN, *NORMAL, "zeros", "ones")),
    ):
        again = eval(repr(rule), vars(nn.init))
        np.testing.assert_array_equal(drawn(again, (3, 4)), drawn(rule, (3, 4)))


@pytest.mark.parametrize("draw", [nn.init.he_normal(), nn.init.uniform()], ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parameters_begin_with_a_cache_line(draw, dtype):
    """Vectors of weights, which kernels read where they lie, are then in one line each."""
    for shape in ((), (0, 3), (7,), (13, 20), (3, 3, 128, 128), (1, 1, 300, 1000)):
        value = draw(np.random.default_rng(0), shape, np.dtype(dtype))
        assert value.shape == shape
        assert value.ctypes.data % 64 == 0
        assert value.flags.c_contiguous
        assert pages.owns_memory(value)
