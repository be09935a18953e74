"""Records against what `dataclasses` makes of the same classes."""

from __future__ import annotations

import copy
import dataclasses
import gc
import importlib
import inspect
import pickle
import pkgutil
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import pytest

import tawny
from tawny.record import record

Decorate = Callable[..., Any]


def declared(decorate: Decorate, **options: bool) -> tuple[type[Any], type[Any]]:
    """Two classes, one on top of the other, made by a decorator."""

    @decorate(frozen=True, **options)
    class Point:
        """A place."""

        x: int
        y: float = 2.0
        kinds: ClassVar[int] = 3

        def moved(self) -> Any:
            return dataclasses.replace(self, x=self.x + 1)

    @decorate(frozen=True, **options)
    class Named(Point):
        """A place with a name."""

        y: float = 4.0
        name: str = "no"
        tags: list[str] = dataclasses.field(default_factory=list)

        def __post_init__(self) -> None:
            object.__setattr__(self, "name", self.name.upper())

    return Point, Named


OPTIONS = [{}, {"slots": True}, {"eq": False}, {"slots": True, "repr": False}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_they_are_what_dataclasses_makes(options: dict[str, bool]) -> None:
    made, wanted = declared(record, **options), declared(dataclasses.dataclass, **options)
    calls = [((1,), {}), ((1, 5.5), {}), ((), {"y": 1.0, "x": 3}), ((2,), {"y": 4.0})]
    for ours, theirs in zip(made, wanted, strict=True):
        assert ours.__match_args__ == theirs.__match_args__
        assert ours.__doc__ == theirs.__doc__
        assert ours.__qualname__ == theirs.__qualname__
        assert ours.kinds == 3
        assert [f.name for f in dataclasses.fields(ours)] == [
            f.name for f in dataclasses.fields(theirs)
        ]
        assert dataclasses.is_dataclass(ours)
        for values, named in calls:
            one, other = ours(*values, **named), theirs(*values, **named)
            assert dataclasses.asdict(one) == dataclasses.asdict(other)
            if options.get("repr", True):
                assert repr(one) == repr(other)
            if options.get("eq", True) and ours is made[0]:
                assert hash(one) == hash(other)
            assert (one == ours(*values, **named)) == (other == theirs(*values, **named))
            assert one != ours(9)
            assert hasattr(one, "__dict__") == hasattr(other, "__dict__")
            assert dataclasses.asdict(one.moved()) == dataclasses.asdict(other.moved())
        for wrong in ((), (1, 2, 3, 4, 5, 6)):
            for cls in (ours, theirs):
                with pytest.raises(TypeError, match="argument"):
                    cls(*wrong)
    assert made[1](1).tags is not made[1](1).tags
    assert made[0](1) != made[1](1, 2.0)


@pytest.mark.parametrize("slots", [False, True])
def test_values_cannot_be_set_anew(slots: bool) -> None:
    point = declared(record, slots=slots)[0](1)
    for change in (lambda: setattr(point, "x", 2), lambda: delattr(point, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError, match=r"cannot (assign|delete).*'x'"):
            change()
    assert point.x == 1


@record(slots=True)
class Kept:
    x: int
    y: tuple[int, ...] = ()


@record(slots=True, weakref_slot=True, eq=False)
class Held:
    x: int


def test_copies_and_pickles_are_equal() -> None:
    kept = Kept(1, (2, 3))
    for other in (copy.copy(kept), copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        assert other == kept
        assert other is not kept


def test_they_can_be_held_weakly_where_asked_for() -> None:
    held = Held(1)
    reference = weakref.ref(held)
    assert reference() is held
    del held
    gc.collect()
    assert reference() is None
    with pytest.raises(TypeError, match="weak reference"):
        weakref.ref(Kept(1))


def test_a_match_takes_them_apart() -> None:
    match Kept(1, (2,)):
        case Kept(x, (y,)):
            assert (x, y) == (1, 2)
        case _:
            pytest.fail("it is one")


def test_abstract_methods_stay_abstract() -> None:
    class Source(ABC):
        @abstractmethod
        def read(self) -> int: ...

    @record(slots=True)
    class Half(Source):
        x: int

    @record(slots=True)
    class Whole(Source):
        x: int

        def read(self) -> int:
            return self.x

    assert Whole(3).read() == 3
    with pytest.raises(TypeError, match="abstract"):
        Half(3)  # type: ignore[abstract]


def test_without_slots_values_can_be_cached() -> None:
    @record
    class Square:
        side: int

        @cached_property
        def area(self) -> int:
            return self.side**2

    square = Square(3)
    assert (square.area, square.__dict__["area"]) == (9, 9)


def test_fields_that_are_more_than_a_default_are_refused() -> None:
    for options in ({"init": False}, {"compare": False}, {"repr": False}, {"kw_only": True}):
        with pytest.raises(TypeError, match="x: a field of a record"):

            @record
            class Odd:
                x: int = dataclasses.field(default=1, **options)


def test_all_records_of_the_package_know_their_fields() -> None:
    names = [m.name for m in pkgutil.walk_packages(tawny.__path__, "tawny.")]
    modules = [importlib.import_module(n) for n in names if not n.endswith(".child")]
    found = {
        thing
        for module in modules
        for thing in vars(module).values()
        if isinstance(thing, type) and "__record__" in vars(thing)
    }
    assert len(found) > 100
    for kind in found:
        assert tuple(f.name for f in dataclasses.fields(kind)) == kind.__match_args__


def test_they_say_what_they_take() -> None:
    from tawny import optim

    for cls, alike in zip(declared(record), declared(dataclasses.dataclass), strict=True):
        theirs = str(inspect.signature(alike)).replace("<factory>", "[]")
        assert str(inspect.signature(cls)) == theirs
    assert str(inspect.signature(optim.Decay)) == "(rate: 'float', k: 'float') -> None"
    optim.Decay(1.0, 0.1)
    assert str(inspect.signature(optim.Decay)) == "(rate: 'float', k: 'float') -> None"
    assert inspect.signature(optim.Optimiser).parameters["gradient"].default == optim.GD()


def test_other_ways_to_make_one_are_said_as_they_are() -> None:
    @record
    class Point:
        x: int

    class Named(Point):
        def __init__(self, x: int, name: str) -> None: ...

    @record
    class Called:
        x: int

        def __call__(self, y: str) -> None: ...

    assert list(inspect.signature(Named).parameters) == ["x", "name"]
    assert list(inspect.signature(Called(3)).parameters) == ["y"]
