"""What code is made from, spelled out: the same text for the same code in every process.

Together with the generators' own source it stands for the IR they would write, so that code on disk
is found without writing it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from functools import cache
from typing import Any, Final, cast

import numpy as np

from tawny.op import ELEMENTWISE, Elementwise, Op


def spelled(thing: object) -> str:
    """Numbers, names, dtypes, ops, enums, and tuples and records of them, with all they hold.

    Raises TypeError where something else is met.
    """
    return _SPELLINGS.get(type(thing), _other)(thing)


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


def _other(thing: object) -> str:
    kind = type(thing)
    if isinstance(thing, np.dtype):
        return thing.str
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(thing, enum.Enum):
        return f"{name}.{thing.name}"
    if isinstance(thing, Elementwise):
        called = thing.facts().name
        if ELEMENTWISE.get(called) is not thing:
            raise TypeError(f"{thing!r} is not an op of the table")
        return f"{name}:{called}"
    if isinstance(thing, Op):
        return name + _several(tuple(thing.attributes().values()))
    if isinstance(thing, tuple):
        return name + _several(cast("tuple[object, ...]", thing))
    if dataclasses.is_dataclass(thing):
        return name + _several(tuple([getattr(thing, f) for f in _fields(cast("Any", kind))]))
    raise TypeError(f"{thing!r} is {name}, which has no spelling")


@cache
def _fields(kind: type[Any]) -> tuple[str, ...]:
    """Names of what tells records of a kind apart."""
    return tuple([field.name for field in dataclasses.fields(kind) if field.compare])
