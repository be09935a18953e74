"""Nested structures of tuples, named tuples, lists, dicts and dataclasses; the rest are leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, cast

import numpy as np


def map_leaves(function: Callable[[Any], Any], structure: Any) -> Any:
    """The structure with `function` applied to each leaf, in order."""
    if isinstance(structure, (tuple, list)):
        items = [map_leaves(function, item) for item in cast("list[Any]", structure)]
        kind = type(cast("object", structure))
        return kind(*items) if hasattr(kind, "_fields") else kind(items)  # type: ignore[call-arg]
    if isinstance(structure, dict):
        entries = cast("list[tuple[Any, Any]]", structure.items())
        return {key: map_leaves(function, item) for key, item in entries}
    if _is_dataclass(structure):
        fields = {name: map_leaves(function, item) for name, item in _fields(structure)}
        return dataclasses.replace(structure, **fields)
    return function(structure)


def items_of(value: Any) -> tuple[Any, ...]:
    """The items of a tuple; anything else alone."""
    return tuple(cast("Any", value)) if isinstance(value, tuple) else (value,)


def map_together(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """`first` with `function` applied to each leaf and to those at its place in `others`."""
    rows = iter(list(zip(*map(leaves, (first, *others)), strict=True)))
    return map_leaves(lambda _: function(*next(rows)), first)


def unflatten(structure: Any, values: Iterable[Any]) -> Any:
    """`values`, in order, in place of the leaves of a structure."""
    given = iter(list(values))
    return map_leaves(lambda _: next(given), structure)


def leaves(structure: Any) -> list[Any]:
    """The leaves of a structure, in order."""
    if isinstance(structure, (tuple, list)):
        return [leaf for item in cast("list[Any]", structure) for leaf in leaves(item)]
    if isinstance(structure, dict):
        items = cast("list[Any]", structure.values())
        return [leaf for item in items for leaf in leaves(item)]
    if _is_dataclass(structure):
        return [leaf for _, item in _fields(structure) for leaf in leaves(item)]
    return [structure]


def structure_key(structure: Any, found: list[Any]) -> Hashable:
    """What structures that differ in their leaves alone share; `found` takes the leaves."""
    kind = type(cast("object", structure))
    if kind is np.ndarray:
        found.append(structure)
        return None
    if isinstance(structure, (tuple, list)):
        items = [structure_key(item, found) for item in cast("list[Any]", structure)]
        return kind, *items
    if isinstance(structure, dict):
        entries = cast("list[tuple[Any, Any]]", structure.items())
        parts = [(key, type(cast("object", key)), structure_key(x, found)) for key, x in entries]
        return kind, *parts
    if _is_dataclass(structure):
        return kind, *[(n, structure_key(item, found)) for n, item in _fields(structure)]
    found.append(structure)
    return None


def leaf_paths(structure: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with the path that leads to it: `params.layers.0.weight`."""
    parts = _parts(structure)
    if parts is None:
        yield prefix, structure
        return
    for key, item in parts:
        yield from leaf_paths(item, f"{prefix}.{key}" if prefix else str(key))


def spread(prefix: Any, structure: Any, path: str = "") -> list[Any]:
    """For each leaf of a structure what stands at its place, or above, in a structure like it.

    Raises ValueError that says where they differ.
    """
    ours = _parts(prefix)
    if ours is None:
        return [prefix] * len(leaves(structure))
    theirs = _parts(structure)
    where = f" at {path}" if path else ""
    if theirs is None or isinstance(prefix, dict) != isinstance(structure, dict):
        raise ValueError(f"{type(prefix).__name__} stands{where} for {type(structure).__name__}")
    values = dict(ours)
    keys = [key for key, _ in theirs]
    if values.keys() != set(keys):
        raise ValueError(f"it has {list(values)}{where}, where there are {keys}")
    below = [(values[k], x, f"{path}.{k}" if path else str(k)) for k, x in theirs]
    return [leaf for given, item, place in below for leaf in spread(given, item, place)]


def _parts(structure: Any) -> list[tuple[Any, Any]] | None:
    """What a structure is made of, by position, key or field; None of a leaf."""
    if isinstance(structure, (tuple, list)):
        return list(enumerate(cast("list[Any]", structure)))
    if isinstance(structure, dict):
        return list(cast("list[tuple[Any, Any]]", structure.items()))
    return list(_fields(structure)) if _is_dataclass(structure) else None


def _is_dataclass(x: Any) -> bool:
    return dataclasses.is_dataclass(x) and not isinstance(x, type)


def _fields(x: Any) -> Iterator[tuple[str, Any]]:
    for f in dataclasses.fields(x):
        if f.init:
            yield f.name, getattr(x, f.name)
