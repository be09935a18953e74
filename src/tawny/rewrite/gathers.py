"""The pass that lets gathers from joined arrays read the pieces where they lie.

The joined array is never made if gathers along its first axis are all that reads it.  Its pieces
are kept until the last of them, as it would be, so they must take no more memory than it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from tawny.node import Node, make, source_scope
from tawny.ops.indexing import Gather
from tawny.ops.joining import Concat
from tawny.ops.pieces import GatherPieces
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo
from tawny.rewrite.lifetimes import bytes_of, is_leaf, owner

GATHER_PIECES: Final = RuleInfo(
    "gather_pieces", Kind.EXACT, "concat(a, b)[i] = gather_pieces(a, b, i), where a and b lie"
)

MOST_PIECES: Final = 8
"""Pieces, at most, that a gather searches for the one an index falls into."""

_ROWS: Final = Gather((0,), 0)


def _run(flow: Flow, context: Context) -> Flow:
    if Concat not in flow.families():
        return flow
    readers, outputs = flow.consumers(), frozenset(flow.outputs)
    found = [n for n in flow.order() if _is_joined(n, readers[n], outputs)]
    replacements: dict[Node, Node] = {}
    for joined in _no_larger(found):
        gathers = readers[joined]
        for gather in gathers:
            with source_scope(gather.sources):
                operands = (*joined.inputs, gather.inputs[1])
                replacements[gather] = make(GatherPieces(len(joined.inputs)), operands)
        made = [replacements[gather] for gather in gathers]
        context.recorder.record(GATHER_PIECES, (joined, *gathers), made)
    return flow.replace_nodes(replacements)


gather_pieces: Final = Pass("gather_pieces", (GATHER_PIECES,), _run, frozenset({Gather}))


def _is_joined(node: Node, readers: Sequence[Node], outputs: Collection[Node]) -> bool:
    """Whether a node is a few pieces joined along axis 0, for gathers along it alone."""
    return (
        type(node.op) is Concat
        and node.op.axis == 0
        and not is_leaf(node)
        and len(node.inputs) <= MOST_PIECES
        and all(piece.dtype == node.dtype for piece in node.inputs)
        and node not in outputs
        and all(r.op == _ROWS and r.inputs[1] is not node and not is_leaf(r) for r in readers)
    )


def _no_larger(found: Sequence[Node]) -> list[Node]:
    """The joined arrays whose pieces keep no more memory than these arrays have.

    A piece that is a view keeps all of what it is a view of.
    """
    left = list(found)
    while True:
        held = Counter[Node]()
        for joined in left:
            for piece in joined.inputs:
                held[owner(piece)] += bytes_of(piece)
        larger = {n for n, bytes in held.items() if not is_leaf(n) and bytes_of(n) > bytes}
        kept = [n for n in left if larger.isdisjoint(map(owner, n.inputs))]
        if len(kept) == len(left):
            return kept
        left = kept
