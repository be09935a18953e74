"""How many threads take part in a step: those for whom there is enough to do, alike for all."""

from __future__ import annotations

import math
from typing import Final

from tawny.engine.cpu.threads.pool_code import MOST_THREADS

SHARE_SECONDS: Final = 10e-6
"""A thread is woken for no less than this, as far as is estimated."""


def useful_threads(seconds: float) -> int:
    """How many threads have enough to do in a step that takes one thread `seconds`."""
    return max(2, min(math.ceil(seconds / SHARE_SECONDS), MOST_THREADS))


def even_threads(useful: int, threads: int) -> int:
    """How many of `threads` take part in work that is cut for all of them, if `useful` would do.

    Each does as many of their shares: 14 of 16 would take as long as 8, some of them two shares and
    others one.  Of the numbers around the one that is useful the nearer one is taken, by ratio.
    """
    if useful >= threads:
        return useful
    fewer = threads // useful
    more = fewer + 1
    shares = fewer if (threads / useful) ** 2 < fewer * more else more
    return math.ceil(threads / shares)
