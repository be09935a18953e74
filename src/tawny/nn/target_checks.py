"""What losses require of the values of targets.

A training step is traced with variables for its batch, whose values come later.  What is required
of them is collected meanwhile, and whoever has the values checks them before the step is run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from tawny.array import Array
from tawny.errors import value_error
from tawny.node import Node, Value


@dataclass(frozen=True)
class TargetCheck(ABC):
    """What the values of a loss's targets must be."""

    op: str
    """The loss."""

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
