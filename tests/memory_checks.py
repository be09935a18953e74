"""Independent witnesses for memory plans, written from the definitions alone."""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import permutations

from tawny.memory.plan import ArenaLayout
from tawny.memory.problem import PlanStep, PlanValue, Problem


def replay(
    problem: Problem, sequence: Sequence[int], address: dict[tuple[int, int], int], arena: int
) -> int:
    """Run a sequence on an arena of symbols; the bytes ever touched.

    `address` gives the first byte of each (position, output).  Each byte holds who wrote it last;
    a step must find in every byte of every operand the symbol that the newest making of that
    operand left there, and all kept values must be whole at the end.
    """
    memory = Ranges(arena)
    newest: dict[int, tuple[int, object] | None] = {}

    def base_of(value: int) -> int:
        base = problem.values[value].view_of
        return value if base is None else base_of(base)

    def found(value: int, when: str) -> tuple[int, object] | None:
        """Where reading `value` looks and for what; None outside the arena."""
        base = problem.values[value].view_of
        if problem.makers[value] is None:
            return None if base is None else found(base, when)
        assert value in newest, f"{when} reads value {value} before it is made"
        return newest[value]

    def check(value: int, when: str) -> None:
        place = found(value, when)
        if place is not None:
            start, symbol = place
            size = problem.values[base_of(value)].bytes
            assert memory.holds(start, size, symbol), f"{when} finds value {value} overwritten"

    for position, s in enumerate(sequence):
        step, when = problem.steps[s], f"position {position}"
        for value in step.inputs:
            check(value, when)
        own = [o for o, v in enumerate(step.outputs) if problem.values[v].view_of is None]
        fresh: list[tuple[int, int]] = []
        for o in own:
            start = address[position, o]
            size = problem.values[step.outputs[o]].bytes
            assert all(b + n <= start or start + size <= b for b, n in fresh if n and size)
            fresh.append((start, size))
        read = [found(value, when) for value in step.inputs]
        for value, place in zip(step.inputs, read, strict=True):
            length = problem.values[base_of(value)].bytes
            for o, (begin, size) in zip(own, fresh, strict=True):
                if place is None or not size or not length:
                    continue
                if begin + size <= place[0] or place[0] + length <= begin:
                    continue
                assert (begin, size) == (place[0], length), f"{when} harms its own operand"
                allowed = {i for i, output in step.overwrites if output == o}
                assert {i for i, other in enumerate(read) if other == place} <= allowed
        for o, (start, size) in zip(own, fresh, strict=True):
            symbol = (position, o)
            memory.write(start, size, symbol)
            newest[step.outputs[o]] = (start, symbol)
        for value in step.outputs:
            base = problem.values[value].view_of
            if base is not None:
                newest[value] = found(base, when)
    for value, facts in enumerate(problem.values):
        if facts.kept:
            check(value, "the end")
    return memory.touched


class Ranges:
    """Addresses and who wrote them, as disjoint ranges."""

    def __init__(self, arena: int) -> None:
        self.arena = arena
        self.touched = 0
        self.pieces: list[tuple[int, int, object]] = []

    def write(self, start: int, size: int, symbol: object) -> None:
        assert start >= 0
        assert start + size <= self.arena, "outside the arena"
        if not size:
            return
        self.touched = max(self.touched, start + size)
        kept: list[tuple[int, int, object]] = [(start, start + size, symbol)]
        for begin, end, who in self.pieces:
            if begin < start:
                kept.append((begin, min(end, start), who))
            if end > start + size:
                kept.append((max(begin, start + size), end, who))
        self.pieces = kept

    def holds(self, start: int, size: int, symbol: object) -> bool:
        found = sum(
            min(end, start + size) - max(begin, start)
            for begin, end, who in self.pieces
            if who == symbol and begin < start + size and end > start
        )
        return found == size


