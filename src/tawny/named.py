"""Named tuples as `typing.NamedTuple` makes them, but made when they are first used.

`typing` checks every annotation and compiles a constructor for every class as it is declared, which
takes longer than the rest of importing a small module.  Here classes share their methods; only the
constructor is made, with the first instance.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, cast

from tawny.constructing import constructor

__all__ = ["NamedTuple", "Row"]

_NEW: Final = cast("Any", tuple).__new__


class Row(tuple[Any, ...]):
    """What all named tuples have."""

    __slots__ = ()
    _fields: tuple[str, ...]
    _field_defaults: Mapping[str, Any]

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Any:
        made = _NEW(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, **named: Any) -> Any:
        made = self._make([named.pop(n, old) for n, old in zip(self._fields, self, strict=True)])
        if named:
            raise ValueError(f"Got unexpected field names: {list(named)!r}")
        return made

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        values = ", ".join([f"{n}={v!r}" for n, v in self._asdict().items()])
        return f"{type(self).__name__}({values})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


class Declared(type):
    """Makes a class of rows from a declaration, which is then a class like any other."""

    def __new__(cls, name: str, _: tuple[Any, ...], contents: dict[str, Any]) -> Any:
        """The class; the names of its values are those that have annotations."""
        names = tuple(contents.get("__annotations__", ()))
        added: dict[str, Any] = {
            "__slots__": (),
            "__match_args__": names,
            "__new__": _first_new,
            "_fields": names,
            "_field_defaults": {n: contents[n] for n in names if n in contents},
        }
        added |= {n: _attribute(number, "") for number, n in enumerate(names)}
        return type(name, (Row,), {**contents, **added})


def _first_new(cls: Any, *values: Any, **named: Any) -> Any:
    """Make the constructor of the class that has this one, and call it."""
    owner = next((c for c in cls.__mro__ if _constructor(c) is _first_new), None)
    if owner is None:  # another thread has made it meanwhile
        return cls.__new__(cls, *values, **named)
    scope = {"_new": _NEW, "__name__": owner.__module__}
    compiled = constructor(_text, owner._fields, scope, [*owner._field_defaults.values()])
    compiled.__qualname__ = f"{owner.__name__}.__new__"
    owner.__new__ = compiled
    return compiled(cls, *values, **named)


def _text(names: Iterable[str]) -> str:
    """The constructor of tuples with these names."""
    listed = "".join([f"{name}, " for name in names])
    return f"def __new__(_cls, {listed}): return _new(_cls, ({listed}))"


def _constructor(cls: Any) -> Any:
    return getattr(cls.__dict__.get("__new__"), "__func__", None)


def _plain_attribute(number: int, doc: str) -> Any:
    """What reads a value of a tuple."""
    return property(itemgetter(number), doc=doc)


_attribute: Callable[[int, str], Any]
try:
    _attribute = importlib.import_module("_collections")._tuplegetter
except (ImportError, AttributeError):  # not CPython, which has a faster one
    _attribute = _plain_attribute


class Declaring:
    """In the place of a base, it has the class made from the declaration."""

    def __mro_entries__(self, _: tuple[Any, ...]) -> tuple[Any, ...]:
        """The base that stands for it."""
        return (_BASE,)


_BASE: Final = type.__new__(Declared, "NamedTuple", (), {})

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    NamedTuple = Declaring()
