"""What a page shows of the optimiser: its passes, the graphs between them, every rewrite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from tawny.graph.passes import PassRecord
from tawny.graph.report.drawn_graph import DrawnGraph, Texts
from tawny.node import Node, toposort
from tawny.rewrite.ledger import NodeRecord, Record, Rewrites

MAX_RECORDS: Final = 20_000
"""Rewrites that are listed one by one."""

MAX_PASS_NODES: Final = 60_000
"""Nodes of all graphs between passes that are drawn; beyond that none are."""

MAX_MATCHES: Final = 4
"""Nodes of a drawing that a node of the ledger may be."""

RELIEF: Final = "relieve memory"
"""What rewrites behind the last pass are called: they make plans need less."""

NO_DRAWING: Final = -1

Results = tuple[Node, ...]


class Drawings:
    """The graphs of a page in their order, each with a label."""

    def __init__(self, draw: Callable[[Results], DrawnGraph]) -> None:
        self._draw = draw
        self.graphs: list[tuple[str, DrawnGraph]] = []
        self._known: dict[Results, int] = {}

    def append(self, label: str, results: Results, drawn: DrawnGraph) -> None:
        """Add a graph behind the others, whether or not another is the same."""
        self._known.setdefault(results, len(self.graphs))
        self.graphs.append((label, drawn))

    def place_of(self, label: str, results: Results) -> int:
        """The place of the graph that gives some results; if there is none, it is drawn."""
        if results not in self._known:
            self.append(label, results, self._draw(results))
        return self._known[results]


class _ShownPass(NamedTuple):
    """A pass that changed something; its rewrites are those from `first` to `end`."""

    name: str
    before: Results
    after: Results
    first: int
    end: int


def rewrite_data(
    rewrites: Rewrites,
    passes: Sequence[PassRecord],
    texts: Texts,
    drawings: Drawings,
    final: Results,
) -> dict[str, Any]:
    """Passes, rules and rewrites as plain data; graphs between passes are added to the drawings.

    `final` are the results of the graph that is run.
    """
    changing = list(_changing_passes(rewrites, passes, final))
    listed = rewrites[:MAX_RECORDS]
    found = _records(rewrites, listed, texts)
    between = {results for one in changing for results in (one.before, one.after)}
    is_drawn = sum(len(toposort(results)) for results in between) <= MAX_PASS_NODES
    shown: list[Any] = []
    for one in changing:
        sides = [NO_DRAWING, NO_DRAWING]
        if is_drawn:
            sides = [
                drawings.place_of(f"{word} {one.name}", results)
                for word, results in (("before", one.before), ("after", one.after))
            ]
        places = [_NodePlaces(drawings.graphs[side][1]) for side in sides if side != NO_DRAWING]
        own = listed[one.first : one.end]
        for entry, record in zip(found["records"][one.first : one.end], own, strict=True):
            nodes = (record.before, record.after)
            entry.append([list(p.find(n)) for p, n in zip(places, nodes, strict=False)])
        saved = sum(r.operations for r in own), sum(r.bytes for r in own)
        counts = len(toposort(one.before)), len(toposort(one.after))
        shown.append([texts.number(one.name), *sides, one.first, one.end, *counts, *saved])
    return found | {"passes": shown}


def _changing_passes(
    rewrites: Rewrites, passes: Sequence[PassRecord], final: Results
) -> Iterator[_ShownPass]:
    """The passes that changed something, and what relief did behind them.

    Constants that were computed once more are other nodes, so that the last graph is that which is
    run if there are as many nodes.
    """
    first, applied = 0, rewrites.applied
    found: list[_ShownPass] = []
    for one in passes:
        end = first + len(one.rewrites.applied)
        if applied[first:end] != one.rewrites.applied:
            break
        if end > first or one.before != one.after:
            found.append(_ShownPass(one.name, one.before, one.after, first, end))
        first = end
    if found:
        last = found[-1]
        if first == len(applied) and len(toposort(last.after)) == len(toposort(final)):
            found[-1] = last._replace(after=final)
        else:
            found.append(_ShownPass(RELIEF, last.after, final, first, len(applied)))
    yield from found


class _NodePlaces:
    """The nodes of a drawing by what the ledger remembers of nodes."""

    def __init__(self, drawn: DrawnGraph) -> None:
        self._places: dict[Hashable, list[int]] = defaultdict(list)
        for k, one in enumerate(drawn.drawn):
            node = one.node
            self._places[node.op, node.shape, node.dtype, node.sources].append(k)

    def find(self, nodes: Iterable[NodeRecord]) -> Iterator[int]:
        """The drawn nodes that nodes of the ledger may be."""
        for node in dict.fromkeys(nodes):
            yield from self._places.get(tuple(node), ())[:MAX_MATCHES]


def _records(rewrites: Rewrites, listed: Sequence[Record], texts: Texts) -> dict[str, Any]:
    rules = {rule.name: rule for rule in rewrites.applied}
    number = {name: k for k, name in enumerate(rules)}
    records = [
        [
            number[record.rule.name],
            [texts.number(str(one)) for one in record.before],
            [texts.number(str(one)) for one in record.after],
            [texts.number(one.name) for one in record.before],
            texts.places(record.sources),
            record.operations,
            record.bytes,
        ]
        for record in listed
    ]
    totals = {name: [0, 0, 0] for name in rules}
    for record in rewrites:
        total = totals[record.rule.name]
        for k, more in enumerate((1, record.operations, record.bytes)):
            total[k] += more
    return {
        "nodes": [rewrites.nodes_before, rewrites.nodes_after],
        "saved": [rewrites.operations_saved, rewrites.bytes_saved],
        "count": len(rewrites),
        "rules": [
            [texts.number(r.name), r.kind.value, texts.number(r.says), *totals[name]]
            for name, r in rules.items()
        ],
        "records": records,
    }
