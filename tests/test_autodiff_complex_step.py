"""Slopes against the complex step: `imag f(x + ih) / h` is the derivative with nothing cancelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.op import Elementwise
from tawny.operator import emit
from test_autodiff_elementwise import SHAPES, SMOOTH, sample

STEP = 1e-30
BENT = {"abs", "angle", "conj", "imag", "real", "sign", "distance"}
"""Functions of complex numbers that have no complex derivative."""

ANALYTIC = [
    op for op in SMOOTH if np.dtype("c16") in op.info.dtype.loops and op.info.name not in BENT
]


def check(function: Callable[..., Any], args: Sequence[np.ndarray]) -> None:
    """The derivative along one direction for each argument, in both modes."""
    rng = np.random.default_rng(3)
    for position, x in enumerate(args):
        along = rng.uniform(-1, 1, x.shape)

        def at(moved: Any, position: int = position) -> Any:
            return function(*args[:position], moved, *args[position + 1 :])

        expected = tw.evaluate(at(tnp.asarray(x + 1j * STEP * along))).imag / STEP
        value, forward = tw.jvp(at, (x,), (along,))
        np.testing.assert_allclose(forward.numpy(), expected, rtol=1e-9, atol=1e-12)
        weights = rng.uniform(-1, 1, value.shape)
        _, back = tw.vjp(at, x)
        (slope,) = back(weights)
        np.testing.assert_allclose(
            np.sum(slope.numpy() * along), np.sum(expected * weights), rtol=1e-9, atol=1e-11
        )


@pytest.mark.parametrize("op", ANALYTIC, ids=str)
def test_elementwise(op: Elementwise) -> None:
    rng = np.random.default_rng(11)
    for shapes in SHAPES[op.info.arity or 1]:
        args = [sample(op, s, rng, "f") for s in shapes]
        if op.info.name == "where":
            condition = rng.random(shapes[0]) < 0.5
            check(lambda *xs, condition=condition: tnp.where(condition, *xs), args[1:])
        else:
            check(lambda *xs: emit(op, *xs), args)


SQUARE = np.random.default_rng(5).uniform(-1, 1, (4, 4)) + 3 * np.eye(4)
WIDE = np.random.default_rng(6).uniform(0.5, 1.5, (4, 6))

FUNCTIONS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "matmul": (tnp.matmul, [SQUARE, WIDE]),
    "einsum": (lambda a, b: tnp.einsum("ij,kj->ik", a, b), [WIDE, 2 * WIDE]),
    "inv": (tnp.linalg.inv, [SQUARE]),
    "solve": (tnp.linalg.solve, [SQUARE, WIDE]),
    "det": (tnp.linalg.det, [SQUARE]),
    "sum": (lambda x: tnp.sum(x, axis=0), [WIDE]),
    "prod": (lambda x: tnp.prod(x, axis=1), [WIDE]),
    "mean": (lambda x: tnp.mean(x, axis=(0, 1)), [WIDE]),
    "cumulative_sum": (lambda x: tnp.cumulative_sum(x, axis=1), [WIDE]),
    "cumulative_prod": (lambda x: tnp.cumulative_prod(x, axis=1), [WIDE]),
    "concat": (lambda x, y: tnp.concat([x, y * y], axis=0), [WIDE, WIDE]),
    "gather": (lambda x: tnp.take(x * x, np.array([3, 0, 0]), axis=0), [WIDE]),
    "set": (lambda x, v: (x + tnp.sum(v)).at[1:3].set(v * v + x[:2]), [WIDE, WIDE[1:3]]),
    "add": (
        lambda x, v: (x + tnp.sum(v)).at[np.array([1, 1])].add(v * v + x[:2]),
        [WIDE, WIDE[1:3]],
    ),
    "conv1d": (tnp.conv1d, [WIDE[:, :, None], SQUARE[:3, :1, None] * np.ones((1, 1, 2))]),
    "kron": (tnp.kron, [SQUARE, WIDE]),
    "composition": (
        lambda x, w: tnp.sin(tnp.tanh(x @ w) * x[0]) / (1 + tnp.exp(-x)),
        [SQUARE, SQUARE],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function, args = FUNCTIONS[name]
    check(function, args)
