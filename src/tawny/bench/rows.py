"""The measured table: its rows, and how they are printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from tawny.bench.workloads import WORKLOADS, Reported
from tawny.record import record


@record
class Row:
    """What was measured of one network; times in seconds for one evaluation.

    `eager_bytes` and `graph_bytes` are what an evaluation adds to the memory of a process that
    holds the weights; `held_bytes` is that of an eager evaluation that keeps each layer's result to
    its end (and, in training, all results), as the report's does; the `process` ones are the most
    that the process ever held, weights, code and Python included.
    """

    name: str
    eager_s: float
    build_s: float
    eval_s: float
    eager_bytes: int
    held_bytes: int
    graph_bytes: int
    predicted_bytes: int
    eager_process_bytes: int
    graph_process_bytes: int
    evaluations: int

    @property
    def time_ratio(self) -> float:
        """Time with the graph over time without."""
        return self.eval_s / self.eager_s

    @property
    def memory_ratio(self) -> float:
        """Memory with the graph over memory without, weights excluded."""
        return self.graph_bytes / self.eager_bytes

    @property
    def held_ratio(self) -> float:
        """Memory with the graph over memory of an eager evaluation that keeps results."""
        return self.graph_bytes / self.held_bytes

    @property
    def process_ratio(self) -> float:
        """The same of whole processes, weights included."""
        return self.graph_process_bytes / self.eager_process_bytes

    def as_dict(self) -> dict[str, Any]:
        """The row as plain data."""
        names = ("time_ratio", "memory_ratio", "held_ratio", "process_ratio")
        return asdict(self) | {name: getattr(self, name) for name in names}


HEAD: Final = (
    ("", "time (s)", "", "", "", "activations (MB)", "", "", "", "", "", "all"),
    (
        *("", "eager", "building", "evaluating", "ratio"),
        *("eager", "held", "graph", "predicted", "ratio", "to held", "ratio"),
    ),
)


def text(rows: Sequence[Row]) -> str:
    """The table; below each row, the report's own."""
    lines: list[Sequence[str]] = [*HEAD]
    for row in rows:
        lines += [_measured(row), _reported(WORKLOADS[row.name].reported)]
    widths = [max(len(line[i]) for line in lines[1:]) for i in range(len(HEAD[1]))]
    return "\n".join(_line(cells, widths) for cells in lines)


def _measured(row: Row) -> Sequence[str]:
    return (
        row.name,
        f"{row.eager_s:.4f}",
        f"{row.build_s:.4f}",
        f"{row.eval_s:.4f}",
        f"{row.time_ratio:.2f}",
        f"{row.eager_bytes / 1e6:.1f}",
        f"{row.held_bytes / 1e6:.1f}",
        f"{row.graph_bytes / 1e6:.1f}",
        f"{row.predicted_bytes / 1e6:.1f}",
        f"{row.memory_ratio:.2f}",
        f"{row.held_ratio:.2f}",
        f"{row.process_ratio:.2f}",
    )


def _reported(row: Reported) -> Sequence[str]:
    return (
        "  the report",
        f"{row.eager_s:.4f}",
        f"{row.build_s:.4f}",
        f"{row.eval_s:.4f}",
        f"{row.eval_s / row.eager_s:.2f}",
        *("", f"{row.eager_mb:.1f}", f"{row.graph_mb:.1f}", "", ""),
        *("", f"{row.graph_mb / row.eager_mb:.2f}"),
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Cells in columns; a heading may reach into empty cells to its right."""
    line = cells[0].ljust(widths[0])
    for cell, width in zip(cells[1:], widths[1:], strict=True):
        free = len(line.rstrip()) if not cell.strip() else len(line)
        line = line if not cell else line[:free]
        line = (line + f"  {cell:>{width}}") if cell else line + " " * (width + 2)
    return line.rstrip()
