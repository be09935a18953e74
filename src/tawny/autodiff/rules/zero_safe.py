"""Zero-safe arithmetic for rules: cotangents behind the branch that `where` did not take stay zero.

What a rule of reverse mode multiplies a cotangent with may be infinite or NaN there.  See
`tawny.autodiff.elementwise_rules` for elementwise ops.
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

_ZERO_SAFE: Final = ContextVar("quiet", default=False)


@contextmanager
def keep_zeros(masked: bool) -> Generator[None]:
    """Rules applied inside keep cotangents of zero, if `masked`."""
    token = _ZERO_SAFE.set(masked)
    try:
        yield
    finally:
        _ZERO_SAFE.reset(token)


def scale_cotangent(cotangent: Array, factor: Array) -> Array:
    """A cotangent times a factor."""
    return (
        emit(quiet_multiply, cotangent, factor)
        if _ZERO_SAFE.get()
        else e.multiply(cotangent, factor)
    )
