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
from tawny.memory.ordering.contract import ContractedModel, contract
from tawny.memory.ordering.exact_order import ExactOrderSearch
from tawny.memory.ordering.lower_bound import peak_lower_bound
from tawny.memory.ordering.model import OrderingModel, ordering_model
from tawny.memory.problem import Problem

LARGEST_SEARCHED = 4000
"""Steps above which the exact search is not tried: it bounds the time of one."""
NEAR = 1.1
"""An order that needs more than this many times the least peak known is given up; chosen by
hand: the time of finishing and placing it against the chance of a lower arena."""


class OrderSimulation:
    """An order while it runs: what is ready, what is live, what each step would change."""

    def __init__(self, model: OrderingModel) -> None:
        self.model = model
        self.order: list[int] = []
        self.live = model.pinned_bytes
        self.peak = model.pinned_bytes
        self.left = model.readers.copy()
        self.sums = model.sum_of_readers.copy()
        self.waits = [len(p) for p in model.predecessors]
        self.net = model.bytes_surviving.copy()
        """What each step would add to the live bytes if it ran now."""
        self.high = model.pinned_bytes
        """The bytes that were live while the last step ran."""
        self.done = bytearray(len(model))
        for instance, count in enumerate(self.left):
            if count == 1:
                self.net[self.sums[instance]] -= model.size[instance]

    def need(self, step: int) -> int:
        """Bytes that a ready step adds while it runs."""
        model, left = self.model, self.left
        pairs = model.in_place_pairs[step]
        if not pairs:
            return model.bytes_written[step]
        if len(model.outputs[step]) == 1:
            for instance, _ in pairs:
                if left[instance] == 1:
                    return model.bytes_written[step] - model.size[instance]
            return model.bytes_written[step]
        return model.bytes_written[step] - model.in_place_savings(
            step, [c for c, _ in pairs if left[c] == 1]
        )

    def execute(self, step: int) -> list[int]:
        """Run a ready step; the steps that are ready now and are new or cost less than before."""
        model, left, sums, net, waits = self.model, self.left, self.sums, self.net, self.waits
        high = self.high = self.live + (
            self.need(step) if model.in_place_pairs[step] else model.bytes_written[step]
        )
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


def bytes_by_step(model: OrderingModel, order: Iterable[int]) -> list[int]:
    """Bytes that are live while each step of an order runs."""
    run, needs = OrderSimulation(model), list[int]()
    for s in order:
        run.execute(s)
        needs.append(run.high)
    return needs


def natural_order(model: OrderingModel) -> list[int]:
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


def depth_first_order(problem: Problem) -> list[int]:
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


def postorder(model: OrderingModel) -> list[int]:
    """Liu's best post-order of a tree; on other graphs each step counts for its first reader."""
    bytes = model.size
    size = [sum([bytes[v] for v in own]) for own in model.outputs]
    need = [0] * len(model)
    children: list[Sequence[int]] = [()] * len(model)
    for s in natural_order(model):
        before: Sequence[int] = model.predecessors[s]
        if len(before) > 1:
            before = sorted(before, key=lambda p: (size[p] - need[p], p))
        children[s] = before
        held = highest = 0
        for p in before:
            highest = max(highest, held + need[p])
            held += size[p]
        need[s] = max(highest, held + model.bytes_written[s])
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


OrderAndPeak = tuple[list[int], int]
"""An order and its peak."""


def list_order(model: OrderingModel, most: int) -> OrderAndPeak | None:
    """Always the ready step that frees most, net of what it makes; then the one most awaited.

    Given up once it needs more than `most` bytes.
    """
    run = OrderSimulation(model)
    net, successors = run.net, model.successors
    heap = [(net[s], -len(successors[s]), s) for s in run.ready()]
    heapify(heap)
    while heap:
        if run.peak > most:
            return None
        _, _, step = heappop(heap)
        if not run.done[step]:
            for s in run.execute(step):
                heappush(heap, (net[s], -len(successors[s]), s))
    return run.order, run.peak


def pull_safe_steps(
    model: OrderingModel, base: Sequence[int], bound: int, most: int
) -> OrderAndPeak | None:
    """Follow `base`, but run at once every step that frees what it needs without raising the peak.

    Such a step is *safe*: pulling it forward in any order makes nothing later cost more.  No order
    has a peak under `bound`; this one is given up once it needs more than `most` bytes.
    """
    run = OrderSimulation(model)
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
                for s in run.execute(safe):
                    if net[s] <= 0:
                        heappush(heap, (run.need(s), s))
        if not run.done[step]:
            for s in run.execute(step):
                if net[s] <= 0:
                    heappush(heap, (run.need(s), s))
    return run.order, run.peak


def pull_safe_runs(model: OrderingModel, base: Sequence[int], most: int) -> list[int]:
    """Follow `base`, but run at once every short run of steps that leaves no more alive.

    While such a run is under heuristic no more than `most` bytes, the peak of `base`, are alive.
    """
    run, search, done = OrderSimulation(model), ExactOrderSearch(model, most), 0
    fresh = run.ready()
    for step in base:
        moves = [step]
        while moves:
            for s in moves:
                if not run.done[s]:
                    fresh.extend(run.execute(s))
                    done |= 1 << s
            moves = []
            while fresh and not moves:
                s = fresh.pop()
                if not run.done[s] and run.live + run.need(s) <= most:
                    moves = [s] if run.net[s] <= 0 else search.descent(done, run.live, s)
    return run.order


