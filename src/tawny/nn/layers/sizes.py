"""Sizes as layers take them, and layers of which there is a class for each number of axes."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, cast

from tawny.errors import type_error, value_error
from tawny.nn.module import Module
from tawny.ops.window import Pads, explicit_padding, fill_axes
from tawny.optim.arguments import as_real
from tawny.shape import as_int

Sizes = int | tuple[int, ...] | list[int]
"""A size for all spatial axes, or one for each."""


def as_size(value: Any, op: str, word: str) -> int:
    """A size, at least 1."""
    number = as_int(value, op, word)
    if number < 1:
        raise value_error(op, f"{word} is {number}; it must be at least 1")
    return number


def as_padding(value: Any, rank: int, op: str) -> str | Pads:
    """Padding: "same", "valid", a number for both sides of every axis, or pairs, one an axis."""
    accepted = (
        'accepted: "same", "valid", a number from 0, a number for each axis, '
        f"or {rank} pairs (before, after)"
    )
    if isinstance(value, str):
        if value.upper() not in ("SAME", "VALID"):
            raise value_error(op, f"padding is {value!r}; {accepted}")
        return value.upper()
    if isinstance(value, (tuple, list)):
        items = cast("list[Any]", value)
        if any(isinstance(item, (tuple, list)) for item in items):
            return explicit_padding(items, rank, op)
        numbers = [as_int(item, op, "padding") for item in items]
    elif isinstance(value, bool) or not hasattr(value, "__index__"):
        raise type_error(op, f"padding is {value!r}; {accepted}")
    else:
        numbers = [as_int(value, op, "padding")] * rank
    if len(numbers) != rank or min(numbers) < 0:
        raise value_error(op, f"padding is {value!r}; {accepted}")
    return tuple((n, n) for n in numbers)


def as_fraction(value: Any, op: str, word: str) -> float:
    """A number from 0 up to but not including 1."""
    number = as_real(value, op, word, "a number from 0 up to 1")
    if not 0 <= number < 1:
        raise value_error(op, f"{word} is {value!r}; it must be from 0 up to but not including 1")
    return number


class SpatialLayer(Module):
    """A layer over `rank` spatial axes of (batch, *spatial, channels).

    A class is documented by its own first line and the `details` of its family, into which
    `fill_axes` writes the name of the class and sizes for as many axes.
    """

    rank: ClassVar[int]
    details: ClassVar[str] = ""

    def __init_subclass__(cls, *, rank: int | None = None, **words: Any) -> None:
        super().__init_subclass__(**words)
        if rank is not None:
            cls.rank = rank
            said = fill_axes(inspect.cleandoc(cls.details), cls.__name__, rank)
            cls.__doc__ = f"{cls.__doc__}\n\n{said}" if said else cls.__doc__
