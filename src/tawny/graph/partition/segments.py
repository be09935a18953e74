"""Segments as graphs of their own, and what goes from one to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tawny.array import array_for
from tawny.graph.graph import Graph
from tawny.graph.partition.items import Items, value_bytes
from tawny.graph.partition.levels import Levels, SegmentPlace
from tawny.node import Node, Variable, remake, source_scope
from tawny.node import variable as make_variable


class SegmentOutput(NamedTuple):
    """A value that a segment computes: an output of its graph."""

    segment: int
    output: int


class Piece(NamedTuple):
    """A segment as a graph, before it is planned."""

    place: SegmentPlace
    graph: Graph
    reads: Mapping[str, SegmentOutput]
    """By the name of a variable of its graph, the value of another segment that it takes."""
    variables: tuple[str, ...]
    """The names of the user's variables that it reads or updates."""
    gives: tuple[Node, ...]
    """The node of the whole graph that each output is."""
    nodes: tuple[Node, ...]
    """The nodes of the whole graph that it computes."""


class Pieces(NamedTuple):
    """All segments in an order in which they can be run, and where the outputs come from."""

    pieces: tuple[Piece, ...]
    outputs: tuple[SegmentOutput, ...]


class _Draft:
    """A segment that is being put together."""

    def __init__(self, place: SegmentPlace) -> None:
        self.place: Final = place
        self.nodes: Final[list[Node]] = []
        self.gives: Final[dict[Node, int]] = {}
        """Nodes, and variables, that others read: each with the number of the output."""
        self.updates: Final[dict[Node, Node]] = {}


class SegmentBuilder:
    """Makes the graphs of segments."""

    def __init__(self, items: Items, levels: Levels, names: Mapping[Node, str], label: str) -> None:
        self._items, self._levels, self._names, self._label = items, levels, names, label
        self._drafts: dict[SegmentPlace, _Draft] = {}
        for node in items.nodes:
            self._draft(levels.places[node]).nodes.append(node)
        self._number: dict[SegmentPlace, int] = {}
        self._handed_out: dict[Node, SegmentPlace] = {}
        """Outputs that nobody computes, each with the segment that gives it to the user."""

    def _draft(self, place: SegmentPlace) -> _Draft:
        return self._drafts.setdefault(place, _Draft(place))

    def build(self, outputs: Sequence[Node]) -> Pieces:
        """The segments of a graph with these outputs."""
        for variable, place in self._update_places().items():
            self._draft(place).updates[variable] = self._items.updates[variable]
        for draft in [*self._drafts.values()]:
            for read in self._read_by(draft):
                self._offer(read, draft.place)
        for node in outputs:
            self._offer(node, None)
        ordered = sorted(self._drafts, key=lambda place: (place.level, place.worker))
        self._number = {place: number for number, place in enumerate(ordered)}
        pieces = tuple([self._piece(self._drafts[place]) for place in ordered])
        return Pieces(pieces, tuple([self._source_of(node) for node in outputs]))

    def _update_places(self) -> dict[Node, SegmentPlace]:
        """For each variable the segment that updates it: one that nobody reads it after."""
        updates, levels, source_of = self._items.updates, self._levels, self._items.source
        found: dict[Node, SegmentPlace] = {}
        for variable, source in updates.items():
            own = levels.places[variable], levels.places.get(source_of(source))
            reading = levels.last_reading(variable)
            found[variable] = max([place for place in (*own, reading) if place is not None])
        taking = [(v, source_of(s)) for v, s in updates.items() if source_of(s) in updates]
        for _ in taking:  # one that another takes over is updated no sooner than that
            for variable, other in taking:
                found[other] = max(found[other], found[variable])
        return found

    def _read_by(self, draft: _Draft) -> list[Node]:
        """The items that a segment reads, inputs and constants too."""
        read: dict[Node, None] = {}
        for node in draft.nodes:
            read.update(dict.fromkeys(self._items.reads[node]))
        read.update(dict.fromkeys(map(self._items.source, draft.updates.values())))
        return [*read]

    def _offer(self, node: Node, reader: SegmentPlace | None) -> None:
        """Let a value be an output of its segment, if its reader is another or the user."""
        place = self._home(node, reader)
        if place is not None:
            gives = self._draft(place).gives
            gives.setdefault(node, len(gives))

    def _home(self, node: Node, reader: SegmentPlace | None) -> SegmentPlace | None:
        """The segment that gives a node to a reader; None where that has it."""
        place = self._levels.places.get(node)
        if place is None:  # an input, a constant, or a view of one: read where it is
            return None if reader is not None else self._first_place(node)
        if reader is None:
            return place
        own = place.worker == reader.worker if isinstance(node.op, Variable) else place == reader
        return None if own else place

    def _first_place(self, node: Node) -> SegmentPlace:
        """The segment that hands an output to the user which it does not compute."""
        if node not in self._handed_out:
            owner = self._levels.places.get(self._items.source(node))
            self._handed_out[node] = owner or min(self._drafts, default=SegmentPlace(0, 0))
        return self._handed_out[node]

    def _source_of(self, node: Node) -> SegmentOutput:
        place = self._home(node, None)
        assert place is not None
        return SegmentOutput(self._number[place], self._drafts[place].gives[node])

    def _piece(self, draft: _Draft) -> Piece:
        made = _PieceGraph(self, draft)
        return Piece(
            draft.place,
            made.graph,
            made.reads,
            tuple(made.variables),
            tuple(draft.gives),
            tuple(draft.nodes),
        )

    def title(self, place: SegmentPlace) -> str:
        """What a segment's graph is called."""
        return f"{self._label} {self._number[place] + 1}"

    def name(self, node: Node) -> str:
        """What the whole graph calls a variable."""
        return self._names[node]

    @property
    def user_names(self) -> frozenset[str]:
        """Names that values cannot have."""
        return frozenset(self._names.values())

    def is_free(self, node: Node) -> bool:
        """Whether a node is made wherever it is read."""
        return self._items.is_free(node)

    def taken_from(self, node: Node, reader: SegmentPlace) -> SegmentOutput | None:
        """Where a segment gets a value from; None where it has it."""
        place = self._home(node, reader)
        return None if place is None else self._given_at(place, node)

    def _given_at(self, place: SegmentPlace, node: Node) -> SegmentOutput:
        return SegmentOutput(self._number[place], self._drafts[place].gives[node])


