"""The measured table: its rows, each from two processes, and how they are printed."""

from __future__ import annotations

import json
import math
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from tawny import __version__
from tawny.bench.workloads import WORKLOADS, ReportRow
from tawny.engine.cpu.threads.pool import default_threads
from tawny.engine.protocol import engine_named


@dataclass(frozen=True)
class BenchRow:
    """The measurements of one network; times in seconds for one evaluation.

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
    """The number of evaluations whose mean is `eval_s`."""
    first_build_s: float
    """The first build in its process; `build_s` is the second, which finds kernels and plans."""

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
        """Peak memory of the process with the graph over that without, weights included."""
        return self.graph_process_bytes / self.eager_process_bytes

    def as_dict(self) -> dict[str, Any]:
        """The row as plain data."""
        names = ("time_ratio", "memory_ratio", "held_ratio", "process_ratio")
        return asdict(self) | {name: getattr(self, name) for name in names}


HEAD: Final = (
    *("", "eager", "building", "evaluating", "ratio"),
    *("eager", "held", "graph", "predicted", "ratio", "to held", "ratio"),
)


BLOCKS: Final = {"time (s)": range(1, 5), "activations (MB)": range(5, 11), "all": range(11, 12)}
"""Columns under one heading."""


def format_table(rows: Sequence[BenchRow], width: int | None = None) -> str:
    """The table; below each row, the report's own.

    Where it is wider than `width`, its headings come one below the other.
    """
    lines: list[Sequence[str]] = [HEAD]
    for row in rows:
        lines += [_own_cells(row), _report_cells(WORKLOADS[row.name].report)]
    return "\n\n".join("\n".join(_part(lines, part)) for part in _parts(lines, width or math.inf))


def _parts(lines: Sequence[Sequence[str]], width: float) -> list[list[int]]:
    """The columns of tables that are no wider than `width`: blocks, or pieces of a wide one."""
    parts: list[list[int]] = [[]]
    for block in BLOCKS.values():
        whole = _fits(lines, block, width)
        for piece in [block] if whole else [[column] for column in block]:
            if parts[-1] and not _fits(lines, [*parts[-1], *piece], width):
                parts.append([])
            parts[-1] += piece
        if not whole:
            parts.append([])
    return [part for part in parts if part]


def _fits(lines: Sequence[Sequence[str]], columns: Sequence[int], width: float) -> bool:
    return max(map(len, _part(lines, columns))) <= width


def _part(lines: Sequence[Sequence[str]], columns: Sequence[int]) -> list[str]:
    """Some columns of the table after the names, below their headings."""
    widths = {i: max(len(line[i]) for line in lines) for i in (0, *columns)}
    body = [
        "  ".join([line[0].ljust(widths[0]), *(line[i].rjust(widths[i]) for i in columns)]).rstrip()
        for line in lines
    ]
    heading, place = "", widths[0]
    for i in columns:
        name = next(name for name, block in BLOCKS.items() if i in block)
        if i == columns[0] or i == BLOCKS[name][0]:
            heading = heading.ljust(place + 2) + name.rjust(widths[i])
        place += 2 + widths[i]
    return [heading, *body]


def _own_cells(row: BenchRow) -> Sequence[str]:
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


def _report_cells(row: ReportRow) -> Sequence[str]:
    return (
        "  the report",
        f"{row.eager_s:.4f}",
        f"{row.build_s:.4f}",
        f"{row.eval_s:.4f}",
        f"{row.eval_s / row.eager_s:.2f}",
        *("", f"{row.eager_mb:.1f}", f"{row.graph_mb:.1f}", "", ""),
        *("", f"{row.graph_mb / row.eager_mb:.2f}"),
    )


SECONDS: Final = 8.0
"""How long one process evaluates, or a little longer."""

ShowProgress = Callable[[str], None]
"""Is given a line that says what is being done."""


def measure(
    names: Iterable[str],
    show_progress: ShowProgress,
    seconds: float = SECONDS,
    engine: str = "cpu",
) -> Iterator[BenchRow]:
    """The rows of these networks, one after the other; `show_progress` is told what is done.

    With the graph they run on `engine`; without it on the processor.
    """
    for name in names:
        show_progress(f"{name}: without the graph")
        eager = _run_child(name, "eager", seconds, engine)
        show_progress(f"{name}: with the graph")
        graph = _run_child(name, "graph", seconds, engine)
        yield BenchRow(
            name,
            eager_s=eager["seconds"],
            build_s=graph["build_s"],
            eval_s=graph["seconds"],
            eager_bytes=eager["bytes"],
            held_bytes=eager["held_bytes"],
            graph_bytes=graph["bytes"],
            predicted_bytes=graph["predicted_bytes"],
            eager_process_bytes=eager["process_bytes"],
            graph_process_bytes=graph["process_bytes"],
            evaluations=graph["evaluations"],
            first_build_s=graph["first_build_s"],
        )


def machine(engine: str = "cpu") -> dict[str, Any]:
    """What the table was measured on."""
    device = engine_named(engine).device()
    return {
        "engine": engine,
        "device": None if device is None else device.name,
        "system": f"{platform.system()} {platform.machine()}",
        "threads": default_threads(),
        "python": platform.python_version(),
        "tawny": __version__,
    }


def _run_child(name: str, mode: str, seconds: float, engine: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tawny.bench.child", name, mode, str(seconds), engine]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"{name}, {mode}: the process failed:\n{process.stderr.strip()}")
    figures: dict[str, Any] = json.loads(process.stdout)
    return figures
