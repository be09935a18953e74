"""Orders of a problem's steps: the report's, and several that need less memory.

All are of O(E log n).  None is best on every graph: lists are poor on trees, post-orders on
training steps, so `best_order` tries several and keeps the one with the smallest peak.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from tawny.lazy import cached_property
from tawny.memory.effort import SECOND, Effort
from tawny.memory.ordering.contract import Folded, fold
from tawny.memory.ordering.exact_order import Search
from tawny.memory.ordering.lower_bound import least_peak
from tawny.memory.ordering.model import Model, model
from tawny.memory.problem import Problem

LARGEST_SEARCHED = 4000
"""Steps above which the exact search is not tried."""
NEAR = 1.1
"""An order that needs more than this many times the least peak is given up."""


class Run:
    """A run under way: what is ready, what is live, what each step would change."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.order: list[int] = []
        self.live = model.base
        self.peak = model.base
        self.left = model.readers.copy()
        self.sums = model.sum_of_readers.copy()
        self.waits = [len(p) for p in model.predecessors]
        self.net = model.stays.copy()
        """What each step would add to the live bytes if it ran now."""
        self.high = model.base
        """The bytes that were there while the last step ran."""
        self.done = bytearray(len(model))
        for cell, count in enumerate(self.left):
            if count == 1:
                self.net[self.sums[cell]] -= model.size[cell]

    def need(self, step: int) -> int:
        """Bytes that a ready step adds while it runs."""
        model, left = self.model, self.left
        slides = model.slides[step]
        if not slides:
            return model.made[step]
        if len(model.outputs[step]) == 1:
            for cell, _ in slides:
                if left[cell] == 1:
                    return model.made[step] - model.size[cell]
            return model.made[step]
        return model.made[step] - model.saved(step, [c for c, _ in slides if left[c] == 1])

    def step(self, step: int) -> list[int]:
        """Run a ready step; the steps that are ready now and are new or cost less than before."""
        model, left, sums, net, waits = self.model, self.left, self.sums, self.net, self.waits
        high = self.high = self.live + (self.need(step) if model.slides[step] else model.made[step])
        self.peak = max(self.peak, high)
        self.live += net[step]
        self.done[step] = 1
        self.order.append(step)
        changed: list[int] = []
        for c in model.reads[step]:
            left[c] -= 1
            sums[c] -= step
            if left[c] == 1:
                other = sums[c]
                net[other] -= model.size[c]
                if not waits[other]:
                    changed.append(other)
        for s in model.successors[step]:
            waits[s] -= 1
            if not waits[s]:
                changed.append(s)
        return changed

    def ready(self) -> list[int]:
        """The steps that are ready at the start."""
        return [s for s, count in enumerate(self.waits) if not count]


def peak_of(model: Model, order: Sequence[int], most: int = sys.maxsize) -> int:
    """The peak of a given order, or what it is once it is more than `most`."""
    run = Run(model)
    for s in order:
        run.step(s)
        if run.peak > most:
            break
    return run.peak


def needs_of(model: Model, order: Iterable[int]) -> list[int]:
    """Bytes that are there while each step of an order runs."""
    run, needs = Run(model), list[int]()
    for s in order:
        run.step(s)
        needs.append(run.high)
    return needs


def natural(model: Model) -> list[int]:
    """The order in which the steps are given, as far as their inputs allow."""
    if all(p < s for s, before in enumerate(model.predecessors) for p in before):
        return list(range(len(model)))
    waits = [len(p) for p in model.predecessors]
    heap = [s for s, count in enumerate(waits) if not count]
    order: list[int] = []
    while heap:
        step = heappop(heap)
        order.append(step)
        for s in model.successors[step]:
            waits[s] -= 1
            if not waits[s]:
                heappush(heap, s)
    return order


