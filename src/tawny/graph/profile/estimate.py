"""What a run will take, predicted from its plan and the roof of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple, final

from tawny.graph.profile.roof import Roof, roof_of
from tawny.graph.profile.table import SHOWN, as_table, count_text, seconds_text
from tawny.graph.profile.work import Work, work_of
from tawny.graph.report.trace import type_text
from tawny.node import Node
from tawny.source import describe
from tawny.unique import Unique

if TYPE_CHECKING:
    from tawny.graph.plan import Plan

MOST_LINES: Final = 3
"""Lines of the user's program that a row names."""


class StepWork(NamedTuple):
    """A step of a run: what it is, and what it has to do."""

    position: int
    name: str
    op: str
    type: str
    line: str
    scope: str
    work: Work


class StepEstimate(NamedTuple):
    """The predicted time of one step, and what it follows from."""

    position: int
    """The place of the step in `plan.steps`."""
    name: str
    """The name of the step in plans: that of the op, or the one you gave."""
    op: str
    """The operation, as in the table of all operations."""
    type: str
    """Dtype and shape of what it computes."""
    line: str
    """Where you wrote it, with the scope."""
    scope: str
    """The scope, where there is one that holds all of it."""
    seconds: float
    """The time that the step will take."""
    operations: int
    """Scalar operations; a multiply and its add are two."""
    bytes: int
    """Bytes read and written."""
    bound: str
    """What holds it back: `compute`, `memory`, or `start` where starting it takes the most."""


@final
@dataclass(frozen=True, repr=False)
class Estimate(Unique):
    """The predicted time of a run, step by step; printed, a table."""

    name: str
    rows: Sequence[StepEstimate]
    """An entry for each step of the run, in order, as plain data."""
    roof: Roof
    """What the machine does at best, as it was measured."""

    @property
    def seconds(self) -> float:
        """What a run will take that computes everything."""
        return sum(row.seconds for row in self.rows)

    @property
    def operations(self) -> int:
        """Scalar operations of a run; a multiply and its add are two."""
        return sum(row.operations for row in self.rows)

    @property
    def bytes(self) -> int:
        """Bytes that the steps read and write."""
        return sum(row.bytes for row in self.rows)

    def __repr__(self) -> str:
        whole = self.seconds or 1.0
        shown = sorted(self.rows, key=lambda row: -row.seconds)[:SHOWN]
        hidden = len(self.rows) - len(shown)
        return as_table(
            [
                f"{self.name}: predicted {seconds_text(self.seconds)} a run, "
                f"{len(self.rows)} steps, {count_text(self.operations)}FLOP, "
                f"{count_text(self.bytes)}B moved",
                str(self.roof),
            ],
            ("step", "time", "share", "FLOP", "bytes", "bound", "what", "line"),
            [
                (
                    str(row.position),
                    seconds_text(row.seconds),
                    f"{100 * row.seconds / whole:.1f} %",
                    count_text(row.operations).strip(),
                    count_text(row.bytes).strip(),
                    row.bound,
                    f"{row.name} {row.type}",
                    row.line,
                )
                for row in shown
            ],
            [f"... and {hidden} more steps"] if hidden else [],
        )


def estimate_plan(plan: Plan, name: str) -> Estimate:
    """What a run of a plan will take."""
    roof = roof_of(plan.engine, plan.threads)
    rows = [
        StepEstimate(
            *step[:-1],
            predict(step.work, roof),
            step.work.operations,
            step.work.bytes,
            roof.bound(step.work),
        )
        for step in steps_of(plan)
    ]
    return Estimate(name, rows, roof)


def predict(work: Work, roof: Roof) -> float:
    """Seconds that a step will take."""
    return roof.step_seconds + roof.seconds(work)


def steps_of(plan: Plan) -> list[StepWork]:
    """The steps of a plan, in order."""
    lowered = plan.lowered
    known = [_describe(node) for node in lowered.steps]
    return [
        known[step]._replace(position=position)
        for position, step in enumerate(plan.layout.sequence)
    ]


def _describe(node: Node) -> StepWork:
    more = ", …" if len(node.sources) > MOST_LINES else ""
    line = describe(node.sources[:MOST_LINES]) + more
    return StepWork(0, node.name, node.op.label, type_text(node), line, _scope(node), work_of(node))


def _scope(node: Node) -> str:
    """The scope that holds all of a node."""
    paths = [source.scope.split(".") if source.scope else [] for source in node.sources]
    levels = takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))
    return ".".join(names[0] for names in levels)
