"""Workloads of many kinds by every library: results compared, then timed side by side, worst first.

    python benchmarks/suite.py [--list] [--only TEXT ...] [--sizes small medium large]
                               [--libraries jax torch ...] [--rounds 7] [--limit SECONDS]
                               [--memory] [--json FILE] [--table FILE]

Tawny takes part twice: as a program whose inputs are bound and whose outputs are seen where they
lie, and as a jitted function of NumPy's arrays that gives new ones.  A ratio is the time of Tawny's
program by that of the fastest peer: below 1, nobody is faster.  "roof" is what the machine needs at
least, by its rates of arithmetic and memory, as a part of the program's time.

Rows are added to those that FILE holds, so that the whole can be measured in parts; `--table FILE`
prints what was measured.  A library that is not installed is left out; so are those that cannot
express a workload.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import exp, log
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np

from timing import Timed, installed, interleaved
from workloads import BuiltWorkload, workloads
from workloads.family import Workload
from workloads.libraries import LIBRARIES, PEERS, LeftOutError, Ready

OURS = "tawny"
JIT = "tawny.jit"
TURN_SECONDS = 2e-3
"""How long a turn of short calls takes."""
MOST_CALLS = 200
PATIENCE = 20.0
"""How often slower than the fastest a library may be and still be timed in every round."""
EQUAL_WITHIN = 1.05
"""The ratio from which on a peer counts as faster."""

Row = dict[str, Any]


def contenders_of(one: Workload | BuiltWorkload) -> dict[str, Callable[[], Ready]]:
    """How each library makes a workload ready."""
    if isinstance(one, BuiltWorkload):
        return one.contenders
    takes_part = {name: make for name, make in LIBRARIES.items() if name not in one.family.without}
    return {name: partial(make, one) for name, make in takes_part.items()}


def size_of(one: Workload | BuiltWorkload) -> str:
    """`small`, `medium` or `large`."""
    return "large" if isinstance(one, BuiltWorkload) else one.case.size


def difference(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The greatest difference, as a part of the largest element of each array."""
    assert len(found) == len(expected), f"{len(found)} results, not {len(expected)}"
    greatest = 0.0
    for one, other in zip(found, expected, strict=True):
        assert one.size == other.size, f"shape {one.shape}, not {other.shape}"
        assert np.isfinite(one).all(), "not finite"
        apart = np.abs(one.reshape(-1) - other.reshape(-1)).max(initial=0.0)
        greatest = max(greatest, float(apart / max(np.abs(other).max(initial=0.0), 1e-30)))
    return greatest


def make_ready(one: Workload | BuiltWorkload, libraries: Iterable[str]) -> tuple[Any, ...]:
    """The libraries that are ready, and why the others are not."""
    ready: dict[str, Ready] = {}
    absent: dict[str, str] = {}
    for name, make in contenders_of(one).items():
        if name not in libraries:
            continue
        try:
            ready[name] = make()
        except LeftOutError as reason:
            absent[name] = str(reason)
    return ready, absent


def compare(one: Workload | BuiltWorkload, ready: Mapping[str, Ready]) -> dict[str, float]:
    """How far the results are from those of the first peer; refused where they differ."""
    results = {name: [np.array(x) for x in r.arrays(r.run())] for name, r in ready.items()}
    witness = next((name for name in results if name in PEERS), OURS)
    apart: dict[str, float] = {}
    for name, found in results.items():
        apart[name] = difference(found, results[witness])
        if not apart[name] <= one.tolerance:
            raise AssertionError(f"{name} differs from {witness} by {apart[name]:.1e}")
    return apart


