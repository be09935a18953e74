"""Tables of functions whose derivatives are checked: rows of a name, a function and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny.numpy as tnp
from tawny.testing import check_grads

RNG = np.random.default_rng(11)
Function = Callable[..., Any]
Row = tuple[str, Function, tuple[Any, ...]]
Shape = tuple[int, ...]


def drawn(*shape: int, dtype: str = "float64") -> np.ndarray:
    """Numbers of sizes between a half and one and a half: away from the kinks at zero."""
    x = RNG.uniform(0.5, 1.5, shape) * RNG.choice([-1, 1], shape)
    if np.dtype(dtype).kind == "c":
        x = x * np.exp(1j * RNG.uniform(0, 2, shape))
    return np.asarray(x, dtype)


def regular(*shape: int, dtype: str = "float64") -> np.ndarray:
    """Matrices with distinct singular values away from zero; vectors as `drawn`."""
    x = drawn(*shape, dtype=dtype)
    if len(shape) > 1:
        x *= 0.3
        for i in range(min(shape[-2:])):
            x[..., i, i] += 1 + 0.8 * i
    return x


def both(
    name: str, function: Function, *shapes: Shape, draw: Callable[..., np.ndarray] = drawn
) -> list[Row]:
    """A row for real numbers and one for complex ones."""
    listed = " ".join(map(str, shapes))
    return [
        (f"{name} {listed} {dtype}", function, tuple(draw(*s, dtype=dtype) for s in shapes))
        for dtype in ("float64", "complex128")
    ]


def of_regular(name: str, function: Function, *shapes: Shape) -> list[Row]:
    """As `both`, for matrices that are `regular`."""
    return both(name, function, *shapes, draw=regular)


def joined(*tables: list[Row]) -> list[Row]:
    """The rows of several tables."""
    return [row for table in tables for row in table]


def rows(table: list[Row]) -> Any:
    """One test for each row, named by it."""
    return pytest.mark.parametrize(
        ("function", "args"), [pytest.param(f, a, id=name) for name, f, a in table]
    )


def check(function: Function, args: tuple[Any, ...]) -> None:
    """First and second derivatives, in both modes, against differences."""
    check_grads(function, args, order=2, rtol=1e-6, atol=1e-6)


def named(name: str) -> Function:
    """A public function of `tawny.numpy` or a submodule."""
    found: Any = tnp
    for part in name.split("."):
        found = getattr(found, part)
    return found


def adjoint(x: Any) -> Any:
    return tnp.conj(tnp.matrix_transpose(x))
