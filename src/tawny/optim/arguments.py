"""Numbers in the fields of rules: Python's own, which widen no array that they meet."""

from __future__ import annotations

import math
from numbers import Real

from tawny.errors import type_error, value_error
from tawny.shape import as_int


def as_real(value: object, op: str, word: str, accepted: str = "a number") -> float:
    """A real number, from one of NumPy's too."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise type_error(op, f"{word} is {value!r}; accepted: {accepted}")
    return float(value)


def as_nonnegative(value: object, op: str, word: str) -> float:
    """A finite number from 0."""
    number = as_real(value, op, word, "a number from 0")
    if not 0 <= number < math.inf:
        raise value_error(op, f"{word} is {value!r}; it must be from 0")
    return number


def check_number(rule: object, word: str) -> float:
    """Let a field be a Python number, from one of NumPy's too; refuse anything else."""
    number = as_real(getattr(rule, word), type(rule).__name__, word)
    object.__setattr__(rule, word, number)
    return number


def check_not_negative(rule: object, *words: str) -> None:
    """Let fields be finite numbers of at least 0."""
    for word in words:
        number = check_number(rule, word)
        if not 0 <= number < math.inf:
            raise value_error(
                type(rule).__name__, f"{word} is {number}; it must be a number of at least 0"
            )


def check_fraction(rule: object, *words: str) -> None:
    """Let fields be shares of a whole: from 0 up to but not including 1."""
    check_not_negative(rule, *words)
    for word in words:
        number: float = getattr(rule, word)
        if number >= 1:
            raise value_error(type(rule).__name__, f"{word} is {number}; it must be less than 1")


def check_count(rule: object, *words: str) -> None:
    """Let fields be whole numbers of at least 1."""
    for word in words:
        number = as_int(getattr(rule, word), type(rule).__name__, word)
        if number < 1:
            raise value_error(type(rule).__name__, f"{word} is {number}; it must be at least 1")
        object.__setattr__(rule, word, number)
