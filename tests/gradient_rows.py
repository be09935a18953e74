"""Rows for functions of matrices and images: drawn by shape, for real and complex numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny.numpy as tnp
from gradient_cases import Row, bent
from tawny.methods import PUBLIC_FUNCTIONS
from tawny.testing import check_grads

Function = Callable[..., Any]
Shape = tuple[int, ...]


def drawn(*shape: int, dtype: str = "float64", seed: int = 11) -> np.ndarray:
    """Numbers of sizes between a half and one and a half: away from the kinks at zero."""
    rng = np.random.default_rng((seed, *shape))
    x = rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape)
    if np.dtype(dtype).kind == "c":
        x = x * np.exp(1j * rng.uniform(0, 2, shape))
    return np.asarray(x, dtype)


def regular(*shape: int, dtype: str = "float64", seed: int = 11) -> np.ndarray:
    """Matrices with distinct singular values away from zero; vectors as `drawn`."""
    x = drawn(*shape, dtype=dtype, seed=seed)
    if len(shape) > 1:
        x *= 0.3
        for i in range(min(shape[-2:])):
            x[..., i, i] += 1 + 0.8 * i
    return x


def both(
    name: str, function: Function, *shapes: Shape, draw: Callable[..., np.ndarray] = drawn
) -> list[Row]:
    """A row for real numbers and one for complex ones; the name begins with the function's."""
    listed = " ".join(map(str, shapes))
    return [
        Row(
            f"{name} {listed} {dtype}",
            function,
            tuple(draw(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes)),
        )
        for dtype in ("float64", "complex128")
    ]


def of_real(name: str, function: Function, *shapes: Shape) -> list[Row]:
    """A row for real numbers."""
    return both(name, function, *shapes)[:1]


def of_regular(name: str, function: Function, *shapes: Shape) -> list[Row]:
    """As `both`, for matrices that are `regular`."""
    return both(name, function, *shapes, draw=regular)


def joined(*tables: list[Row]) -> list[Row]:
    """The rows of several tables."""
    return [row for table in tables for row in table]


def unchecked(table: list[Row], *chapters: str) -> list[str]:
    """Public functions of some chapters of `tawny.ops` and `tawny.numpy` that no row is about."""
    about = {name.split()[0].rstrip(",").rpartition(".")[2] for name, _, _ in table}
    modules = {f"tawny.{home}.{c}" for home in ("ops", "numpy") for c in chapters}
    return sorted(
        name
        for name, function in PUBLIC_FUNCTIONS.items()
        if function.__module__ in modules
        and {name.rpartition(".")[2], function.__name__}.isdisjoint(about)
    )


def rows(table: list[Row]) -> Any:
    """One test for each row, named by it."""
    return pytest.mark.parametrize(
        ("function", "args"), [pytest.param(f, a, id=name) for name, f, a in table]
    )


def check(function: Function, args: tuple[Any, ...]) -> None:
    """First and second derivatives, in both modes, against differences."""
    check_grads(bent(function), args, order=2, rtol=1e-6, atol=1e-6)


def named(name: str) -> Function:
    """A public function of `tawny.numpy` or a submodule."""
    found: Any = tnp
    for part in name.split("."):
        found = getattr(found, part)
    return found


def adjoint(x: Any) -> Any:
    return tnp.conj(tnp.matrix_transpose(x))
