"""Nodes of every op, with values of their operands, and a batch of each made of these."""

from __future__ import annotations

import itertools
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import tawny as tw
import tawny.numpy as tnp
from tawny.array import Array, wrap
from tawny.engine.reference import run
from tawny.node import Constant, Node, Part, Variable, make, part, toposort, variable
from tawny.op import ELEMENTWISE
from tawny.ops.boxes import non_maximum_suppression, suppression_by_class
from tawny.ops.pieces import GatherPieces
from test_functions import CASES

COUNT = 3
"""The size of a batch."""

MOST_NODES = 200
"""Nodes of an op that are tried; those with other attributes first."""

SORTED = {"searchsorted": 0, "digitize": 1}
"""Operands that must stay sorted."""

RNG = np.random.default_rng(11)
BOXES = np.sort(RNG.uniform(0, 1, (6, 2, 2)), axis=1).reshape(6, 4)
KERNEL = RNG.uniform(-1, 1, (3, 2, 4))

MORE: list[tuple[Any, list[np.ndarray]]] = [
    (lambda h, x, w: tw.scan(lambda c, r: (tnp.tanh(c @ w + r), (c * r, r)), h, x, reverse=True)[1],
     [RNG.uniform(-1, 1, (3,)), RNG.uniform(-1, 1, (4, 3)), RNG.uniform(-1, 1, (3, 3))]),
    (lambda n, x: tw.while_loop(lambda c: tnp.sum(c) < 9, lambda c: c * 2 + n, x), [np.asarray(0.5), np.ones(3)]),
    (lambda x, y: tw.cond(x[0] > 0, lambda a: (a * y, a[0]), lambda a: (y, a[1]), x),
     [RNG.uniform(-1, 1, (3,)), RNG.uniform(-1, 1, (3,))]),
    (lambda x, y: tw.switch(1, [lambda a: a, lambda a: a * y], x),
     [RNG.uniform(-1, 1, (3,)), RNG.uniform(-1, 1, (3,))]),
    (lambda h, x: tw.scan(lambda c, r: ((c[0] + 1, c[1] * r), c[0]), (0.0, h), x)[0][1],
     [RNG.uniform(-1, 1, (3,)), RNG.uniform(-1, 1, (4, 3))]),
    (lambda x, k: tw.vjp(lambda a, b: tnp.conv1d(a, b, padding="SAME"), x, k)[1](x @ np.ones((2, 4))),
     [RNG.uniform(-1, 1, (2, 5, 2)), KERNEL]),
    (lambda x, k: tw.vjp(lambda a, b: tnp.conv1d(a, b, strides=2, groups=2), x, k)[1](np.ones((2, 3, 4))),
     [RNG.uniform(-1, 1, (2, 7, 4)), KERNEL]),
    (tw.grad(lambda x: tnp.sum(tnp.max_pool1d(x, 3, stride=1) ** 2)), [RNG.uniform(-1, 1, (2, 6, 1))]),
    (tw.grad(lambda x: tnp.sum(tnp.avg_pool1d(x, 2) ** 2)), [RNG.uniform(-1, 1, (2, 6, 1))]),
    (tw.grad(lambda x: tnp.sum(tnp.upsampling1d(x, 2) ** 2)), [RNG.uniform(-1, 1, (2, 3, 1))]),
    (tw.hessian(lambda x: tnp.sum(tnp.max_pool1d(x, 2) ** 2)), [RNG.uniform(-1, 1, (1, 4, 1))]),
    (tw.grad(tw.checkpoint(lambda x: tnp.sum(tnp.sin(tnp.sin(x))))), [RNG.uniform(-1, 1, (4,))]),
    (lambda b, s: non_maximum_suppression(b, s, 3, 0.3), [BOXES, RNG.uniform(0, 1, 6)]),
    (lambda b, s, c: suppression_by_class(b, s, c, 3, 0.3), [BOXES, RNG.uniform(0, 1, 6), np.arange(6) % 3]),
    (lambda x, y, i: wrap(make(GatherPieces(2), (x.node, y.node, i.node))),
     [RNG.uniform(-1, 1, (2, 3)), RNG.uniform(-1, 1, (3, 3)), np.array([4, 0, 1])]),
    (lambda x, y: tnp.einsum("ab,bc->ac", x, y), [RNG.uniform(-1, 1, (2, 3)), RNG.uniform(-1, 1, (3, 2))]),
    (lambda x: tnp.argmax(x, keepdims=True), [RNG.uniform(-1, 1, (2, 3))]),
    (lambda x, y: tnp.linspace(x, y, 4), [np.array(1.0), np.array(3.0)]),
    (lambda x, y: tnp.linspace(x, y, 4, endpoint=False, dtype=int), [np.array(1), np.array(9)]),
]  # fmt: skip
"""Calls whose nodes are in no case."""


