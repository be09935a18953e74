"""What takes long says at a terminal what it is doing: in one line, which is gone in the end."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic
from typing import Final, final

from tawny.settings import read_setting

DELAY: Final = 0.5
"""Seconds that pass before anything is shown: what is done sooner needs no words."""

INTERVAL: Final = 0.2
"""Seconds between two changes of what is shown."""


def is_verbose() -> bool | None:
    """Whether the user wants to read what is done; None where nothing is said of it."""
    named = read_setting("TAWNY_VERBOSE")
    return None if not named else named != "0"


def is_shown() -> bool:
    """Whether there is somebody to look: at a terminal, unless the user wants quiet."""
    return is_verbose() is not False and sys.stderr.isatty()


def say(text: str) -> None:
    """Write a line where the user wants to read what is done."""
    if is_verbose():
        start = "\r\x1b[K" if is_shown() else ""
        print(f"{start}tawny: {text}", file=sys.stderr, flush=True)


@final
class LongWork:
    """Something that may take long."""

    def __init__(self, what: str) -> None:
        self._what, self._now, self._start = what, "", monotonic()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def now(self, text: str) -> None:
        """Say which part of it is being done; it costs nothing but this."""
        self._now = text

    def show(self) -> None:
        """Show it from a thread, again and again, from soon on until its end."""
        self._thread = threading.Thread(target=self._show, name="tawny progress", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Take the line away."""
        self._end.set()
        if self._thread is not None and os.getpid() == self._process:
            self._thread.join()

    def _show(self) -> None:
        if not self._end.wait(DELAY):
            _write(self._line())
            while not self._end.wait(INTERVAL):
                _write(self._line())
            _write("")

    def _line(self) -> str:
        words = ": ".join(filter(None, [self._what, self._now]))
        return f"{words} ({monotonic() - self._start:.0f} s)"


_WORKING: Final[list[LongWork]] = []
"""What is under way and shows itself: one at a time."""


@contextmanager
def progress(what: str, *, silent: bool = False) -> Generator[LongWork]:
    """Within the block a terminal says what is done; what is done inside other work is part of it.

    `silent` work shows itself in another way.
    """
    if _WORKING:
        _WORKING[0].now(what)
        yield _WORKING[0]
        return
    work = LongWork(what)
    if not silent and not is_shown():
        yield work
        return
    _WORKING.append(work)
    try:
        if not silent:
            work.show()
        yield work
    finally:
        _WORKING.clear()
        work.end()


def _write(text: str) -> None:
    room = max(20, _columns() - 1)
    shown = text if len(text) <= room else text[: room - 1] + "…"
    print(f"\r\x1b[K{shown}", end="", file=sys.stderr, flush=True)


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 80
