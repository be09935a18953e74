"""What integers may be in an attribute of an op: said where the attribute is declared.

    class Repeat(Op, name="repeat"):
        repeats: Natural
        widths: Annotated[tuple[int, ...], Bounds(1)]

Functions give ops attributes that fit; what a file says is held against this.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple, get_type_hints

from tawny.shape import Shape

WORD: Final = 2**63 - 1
"""The bound of integers in attributes of which nothing is said."""


class Bounds(NamedTuple):
    """The bounds of all integers in an attribute: `least` or more, and less than `below`.

    None where no machine word has to hold them.
    """

    least: int | None = -WORD
    below: int | None = WORD


Natural = Annotated[int, Bounds(0)]
Positive = Annotated[int, Bounds(1)]
AnyShape = Annotated[Shape, Bounds(0, None)]
"""A shape, of which inference says whether an array can have it."""


_BOUNDS: Final[dict[type, dict[str, Bounds]]] = {}


def integer_bounds(cls: type) -> dict[str, Bounds]:
    """The bounds that a class declares for its attributes, worked out once."""
    known = _BOUNDS.get(cls)
    if known is None:
        hints = get_type_hints(cls, include_extras=True)
        known = _BOUNDS[cls] = {
            name: found
            for name, kind in hints.items()
            for found in getattr(kind, "__metadata__", ())
            if isinstance(found, Bounds)
        }
    return known
