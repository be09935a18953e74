"""Numbers in the fields of rules: Python's own, which widen no array that they meet."""

from __future__ import annotations

import math
from numbers import Real

from tawny.errors import type_error, value_error


def check_number(rule: object, word: str) -> float:
    """Let a field be a Python number, from one of NumPy's too; refuse anything else."""
    given: object = getattr(rule, word)
    if isinstance(given, bool) or not isinstance(given, Real):
        raise type_error(type(rule).__name__, f"{word} is {given!r}; accepted: a number")
    number = float(given)
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


def check_share(rule: object, *words: str) -> None:
    """Let fields be shares of a whole: from 0 up to but not including 1."""
    check_not_negative(rule, *words)
    for word in words:
        number: float = getattr(rule, word)
        if number >= 1:
            raise value_error(type(rule).__name__, f"{word} is {number}; it must be less than 1")
