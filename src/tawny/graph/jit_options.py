"""The options of `jit`: which arguments stay Python values, and how programs are compiled."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping
from operator import index
from typing import Any, Final

from tawny.errors import type_error, value_error
from tawny.graph.graph import Graph

Static = str | int | Iterable[str | int]
"""Names and positions of arguments."""

WITHOUT_EFFECT: Final = frozenset({"donate_argnums", "donate_argnames", "keep_unused", "inline"})
"""Options of other libraries that never change a result, and say nothing here."""

UNSUPPORTED: Final = {
    "backend": "engine= says what runs the program",
    "device": "engine= says what runs the program",
    "in_shardings": "arrays are not spread over devices",
    "out_shardings": "arrays are not spread over devices",
    "abstracted_axes": "each shape has a program of its own",
}
"""Options of other libraries that ask for something else than a program of this one does."""


def positional_names(signature: inspect.Signature) -> list[str | None]:
    """The names of the arguments that may be given by position; None where they have to be."""
    kinds = inspect.Parameter
    names = {kinds.POSITIONAL_ONLY: False, kinds.POSITIONAL_OR_KEYWORD: True}
    parameters = signature.parameters.values()
    return [p.name if names[p.kind] else None for p in parameters if p.kind in names]


def static_places(
    signature: inspect.Signature, static: Iterable[int | str]
) -> frozenset[int | str]:
    """Positions and names of the arguments that are part of the program."""
    kinds = inspect.Parameter
    parameters = signature.parameters
    listed = [p.name for p in parameters.values() if p.kind not in _VARIADIC]
    gathers = {p.kind for p in parameters.values()} & _VARIADIC
    places: set[int | str] = set()
    for given in static:
        if isinstance(given, str):
            if given not in listed and kinds.VAR_KEYWORD not in gathers:
                accepted = ", ".join(parameters)
                raise value_error("jit", f"static argument {given!r} is not among: {accepted}")
            places.add(given)
            if given in listed and parameters[given].kind is not kinds.KEYWORD_ONLY:
                places.add(listed.index(given))
            continue
        position = index(given)
        if kinds.VAR_POSITIONAL not in gathers and not -len(listed) <= position < len(listed):
            raise value_error(
                "jit", f"static argument {position} is not among {len(listed)} arguments"
            )
        if position < 0:
            position += len(listed)
        places.add(position)
        if position < len(listed):
            places.add(listed[position])
    return frozenset(places)


_VARIADIC: Final = frozenset({inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD})
"""Parameters that stand for any number of arguments."""


def static_list(given: Static | None) -> list[str | int]:
    """Names and positions; one alone may be given as it is."""
    if given is None:
        return []
    listed = [given] if isinstance(given, (str, int)) else list(given)
    for x in listed:
        if not isinstance(x, (str, int)) or isinstance(x, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise type_error("jit", f"static names arguments, or gives positions; {x!r} is neither")
    return listed


@functools.cache
def _option_names() -> tuple[str, ...]:
    """The options of compiling."""
    return tuple(inspect.signature(Graph.compile).parameters)[1:]


def compile_options(options: Mapping[str, Any], op: str = "jit") -> dict[str, Any]:
    """The options for compiling, of what is called `op`."""
    for name in options:
        if name in UNSUPPORTED:
            raise type_error(op, f"{name} is no option here: {UNSUPPORTED[name]}")
        if name not in WITHOUT_EFFECT and name not in _option_names():
            own = ("static",) if op == "jit" else ()
            listed = ", ".join((*own, *_option_names()))
            raise type_error(op, f"unknown option {name!r}; accepted: {listed}")
    return {k: v for k, v in options.items() if k not in WITHOUT_EFFECT}
