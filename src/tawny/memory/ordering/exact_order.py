"""The order with the smallest peak, found exactly: best-first search over sets of steps done.

The live bytes between steps depend only on the set of steps done, so a state is that set (a bit
mask).  States are expanded by growing peak, which makes the first complete one optimal.  Before a
state is expanded it is closed under *safe moves*, which lose nothing:

- a ready step that adds no live bytes and runs within the peak already accepted;
- a ready step followed by steps that it makes possible, down to the first point where no more bytes
  are live than before, all within the accepted peak.

Both can be pulled forward in any completion: what a set of steps adds to the live bytes only
shrinks when more other steps are done before it, and each tail of such a move adds nothing.
"""

from __future__ import annotations

from functools import reduce
from heapq import heappop, heappush
from typing import NamedTuple

from tawny.memory.effort import Effort
from tawny.memory.ordering.model import KEPT, OrderingModel

LOOKS_PER_QUESTION = 2
"""The looks that asking a step for its bytes counts as."""

LONGEST_DESCENT = 64
"""The most steps of a safe move; it bounds the time of looking for one."""


class Masks(NamedTuple):
    """The model with sets of steps as bit masks."""

    before: list[int]
    """For each step, its predecessors."""
    net: list[int]
    """What each step adds to the live bytes, when none of the instances below dies there."""
    shared: list[tuple[tuple[int, int], ...]]
    """For each step the (other readers, bytes) of each instance it reads that others read too."""
    others: list[dict[int, int]]
    """For each step the other readers of each instance that it may overwrite."""
    nets: list[int]
    """For each step those on whom depends what it adds: the readers in `shared`."""
    needs: list[int]
    """For each step those on whom depends what it needs: the readers in `others`."""


def masks(model: OrderingModel) -> Masks:
    """The masks of a model."""
    readers: dict[int, int] = {}
    for s, instances in enumerate(model.reads):
        for c in instances:
            readers[c] = readers.get(c, 0) | 1 << s
    result = Masks([], [], [], [], [], [])
    for s, instances in enumerate(model.reads):
        result.before.append(sum([1 << p for p in model.predecessors[s]]))
        own = [c for c in instances if model.readers[c] == 1]
        result.net.append(model.bytes_surviving[s] - sum([model.size[c] for c in own]))
        shared = [c for c in instances if 1 < model.readers[c] < KEPT]
        result.shared.append(tuple([(readers[c] ^ 1 << s, model.size[c]) for c in shared]))
        result.others.append({c: readers[c] ^ 1 << s for c, _ in model.in_place_pairs[s]})
        result.nets.append(reduce(int.__or__, [others for others, _ in result.shared[s]], 0))
        result.needs.append(reduce(int.__or__, result.others[s].values(), 0))
    return result


class State(NamedTuple):
    """A set of steps done, how it was reached, and what is live."""

    done: int
    live: int
    ready: tuple[int, ...]
    came_from: State | None
    moves: tuple[int, ...]