def measure(one: Workload | BuiltWorkload, libraries: Sequence[str], rounds: int) -> Row:
    """A row of the table."""
    ready, absent = make_ready(one, libraries)
    apart = compare(one, ready)
    once = {name: _once(r.run) for name, r in ready.items()}
    fastest = min(once.values())
    slow = {n: s for n, s in once.items() if s > PATIENCE * fastest and s > 0.05}
    timed = {n: Timed(s, s) for n, s in slow.items()}
    calls = max(1, min(MOST_CALLS, int(TURN_SECONDS / fastest)))
    runs = {n: r.run for n, r in ready.items() if n not in slow}
    timed |= interleaved(runs, rounds=rounds, calls=calls)
    row: Row = {
        "name": one.name,
        "size": size_of(one),
        "seconds": {n: t.best for n, t in timed.items()},
        "medians": {n: t.median for n, t in timed.items()},
        "build_seconds": {n: r.seconds for n, r in ready.items()},
        "difference": apart,
        "absent": absent,
    }
    if (own := ready.get(OURS)) is not None:
        row["planned_bytes"] = own.planned_bytes
        if own.least is not None:
            row["roof"] = own.least() / timed[OURS].best
    return row


def _once(run: Callable[[], Any]) -> float:
    """About how long a call takes."""
    run()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


# ---------------------------------------------------------------------- memory


