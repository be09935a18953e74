"""What code is made from, spelled out: the same text for the same code in every process.

Together with the generators' own source it stands for the IR they would write, so that code on disk
is found without writing it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tawny.op import ELEMENTWISE, Elementwise, Op


def spelled(thing: object) -> str:
    """Numbers, names, dtypes, ops, enums, and tuples and records of them, with all they hold.

    Raises TypeError where something else is met.
    """
    return (_SPELLINGS.get(type(thing)) or _spelling(type(thing)))(thing)


def _several(things: tuple[object, ...]) -> str:
    return f"({','.join([spelled(thing) for thing in things])})"


_SPELLINGS: Final[dict[type, Callable[[Any], str]]] = {
    int: repr,
    bool: repr,
    str: repr,
    float: float.hex,
    type(None): repr,
    tuple: _several,
}
"""How things are spelled, by their types; those of other types are added as they are met."""


def _spelling(kind: type[Any]) -> Callable[[Any], str]:
    found = _SPELLINGS[kind] = _of_kind(kind, f"{kind.__module__}.{kind.__qualname__}")
    return found


def _of_kind(kind: type[Any], name: str) -> Callable[[Any], str]:
    if issubclass(kind, np.dtype):
        return _of_dtype
    if issubclass(kind, enum.Enum):
        return lambda thing: f"{name}.{thing.name}"
    if issubclass(kind, Elementwise):
        return lambda thing: f"{name}:{_row(thing)}"
    if issubclass(kind, Op):
        return lambda thing: name + _several(tuple(thing.attributes().values()))
    if issubclass(kind, tuple):
        return lambda thing: name + _several(thing)
    if dataclasses.is_dataclass(kind):
        fields = _fields(kind)
        return lambda thing: name + _several(tuple([getattr(thing, f) for f in fields]))
    return _refused


def _of_dtype(dtype: np.dtype[Any]) -> str:
    return dtype.str


def _row(op: Elementwise) -> str:
    """The name of an op in the table."""
    called = op.facts().name
    if ELEMENTWISE.get(called) is not op:
        raise TypeError(f"{op!r} is not an op of the table")
    return called


def _refused(thing: object) -> str:
    kind = type(thing)
    raise TypeError(f"{thing!r} is {kind.__module__}.{kind.__qualname__}, which has no spelling")


def _fields(kind: type[Any]) -> tuple[str, ...]:
    """Names of what tells records of a kind apart."""
    return tuple([field.name for field in dataclasses.fields(kind) if field.compare])
