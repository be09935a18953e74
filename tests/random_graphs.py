"""Random graphs over all ops, for tests that compare two ways to compute the same.

    @given(graphs())
    def test(graph: RandomGraph) -> None:
        expected = evaluated(graph.outputs, graph.feeds)

Graphs broadcast, share nodes, read a node twice, return inner nodes and the same node twice, and
contain views, reductions, filled constants, random draws and user functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from cases import SPECIAL
from random_steps import IMPURE, SHAPES, SMOOTH, STEPS, Step
from random_steps import _doubled as _doubled
from random_steps import _later as _later
from random_steps import _same as _same
from tawny.array import Array
from tawny.engine.reference import compute
from tawny.node import Node, Value, toposort
from tawny.shape import broadcast

DTYPES = ("float64", "float32", "float64", "int64", "int8", "uint8", "bool", "complex128")
SMOOTH_DTYPES = ("float64", "float32", "float64", "int64")
FILLS = (0, 1, -1, 2, 0.5, -0.0, 3, -2)


@dataclass(frozen=True)
class RandomGraph:
    """Outputs and values for the variables they depend on."""

    outputs: tuple[Node, ...]
    feeds: dict[Node, Value]

    def __repr__(self) -> str:
        order = toposort(self.outputs)
        number = {n: i for i, n in enumerate(order)}
        lines = [
            f"{i}: {n.op!r}({', '.join(str(number[s]) for s in n.inputs)}) {n.dtype}{list(n.shape)} {'' if n.value is None or n.inputs else n.value.tolist()}"
            for n, i in number.items()
        ]
        return "\n".join([*lines, f"outputs {[number[n] for n in self.outputs]}"])


def evaluated(outputs: Sequence[Node], feeds: dict[Node, Value], draw: int = 0) -> list[Value]:
    """Values by the reference kernels, each operand contiguous.

    NumPy's sums and products round by the layout of their operands; here layout says nothing.
    """
    values: dict[Node, Any] = dict(feeds)
    with np.errstate(all="ignore"):
        for node in toposort(outputs):
            if node in values:
                continue
            value = node.value
            if value is None or node.inputs:
                value = compute(node, [values[i] for i in node.inputs], draw)
            values[node] = value if node.parts else np.array(value, order="C")
    return [values[n] for n in outputs]


TIES = frozenset(
    {"maximum", "minimum", "fmax", "fmin", "relu", "clip", "max", "min", "max_pool", "sort"}
)
"""Ops for which NumPy gives 0.0 or -0.0, where both are there, by the layout of the operands."""


def decides_signs(outputs: Sequence[Node]) -> bool:
    """Whether the sign of every zero follows from the graph alone."""
    return not any(n.name in TIES for n in toposort(outputs))


def assert_same_bits(got: Sequence[Value], expected: Sequence[Value], signs: bool = True) -> None:
    """Equal shapes, dtypes and bits; NaN is NaN whatever its sign and payload.

    Without `signs`, those of zeros may differ, and so those of infinities.
    """
    for g, w in zip(got, expected, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        for a, b in zip(_floats(g), _floats(w), strict=True):
            if not signs and a.dtype.kind == "f":
                np.testing.assert_array_equal(np.abs(a), np.abs(b))
                continue
            np.testing.assert_array_equal(a, b)
            if a.dtype.kind == "f":
                np.testing.assert_array_equal(
                    np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b)
                )


def _floats(x: Value) -> tuple[Value, ...]:
    return (x.real, x.imag) if x.dtype.kind == "c" else (x,)


def assert_close(got: Sequence[Value], expected: Sequence[Value]) -> None:
    """Equal shapes and dtypes, and values up to rounding."""
    for g, w in zip(got, expected, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        if g.dtype.kind in "fc":
            narrow = g.dtype.itemsize <= (4 if g.dtype.kind == "f" else 8)
            tol = 1e-4 if narrow else 1e-9
            np.testing.assert_allclose(g, w, rtol=tol, atol=tol)
        else:
            np.testing.assert_array_equal(g, w)


# ------------------------------------------------------------------ generating


@st.composite
def graphs(
    draw: st.DrawFn,
    *,
    most: int = 14,
    smooth: bool = False,
    special: bool = True,
    impure: bool = True,
) -> RandomGraph:
    """Graphs of up to `most` steps.

    `smooth` ones hold no NaN or infinity, and are continuous in their inputs.  `special` feeds
    variables infinities, NaN and zeros of both signs.  `impure` allows draws and delays.
    """
    random = draw(st.randoms(use_true_random=False))
    steps = draw(st.integers(1, most))
    return Builder(random, smooth, special and not smooth, impure).graph(steps)


def graph_of(seed: int, steps: int, **options: bool) -> RandomGraph:
    """The graph that `seed` gives, without hypothesis: for tests over many."""
    settings = {"smooth": False, "special": True, "impure": True} | options
    if settings["smooth"]:
        settings["special"] = False
    return Builder(Random(seed), **settings).graph(steps)


class Builder:
    """Makes a graph step by step, from choices of `random`."""

    def __init__(self, random: Random, smooth: bool, special: bool, impure: bool) -> None:
        self.random = random
        self.smooth = smooth
        self.special = special
        self.pool: list[Array] = []
        self.feeds: dict[Node, Value] = {}
        self.shapes: Sequence[tuple[int, ...]] = SHAPES[:-1] if smooth else SHAPES
        self.largest = 4096
        self.makers: list[Step] = list(SMOOTH if smooth else STEPS)
        if impure:
            self.makers += IMPURE

    def graph(self, steps: int) -> RandomGraph:
        for _ in range(self.random.randint(1, 3)):
            self.pool.append(self.variable())
        for _ in range(steps):
            maker = self.choice(self.makers)
            try:
                made = maker(self)
            except (ValueError, TypeError, IndexError, OverflowError):
                continue  # the op refuses these operands
            if made.size <= self.largest:
                self.pool.append(made)
        count = self.random.randint(1, 3)
        outputs = [self.pool[-1], *(self.pick() for _ in range(count - 1))]
        return RandomGraph(tuple(a.node for a in outputs), self.feeds)

    def choice(self, items: Sequence[Any]) -> Any:
        """One of the items; where there is none, the step cannot be made."""
        return items[self.below(len(items))]

    def below(self, n: int) -> int:
        if n <= 0:
            raise ValueError("nothing to choose from")
        return self.random.randrange(n)

    def pick(self) -> Array:
        """One of the arrays so far, recent ones more often."""
        if self.random.random() < 0.5:
            return self.choice(self.pool[-4:])
        return self.choice(self.pool)

    def fitting(self, x: Array) -> Array:
        """An operand that broadcasts with `x`, often one that is made for it."""
        chance = self.random.random()
        if chance < 0.15:
            return x
        if chance < 0.5:
            return self.filled(x)
        candidates = [a for a in self.pool if _fits(x, a)]
        return self.choice(candidates)

    def filled(self, x: Array) -> Array:
        """A number, or a filled array of the shape of `x` or one that broadcasts with it."""
        value = self.choice(FILLS)
        dtype = x.dtype if not isinstance(value, float) else np.result_type(x.dtype, np.float16)
        if x.dtype.kind in "bu":
            value = abs(value)
        shapes = [(), x.shape, (1,) * x.ndim, (2, *x.shape)]
        shape = self.choice(shapes)
        if self.random.random() < 0.3:
            return tnp.asarray(np.full(shape, value).astype(dtype))
        return tnp.full(shape, value, dtype=dtype)

    def variable(self) -> Array:
        dtype = self.choice(SMOOTH_DTYPES if self.smooth else DTYPES)
        shape = self.choice(self.shapes)
        x = tw.var(f"x{len(self.feeds)}", shape=shape, dtype=dtype)
        self.feeds[x.node] = self.value(shape, np.dtype(dtype))
        return x

    def value(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Value:
        rng = np.random.default_rng(self.random.randint(0, 2**16))
        if dtype.kind == "b":
            return np.asarray(rng.random(shape) < 0.5)
        if dtype.kind in "iu":
            return np.asarray(rng.integers(0 if dtype.kind == "u" else -3, 4, shape)).astype(dtype)
        out = np.asarray(rng.uniform(-2, 2, shape))
        if dtype.kind == "c":
            out = out + 1j * rng.uniform(-2, 2, shape)
        if self.special and self.random.random() < 0.5 and out.size:
            flat = out.reshape(-1)
            flat[::2] = rng.choice(SPECIAL, flat[::2].shape)
            out = flat.reshape(shape)
        return np.asarray(out).astype(dtype)

    def axis(self, x: Array) -> int:
        return self.below(2 * x.ndim) - x.ndim

    def axes(self, x: Array) -> tuple[int, ...]:
        return tuple(a for a in range(x.ndim) if self.random.random() < 0.5)

    def matrix(self) -> Array:
        return self.choice([a for a in self.pool if a.ndim >= 2])


def _fits(x: Array, y: Array) -> bool:
    try:
        broadcast("", (x.shape, y.shape))
    except ValueError:
        return False
    return True
