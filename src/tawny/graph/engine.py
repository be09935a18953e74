"""What an engine is to a graph: something that makes a plan runnable."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tawny.array import DEFAULT_ENGINES
from tawny.errors import value_error
from tawny.graph.lowering import Lowered
from tawny.memory.plan import Layout
from tawny.node import Node, Value
from tawny.ops.fused import Body


@dataclass(frozen=True)
class Task:
    """Everything an engine needs to run a graph: the steps, their order, every byte's place."""

    lowered: Lowered
    layout: Layout
    variables: tuple[Node, ...]
    homes: Mapping[Node, Node]
    """Nodes that are computed in a variable's memory instead of the arena; where one is a part,
    that result alone of the node it is a part of."""
    threads: int | None = None
    """How many threads may work at once; the engine decides where it is not said."""


class Executable(Protocol):
    """A task made runnable: it holds the memory."""

    def run(self, positions: Sequence[int], variables: Sequence[Value], draw: int) -> None:
        """Run some positions of the schedule, in order."""
        ...

    def value(self, node: Node, variables: Sequence[Value]) -> Value:
        """The value of a kept node, as it lies in memory."""
        ...


class Engine(Protocol):
    """Makes tasks runnable."""

    @property
    def groups(self) -> bool:
        """Whether a fused group is compiled to one kernel; otherwise graphs run without groups."""
        ...

    def worth(self, body: Body) -> bool:
        """Whether a group of this body is worth a kernel of its own."""
        ...

    def scratch(self, node: Node) -> int:
        """Bytes that a step needs while it runs: `task.layout.scratch[position]` says where."""
        ...

    def account(self, steps: Sequence[Node]) -> str:
        """How the steps are run, in words."""
        ...

    def prepare(self, task: Task) -> Executable:
        """Allocate the memory and lower the steps."""
        ...


ENGINES: Final[dict[str, Engine]] = {}
"""Engines by name, filled as they are imported."""


def engine_named(name: str) -> Engine:
    """The engine called `name`."""
    importlib.import_module(DEFAULT_ENGINES)
    if name not in ENGINES:
        raise value_error(
            "compile", f"engine {name!r} is not known; accepted: {', '.join(ENGINES)}"
        )
    return ENGINES[name]
