"""The record of one run: what it computed, what was still right, how long it took."""

from __future__ import annotations

from typing import final

from tawny.array import Array, array_for
from tawny.graph.compilation import Compilation
from tawny.lazy import cached_property
from tawny.node import Node
from tawny.unique import Unique


@final
class Run(Unique):
    """A record of one run."""

    def __init__(self, compiled: Compilation, nodes: frozenset[Node], seconds: float) -> None:
        self._compiled = compiled
        self._nodes = nodes
        self.seconds = seconds
        """How long it took; if it was one of several steps, as long as they did on average."""

    @cached_property
    def executed(self) -> list[Array]:
        """The arrays that were computed, in order."""
        return [array_for(n) for n in self._compiled.in_order(self._nodes)]

    @cached_property
    def reused(self) -> list[Array]:
        """The arrays whose values were still right."""
        everything = self._compiled.nodes_after_change(None)
        return [array_for(n) for n in self._compiled.in_order(everything - self._nodes)]

    @cached_property
    def steps(self) -> list[int]:
        """The places in `plan.steps` of the steps that were run."""
        steps = self._compiled.plan.steps
        return [step.position for step in steps if step.array.node in self._nodes]

    @cached_property
    def bytes(self) -> int:
        """Bytes of the values computed."""
        return sum(a.nbytes for a in self.executed)

    def __repr__(self) -> str:
        return (
            f"<Run: {len(self.executed)} executed, {len(self.reused)} reused, "
            f"{self.seconds * 1e3:.3f} ms, {self.bytes} bytes>"
        )
