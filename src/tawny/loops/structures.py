"""Nested structures of what functions in loops take and give; None has no leaves there."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final, cast

from tawny import dtype as dt
from tawny.array import Array, lift, wrap
from tawny.errors import type_error
from tawny.node import Node
from tawny.tree import leaf_paths, map_leaves, structure_key


def paths_and_leaves(structure: Any) -> list[tuple[str, Any]]:
    """Every leaf but None, with the path that leads to it."""
    return [(path, x) for path, x in leaf_paths(structure) if x is not None]


def fill(structure: Any, values: Iterable[Node]) -> Any:
    """The structure with nodes in place of leaves, as arrays."""
    given = iter(values)
    return map_leaves(lambda x: None if x is None else wrap(next(given)), structure)


def key_of(structure: Any) -> Hashable:
    """What structures that differ in the values of their leaves alone share."""
    found: list[Any] = []
    key = structure_key(structure, found)
    return key, tuple([x is None for x in found])


def lift_leaves(op: str, what: str, structure: Any) -> list[Node]:
    """The leaves as nodes."""
    return [_lift_leaf(op, what, path, x) for path, x in paths_and_leaves(structure)]


def _lift_leaf(op: str, what: str, path: str, x: Any) -> Node:
    try:
        return lift(x, op)
    except TypeError as error:
        where = f"{what}, {path}," if path else what
        raise type_error(
            op, f"{where} is {type(x).__name__}; accepted: arrays and numbers"
        ) from error


def is_number(x: Any) -> bool:
    """Whether a leaf is a Python number, whose dtype is that of what it meets."""
    return not isinstance(x, Array) and dt.is_weak(x)


def in_order_of(structure: Any, like: Any) -> Any:
    """A structure whose dicts have their items in the order of those at the same place of another.

    Where the two differ otherwise it stays as it is.
    """
    if isinstance(structure, dict) and isinstance(like, dict):
        own = dict(cast("list[tuple[Any, Any]]", structure.items()))
        items = cast("list[tuple[Any, Any]]", like.items())
        return {k: in_order_of(own[k], x) for k, x in items} if own.keys() == like.keys() else own
    if isinstance(structure, (tuple, list)) and isinstance(like, (tuple, list)):
        ours, theirs = cast("list[Any]", structure), cast("list[Any]", like)
        kind = type(cast("object", structure))
        made = [in_order_of(x, y) for x, y in zip(ours, theirs, strict=False)]
        made += ours[len(made) :]
        return kind(*made) if hasattr(kind, "_fields") else kind(made)  # type: ignore[call-arg]
    return cast("Any", structure)


def structure_text(structure: Any) -> str:
    """A structure in words, with a dot for each leaf."""
    if structure is None:
        return "None"
    marked = map_leaves(lambda x: None if x is None else _MARK, structure)
    return "an array" if marked is _MARK else repr(marked)


class _LeafMark:
    def __repr__(self) -> str:
        return "."


_MARK: Final = _LeafMark()
