"""When to stop before the end."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from tawny.errors import value_error
from tawny.optim.arguments import check_not_negative, check_number
from tawny.shape import as_int

Memory = dict[str, float | None]
"""What a rule remembers: plain numbers, so that it can be written to a file."""


@dataclass(frozen=True)
class Stopping(ABC):
    """A rule that may end training; it changes nothing itself.

    What it remembers decides alone, so training that is taken up again ends where it had ended.
    """

    @property
    def every(self) -> Literal["epoch", "batch"]:
        """When it is asked, with the loss of the epoch or of the batch."""
        return "epoch"

    def start(self) -> Memory:
        """What is remembered before the first loss."""
        return {}

    @abstractmethod
    def update(self, memory: Memory, loss: float) -> Memory:
        """What is remembered after this loss: finite numbers."""

    @abstractmethod
    def reason(self, memory: Memory) -> str | None:
        """Why to stop; None to go on."""


@dataclass(frozen=True)
class Below(Stopping):
    """Stop once the loss is less than a constant.

    - `loss`: the constant.
    - `when`: `"batch"` looks at the loss of each step, `"epoch"` at that of each epoch.

    It is a `stopping` of `nn.train` and `optim.minimise`.

        rule, method = optim.Below(0.5), optim.SGD(0.1)
        found = optim.minimise(lambda x: np.sum(x * x), [3.0], method, stopping=rule)
        found.value < 0.5                             # -> True
    """

    loss: float
    when: Literal["epoch", "batch"] = "batch"

    def __post_init__(self) -> None:
        check_number(self, "loss")
        _check_when(self, self.when)

    @property
    def every(self) -> Literal["epoch", "batch"]:
        return self.when

    def start(self) -> Memory:
        return {"least": None}

    def update(self, memory: Memory, loss: float) -> Memory:
        least = memory["least"]
        less = loss < (math.inf if least is None else least)  # NaN is less than nothing
        return {"least": max(loss, -sys.float_info.max)} if less else memory

    def reason(self, memory: Memory) -> str | None:
        least = memory["least"]
        below = least is not None and least < self.loss
        return f"loss below {self.loss:g}" if below else None


@dataclass(frozen=True)
class Early(Stopping):
    """Stop after some losses in a row of which none was better.

    - `patience`: how many.
    - `change`: a loss is better if it is less than the best by more than this.
    - `when`: `"epoch"` looks at the loss of each epoch, `"batch"` at that of each step.

    The loss is that of the validation data, where there are some.  NaN is no improvement.

        x = numpy.zeros((4, 1), "float32")
        model, rule = nn.Linear(1, 1), optim.Early(patience=2)
        history = nn.train(model, nn.mean_squared, (x, x), optim.SGD(0.0), 9, stopping=rule)
        len(history.loss)                             # -> 3
    """

    patience: int = 5
    change: float = 0.0
    when: Literal["epoch", "batch"] = "epoch"

    def __post_init__(self) -> None:
        if as_int(self.patience, "Early", "patience") < 1:
            raise value_error("Early", f"patience is {self.patience}; it must be at least 1")
        check_not_negative(self, "change")
        _check_when(self, self.when)

    @property
    def every(self) -> Literal["epoch", "batch"]:
        return self.when

    def start(self) -> Memory:
        return {"best": None, "waited": 0}

    def update(self, memory: Memory, loss: float) -> Memory:
        best, waited = memory["best"], memory["waited"] or 0
        if math.isfinite(loss) and (best is None or loss < best - self.change):
            return {"best": loss, "waited": 0}
        return {"best": best, "waited": waited + 1}

    def reason(self, memory: Memory) -> str | None:
        tired = (memory["waited"] or 0) >= self.patience
        return f"no improvement in {self.patience} losses" if tired else None


def _check_when(rule: Stopping, when: str) -> None:
    if when not in ("epoch", "batch"):
        raise value_error(type(rule).__name__, f"when is {when!r}; accepted: 'epoch', 'batch'")
