"""Layers over spatial axes, channels last: a class for each number of axes."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Final

from tawny.nn.module import Module

AXES: Final = {1: "n", 2: "rows, columns", 3: "planes, rows, columns"}
"""What the axes are called in documentation, by their number."""


class SpatialLayer(Module):
    """A layer over `rank` spatial axes of (batch, *spatial, channels).

    A class is documented by its own first line and the `details` of its family, where `{name}`,
    `{rank}` and `{axes}` stand for its own, and `{x4}` for a size of 4 on each axis.
    """

    rank: ClassVar[int]
    details: ClassVar[str] = ""

    def __init_subclass__(cls, *, rank: int | None = None, **words: Any) -> None:
        super().__init_subclass__(**words)
        if rank is not None:
            cls.rank = rank
            fours = {f"x{n}": ", ".join([str(n)] * rank) for n in (2, 4, 8)}
            details = inspect.cleandoc(cls.details)
            said = details.format(name=cls.__name__, rank=rank, axes=AXES[rank], **fours)
            cls.__doc__ = f"{cls.__doc__}\n\n{said}" if said else cls.__doc__