def depth_first(problem: Problem) -> list[int]:
    """The report's order: each kept value in turn, its operands first, left to right."""
    values, steps, makers = problem.values, problem.steps, problem.makers
    done = bytearray(len(steps))
    order: list[int] = []
    read = {v for step in steps for v in step.inputs}
    wanted = [v for v, value in enumerate(values) if value.kept]
    wanted += [v for v in range(len(values)) if v not in read]
    for target in wanted:
        stack = [(target, False)]
        while stack:
            v, operands_done = stack.pop()
            s = makers[v]
            if s is None:
                base = values[v].view_of
                if base is not None:
                    stack.append((base, False))
            elif operands_done:
                if not done[s]:
                    done[s] = 1
                    order.append(s)
            elif not done[s]:
                stack.append((v, True))
                stack.extend([(steps[p].outputs[0], False) for p in reversed(steps[s].after)])
                stack.extend([(i, False) for i in reversed(steps[s].inputs)])
    order.extend(s for s in range(len(steps)) if not done[s])
    return order


def postorder(model: Model) -> list[int]:
    """Liu's best post-order of a tree; on other graphs each step counts for its first reader."""
    bytes = model.size
    size = [sum([bytes[v] for v in own]) for own in model.outputs]
    need = [0] * len(model)
    children: list[Sequence[int]] = [()] * len(model)
    for s in natural(model):
        before: Sequence[int] = model.predecessors[s]
        if len(before) > 1:
            before = sorted(before, key=lambda p: (size[p] - need[p], p))
        children[s] = before
        held = highest = 0
        for p in before:
            highest = max(highest, held + need[p])
            held += size[p]
        need[s] = max(highest, held + model.made[s])
    order: list[int] = []
    state = bytearray(len(model))
    for root in range(len(model)):
        if model.successors[root]:
            continue
        stack = [root]
        while stack:
            s = stack[-1]
            if state[s]:
                stack.pop()
                if state[s] == 1:
                    state[s] = 2
                    order.append(s)
                continue
            state[s] = 1
            stack.extend([p for p in reversed(children[s]) if not state[p]])
    return order


Found = tuple[list[int], int]
"""An order and its peak."""


def list_order(model: Model, most: int) -> Found | None:
    """Always the ready step that frees most, net of what it makes; then the one most awaited.

    Given up once it needs more than `most` bytes.
    """
    run = Run(model)
    net, successors = run.net, model.successors
    heap = [(net[s], -len(successors[s]), s) for s in run.ready()]
    heapify(heap)
    while heap:
        if run.peak > most:
            return None
        _, _, step = heappop(heap)
        if not run.done[step]:
            for s in run.step(step):
                heappush(heap, (net[s], -len(successors[s]), s))
    return run.order, run.peak


def eager(model: Model, base: Sequence[int], bound: int, most: int) -> Found | None:
    """Follow `base`, but run at once every step that frees what it needs under the peak so far.

    Such a step is *safe*: pulling it forward in any order makes nothing later cost more.  No order
    has a peak under `bound`; this one is given up once it needs more than `most` bytes.
    """
    run = Run(model)
    run.peak = bound
    net = run.net
    heap = [(run.need(s), s) for s in run.ready() if net[s] <= 0]
    heapify(heap)
    for step in base:
        if run.peak > most:
            return None
        if run.done[step]:
            continue
        while heap and run.live + heap[0][0] <= run.peak:
            _, safe = heappop(heap)
            if not run.done[safe]:
                for s in run.step(safe):
                    if net[s] <= 0:
                        heappush(heap, (run.need(s), s))
        if not run.done[step]:
            for s in run.step(step):
                if net[s] <= 0:
                    heappush(heap, (run.need(s), s))
    return run.order, run.peak


def prompt(model: Model, base: Sequence[int], most: int) -> list[int]:
    """Follow `base`, but run at once every short run of steps that leaves no more alive.

    While such a run is under way no more than `most` bytes, the peak of `base`, are alive.
    """
    run, search, done = Run(model), Search(model, most), 0
    fresh = run.ready()
    for step in base:
        moves = [step]
        while moves:
            for s in moves:
                if not run.done[s]:
                    fresh.extend(run.step(s))
                    done |= 1 << s
            moves = []
            while fresh and not moves:
                s = fresh.pop()
                if not run.done[s] and run.live + run.need(s) <= most:
                    moves = [s] if run.net[s] <= 0 else search.descent(done, run.live, s)
    return run.order