class ExactOrderSearch:
    """One search: the accepted peak only grows while it runs."""

    def __init__(self, model: OrderingModel, floor: int) -> None:
        self.model = model
        self.masks = masks(model)
        self.accepted = floor
        self.states = 0
        self.looks = 0
        """The number of times that a step was asked for its bytes."""
        self._nets: list[dict[int, int]] = [{} for _ in self.masks.nets]
        """What `net` gives for each step, by those that are done on whom it depends."""
        self._needs: list[dict[int, int]] = [{} for _ in self.masks.needs]
        """What `need` gives for each step, by those that are done on whom it depends."""

    def net(self, done: int, step: int) -> int:
        """What a step adds to the live bytes."""
        key = done & self.masks.nets[step]
        net = self._nets[step].get(key)
        if net is None:
            net = self.masks.net[step]
            net -= sum([size for others, size in self.masks.shared[step] if others & key == others])
            self._nets[step][key] = net
        return net

    def need(self, done: int, step: int) -> int:
        """Bytes that a step adds while it runs."""
        key = done & self.masks.needs[step]
        need = self._needs[step].get(key)
        if need is None:
            dying = [c for c, others in self.masks.others[step].items() if others & key == others]
            need = self._needs[step][key] = self.model.bytes_written[
                step
            ] - self.model.in_place_savings(step, dying)
        return need

    def newly_ready(self, done: int, step: int) -> list[int]:
        """The steps that `step` makes ready."""
        before = self.masks.before
        return [s for s in self.model.successors[step] if before[s] & done == before[s]]

    def descent(self, done: int, live: int, step: int) -> list[int]:
        """A safe move of several steps that starts with `step`; empty if there is none."""
        moves: list[int] = []
        front = [step]
        now = live
        while front and len(moves) < LONGEST_DESCENT:
            self.looks += len(front)
            costs = [(self.net(done, s), s) for s in front]
            net, s = min(costs)
            if now + self.need(done, s) > self.accepted:
                fits = [c for c in costs if now + self.need(done, c[1]) <= self.accepted]
                if not fits:
                    return []
                net, s = min(fits)
            done |= 1 << s
            now += net
            moves.append(s)
            if now <= live:
                return moves
            front = self.newly_ready(done, s) + ([f for f in front if f != s] if net <= 0 else [])
        return []

    def apply_safe_moves(self, state: State) -> State:
        """The state after all safe moves."""
        done, live, ready, moves = state.done, state.live, list(state.ready), list(state.moves)
        stuck = False
        while not stuck:
            stuck = True
            self.looks += len(ready)
            for s in tuple(ready):
                if done >> s & 1 or live + self.need(done, s) > self.accepted:
                    continue
                path = [s] if self.net(done, s) <= 0 else self.descent(done, live, s)
                for m in path:
                    live += self.net(done, m)
                    done |= 1 << m
                    ready.remove(m)
                    ready.extend(self.newly_ready(done, m))
                if path:
                    moves.extend(path)
                    stuck = False
        return State(done, live, tuple(ready), state.came_from, tuple(moves))

    def run(self, bound: int, effort: Effort, states: int) -> tuple[list[int] | None, bool]:
        """An order with a peak under `bound`, and whether the answer is certain.

        The order found is optimal; (None, True) says that no order is under the bound, and
        (None, False) that the work or the number of states that are allowed ended the search.
        """
        model = self.model
        complete = (1 << len(model)) - 1
        ready = tuple([s for s, before in enumerate(self.masks.before) if not before])
        heap = [(self.accepted, 0, 0, State(0, model.pinned_bytes, ready, None, ()))]
        seen: set[int] = set()
        pushed = 0
        while heap:
            peak, depth, _, state = heappop(heap)
            self.accepted = max(self.accepted, peak)
            state = self.apply_safe_moves(state)
            if state.done == complete:
                return moves_to(state), True
            if state.done in seen:
                continue
            seen.add(state.done)
            self.states += 1
            effort.spend(LOOKS_PER_QUESTION * self.looks)
            self.looks = len(state.ready)
            if self.states > states or effort.is_over:
                return None, False
            for s in state.ready:
                peak = max(self.accepted, state.live + self.need(state.done, s))
                if peak >= bound:
                    continue
                done = state.done | 1 << s
                if done in seen:
                    continue
                rest = [r for r in state.ready if r != s] + self.newly_ready(done, s)
                live = state.live + self.net(state.done, s)
                pushed += 1
                child = State(done, live, tuple(rest), state, (s,))
                heappush(heap, (peak, depth - len(state.moves) - 1, pushed, child))
        return None, True


def moves_to(state: State | None) -> list[int]:
    """The steps that led to a state."""
    parts: list[tuple[int, ...]] = []
    while state is not None:
        parts.append(state.moves)
        state = state.came_from
    return [s for moves in reversed(parts) for s in moves]
