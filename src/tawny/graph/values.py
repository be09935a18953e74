"""Values for variables, and lists of such: checked before anything is set or run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, as_value, check_unmasked, value_outside
from tawny.dtype import check_all_fit
from tawny.errors import type_error, value_error
from tawny.node import Node, Value


def variable_value(node: Node, name: str, value: Any) -> Value:
    """`value` as the variable's array, refused if it cannot be."""
    what = f"variable {name!r}"
    check_unmasked(value, "Program", f"the value of {what}")
    if isinstance(value, Array):
        value = value_outside(value, f"Program: {what}")
    integer = type(value) is int
    given = np.array(value, object) if integer else value  # it may be of any size
    if not isinstance(given, np.ndarray):
        given = as_value(value, f"Program: {what}")
    array = cast("Value", given)
    if array.shape != node.shape:
        raise value_error("Program", f"{what} was given shape {array.shape}; it has {node.shape}")
    if node.dtype.kind in "biu" and (integer or array.dtype.kind in "biu"):
        check_all_fit(array, node.dtype, "Program", f"the value of {what}")
    elif array.size and not integer and not dt.can_cast(array.dtype, node.dtype, "same_kind"):
        raise type_error(
            "Program",
            f"{what} was given dtype {array.dtype}; it has {node.dtype}: convert the value first "
            f"(value.astype({str(node.dtype)!r}))",
        )
    return array.astype(node.dtype, copy=False)


class ValueLists(NamedTuple):
    """Runs to make: for each of them a value for each of some variables."""

    names: tuple[str, ...]
    columns: tuple[tuple[Any, ...], ...]
    """The values by variable, one for each run."""

    @property
    def total(self) -> int:
        """How many runs there are."""
        return len(self.columns[0])

    def row(self, number: int) -> dict[str, Any]:
        """The values of a run by the names of their variables."""
        return {n: column[number] for n, column in zip(self.names, self.columns, strict=True)}


def as_rows(lists: Mapping[str, Any], op: str) -> ValueLists:
    """Lists of values by the names of variables, refused unless they are of one length."""
    lengths = {name: _length_of(name, values, op) for name, values in lists.items()}
    if len(set(lengths.values())) != 1:
        raise value_error(op, f"the lists must be of one length, not {lengths}")
    return ValueLists(tuple(lists), tuple([tuple(values) for values in lists.values()]))


def _length_of(name: str, values: Any, op: str) -> int:
    try:
        return len(values)
    except TypeError:
        kind = type(values).__name__
        raise type_error(op, f"{name} is {kind}; accepted: a list of values") from None
