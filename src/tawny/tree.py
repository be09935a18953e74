"""Nested structures of tuples, named tuples, lists and dicts; everything else is a leaf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast


def map_leaves(function: Callable[[Any], Any], structure: Any) -> Any:
    """The structure with `function` applied to each leaf, in order."""
    if isinstance(structure, (tuple, list)):
        items = [map_leaves(function, item) for item in cast("list[Any]", structure)]
        kind = type(cast("object", structure))
        return kind(*items) if hasattr(kind, "_fields") else kind(items)  # type: ignore[call-arg]
    if isinstance(structure, dict):
        entries = cast("list[tuple[Any, Any]]", structure.items())
        return {key: map_leaves(function, item) for key, item in entries}
    return function(structure)


def leaves(structure: Any) -> list[Any]:
    """The leaves of a structure, in order."""
    out: list[Any] = []
    map_leaves(out.append, structure)
    return out
