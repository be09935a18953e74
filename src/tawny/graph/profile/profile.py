"""What a program's steps took, as it was measured."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, final

from tawny.engine.protocol import WorkSpan
from tawny.errors import value_error
from tawny.graph.profile import chrome_trace
from tawny.graph.profile.roof import Roof
from tawny.graph.profile.table import SHOWN, as_table, count_text, seconds_text
from tawny.lazy import LazyModule
from tawny.unique import Unique

if TYPE_CHECKING:
    from tawny.graph.program import Program
    from tawny.graph.report import page
else:
    page = LazyModule("tawny.graph.report.page")


class StepProfile(NamedTuple):
    """The measured time of one step, and its work."""

    position: int
    """The place of the step in `plan.steps`; -1 for the updates after all of them."""
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
    """The time of the step, on average over the faster half of the runs."""
    share: float
    """The share that is of all steps."""
    operations: int
    """Scalar operations; a multiply and its add are two."""
    bytes: int
    """Bytes read and written."""
    bound: str
    """What holds it back: `compute`, `memory`, or `start` where starting it takes the most."""
    roof: float
    """The least time that the machine's roof allows, over the time it took."""
    predicted_seconds: float
    """What `graph.estimate()` says it takes."""


@final
@dataclass(frozen=True, repr=False, eq=False)
class Profile(Unique):
    """The measured times of a program's steps; printed, a table of those that took the most.

    x = tw.var("x", (200, 200))
    program = tw.Graph([x], np.exp(x @ x)).compile()
    program.set(x=numpy.ones((200, 200)) / 200)
    profile = program.profile(runs=5)
    slowest = max(profile.rows, key=lambda row: row.seconds)
    profile.chrome_trace("trace.json")            # for ui.perfetto.dev or chrome://tracing
    """

    name: str
    rows: Sequence[StepProfile]
    """An entry for each step of the run, in order, as plain data."""
    run_seconds: float
    """What a run takes that nobody measures, on average over the faster half."""
    measured_run_seconds: float
    """What a run takes whose steps are timed, on average over the faster half."""
    runs: int
    """How many runs were measured."""
    roof: Roof
    """What the machine does at best, as it was measured."""
    spans: Sequence[WorkSpan]
    """Who worked on which step when, in the fastest run that was measured."""
    overhead: float | None = None
    """What timing the steps costs, as a share of a run, by the fastest run of either kind; None
    where all runs were measured."""
    phases: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of a training: the seconds that its parts took."""
    program: Program = field(kw_only=True)
    """The program that was measured."""

    @property
    def seconds(self) -> float:
        """What all steps take together."""
        return sum(row.seconds for row in self.rows)

    @property
    def outside_seconds(self) -> float:
        """What a measured run takes beside its steps: calls from Python, and in between."""
        return max(0.0, self.measured_run_seconds - self.seconds)

    @property
    def predicted_seconds(self) -> float:
        """What `graph.estimate()` says a run takes."""
        return sum(row.predicted_seconds for row in self.rows)

    @property
    def operations(self) -> int:
        """Scalar operations of a run; a multiply and its add are two."""
        return sum(row.operations for row in self.rows)

    @property
    def bytes(self) -> int:
        """Bytes that the steps read and write."""
        return sum(row.bytes for row in self.rows)

    def by(self, key: Literal["op", "scope", "line", "name", "bound"]) -> dict[str, float]:
        """Seconds by op, scope, line, name or bound, the most first.

        - `key`: what steps are counted together by.

        Gives a dict.
        """
        if key not in ("op", "scope", "line", "name", "bound"):
            raise value_error(
                "by", f"key is {key!r}; accepted: 'op', 'scope', 'line', 'name', 'bound'"
            )
        total: dict[str, float] = {}
        for row in self.rows:
            word = str(getattr(row, key))
            total[word] = total.get(word, 0.0) + row.seconds
        return dict(sorted(total.items(), key=lambda pair: -pair[1]))

    def chrome_trace(self, path: str | os.PathLike[str]) -> Path:
        """Write the fastest run as a trace that Perfetto and chrome://tracing open.

        - `path`: the file, which is replaced.

        Gives the path.
        """
        return chrome_trace.write(self, path)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write what `show` shows as plain data, for `tawny view FILE`.

        - `path`: the file, which is replaced.

        Gives the path.
        """
        target = Path(path)
        target.write_text(json.dumps(page.profile_data(self)), encoding="utf-8")
        return target

    def show(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write the page of the program with a view of the time; it needs no network.

        - `path`: the file, which is replaced; None makes one and opens it in the browser.

        Gives the path.
        """
        return page.show(page.profile_page(self), path)

    def __repr__(self) -> str:
        shown = sorted(self.rows, key=lambda row: -row.seconds)[:SHOWN]
        hidden = len(self.rows) - len(shown)
        rest = self.seconds - sum(row.seconds for row in shown)
        return as_table(
            self.heading,
            ("step", "time", "share", "FLOP/s", "B/s", "roof", "bound", "what", "line"),
            [_cells(row) for row in shown],
            [f"... and {hidden} more steps: {seconds_text(rest)}"] if hidden else [],
        )

    @property
    def heading(self) -> list[str]:
        """What stands above the table: the whole run, its work, the roof."""
        seconds = self.seconds or 1e-9
        off = self.predicted_seconds / seconds - 1
        lines = [
            f"{self.name}: {seconds_text(self.run_seconds)} a run ({self.runs} runs, the faster "
            f"half); the steps take {seconds_text(self.seconds)}, "
            f"{seconds_text(self.outside_seconds)} are outside"
            + ("" if self.overhead is None else f"; timing costs {100 * self.overhead:+.1f} %"),
            f"{count_text(self.operations)}FLOP at {count_text(self.operations / seconds)}FLOP/s, "
            f"{count_text(self.bytes)}B at {count_text(self.bytes / seconds)}B/s; predicted "
            f"{seconds_text(self.predicted_seconds)}, {100 * off:+.0f} %",
            str(self.roof),
        ]
        if self.phases:
            parts = [f"{name} {seconds_text(took)}" for name, took in self.phases.items()]
            lines.append(f"training: {', '.join(parts)}")
        return lines


def _cells(row: StepProfile) -> tuple[str, ...]:
    seconds = row.seconds or 1e-9
    return (
        str(row.position) if row.position >= 0 else "",
        seconds_text(row.seconds),
        f"{100 * row.share:.1f} %",
        count_text(row.operations / seconds).strip(),
        count_text(row.bytes / seconds).strip(),
        f"{100 * row.roof:.0f} %",
        row.bound,
        f"{row.name} {row.type}".strip(),
        row.line,
    )
