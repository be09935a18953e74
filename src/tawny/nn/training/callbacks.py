"""Callbacks of training: what they are given, and what a user may give as such."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from tawny.errors import type_error
from tawny.nn.training.history import History
from tawny.tree import map_leaves

if TYPE_CHECKING:
    from tawny.nn.training.loop import TrainingRun


@dataclass(frozen=True)
class TrainingEvent:
    """What a callback is given after each step ("batch") and after each epoch ("epoch")."""

    event: Literal["batch", "epoch"]
    epoch: int
    """The epoch, from 0."""
    step: int
    """The number of updates that were made."""
    loss: float
    """The loss of the batch, or the mean of the epoch."""
    rate: float
    validation: dict[str, float]
    """Loss and metrics on the validation data, after an epoch."""
    history: History
    _training: TrainingRun

    @property
    def parameters(self) -> Any:
        """A copy of the parameters as they are now."""
        return map_leaves(np.array, self._training.stepper.training_state.parameters)

    def update_model(self) -> None:
        """Let the model have the values of now; at the end it gets them anyway."""
        self._training.update_model()

    def stop(self, reason: str = "callback") -> None:
        """End training here."""
        self._training.stop(reason)


Callback = Callable[[TrainingEvent], Any]


def as_callbacks(given: object) -> tuple[Callback, ...]:
    """Callbacks as a user gives them: any number of functions."""
    if not isinstance(given, Iterable):
        raise type_error("nn.train", f"callbacks is {given!r}; accepted: a list of functions")
    callbacks = tuple(cast("Iterable[Callback]", given))
    for i, callback in enumerate(callbacks):
        if not callable(callback):
            raise type_error("nn.train", f"callback {i} is {callback!r}; it is a function")
    return callbacks
