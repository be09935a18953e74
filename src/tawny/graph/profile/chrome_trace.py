"""A profile as a trace of events, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tawny.engine.protocol import UPDATE

if TYPE_CHECKING:
    from tawny.graph.profile.profile import Profile

PROCESS: Final = 1
MICROSECOND: Final = 1e6


def write(profile: Profile, path: str | os.PathLike[str]) -> Path:
    """Write the events of a profile's fastest run."""
    target = Path(path)
    trace = {"traceEvents": events(profile), "displayTimeUnit": "ns"}
    target.write_text(json.dumps(trace), encoding="utf-8")
    return target


def events(profile: Profile) -> list[dict[str, Any]]:
    """An event for each stretch of work, names of process and threads, and the memory in use."""
    rows = {row.position: row for row in profile.rows}
    lanes = sorted({0, *(span.lane for span in profile.spans)})
    out: list[dict[str, Any]] = [_name("process_name", 0, profile.name)]
    out += [_name("thread_name", lane, lane_name(lane)) for lane in lanes]
    for span in profile.spans:
        row = rows.get(span.position)
        if row is None:
            continue
        out.append(
            {
                "name": row.name,
                "cat": row.op,
                "ph": "X",
                "pid": PROCESS,
                "tid": span.lane,
                "ts": span.start * MICROSECOND,
                "dur": (span.stop - span.start) * MICROSECOND,
                "args": {
                    "step": row.position,
                    "type": row.type,
                    "line": row.line,
                    "scope": row.scope,
                    "operations": row.operations,
                    "bytes": row.bytes,
                    "roof": round(row.roof, 4),
                },
            }
        )
    return out + _memory(profile)


def lane_name(lane: int) -> str:
    """What a thread is called."""
    return "caller" if lane == 0 else f"worker {lane}"


def _name(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": PROCESS, "tid": thread, "args": {"name": name}}


def _memory(profile: Profile) -> list[dict[str, Any]]:
    """Bytes in use while each step runs."""
    live = [point.live_bytes for point in profile.program.plan.timeline()]
    starts: dict[int, float] = {}
    for span in profile.spans:
        if span.position != UPDATE:
            starts[span.position] = min(span.start, starts.get(span.position, span.start))
    return [
        {
            "name": "memory in use",
            "ph": "C",
            "pid": PROCESS,
            "ts": start * MICROSECOND,
            "args": {"bytes": live[position]},
        }
        for position, start in sorted(starts.items(), key=lambda pair: pair[1])
    ]