class NodeCase(NamedTuple):
    """A node on variables, and values of these."""

    node: Node
    values: tuple[np.ndarray, ...]

    @property
    def name(self) -> str:
        return self.node.op.facts().name

    @property
    def results(self) -> list[Node]:
        count = len(self.node.parts)
        return [part(self.node, i) for i in range(count)] if count else [self.node]

    def batches(self) -> list[np.ndarray]:
        """For each operand a batch, of which the first is its value."""
        return [
            np.stack([_change(x, k, SORTED.get(self.name) == i) for k in range(COUNT)])
            for i, x in enumerate(self.values)
        ]

    def masks(self) -> Iterator[tuple[bool, ...]]:
        """Which operands are batched: all choices where they are few, else one alone or all."""
        n = len(self.values)
        for mask in itertools.product((True, False), repeat=n):
            if any(mask) and (n <= 3 or sum(mask) in (1, n)):
                yield mask


def _change(x: np.ndarray, k: int, stays_sorted: bool) -> np.ndarray:
    """Another value that an operand may have: scaled, or the same integers in another order."""
    if x.dtype.kind in "fc":
        return (x * (1 + k / 8)).astype(x.dtype)
    return x if stays_sorted else np.roll(x.reshape(-1), k).reshape(x.shape)


def _arrays(result: Any) -> list[Array]:
    if isinstance(result, (tuple, list)):
        return [a for x in result for a in _arrays(x)]
    return [result] if isinstance(result, Array) else []


def _calls() -> Iterator[tuple[Any, list[np.ndarray]]]:
    for call, values in MORE:
        yield call, values
    for _, case in CASES:
        for dtype in case.dtypes:
            yield (lambda *x, case=case: case.call(tnp, *x)), case.operands(dtype)
    for op in ELEMENTWISE.values():
        for dtype in ("float32", "float64", "int32", "bool"):
            values = [
                RNG.uniform(op.info.domain.low, op.info.domain.high, s) for s in ((2, 3), (3,), ())
            ]
            yield (
                lambda *x, op=op: _elementwise(op, x),
                [v.astype(dtype) for v in values[: op.info.arity]],
            )


def _elementwise(op: Any, operands: Sequence[Array]) -> Array:
    return wrap(make(op, tuple(x.node for x in operands)))


def node_cases() -> list[NodeCase]:
    """Nodes of every op that some case makes."""
    found: dict[str, dict[Any, NodeCase]] = defaultdict(dict)
    for call, values in _calls():
        inputs = [tw.var(shape=x.shape, dtype=x.dtype) for x in values]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                made = _arrays(call(*inputs))
            except TypeError:  # needs values, or takes no such dtype
                continue
            _note(made, dict(zip([x.node for x in inputs], values, strict=True)), found)
    return [case for cases in found.values() for case in list(cases.values())[:MOST_NODES]]


def _note(made: list[Array], values: dict[Node, Any], found: Any) -> None:
    """Note the nodes on the way to some arrays."""
    new = []
    for node in toposort([a.node for a in made]):
        known = found[node.op.facts().name]
        kind = (
            type(node.op).__name__,
            repr(node.op),
            len(node.inputs[0].shape) if node.inputs else 0,
        )
        if isinstance(node.op, (Variable, Constant, Part)) or not node.inputs:
            continue
        if kind not in known and len(known) < MOST_NODES:
            known[kind] = node
            new.append((known, kind, node))
    if not new:
        return
    wanted = list(dict.fromkeys(x for _, _, node in new for x in node.inputs))
    try:
        computed = dict(zip(wanted, run(wanted, values), strict=True))
    except (ValueError, IndexError, FloatingPointError):
        for known, kind, _ in new:
            del known[kind]
        return
    for known, kind, node in new:
        given = tuple([np.asarray(computed[x]) for x in node.inputs])
        holders = tuple([variable(None, x.shape, x.dtype) for x in given])
        known[kind] = NodeCase(make(node.op, holders), given)
