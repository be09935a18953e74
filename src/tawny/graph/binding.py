"""Variables that lie in arrays of the caller's: which arrays a program can be bound to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tawny.array import check_unmasked
from tawny.engine.protocol import BindableArray, Executable, MemoryRange
from tawny.errors import value_error
from tawny.node import Node


class VariableBinding(NamedTuple):
    """Checks arrays that variables of a program, given by their numbers, are to lie in."""

    executable: Executable
    variables: Sequence[Node]
    names: Sequence[str]
    engine: str

    def locate(self, index: int, array: Any) -> BindableArray:
        """An array that a variable is to lie in, as the engine sees it; refused if it cannot."""
        node, what = self.variables[index], f"variable {self.names[index]!r}"
        check_unmasked(array, "Program", f"the value of {what}")
        found = self.executable.locate(index, array)
        if found is None:
            raise value_error(
                "Program",
                f"{what} can be bound only to a contiguous {node.dtype}{list(node.shape)} array "
                f"in the memory of engine {self.engine!r}",
            )
        return found

    def check(
        self, found: Mapping[int, MemoryRange], others: Iterable[int], changing: Collection[int]
    ) -> None:
        """Refuse bytes that a run would change while it reads them, or cannot change.

        `others` are the variables besides that have values, `changing` those that updates change.
        """
        ranges = {i: self.executable.variable_range(i) for i in others} | {**found}
        arena, meeting = self.executable.arena_range, _overlap(ranges.values())
        for index, own in found.items():
            name = self.names[index]
            if index in changing and not own.writeable:
                raise value_error(
                    "set",
                    f"variable {name!r} is updated, but bound to a read-only array; bind a copy",
                )
            if own.overlaps(arena):
                raise value_error(
                    "set",
                    f"variable {name!r} cannot be bound to an output's view: each run overwrites "
                    "that memory; bind a copy",
                )
            for other, place in ranges.items() if meeting else ():
                one_changes = index in changing or other in changing
                if other != index and one_changes and own.overlaps(place):
                    target = self.names[index if index in changing else other]
                    raise value_error(
                        "set",
                        f"variables {name!r} and {self.names[other]!r} cannot share "
                        f"memory, since updates change {target!r}; bind a copy",
                    )


def _overlap(ranges: Iterable[MemoryRange]) -> bool:
    """Whether some of these ranges have bytes in common."""
    ordered = sorted([one for one in ranges if one.start < one.stop])
    return any(one.overlaps(other) for one, other in pairwise(ordered))
