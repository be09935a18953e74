"""Checkpoints along a chain: the best ones, by dynamic programming.

An order that runs forward and backward (a training step) is cut where little is live.  Between cuts
lie stages; the backward half reads what the stages made, the last stage first.  With `m` bytes free
and the operands of stage `s` at hand, the backward half of stages `s..t` costs least by one of:

- run forward to the operands of some later stage `u`, hold them, run backward through `u..t`, then
  through `s..u-1`;
- run stage `s`, hold all that its backward half reads, run backward through `s+1..t`.

On a chain of equal steps that is the optimum of Revolve, with different ones it is Rotor's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tawny.memory.recompute.eviction import UseTimes
from tawny.memory.recompute.tables import RecomputeTables

MOST_STAGES = 110
MOST_SLOTS = 160
"""Slots that bytes are counted in, at most; it and the stages bound the table of choices, whose
size is their product times the stages once more."""
HOLD = -1
"""The choice to run a stage and hold what it saves for the backward half."""


class StageRun(NamedTuple):
    """Running some steps of a stage: their time, and the most bytes that are live meanwhile."""

    steps: tuple[int, ...]
    seconds: float
    peak: int


@dataclass
class ChainStage:
    """The steps between two cuts, and what they cost and need beside the stage's operands."""

    steps: tuple[int, ...]
    operands: frozenset[int]
    """Roots made before that the forward half reads from here on."""
    saved: frozenset[int]
    """The roots it makes that its backward half reads."""
    backward: tuple[int, ...]
    """The steps of its backward half."""
    forward: StageRun
    """Making the operands of the next stage."""
    passing: StageRun
    """Making the operands of the next stage, its own operands counted and dropped on the way."""
    forward_saving: StageRun
    """Making the operands of the next stage and what is saved, which stays alive."""
    saving: StageRun
    """Making what is saved only."""
    backward_peak: int
    """The most live bytes of its backward half: what is saved, and what that half has made."""
    carried_bytes: int
    """The bytes that the backward half has made when it arrives here."""


def live_between(tables: RecomputeTables, times: UseTimes) -> NDArray[np.int64]:
    """The bytes that are live after each position of the order."""
    change = np.zeros(len(times.order) + 1, np.int64)
    for position, s in enumerate(times.order):
        for r in tables.writes[s]:
            end = len(times.order) if r in tables.kept else (times.uses[r] or (position,))[-1]
            change[position] += tables.sizes[r]
            change[end] -= tables.sizes[r]
    return np.cumsum(change)[:-1]


class ForwardCuts(NamedTuple):
    """The forward half: where it is cut, where it ends, and until when it reads each root."""

    cuts: list[int]
    end: int
    born: dict[int, int]
    until: dict[int, int]


def find_cuts(tables: RecomputeTables, times: UseTimes) -> ForwardCuts:
    """Cut an order, up to where most is live, at its start and where least is read across."""
    live = live_between(tables, times)
    end = len(live) - int(np.argmax(live[::-1]))
    born = {r: p for p, s in enumerate(times.order) for r in tables.writes[s]}
    until = {
        r: max((u for u in times.uses[r] if u < end), default=p) for r, p in born.items() if p < end
    }
    change = np.zeros(end + 2, np.int64)
    for r, last in until.items():
        change[born[r] + 1] += tables.sizes[r]
        change[last + 1] -= tables.sizes[r]
    width = np.cumsum(change)
    found = [c for c in range(1, end) if _is_low(width, c)]
    spread = 1
    while len(found) > MOST_STAGES:
        kept = [
            c
            for i, c in enumerate(found)
            if width[c] * 32
            <= min(width[n] for n in found[max(i - spread, 0) : i + spread + 1]) * 33
        ]
        found = kept if len(kept) < len(found) else found[::2]
        spread *= 2
    return ForwardCuts([0, *found], end, born, until)


def _is_low(width: NDArray[np.int64], c: int) -> bool:
    """Whether no fewer bytes are read across the neighbours of a cut."""
    before = width[c - 1] if c > 1 else width[c]
    return bool(0 < width[c] <= before) and not 0 < width[c + 1] < width[c]


