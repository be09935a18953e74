"""What the planner plans: values with sizes, steps that make them, and what must survive."""

from __future__ import annotations

import marshal
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from tawny.lazy import cached_property
from tawny.memory.inplace import declared_refusal


class PlanValue(NamedTuple):
    """One value: its bytes, and the rules about them."""

    bytes: int
    label: Hashable = None
    """How the caller recognises it (a node); the planner only hands it back."""
    kept: bool = False
    """Must be whole when the run ends and, once made, never be overwritten: outputs, sources of
    update edges, what incremental evaluation reads later."""
    pinned: bool = False
    """A kept value whose memory is its own for the whole run, also before it is made: it may still
    hold what an earlier run made."""
    view_of: int | None = None
    """The value whose memory this one shares (a reshape, a slice): it has no bytes of its own.
    A view is made by a step that reads its base, or by none: then it exists with its base."""


class PlanStep(NamedTuple):
    """One operation: reads `inputs`, writes `outputs` (indices of values)."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    overwrites: tuple[tuple[int, int], ...] = ()
    """Pairs (position in `inputs`, position in `outputs`): that output may be written over that
    input, if this is the last step to read it."""
    scratch: int = 0
    """Bytes needed during the step only."""
    seconds: float = 0.0
    """The estimated time of running it."""
    pure: bool = True
    """Whether running it again gives the same result; only such steps are recomputed."""
    label: Hashable = None
    after: tuple[int, ...] = ()
    """Steps that must not run once this one has: it overwrites what they read outside the arena."""


@dataclass(frozen=True)
class Problem:
    """Values and steps; every value is an input of the problem or made by exactly one step.

    Values that no step makes (inputs, parameters, constants) are `resident`: they live outside the
    arena for the whole run and are never overwritten; a kept value lives in the arena to the end.
    """

    values: tuple[PlanValue, ...]
    steps: tuple[PlanStep, ...]
    alignment: int = 1
    """Bytes: every place in the arena is a multiple of them."""

    @cached_property
    def resident(self) -> frozenset[int]:
        """Values that no step makes, and views of such."""
        makers, roots = self.makers, self.roots
        return frozenset(v for v, root in enumerate(roots) if makers[root] is None)

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """For each value the one whose memory it shares; itself if it has its own."""
        roots = list(range(len(self.values)))
        for v, value in enumerate(self.values):
            base = value.view_of
            while base is not None:
                roots[v], base = base, self.values[base].view_of
        return tuple(roots)

    @cached_property
    def makers(self) -> tuple[int | None, ...]:
        """For each value the step that makes it."""
        makers: list[int | None] = [None] * len(self.values)
        for s, step in enumerate(self.steps):
            for v in step.outputs:
                makers[v] = s
        return tuple(makers)

    @cached_property
    def kept_roots(self) -> frozenset[int]:
        """Roots whose memory holds a kept value and is not resident."""
        makers, roots = self.makers, self.roots
        kept = (roots[v] for v, value in enumerate(self.values) if value.kept)
        return frozenset(root for root in kept if makers[root] is not None)

    @cached_property
    def pinned_roots(self) -> frozenset[int]:
        """Roots whose memory holds a value that is there for the whole run."""
        roots = self.roots
        return frozenset(roots[v] for v, value in enumerate(self.values) if value.pinned)

    @cached_property
    def in_place_pairs(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each step those of its `overwrites` that are safe if the operand dies there."""
        return tuple(
            [
                step.overwrites
                and tuple(
                    [
                        (i, o)
                        for i, o in step.overwrites
                        if declared_refusal(self, step, i, o) is None
                    ]
                )
                for step in self.steps
            ]
        )

    @cached_property
    def structure(self) -> bytes:
        """A digest of all that a plan depends on: equal for problems that differ in labels.

        What steps cost, and whether they may run again, is left out: see `costs`.
        """
        values = [(v.bytes, v.kept, v.pinned, v.view_of) for v in self.values]
        steps = [(s.inputs, s.outputs, s.overwrites, s.scratch, s.after) for s in self.steps]
        return _digest([values, steps, self.alignment])

    @cached_property
    def costs(self) -> bytes:
        """A digest of what steps cost and whether they may run again."""
        return _digest([(s.seconds, s.pure) for s in self.steps])

    @cached_property
    def without_labels(self) -> Problem:
        """The problem with all labels None, so that it can outlive what they stand for."""
        return Problem(
            tuple([value._replace(label=None) for value in self.values]),
            tuple([step._replace(label=None) for step in self.steps]),
            self.alignment,
        )

    def with_rules(self, values: tuple[PlanValue, ...], steps: tuple[PlanStep, ...]) -> Problem:
        """The problem with other rules and bytes; what each step makes and views is the same."""
        other = Problem(values, steps, self.alignment)
        vars(other).update(makers=self.makers, roots=self.roots)
        return other

    def allows(self, sequence: Sequence[int]) -> bool:
        """Whether no step runs, for the first time or again, once one that is `after` it has."""
        last = {s: position for position, s in enumerate(sequence)}
        first = {s: position for position, s in reversed(list(enumerate(sequence)))}
        return all(last.get(p, -1) < first[s] for s in first for p in self.steps[s].after)

    def round_up(self, size: int) -> int:
        """`size` rounded up to the alignment."""
        return -(-size // self.alignment) * self.alignment

    def root(self, value: int) -> int:
        """The value whose memory `value` shares; itself if it has its own."""
        return self.roots[value]


def _digest(data: list[Any]) -> bytes:
    """A short name for plain data: the same for equal data only."""
    without_references = 2
    return blake2b(marshal.dumps(data, without_references), digest_size=16).digest()
