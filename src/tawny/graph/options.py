"""How a graph is compiled: the options of `Graph.compile`, checked, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from tawny.array import Array
from tawny.errors import type_error, value_error
from tawny.graph.plan_choice import Planning
from tawny.shape import as_int

MAX_THREADS: Final = 1024
"""More threads are refused: starting them takes longer than they could save."""


class CompileOptions(NamedTuple):
    """The options of `Graph.compile`, by the names of its arguments."""

    engine: str = "cpu"
    memory: str | float | None = None
    often: tuple[str, ...] = ()
    """Names of variables."""
    optimise: bool = True
    assume_finite: bool = False
    incremental: bool = True
    threads: int | None = None
    plan: Planning = "default"
    disable: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()
    precision: str | None = None


Variables = Array | str | Iterable[Array | str]
"""Variables, or the names of some; one alone may be given as it is."""


def list_variables(given: Variables) -> list[Array | str]:
    """The variables that a user calls often changed, as a list."""
    if isinstance(given, (Array, str)):
        return [given]
    if not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise type_error(
            "compile", f"often is {type(given).__name__}; accepted: variables, or their names"
        )
    return list(given)


def check_threads(op: str, threads: int | None) -> None:
    """Refuse a number of threads that no program is run on."""
    if threads is None:
        return
    if as_int(threads, op, "threads") < 1:
        raise value_error(op, f"threads is {threads}; it must be at least 1")
    if threads > MAX_THREADS:
        raise value_error(op, f"threads is {threads}; it must be at most {MAX_THREADS}")


def check_flags(op: str, **flags: object) -> None:
    """Refuse whatever is no truth value: a string is always true."""
    for word, flag in flags.items():
        if not isinstance(flag, (bool, np.bool_)):
            raise type_error(op, f"{word} is {flag!r}; accepted: True, False")


def rule_names(given: Iterable[str]) -> tuple[str, ...]:
    """Names of rules; one alone may be given as it is."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise type_error(
            "optimise", f"rules are named by {type(given).__name__}; accepted: a list of names"
        )
    return tuple(given)
