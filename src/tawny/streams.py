"""The seed of random arrays, and how many streams of it were taken."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from tawny.errors import value_error
from tawny.forking import fork_safe_lock
from tawny.settings import read_setting

MOST_SEED: Final = 2**64 - 1


class Streams:
    """A seed, that of `TAWNY_SEED` to begin with, and how many streams of it were taken."""

    def __init__(self, seed: int | None = None) -> None:
        self._lock = fork_safe_lock()
        self.restart(seed)

    def restart(self, seed: int | None) -> None:
        """Begin with the first stream of a seed; None is that of the environment."""
        with self._lock:
            self._seed = seed
            self._numbers = itertools.count()

    @property
    def seed(self) -> int:
        """The seed."""
        if self._seed is None:
            self._seed = seed_of_environment()
        return self._seed

    def take(self) -> tuple[int, int]:
        """The seed, and the number of its next stream."""
        with self._lock:
            return self.seed, next(self._numbers)


_STREAMS: Final = ContextVar("streams", default=Streams())  # noqa: B039  (shared on purpose)


def current_streams() -> Streams:
    """The streams that random arrays take here."""
    return _STREAMS.get()


def next_stream() -> tuple[int, int]:
    """The current seed, and the number of its next stream."""
    return current_streams().take()


@contextmanager
def own_streams(seed: int) -> Generator[None]:
    """Within the block random arrays take the streams of a seed, from the first on."""
    token = _STREAMS.set(Streams(seed))
    try:
        yield
    finally:
        _STREAMS.reset(token)


def seed_of_environment() -> int:
    """`TAWNY_SEED`, or 0."""
    named = read_setting("TAWNY_SEED") or "0"
    if not named.isdecimal() or int(named) > MOST_SEED:
        raise value_error("TAWNY_SEED", f"{named!r} is no seed: an integer from 0 to 2**64 - 1")
    return int(named)
