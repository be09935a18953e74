"""The problem as ordering sees it: which instances each step reads, makes and may overwrite.

Every step runs once here, so an instance is a root value: it is born with the step that makes it
and dies with the last step that reads it or a view of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tawny.memory.inplace import match
from tawny.memory.problem import Problem

KEPT = 1 << 40
"""Added to the number of readers of a kept instance: it never falls to zero."""


@dataclass(frozen=True, slots=True)
class OrderingModel:
    """Parallel lists, by step or by instance (value)."""

    predecessors: list[tuple[int, ...]]
    successors: list[list[int]]
    reads: list[tuple[int, ...]]
    """The distinct instances that each step reads; resident ones left out."""
    bytes_written: list[int]
    """Bytes that each step writes, its scratch included."""
    bytes_surviving: list[int]
    """Bytes that each step writes and that outlive it."""
    in_place_pairs: list[tuple[tuple[int, int], ...]]
    """Pairs (instance, output) of each step that may be in place, if the instance dies there."""
    size: list[int]
    readers: list[int]
    """How many steps read each instance."""
    sum_of_readers: list[int]
    """The sum of their indices: once one is left, this is its index."""
    outputs: list[tuple[int, ...]]
    pinned_bytes: int
    """Bytes that are live for the whole run; the instances they belong to have size 0."""

    def __len__(self) -> int:
        return len(self.reads)

    def in_place_savings(self, step: int, dying: Sequence[int]) -> int:
        """Bytes that writing in place saves in a step where these instances die."""
        if len(self.outputs[step]) == 1:
            for instance, _ in self.in_place_pairs[step]:
                if instance in dying:
                    return self.size[instance]
            return 0
        pairs = [pair for pair in self.in_place_pairs[step] if pair[0] in dying]
        if not pairs:
            return 0
        return sum([self.size[instance] for instance in match(pairs).values()])

    def lower_bound(self) -> int:
        """No order needs less: the largest working set of a step, or all that is kept."""
        size, made = self.size, self.bytes_written
        most = sum([n for n, count in zip(size, self.readers, strict=True) if count >= KEPT])
        for s, instances in enumerate(self.reads):
            need = made[s] + sum([size[c] for c in instances])
            if need > most:
                most = max(most, need - self.in_place_savings(s, instances))
        return self.pinned_bytes + most


def ordering_model(problem: Problem) -> OrderingModel:
    """The ordering model of a problem, with sizes rounded up to its alignment."""
    values, makers = problem.values, problem.makers
    before, successors = predecessors(problem), [list[int]() for _ in problem.steps]
    for s, own in enumerate(before):
        for p in own:
            successors[p].append(s)
    reads = _instances_read(problem)
    readers, sums = [0] * len(values), [0] * len(values)
    for root in problem.kept_roots:
        readers[root] = KEPT
    for s, instances in enumerate(reads):
        for c in instances:
            readers[c] += 1
            sums[c] += s
    in_place_pairs = _in_place_pairs(problem)
    alignment = problem.alignment
    size = [-(-value.bytes // alignment) * alignment for value in values]
    pinned_bytes = 0
    for v in problem.pinned_roots:
        if makers[v] is not None:
            pinned_bytes += size[v]
            for instance in in_place_chain(problem, v, in_place_pairs, readers):
                size[instance] = 0
    outputs = [step.outputs for step in problem.steps]
    if any(value.view_of is not None for value in values):
        outputs = [tuple([v for v in own if values[v].view_of is None]) for own in outputs]
    bytes_written = [
        sum([size[v] for v in own]) + (step.scratch and -(-step.scratch // alignment) * alignment)
        for step, own in zip(problem.steps, outputs, strict=True)
    ]
    bytes_surviving = [sum([size[v] for v in own if readers[v]]) for own in outputs]
    return OrderingModel(
        predecessors=before,
        successors=successors,
        reads=reads,
        bytes_written=bytes_written,
        bytes_surviving=bytes_surviving,
        in_place_pairs=in_place_pairs,
        size=size,
        readers=readers,
        sum_of_readers=sums,
        outputs=outputs,
        pinned_bytes=pinned_bytes,
    )


def predecessors(problem: Problem) -> list[tuple[int, ...]]:
    """For each step those that must have run before it."""
    sources, found = _source_steps(problem), list[tuple[int, ...]]()
    for step in problem.steps:
        before = [p for v in step.inputs if (p := sources[v]) is not None]
        several = len(before) > 1 or step.after
        found.append(tuple({*before, *step.after}) if several else tuple(before))
    return found


def _instances_read(problem: Problem) -> list[tuple[int, ...]]:
    """For each step the instances that it reads, each once."""
    makers, roots, found = problem.makers, problem.roots, list[tuple[int, ...]]()
    for step in problem.steps:
        instances = [c for v in step.inputs if makers[c := roots[v]] is not None]
        found.append(tuple(set(instances) if len(instances) > 1 else instances))
    return found


def _in_place_pairs(problem: Problem) -> list[tuple[tuple[int, int], ...]]:
    """For each step the instances that outputs may be written over, with the outputs."""
    roots = problem.roots
    return [
        tuple(sorted({(roots[step.inputs[i]], o) for i, o in pairs})) if pairs else ()
        for step, pairs in zip(problem.steps, problem.in_place_pairs, strict=True)
    ]


def _source_steps(problem: Problem) -> list[int | None]:
    """For each value the step that must have run before it can be read."""
    return [
        maker if maker is not None or value.view_of is None else source_step(problem, v)
        for v, (value, maker) in enumerate(zip(problem.values, problem.makers, strict=True))
    ]


def source_step(problem: Problem, value: int) -> int | None:
    """The step that must have run before `value` can be read."""
    base: int | None = value
    while base is not None:
        maker = problem.makers[base]
        if maker is not None:
            return maker
        base = problem.values[base].view_of
    return None


def in_place_chain(
    problem: Problem,
    instance: int,
    in_place_pairs: Sequence[tuple[tuple[int, int], ...]],
    readers: Sequence[int],
) -> Iterator[int]:
    """An instance, the one that it is written over in any order, the one below that, and so on."""
    while True:
        yield instance
        maker = problem.makers[instance]
        if maker is None:
            return
        outputs = problem.steps[maker].outputs
        below = [c for c, o in in_place_pairs[maker] if outputs[o] == instance and readers[c] == 1]
        if len(below) != 1 or len(in_place_pairs[maker]) != 1:
            return
        instance = below[0]
