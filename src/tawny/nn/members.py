"""What a module is made of: declarations and modules, by name and in lists, tuples and dicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Self, cast

from tawny.array import Array, wrap
from tawny.bad_calls import check_words
from tawny.nn.parameters import BINDING, Declaration, Key, Path

Member = Any
"""A declaration, a module, or a list, tuple or dict that holds some."""


class Holder:
    """Something with members: a module, before it can compute anything."""

    _members: dict[Key, Member]
    _mark: object

    def __new__(cls, *_: Any, **named: Any) -> Self:
        """One without members, whether or not its `__init__` calls that of `Module`."""
        check_words(cls, named.keys())
        self = super().__new__(cls)
        self.__dict__["_members"] = {}
        self.__dict__["_mark"] = object()
        return self


def members_in(value: Any, path: Path) -> Iterator[tuple[Path, Holder | Declaration]]:
    """The modules and declarations in a list, tuple or dict, however deep."""
    if isinstance(value, (Holder, Declaration)):
        yield path, value
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from members_in(item, (*path, index))
    elif isinstance(value, dict):
        for key, item in cast("Mapping[Any, Any]", value).items():
            yield from members_in(item, (*path, key))


def holds_members(value: Any) -> bool:
    """Whether there are members in a value."""
    return next(members_in(value, ()), None) is not None


def may_hold_members(value: Any) -> bool:
    """Whether there are members in a value, or can be once its empty lists and dicts are filled."""
    if isinstance(value, (Holder, Declaration)):
        return True
    if isinstance(value, dict):
        items = list(cast("Mapping[Any, Any]", value).values())
    elif isinstance(value, (list, tuple)):
        items = list(cast("list[Any]", value))
    else:
        return False
    return any(map(may_hold_members, items)) or not (items or isinstance(value, tuple))


def values_in(member: Any) -> Any:
    """A member with arrays for its declarations.

    Lists and dicts become such that cannot be changed: what is put in would not be found.
    """
    if isinstance(member, Declaration):
        return _read(member)
    if isinstance(member, dict):
        items = cast("Mapping[Any, Any]", member).items()
        return MappingProxyType({key: values_in(item) for key, item in items})
    if isinstance(member, (list, tuple)):
        values = [values_in(item) for item in cast("list[Any]", member)]
        kind: Any = type(cast("object", member))
        return kind(*values) if hasattr(kind, "_fields") else tuple(values)
    return member


def _read(declaration: Declaration) -> Array:
    """The array bound to a declaration, else its current value."""
    binding = BINDING.get()
    return wrap(declaration.node) if binding is None else binding.read(declaration)


def walk_members(holder: Holder) -> Iterator[tuple[Path, Holder | Declaration]]:
    """The holder and all in it: each once, with the path of its first place."""
    yield from _walk(holder, (), set())


def _walk(
    holder: Holder, path: Path, seen: set[Holder | Declaration]
) -> Iterator[tuple[Path, Holder | Declaration]]:
    seen.add(holder)
    yield path, holder
    for key, value in holder._members.items():  # pyright: ignore[reportPrivateUsage]
        for place, member in members_in(value, (*path, key)):
            if member in seen:
                continue
            if isinstance(member, Holder):
                yield from _walk(member, place, seen)
            else:
                seen.add(member)
                yield place, member


def assign_paths(holder: Holder) -> None:
    """Let declarations that had no place, or had one in a part of `holder`, have one in it.

    A declaration keeps the place it has first in the outermost model, which its draw depends on.
    """
    mark = holder._mark  # pyright: ignore[reportPrivateUsage]
    parts: set[int] = set()
    for path, member in walk_members(holder):
        if isinstance(member, Holder):
            parts.add(id(member._mark))  # pyright: ignore[reportPrivateUsage]
        elif member.root is None or (member.root is not mark and id(member.root) in parts):
            member.root, member.path = mark, path
