"""How some steps are run: calls of the interpreter, and steps that Python runs in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tawny.engine.cpu.table import Cells
from tawny.engine.reference.executable import StepThunk


class NativeSegment(NamedTuple):
    """Entries of the table that one call of the interpreter runs, or a step that Python runs."""

    entries: Cells
    length: int
    call: memoryview
    """The cells of the call."""
    address: int
    """Where the cells of the call lie."""
    callback: StepThunk | None
    long: bool = False
    """Whether it is run so that it can be stopped."""


class Route(NamedTuple):
    """The segments by which some positions are run."""

    positions: Sequence[int]
    segments: tuple[NativeSegment, ...]
    calls_back: bool
    before: tuple[NativeSegment, ...]
    """What comes before the last call of a run with its updates."""
    first_change: int
    """The first of these that may change a variable; past their end, if none does."""
    ending: NativeSegment
    """The last call of a run with its updates."""


def callback_segment(callback: StepThunk) -> NativeSegment:
    """A step that Python runs."""
    return NativeSegment(_NOTHING, 0, _NOTHING.data, 0, callback)


_NOTHING: Final = np.empty(0, np.int64)
