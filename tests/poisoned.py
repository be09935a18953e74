"""Runs in which memory that nobody should read again is worthless."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tawny.engine.protocol import Executable, Task
from tawny.engine.reference.memory import POISON


class Poisoned:
    """Any engine's executable; fills every storage with 0xFF as soon as its last reader is done.

    Its planned memory is its `arena`.
    """

    def __init__(self, executable: Executable, task: Task) -> None:
        self._inner: Any = executable
        self._layout = task.layout
        self._alone = [[position] for position in range(len(task.layout.sequence))]
        self._poison(0, task.layout.arena)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def run(self, positions: Sequence[int], draw: int) -> None:
        wanted = set(positions)
        for position, alone in enumerate(self._alone):
            if position in wanted:
                self._inner.run(alone, draw)
            for storage, offset in self._layout.placed_storages:
                if storage.death == position + 1 < len(self._alone):
                    self._poison(offset, storage.bytes)

    def _poison(self, offset: int, nbytes: int) -> None:
        arena = self._inner.arena
        if isinstance(arena, np.ndarray):
            arena[offset : offset + nbytes] = POISON
        elif nbytes:
            self._inner.driver.write(arena.buffer, offset, np.full(nbytes, POISON, np.uint8))

    def advance(self, positions: Sequence[int], draw: int, most: int) -> int:
        del most
        self.run(positions, draw)
        self._inner.update()
        return 1
