"""User functions as nodes."""

from __future__ import annotations

from tawny.op import Op


class Delay(Op):
    """A user's function of NumPy arrays."""