def assert_apart(buffers: Iterable[tuple[int, int, int, int]]) -> None:
    """No two (bytes, birth, death, offset) overlap in time and address: a sweep over time."""
    events: list[tuple[int, int, int, int]] = []
    for size, birth, death, offset in buffers:
        assert offset >= 0
        assert birth <= death
        if size and birth < death:
            events.append((birth, 1, offset, offset + size))
            events.append((death, 0, offset, offset + size))
    alive: dict[int, int] = {}
    starts: list[int] = []
    for _, begins, low, high in sorted(events):
        if not begins:
            del alive[low]
            starts.pop(bisect_left(starts, low))
            continue
        place = bisect_left(starts, low)
        assert place == len(starts) or starts[place] >= high, "overlap above"
        assert place == 0 or alive[starts[place - 1]] <= low, "overlap below"
        alive[low] = high
        insort(starts, low)


def used_by(problem: Problem, done: Collection[int], s: int, in_place: bool = True) -> int:
    """The bytes in use while step `s` runs after those of `done`, from the definition."""
    values, step = problem.values, problem.steps[s]
    root = list(range(len(values)))
    for v in range(len(values)):
        while (base := values[root[v]].view_of) is not None:
            root[v] = base
    made = {v for other in problem.steps for v in other.outputs}
    kept = {root[v] for v, value in enumerate(values) if value.kept}
    others = [other for t, other in enumerate(problem.steps) if t not in done and t != s]
    later = {root[v] for other in others for v in other.inputs}
    now = {root[v] for v in step.inputs} & made
    born = {v for t in done for v in problem.steps[t].outputs if values[v].view_of is None}
    live = born & (later | now | kept)
    own = [v for v in step.outputs if values[v].view_of is None]
    options: dict[int, set[int]] = {}
    for i, o in step.overwrites:
        operand, result = root[step.inputs[i]], step.outputs[o]
        positions = [k for k, v in enumerate(step.inputs) if root[v] == operand]
        sizes = {values[v].bytes for v in (step.inputs[i], operand, result)}
        if (
            in_place
            and operand in made - kept - later
            and result in own
            and len(sizes) == 1
            and all((k, o) in step.overwrites for k in positions)
        ):
            options.setdefault(result, set()).add(operand)
    saved = most_saved(problem, sorted(options.items()), frozenset())
    return sum(values[v].bytes for v in [*live, *own]) + step.scratch - saved


def peak_of_order(problem: Problem, order: Sequence[int], in_place: bool = True) -> int:
    """The peak of a complete order."""
    positions = range(len(order))
    return max((used_by(problem, order[:k], order[k], in_place) for k in positions), default=0)


def most_saved(problem: Problem, options: list[tuple[int, set[int]]], taken: frozenset[int]) -> int:
    """The most bytes that results can take over from distinct operands, by trying all."""
    if not options:
        return 0
    (result, operands), *rest = options
    best = most_saved(problem, rest, taken)
    for operand in operands - taken:
        saved = problem.values[result].bytes + most_saved(problem, rest, taken | {operand})
        best = max(best, saved)
    return best


def needs(problem: Problem) -> list[set[int]]:
    """For each step those that must run before: they make what it reads, or it is after them."""
    maker = {v: s for s, step in enumerate(problem.steps) for v in step.outputs}

    def sources(v: int) -> set[int]:
        if v in maker:
            return {maker[v]}
        base = problem.values[v].view_of
        return set() if base is None else sources(base)

    return [set().union(step.after, *map(sources, step.inputs)) for step in problem.steps]


def all_orders(problem: Problem) -> Iterator[tuple[int, ...]]:
    """Every order that makes values before they are read."""
    before = needs(problem)
    for order in permutations(range(len(problem.steps))):
        place = {s: position for position, s in enumerate(order)}
        if all(place[p] < place[s] for s in order for p in before[s]):
            yield order


def least_peak(problem: Problem, in_place: bool = True) -> int:
    """The smallest peak of any order, by trying all sets of steps that can be done first."""
    before, count = needs(problem), len(problem.steps)
    best: dict[frozenset[int], int] = {frozenset(): 0}
    for _ in range(count):
        grown: dict[frozenset[int], int] = {}
        for done, peak in best.items():
            for s in range(count):
                if s not in done and before[s] <= done:
                    used = used_by(problem, done, s, in_place)
                    key = done | {s}
                    grown[key] = min(grown.get(key, 1 << 60), max(peak, used))
        best = grown
    return min(best.values())


