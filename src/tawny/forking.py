"""Locks and work across forks: a forked process has one thread, and the memory as it was.

A lock that another thread held would never be released there: `fork_safe_lock` makes locks that a
forked process finds free.  Work that cannot be cut in two, since others do it for us and keep locks
of their own, is done inside a `ForkBarrier`: a fork waits for its end.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final, TypeVar, final

T = TypeVar("T")

Lock = Any
"""A `threading.RLock`, whose type Python does not name."""

PATIENCE: Final = 10.0
"""Seconds that a fork waits at most, and others for it: longer than any kernel takes to compile."""

_LOCKS: Final[weakref.WeakKeyDictionary[Lock, Callable[[], None]]] = weakref.WeakKeyDictionary()
"""The locks, and what to call for each that was left."""


def fork_safe_lock(owner: T | None = None, recover: Callable[[T], None] | None = None) -> Lock:
    """A reentrant lock that is free in a forked process, unless the thread that forked holds it.

    If another thread held it, `recover` is called with the owner there: what the lock guards may be
    half done.  The lock does not keep the owner alive.
    """
    made = threading.RLock()
    # Not a `WeakMethod`, which complains of objects that Python's end finds alive.
    reference = None if owner is None else weakref.ref(owner)

    def left() -> None:
        alive = None if reference is None else reference()
        if alive is not None and recover is not None:
            recover(alive)

    _LOCKS[made] = left
    return made


def _free_locks() -> None:
    """Free the locks of threads that this process does not have."""
    for each, left in list(_LOCKS.items()):
        if each.acquire(blocking=False):
            each.release()
            continue
        each._at_fork_reinit()
        left()


@final
class ForkBarrier:
    """Work that a fork waits for; threads may be at it at the same time.

    Whoever is at it may begin more of it at any time; others let a fork that waits go first.
    """

    def __init__(self) -> None:
        self._change = threading.Condition(fork_safe_lock())
        self._inside = 0
        self._forks = 0
        self._guards: list[AbstractContextManager[object]] = []
        self._held = ExitStack()
        self._own = _Depth()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork,
                after_in_parent=self._after_fork_in_parent,
                after_in_child=self._after_fork_in_child,
            )

    def guard(self, lock: AbstractContextManager[object]) -> None:
        """Let a fork hold a lock of others too, when nobody is at the work."""
        self._guards.append(lock)

    def __enter__(self) -> None:
        if not self._own.depth:
            with self._change:
                self._change.wait_for(lambda: not self._forks, PATIENCE)
                self._inside += 1
        self._own.depth += 1

    def __exit__(self, *error: object) -> None:
        self._own.depth -= 1
        if not self._own.depth:
            with self._change:
                self._inside -= 1
                self._change.notify_all()

    def _before_fork(self) -> None:
        """Until only the thread that forks may be inside; nobody else enters then."""
        self._change.acquire()
        self._forks += 1
        if self._change.wait_for(lambda: self._inside == bool(self._own.depth), PATIENCE):
            for each in self._guards:
                self._held.enter_context(each)

    def _after_fork_in_parent(self) -> None:
        self._forks -= 1
        self._held.close()
        self._change.notify_all()
        self._change.release()

    def _after_fork_in_child(self) -> None:
        self._inside, self._forks = int(bool(self._own.depth)), 0
        self._held.close()
        self._change.release()


class _Depth(threading.local):
    """For each thread, how often it has entered."""

    depth = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_locks)