class _PieceGraph:
    """The graph of a segment, over variables of its own."""

    def __init__(self, builder: SegmentBuilder, draft: _Draft) -> None:
        self._builder, self._draft = builder, draft
        self.reads: Final[dict[str, SegmentOutput]] = {}
        self.variables: Final[list[str]] = []
        self._made: dict[Node, Node] = {}
        own = [self._own_variable(target) for target in draft.updates]
        for node in draft.nodes:
            inputs = tuple([self._operand(given) for given in node.inputs])
            self._made[node] = node if inputs == node.inputs else remake(node, inputs)
        outputs = [array_for(self._operand(node)) for node in draft.gives]
        sources = [self._operand(source) for source in draft.updates.values()]
        updates = {array_for(v): array_for(s) for v, s in zip(own, sources, strict=True)}
        variables = [n for n in self._made.values() if isinstance(n.op, Variable)]
        given = [array_for(v) for v in variables if v not in own]
        self.graph = Graph(given, outputs, updates, builder.title(draft.place), unused="ignore")

    def _operand(self, node: Node) -> Node:
        """What stands for a node of the whole graph here."""
        waiting = [node]
        while waiting:
            one = waiting[-1]
            if one not in self._made:
                missing = self._add(one)
                if missing is not None:
                    waiting.append(missing)
                    continue
            waiting.pop()
        return self._made[node]

    def _add(self, node: Node) -> Node | None:
        """Make what stands for a node, or say what has to be made before."""
        if isinstance(node.op, Variable):
            given = self._builder.taken_from(node, self._draft.place)
            if given is None:
                self._own_variable(node)
            else:
                self._receive(node, given)
        elif not self._builder.is_free(node):
            given = self._builder.taken_from(node, self._draft.place)
            assert given is not None
            self._receive(node, given)
        elif not node.inputs:
            self._made[node] = node
        elif node.inputs[0] not in self._made:
            return node.inputs[0]
        else:
            source = self._made[node.inputs[0]]
            self._made[node] = node if source is node.inputs[0] else remake(node, (source,))
        return None

    def _own_variable(self, node: Node) -> Node:
        if node not in self._made:
            name = self._builder.name(node)
            self.variables.append(name)
            self._made[node] = _variable(node, name)
        return self._made[node]

    def _receive(self, node: Node, given: SegmentOutput) -> None:
        """Let a variable stand for a value of another segment."""
        name = f"from {given.segment + 1}: {given.output + 1}"
        while name in self._builder.user_names:
            name = f"{name}'"
        self.reads[name] = given
        self._made[node] = _variable(node, name)


def _variable(node: Node, name: str) -> Node:
    with source_scope(node.sources):
        return make_variable(name, node.shape, node.dtype)


def travelling_bytes(pieces: Pieces) -> list[dict[SegmentOutput, int]]:
    """For each segment the values it takes from other workers, with their bytes."""
    found: list[dict[SegmentOutput, int]] = []
    for piece in pieces.pieces:
        taken = [
            given
            for given in piece.reads.values()
            if pieces.pieces[given.segment].place.worker != piece.place.worker
        ]
        found.append({given: given_bytes(pieces, given) for given in taken})
    return found


def given_bytes(pieces: Pieces, given: SegmentOutput) -> int:
    """Bytes of a value that goes between segments."""
    return value_bytes(pieces.pieces[given.segment].gives[given.output])
