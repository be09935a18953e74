"""Slopes behind `where`: those of the branch not taken are zero and stay so.

What a rule of reverse mode multiplies a slope with may be infinite or NaN there.  See
`tawny.autodiff.slopes` for elementwise ops.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from tawny.array import Array
from tawny.operator import emit
from tawny.ops import elementwise as e
from tawny.ops.differentiation import quiet_multiply

_QUIET: Final = ContextVar("quiet", default=False)


@contextmanager
def quietly(masked: bool) -> Generator[None]:
    """Rules applied inside keep slopes of zero, if `masked`."""
    token = _QUIET.set(masked)
    try:
        yield
    finally:
        _QUIET.reset(token)


def times(slope: Array, factor: Array) -> Array:
    """A slope times a factor."""
    return emit(quiet_multiply, slope, factor) if _QUIET.get() else e.multiply(slope, factor)