def cut_stages(tables: RecomputeTables, times: UseTimes) -> list[ChainStage]:
    """The stages of an order; the last one is where it turns backward and has no own steps."""
    cuts, _, born, until = find_cuts(tables, times)
    turn, count = cuts[-1], len(cuts)
    index = np.searchsorted(cuts, np.arange(len(times.order)), side="right") - 1
    fronts = [
        frozenset(r for r, p in born.items() if p < c and until.get(r, -1) >= c) for c in cuts
    ]
    home = {r: int(index[p]) for r, p in born.items() if p < turn}
    for stage, front in enumerate(fronts):
        for r in front:
            home[r] = max(home[r], stage)
    arrive = [len(times.order)] * count
    saved: list[set[int]] = [set() for _ in cuts]
    lowest = count
    for position in range(turn, len(times.order)):
        for r in tables.reads[times.order[position]]:
            if r in home:
                saved[home[r]].add(r)
                while lowest > home[r]:
                    lowest -= 1
                    arrive[lowest] = position
    arrive[-1] = turn
    for stage in range(count - 2, -1, -1):
        arrive[stage] = max(arrive[stage], arrive[stage + 1])
    made = _BackwardMemory(tables, times, turn)
    result: list[ChainStage] = []
    for i, start in enumerate(cuts):
        steps = times.order[start : cuts[i + 1]] if i + 1 < count else ()
        onward = fronts[i + 1] if i + 1 < count else frozenset[int]()
        own = frozenset(r for r in saved[i] if born[r] >= start)
        leave = arrive[i - 1] if i else len(times.order)
        result.append(
            ChainStage(
                steps,
                fronts[i],
                own,
                times.order[arrive[i] : leave],
                _stage_run(tables, steps, onward, (), ()),
                _stage_run(tables, steps, onward, (), fronts[i]),
                _stage_run(tables, steps, onward | own, own, ()),
                _stage_run(tables, steps, own, own, ()),
                made.peak(arrive[i], leave, own),
                made.carried_bytes(arrive[i]),
            )
        )
    return result


class _BackwardMemory:
    """The bytes live in the backward half, beside what the forward half made."""

    def __init__(self, tables: RecomputeTables, times: UseTimes, turn: int) -> None:
        self.tables, self.times, self.turn = tables, times, turn
        order, sizes = times.order, tables.sizes
        change = np.zeros(len(order) + 2, np.int64)
        self.last: dict[int, int] = {}
        for position, s in enumerate(order):
            for r in tables.writes[s]:
                end = len(order) if r in tables.kept else (times.uses[r] or (position,))[-1]
                self.last[r] = end
                if position >= turn or r in tables.kept:
                    change[position] += sizes[r]
                    change[end + 1] -= sizes[r]
        self.held = np.cumsum(change)[: len(order) + 1]
        self.live = self.held.copy()
        for position in range(turn, len(order)):
            s = order[position]
            self.live[position] += tables.scratch[s]
            taken: set[int] = set()
            for read, written in tables.in_place_pairs[s]:
                if self.last[read] == position and not taken.intersection((read, written)):
                    taken.update((read, written))
                    self.live[position] -= sizes[read]

    def peak(self, start: int, end: int, saved: Iterable[int]) -> int:
        """The most live bytes from `start` to `end`, with `saved` until they are read no more."""
        if start >= end:
            return 0
        live = self.live[start:end].copy()
        for r in saved:
            live[: max(self.last[r] + 1 - start, 0)] += self.tables.sizes[r]
        return int(live.max())

    def carried_bytes(self, position: int) -> int:
        """The bytes that the backward half made before `position` and reads from it on."""
        if position >= len(self.times.order):
            return int(self.held[-1])
        made = self.tables.writes[self.times.order[position]]
        return int(self.held[position]) - sum(self.tables.sizes[r] for r in made)


def _stage_run(
    tables: RecomputeTables,
    steps: Sequence[int],
    targets: Iterable[int],
    staying: Iterable[int],
    operands: Iterable[int],
) -> StageRun:
    """Run what makes `targets` of `steps`; `staying` stays alive, `operands` may be dropped."""
    wanted, sizes = set(targets), tables.sizes
    chosen: list[int] = []
    for s in reversed(steps):
        if not wanted.isdisjoint(tables.writes[s]):
            chosen.append(s)
            wanted.update(tables.reads[s])
    chosen.reverse()
    last = {r: p for p, s in enumerate(chosen) for r in tables.reads[s]}
    end = len(chosen)
    last.update(dict.fromkeys(staying, end))
    last.update(dict.fromkeys(targets, end))
    alive = {r for r in operands if r in last}
    live = peak = sum(sizes[r] for r in alive)
    for p, s in enumerate(chosen):
        made = [r for r in tables.writes[s] if r not in alive]
        need = live + tables.scratch[s] + sum(sizes[r] for r in made)
        taken: set[int] = set()
        for read, written in tables.in_place_pairs[s]:
            if read in alive and last[read] == p and not taken.intersection((read, written)):
                taken.update((read, written))
                need -= sizes[read]
        peak = max(peak, need)
        alive.update(made)
        dead = [r for r in (*tables.reads[s], *made) if r in alive and last.get(r, p) <= p]
        alive.difference_update(dead)
        live += sum(sizes[r] for r in made) - sum(sizes[r] for r in set(dead))
    return StageRun(tuple(chosen), sum(tables.seconds[s] for s in chosen), peak)


