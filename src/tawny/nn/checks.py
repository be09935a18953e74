"""What layers refuse as inputs, and what losses require of the values of targets.

A training step is traced with variables for its batch, whose values come later.  What is required
of them is collected meanwhile, and whoever has the values checks them before the step is run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from tawny.array import Array
from tawny.errors import type_error, value_error
from tawny.nn.members import Holder
from tawny.nn.parameters import BINDING, path_text
from tawny.node import Node, Value

if TYPE_CHECKING:
    from tawny.nn.module import Module


class InputChecks(Holder):
    """Checks of inputs that layers share."""

    @property
    def label(self) -> str:
        """The module as messages name it: its class and its path in the model that was called."""
        binding = BINDING.get()
        path = () if binding is None else binding.paths.get(cast("Module", self), ())
        return " ".join(filter(None, (type(self).__name__, path_text(path))))

    def input_error(self, detail: str) -> ValueError:
        """The error for an input that the layer cannot take; it names the layer, then `detail`."""
        return value_error(self.label, detail)

    def check_array(self, x: object, word: str = "the input") -> None:
        """Refuse an input that is no array: a list of numbers, several arrays, nothing.

        - `x`: what came.
        - `word`: what the error calls it.
        """
        if not isinstance(x, Array):
            raise type_error(self.label, f"{word} is {type(x).__name__}; accepted: an array")

    def check_last_axis(self, x: Array, features: int, *, least_rank: int = 1) -> None:
        """Refuse an input whose last axis is not of this size.

        - `x`: the input.
        - `features`: the size of its last axis.
        - `least_rank`: the fewest axes it may have.
        """
        self.check_array(x)
        if x.ndim < least_rank or x.shape[-1] != features:
            axes = f" and at least {least_rank} axes" if least_rank > 1 else ""
            raise self.input_error(
                f"the input has shape {x.shape}; its last axis must be {features}{axes}"
            )

    def match_dtype(self, x: Array, parameter: Array) -> Array:
        """An input in the dtype of a parameter it meets: float64 images stay cheap.

        `x` is the input, `parameter` what it meets.  Complex numbers keep their dtype beside real
        parameters.
        """
        if x.dtype == parameter.dtype or (x.dtype.kind == "c" and parameter.dtype.kind != "c"):
            return x
        return x.astype(parameter.dtype)

    def check_image(self, x: Array, rank: int, channels: int | None = None) -> None:
        """Refuse an input that is not (batch, *spatial, channels).

        - `x`: the input.
        - `rank`: the number of spatial axes.
        - `channels`: the size of the last axis; any when None.
        """
        self.check_array(x)
        spatial = {1: "n", 2: "rows, columns", 3: "planes, rows, columns"}[rank]
        last = "channels" if channels is None else f"{channels} channels"
        if x.ndim != rank + 2:
            raise self.input_error(
                f"the input has shape {x.shape}, of {x.ndim} axes; "
                f"accepted: {rank + 2} axes, (batch, {spatial}, {last})"
            )
        if channels is not None and x.shape[-1] != channels:
            raise self.input_error(
                f"the input has shape {x.shape}, so {x.shape[-1]} channels; "
                f"accepted: {channels} channels, the last axis of (batch, {spatial}, channels)"
            )


@dataclass(frozen=True)
class TargetCheck(ABC):
    """A check of the values of a loss's targets."""

    op: str
    """The name of the loss."""

    @abstractmethod
    def check(self, values: Value) -> None:
        """Refuse other values."""


@dataclass(frozen=True)
class ClassIndices(TargetCheck):
    """Integers from 0 up to the number of classes."""

    count: int

    def check(self, values: Value) -> None:
        if values.size and not 0 <= values.min() <= values.max() < self.count:
            wrong = values.min() if values.min() < 0 else values.max()
            raise value_error(
                self.op,
                f"the target has class {wrong}; accepted: 0 to {self.count - 1}, since the "
                f"prediction's last axis has {self.count} classes",
            )


@dataclass(frozen=True)
class Signs(TargetCheck):
    """Numbers that are -1 or 1."""

    def check(self, values: Value) -> None:
        wrong = values[(values != 1) & (values != -1)]
        if wrong.size:
            raise value_error(self.op, f"the target has {wrong[0]}; accepted: -1 and 1")


@dataclass(frozen=True)
class Probabilities(TargetCheck):
    """Numbers from 0 to 1."""

    def check(self, values: Value) -> None:
        wrong = values[~((values >= 0) & (values <= 1))]
        if wrong.size:
            raise value_error(self.op, f"the target has {wrong[0]}; accepted: numbers from 0 to 1")


TargetChecks = dict[tuple[Node, TargetCheck], None]
"""Checks of arrays without values, each once and in order."""

_COLLECTED: Final[ContextVar[TargetChecks | None]] = ContextVar("collected", default=None)


def check_target(target: Array, check: TargetCheck) -> None:
    """Check the values of a target if they are known; else record the check for later."""
    value: Value | None = target.node.value
    collected = _COLLECTED.get()
    if value is not None:
        check.check(value)
    elif collected is not None:
        collected[target.node, check] = None


@contextmanager
def collect_target_checks() -> Generator[TargetChecks]:
    """The checks that are recorded within the block."""
    collected: TargetChecks = {}
    token = _COLLECTED.set(collected)
    try:
        yield collected
    finally:
        _COLLECTED.reset(token)
