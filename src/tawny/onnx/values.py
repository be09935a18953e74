"""What flows between nodes: arrays, sequences of them, and optional values without an element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tawny.array import Array


@dataclass(frozen=True, slots=True)
class SequenceValue:
    """A sequence whose length is known."""

    items: tuple[FlowValue, ...]


@dataclass(frozen=True, slots=True)
class NoValue:
    """An optional value that has no element."""


FlowValue: TypeAlias = "Array | SequenceValue | NoValue"

Results: TypeAlias = "FlowValue | tuple[FlowValue | None, ...]"
"""What an operator makes: one value, or one for each of its outputs."""
