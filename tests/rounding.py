"""How far rounding may move what a graph gives: fuzzers ask before they call a difference wrong.

A graph is computed by the reference engine again and again, and each time everything that is
rounded is moved a little, at random: results of elementwise ops that are not exact, operands of sums,
products, transforms and factorisations (which give what is exact for operands nearby).  What is added
or multiplied up is taken in another order, which may overflow on the way.  What follows
from such a move, a wild value or another choice, follows from rounding alone: systems that are nearly
singular, vectors of equal singular values, differences of nearly equal numbers.  A float that an
integer dtype cannot hold becomes any integer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tawny.engine.reference import Compute, compute, elementwise, run
from tawny.node import Node
from tawny.op import Elementwise, Op
from tawny.ops.bands import Bands
from tawny.ops.body import Body
from tawny.ops.creation import Cast, Linspace
from tawny.ops.cumulative import CumulativeProd, CumulativeSum
from tawny.ops.fused_products import FusedProduct, TransposedMatmul
from tawny.ops.fusion import Group
from tawny.ops.indexing import Scatter
from tawny.ops.pooling import AvgPool, AvgPoolGradient, Upsampling, UpsamplingGradient
from tawny.ops.reduction import Accumulation, LogSumExp, Mean, Prod, Sum, Var

EXACT = frozenset(
    "abs bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor ceil "
    "clip conj copysign equal floor fmax fmin gcd greater greater_equal heaviside imag isfinite isinf "
    "isnan lcm less less_equal logical_and logical_not logical_or logical_xor maximum minimum negative "
    "nextafter not_equal positive real relu rint sign signbit trunc where".split()
)
"""Elementwise ops that round nothing, the magnitude of complex numbers apart."""

ROUNDED_ONCE = frozenset(
    ("add", "subtract", "multiply", "square", "divide", "reciprocal", "sqrt", "fma")
)
"""Elementwise ops that are exact where a wider dtype gives the same."""

CHAPTERS = frozenset(
    "fft linalg einsum systems eigenvalues factorisation equations series convolution".split()
)
CALCULATIONS = (
    *(Sum, Prod, Mean, Var, LogSumExp, CumulativeSum, CumulativeProd, Linspace, Scatter),
    *(AvgPool, AvgPoolGradient, Upsampling, UpsamplingGradient),
    *(TransposedMatmul, FusedProduct),
)
"""Ops that add and multiply many numbers, beside all of some chapters."""

STEPS = 8.0
"""How many units in the last place a value is moved at most."""

TRIALS = 8
MARGIN = 64.0
"""A difference so many times the largest that was met counts as rounding."""


Outcome = Sequence[np.ndarray] | str
"""Values of outputs, or why there are none."""


def rounding_explains(
    outputs: Sequence[Node],
    feeds: Mapping[Node, np.ndarray],
    got: Outcome,
    expected: Outcome,
    seed: int = 0,
) -> bool:
    """Whether moves of rounded values lead from what is expected to something like what came.

    Where there are values on both sides, every element that differs must be one that moves, by not
    much less than the difference.  A system may be refused where the moves change its solution
    wholly.
    """
    exact = _attempt(outputs, feeds, compute)
    moved = [
        _attempt(outputs, feeds, _moving(np.random.default_rng([seed, n]))) for n in range(TRIALS)
    ]
    found = [trial for trial in moved if trial is not None]
    if isinstance(expected, str) or exact is None:
        return bool(found)
    spread = [_spread(e, [trial[i] for trial in found]) for i, e in enumerate(exact)]
    if isinstance(got, str):
        lost = [
            far.size and far.max() > np.abs(e).max() / 2
            for far, e in zip(spread, exact, strict=True)
        ]
        return len(found) < len(moved) or ("LinAlgError" in got and any(lost))
    return all(map(_reached, got, expected, spread))


def _attempt(
    outputs: Sequence[Node], feeds: Mapping[Node, np.ndarray], by: Compute
) -> list[np.ndarray] | None:
    try:
        return run(outputs, feeds, by=by)
    except Exception:
        return None


def _spread(exact: np.ndarray, moved: Sequence[np.ndarray]) -> np.ndarray:
    """How far each element is moved at most: infinitely far to what has no distance."""
    far = np.zeros(exact.shape)
    with np.errstate(all="ignore"):
        for trial in moved:
            if exact.dtype.kind in "fc":
                step = np.abs(trial - exact).astype(float)
                unlike = np.isfinite(trial) != np.isfinite(exact)
            else:
                step, unlike = np.zeros(exact.shape), trial != exact
            far = np.fmax(far, np.where(unlike, np.inf, step))
    return far


def _reached(got: np.ndarray, expected: np.ndarray, far: np.ndarray) -> bool:
    """Whether each element either is as expected or moves about as far."""
    with np.errstate(all="ignore"):
        same = got == expected
        if got.dtype.kind in "fc":
            same |= np.isnan(got) & np.isnan(expected)
            far = np.fmax(far, np.finfo(got.dtype).eps * np.abs(expected))
            same |= np.abs(got - expected) <= MARGIN * far
        return bool(np.all(same | (far == np.inf)))


def _moving(rng: np.random.Generator) -> Compute:
    """Kernels of the reference engine that move what they round."""

    def move(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(move(part) for part in value)
        if value.dtype.kind not in "fc":
            return value
        unit = np.finfo(value.dtype).eps * STEPS
        factor = 1 + unit * rng.uniform(-1, 1, value.shape)
        return np.asarray(value * factor).astype(value.dtype)

    def follow(body: Body, operands: Sequence[Any], draw: int) -> Any:
        values = list(operands)
        for step in body.steps:
            node = Node(step.op, (), *step.type, sources=())
            values.append(by(node, [values[i] for i in step.inputs], draw))
        found = tuple(values[r] for r in body.results)
        return found[0] if len(found) == 1 else found

    def by(node: Node, operands: Sequence[Any], draw: int) -> Any:
        op = node.op
        if isinstance(op, (Group, Bands)):
            return follow(op.body, operands, draw)
        if isinstance(op, Cast):
            return _any_integer(compute(node, operands, draw), operands[0], rng)
        if isinstance(op, Elementwise):
            result = compute(node, operands, draw)
            return np.where(_is_exact(op, operands, result), result, move(result))
        if isinstance(op, CALCULATIONS) or type(op).__module__.rpartition(".")[2] in CHAPTERS:
            operands = [move(value) for value in operands]
            if isinstance(op, Accumulation):
                operands = [_reordered(value, op.axes, rng) for value in operands]
            return move(compute(node, operands, draw))
        return compute(node, operands, draw)

    return by


def _reordered(value: np.ndarray, axes: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """The same elements to be added up over `axes`, in another order."""
    for axis in axes:
        value = rng.permutation(value, axis=axis)
    return value


def _any_integer(result: np.ndarray, given: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Integers, of which those that stand for no float in their range are any."""
    if result.dtype.kind not in "iu" or given.dtype.kind != "f":
        return result
    low, high = float(np.iinfo(result.dtype).min), float(np.iinfo(result.dtype).max)
    whole = np.trunc(given.astype(float))
    outside = ~((whole >= low) & (whole <= high))
    drawn = rng.integers(0, 256, (*result.shape, result.dtype.itemsize), dtype=np.uint8)
    return np.where(outside, drawn.view(result.dtype)[..., 0], result)


def _is_exact(op: Op, operands: Sequence[Any], result: np.ndarray) -> Any:
    """Where an elementwise op rounds nothing."""
    name = op.facts().name
    if result.dtype.kind not in "fc":
        return True
    if name in EXACT:
        return name != "abs" or operands[0].dtype.kind != "c"
    if name not in ROUNDED_ONCE or not isinstance(op, Elementwise):
        return False
    wide = np.clongdouble if result.dtype.kind == "c" else np.longdouble
    return elementwise.compute(op, [np.asarray(v, wide) for v in operands]) == result
