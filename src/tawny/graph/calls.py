"""Calls of traced functions: which arguments are data, and what tells one call from another.

Arrays, NumPy's scalars and Python floats and complex numbers are data: another value is another
run of the same program.  Everything else, as an int, a bool, a string, None or an object, is part
of the program: another value makes another program.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, value_of
from tawny.dtype import DType, Number
from tawny.errors import type_error
from tawny.foreign_attributes import is_in_blocks
from tawny.node import Value
from tawny.tree import structure_key

Key = tuple[Hashable, ...]
Weakly = Callable[[Any], "weakref.ref[Any]"]

_NUMBERS: Final = frozenset({float, complex})
_PLAIN: Final = frozenset({int, bool, str, bytes, type(None)})
"""Types of values that are their own keys, once their type is told too."""


class TracedCall(NamedTuple):
    """One call, as far as it concerns which program runs."""

    structure: Hashable
    """How arrays, numbers and other leaves are nested in the arguments."""
    leaves: list[Any]
    """The leaves, in order."""
    static: tuple[tuple[int | str, Any], ...]
    """The arguments that were named to be part of the program."""
    lazy: bool
    """Whether a leaf is an array whose value is not known, or not the same in each run."""
    has_foreign: bool
    """Whether a leaf is an array, and none of NumPy's."""
    in_blocks: bool
    """Whether a leaf is a dask array."""

    def key(self, name: str, hold: Weakly = weakref.ref) -> Key:
        """What calls of one program share; `hold` is how objects are referred to."""
        kinds = [kind_of(x) or _fixed_key(x, name, hold) for x in self.leaves]
        return True, self.structure, tuple(kinds), self._static_keys(name, hold)

    def kind_key(self, name: str) -> Key:
        """What calls share that differ in nothing but Python values, but for those named static."""
        kinds = [kind_of(x) or _type(x) for x in self.leaves]
        return self.structure, tuple(kinds), self._static_keys(name, weakref.ref)

    def values(self) -> tuple[Hashable, ...]:
        """The plain Python values among the leaves; of all others nothing."""
        return tuple([x if type(x) in _PLAIN else None for x in self.leaves])

    def _static_keys(self, name: str, hold: Weakly) -> Key:
        return tuple([(place, _fixed_key(x, name, hold)) for place, x in self.static])

    @property
    def data(self) -> list[Any]:
        """The leaves that a program is given."""
        return [x for x in self.leaves if is_data(x)]


def call_of(
    args: Sequence[Any], kwargs: Mapping[str, Any], static: frozenset[int | str]
) -> TracedCall:
    """A call with these arguments, of which some, by position or name, are `static`."""
    given: dict[int | str, Any] = {**dict(enumerate(args)), **dict(sorted(kwargs.items()))}
    fixed = [(k, given.pop(k)) for k in tuple(given) if k in static] if static else []
    found: list[Any] = []
    structure = structure_key(given, found)
    arrays = [x.node for x in found if isinstance(x, Array)]
    lazy = not all(node.known and not node.volatile for node in arrays)
    other = bool(arrays) or any(map(_is_foreign, found))
    blocks = other and any(map(is_in_blocks, found))
    return TracedCall(structure, found, tuple(fixed), lazy, other, blocks)


def as_data(x: Any) -> Any:
    """A leaf as NumPy's array, if it is another library's, or an array whose value is known."""
    if isinstance(x, Array):
        return value_of(x, "jit")
    return np.asarray(x) if _is_foreign(x) else x


def plain_key(args: tuple[Any, ...]) -> tuple[Key | None, Sequence[Any]]:
    """The key of a call with nothing but arrays, and these; None for all other calls."""
    kinds: list[Hashable] = []
    given: Sequence[Any] = args
    for x in args:
        if type(x) is not np.ndarray:
            found: list[Any] = []
            kinds.append(structure_key(args, found))
            given = found
            break
    for x in given:
        if type(x) is not np.ndarray:
            return None, given
        kinds.append(x.shape)
        kinds.append(x.dtype)
    return tuple(kinds), given


def is_data(x: object) -> bool:
    """Whether a leaf is an array, or a number that is taken for one."""
    return type(x) in _NUMBERS or isinstance(x, (np.ndarray, np.generic))


def kind_of(x: Any) -> Hashable:
    """What data must share to be given to one program; None for what is no data."""
    if type(x) in _NUMBERS:
        return cast("Hashable", type(x))
    if isinstance(x, (np.ndarray, np.generic)):
        value = cast("Value", x)
        return value.shape, value.dtype
    return None


def common_dtype(given: Sequence[Any]) -> DType | None:
    """The dtype of a call's arrays together, if there are any."""
    arrays = cast("list[Value]", [x for x in given if isinstance(x, np.ndarray)])
    return dt.promote(*[dt.own_dtype(x.dtype, "jit") for x in arrays]) if arrays else None


def dtype_of(x: Any, beside: DType | None) -> DType:
    """The dtype of data; a Python number takes that of the arrays `beside` it."""
    if not dt.is_weak(x):
        return dt.own_dtype(x.dtype, "jit")
    kind = cast("Number", x)
    return dt.default_dtype(kind) if beside is None else dt.weak_dtype(type(kind), beside)


def _is_foreign(x: object) -> bool:
    """Whether `x` is an array of another library, as a data frame's column or a tensor."""
    return hasattr(type(x), "__array__") and not isinstance(x, (Array, np.ndarray, np.generic))


def _type(x: object) -> Hashable:
    return cast("Hashable", type(x))


def _fixed_key(x: Any, name: str, hold: Weakly) -> Hashable:
    """What is equal for values that make the same program.

    Objects that are equal to themselves alone are referred to weakly, so that a program does not
    keep them alive.
    """
    kind, whole = type(cast("object", x)), x
    if kind in _PLAIN:
        return kind, x
    if kind is float or kind is complex:
        return kind, repr(x)  # tells 0.0 from -0.0, and NaN is NaN
    if isinstance(x, tuple):
        return kind, *[_fixed_key(item, name, hold) for item in whole]
    if kind is slice:
        return kind, *[_fixed_key(i, name, hold) for i in (whole.start, whole.stop, whole.step)]
    if kind.__hash__ is object.__hash__:
        try:
            return hold(x)
        except TypeError:  # nothing can refer to it weakly
            return _Identity(x)
    try:
        hash(x)
    except TypeError:
        raise type_error(
            name,
            f"{kind.__name__} {x!r} is neither an array nor a number, and what is part of a "
            "program must be hashable: numbers, strings, tuples",
        ) from None
    return kind, x


class _Identity:
    """An object, equal to itself alone."""

    def __init__(self, it: object) -> None:
        self.it = it

    def __hash__(self) -> int:
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.it is other.it
