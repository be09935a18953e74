"""Constants: what depends on them alone is computed once, and equal ones become one node.

Never folded: what would be large, or made of what is larger still, what repeats a smaller constant,
what differs from run to run, and loops, which may take long.  `broadcast_to` of a constant stays as
it is; elementwise work on it is done on the constant and broadcast afterwards (see `broadcasting`).

Small constants are interned by their content as they are made.  Large ones are compared here: first
by dtype and shape, then by a few of their elements, and only where all that is equal by a hash of
the whole content.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from hashlib import blake2b
from itertools import chain
from typing import Final

import numpy as np

from tawny.node import MOST_INTERNED_BYTES, Constant, Node, Part, Value, constant, source_scope
from tawny.op import Elementwise, Trait
from tawny.ops.creation import SOURCES, Cast
from tawny.ops.indexing import Pad
from tawny.ops.loops import BodyOp
from tawny.ops.movement import BroadcastTo, Transpose
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, sources_of
from tawny.rewrite.movement import MOVES
from tawny.rewrite.pattern import OF_CONSTANTS, Match, RewriteRule
from tawny.scalar import Expr, Prim, PrimCall
from tawny.shape import size

FOLD: Final = RuleInfo("fold_constants", Kind.EXACT, "f(constants) = constant")
FOLD_ROUNDED: Final = RuleInfo(
    "fold_constants", Kind.CONTRACTING, "f(constants) = constant, rounded as NumPy rounds it"
)
"""For functions that engines round in their own way: sines, floating-point sums, products."""

ALWAYS: Final = 2**20
"""Bytes of a result, at most, that is folded whatever it is made of."""
NEVER: Final = 2**26
"""Bytes of a result, at most, that is folded if it is no larger than its constants."""

ON_THE_WAY: Final = 2**24
"""Bytes of an intermediate result, at most, on the way to one that is folded: they are free again
once the graph is optimised, and take no longer than in a run."""

AT_ONCE: Final = 4096
"""Bytes of a result, at most, that is folded as soon as rules make it."""

LEFT_TO_RULES: Final = (Elementwise, Cast, *MOVES, Pad)
"""What other rules do to repeated constants without making them real."""


def nbytes(node: Node) -> int:
    """Size of the value of `node`."""
    return size(node.shape) * node.dtype.itemsize


def keeps_bits(node: Node) -> bool:
    """Whether every engine computes a node to the same bits: nothing is rounded in its own way."""
    op = node.op
    if all(n.dtype.kind in "biu" for n in (node, *node.inputs)):
        return True
    if isinstance(op, Elementwise):
        complex_ = any(n.dtype.kind == "c" for n in (node, *node.inputs))
        return not complex_ and _prims(op.scalar) <= EXACT_PRIMS
    return op.facts().view or Trait.EXACT in op.facts().traits


def _prims(expr: Expr) -> set[Prim]:
    found: set[Prim] = set()
    stack = [expr]
    while stack:
        one = stack.pop()
        if isinstance(one, PrimCall):
            found.add(one.prim)
            stack.extend(one.args)
    return found


EXACT_PRIMS: Final = frozenset(
    {
        *(Prim.ADD, Prim.SUB, Prim.MUL, Prim.DIV, Prim.NEG, Prim.POS, Prim.ABS, Prim.SIGN),
        *(Prim.RECIPROCAL, Prim.SQRT, Prim.FLOOR, Prim.CEIL, Prim.TRUNC, Prim.RINT),
        *(Prim.COPYSIGN, Prim.NEXTAFTER, Prim.SIGNBIT, Prim.ISNAN, Prim.ISINF, Prim.ISFINITE),
        *(Prim.EQ, Prim.NE, Prim.LT, Prim.LE, Prim.GT, Prim.GE, Prim.MAX, Prim.MIN),
        *(Prim.FMAX, Prim.FMIN, Prim.AND, Prim.OR, Prim.XOR, Prim.NOT, Prim.SELECT),
    }
)
"""Primitives whose results IEEE 754 fixes to the bit."""


def _is_small(node: Node, held: int) -> bool:
    """Whether the value of `node` may be kept as a constant in place of `held` bytes of others."""
    bytes_ = nbytes(node)
    return bytes_ <= ALWAYS or bytes_ <= min(held, NEVER)


def _repeats(node: Node) -> bool:
    """Whether `node` is a smaller array, repeated."""
    return type(node.op) is BroadcastTo and size(node.shape) != size(node.inputs[0].shape)


def _is_of_loop(node: Node) -> bool:
    """Whether a node is a loop, or a result of one."""
    maker = node.inputs[0] if isinstance(node.op, Part) else node
    return isinstance(maker.op, BodyOp)


def _is_foldable(node: Node, held: int) -> bool:
    if type(node.op) is Constant:
        return True
    if (
        node.volatile
        or _is_of_loop(node)
        or not (nbytes(node) <= ON_THE_WAY or _is_small(node, held))
    ):
        return False
    return type(node.op) is Transpose or not _is_left_to_rules(node)


def _is_left_to_rules(node: Node) -> bool:
    return type(node.op) in LEFT_TO_RULES and any(map(_shows_repeats, node.inputs))


def _shows_repeats(node: Node) -> bool:
    """Whether `node` is a smaller array, repeated and then perhaps transposed."""
    while type(node.op) is Transpose:
        (node,) = node.inputs
    return _repeats(node)


def _is_worth_folding(node: Node) -> bool:
    """Whether a constant in place of `node` saves anything: not of what only repeats a constant.

    Nor of what is left to rules: a transpose is computed only with the product that reads it.
    """
    made = bool(node.inputs) or isinstance(node.op, SOURCES)
    return made and not node.parts and not _repeats(node) and not _is_left_to_rules(node)


def fold_constants(flow: Flow, context: Context) -> Flow:
    """The flow with its largest constant subgraphs computed, all of them in one call."""
    recorder = context.recorder
    if not recorder.allows(FOLD):
        return flow
    rounded = recorder.allows(FOLD_ROUNDED)
    order = flow.order()
    foldable: dict[Node, int] = {}
    """The bytes of the constants that each is made of, those of several uses counted again."""
    for node in [n for n in order if n.known]:
        if not rounded and not keeps_bits(node):
            continue
        if foldable.keys() >= set(node.inputs):
            held = nbytes(node) if node.value is not None else 0
            held = min(held + sum([foldable[x] for x in set(node.inputs)]), NEVER)
            if _is_foldable(node, held):
                foldable[node] = held
    if not _roots(foldable):
        return flow
    needed = set(chain.from_iterable([n.inputs for n in order if n not in foldable]))
    needed.update(flow.outputs)
    for node in reversed(list(foldable)):
        if node in needed and node.value is None and not _is_small(node, foldable[node]):
            del foldable[node]
            needed.update(node.inputs)
    roots = _roots([n for n in foldable if n in needed])
    if not roots:
        return flow
    replacements: dict[Node, Node] = {}
    seen: set[Node] = set()
    for node, value in zip(roots, context.evaluate(roots), strict=True):
        computed = _nodes_computed_for(node, seen)
        with source_scope(sources_of(computed)):
            replacements[node] = constant(value)
        rule = FOLD if all(map(keeps_bits, computed)) else FOLD_ROUNDED
        recorder.record(rule, computed, [replacements[node]])
    return flow.replace_nodes(replacements)


def _nodes_computed_for(root: Node, seen: set[Node]) -> list[Node]:
    """The nodes that are computed for `root` and not for one before it, it first."""
    out: list[Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            out.append(node)
            stack.extend(node.inputs)
    return out


def _roots(needed: Iterable[Node]) -> list[Node]:
    """The nodes to compute; where one only repeats another, that other."""
    out: dict[Node, None] = {}
    for node in needed:
        root = node
        while _repeats(root):
            (root,) = root.inputs
        if _is_worth_folding(root):
            out[root] = None
    return list(out)


FOLDING: Final = Pass("fold_constants", (FOLD, FOLD_ROUNDED), fold_constants)


def _small_and_pure(m: Match) -> bool:
    """A small node that gives the same in every run."""
    node = m.node
    is_plain = node.known and not node.volatile and not _is_of_loop(node)
    return nbytes(node) <= AT_ONCE and is_plain and _is_worth_folding(node)


def _small_and_exact(m: Match) -> bool:
    return keeps_bits(m.node) and _small_and_pure(m)


def _fold(m: Match) -> Node:
    (value,) = m.facts.evaluate([m.node])
    return constant(value)


FOLD_RULES: Final = (
    RewriteRule(FOLD, OF_CONSTANTS, _fold, _small_and_exact),
    RewriteRule(FOLD_ROUNDED, OF_CONSTANTS, _fold, _small_and_pure),
)
"""Folding among the other rules, so that constants they bring together can be matched again."""


# ------------------------------------------------------------------ equal constants

MERGE: Final = RuleInfo("merge_constants", Kind.EXACT, "constants of the same bits are one")

SAMPLE: Final = 64
"""Elements that are compared before a hash of the whole: most unequal constants differ in one."""


def merge_constants(flow: Flow, context: Context) -> Flow:
    """The flow with each of several equal constants replaced by the first."""
    replacements: dict[Node, Node] = {}
    for first, *others in _groups_of_equals(_large_constants(flow)):
        for other in others:
            context.recorder.record(MERGE, (first, other), (first,))
            replacements[other] = first
    return flow.replace_nodes(replacements)


MERGING: Final = Pass("merge_constants", (MERGE,), merge_constants)


def _large_constants(flow: Flow) -> list[tuple[Node, Value]]:
    leaves = [n for n in flow.order() if type(n.op) is Constant]
    return [
        (n, n.value) for n in leaves if n.value is not None and n.value.nbytes > MOST_INTERNED_BYTES
    ]


def _groups_of_equals(constants: list[tuple[Node, Value]]) -> Iterator[list[Node]]:
    """The nodes of constants that have the same bits, in order, two or more at a time."""
    for alike in _groups_by_key(constants, lambda v: (v.dtype, v.shape)):
        for close in _groups_by_key(alike, _sample):
            for same in _groups_by_key(close, _digest):
                yield [node for node, _ in same]


def _groups_by_key(
    constants: Iterable[tuple[Node, Value]], key: Callable[[Value], Hashable]
) -> Iterator[list[tuple[Node, Value]]]:
    """Constants with the same key, where there are several."""
    groups: dict[Hashable, list[tuple[Node, Value]]] = {}
    for node, value in constants:
        groups.setdefault(key(value), []).append((node, value))
    return (group for group in groups.values() if len(group) > 1)


def _sample(value: Value) -> bytes:
    return value.flat[:: max(1, value.size // SAMPLE)].tobytes()


def _digest(value: Value) -> bytes:
    content = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return blake2b(content.data, digest_size=32).digest()
