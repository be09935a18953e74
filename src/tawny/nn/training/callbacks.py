"""What happened in training, and the callbacks that are told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from tawny.errors import type_error
from tawny.tree import map_leaves

if TYPE_CHECKING:
    from tawny.graph.profile.profile import Profile
    from tawny.graph.program import Program
    from tawny.nn.training.run import TrainingRun


@dataclass
class History:
    """Losses and rates of every step, means of every epoch, and why training ended."""

    batch_loss: list[float] = field(default_factory=list[float])
    """The loss of each step before its update, regularisation included."""
    rate: list[float] = field(default_factory=list[float])
    """The learning rate of each step, before it was adapted to single parameters."""
    loss: list[float] = field(default_factory=list[float])
    """The mean loss of each whole epoch; every row counts the same."""
    validation: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Loss and metrics on the validation data after each epoch, by name."""
    workers: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """From which step on there were how many workers; empty if there never was a client."""
    seconds: float = 0.0
    """Time spent in steps, building included."""
    reason: str = "running"
    """Why training ended: "epochs", "steps", "interrupted", or what a rule or callback said."""
    program: Program | None = field(default=None, repr=False, compare=False)
    """The compiled step for a batch of full size."""

    profile: Profile | None = field(default=None, repr=False, compare=False)
    """What the operations of the steps took, if that was asked for."""

    @property
    def steps(self) -> int:
        """How many updates were made."""
        return len(self.batch_loss)

    @property
    def epochs(self) -> int:
        """How many epochs were finished."""
        return len(self.loss)

    def __getstate__(self) -> dict[str, Any]:
        """All but program and profile, which hold compiled code, for copies and pickles."""
        return {**vars(self), "program": None, "profile": None}

    def __repr__(self) -> str:
        last = self.loss[-1:] or self.batch_loss[-1:]
        shown = f", loss {last[0]:.4g}" if last else ""
        for name, values in self.validation.items():
            shown += f", validation {name} {values[-1]:.4g}" if values else ""
        return f"<History: {self.epochs} epochs, {self.steps} steps{shown}; ended by {self.reason}>"


@dataclass(frozen=True)
class TrainingEvent:
    """The event that a callback is given after each step ("batch") and each epoch ("epoch")."""

    event: Literal["batch", "epoch"]
    epoch: int
    """The epoch, from 0."""
    step: int
    """The number of updates that were made."""
    loss: float
    """The loss of the batch, or the mean of the epoch."""
    rate: float
    """The learning rate of the last step, before it was adapted to single parameters."""
    validation: dict[str, float]
    """Loss and metrics on the validation data, after an epoch."""
    history: History
    """Losses and rates of the training up to now."""
    _training: TrainingRun

    @property
    def parameters(self) -> Any:
        """A copy of the parameters as they are now."""
        return map_leaves(np.array, self._training.current_state().parameters)

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
