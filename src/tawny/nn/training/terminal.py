"""Training at a terminal: a progress bar with loss and rate, and Ctrl-C between steps."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Protocol, final

from tawny.progress import is_shown, progress

INTERVAL: Final = 0.1
"""Seconds between two changes of what is shown."""


class Progress(Protocol):
    """Something that shows how training goes."""

    def step(self, epoch: int, done: int, loss: float, rate: float) -> None:
        """Show a step, the epoch's `done`-th."""
        ...

    def epoch(self, number: int, loss: float, validation: dict[str, float]) -> None:
        """Show the end of an epoch."""
        ...


@final
class NoProgress:
    """Shows nothing."""

    def step(self, epoch: int, done: int, loss: float, rate: float) -> None:
        """Show nothing."""

    def epoch(self, number: int, loss: float, validation: dict[str, float]) -> None:
        """Show nothing."""


@final
class ProgressBar:
    """A line for the current epoch; epochs that are over stay above it."""

    def __init__(self, bar: Any, epochs: int, batches: int | None) -> None:
        self._bar = bar
        self._epochs = epochs
        self._batches = batches
        self._task = bar.add_task("", total=batches, epoch=1, epochs=epochs, text="")
        self._shown = 0.0

    def step(self, epoch: int, done: int, loss: float, rate: float) -> None:
        """Move on, but do not draw more often than one can see."""
        now = time.monotonic()
        if now - self._shown >= INTERVAL:
            self._shown = now
            text = f"loss {loss:.4g}  rate {rate:.3g}"
            self._bar.update(self._task, completed=done, epoch=epoch + 1, text=text)

    def epoch(self, number: int, loss: float, validation: dict[str, float]) -> None:
        """Leave a line for the epoch and start again."""
        words = [f"epoch {number + 1}/{self._epochs}", f"loss {loss:.4g}"]
        words += [f"validation {name} {value:.4g}" for name, value in validation.items()]
        self._bar.console.print("  ".join(words), highlight=False)
        if number + 1 < self._epochs:
            self._bar.update(self._task, epoch=number + 2)
            self._bar.reset(self._task, total=self._batches)


@contextmanager
def show_progress(show: bool | None, epochs: int, batches: int | None) -> Generator[Progress]:
    """A bar on the standard error output if it is a terminal, or if `show` says so."""
    if show is False or (show is None and not is_shown()):
        yield NoProgress()
        return
    from rich import console  # noqa: PLC0415  (needed on terminals only)
    from rich import progress as columns  # noqa: PLC0415

    shown = columns.Progress(
        columns.TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
        columns.BarColumn(),
        columns.MofNCompleteColumn(),
        columns.TextColumn("{task.fields[text]}"),
        columns.TimeRemainingColumn(),
        console=console.Console(stderr=True),
        transient=True,
    )
    with progress("training", silent=True), shown as bar:
        yield ProgressBar(bar, epochs, batches)


@final
class Interrupts:
    """Remembers that the user wants to stop."""

    def __init__(self) -> None:
        self.wanted = False

    def check(self) -> None:
        """Stop here, if the user wants to."""
        if self.wanted:
            raise KeyboardInterrupt

    def notice(self, number: int, frame: FrameType | None) -> None:
        """A first Ctrl-C waits for the end of the step; a second one does not."""
        if self.wanted:
            signal.default_int_handler(number, frame)
        self.wanted = True


@contextmanager
def defer_interrupts() -> Generator[Interrupts]:
    """Within the block Ctrl-C only sets a mark; at its end it takes effect.

    Somebody else's handler of the signal is left alone, and so are other threads.
    """
    interrupts = Interrupts()
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not ours:
        yield interrupts
        return
    signal.signal(signal.SIGINT, interrupts.notice)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
