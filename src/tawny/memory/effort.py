"""How far searches go: counted in looks, so that they end at the same point everywhere.

A look is about what an ordinary processor of 2024 does in a microsecond of Python: a step that is
asked what it needs, a few pieces that a buffer is tried between.  The weights by which searches
count (`LOOKS_...`, beside each) were measured on the graphs and traces of `benchmarks/memory.py`.
"""

from __future__ import annotations

from typing import Final, final

SECOND: Final = 1_000_000
"""Looks that take about a second."""

UNLIMITED: Final = 1 << 60


@final
class Effort:
    """Looks that are still allowed."""

    __slots__ = ("left",)

    def __init__(self, most: int = UNLIMITED) -> None:
        self.left = most

    def spend(self, looks: int) -> None:
        """Count looks as done."""
        self.left -= looks

    @property
    def is_over(self) -> bool:
        """Whether no more is allowed."""
        return self.left <= 0
