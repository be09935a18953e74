"""What happened in training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tawny.graph.program import Program


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
    seconds: float = 0.0
    """Time spent in steps, building included."""
    reason: str = "running"
    """Why training ended: "epochs", "steps", "interrupted", or what a rule or callback said."""
    program: Program | None = field(default=None, repr=False, compare=False)
    """The compiled step for a batch of full size."""

    @property
    def steps(self) -> int:
        """How many updates were made."""
        return len(self.batch_loss)

    @property
    def epochs(self) -> int:
        """How many epochs were finished."""
        return len(self.loss)

    def __getstate__(self) -> dict[str, Any]:
        """All but the program, which holds compiled code, for copies and pickles."""
        return {**vars(self), "program": None}

    def __repr__(self) -> str:
        last = self.loss[-1:] or self.batch_loss[-1:]
        shown = f", loss {last[0]:.4g}" if last else ""
        for name, values in self.validation.items():
            shown += f", validation {name} {values[-1]:.4g}" if values else ""
        return f"<History: {self.epochs} epochs, {self.steps} steps{shown}; ended by {self.reason}>"
