"""Rows of a graph that opens scope by scope: which boxes there are, and what stands in which row.

A box is a scope, a part of a long list, or several repeats of one thing.  Each holds items, which
are nodes and other boxes, in rows: what is read stands above its readers.  Where a box is read by
one that comes before it, as gradients are by the layers they belong to, that edge runs upward.
Everything takes time linear in the size of the graph, but for sorting within rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal, NamedTuple

import numpy as np

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

BoxKind = Literal["scope", "part", "repeats"]
Row = list[int]


@dataclass
class ScopeBox:
    """A part of a graph that is shown as one box, or with what is in it."""

    label: str
    kind: BoxKind
    parent: int
    items: list[int] = field(default_factory=list[int])
    """In order of first appearance: a node by its number, box `b` as `~b`."""
    parts: list[list[Row]] = field(default_factory=list[list[Row]])
    """The items in rows, for each connected part."""
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
    """

    def __init__(
        self,
        paths: Sequence[Sequence[str] | None],
        kinds: Sequence[str],
        inputs: Sequence[Sequence[int]],
    ) -> None:
        self.boxes = [ScopeBox("", "scope", -1)]
        self.home = [0] * len(paths)
        """The box each node stands in."""
        self._kinds, self._shapes = kinds, dict[object, int]()
        self._box_shape: list[int] = []
        self._sort_into_scopes(paths)
        for box in reversed(range(len(self.boxes))):
            self._fold(box)
        self._find_homes()
        self._fill_rows(inputs, [path is not None for path in paths])

    # -------------------------------------------------------------------- boxes

    def _sort_into_scopes(self, paths: Sequence[Sequence[str] | None]) -> None:
        known: dict[tuple[int, str], int] = {}
        for node, path in enumerate(paths):
            if path is None:
                continue
            box = 0
            for name in path:
                inner = known.get((box, name))
                if inner is None:
                    inner = known[box, name] = self._add(ScopeBox(name, "scope", box))
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
        while len(items) > MAX_ITEMS:
            pieces = [items[k : k + PART_ITEMS] for k in range(0, len(items), PART_ITEMS)]
            items = list[int]()
            for number, piece in enumerate(pieces, 1):
                part = self._add(ScopeBox("", "part", box))
                self._fill(part, piece, f"part {number} of {len(pieces)}")
                items.append(~part)
        own.items = items

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

    def _fill_rows(self, inputs: Sequence[Sequence[int]], drawn: Sequence[bool]) -> None:
        depth = [0] * len(self.boxes)
        for index in self.boxes_downward():
            if index:
                depth[index] = depth[self.boxes[index].parent] + 1
        edges: list[dict[tuple[int, int], None]] = [{} for _ in self.boxes]
        for reader, sources in enumerate(inputs):
            for source in sources if drawn[reader] else ():
                if drawn[source]:
                    box, pair = self._siblings(source, reader, depth)
                    edges[box][pair] = None
        for own, inside in zip(self.boxes, edges, strict=True):
            own.parts = list(_rows(own.items, inside))

    def boxes_downward(self) -> Iterator[int]:
        """Every box, each after the one it stands in."""
        stack = [0]
        while stack:
            index = stack.pop()
            yield index
            stack += [~i for i in self.boxes[index].items if i < 0]

    def _siblings(self, a: int, b: int, depth: Sequence[int]) -> tuple[int, tuple[int, int]]:
        """The innermost box that holds both nodes, and the items in it that do."""
        left, right = self.home[a], self.home[b]
        while left != right:
            if depth[left] >= depth[right]:
                a, left = ~left, self.boxes[left].parent
            else:
                b, right = ~right, self.boxes[right].parent
        return left, (a, b)


def _rows(items: Sequence[int], edges: dict[tuple[int, int], None]) -> Iterator[list[Row]]:
    """The rows of each connected part."""
    place = {item: k for k, item in enumerate(items)}
    pairs = [(place[a], place[b]) for a, b in edges]
    above: list[list[int]] = [[] for _ in items]
    for a, b in pairs:
        if a < b:
            above[b].append(a)
    level = levels(above)
    for part in components(len(items), pairs):
        least = min(level[k] for k in part)
        rows: list[Row] = [[] for _ in range(max(level[k] for k in part) - least + 1)]
        for k in part:
            rows[level[k] - least].append(k)
        rank = {k: n - len(row) / 2 for row in rows for n, k in enumerate(row)}
        for upper, row in pairwise([[], *rows]):
            if upper:
                wish = {
                    k: sum(rank[s] for s in above[k]) / len(above[k]) if above[k] else rank[k]
                    for k in row
                }
                row.sort(key=wish.__getitem__)
                rank.update({k: n - len(row) / 2 for n, k in enumerate(row)})
        yield [[items[k] for k in row] for row in rows if row]


def levels(inputs: Sequence[Sequence[int]]) -> list[int]:
    """The longest way down to each item, whose inputs come before it.

    Those without inputs stand right above their first reader.
    """
    level = [0] * len(inputs)
    first: dict[int, int] = {}
    for item, sources in enumerate(inputs):
        level[item] = max((level[s] + 1 for s in sources), default=0)
        for source in sources:
            first[source] = min(first.get(source, level[item]), level[item])
    return [
        first[item] - 1 if not sources and item in first else level[item]
        for item, sources in enumerate(inputs)
    ]


def components(count: int, pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The numbers below `count` in groups between which there is no pair."""
    leader = list(range(count))

    def find(k: int) -> int:
        while leader[k] != k:
            leader[k] = leader[leader[k]]
            k = leader[k]
        return k

    for a, b in pairs:
        leader[find(b)] = find(a)
    groups: dict[int, list[int]] = {}
    for k in range(count):
        groups.setdefault(find(k), []).append(k)
    return list(groups.values())
