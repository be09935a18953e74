"""Slopes of elementwise ops: every row of the table against differences, at edges and behind masks."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.autodiff.elementwise_rules import BINARY, UNARY
from tawny.node import toposort
from tawny.op import ELEMENTWISE, Elementwise, Gradient
from tawny.operator import emit
from tawny.scalar import LOCALLY_CONSTANT, Prim
from tawny.testing import check_grads

SMOOTH = [
    op
    for op in ELEMENTWISE.values()
    if op.info.gradient not in (Gradient.ZERO, Gradient.NONE)
    and np.dtype("f8") in op.info.dtype.loops
]
SHAPES = {
    1: [((3, 4),)],
    2: [((3, 4), (3, 4)), ((3, 1), (4,)), ((2, 3), ())],
    3: [((3, 4), (4,), (3, 1))],
}


def sample(
    op: Elementwise, shape: tuple[int, ...], rng: np.random.Generator, kind: str
) -> np.ndarray:
    """Numbers well inside the op's domain, away from where it bends."""
    low, high = op.info.domain.low, op.info.domain.high
    low, high = low + 0.06 * (high - low), high - 0.06 * (high - low)
    x = rng.uniform(low, high, shape)
    if kind == "c":
        return 0.4 * x + 0.3j * rng.uniform(-1, 1, shape)
    return x


DIVIDING = {"divide", "quiet_divide", "remainder", "fmod"}
"""Ops that are too steep for differences near zero."""

CASES = [(op, shapes) for op in SMOOTH for shapes in SHAPES[op.info.arity or 1]]


@pytest.mark.parametrize(("op", "shapes"), CASES, ids=lambda x: str(x))
def test_slopes_agree_with_differences(
    op: Elementwise, shapes: tuple[tuple[int, ...], ...]
) -> None:
    rng = np.random.default_rng(7)
    args = [sample(op, s, rng, "f") for s in shapes]
    if op.info.name in DIVIDING:
        args[1] = args[1] + np.copysign(1.0, args[1])
    if op.info.name == "where":
        condition = rng.random(shapes[0]) < 0.5
        check_grads(lambda *xs: tnp.where(condition, *xs), args[1:])
    else:
        check_grads(lambda *xs: emit(op, *xs), args)


