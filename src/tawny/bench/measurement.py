"""The rows of the table, each from two processes."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tawny import __version__
from tawny.bench.rows import Row
from tawny.engine.cpu.pool import default_threads

SECONDS: Final = 8.0
"""How long one process evaluates, or a little longer."""

Tell = Callable[[str], None]


def measured(names: Iterable[str], tell: Tell, seconds: float = SECONDS) -> Iterator[Row]:
    """The rows of these networks, one after the other; `tell` hears what is being done."""
    for name in names:
        tell(f"{name}: without the graph")
        eager = _in_a_process(name, "eager", seconds)
        tell(f"{name}: with the graph")
        graph = _in_a_process(name, "graph", seconds)
        yield Row(
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


def _in_a_process(name: str, mode: str, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "tawny.bench.child", name, mode, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}, {mode}: the process failed:\n{done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
