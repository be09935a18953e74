"""The controls of a page: what each sets, and the values it may give."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np

from tawny.dtype import kind_of
from tawny.errors import list_accepted, type_error, value_error
from tawny.node import Node, Value
from tawny.shape import size

MOST_ELEMENTS: Final = 16
"""Elements of the largest input that has controls, one for each."""


class Control(NamedTuple):
    """A control of the page that sets an input."""

    name: str
    node: Node
    low: float
    high: float
    choices: tuple[float, ...] = ()
    """The values it may have; any in between where there are none."""

    def data(self, value: Value) -> dict[str, Any]:
        """What a page knows of it."""
        kind = kind_of(self.node.dtype)
        look = "choice" if self.choices else "switch" if kind == "b" else "slider"
        return {
            "name": self.name,
            "look": look,
            "low": self.low,
            "high": self.high,
            "whole": kind in "iu",
            "choices": list(self.choices),
            "values": [float(x) for x in value.reshape(-1)],
        }

    def value(self, given: object) -> Value:
        """The value that a page gives; raises ValueError for what it may not."""
        numbers = cast("list[object]", given) if isinstance(given, list) else [given]
        if len(numbers) != size(self.node.shape):
            raise ValueError(f"{self.name}: {len(numbers)} numbers; it has {size(self.node.shape)}")
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise ValueError(f"{self.name}: {number!r} is no number")
            if not self.low <= number <= self.high:  # NaN is not either
                raise ValueError(f"{self.name}: {number} is not from {self.low} to {self.high}")
            if self.choices and number not in self.choices:
                raise ValueError(f"{self.name}: {number} is not among its choices")
        found = np.array(numbers, np.float64).reshape(self.node.shape)
        whole = np.rint(found) if self.node.dtype.kind in "biu" else found
        return whole.astype(self.node.dtype)

    def middle(self) -> Value:
        """A value to begin with."""
        if self.choices:
            number = self.choices[0]
        else:
            number = self.low if self.node.dtype.kind == "b" else (self.low + self.high) / 2
        return self.value([number] * size(self.node.shape))


def as_controls(given: object, variables: Mapping[str, Node]) -> list[Control]:
    """Controls as a user asks for them: ranges, or lists of values, by the names of inputs."""
    if not isinstance(given, Mapping):
        raise type_error(
            "explore", f"sliders is {type(given).__name__}; accepted: a dict of ranges by name"
        )
    ranges = cast("Mapping[object, object]", given)
    return [_control(name, wanted, variables) for name, wanted in ranges.items()]


def _control(name: object, wanted: object, variables: Mapping[str, Node]) -> Control:
    if not isinstance(name, str) or name not in variables:
        listed = list_accepted([*variables], name)
        raise value_error("explore", f"no input is called {name!r}; accepted: {listed}")
    node = variables[name]
    if node.dtype.kind == "c" or size(node.shape) > MOST_ELEMENTS or not size(node.shape):
        raise value_error(
            "explore",
            f"{name!r} is {node.dtype}{list(node.shape)}; sliders are for real numbers, and for "
            f"arrays of 1 to {MOST_ELEMENTS} of them",
        )
    if node.dtype.kind == "b":
        return Control(name, node, 0, 1)
    numbers = _numbers(name, wanted)
    if isinstance(wanted, list):
        return Control(name, node, min(numbers), max(numbers), tuple(numbers))
    if len(numbers) != 2 or not numbers[0] < numbers[1]:
        raise value_error("explore", f"{name!r} has {wanted!r}; accepted: (lowest, highest)")
    low, high = numbers
    return Control(name, node, low, high)


def _numbers(name: str, wanted: object) -> list[float]:
    if not isinstance(wanted, (tuple, list)) or not wanted:
        raise type_error(
            "explore",
            f"{name!r} has {wanted!r}; accepted: a tuple (lowest, highest), or a list of values",
        )
    numbers: list[float] = []
    for item in cast("Sequence[object]", wanted):
        if isinstance(item, (bool, complex)) or not isinstance(
            item, (int, float, np.integer, np.floating)
        ):
            raise type_error("explore", f"{name!r} has {item!r}, which is no number")
        number = float(cast("float", item))
        if not math.isfinite(number):
            raise value_error("explore", f"{name!r} has {number}; it must be finite")
        numbers.append(number)
    return numbers
