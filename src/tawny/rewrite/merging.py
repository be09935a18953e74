"""Equal constants become one node, and so does what is computed from them.

Small constants are interned by their content as they are made.  Large ones are compared here: first
by dtype and shape, then by a few of their elements, and only where all that is equal by a hash of
the whole content.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from hashlib import blake2b
from typing import Final

import numpy as np

from tawny.node import SMALL, Constant, Node, Value
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo

MERGE: Final = RuleInfo("merge_constants", Kind.EXACT, "constants of the same bits are one")

SAMPLE: Final = 64
"""About so many elements tell most constants apart."""


def merge_constants(flow: Flow, context: Context) -> Flow:
    """The flow with each of several equal constants replaced by the first."""
    if not context.recorder.allows(MERGE):
        return flow
    replacements: dict[Node, Node] = {}
    for first, *others in _equal(_large_constants(flow)):
        for other in others:
            context.recorder.record(MERGE, (first, other), (first,))
            replacements[other] = first
    return flow.replaced(replacements)


MERGING: Final = Pass("merge_constants", (MERGE,), merge_constants)


def _large_constants(flow: Flow) -> list[tuple[Node, Value]]:
    leaves = [n for n in flow.order() if type(n.op) is Constant]
    return [(n, n.value) for n in leaves if n.value is not None and n.value.nbytes > SMALL]


def _equal(constants: list[tuple[Node, Value]]) -> Iterator[list[Node]]:
    """The nodes of constants that have the same bits, in order, two or more at a time."""
    for alike in _shared(constants, lambda v: (v.dtype, v.shape)):
        for close in _shared(alike, _sample):
            for same in _shared(close, _digest):
                yield [node for node, _ in same]


def _shared(
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
