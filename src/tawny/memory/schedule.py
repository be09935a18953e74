"""A schedule: the steps in the order they run, what is written in place, and what that costs.

An *instance* is one making of a root value; views of it read and keep alive the same one.  A
*storage* is a run of instances, each written in place over the one before: one piece of memory with
one lifetime.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from tawny.lazy import cached_property
from tawny.memory.inplace import match
from tawny.memory.problem import Problem

InPlacePairs = tuple[tuple[int, int], ...]
"""Pairs (input, output) of one step that are written in place."""

RESIDENT = -1
"""Stands for the storage of a resident value, which has none in the arena."""
UNMADE = -2
"""Stands for the instance of a value that is not made yet."""
NO_OVERWRITES: dict[int, int] = {}
"""The instances that a step overwrites which writes nothing in place."""


class Storage(NamedTuple):
    """One piece of memory: its bytes, and when it is occupied: `birth <= position < death`."""

    bytes: int
    birth: int
    death: int


@dataclass(frozen=True)
class Schedule:
    """A sequence of steps (one that occurs again is recomputed) with its storages."""

    problem: Problem
    sequence: tuple[int, ...]
    """Indices of steps, in the order they run."""
    in_place_pairs: tuple[InPlacePairs, ...]
    """At each position the (input, output) pairs that are written in place."""
    reads: tuple[tuple[int, ...], ...]
    """At each position the storage of each input, or `RESIDENT`."""
    writes: tuple[tuple[int, ...], ...]
    """At each position the storage of each output."""
    storages: tuple[Storage, ...]

    @cached_property
    def live(self) -> tuple[int, ...]:
        """Bytes that are occupied while each position runs, its scratch included."""
        return live_bytes(len(self.sequence), [*self.storages, *self.scratches])

    @property
    def peak(self) -> int:
        """The most bytes ever occupied: no arena for this schedule is smaller."""
        return max(self.live, default=0)

    @cached_property
    def scratches(self) -> tuple[Storage, ...]:
        """The scratch memory of each position that needs some."""
        steps = self.problem.steps
        return tuple(
            Storage(steps[s].scratch, position, position + 1)
            for position, s in enumerate(self.sequence)
            if steps[s].scratch
        )

    @cached_property
    def seconds(self) -> float:
        """The estimated time of running the sequence."""
        return sum(self.problem.steps[s].seconds for s in self.sequence)

    def alive(self, position: int) -> Iterator[int]:
        """The storages that are occupied while `position` runs."""
        for index, storage in enumerate(self.storages):
            if storage.birth <= position < storage.death:
                yield index

    @cached_property
    def occupants(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each storage its (value, position of making), views included, in order of making."""
        occupants: list[list[tuple[int, int]]] = [[] for _ in self.storages]
        for position, (s, written) in enumerate(zip(self.sequence, self.writes, strict=True)):
            for value, storage in zip(self.problem.steps[s].outputs, written, strict=True):
                if storage != RESIDENT:
                    occupants[storage].append((value, position))
        return tuple(map(tuple, occupants))

    @cached_property
    def final_storages(self) -> tuple[int, ...]:
        """For each value the storage of its last making; `RESIDENT` if outside the arena."""
        problem, current = self.problem, [RESIDENT] * len(self.problem.values)
        for s, written in zip(self.sequence, self.writes, strict=True):
            for v, storage in zip(problem.steps[s].outputs, written, strict=True):
                current[v] = storage
        for v, value in enumerate(problem.values):
            base = value.view_of
            while base is not None and problem.makers[v] is None:
                current[v] = current[base]
                base = None if problem.makers[base] is not None else problem.values[base].view_of
        return tuple(current)


def live_bytes(length: int, storages: Sequence[Storage]) -> tuple[int, ...]:
    """For each of `length` positions the bytes of the storages that are occupied there."""
    change = [0] * (length + 1)
    for bytes, birth, death in storages:
        change[birth] += bytes
        change[death] -= bytes
    return tuple(accumulate(change[:length]))


class InstanceLifetimes(NamedTuple):
    """The instances that a sequence reads and makes, before anything is written in place."""

    reads: list[tuple[int, ...]]
    writes: list[tuple[int, ...]]
    roots: list[int]
    births: list[int]
    last: list[int]
    """The last position that reads or makes each instance; the end if it is kept."""


