"""The stages between a graph and a program, as they were gone through: what `explain` shows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import NamedTuple, final, overload

from tawny.progress import say


class StageRecord(NamedTuple):
    """One stage: its name, the nodes or steps and the bytes that it leaves, and its time."""

    name: str
    nodes: int
    """Nodes of the graph that the stage leaves; for plans, the steps that a run takes."""
    bytes: int
    """Bytes of the plan that the stage leaves; before there is one, of all values that the graph
    computes, and of the kernels' scratch memory once they are chosen."""
    seconds: float


def _log(stage: StageRecord) -> None:
    """Say of a stage what it left: under the name `tawny`, if `logging` is in use, and if asked."""
    name, nodes, nbytes, seconds = stage
    text = f"compile: {name}: {nodes} nodes, {nbytes} bytes, {1e3 * seconds:.2f} ms"
    say(text)
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("tawny").debug(text)


@final
class Stages(Sequence[StageRecord]):
    """The stages of one compilation in their order, printed as a table."""

    def __init__(self, stages: Sequence[StageRecord] = (), summary: str = "") -> None:
        self._stages = list(stages)
        self._summary = summary
        self._last = perf_counter()

    def note(self, name: str, nodes: int, nbytes: int) -> None:
        """Add a stage that ends now and began when the one before it ended."""
        now = perf_counter()
        stage = StageRecord(name, nodes, nbytes, now - self._last)
        self._stages.append(stage)
        self._last = now
        _log(stage)

    def with_summary(self, summary: str) -> Stages:
        """The stages with a line that is printed below them."""
        return Stages(self._stages, summary)

    @overload
    def __getitem__(self, index: int) -> StageRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[StageRecord]: ...
    def __getitem__(self, index: int | slice) -> StageRecord | list[StageRecord]:
        return self._stages[index]

    def __len__(self) -> int:
        return len(self._stages)

    def __iter__(self) -> Iterator[StageRecord]:
        return iter(self._stages)

    def __repr__(self) -> str:
        rows = [("stage", "nodes", "bytes", "ms")]
        for name, nodes, nbytes, seconds in self._stages:
            rows.append((name, f"{nodes:,}", f"{nbytes:,}", f"{1e3 * seconds:.2f}"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        return "\n".join([*lines, *([self._summary] if self._summary else [])])