def random_problem(random_: random.Random, steps: int, *, rich: bool = True) -> Problem:
    """A random problem; `rich` ones have views, several outputs, scratch and repeated operands."""
    values = [PlanValue(random_.choice([1, 2, 3])) for _ in range(random_.randint(1, 2))]
    made: list[int] = []
    result: list[PlanStep] = []
    for _ in range(steps):
        pool = list(range(len(values)))
        inputs = tuple(
            random_.choice(made if made and random_.random() < 0.9 else pool)
            for _ in range(random_.randint(0 if made else 1, 3))
        )
        first = len(values)
        if rich and inputs and random_.random() < 0.15:
            size = values[inputs[0]].bytes
            values.append(PlanValue(random_.choice([size, size, 1]), view_of=inputs[0]))
            result.append(PlanStep(inputs[:1], (first,)))
        else:
            count = random_.choice([1, 1, 1, 2]) if rich else 1
            values.extend(PlanValue(random_.choice([1, 2, 3, 5, 8])) for _ in range(count))
            if inputs and random_.random() < 0.5:
                values[first] = PlanValue(values[random_.choice(inputs)].bytes)
            pairs = [(i, o) for i in range(len(inputs)) for o in range(count)]
            overwrites = tuple(pair for pair in pairs if random_.random() < 0.5)
            scratch = random_.choice([0, 0, 2]) if rich else 0
            result.append(PlanStep(inputs, tuple(range(first, first + count)), overwrites, scratch))
        made.extend(range(first, len(values)))
        if rich and random_.random() < 0.1:
            values.append(PlanValue(values[made[-1]].bytes, view_of=made[-1]))
    for v in range(len(values)):
        if random_.random() < 0.15:
            old = values[v]
            values[v] = PlanValue(old.bytes, kept=True, view_of=old.view_of)
    return Problem(tuple(values), tuple(result))


def with_after(problem: Problem, random_: random.Random) -> Problem:
    """The same problem, with some steps that others must not run after."""
    before, count = needs(problem), len(problem.steps)
    order: list[int] = []
    while len(order) < count:
        ready = [s for s in range(count) if s not in order and before[s] <= set(order)]
        order.append(random_.choice(ready))
    steps = list(problem.steps)
    for place in range(1, count):
        if random_.random() < 0.3:
            earlier = random_.sample(order[:place], min(place, random_.randint(1, 3)))
            steps[order[place]] = steps[order[place]]._replace(after=tuple(earlier))
    return Problem(problem.values, tuple(steps))


def runs_in_time(problem: Problem, sequence: Sequence[int]) -> bool:
    """Whether nothing runs that a step which ran already had to be after."""
    over: set[int] = set()
    for s in sequence:
        if s in over:
            return False
        over.update(problem.steps[s].after)
    return True


def check_layout(layout: ArenaLayout) -> None:
    """All that must hold of a plan, each by an independent witness."""
    positions = range(len(layout.sequence))
    address = {
        (position, o): offset
        for position in positions
        for o, offset in enumerate(layout.writes(position))
        if offset is not None
    }
    replay(layout.problem, layout.sequence, address, layout.arena)
    assert_apart((*storage, offset) for storage, offset in layout.placed_storages)
    assert all(offset % layout.problem.alignment == 0 for _, offset in layout.placed_storages)
    ends = [offset + storage.bytes for storage, offset in layout.placed_storages]
    assert layout.arena >= max(ends, default=0)
    assert layout.arena >= layout.bound == max(layout.live, default=0)
    pinned = {v for v, value in enumerate(layout.problem.values) if value.pinned}
    for storage, occupants in zip(layout.schedule.storages, layout.schedule.occupants, strict=True):
        if pinned & {v for v, _ in occupants}:
            assert (storage.birth, storage.death) == (0, len(layout.sequence))
    for position in positions:
        for v, offset in zip(
            layout.problem.steps[layout.sequence[position]].outputs,
            layout.writes(position),
            strict=True,
        ):
            if position == max(p for p in positions if v in made_at(layout, p)):
                assert layout.offsets[v] == offset


def made_at(layout: ArenaLayout, position: int) -> tuple[int, ...]:
    """What the step at a position makes."""
    return layout.problem.steps[layout.sequence[position]].outputs