def instance_lifetimes(problem: Problem, sequence: Sequence[int]) -> InstanceLifetimes:
    """Follow each value through the sequence to the instance it is read from."""
    values, steps, makers = problem.values, problem.steps, problem.makers
    current = [
        RESIDENT if maker is None and value.view_of is None else UNMADE
        for value, maker in zip(values, makers, strict=True)
    ]
    result = InstanceLifetimes([], [], [], [], [])
    reads, writes, roots, births, last = result

    def instance(v: int) -> int:
        """The newest instance of `v`."""
        found = current[v]
        while found == UNMADE:
            base = values[v].view_of
            if base is None or makers[v] is not None:
                raise ValueError(f"schedule: value {v} is read before step {makers[v]} makes it")
            v = base
            found = current[v]
        return found

    views = any(value.view_of is not None for value in values)
    for position, s in enumerate(sequence):
        step = steps[s]
        read = [current[v] for v in step.inputs]
        if UNMADE in read:
            read = [instance(v) for v in step.inputs]
        for c in read:
            if c >= 0:
                last[c] = position
        for v in step.outputs:
            if not views or values[v].view_of is None:
                current[v] = len(roots)
                roots.append(v)
                births.append(position)
                last.append(position)
        for v in step.outputs if views else ():
            base = values[v].view_of
            if base is not None:
                current[v] = instance(base)
        reads.append(tuple(read))
        writes.append(tuple([current[v] for v in step.outputs]))
    for v, value in enumerate(values):
        if value.kept and (c := instance(v)) >= 0:
            last[c] = len(sequence)
    return result


def schedule(
    problem: Problem,
    sequence: Sequence[int],
    *,
    in_place: bool = True,
    in_place_pairs: Sequence[InPlacePairs] | None = None,
) -> Schedule:
    """The schedule that runs `sequence`, writing in place wherever that is safe.

    `in_place_pairs` are what to write in place at each position instead; they are not checked.
    """
    reads, writes, _, _, last = instance_lifetimes(problem, sequence)
    values, steps, pinned, end = problem.values, problem.steps, problem.pinned_roots, len(sequence)
    storage_of: list[int] = []
    bytes, births, deaths = list[int](), list[int](), list[int]()
    chosen: list[InPlacePairs] = []
    for position, s in enumerate(sequence):
        if in_place_pairs is not None:
            pairs = in_place_pairs[position]
        else:
            pairs = problem.in_place_pairs[s] if in_place else ()
            if pairs:
                age = [births[storage_of[c]] if c >= 0 else 0 for c in reads[position]]
                pairs = choose_pairs(pairs, position, reads[position], last, age)
        chosen.append(pairs)
        over = {o: reads[position][i] for i, o in pairs} if pairs else NO_OVERWRITES
        for o, v in enumerate(steps[s].outputs):
            value = values[v]
            if value.view_of is not None:
                continue
            death = min(last[len(storage_of)] + 1, end)
            if o in over:
                storage = storage_of[over[o]]
                deaths[storage] = death
            else:
                storage = len(births)
                bytes.append(value.bytes)
                births.append(position)
                deaths.append(death)
            storage_of.append(storage)
            if v in pinned:
                births[storage], deaths[storage] = 0, end
    storage_of.append(RESIDENT)  # what index RESIDENT finds
    return Schedule(
        problem,
        tuple(sequence),
        tuple(chosen),
        tuple([tuple([storage_of[c] for c in row]) for row in reads]),
        tuple([tuple([storage_of[c] for c in row]) for row in writes]),
        tuple(map(Storage, bytes, births, deaths)),
    )


def choose_pairs(
    allowed: InPlacePairs,
    position: int,
    read: Sequence[int],
    last: Sequence[int],
    age: Sequence[int],
) -> InPlacePairs:
    """The pairs to write in place: for each output the dying operand whose storage is oldest.

    `read` gives the instances of the operands, `last` where each instance is read last.
    """
    dying = [(age[i], i, o) for i, o in allowed if last[read[i]] == position]
    if len(dying) < 2:
        return tuple([(i, o) for _, i, o in dying])
    dying.sort()
    position_of = {(read[i], o): i for _, i, o in reversed(dying)}
    chosen = match((read[i], o) for _, i, o in dying)
    return tuple([(position_of[c, o], o) for o, c in sorted(chosen.items())])
