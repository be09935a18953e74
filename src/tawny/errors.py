"""Errors as the user meets them: op, operand, what came, what is accepted, the user's line.

Each function gives the exception NumPy would raise for the same mistake, worded
`op: what is wrong  [file:line]`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from numpy.exceptions import AxisError
from numpy.linalg import LinAlgError

from tawny.source import Source, caller, users_frame

__all__ = [
    "AxisError",
    "BlockedOperandError",
    "LinAlgError",
    "PerformanceWarning",
    "ValuesNeededError",
    "axis_error",
    "blocked_operand_error",
    "index_error",
    "linalg_error",
    "list_accepted",
    "list_some",
    "with_location",
    "needs_values",
    "overflow_error",
    "type_error",
    "value_error",
    "warn",
]


class PerformanceWarning(UserWarning):
    """A result is right, but takes more time or memory than it need; the text says what to do."""


def with_location(message: str) -> str:
    """`message` with the user's file and line."""
    source = caller()
    return message if source is None else f"{message}  [{source}]"


def warn(
    message: str, category: type[Warning] = UserWarning, *, about: Sequence[Source] = ()
) -> None:
    """Warn at the user's line; the message names the places it is about, or else that line.

    Python's filters decide whether it is shown: by default once for each line and message.
    """
    places = ", ".join(dict.fromkeys(map(str, about)))
    text = f"{message}  [{places}]" if places else with_location(message)
    frame = users_frame()
    if frame is None:
        warnings.warn(text, category, stacklevel=2)
        return
    warnings.warn_explicit(
        text,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__", "<unknown>"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def value_error(op: str, detail: str) -> ValueError:
    """A wrong shape or option."""
    return ValueError(with_location(f"{op}: {detail}"))


def type_error(op: str, detail: str) -> TypeError:
    """A wrong dtype or kind of object."""
    return TypeError(with_location(f"{op}: {detail}"))


def linalg_error(op: str, detail: str) -> LinAlgError:
    """A matrix of the wrong shape; NumPy's own kind of ValueError."""
    return LinAlgError(with_location(f"{op}: {detail}"))


def index_error(op: str, detail: str) -> IndexError:
    """An index outside its axis, or too many indices."""
    return IndexError(with_location(f"{op}: {detail}"))


def overflow_error(op: str, detail: str) -> OverflowError:
    """A Python number that its dtype cannot hold."""
    return OverflowError(with_location(f"{op}: {detail}"))


def axis_error(op: str, axis: int, rank: int) -> AxisError:
    """An axis that the operand does not have."""
    accepted = f"axes from {-rank} to {rank - 1}" if rank else "no axis, since it has none"
    return AxisError(
        with_location(
            f"{op}: axis {axis} is out of bounds for an array of {rank} axes; accepted: {accepted}"
        )
    )


class BlockedOperandError(TypeError):
    """An operand is a dask array, of which a function over blocks is to be made."""


def blocked_operand_error(op: str, position: int) -> BlockedOperandError:
    """A dask array where values are needed at once, or beside lazy arrays."""
    return BlockedOperandError(
        with_location(
            f"{op}: operand {position} is a dask array; give it to a function made by tw.jit, or "
            "to tw.map_blocks(graph, ...), or compute it first: x.compute()"
        )
    )


class ValuesNeededError(TypeError):
    """An operation that needs values now was given an array whose values come later."""

    def __init__(self, message: str, variables: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.variables = tuple(variables)
        """Names of the variables without a value."""

    def suggest(self, way_out: str) -> None:
        """Name a further way out, before the user's line."""
        text, mark, place = str(self).rpartition("  [")
        self.args = (f"{text}; {way_out}{mark}{place}" if mark else f"{place}; {way_out}",)


MOST_LISTED: Final = 6
"""Names listed in a sentence: networks have hundreds of variables."""


def list_some(names: Sequence[str], most: int = MOST_LISTED) -> str:
    """Names for a message: the first of them, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "none"


def list_accepted(names: Sequence[str], unknown: object) -> str:
    """Names for a message about one that is unknown: those that resemble it come first."""
    if len(names) <= MOST_LISTED:
        return list_some(names)
    alike = get_close_matches(str(unknown), names, MOST_LISTED // 2)
    return list_some([*alike, *(n for n in names if n not in alike)])


OF_A_STEP: Final = "of a step of a loop"
"""How names of variables end that stand for what steps of loops are given."""


def needs_values(op: str, variables: Sequence[str], way_out: str) -> ValuesNeededError:
    """An operation that needs values now, on an array whose values come later."""
    names = list_some([*map(repr, variables)], 3)
    noun = "variables" if len(variables) > 1 else "variable"
    if any(name.endswith(OF_A_STEP) for name in variables):
        way_out += "; what a step computes is known in it alone: let it return what is used later"
    return ValuesNeededError(
        with_location(f"{op}: the array depends on {noun} {names}, not known yet; {way_out}"),
        variables,
    )
