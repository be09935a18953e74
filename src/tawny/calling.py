"""Calls that Python cannot bind, answered with what the function takes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from tawny.errors import type_error

P = ParamSpec("P")
R = TypeVar("R")


Answer = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""What a call gives that Python could not bind; NotImplemented where it is wrong altogether."""


def guarded(function: Callable[P, R], answer: Answer | None = None) -> Callable[P, R]:
    """`function`, saying which arguments it takes when it is called with others.

    `answer` knows further arguments: it is asked after a call that Python could not bind, so that
    they cost nothing where they are not given.
    """
    name = function.__name__

    @functools.wraps(function)
    def boundary(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            misuse = error
        result = NotImplemented if answer is None else answer(function, args, kwargs)
        if result is NotImplemented:
            raise _misuse(boundary, name, args, kwargs, misuse)
        return cast("R", result)

    return boundary


def _misuse(
    function: Callable[..., Any],
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    error: TypeError,
) -> TypeError:
    """What was wrong with the arguments of a call that Python could not bind."""
    parameters = dict(inspect.signature(function).parameters)
    parameters.pop("self", None)
    unknown = [k for k in kwargs if k not in parameters]
    accepted = ", ".join(
        f"{p.name} (keyword only)" if p.kind is p.KEYWORD_ONLY else p.name
        for p in parameters.values()
    )
    if unknown:
        detail = f"unknown argument {unknown[0]!r}"
    else:
        detail = str(error).partition("() ")[2] or f"cannot take {len(args)} positional arguments"
    return type_error(name, f"{detail}; accepted: {accepted}")
