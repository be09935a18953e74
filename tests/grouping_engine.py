"""An engine that runs fused groups: by NumPy, step by step, in the memory the plan gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tawny.engine.protocol import ENGINES
from tawny.engine.reference.executable import ReferenceEngine

NAME = "grouping"


class GroupingEngine(ReferenceEngine):
    """The reference engine on graphs with groups."""

    compiles_groups = True


@contextmanager
def grouping_engine() -> Iterator[str]:
    """The engine's name, known inside the context."""
    ENGINES[NAME] = GroupingEngine()
    try:
        yield NAME
    finally:
        del ENGINES[NAME]
