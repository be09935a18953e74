"""Items in rows: what is read stands above its readers, near to them, so that few edges cross.

Everything takes time linear in the number of edges, but for sorting within rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

Row = list[int]
Pair = tuple[int, int]

MAX_ROW: Final = 12
"""Items of a row above which it goes on in another below."""

ORDER_SWEEPS: Final = 6
"""How often rows are put in a new order: down and up again."""


def part_rows(items: Sequence[int], edges: Iterable[Pair]) -> Iterator[list[Row]]:
    """The rows of each connected part.

    `items` are in an order; edges from an item to one before it do not count for the rows.
    """
    place = {item: k for k, item in enumerate(items)}
    pairs = [(place[a], place[b]) for a, b in edges if a in place and b in place]
    above: list[list[int]] = [[] for _ in items]
    near: list[list[int]] = [[] for _ in items]
    for a, b in pairs:
        near[a].append(b)
        near[b].append(a)
        if a < b:
            above[b].append(a)
    level = levels(above)
    for part in components(len(items), pairs):
        least = min(level[k] for k in part)
        rows: list[Row] = [[] for _ in range(max(level[k] for k in part) - least + 1)]
        for k in part:
            rows[level[k] - least].append(k)
        rows = order_rows([row for row in rows if row], near)
        yield [[items[k] for k in line] for row in rows for line in _lines(row)]


def _lines(row: Row) -> Iterator[Row]:
    """A row in pieces that are not too wide."""
    for k in range(0, len(row), MAX_ROW):
        yield row[k : k + MAX_ROW]


def order_rows(rows: list[Row], near: Sequence[Sequence[int]]) -> list[Row]:
    """The rows, each in an order in which items stand near to those they are joined with."""
    level = {item: k for k, row in enumerate(rows) for item in row}
    place = {item: n - len(row) / 2 for row in rows for n, item in enumerate(row)}
    best, least = rows, _edge_length(rows, near, place)
    for sweep in range(ORDER_SWEEPS):
        downward = sweep % 2 == 0
        rows = [list(row) for row in rows]
        for row in rows if downward else reversed(rows):
            wishes = {item: _wish(item, near[item], level, place, downward) for item in row}
            row.sort(key=wishes.__getitem__)
            place.update({item: n - len(row) / 2 for n, item in enumerate(row)})
        length = _edge_length(rows, near, place)
        if length < least:
            best, least = rows, length
    return best


def _wish(
    item: int,
    near: Sequence[int],
    level: dict[int, int],
    place: dict[int, float],
    downward: bool,
) -> float:
    """The mean place of those an item is joined with in the rows the sweep comes from."""
    total = weight = 0.0
    for other in near:
        away = level[item] - level[other] if downward else level[other] - level[item]
        if away > 0:
            total += place[other] / away
            weight += 1 / away
    return total / weight if weight else place[item]


def _edge_length(
    rows: Sequence[Row], near: Sequence[Sequence[int]], place: dict[int, float]
) -> float:
    return sum(
        abs(place[item] - place[other]) for row in rows for item in row for other in near[item]
    )


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


def run_order(items: Sequence[int], edges: Iterable[Pair]) -> list[int]:
    """Items behind all that they read, in the order given otherwise; so are those of a cycle."""
    place = {item: k for k, item in enumerate(items)}
    after: list[list[int]] = [[] for _ in items]
    for a, b in edges:
        after[place[a]].append(place[b])
    cycle = cycles(after)
    waits = [0] * len(items)
    """For each cycle, by its first item, how many edges lead to it."""
    members: dict[int, list[int]] = {}
    for k, first in enumerate(cycle):
        members.setdefault(first, []).append(k)
        for b in after[k]:
            waits[cycle[b]] += cycle[b] != first
    ready = [first for first in members if not waits[first]]
    out: list[int] = []
    heapify(ready)
    while ready:
        for k in members[heappop(ready)]:
            out.append(items[k])
            for b in after[k]:
                if cycle[b] != cycle[k]:
                    waits[cycle[b]] -= 1
                    if not waits[cycle[b]]:
                        heappush(ready, cycle[b])
    return out


def cycles(after: Sequence[Sequence[int]]) -> list[int]:
    """For each number the least of those from which it can be reached and that reach it.

    Tarjan's algorithm, without recursion.
    """
    count = len(after)
    seen, low, found = [-1] * count, [0] * count, [-1] * count
    open_: list[int] = []
    time = 0
    for root in range(count):
        stack = [(root, 0)] if seen[root] < 0 else []
        while stack:
            k, position = stack.pop()
            if not position:
                seen[k] = low[k] = time
                time += 1
                open_.append(k)
            for at in range(position, len(after[k])):
                other = after[k][at]
                if seen[other] < 0:
                    stack += [(k, at + 1), (other, 0)]
                    break
                if found[other] < 0:
                    low[k] = min(low[k], low[other])
            else:
                if low[k] == seen[k]:
                    group = [open_.pop()]
                    while group[-1] != k:
                        group.append(open_.pop())
                    least = min(group)
                    for one in group:
                        found[one] = least
                if stack:
                    low[stack[-1][0]] = min(low[stack[-1][0]], low[k])
    return found


def components(count: int, pairs: Iterable[Pair]) -> list[list[int]]:
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
