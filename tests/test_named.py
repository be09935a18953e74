"""Named tuples against what `typing` makes of the same declarations."""

from __future__ import annotations

import copy
import pickle
import typing
from typing import Any

import pytest

from tawny import named
from tawny.named import NamedTuple


def declared(base: Any) -> tuple[type[Any], ...]:
    """Classes that `typing` would make, and one on top of another."""

    class Empty(base):
        """Has nothing."""

    class One(base):
        only: int

    class Point(base):
        """A place."""

        x: int
        y: float = 2.0
        """How high."""
        tags: tuple[str, ...] = ()

        @property
        def twice(self) -> int:
            return 2 * self.x

        def moved(self, by: int) -> Any:
            return self._replace(x=self.x + by)

        @classmethod
        def origin(cls) -> Any:
            return cls(0)

    class Named(Point):
        def __str__(self) -> str:
            return f"at {self.x}"

    return Empty, One, Point, Named


CALLS: dict[int, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    0: [((), {})],
    1: [((1,), {}), ((), {"only": 5})],
    2: [((1,), {}), ((1, 5.5), {}), ((), {"y": 1.0, "x": 3}), ((2, 3, ("a",)), {})],
    3: [((1,), {}), ((), {"x": 3, "tags": ("b",)})],
}
WRONG: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1, 2, 3, 4), {}),
    ((1,), {"z": 3}),
    ((1,), {"x": 3, "only": 3}),
]


@pytest.mark.parametrize("number", CALLS)
def test_they_are_what_typing_makes(number: int) -> None:
    ours, theirs = declared(NamedTuple)[number], declared(typing.NamedTuple)[number]
    for name in ("_fields", "_field_defaults", "__match_args__", "__qualname__", "__module__"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.__doc__ == ("A place." if number == 2 else "Has nothing." if not number else None)
    assert ours.__annotations__.keys() == theirs.__annotations__.keys()
    for values, by_name in CALLS[number]:
        one, other = ours(*values, **by_name), theirs(*values, **by_name)
        assert isinstance(one, tuple)
        assert one == other == tuple(one)
        assert hash(one) == hash(other)
        assert repr(one) == repr(other)
        assert str(one) == str(other)
        assert one._asdict() == other._asdict()
        assert type(one._replace()) is ours
        assert copy.copy(one) == copy.deepcopy(one) == one
        assert ours._make(one) == one
        assert hasattr(one, "__dict__") == hasattr(other, "__dict__")
        assert [getattr(one, n) for n in ours._fields] == list(one)
    for values, by_name in WRONG:
        with pytest.raises(TypeError) as expected:
            theirs(*values, **by_name)
        for _ in range(2):
            with pytest.raises(TypeError) as raised:
                ours(*values, **by_name)
            assert str(raised.value) == str(expected.value)
    with pytest.raises(TypeError, match=r"Expected \d arguments, got 9"):
        ours._make(range(9))
    with pytest.raises(ValueError, match="Got unexpected field names: \\['no'\\]"):
        ours(*CALLS[number][0][0])._replace(no=1)


def test_methods_and_patterns() -> None:
    _, _, point, other = declared(NamedTuple)
    place = point(4, 1.0)
    assert (place.twice, place.moved(3), point.origin()) == (8, (7, 1.0, ()), (0, 2.0, ()))
    assert str(other(5)) == "at 5"
    assert type(other(5).moved(1)) is other
    match place:
        case point(x, y):
            assert (x, y) == (4, 1.0)
        case _:
            raise AssertionError
    with pytest.raises(AttributeError):
        place.x = 3
    with pytest.raises(AttributeError):
        place.z = 3


class Kept(NamedTuple):
    """Can be found by its name."""

    a: int
    b: str = "b"


def test_they_are_pickled() -> None:
    again = pickle.loads(pickle.dumps(Kept(3)))
    assert again == Kept(3)
    assert type(again) is Kept


def test_the_constructor_is_compiled_once() -> None:
    _, _, point, other = declared(NamedTuple)
    assert point.__new__ is named._first_new
    other(1)
    compiled = point.__new__
    assert compiled is not named._first_new
    point(2)
    assert point.__new__ is other.__new__ is compiled
    assert (compiled.__name__, compiled.__defaults__) == ("__new__", (2.0, ()))


def test_values_are_read_without_the_interpreters_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Python is not CPython."""
    monkeypatch.setattr(named, "_attribute", named._plain_attribute)
    _, _, point, _ = declared(NamedTuple)
    assert (point(3).x, point(3).y) == (3, 2.0)


def test_two_threads_may_make_the_first_one() -> None:
    """The second may have entered the first constructor before it was replaced."""

    class Pair(NamedTuple):
        one: int
        two: int = 2

    class Further(Pair):
        """Has the constructor of its base."""

    entered: Any = Further.__new__
    assert Pair(5) == (5, 2)
    assert entered(Further, 7) == (7, 2)
    assert type(entered(Further, 7)) is Further
