"""Recomputation along a chain: the best checkpoints, by dynamic programming.

An order that goes forth and comes back (a training step) is cut where little is live.  Between cuts
lie stages; what comes back reads what the stages made, the last stage first.  With `m` bytes free
and the operands of stage `s` at hand, stages `s..t` are come back through at least cost by one of:

- run forth to the operands of some later stage `u`, hold them, come back through `u..t`, then
  through `s..u-1`;
- run stage `s`, hold all that coming back through it reads, come back through `s+1..t`.

On a chain of equal steps that is the optimum of Revolve, with different ones it is Rotor's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tawny.memory.recompute.eviction import Walk
from tawny.memory.recompute.tables import Tables

MOST_STAGES = 110
MOST_SLOTS = 160
"""Bytes are counted in so many slots at most."""
HOLD = -1
"""The choice to run a stage and hold what it saves."""


class Part(NamedTuple):
    """Running some of a stage: which steps, and the bytes that need room meanwhile."""

    steps: tuple[int, ...]
    seconds: float
    peak: int


@dataclass
class Stage:
    """The steps between two cuts, and what they cost and need beside the stage's operands."""

    steps: tuple[int, ...]
    front: frozenset[int]
    """The operands: roots made before that are read from here on, on the way forth."""
    saved: frozenset[int]
    """The roots it makes that coming back through it reads."""
    back: tuple[int, ...]
    """The steps that come back through it."""
    on: Part
    """Making the operands of the next stage."""
    through: Part
    """The same, its own operands included in the bytes and let go on the way."""
    all: Part
    """Making the operands of the next stage and what is saved, which stays."""
    last: Part
    """Making what is saved."""
    peak_back: int
    """While coming back: what is saved, and what coming back has made."""
    carried: int
    """What coming back has made when it arrives here."""


def live_between(tables: Tables, path: Walk) -> NDArray[np.int64]:
    """The bytes that are live after each position of the order."""
    change = np.zeros(len(path.order) + 1, np.int64)
    for position, s in enumerate(path.order):
        for r in tables.writes[s]:
            end = len(path.order) if r in tables.kept else (path.uses[r] or (position,))[-1]
            change[position] += tables.sizes[r]
            change[end] -= tables.sizes[r]
    return np.cumsum(change)[:-1]


class Forth(NamedTuple):
    """The way forth: where it is cut, where it ends, and until when each root is read on it."""

    cuts: list[int]
    end: int
    born: dict[int, int]
    until: dict[int, int]


