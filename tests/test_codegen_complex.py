"""Functions of complex numbers: special values as NumPy's, and accurate over the whole range."""

from __future__ import annotations

import numpy as np
import pytest

import tawny.numpy  # noqa: F401
from codegen_harness import run
from tawny.op import ELEMENTWISE

NAMES = ("exp", "log", "log2", "log10", "sqrt", "sin", "cos", "sinh", "cosh")
KINDS = ("complex64", "complex128")
WORST = 3.0
"""Units of rounding, relative to the size of the result."""

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, np.inf, -np.inf, np.nan)


def computed(name: str, z: np.ndarray) -> np.ndarray:
    found = run(ELEMENTWISE[name], z)
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_special_values(name: str, dtype: str) -> None:
    z = np.array([complex(a, b) for a in SPECIAL for b in SPECIAL], dtype)
    with np.errstate(all="ignore"):
        got, want = computed(name, z), getattr(np, name)(z)
    for one, other in ((got.real, want.real), (got.imag, want.imag)):
        same = (one == other) & (np.signbit(one) == np.signbit(other))
        with np.errstate(all="ignore"):
            near = np.abs(one - other) <= 4 * np.finfo(dtype).eps * np.abs(other)
        good = same | (np.isnan(one) & np.isnan(other)) | (np.isfinite(other) & near)
        assert good.all(), list(zip(z[~good], got[~good], want[~good], strict=True))[:5]


def spread(dtype: str) -> np.ndarray:
    """Numbers of all sizes and angles, many of them near the unit circle."""
    rng = np.random.default_rng(0)
    count = 20_000
    unit = np.exp(1j * rng.uniform(-np.pi, np.pi, count))
    far = unit * 10.0 ** rng.uniform(-30, 30, count)
    near = unit * (1 + 10.0 ** rng.uniform(-12, -1, count) * rng.choice([-1, 1], count))
    middle = 20 * (rng.normal(size=count) + 1j * rng.normal(size=count))
    info = np.finfo(dtype)
    edge = np.array([info.max, info.tiny, info.smallest_subnormal, info.max / 3, info.tiny / 64])
    ends = (edge[:, None] + 1j * np.array([0.0, -1.0, 1.0]) * edge[:, None]).reshape(-1)
    return np.concatenate([far, near, middle, ends, 1j * ends]).astype(dtype)


@pytest.mark.skipif(np.finfo(np.longdouble).eps >= np.finfo(float).eps, reason="no wider numbers")
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_accuracy(name: str, dtype: str) -> None:
    z = spread(dtype)
    with np.errstate(all="ignore"):
        got = computed(name, z)
        want = getattr(np, name)(z.astype(np.clongdouble))
        info = np.finfo(dtype)
        size = np.maximum(np.abs(want.real), np.abs(want.imag))
        usual = np.isfinite(want) & (size < info.max / 2) & (size > info.tiny)
        error = np.abs(got - want)[usual] / np.abs(want)[usual]
    assert usual.mean() > 0.3
    assert error.max() <= WORST * info.eps, (z[usual][error.argmax()], error.max() / info.eps)
