"""What is made when it is first used: attributes of objects, and modules."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Generic, TypeVar, final, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801  (used as Python's own)
    """An attribute that a method computes when it is first asked for.

    As Python's own, but no lock is held meanwhile: until Python 3.12 that is one for all objects,
    so threads would wait for each other, and forked processes for ever.  Threads that ask at the
    same time may compute it twice.
    """

    def __init__(self, method: Callable[[Any], T]) -> None:
        self._method = method
        self._name = method.__name__
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, owner: None, kind: type[Any], /) -> cached_property[T]: ...
    @overload
    def __get__(self, owner: object, kind: type[Any] | None = None, /) -> T: ...
    def __get__(
        self, owner: object | None, kind: type[Any] | None = None, /
    ) -> cached_property[T] | T:
        if owner is None:
            return self
        value: T = owner.__dict__.setdefault(self._name, self._method(owner))
        return value


@final
class LazyModule:
    """Stands for a module that few programs use, so that the others need not wait for it.

    What the type checker should see is imported beside it, under `TYPE_CHECKING`.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value