class OrderHeuristic(Enum):
    """The heuristic by which an order was found."""

    REPORT = "the report's: depth first"
    POSTORDER = "Liu's post-order with safe moves"
    NATURAL = "as given, with safe moves"
    LIST = "list scheduling"
    SEARCH = "exact search"


class StepOrder(NamedTuple):
    """A sequence of steps, its peak, how it was found and whether none has a smaller peak."""

    sequence: list[int]
    peak: int
    heuristic: OrderHeuristic
    is_optimal: bool


def best_order(problem: Problem, *, looks: int = SECOND // 10, states: int = 50_000) -> StepOrder:
    """The order with the smallest peak found within the limits; never above the report's order.

    `looks` and `states` limit what goes beyond the portfolio.
    """
    return candidate_orders(problem, looks=looks, states=states)[0]


def candidate_orders(
    problem: Problem,
    *,
    looks: int = SECOND // 10,
    states: int = 50_000,
    most: int = sys.maxsize,
) -> list[StepOrder]:
    """All orders that were tried, by growing peak; the report's is always among them.

    With `most`, only those that need no more bytes, if there are any; the others are given up.
    """
    return Portfolio(problem, most).search(Effort(looks), states)


class Portfolio:
    """The orders of a problem, found one after the other."""

    def __init__(self, problem: Problem, most: int = sys.maxsize) -> None:
        self.model = ordering_model(problem)
        self._floor = self.model.lower_bound()
        """No order needs less."""
        self._most = most
        self._remaining = self._candidates(problem)

    @cached_property
    def _contraction(self) -> ContractedModel:
        return contract(self.model, natural_order(self.model))

    def _candidates(self, problem: Problem) -> Iterator[StepOrder]:
        most = self._most
        if self._floor > most:
            return
        report = depth_first_order(problem)
        least = self._peak(report)
        if least <= most:
            yield StepOrder(report, least, OrderHeuristic.REPORT, is_optimal=least <= self._floor)
        if self._floor > most:
            return
        for heuristic, (sequence, peak) in heuristic_orders(
            self._contraction, self._floor, least, most
        ):
            if peak < least:
                least = self._peak(sequence)
            yield StepOrder(sequence, peak, heuristic, is_optimal=peak <= self._floor)

    def _peak(self, order: Sequence[int]) -> int:
        """The peak of an order; raises the lower bound of all orders where this one shows more."""
        needs = bytes_by_step(self.model, order)
        self._floor = peak_lower_bound(self.model, order, needs, self._floor)
        return max(needs, default=self.model.pinned_bytes)

    def search(self, effort: Effort, states: int) -> list[StepOrder]:
        """Orders by growing peak, up to the first that needs the least; then one is searched for.

        The search takes no more than this effort and these states.
        """
        found: list[StepOrder] = []
        for order in self._remaining:
            found.append(order)
            if order.is_optimal:
                break
        found.sort(key=lambda order: order.peak)
        is_done = self._floor > self._most or (bool(found) and found[0].is_optimal)
        if is_done or len(self.model) > LARGEST_SEARCHED or effort.is_over:
            return found
        search = ExactOrderSearch(self._contraction.model, self._floor)
        better, certain = search.run(found[0].peak if found else self._most + 1, effort, states)
        if better is not None:
            sequence = self._contraction.expand(better)
            return [
                StepOrder(sequence, search.accepted, OrderHeuristic.SEARCH, is_optimal=True),
                *found,
            ]
        return [*[first._replace(is_optimal=certain) for first in found[:1]], *found[1:]]

    def rest(self) -> list[StepOrder]:
        """The orders that `search` left out, since one before them needs the least."""
        return list(self._remaining)


def heuristic_orders(
    contracted: ContractedModel, floor: int, least: int, most: int = sys.maxsize
) -> Iterator[tuple[OrderHeuristic, OrderAndPeak]]:
    """The orders of the portfolio other than the report's, whose peak is `least`.

    With `most`, only orders that need no more bytes.
    """
    small = contracted.model
    heuristics: list[tuple[OrderHeuristic, Callable[[int], OrderAndPeak | None]]] = [
        (
            OrderHeuristic.POSTORDER,
            lambda most: pull_safe_steps(small, postorder(small), floor, most),
        ),
        (
            OrderHeuristic.NATURAL,
            lambda most: pull_safe_steps(small, natural_order(small), floor, most),
        ),
        (OrderHeuristic.LIST, lambda most: list_order(small, most)),
    ]
    for heuristic, run in heuristics:
        found = run(min(most, int(least * NEAR)))
        if found is not None and found[1] <= most:
            order, peak = found
            yield heuristic, (contracted.expand(order), peak)
            least = min(least, peak)
