"""`tawny bench`: measure, print the table, write JSON and a picture."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tawny.bench.picture import draw
from tawny.bench.rows import BenchRow, format_table, machine, measure
from tawny.bench.workloads import LARGE_BUDGET, WORKLOADS
from tawny.engine.protocol import engine_named

FORMATS: Final = (".png", ".svg", ".pdf")
"""How names of pictures may end."""


def bench(
    names: Sequence[str], json_file: Path | None, picture: Path | None, engine: str = "cpu"
) -> int:
    """Measure these networks, all by default; gives the exit status."""
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        known = ", ".join(f"'{name}'" for name in WORKLOADS)
        print(f"tawny bench: {unknown[0]!r} is not known; accepted: {known}", file=sys.stderr)
        return 2
    if (refusal := _refusal(json_file, picture) or _engine_refusal(engine)) is not None:
        print(f"tawny bench: {refusal}", file=sys.stderr)
        return 2
    if picture is not None and importlib.util.find_spec("matplotlib") is None:
        print("no picture: matplotlib is missing; install tawny[plot]", file=sys.stderr)
        picture = None
    start = time.monotonic()
    chosen, rows = names or list(WORKLOADS), list[BenchRow]()
    try:
        for row in measure(chosen, _show_progress, engine=engine):
            rows.append(row)
    except KeyboardInterrupt:
        _show_progress("")
        _print_table(rows, time.monotonic() - start, engine)
        message = f"interrupted after {len(rows)} of {len(chosen)} networks; no file is written"
        print(message, file=sys.stderr)
        return 130
    _show_progress("")
    _print_table(rows, time.monotonic() - start, engine)
    if json_file is not None:
        content = {"machine": machine(engine), "rows": [row.as_dict() for row in rows]}
        json_file.write_text(json.dumps(content, indent=2) + "\n")
        print(f"written: {json_file}")
    if picture is not None:
        draw(rows, picture)
        print(f"written: {picture}")
    return 0


def _refusal(json_file: Path | None, picture: Path | None) -> str | None:
    """Why the files cannot be written, told before a minute is spent on their contents."""
    for path in (json_file, picture):
        if path is not None and path.is_dir():
            return f"{path} is a folder; accepted: the path of a file"
        if path is not None and not path.parent.is_dir():
            return f"there is no folder {path.parent}"
    if picture is not None and picture.suffix not in FORMATS:
        return f"{picture}: a picture's name ends in {', '.join(FORMATS)}"
    return None


def _engine_refusal(engine: str) -> str | None:
    """Why programs cannot run on this engine here."""
    try:
        engine_named(engine).device()
    except ValueError as error:
        return str(error)
    return None


def _print_table(rows: Sequence[BenchRow], seconds: float, engine: str = "cpu") -> None:
    """Print the table, no wider than the terminal."""
    width = shutil.get_terminal_size(fallback=(0, 0)).columns or None
    if rows:
        print(format_table(rows, width))
        print(_explanation(rows, seconds, width, engine))


def _show_progress(line: str) -> None:
    """Show what is being done: one line that changes, or lines where no terminal is."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
    elif line:
        print(line, file=sys.stderr, flush=True)


def _explanation(rows: Sequence[BenchRow], seconds: float, width: int | None, engine: str) -> str:
    kernels = "the same kernels" if engine == "cpu" else "the kernels of the processor"
    device = engine_named(engine).device()
    where = "" if device is None else f"  With the graph it is on {device.name}."
    counts = ", ".join(f"{row.name} {row.evaluations}" for row in rows)
    first = ", ".join(f"{row.first_build_s:.2f}" for row in rows)
    text = f"""
Time for one evaluation, of MNIST for one step of 100 digits: the mean of the middle half of the
evaluations: {counts}.{where}  Eager is {kernels}, one operation at a time.  Building is the
second build in a process, which finds kernels and plans; the first took {first} s.  Memory is
what an evaluation adds to a process that holds the weights:
eagerly, eagerly with each layer's result held to the end (as the report's eager run does, which
its own ratio is to), with the graph, and as it was predicted before the run.  "all" compares whole
processes, weights, code and Python included, which is what the report measured.  Its MNIST row is
a training of many steps.  Mask R-CNN is compiled for a budget of {LARGE_BUDGET}, or the least that
this machine's threads leave, in which some of its maps are computed twice."""
    return f"\n{textwrap.fill(text.strip(), min(width or 100, 100))}\nMeasured in {seconds:.0f} s."
