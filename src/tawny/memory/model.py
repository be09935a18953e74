"""The problem as ordering sees it: which cells each step reads, makes and may overwrite.

Every step runs once here, so a cell is a root value: it is born with the step that makes it and
dies with the last step that reads it or a view of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tawny.memory.inplace import declared_refusal, match
from tawny.memory.problem import Problem

KEPT = 1 << 40
"""Added to the number of readers of a kept cell: it never falls to zero."""


@dataclass(frozen=True, slots=True)
class Model:
    """Parallel lists, by step or by cell (value)."""

    predecessors: list[tuple[int, ...]]
    successors: list[list[int]]
    reads: list[tuple[int, ...]]
    """The distinct cells that each step reads; resident ones left out."""
    made: list[int]
    """Bytes that each step writes, its scratch included."""
    stays: list[int]
    """Of these the bytes that outlive the step."""
    slides: list[tuple[tuple[int, int], ...]]
    """Pairs (cell, output) of each step that may be in place, if the cell dies there."""
    size: list[int]
    readers: list[int]
    """How many steps read each cell."""
    sum_of_readers: list[int]
    """The sum of their indices: once one is left, this is its index."""
    outputs: list[tuple[int, ...]]

    def __len__(self) -> int:
        return len(self.reads)

    def saved(self, step: int, dying: Sequence[int]) -> int:
        """Bytes that writing in place saves in a step where these cells die."""
        pairs = [pair for pair in self.slides[step] if pair[0] in dying]
        if not pairs:
            return 0
        if len(pairs) == 1:
            return self.size[pairs[0][0]]
        return sum(self.size[cell] for cell in match(pairs).values())

    def floor(self) -> int:
        """The largest working set of one step: no order has a smaller peak."""
        size = self.size
        return max(
            (
                self.made[s] + sum([size[c] for c in cells]) - self.saved(s, cells)
                for s, cells in enumerate(self.reads)
            ),
            default=0,
        )


def model(problem: Problem, alignment: int = 1) -> Model:
    """The ordering model of a problem, with sizes rounded up to multiples of `alignment`."""
    values, makers, roots = problem.values, problem.makers, problem.roots
    source: list[int | None] = list(makers)
    for v, value in enumerate(values):
        base = value.view_of
        while source[v] is None and base is not None:
            source[v], base = makers[base], values[base].view_of
    result = Model([], [[] for _ in problem.steps], [], [], [], [], [], [], [], [])
    size = result.size
    size.extend([-(-value.bytes // alignment) * alignment for value in values])
    readers, sums = [0] * len(values), [0] * len(values)
    for root in problem.kept_roots:
        readers[root] = KEPT
    for s, step in enumerate(problem.steps):
        before = {source[v] for v in step.inputs}
        before.discard(None)
        cells = {roots[v] for v in step.inputs}
        read = tuple([c for c in cells if makers[c] is not None])
        for c in read:
            readers[c] += 1
            sums[c] += s
        for p in before:
            if p is not None:
                result.successors[p].append(s)
        result.predecessors.append(tuple([p for p in before if p is not None]))
        result.reads.append(read)
        slides = step.overwrites and tuple(
            {
                (roots[step.inputs[i]], o)
                for i, o in step.overwrites
                if declared_refusal(problem, step, i, o) is None
            }
        )
        result.slides.append(slides)
    for step in problem.steps:
        own = tuple([v for v in step.outputs if values[v].view_of is None])
        result.outputs.append(own)
        scratch = -(-step.scratch // alignment) * alignment
        result.made.append(scratch + sum([size[v] for v in own]))
        result.stays.append(sum([size[v] for v in own if readers[v]]))
    result.readers.extend(readers)
    result.sum_of_readers.extend(sums)
    return result
