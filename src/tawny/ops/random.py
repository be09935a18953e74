"""Random draws and user functions."""

from __future__ import annotations

from tawny.op import Op


class Draw(Op):
    """A random op: what it gives depends on its seed, its stream and the number of the run."""
