"""The pass that sorts no more than what is read: the first elements of long axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.dtype import kind_of
from tawny.node import Node, make, source_scope
from tawny.op import Op
from tawny.ops.indexing import ArgSort, Slice
from tawny.ops.partial_sorting import PartialArgSort, PartialSort
from tawny.ops.sorting import Sort
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, sources_of

PARTIAL_SORT: Final = RuleInfo(
    "partial_sort", Kind.EXACT, "sort(x)[:k] = partial_sort(x, k), for k much less than len(x)"
)

SHORT: Final = 256
"""Axes up to this length are sorted whole."""

PART: Final = 4
"""A search for at most one element in four is faster than a sort."""


def _run(flow: Flow, context: Context) -> Flow:
    readers, outputs = flow.consumers(), frozenset(flow.outputs)
    replacements: dict[Node, Node] = {}
    for node in flow.order():
        if type(node.op) not in _SORTS or node.known or node in outputs:
            continue
        op = _first_elements(node, readers[node])
        if op is None:
            continue
        with source_scope(sources_of((node,))):
            made = make(op, node.inputs)
        for reader in readers[node]:
            with source_scope(sources_of((reader,))):
                replacements[reader] = make(reader.op, (made,))
        context.recorder.record(PARTIAL_SORT, (node, *readers[node]), (made,))
    return flow.replace_nodes(replacements)


_SORTS: Final = frozenset({Sort, ArgSort})
sort_partly: Final = Pass("sort_partly", (PARTIAL_SORT,), _run, _SORTS)


def _first_elements(node: Node, readers: Sequence[Node]) -> Op | None:
    """The op that gives all elements of a sort that are read; None where they are many."""
    op, (given,) = node.op, node.inputs
    assert isinstance(op, (Sort, ArgSort))
    length = node.shape[op.axis]
    if length <= SHORT or kind_of(given.dtype) not in "iuf" or not readers:
        return None
    if isinstance(op, Sort) and op.descending:
        return None
    count = 0
    for reader in readers:
        if type(reader.op) is not Slice:
            return None
        first, taken, step = reader.op.ranges[op.axis]
        count = max(count, first + 1, first + (taken - 1) * step + 1)
    if not 0 < count <= length // PART:
        return None
    if isinstance(op, Sort):
        return PartialSort(op.axis, count)
    return PartialArgSort(op.axis, count, op.descending)