def resident(field: str) -> int:
    """Bytes of this process in memory, now (`VmRSS`) or at most (`VmHWM`)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise LookupError(field)


def measure_memory(name: str, library: str) -> int:
    """Bytes that the first calls add to a process which has made a workload ready."""
    one = next(w for w in workloads() if w.name == name)
    made = contenders_of(one)[library]()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # from here on VmHWM counts anew
    before = resident("VmRSS")
    made.run()
    made.run()
    return resident("VmHWM") - before


def memory_of(name: str, libraries: Iterable[str]) -> dict[str, int]:
    """What each library needs, each in a process of its own."""
    found = {}
    for library in libraries:
        command = [sys.executable, __file__, "--memory-of", name, library]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found[library] = int(done.stdout.split()[-1])
    return found


# ----------------------------------------------------------------------- table


def ratio(row: Row, ours: str = OURS) -> float | None:
    """Our time by that of the fastest peer."""
    seconds = row["seconds"]
    peers = [s for n, s in seconds.items() if n in PEERS]
    return seconds[ours] / min(peers) if peers and ours in seconds else None


def mean_ratio(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [log(r) for r in ratios]
    return exp(sum(logs) / len(logs)) if logs else float("nan")


def table(rows: Sequence[Row]) -> str:
    """All rows, those first in which a peer is the fastest by most."""
    known = [(ratio(row), row) for row in rows]
    judged = sorted([(r, row) for r, row in known if r is not None], key=lambda x: -x[0])
    wide = max([len(row["name"]) for row in rows], default=8)
    names = [n for n in PEERS if any(n in row["seconds"] for row in rows)]
    head = f"{'workload':<{wide}}{'ratio':>7}{'jit':>7}{'roof':>6}{'ms':>10}{'build s':>9}{'MB':>9}"
    lines = [head + "".join(f"{n:>14}" for n in names)]
    lines += [_line(r, row, wide, names) for r, row in judged]
    lines += [_line(None, row, wide, names) for r, row in known if r is None]
    ratios = [r for r, _ in judged]
    jitted = [r for row in rows if (r := ratio(row, JIT)) is not None]
    behind = sum(r > EQUAL_WITHIN for r in ratios)
    lines.append(
        f"{len(ratios)} workloads: geometric mean {mean_ratio(ratios):.3f} "
        f"(jitted {mean_ratio(jitted):.3f}), {behind} above {EQUAL_WITHIN}"
    )
    return "\n".join(lines)


def _line(own: float | None, row: Row, wide: int, names: Sequence[str]) -> str:
    seconds, jitted = row["seconds"], ratio(row, JIT)
    ms = seconds.get(OURS)
    cells = [
        "" if own is None else f"{own:.2f}",
        "" if jitted is None else f"{jitted:.2f}",
        f"{row['roof']:.2f}" if row.get("roof") else "",
    ]
    text = f"{row['name']:<{wide}}{cells[0]:>7}{cells[1]:>7}{cells[2]:>6}"
    text += f"{ms * 1e3:>10.4f}" if ms else " " * 10
    built = row["build_seconds"].get(OURS)
    text += f"{built:>9.2f}" if built is not None else " " * 9
    planned = row.get("planned_bytes")
    text += f"{planned / 1e6:>9.3f}" if planned is not None else " " * 9
    return text + "".join(f"{seconds[n] * 1e3:>14.4f}" if n in seconds else " " * 14 for n in names)


def absences(rows: Sequence[Row]) -> str:
    """Who takes no part where, and why."""
    found: dict[tuple[str, str], int] = {}
    for row in rows:
        for name, reason in row["absent"].items():
            found[name, reason] = found.get((name, reason), 0) + 1
    return "\n".join(f"  {n} left out of {count}: {why}" for (n, why), count in found.items())


def memory_table(rows: Sequence[Row]) -> str:
    """What calls add to a process."""
    lines = ["megabytes that calls add to a process that is ready, and what was planned"]
    for row in rows:
        if row.get("memory"):
            each = ", ".join(f"{n} {b / 1e6:.1f}" for n, b in row["memory"].items())
            lines.append(f"  {row['name']}: planned {row['planned_bytes'] / 1e6:.1f}; {each}")
    return "\n".join(lines) if len(lines) > 1 else ""


# ------------------------------------------------------------------ command line


def chosen(only: Sequence[str] | None, sizes: Sequence[str]) -> list[Workload | BuiltWorkload]:
    """The workloads whose names contain one of the texts, in these sizes."""
    found = [w for w in workloads() if size_of(w) in sizes]
    return [w for w in found if not only or any(text in w.name for text in only)]


def merge(file: Path | None, rows: Sequence[Row]) -> list[Row]:
    """The rows with those that the file holds of other workloads; they are written there."""
    if file is None:
        return [*rows]
    held = {row["name"]: row for row in json.loads(file.read_text())} if file.exists() else {}
    held |= {row["name"]: row for row in rows}
    file.write_text(json.dumps([*held.values()], indent=1))
    return [*held.values()]


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", metavar="TEXT")
    parser.add_argument("--sizes", nargs="*", default=["small", "medium", "large"])
    parser.add_argument("--libraries", nargs="*", default=list(PEERS), choices=[*PEERS, JIT])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--table", type=Path, metavar="FILE")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for; 1 where results differ or a library failed."""
    given = parsed(arguments)
    if given.memory_of:
        print(measure_memory(*given.memory_of))
        return 0
    if given.table:
        rows = json.loads(given.table.read_text())
        print(table(rows), absences(rows), memory_table(rows), sep="\n")
        return 0
    wanted = chosen(given.only, given.sizes)
    if given.list:
        print("\n".join(w.name for w in wanted))
        return 0
    libraries = [OURS, JIT, *installed(given.libraries)]
    missing = [name for name in given.libraries if name not in libraries]
    if missing:
        print(f"not installed, left out: {', '.join(missing)}")
    end, rows, failed = time.monotonic() + given.limit, [], 0
    for number, one in enumerate(wanted):
        if time.monotonic() > end:
            print(f"the time is over: {len(wanted) - number} workloads were not measured")
            break
        try:
            row = measure(one, libraries, given.rounds)
        except Exception:
            failed += 1
            print(f"{one.name}: failed", traceback.format_exc(limit=-3), sep="\n", file=sys.stderr)
            continue
        if given.memory:
            row["memory"] = memory_of(one.name, row["seconds"])
        rows.append(row)
        merge(given.json, rows)
        own = ratio(row)
        print(
            f"{one.name}: {'alone' if own is None else f'{own:.2f}'}", file=sys.stderr, flush=True
        )
    rows = merge(given.json, rows)
    print(table(rows), absences(rows), memory_table(rows), sep="\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
