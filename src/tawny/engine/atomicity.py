"""Work that Control-C waits for, such as changing variables one after the other."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

Work = Callable[[Callable[[], bool]], object]
"""Does something; what it is given says whether Python was interrupted meanwhile."""


def run_to_end(work: Work) -> None:
    """Do work that must not be left half done; Python is interrupted when it is over.

    Signals are heard in Python's main thread alone, so there another thread does the work.
    """
    if _thread.get_ident() != threading.main_thread().ident:
        work(lambda: False)
        return
    waiting, over = [work], _thread.allocate_lock()
    outcomes, interruptions = list[BaseException | None](), list[BaseException]()
    over.acquire()

    def run() -> None:
        outcome = None
        try:
            waiting.pop()(lambda: bool(interruptions))
        except BaseException as error:
            outcome = error
        outcomes.append(outcome)
        over.release()

    try:
        _thread.start_new_thread(run, ())
    except BaseException as error:
        if not take_back(waiting):
            interruptions.append(error)
        elif isinstance(error, RuntimeError):  # the system has no thread left
            work(lambda: False)
            return
        else:
            raise
    while not outcomes:  # an interruption may hide that the lock was taken
        try:
            over.acquire()
        except BaseException as error:  # what it waits in spite of
            interruptions.append(error)
    for raised in (*outcomes, *interruptions):
        if raised is not None:
            raise raised


def take_back(waiting: list[Any]) -> bool:
    """Whether work that waits for a thread was not begun yet; then it never is."""
    with suppress(IndexError):
        waiting.pop()
        return True
    return False
