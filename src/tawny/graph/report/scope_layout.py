"""The boxes of a graph that opens scope by scope, and what stands in which row of each.

A box is a scope, a loop, a part of a long list, or several repeats of one thing.  Each holds items,
which are nodes and other boxes.  Where a box is read by one that comes before it, as gradients are
by the layers they belong to, what takes these values back stands beside the others.  Everything
takes time linear in the size of the graph, but for sorting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import numpy as np

from tawny.graph.report.returns import Returns
from tawny.graph.report.rows import Pair, Row, part_rows, run_order

MAX_ITEMS: Final = 300
"""Items of a box above which they are put into parts."""

PART_ITEMS: Final = 100
"""Items of such a part."""

MAX_PERIOD: Final = 64
"""Items of the longest body of a loop that is recognised as one."""

LEAST_REPEATS: Final = 3
LEAST_REPEATED: Final = 12
"""Nodes that repeats have together at least, unless they are scopes."""

TIMES: Final = "\N{MULTIPLICATION SIGN}"

BoxKind = Literal["scope", "loop", "part", "repeats"]


class LoopScope(NamedTuple):
    """The scope of everything that a loop or a branch computes."""

    label: str
    owner: int
    """Tells it from others of the same label."""


ScopePath = Sequence[str | LoopScope]
"""The scopes that a node is in, the innermost last."""


@dataclass
class ScopeBox:
    """A part of a graph that is shown as one box, or with what is in it."""

    label: str
    kind: BoxKind
    parent: int
    items: list[int] = field(default_factory=list[int])
    """In order of first appearance: a node by its number, box `b` as `~b`."""
    parts: list[list[Row]] = field(default_factory=list[list[Row]])
    """The items in rows, for each connected part; what is read stands above its readers."""
    back: list[list[Row]] = field(default_factory=list[list[Row]])
    """Items that take values back, in rows; what is read stands below its readers."""
    nodes: int = 0
    """How many nodes are in it."""


class _Repeats(NamedTuple):
    """Items `first` to `first + period * times`, which are the same again and again."""

    first: int
    period: int
    times: int

    @property
    def end(self) -> int:
        return self.first + self.period * self.times


class ScopeLayout:
    """The boxes of a graph; the first is the graph itself.

    - `paths`: for each node the names of the scopes it is in, or None if it is not drawn.
    - `kinds`: for each node a word; repeats have equal ones.
    - `inputs`: for each node the smaller numbers of those it reads.
    - `fold`: whether repeats, and the parts of long lists, are put into boxes.
    """

    def __init__(
        self,
        paths: Sequence[ScopePath | None],
        kinds: Sequence[str],
        inputs: Sequence[Sequence[int]],
        *,
        fold: bool = True,
    ) -> None:
        self.boxes = [ScopeBox("", "scope", -1)]
        self.home = [-1] * len(paths)
        """The box each node stands in; -1 for those that are not drawn."""
        self._kinds, self._shapes = kinds, dict[object, int]()
        self._box_shape: list[int] = []
        self._sort_into_scopes(paths)
        for box in reversed(range(len(self.boxes))) if fold else ():
            self._fold(box)
        self._find_homes()
        self._depth = self._depths()
        self._fill_rows(inputs)

    # -------------------------------------------------------------------- boxes

    def _sort_into_scopes(self, paths: Sequence[ScopePath | None]) -> None:
        known: dict[tuple[int, str | LoopScope], int] = {}
        for node, path in enumerate(paths):
            if path is None:
                continue
            box = 0
            for name in path:
                inner = known.get((box, name))
                if inner is None:
                    inner = known[box, name] = self._add(_scope_box(name, box))
                    self.boxes[box].items.append(~inner)
                box = inner
            self.boxes[box].items.append(node)
        for own in reversed(self.boxes):
            own.nodes = sum(self.boxes[~i].nodes if i < 0 else 1 for i in own.items)

    def _add(self, box: ScopeBox) -> int:
        self.boxes.append(box)
        return len(self.boxes) - 1

    def _shape(self, item: int) -> int:
        """A number that items of equal structure share."""
        key = ("box", self._box_shape[~item]) if item < 0 else self._kinds[item]
        return self._shapes.setdefault(key, len(self._shapes))

    def _fold(self, box: int) -> None:
        """Put repeats, and parts of long lists, into boxes of their own."""
        own = self.boxes[box]
        self._box_shape += [0] * (len(self.boxes) - len(self._box_shape))
        shapes = [self._shape(i) for i in own.items]
        self._box_shape[box] = self._shapes.setdefault(tuple(shapes), len(self._shapes))
        items, reached = list[int](), 0
        for found in self._repeats(own.items, shapes):
            items += own.items[reached : found.first]
            reached = found.end
            if found.end - found.first == len(own.items):
                items += self._repeat_items(own.items, found, box)
                continue
            outer = self._add(ScopeBox("", "repeats", box))
            inner = self._repeat_items(own.items[: found.end], found, outer)
            self._fill(outer, inner, self._repeats_label(inner, own.label))
            items.append(~outer)
        items += own.items[reached:]
        if len(items) > MAX_ITEMS:
            items = self._put_into_parts(list(_pieces(items)), box)
        while len(items) > MAX_ITEMS:
            pieces = [items[k : k + PART_ITEMS] for k in range(0, len(items), PART_ITEMS)]
            items = self._put_into_parts(pieces, box)
        own.items = items

    def _put_into_parts(self, pieces: Sequence[list[int]], parent: int) -> list[int]:
        """A box for each piece of more than one item."""
        count, number, items = sum(len(piece) > 1 for piece in pieces), 0, list[int]()
        for piece in pieces:
            if len(piece) == 1:
                items += piece
                continue
            number += 1
            part = self._add(ScopeBox("", "part", parent))
            self._fill(part, piece, f"part {number} of {count}")
            items.append(~part)
        return items

    def _fill(self, box: int, items: list[int], label: str) -> None:
        own = self.boxes[box]
        own.items, own.label = items, label
        own.nodes = sum(self.boxes[~i].nodes if i < 0 else 1 for i in items)

    def _repeat_items(self, items: list[int], found: _Repeats, parent: int) -> list[int]:
        """The repeats as items: boxes, made here where a repeat is more than one box."""
        if found.period == 1:
            return items[found.first : found.end]
        out: list[int] = []
        for number in range(found.times):
            first = found.first + number * found.period
            part = self._add(ScopeBox("", "part", parent))
            self._fill(part, items[first : first + found.period], f"{number + 1}")
            out.append(~part)
        return out

    def _repeats_label(self, items: list[int], parent: str) -> str:
        names = [self.boxes[~i].label if i < 0 else self._kinds[i] for i in items]
        stems = {re.sub(r"[\d\W_]+$", "", name) for name in names}
        if all(i < 0 and self.boxes[~i].kind == "part" for i in items):
            inside = self.boxes[~items[0]].items
            words = [self.boxes[~i].label if i < 0 else self._kinds[i] for i in inside[:3]]
            return f"{len(items)} {TIMES} {', '.join(words)}{' …' if len(inside) > 3 else ''}"
        if len(stems) == 1 and (stem := stems.pop()):
            return f"{len(items)} {TIMES} {stem}"
        return f"{len(items)} {TIMES} {parent} {names[0]} to {names[-1]}".replace("  ", " ")

    def _repeats(self, items: Sequence[int], shapes: Sequence[int]) -> list[_Repeats]:
        """Where the items repeat, the longest stretches first chosen, in order."""
        found: list[_Repeats] = []
        numbers = np.asarray(shapes)
        for period in range(1, min(MAX_PERIOD, len(items) // 2) + 1):
            same = np.concatenate(([0], numbers[period:] == numbers[:-period], [0])).astype(int)
            starts, ends = np.flatnonzero(np.diff(same) == 1), np.flatnonzero(np.diff(same) == -1)
            for first, end in zip(starts.tolist(), ends.tolist(), strict=True):
                one = _Repeats(first, period, (end - first) // period + 1)
                if self._is_worth_folding(items, one):
                    found.append(one)
        found.sort(key=lambda one: (one.first - one.end, one.period))
        taken, out = bytearray(len(items)), list[_Repeats]()
        for one in found:
            if not taken[one.first] and not taken[one.end - 1]:
                if any(taken[one.first : one.end]):
                    continue
                taken[one.first : one.end] = b"\1" * (one.end - one.first)
                out.append(one)
        return sorted(out)

    def _is_worth_folding(self, items: Sequence[int], one: _Repeats) -> bool:
        body = items[one.first : one.first + one.period]
        if one.period == 1 and body[0] < 0 and self.boxes[~body[0]].nodes >= LEAST_REPEATED:
            return one.times > 1
        scopes = one.period == 1 and body[0] < 0
        nodes = one.times * sum(self.boxes[~i].nodes if i < 0 else 1 for i in body)
        return one.times >= LEAST_REPEATS and (scopes or nodes >= LEAST_REPEATED)

    def _find_homes(self) -> None:
        for index, box in enumerate(self.boxes):
            for item in box.items:
                if item < 0:
                    self.boxes[~item].parent = index
                else:
                    self.home[item] = index

    # --------------------------------------------------------------------- rows

    def _fill_rows(self, inputs: Sequence[Sequence[int]]) -> None:
        edges: list[dict[Pair, None]] = [{} for _ in self.boxes]
        joined = [
            (source, reader, *self._siblings(source, reader))
            for source, reader in self._edges(inputs)
        ]
        for _, _, box, pair in joined:
            edges[box][pair] = None
        place = self._sort_items(inputs, edges)
        returns = Returns(len(inputs))
        for source, reader, box, (a, b) in joined:
            goes_back = place[self.id(a)] > place[self.id(b)]
            returns.note(source, reader, self._depth[box], goes_back=goes_back)
        forward = self._find_forward(returns)
        for own, inside in zip(self.boxes, edges, strict=True):
            onward = [i for i in own.items if forward[self.id(i)]]
            own.parts = list(part_rows(onward, inside))
            if len(onward) < len(own.items):
                behind = [i for i in own.items if not forward[self.id(i)]]
                own.back = [rows[::-1] for rows in part_rows(behind, inside)]

    def _sort_items(
        self, inputs: Sequence[Sequence[int]], edges: Sequence[Iterable[Pair]]
    ) -> list[int]:
        """Put the items of each box in the order of the run; gives each item's place in its box.

        Nodes come as late as their readers allow, boxes where the first of their nodes does that
        lie on the longest way through the graph.  Lists with parts stay in their order.
        """
        count = len(inputs)
        first = _critical_ranks(inputs) + [(0, 0)] * len(self.boxes)
        place = [0] * len(first)
        for index in reversed(list(self.boxes_downward())):
            own = self.boxes[index]
            first[count + index] = min([first[self.id(i)] for i in own.items], default=(0, 0))
            if not any(i < 0 and self.boxes[~i].kind == "part" for i in own.items):
                own.items.sort(key=lambda i: first[self.id(i)][1])
            own.items = run_order(own.items, edges[index])
            for position, item in enumerate(own.items):
                place[self.id(item)] = position
        return place

    def _find_forward(self, returns: Returns) -> list[bool]:
        """For each item, by its `id`, whether something in it takes no values back."""
        if not returns.found:
            return [True] * (len(self.home) + len(self.boxes))
        forward = [False] * (len(self.home) + len(self.boxes))
        for node, home in enumerate(self.home):
            item, box = node, home
            while box >= 0:
                if not returns.is_back(node, self._depth[box]):
                    forward[self.id(item)] = True
                item, box = ~box, self.boxes[box].parent
        return forward

    # ---------------------------------------------------------------- who is where

    def id(self, item: int) -> int:
        """A number for an item among nodes and boxes."""
        return len(self.home) + ~item if item < 0 else item

    def boxes_downward(self) -> Iterator[int]:
        """Every box, each after the one it stands in."""
        stack = [0]
        while stack:
            index = stack.pop()
            yield index
            stack += [~i for i in self.boxes[index].items if i < 0]

    def neighbours(self, inputs: Sequence[Sequence[int]]) -> list[list[int]]:
        """For each item, by its `id`, the items of its box that an edge joins it with."""
        near: list[dict[int, None]] = [{} for _ in range(len(self.home) + len(self.boxes))]
        for source, reader in self._edges(inputs):
            _, (a, b) = self._siblings(source, reader)
            near[self.id(a)][b] = near[self.id(b)][a] = None
        return [list(found) for found in near]

    def _edges(self, inputs: Sequence[Sequence[int]]) -> Iterator[Pair]:
        """Every edge between nodes that are drawn, by reader."""
        for reader, sources in enumerate(inputs):
            if self.home[reader] >= 0:
                for source in sources:
                    if self.home[source] >= 0:
                        yield source, reader

    def _depths(self) -> list[int]:
        """How many boxes there are around each box."""
        depth = [0] * len(self.boxes)
        for index in self.boxes_downward():
            if index:
                depth[index] = depth[self.boxes[index].parent] + 1
        return depth

    def _siblings(self, a: int, b: int) -> tuple[int, Pair]:
        """The innermost box that holds both nodes, and the items in it that do."""
        left, right = self.home[a], self.home[b]
        while left != right:
            if self._depth[left] >= self._depth[right]:
                a, left = ~left, self.boxes[left].parent
            else:
                b, right = ~right, self.boxes[right].parent
        return left, (a, b)


def _critical_ranks(inputs: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """For each node how far it is from the longest way, and its rank among all nodes."""
    count = len(inputs)
    depth, height = [0] * count, [0] * count
    for reader, sources in enumerate(inputs):
        depth[reader] = max([depth[source] + 1 for source in sources], default=0)
    for reader in reversed(range(count)):
        for source in inputs[reader]:
            height[source] = max(height[source], height[reader] + 1)
    rank = [0] * count
    for position, node in enumerate(sorted(range(count), key=lambda k: (-height[k], k))):
        rank[node] = position
    return [(-d - h, r) for d, h, r in zip(depth, height, rank, strict=True)]


def _pieces(items: Sequence[int]) -> Iterator[list[int]]:
    """A list in pieces: boxes alone, the nodes between them together, up to some number."""
    piece: list[int] = []
    for item in items:
        if piece and (item < 0 or len(piece) == PART_ITEMS):
            yield piece
            piece = []
        if item < 0:
            yield [item]
        else:
            piece.append(item)
    if piece:
        yield piece


def _scope_box(name: str | LoopScope, parent: int) -> ScopeBox:
    if isinstance(name, LoopScope):
        return ScopeBox(name.label, "loop", parent)
    return ScopeBox(name, "scope", parent)
