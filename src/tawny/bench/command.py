"""`tawny bench`: measure, print the table, write JSON and a picture."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tawny.bench.measuring import machine, measured
from tawny.bench.picture import draw
from tawny.bench.rows import text
from tawny.bench.workloads import LARGE_BUDGET, WORKLOADS


def bench(names: Sequence[str], json_file: Path | None, picture: Path | None) -> int:
    """Measure these networks, all by default; gives the exit status."""
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        known = ", ".join(f"'{name}'" for name in WORKLOADS)
        print(f"tawny bench: {unknown[0]!r} is not known; accepted: {known}", file=sys.stderr)
        return 2
    start = time.monotonic()
    rows = list(measured(names or list(WORKLOADS), _tell))
    _tell("")
    print(text(rows))
    print(_explained(time.monotonic() - start))
    if json_file is not None:
        content = {"machine": machine(), "rows": [row.as_dict() for row in rows]}
        json_file.write_text(json.dumps(content, indent=2) + "\n")
        print(f"written: {json_file}")
    if picture is not None:
        if importlib.util.find_spec("matplotlib") is None:
            print("no picture: matplotlib is missing; install tawny[plot]", file=sys.stderr)
        else:
            draw(rows, picture)
            print(f"written: {picture}")
    return 0


def _tell(what: str) -> None:
    """Show what is being done: one line that changes, or lines where no terminal is."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)
    elif what:
        print(what, file=sys.stderr, flush=True)


def _explained(seconds: float) -> str:
    return f"""
Time for one evaluation; eager is the same kernels, one operation at a time.  Memory is what an
evaluation adds to a process that holds the weights: eagerly, eagerly with each layer's result held
to the end (as the report's eager run does, which its own ratio is to), with the graph, and as it
was predicted before the run.  "all" compares whole processes, weights, code and Python included.
Mask R-CNN is compiled for a budget of {LARGE_BUDGET}, in which some of its maps are computed twice.
Measured in {seconds:.0f} s."""
