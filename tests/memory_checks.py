"""Independent witnesses for memory plans, written from the definitions alone."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import permutations

from tawny.memory.problem import Problem, Step, Value


def replay(
    problem: Problem, sequence: Sequence[int], address: dict[tuple[int, int], int], arena: int
) -> int:
    """Run a sequence on an arena of symbols; the bytes ever touched.

    `address` gives the first byte of each (position, output).  Each byte holds who wrote it last;
    a step must find in every byte of every operand the symbol that the newest making of that
    operand left there, and all kept values must be whole at the end.
    """
    memory = Ranges(arena)
    newest: dict[int, tuple[int, object]] = {}

    def base_of(value: int) -> int:
        base = problem.values[value].view_of
        return value if base is None else base_of(base)

    def check(value: int, when: str) -> None:
        if problem.makers[value] is None and problem.values[value].view_of is not None:
            value = problem.values[value].view_of or 0
            check(value, when)
        elif problem.makers[base_of(value)] is not None:
            assert value in newest, f"{when} reads value {value} before it is made"
            start, symbol = newest[value]
            size = problem.values[base_of(value)].bytes
            assert memory.holds(start, size, symbol), f"{when} finds value {value} overwritten"

    for position, s in enumerate(sequence):
        step = problem.steps[s]
        for value in step.inputs:
            check(value, f"position {position}")
        own = [o for o, v in enumerate(step.outputs) if problem.values[v].view_of is None]
        fresh: list[tuple[int, int]] = []
        for o in own:
            start = address[position, o]
            size = problem.values[step.outputs[o]].bytes
            assert all(b + n <= start or start + size <= b for b, n in fresh if n and size)
            fresh.append((start, size))
        for value in step.inputs:
            operand = base_of(value)
            if operand not in newest or problem.makers[operand] is None:
                continue
            start = newest[operand][0]
            for o, (begin, size) in zip(own, fresh, strict=True):
                apart = begin + size <= start or start + problem.values[operand].bytes <= begin
                if apart or not size or not problem.values[operand].bytes:
                    continue
                exact = begin == start and size == problem.values[operand].bytes
                allowed = {i for i, output in step.overwrites if output == o}
                reads = {i for i, v in enumerate(step.inputs) if base_of(v) == operand}
                assert exact and reads <= allowed, f"position {position} harms its own operand"
        for o, (start, size) in zip(own, fresh, strict=True):
            symbol = (position, o)
            memory.write(start, size, symbol)
            newest[step.outputs[o]] = (start, symbol)
        for value in step.outputs:
            base = problem.values[value].view_of
            if base is not None and base_of(value) in newest:
                newest[value] = newest[base_of(value) if base not in newest else base]
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
        assert start >= 0 and start + size <= self.arena, "outside the arena"
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
    from bisect import bisect_left, insort

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


def peak_of_order(problem: Problem, order: Sequence[int], in_place: bool = True) -> int:
    """The peak of a complete order, from the definition: count what is still needed."""
    root = [v for v in range(len(problem.values))]
    for v in range(len(problem.values)):
        while (base := problem.values[root[v]].view_of) is not None:
            root[v] = base
    made = {v for step in problem.steps for v in step.outputs}
    kept = {root[v] for v, value in enumerate(problem.values) if value.kept}
    live: set[int] = set()
    peak = 0
    for position, s in enumerate(order):
        step = problem.steps[s]
        later = {root[v] for other in order[position + 1 :] for v in problem.steps[other].inputs}
        own = [v for v in step.outputs if problem.values[v].view_of is None]
        options: dict[int, set[int]] = {}
        for i, o in step.overwrites:
            operand, result = root[step.inputs[i]], step.outputs[o]
            positions = [k for k, v in enumerate(step.inputs) if root[v] == operand]
            if (
                in_place
                and operand in made
                and operand not in kept | later
                and result in own
                and problem.values[step.inputs[i]].bytes
                == problem.values[operand].bytes
                == problem.values[result].bytes
                and all((k, o) in step.overwrites for k in positions)
            ):
                options.setdefault(result, set()).add(operand)
        saved = most_saved(problem, sorted(options.items()), frozenset())
        used = sum(problem.values[v].bytes for v in [*live, *own]) + step.scratch - saved
        peak = max(peak, used)
        live = {v for v in live | set(own) if v in later or v in kept}
    return peak


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


def all_orders(problem: Problem) -> Iterable[tuple[int, ...]]:
    """Every order that makes values before they are read."""
    maker = {v: s for s, step in enumerate(problem.steps) for v in step.outputs}

    def sources(v: int) -> set[int]:
        if v in maker:
            return {maker[v]}
        base = problem.values[v].view_of
        return set() if base is None else sources(base)

    needs = [set().union(*map(sources, step.inputs)) for step in problem.steps]
    for order in permutations(range(len(problem.steps))):
        place = {s: position for position, s in enumerate(order)}
        if all(place[p] < place[s] for s in order for p in needs[s]):
            yield order


def random_problem(random_: random.Random, steps: int, *, rich: bool = True) -> Problem:
    """A random problem; `rich` ones have views, several outputs, scratch and repeated operands."""
    values = [Value(random_.choice([1, 2, 3])) for _ in range(random_.randint(1, 2))]
    made: list[int] = []
    result: list[Step] = []
    for _ in range(steps):
        pool = list(range(len(values)))
        inputs = tuple(
            random_.choice(made if made and random_.random() < 0.9 else pool)
            for _ in range(random_.randint(0 if made else 1, 3))
        )
        first = len(values)
        if rich and inputs and random_.random() < 0.15:
            size = values[inputs[0]].bytes
            values.append(Value(random_.choice([size, size, 1]), view_of=inputs[0]))
            result.append(Step(inputs[:1], (first,)))
        else:
            count = random_.choice([1, 1, 1, 2]) if rich else 1
            values.extend(Value(random_.choice([1, 2, 3, 5, 8])) for _ in range(count))
            if inputs and random_.random() < 0.5:
                values[first] = Value(values[random_.choice(inputs)].bytes)
            pairs = [(i, o) for i in range(len(inputs)) for o in range(count)]
            overwrites = tuple(pair for pair in pairs if random_.random() < 0.5)
            scratch = random_.choice([0, 0, 2]) if rich else 0
            result.append(Step(inputs, tuple(range(first, first + count)), overwrites, scratch))
        made.extend(range(first, len(values)))
        if rich and random_.random() < 0.1:
            values.append(Value(values[made[-1]].bytes, view_of=made[-1]))
    for v in range(len(values)):
        if random_.random() < 0.15:
            old = values[v]
            values[v] = Value(old.bytes, kept=True, view_of=old.view_of)
    return Problem(tuple(values), tuple(result))
