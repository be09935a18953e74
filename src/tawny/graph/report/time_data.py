"""What a page shows of the time of a program's steps, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tawny.graph.profile.chrome_trace import lane_name
from tawny.node import Node

if TYPE_CHECKING:
    from tawny.graph.profile.profile import Profile

MAX_SPANS: Final = 40_000
"""Stretches of work that a timeline shows."""

DIGITS: Final = 10
"""Digits behind the point of seconds."""


def time_data(profile: Profile, steps: list[Node], number: Mapping[Node, int]) -> dict[str, Any]:
    """Rows of the table, the timeline and the roof; `steps` are the nodes by position."""
    rows = [
        [
            row.position,
            number[steps[row.position]] if row.position >= 0 else -1,
            round(row.seconds, DIGITS),
            round(row.share, 5),
            row.operations,
            row.bytes,
            row.bound,
            round(row.roof, 4),
            round(row.predicted_seconds, DIGITS),
        ]
        for row in profile.rows
    ]
    roof = profile.roof
    spans = _spans(profile)
    lanes = max([0, *(span[1] for span in spans)]) + 1
    return {
        "heading": profile.heading,
        "rows": rows,
        "spans": spans,
        "lanes": [lane_name(lane) for lane in range(lanes)],
        "runs": profile.runs,
        "roof": {
            "flops32": roof.flops32,
            "flops64": roof.flops64,
            "bandwidths": [list(bandwidth) for bandwidth in roof.bandwidths],
        },
    }


def _spans(profile: Profile) -> list[list[Any]]:
    """Row, lane, beginning and end of each stretch; those of one step that follow are one."""
    row_of = {row.position: k for k, row in enumerate(profile.rows)}
    newest: dict[int, list[Any]] = {}
    out: list[list[Any]] = []
    for span in sorted(profile.spans, key=lambda span: span.start):
        row = row_of.get(span.position)
        if row is None:
            continue
        last = newest.get(span.lane)
        if last is not None and last[0] == row:
            last[3] = round(span.stop, DIGITS)
            continue
        new = [row, span.lane, round(span.start, DIGITS), round(span.stop, DIGITS)]
        newest[span.lane] = new
        out.append(new)
    if len(out) > MAX_SPANS:
        out = sorted(out, key=lambda s: s[2] - s[3])[:MAX_SPANS]
    return out
