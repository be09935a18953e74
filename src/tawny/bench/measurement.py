"""The rows of the table, each from two processes."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tawny import __version__
from tawny.bench.rows import BenchRow
from tawny.engine.cpu.threads.pool import default_threads

SECONDS: Final = 8.0
"""How long one process evaluates, or a little longer."""

ShowProgress = Callable[[str], None]
"""Is given a line that says what is being done."""


def measure(
    names: Iterable[str], show_progress: ShowProgress, seconds: float = SECONDS
) -> Iterator[BenchRow]:
    """The rows of these networks, one after the other; `show_progress` is told what is done."""
    for name in names:
        show_progress(f"{name}: without the graph")
        eager = _run_child(name, "eager", seconds)
        show_progress(f"{name}: with the graph")
        graph = _run_child(name, "graph", seconds)
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


def machine() -> dict[str, Any]:
    """What the table was measured on."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "threads": default_threads(),
        "python": platform.python_version(),
        "tawny": __version__,
    }


def _run_child(name: str, mode: str, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "tawny.bench.child", name, mode, str(seconds)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"{name}, {mode}: the process failed:\n{process.stderr.strip()}")
    figures: dict[str, Any] = json.loads(process.stdout)
    return figures
