"""What the tests of fusion share: running passes, comparing bits, small random graphs."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

import tawny.numpy as tnp
from tawny.array import Array
from tawny.engine.reference import run
from tawny.node import Node, Variable, toposort
from tawny.ops.creation import var
from tawny.rewrite.flow import Context, Flow, Pass, RuleInfo


class Ledger:
    """A recorder that keeps what it is told and allows all but some rules."""

    def __init__(self, off: Sequence[str] = ()) -> None:
        self.entries: list[tuple[str, tuple[Node, ...], tuple[Node, ...]]] = []
        self.off = off

    def allows(self, rule: RuleInfo) -> bool:
        return rule.name not in self.off

    def record(self, rule: RuleInfo, before: Sequence[Node], after: Sequence[Node]) -> None:
        self.entries.append((rule.name, tuple(before), tuple(after)))

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.entries]


def apply(*passes: Pass, outputs: Sequence[Array], off: Sequence[str] = ()) -> tuple[Flow, Ledger]:
    """The flow of `outputs` after passes, and what they recorded."""
    ledger = Ledger(off)
    flow = Flow(tuple(o.node for o in outputs))
    for step in passes:
        flow = step(flow, Context(run, ledger))
    return flow, ledger


def again(flow: Flow, *passes: Pass) -> tuple[Flow, Ledger]:
    """The flow after the passes once more."""
    ledger = Ledger()
    for step in passes:
        flow = step(flow, Context(run, ledger))
    return flow, ledger


def values(outputs: Sequence[Node], seed: int = 0) -> list[np.ndarray]:
    """The outputs for variables drawn by name, so that two graphs of the same variables agree."""
    feeds = {}
    for node in toposort(outputs):
        if isinstance(node.op, Variable):
            rng = np.random.default_rng([seed, *node.op.name.encode()])
            feeds[node] = rng.uniform(-2, 2, node.shape).astype(node.dtype)
    return run(outputs, feeds)


def assert_same_bits(before: Sequence[Node], after: Sequence[Node]) -> None:
    for old, new, a, b in zip(before, after, values(before), values(after), strict=True):
        assert (old.shape, old.dtype) == (new.shape, new.dtype)
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
        if a.dtype.kind == "f":
            whole = ~np.isnan(a)
            np.testing.assert_array_equal(np.signbit(a[whole]), np.signbit(b[whole]))


UNARY = ("sin", "tanh", "exp", "abs", "negative", "square", "sigmoid", "relu")
BINARY = ("add", "subtract", "multiply", "maximum", "divide")
REDUCTIONS = ("sum", "max", "mean", "var", "logsumexp", "min")
SHAPES = ((4, 6), (6,), (4, 1), (1, 6), (), (3, 4, 6), (4, 4), (6, 6), (1, 1))


def random_graph(seed: int, steps: int = 40) -> list[Array]:
    """Arrays over a few variables: elementwise, reductions, views, products, sharing."""
    rng = random.Random(seed)
    pool = [
        var(f"x{i}", shape=rng.choice(SHAPES), dtype=rng.choice(("float32", "float64")))
        for i in range(4)
    ]
    pool.append(tnp.asarray(np.linspace(-1, 1, 6, dtype="float32")))
    while len(pool) < steps:
        # mostly recent arrays, so that chains are long
        x = rng.choice(pool[-6:] if rng.random() < 0.7 else pool)
        y = rng.choice(pool[-6:] if rng.random() < 0.7 else pool)
        made = _random_step(rng, x, y)
        if made is not None:
            pool.append(made)
    return [*rng.sample(pool, rng.randint(1, 3)), pool[-1], pool[-1]]


def _random_step(rng: random.Random, x: Array, y: Array) -> Array | None:
    kind = rng.random()
    if kind < 0.3:
        return getattr(tnp, rng.choice(UNARY))(x)
    if kind < 0.6:
        try:
            z = getattr(tnp, rng.choice(BINARY))(x, y)
        except ValueError:
            return None
        return z if z.size <= 500 else None
    if kind < 0.75 and x.ndim:
        axes = tuple(rng.sample(range(x.ndim), rng.randint(1, x.ndim)))
        return getattr(tnp, rng.choice(REDUCTIONS))(x, axis=axes, keepdims=rng.random() < 0.6)
    if kind < 0.80:
        return tnp.astype(x, rng.choice(("float32", "float64")), copy=False)
    if kind < 0.84 and x.ndim:
        return tnp.permute_dims(x, tuple(reversed(range(x.ndim))))
    if kind < 0.88:
        return tnp.expand_dims(x, axis=rng.randint(0, x.ndim)) if x.ndim < 4 else None
    if kind < 0.91:
        return tnp.broadcast_to(x, (2, *x.shape)) if x.ndim < 3 else None
    if kind < 0.94 and x.ndim and y.ndim:
        try:
            return x @ y
        except ValueError:
            return None
    if kind < 0.97 and x.ndim:
        return x[..., :1] if rng.random() < 0.5 else tnp.flip(x)
    return tnp.where(x > 0, x, 0.5)
