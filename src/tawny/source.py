"""Where in the user's program something was written."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Final, NamedTuple

import numpy

PACKAGES: Final = tuple(f"{Path(file).parent}{os.sep}" for file in (__file__, numpy.__file__))
"""Folders whose frames are not the user's: this package, and NumPy's, which calls it back."""


class Source(NamedTuple):
    """A place in the user's program: a code object and an instruction in it.

    The line is worked out only when somebody asks: finding it while the graph
    is built would cost more than building the node.
    """

    code: CodeType
    instruction: int

    @property
    def line(self) -> int:
        """Line number of the instruction."""
        for start, end, line in self.code.co_lines():
            if start <= self.instruction < end and line is not None:
                return line
        return self.code.co_firstlineno

    @property
    def file(self) -> str:
        """Path of the file, as Python knows it."""
        return self.code.co_filename

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


_OURS: Final[dict[str, bool]] = {}
"""Whether a file lies in `PACKAGES`, for the files met so far."""


def _generated(frame: FrameType) -> bool:
    """Whether Python wrote the code for a class of this package, as a dataclass's `__init__`."""
    return frame.f_code.co_filename == "<string>" and str(
        frame.f_globals.get("__name__", "")
    ).startswith("tawny.")


def caller() -> Source | None:
    """The innermost frame of the user's; None when there is none."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        ours = _OURS.get(code.co_filename)
        if ours is None:
            ours = _OURS[code.co_filename] = code.co_filename.startswith(PACKAGES)
        if not ours and not _generated(frame):
            return Source(code, frame.f_lasti)
        frame = frame.f_back
    return None