@pytest.mark.parametrize(
    "op",
    [op for op in SMOOTH if np.dtype("c16") in op.info.dtype.loops and op.info.name != "where"],
    ids=repr,
)
def test_slopes_of_complex_numbers_agree_with_differences(op: Elementwise) -> None:
    rng = np.random.default_rng(11)
    args = [sample(op, (5,), rng, "c") for _ in range(op.info.arity or 1)]
    check_grads(lambda *xs: emit(op, *xs), args, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", SMOOTH, ids=repr)
def test_slopes_behind_where_are_the_same(op: Elementwise) -> None:
    """The arithmetic that keeps zero slopes zero changes nothing else, in any order."""
    rng = np.random.default_rng(13)
    args = [sample(op, (6,), rng, "f") for _ in range(op.info.arity or 1)]
    if op.info.name in DIVIDING:
        args[1] = args[1] + np.copysign(1.0, args[1])
    fixed = [args.pop(0) > 0] if op.info.name == "where" else []
    check_grads(lambda *xs: tnp.where(np.arange(6) < 4, emit(op, *fixed, *xs), 0.0), args)


def test_every_primitive_is_answered_for() -> None:
    assert set(UNARY) | set(BINARY) | LOCALLY_CONSTANT | {Prim.SELECT} == set(Prim)
    assert not set(UNARY) & set(BINARY)
    assert not LOCALLY_CONSTANT & (set(UNARY) | set(BINARY))


# --------------------------------------------------------------- edges and ties


def slope(function: object, *at: float, argnums: int = 0) -> float:
    return float(tw.grad(function, argnums)(*at).numpy())


def test_where_hides_what_the_other_branch_does() -> None:
    assert slope(lambda x: tnp.where(x > 0, tnp.sqrt(x), 0.0), 0.0) == 0
    assert slope(lambda x: tnp.where(x > 0, tnp.log(x), x), -1.0) == 1
    assert slope(lambda x: tnp.where(x != 0, tnp.sin(x) / x, 1.0), 0.0) == 0
    assert slope(lambda x: tnp.where(x > 0, x * tnp.log(x), 0.0), 0.0) == 0
    assert slope(lambda x: tnp.where(x < 1, x, x ** tnp.asarray(-0.5) / (x - 1)), 0.0) == 1
    assert math.isfinite(slope(lambda x: tnp.where(x > 0, tnp.exp(1e3 / x), x), 0.0))


def test_a_slope_that_happens_to_be_zero_still_has_a_slope() -> None:
    """Second derivatives behind `where`, where the first is zero."""

    def function(x: tw.Array) -> tw.Array:
        return tnp.where(x < 5, tnp.sin(x) ** 2, 0.0)

    assert slope(tw.grad(function), 0.0) == pytest.approx(2.0)


def test_ties_and_edges() -> None:
    assert slope(tnp.sqrt, 0.0) == math.inf
    assert slope(tnp.abs, 0.0) == 0
    assert slope(tnp.relu, 0.0) == 0
    assert (slope(tnp.maximum, 1.0, 1.0), slope(tnp.maximum, 1.0, 1.0, argnums=1)) == (0, 1)
    assert (slope(tnp.minimum, 1.0, 1.0), slope(tnp.minimum, 1.0, 1.0, argnums=1)) == (0, 1)
    assert slope(tnp.fmax, 1.0, math.nan) == 1
    assert slope(tnp.hypot, 0.0, 0.0) == 0
    assert slope(tnp.softplus, 0.0) == pytest.approx(0.5)
    assert slope(tnp.logaddexp, 2.0, 2.0) == pytest.approx(0.5)
    assert slope(tnp.logaddexp, -math.inf, -math.inf) == 1
    assert slope(lambda x: x**2, 0.0) == 0
    assert slope(lambda x: x**0, 0.0) == 0
    assert slope(lambda x: x**1, 0.0) == 1
    assert slope(tnp.pow, 0.0, 0.0, argnums=0) == 0
    assert slope(tnp.pow, 0.0, 2.0, argnums=1) == 0
    assert slope(tnp.sigmoid, 800.0) == 0
    assert slope(lambda x: tnp.clip(x, 0.0, 1.0), 2.0) == 0


def test_the_slope_has_the_operands_dtype() -> None:
    x = np.ones(3, np.float32)
    assert tw.grad(lambda x: tnp.sum(x * np.ones(3)))(x).dtype == np.float32
    assert tw.grad(lambda x: tnp.sum(tnp.real(x * 2j)))(x).dtype == np.float32
    half = tw.grad(lambda x: tnp.sum(tnp.exp(x)))(np.ones(3, np.float16))
    assert half.dtype == np.float16


def test_what_has_no_derivative_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"grad: nextafter has no derivative; .*tw\.stop_gradient"):
        tw.grad(lambda x: tnp.nextafter(x, 2.0))(1.0)


def test_steps_have_zero_slopes() -> None:
    assert slope(lambda x: tnp.floor(x) * x, 2.5) == 2
    assert slope(tnp.sign, 2.5) == 0
    assert slope(lambda x: x * (x > 1), 2.0) == 1


@pytest.mark.parametrize(
    "function",
    [tnp.relu, lambda x: tnp.maximum(x, 0.0), lambda x: tnp.minimum(x, 1.0)],
    ids=["relu", "maximum", "minimum"],
)
def test_what_is_cut_off_is_told_from_the_result(function) -> None:
    """So that a layer's sum before its relu need not be kept for the backward pass."""
    x = tw.var("x", shape=(5,))
    before = x * 3.0
    (slope,) = tw.gradients(tnp.sum(function(before)), [x])
    readers = [n for n in toposort([slope.node]) if before.node in n.inputs]
    assert [n.name for n in readers] == [function(before).node.name]
