"""Control-C at a chosen place: one of those where Python looks for signals in Tawny's own code.

    interrupted(program.run, 7)

calls `program.run` and raises KeyboardInterrupt at the seventh such place, as a signal's handler
would: after a call of what is written in C, where a function begins, where a loop begins anew.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import tawny

OURS = str(Path(tawny.__file__).parent)

LOOPS = {dis.opmap[name] for name in ("JUMP_BACKWARD", "RESUME") if name in dis.opmap}
CALLS = {
    dis.opmap[name]
    for name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX", "CALL_INTRINSIC_1")
    if name in dis.opmap
}
"""What Python looks for signals after: a function of Python's own looks when it begins."""


class Interruption:
    """Counts the places that a call passes, and interrupts it at one."""

    def __init__(self, place: int) -> None:
        self.left = place
        self.line = ""
        """Where it was interrupted."""
        self._last: dict[FrameType, int] = {}
        self._called: set[FrameType] = set()
        """Frames whose last call was of a function of Python's own."""

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Told of every function that begins."""
        if frame.f_back is not None:
            self._called.add(frame.f_back)
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.step

    def step(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Told of every instruction of Tawny's functions."""
        if event == "return":
            self._last.pop(frame, None)
            self._called.discard(frame)
        elif event == "opcode":
            before = self._last.get(frame)
            self._last[frame] = frame.f_code.co_code[frame.f_lasti]
            called = frame in self._called
            self._called.discard(frame)
            if before in LOOPS or (before in CALLS and not called):
                self.left -= 1
                if not self.left:
                    self.line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                    sys.settrace(None)
                    raise KeyboardInterrupt
        return self.step


def interrupted(call: Callable[[], object], place: int) -> str | None:
    """Make a call and interrupt it; where, or None if it was over before."""
    interruption, before = Interruption(place), sys.gettrace()
    sys.settrace(interruption.enter)
    try:
        call()
    except KeyboardInterrupt:
        return interruption.line
    finally:
        sys.settrace(before)
    return interruption.line or None