def forth(tables: Tables, path: Walk) -> Forth:
    """Cut an order, up to where most is live, at its start and where least is read across."""
    live = live_between(tables, path)
    end = len(live) - int(np.argmax(live[::-1]))
    born = {r: p for p, s in enumerate(path.order) for r in tables.writes[s]}
    until = {
        r: max((u for u in path.uses[r] if u < end), default=p) for r, p in born.items() if p < end
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
    return Forth([0, *found], end, born, until)


def _is_low(width: NDArray[np.int64], c: int) -> bool:
    """Whether no fewer bytes are read across the neighbours of a cut."""
    before = width[c - 1] if c > 1 else width[c]
    return bool(0 < width[c] <= before) and not 0 < width[c + 1] < width[c]


def stages(tables: Tables, path: Walk) -> list[Stage]:
    """Cut an order into stages; the last one is where it turns and has no steps of its own."""
    cuts, _, born, until = forth(tables, path)
    turn, count = cuts[-1], len(cuts)
    index = np.searchsorted(cuts, np.arange(len(path.order)), side="right") - 1
    fronts = [
        frozenset(r for r, p in born.items() if p < c and until.get(r, -1) >= c) for c in cuts
    ]
    home = {r: int(index[p]) for r, p in born.items() if p < turn}
    for stage, front in enumerate(fronts):
        for r in front:
            home[r] = max(home[r], stage)
    arrive = [len(path.order)] * count
    saved: list[set[int]] = [set() for _ in cuts]
    lowest = count
    for position in range(turn, len(path.order)):
        for r in tables.reads[path.order[position]]:
            if r in home:
                saved[home[r]].add(r)
                while lowest > home[r]:
                    lowest -= 1
                    arrive[lowest] = position
    arrive[-1] = turn
    for stage in range(count - 2, -1, -1):
        arrive[stage] = max(arrive[stage], arrive[stage + 1])
    made = _Back(tables, path, turn)
    result: list[Stage] = []
    for i, start in enumerate(cuts):
        steps = path.order[start : cuts[i + 1]] if i + 1 < count else ()
        onward = fronts[i + 1] if i + 1 < count else frozenset[int]()
        own = frozenset(r for r in saved[i] if born[r] >= start)
        leave = arrive[i - 1] if i else len(path.order)
        result.append(
            Stage(
                steps,
                fronts[i],
                own,
                path.order[arrive[i] : leave],
                _part(tables, steps, onward, (), ()),
                _part(tables, steps, onward, (), fronts[i]),
                _part(tables, steps, onward | own, own, ()),
                _part(tables, steps, own, own, ()),
                made.peak(arrive[i], leave, own),
                made.carried(arrive[i]),
            )
        )
    return result


class _Back:
    """What is live on the way back, beside what was made on the way forth."""

    def __init__(self, tables: Tables, path: Walk, turn: int) -> None:
        self.tables, self.path, self.turn = tables, path, turn
        order, sizes = path.order, tables.sizes
        change = np.zeros(len(order) + 2, np.int64)
        self.last: dict[int, int] = {}
        for position, s in enumerate(order):
            for r in tables.writes[s]:
                end = len(order) if r in tables.kept else (path.uses[r] or (position,))[-1]
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
            for read, written in tables.slides[s]:
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

    def carried(self, position: int) -> int:
        """The bytes that were made on the way back before `position` and are read from it on."""
        if position >= len(self.path.order):
            return int(self.held[-1])
        made = self.tables.writes[self.path.order[position]]
        return int(self.held[position]) - sum(self.tables.sizes[r] for r in made)


def _part(
    tables: Tables,
    steps: Sequence[int],
    targets: Iterable[int],
    staying: Iterable[int],
    operands: Iterable[int],
) -> Part:
    """Run what makes `targets` of `steps`; `staying` stays to the end, `operands` may be let go."""
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
        for read, written in tables.slides[s]:
            if read in alive and last[read] == p and not taken.intersection((read, written)):
                taken.update((read, written))
                need -= sizes[read]
        peak = max(peak, need)
        alive.update(made)
        dead = [r for r in (*tables.reads[s], *made) if r in alive and last.get(r, p) <= p]
        alive.difference_update(dead)
        live += sum(sizes[r] for r in made) - sum(sizes[r] for r in set(dead))
    return Part(tuple(chosen), sum(tables.seconds[s] for s in chosen), peak)


class Chain:
    """The best checkpoints for every number of bytes up to a limit."""

    def __init__(self, tables: Tables, path: Walk, limit: int) -> None:
        self.tables = tables
        self.stages = stages(tables, path)
        limit -= tables.standing
        unit = int(np.gcd.reduce([size for size in tables.sizes if size] or [1]))
        slots = min(limit // unit, MOST_SLOTS)
        self.slot = max(-(-limit // max(slots, 1) // unit) * unit, unit)
        self.slots = limit // self.slot
        count = len(self.stages)
        self.choice = np.zeros((count, count, self.slots + 1), np.int8)
        self.feasible = np.isfinite(self._solve())
        """For each number of slots whether there is a way back."""

    def _in_slots(self, bytes: int) -> int:
        return -(-bytes // self.slot)

    def _solve(self) -> NDArray[np.float64]:
        """Fill the table of choices, for each `t` ascending, each `s` descending; the costs."""
        stages, choice, slots = self.stages, self.choice, self.slots
        count = len(stages)
        cost: NDArray[np.float64] = np.full((count, count, slots + 1), np.inf)
        room = np.arange(slots + 1)
        seconds = np.concatenate([[0.0], np.cumsum([stage.on.seconds for stage in stages])])
        holds = [self._holds(s) for s in range(count)]
        peaks = [self._peaks(s) for s in range(count)]
        for t, last in enumerate(stages):
            carried = last.carried
            least = self._in_slots(max(last.last.peak + carried, last.peak_back))
            cost[t, t, least:] = last.last.seconds
            choice[t, t] = HOLD
            for s in range(t - 1, -1, -1):
                stage = stages[s]
                need = self._in_slots(max(stage.all.peak + carried, stage.peak_back))
                shift = self._saved(s)
                best = np.full(slots + 1, np.inf)
                start = max(need, shift)
                if start <= slots:
                    span = cost[s + 1, t, : slots + 1 - shift]
                    best[start:] = stage.all.seconds + span[start - shift :]
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

    def _holds(self, s: int) -> NDArray[np.int64]:
        """For each later stage the slots that holding its operands takes, beside those of `s`."""
        stages = self.stages
        held = [self._bytes(later.front - stages[s].front) for later in stages[s + 1 :]]
        return np.array([self._in_slots(bytes) for bytes in held], np.int64)

    def _peaks(self, s: int) -> NDArray[np.int64]:
        """For each later stage the bytes that running forth from `s` to it needs."""
        parts = [self.stages[s].on, *(stage.through for stage in self.stages[s + 1 :])]
        return np.maximum.accumulate(np.array([part.peak for part in parts], np.int64))

    def _saved(self, s: int) -> int:
        """The slots that what stage `s` saves and the operands of the next take."""
        stage = self.stages[s]
        return self._in_slots(self._bytes((stage.saved | self.stages[s + 1].front) - stage.front))

    def _bytes(self, roots: Iterable[int]) -> int:
        return sum(self.tables.sizes[r] for r in roots)

    def sequence(self, limit: int) -> list[int] | None:
        """The steps that come back inside `limit` bytes at least cost; None if that cannot be."""
        top = min((limit - self.tables.standing) // self.slot, self.slots)
        count = len(self.stages)
        if top < 0 or not self.feasible[top]:
            return None
        sequence: list[int] = []
        ran: set[int] = set()

        def run(steps: Iterable[int]) -> None:
            for s in steps:
                if s not in ran or self.tables.again[s]:
                    sequence.append(s)
                    ran.add(s)

        stack: list[tuple[int, int, int] | int] = [(0, count - 1, top)]
        while stack:
            task = stack.pop()
            if isinstance(task, int):
                run(self.stages[task].back)
                continue
            s, t, m = task
            choice = int(self.choice[s, t, m])
            if choice != HOLD:
                for u in range(s, choice):
                    run(self.stages[u].steps)
                held = int(self._holds(s)[choice - s - 1])
                stack += [(s, choice - 1, m), (choice, t, m - held)]
                continue
            run(self.stages[s].steps)
            stack.append(s)
            if s < t:
                stack.append((s + 1, t, m - self._saved(s)))
        return sequence
