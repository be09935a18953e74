"""Records: classes of named values as `dataclasses` makes them, but made when they are first used.

`dataclass` writes and compiles up to six methods for every class as it is declared, which is half
of the time that importing many small classes takes.  Here they share their methods; only `__init__`
is made, with the first instance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter, Signature, get_annotations
from operator import attrgetter
from types import FunctionType
from typing import Any, Final, TypeVar, cast, dataclass_transform, overload

from tawny.constructing import constructor

T = TypeVar("T")


@overload
def record(cls: type[T], /) -> type[T]: ...


@overload
def record(
    *,
    frozen: bool = True,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,
    weakref_slot: bool = False,
) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(
    cls: type[T] | None = None,
    /,
    *,
    frozen: bool = True,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,
    weakref_slot: bool = False,
) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a record of a class, as `dataclasses.dataclass` with the same arguments.

    The values of records cannot be set anew unless told otherwise.
    """

    def made(cls: type[T]) -> type[T]:
        return _made(cls, frozen, slots, eq, repr, weakref_slot)

    return made if cls is None else made(cls)


_LASTING: Final = ("ClassVar", "typing.ClassVar")
"""How annotations of what belongs to the class begin."""


def _made(
    cls: type[T], frozen: bool, slots: bool, eq: bool, repr: bool, weakref_slot: bool
) -> type[T]:
    own = {n: k for n, k in get_annotations(cls).items() if not str(k).startswith(_LASTING)}
    defaults = {n: cls.__dict__[n] for n in own if n in cls.__dict__}
    for name, default in defaults.items():
        _check_plain(name, default)
    before = [b.__dict__["__record__"] for b in cls.__mro__[:0:-1] if "__record__" in b.__dict__]
    facts = _Facts(own, defaults, before, frozen)
    added: dict[str, Any] = {
        "__record__": facts,
        "__dataclass_fields__": _Fields(),
        "__match_args__": facts.names,
    }
    methods: dict[str, Any] = {}
    if repr:
        methods["__repr__"] = _repr
    if eq:
        methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if frozen:
        methods |= {"__setattr__": _refused, "__delattr__": _refused}
    if slots:
        methods |= {"__getstate__": _state, "__setstate__": _restored}
    added |= {name: method for name, method in methods.items() if name not in cls.__dict__}
    if "__init__" not in cls.__dict__:
        added |= {"__init__": _first_init, "__signature__": _Signature()}
    if slots:
        return _with_slots(cls, [*own, *["__weakref__"] * weakref_slot], added)
    for name, value in facts.defaults.items():
        if _is_field(value):
            delattr(cls, name)
    for name, value in added.items():
        setattr(cls, name, value)
    return cls


def _with_slots(cls: type[T], slots: list[str], added: dict[str, Any]) -> type[T]:
    """The class made again, with a place for each value and for nothing else."""
    contents = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in slots and name not in {"__dict__", "__weakref__"}
    }
    inherited = {name for base in cls.__mro__[1:] for name in _slots_of(base)}
    contents["__slots__"] = tuple([name for name in slots if name not in inherited])
    again: type[T] = cast("Any", type(cls))(cls.__name__, cls.__bases__, {**contents, **added})
    again.__qualname__ = cls.__qualname__
    return again


def _slots_of(base: type) -> Iterable[str]:
    given: str | Iterable[str] = base.__dict__.get("__slots__", ())
    return (given,) if isinstance(given, str) else given


class _Facts:
    """What is known of a record: its values by name, those of its bases first."""

    def __init__(
        self,
        own: dict[str, Any],
        defaults: dict[str, Any],
        before: list[_Facts],
        frozen: bool,
    ) -> None:
        self.kinds: dict[str, Any] = {}
        self.defaults: dict[str, Any] = {}
        for facts in before:
            self.kinds |= facts.kinds
            self.defaults |= facts.defaults
        self.kinds |= own
        self.defaults |= defaults
        self.names = tuple(self.kinds)
        self.frozen = frozen
        self.values = _values_of(self.names)
        """A tuple of the values of a record."""


