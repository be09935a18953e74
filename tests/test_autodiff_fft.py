"""Derivatives of Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from gradient_cases import Row
from gradient_rows import (
    Function,
    both,
    check,
    drawn,
    joined,
    named,
    of_real,
    rows,
    unchecked,
)
from tawny.node import toposort
from tawny.testing import check_grads

NORMS = ("backward", "ortho", "forward")
POINTS = (None, 1, 2, 3, 4, 7, 8)
SEVERAL: list[tuple[Any, Any]] = [
    (None, (0, 1, 2)),
    ((3, 6), (1, 2)),
    ((7, 2), (0, 2)),
    (None, (2, 0)),
    ((5, 4, 3), (0, 1, 2)),
    ((4,), (1,)),
]
TWICE: list[tuple[Any, Any]] = [((5, 4), (1, 1)), ((3, 5, 4), (2, 0, 2)), (None, (2, 2))]
"""An axis that is named twice is transformed twice."""

OF_COMPLEX = ("fft", "ifft", "irfft", "hfft")
OF_REAL = ("rfft", "ihfft")


def transform(name: str, **options: Any) -> Function:
    function = named(f"fft.{name}")
    return lambda x: function(x, **options)


def one_axis(name: str, n: int | None, axis: int, norm: str) -> list[Row]:
    make = of_real if name in OF_REAL else both
    title = f"{name} n={n} axis={axis} {norm}"
    return make(title, transform(name, n=n, axis=axis, norm=norm), (4, 5))


def several(name: str, sizes: Any, axes: Any, norm: str) -> list[Row]:
    make = of_real if name == "rfftn" else both
    title = f"{name} s={sizes} axes={axes} {norm}"
    return make(title, transform(name, s=sizes, axes=axes, norm=norm), (2, 3, 5))


ROWS = joined(
    *(
        one_axis(name, n, axis, norm)
        for name in OF_COMPLEX + OF_REAL
        for n, axis in [*((n, -1) for n in POINTS), (6, 0)]
        for norm in (NORMS if n in (None, 7, 8) else NORMS[:1])
    ),
    *(
        several(name, sizes, axes, norm)
        for name in ("fftn", "ifftn", "rfftn", "irfftn")
        for sizes, axes in SEVERAL + TWICE
        for norm in (NORMS if sizes == (7, 2) else NORMS[1:2])
    ),
    *(both(name, named(f"fft.{name}"), (3, 4)) for name in ("fft2", "ifft2", "irfft2")),
    both("irfft2 cut", lambda x: tnp.fft.irfft2(x, s=(2, 7)), (3, 4)),
    of_real("rfft2", tnp.fft.rfft2, (3, 4)),
    of_real("rfft2 padded", lambda x: tnp.fft.rfft2(x, s=(5, 7)), (3, 4)),
    both("fftn of no axis", lambda x: tnp.fft.fftn(x, axes=()), (3,)),
    both("fftshift", tnp.fft.fftshift, (3, 4)),
    both("ifftshift", lambda x: tnp.fft.ifftshift(x, axes=1), (3, 5)),
    both("fft of strides", lambda x: tnp.fft.fft(x.T[::2, ::-1], axis=0), (4, 5)),
    of_real("rfft of strides", lambda x: tnp.fft.rfft(x.T[::2, ::-1], axis=0), (4, 5)),
    both("fft of none", lambda x: tnp.fft.fft(x, n=3), (0, 4)),
    both("fft of an empty axis", lambda x: tnp.fft.fft(x, n=3), (2, 0)),
    of_real("rfft of an empty axis", lambda x: tnp.fft.rfft(x, n=3), (2, 0)),
    both("irfft of an empty axis", lambda x: tnp.fft.irfft(x, n=3), (2, 0)),
)


@rows(ROWS)
def test_transforms(function: Function, args: tuple[Any, ...]) -> None:
    check(function, args)


def test_every_public_function_is_checked() -> None:
    """But for those that take no array."""
    assert unchecked(ROWS, "fft") == ["fft.fftfreq", "fft.rfftfreq"]


@pytest.mark.parametrize(("sizes", "axes"), TWICE)
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_an_axis_named_twice_is_transformed_twice(name: str, sizes: Any, axes: Any) -> None:
    x = drawn(2, 3, 5)
    got = transform(name, s=sizes, axes=axes)(tnp.asarray(x))
    expected = getattr(np.fft, name)(x, s=sizes, axes=axes)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("fft", "float32"), ("fft", "complex64"), ("rfft", "float32"), ("irfft", "complex64")],
)
def test_single_precision(name: str, dtype: str) -> None:
    x = drawn(2, 5, dtype=dtype)
    check_grads(named(f"fft.{name}"), (x,), order=1)
    slope = tw.grad(lambda z: tnp.sum(tnp.abs(named(f"fft.{name}")(z))))(x)
    assert slope.dtype == np.dtype(dtype)


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft"])
def test_a_slope_takes_one_transform_of_the_same_length(name: str) -> None:
    x = tw.var("x", (64,), dtype="complex128" if name == "irfft" else "float64")
    (slope,) = tw.gradients(tnp.sum(tnp.square(tnp.abs(named(f"fft.{name}")(x)))), [x])
    names = [n.name for n in toposort([slope.node])]
    assert len([n for n in names if "fft" in n]) == 2
    assert ("fft" in names) == (name == "fft")
