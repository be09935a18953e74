"""Ctrl-C between steps, never within one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import final


@final
class Interrupts:
    """Remembers that the user wants to stop."""

    def __init__(self) -> None:
        self.wanted = False

    def check(self) -> None:
        """Stop here, if the user wants to."""
        if self.wanted:
            raise KeyboardInterrupt

    def notice(self, number: int, frame: FrameType | None) -> None:
        """A first Ctrl-C waits for the end of the step; a second one does not."""
        if self.wanted:
            signal.default_int_handler(number, frame)
        self.wanted = True


@contextmanager
def interrupts_deferred() -> Generator[Interrupts]:
    """Within the block Ctrl-C only sets a mark; at its end it takes effect.

    Somebody else's handler of the signal is left alone, and so are other threads.
    """
    interrupts = Interrupts()
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not ours:
        yield interrupts
        return
    signal.signal(signal.SIGINT, interrupts.notice)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