def _values_of(names: tuple[str, ...]) -> Callable[[object], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple([getattr(record, name) for name in names])


class _Fields:
    """What `dataclasses` asks a class for: its fields, worked out by `dataclasses` when asked."""

    def __get__(self, instance: object, cls: type[Any]) -> dict[str, Any]:
        facts: _Facts = cls.__record__
        named = [
            (name, kind, _as_field(facts.defaults[name]))
            if name in facts.defaults
            else (name, kind)
            for name, kind in facts.kinds.items()
        ]
        alike: Any = dataclasses.make_dataclass(
            cls.__name__, named, namespace=_DESCRIBED, init=False, repr=False, eq=False
        )
        fields: dict[str, Any] = alike.__dataclass_fields__
        type.__setattr__(cls, "__dataclass_fields__", fields)
        return fields


class _Signature:
    """What `inspect`, and so `help`, asks a class for: the values it takes, and their defaults."""

    def __get__(self, instance: object, cls: type[Any]) -> Signature:
        facts: _Facts = cls.__record__
        made = any(c.__dict__.get("__signature__") is self for c in cls.__mro__[:1])
        if instance is not None or not made:
            raise AttributeError("__signature__")
        return Signature(
            [
                Parameter(
                    name,
                    Parameter.POSITIONAL_OR_KEYWORD,
                    default=_default(facts.defaults[name]) if name in facts.defaults else _EMPTY,
                    annotation=kind,
                )
                for name, kind in facts.kinds.items()
            ],
            return_annotation=None,
        )


_EMPTY: Final[Any] = Parameter.empty


def _default(given: Any) -> Any:
    """A default, or what a field makes of it."""
    if not _is_field(given):
        return given
    if given.default_factory is not dataclasses.MISSING:
        return given.default_factory()
    return _EMPTY if given.default is dataclasses.MISSING else given.default


_DESCRIBED: Final = {"__doc__": "Has fields alone."}
"""What a class is given for which `dataclasses` would write a description."""


def _check_plain(name: str, default: Any) -> None:
    """Refuse fields that are more than a default, which records do not know."""
    if _is_field(default) and not (
        default.init and default.repr and default.compare and default.kw_only is not True
    ):
        raise TypeError(f"{name}: a field of a record may have a default or make one, and no more")


def _as_field(default: Any) -> Any:
    return default if _is_field(default) else dataclasses.field(default=default)


def _is_field(default: object) -> bool:
    """Whether a default is what `dataclasses.field` gives."""
    return isinstance(default, dataclasses.Field)


# --------------------------------------------------------------------- methods


def _first_init(self: Any, *values: Any, **named: Any) -> None:
    """Make the `__init__` of the class that has this one, and call it."""
    cls = next(c for c in type(self).__mro__ if c.__dict__.get("__init__") is _first_init)
    compiled = _init(cls)
    type.__setattr__(cls, "__init__", compiled)
    compiled(self, *values, **named)


def _init(cls: type[Any]) -> Callable[..., None]:
    facts: _Facts = cls.__dict__["__record__"]
    scope: dict[str, Any] = {"_set": object.__setattr__, "_missing": _MISSING}
    scope["__name__"] = cls.__module__  # errors name the caller's line, not one of this package
    compiled = _written(cls, facts, scope) if _is_special(cls, facts) else _renamed(facts, scope)
    compiled.__qualname__ = f"{cls.__qualname__}.__init__"
    return compiled


def _is_special(cls: type[Any], facts: _Facts) -> bool:
    """Whether more is to be done than setting values, or defaults are not those of the last."""
    own = [name in facts.defaults for name in facts.names]
    return (
        hasattr(cls, "__post_init__")
        or any(map(_is_field, facts.defaults.values()))
        or own != sorted(own)
    )


def _renamed(facts: _Facts, scope: dict[str, Any]) -> FunctionType:
    """An `__init__` that sets the values."""
    defaults = [facts.defaults[name] for name in facts.names if name in facts.defaults]
    return constructor(_frozen if facts.frozen else _open, facts.names, scope, defaults)


def _frozen(names: Sequence[str]) -> str:
    return _text(names, [f"_set(self, {name!r}, {name})" for name in names])


def _open(names: Sequence[str]) -> str:
    return _text(names, [f"self.{name} = {name}" for name in names])


def _text(given: Sequence[str], lines: Sequence[str]) -> str:
    return f"def __init__({', '.join(['self', *given])}):\n  " + ("\n  ".join(lines) or "pass")


def _written(cls: type[Any], facts: _Facts, scope: dict[str, Any]) -> FunctionType:
    """An `__init__` with all that is special about a class."""
    given, lines = list[str](), list[str]()
    for name in facts.names:
        value, argument = name, name
        default: Any = facts.defaults.get(name, _MISSING)
        if _is_field(default):
            if default.default_factory is not dataclasses.MISSING:
                scope[f"_new_{name}"] = default.default_factory
                argument = f"{name}=_missing"
                value = f"_new_{name}() if {name} is _missing else {name}"
            default = _MISSING if default.default is dataclasses.MISSING else default.default
        if default is not _MISSING:
            scope[f"_default_{name}"] = default
            argument = f"{name}=_default_{name}"
        given.append(argument)
        lines.append(f"_set(self, {name!r}, {value})" if facts.frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(_text(given, lines), scope)
    compiled: FunctionType = scope["__init__"]
    return compiled


_MISSING: Final = object()


def _repr(self: Any) -> str:
    values = zip(self.__record__.names, self.__record__.values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join([f'{n}={v!r}' for n, v in values])})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    values = self.__record__.values
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(self.__record__.values(self))


def _refused(_: Any, name: str, *value: Any) -> None:
    what = "assign to" if value else "delete"
    raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")


def _state(self: Any) -> tuple[Any, ...]:
    values: tuple[Any, ...] = self.__record__.values(self)
    return values


def _restored(self: Any, state: tuple[Any, ...]) -> None:
    for name, value in zip(self.__record__.names, state, strict=True):
        object.__setattr__(self, name, value)