class CheckpointChain:
    """The best checkpoints for every number of bytes up to a limit."""

    def __init__(self, tables: RecomputeTables, times: UseTimes, limit: int) -> None:
        self.tables = tables
        self.stages = cut_stages(tables, times)
        limit -= tables.pinned_bytes
        unit = int(np.gcd.reduce([size for size in tables.sizes if size] or [1]))
        slots = min(limit // unit, MOST_SLOTS)
        self.slot = max(-(-limit // max(slots, 1) // unit) * unit, unit)
        self.slots = limit // self.slot
        count = len(self.stages)
        self.choice = np.zeros((count, count, self.slots + 1), np.int8)
        self.feasible = np.isfinite(self._solve())
        """For each number of slots whether the backward half can run in them."""

    def _in_slots(self, bytes: int) -> int:
        return -(-bytes // self.slot)

    def _solve(self) -> NDArray[np.float64]:
        """Fill the table of choices, for each `t` ascending, each `s` descending; the costs."""
        stages, choice, slots = self.stages, self.choice, self.slots
        count = len(stages)
        cost: NDArray[np.float64] = np.full((count, count, slots + 1), np.inf)
        room = np.arange(slots + 1)
        seconds = np.concatenate([[0.0], np.cumsum([stage.forward.seconds for stage in stages])])
        holds = [self._held_slots(s) for s in range(count)]
        peaks = [self._peaks(s) for s in range(count)]
        for t, last in enumerate(stages):
            carried = last.carried_bytes
            least = self._in_slots(max(last.saving.peak + carried, last.backward_peak))
            cost[t, t, least:] = last.saving.seconds
            choice[t, t] = HOLD
            for s in range(t - 1, -1, -1):
                stage = stages[s]
                need = self._in_slots(max(stage.forward_saving.peak + carried, stage.backward_peak))
                shift = self._saved_slots(s)
                best = np.full(slots + 1, np.inf)
                start = max(need, shift)
                if start <= slots:
                    span = cost[s + 1, t, : slots + 1 - shift]
                    best[start:] = stage.forward_saving.seconds + span[start - shift :]
                held = holds[s][: t - s, None]
                needs = -(-(peaks[s][: t - s, None] + carried) // self.slot)
                where = room - held
                split = cost[np.arange(s + 1, t + 1)[:, None], t, np.maximum(where, 0)]
                split += cost[s, s:t]
                split += (seconds[s + 1 : t + 1] - seconds[s])[:, None]
                split[room < np.maximum(needs, held)] = np.inf
                pick = split.argmin(axis=0)
                found = split[pick, room]
                cost[s, t] = np.minimum(best, found)
                choice[s, t] = np.where(best <= found, HOLD, pick + s + 1)
        return np.array(cost[0, -1])

    def _held_slots(self, s: int) -> NDArray[np.int64]:
        """For each later stage the slots that holding its operands takes, beside those of `s`."""
        stages = self.stages
        held = [self._bytes(later.operands - stages[s].operands) for later in stages[s + 1 :]]
        return np.array([self._in_slots(bytes) for bytes in held], np.int64)

    def _peaks(self, s: int) -> NDArray[np.int64]:
        """For each later stage the bytes that running forward from `s` to it needs."""
        parts = [self.stages[s].forward, *(stage.passing for stage in self.stages[s + 1 :])]
        return np.maximum.accumulate(np.array([part.peak for part in parts], np.int64))

    def _saved_slots(self, s: int) -> int:
        """The slots that what stage `s` saves and the operands of the next take."""
        stage = self.stages[s]
        return self._in_slots(
            self._bytes((stage.saved | self.stages[s + 1].operands) - stage.operands)
        )

    def _bytes(self, roots: Iterable[int]) -> int:
        return sum(self.tables.sizes[r] for r in roots)

    def sequence(self, limit: int) -> list[int] | None:
        """The steps that run forward and backward within `limit` bytes at least cost, if any do."""
        top = min((limit - self.tables.pinned_bytes) // self.slot, self.slots)
        count = len(self.stages)
        if top < 0 or not self.feasible[top]:
            return None
        sequence: list[int] = []
        ran: set[int] = set()

        def run(steps: Iterable[int]) -> None:
            for s in steps:
                if s not in ran or self.tables.repeatable[s]:
                    sequence.append(s)
                    ran.add(s)

        stack: list[tuple[int, int, int] | int] = [(0, count - 1, top)]
        while stack:
            task = stack.pop()
            if isinstance(task, int):
                run(self.stages[task].backward)
                continue
            s, t, m = task
            choice = int(self.choice[s, t, m])
            if choice != HOLD:
                for u in range(s, choice):
                    run(self.stages[u].steps)
                held = int(self._held_slots(s)[choice - s - 1])
                stack += [(s, choice - 1, m), (choice, t, m - held)]
                continue
            run(self.stages[s].steps)
            stack.append(s)
            if s < t:
                stack.append((s + 1, t, m - self._saved_slots(s)))
        return sequence