class Way(Enum):
    """How an order was found."""

    REPORT = "the report's: depth first"
    POSTORDER = "Liu's post-order with safe moves"
    NATURAL = "as given, with safe moves"
    LIST = "list scheduling"
    SEARCH = "exact search"


class Order(NamedTuple):
    """A sequence of steps, its peak, how it was found and whether none has a smaller peak."""

    sequence: list[int]
    peak: int
    way: Way
    optimal: bool


def best_order(
    problem: Problem, *, alignment: int = 1, looks: int = SECOND // 10, states: int = 50_000
) -> Order:
    """The order with the smallest peak found within the limits; never above the report's order.

    `looks` and `states` limit what goes beyond the portfolio; sizes are rounded up to `alignment`.
    """
    return orders(problem, alignment=alignment, looks=looks, states=states)[0]


def orders(
    problem: Problem,
    *,
    alignment: int = 1,
    looks: int = SECOND // 10,
    states: int = 50_000,
    most: int = sys.maxsize,
) -> list[Order]:
    """All orders that were tried, by growing peak; the report's is always among them.

    With `most`, only those that need no more bytes, if there are any; the others are given up.
    """
    return Portfolio(problem, alignment, most).tried(Effort(looks), states)


class Portfolio:
    """The orders of a problem, found one after the other."""

    def __init__(self, problem: Problem, alignment: int = 1, most: int = sys.maxsize) -> None:
        self.graph = model(problem, alignment)
        self._floor = self.graph.floor()
        """No order needs less."""
        self._most = most
        self._coming = self._found(problem)

    @cached_property
    def _folded(self) -> Folded:
        return fold(self.graph, natural(self.graph))

    def _found(self, problem: Problem) -> Iterator[Order]:
        most = self._most
        if self._floor > most:
            return
        report = depth_first(problem)
        least = self._peak(report)
        if least <= most:
            yield Order(report, least, Way.REPORT, optimal=least <= self._floor)
        if self._floor > most:
            return
        for way, (sequence, peak) in others(self._folded, self._floor, least, most):
            if peak < least:
                least = self._peak(sequence)
            yield Order(sequence, peak, way, optimal=peak <= self._floor)

    def _peak(self, order: Sequence[int]) -> int:
        """The peak of an order, which may tell more of what all orders need."""
        needs = needs_of(self.graph, order)
        self._floor = least_peak(self.graph, order, needs, self._floor)
        return max(needs, default=self.graph.base)

    def tried(self, effort: Effort, states: int) -> list[Order]:
        """Orders by growing peak, up to the first that needs the least; then one is searched for.

        The search takes no more than this effort and these states.
        """
        found: list[Order] = []
        for order in self._coming:
            found.append(order)
            if order.optimal:
                break
        found.sort(key=lambda order: order.peak)
        is_done = self._floor > self._most or (bool(found) and found[0].optimal)
        if is_done or len(self.graph) > LARGEST_SEARCHED or effort.is_over:
            return found
        search = Search(self._folded.model, self._floor)
        better, certain = search.run(found[0].peak if found else self._most + 1, effort, states)
        if better is not None:
            sequence = self._folded.unfolded(better)
            return [Order(sequence, search.accepted, Way.SEARCH, optimal=True), *found]
        return [*[first._replace(optimal=certain) for first in found[:1]], *found[1:]]

    def rest(self) -> list[Order]:
        """The orders that were not tried, since one before needs the least."""
        return list(self._coming)


def others(
    folded: Folded, floor: int, least: int, most: int = sys.maxsize
) -> Iterator[tuple[Way, Found]]:
    """The portfolio without the report's order, whose peak is the least so far.

    With `most`, only orders that need no more bytes.
    """
    small = folded.model
    ways: list[tuple[Way, Callable[[int], Found | None]]] = [
        (Way.POSTORDER, lambda most: eager(small, postorder(small), floor, most)),
        (Way.NATURAL, lambda most: eager(small, natural(small), floor, most)),
        (Way.LIST, lambda most: list_order(small, most)),
    ]
    for way, run in ways:
        found = run(min(most, int(least * NEAR)))
        if found is not None and found[1] <= most:
            order, peak = found
            yield way, (folded.unfolded(order), peak)
            least = min(least, peak)
