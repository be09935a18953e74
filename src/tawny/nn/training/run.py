"""A training under way: epochs of steps, and what is done between them."""

from __future__ import annotations

import math
import os
import time
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from typing import Final, Literal, NamedTuple, cast

import numpy as np

from tawny.errors import warn
from tawny.graph.profile.recording import ProfileRecording
from tawny.nn.module import Module
from tawny.nn.training import checkpoints
from tawny.nn.training.callbacks import Callback, History, TrainingEvent
from tawny.nn.training.checkpoints import Checkpoint, TrainingPosition
from tawny.nn.training.data import Batch, BatchSource, nonfinite_arrays
from tawny.nn.training.data_parallel import ReplicasLostError
from tawny.nn.training.evaluation import Evaluator
from tawny.nn.training.step import StepMaker, TrainingState
from tawny.nn.training.terminal import Interrupts, Progress, defer_interrupts, show_progress
from tawny.optim.stopping import Stopping
from tawny.tree import map_leaves

PHASES: Final = (
    *("data", "first step and its building", "steps"),
    *("validation", "callbacks and checkpoints"),
)
"""What the time of a training is spent on."""


class TrainingLength(NamedTuple):
    """The length of training, in epochs and batches."""

    epochs: int
    """Epochs to begin."""
    steps: float
    """The most steps to make."""
    reason: str = "steps"
    """Why training ends with these steps."""


class TrainingRun:
    """A training under way."""

    def __init__(
        self,
        model: Module,
        stepper: StepMaker,
        data: BatchSource,
        evaluation: tuple[Evaluator, BatchSource] | None,
        rules: tuple[Stopping, ...],
        checkpoint: Checkpoint | None,
        callbacks: tuple[Callback, ...],
        about: dict[str, str],
    ) -> None:
        self.model = model
        self.stepper = stepper
        self.data = data
        self.evaluation = evaluation
        self.rules = rules
        self.checkpoint = checkpoint
        self.callbacks = callbacks
        self.about = about
        self.history = History()
        self.where: TrainingPosition = TrainingPosition(stopping=[rule.start() for rule in rules])
        self._safe: TrainingPosition = deepcopy(self.where)
        """Where training stood when the stepper's values were refreshed."""
        self._reason: str | None = None
        self._warned = False
        self._phases = dict.fromkeys(PHASES, 0.0)

    # ------------------------------------------------------------------ control

    def stop(self, reason: str) -> None:
        """End at the next occasion; the first reason stands."""
        self._reason = self._reason or reason

    def note_profile(self, recording: ProfileRecording) -> None:
        """Let the history have what was measured of the steps."""
        program = self.stepper.program
        found = None if program is None else recording.profile_of(program)
        if found is not None:
            phases = {name: seconds for name, seconds in self._phases.items() if seconds}
            self.history.profile = replace(found, phases=phases)

    def current_state(self) -> TrainingState:
        """The values of now, in the host's memory."""
        self._refresh()
        return cast("TrainingState", map_leaves(np.asarray, self.stepper.shared_state))

    def update_model(self) -> None:
        """Let the model have copies of the values of now."""
        state = self.current_state()
        self.model.parameters, self.model.state = state.parameters, state.state

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Go on where a checkpoint was written."""
        where, history = checkpoints.restore(
            checkpoints.newest_file(path),
            self.stepper.shared_state.by_name(),
            self.about,
            self.where.stopping,
        )
        self.where, self.history = where, history
        self._safe = deepcopy(where)
        self._apply_stopping()

    # -------------------------------------------------- values that are elsewhere

    def _refresh(self) -> None:
        """Let the stepper's values here be those of now, so that training can go on from them."""
        self.stepper.refresh()
        self._safe = deepcopy(self.where)

    def _return(self) -> None:
        """Go back to the values that are here: all later ones are lost."""
        self.where, history = deepcopy(self._safe), self.history
        del history.batch_loss[self.where.step :], history.rate[self.where.step :]
        for epochs in (history.loss, *history.validation.values()):
            del epochs[self.where.epoch :]
        history.workers = [known for known in history.workers if known[0] < self.where.step]
        self.stepper.return_to_copy(self.where.step)
        self._reason = None
        self._apply_stopping()

    def _finish(self) -> None:
        """Let the model have the newest values that can be had."""
        try:
            self._refresh()
        except (ReplicasLostError, ConnectionError):
            self._return()
        state = map_leaves(np.asarray, self.stepper.shared_state)
        self.model.parameters, self.model.state = state.parameters, state.state
        self.stepper.close()

    # -------------------------------------------------------------------- loops

    def run(self, length: TrainingLength, show: bool | None) -> None:
        """All epochs; whatever happens, the model gets the values reached."""
        with defer_interrupts() as interrupts:
            try:
                with show_progress(show, length.epochs, self.data.count()) as progress:
                    self._epochs(length, progress, interrupts)
                interrupts.check()
                self.history.reason = self._reason or "epochs"
            except (KeyboardInterrupt, ConnectionError) as error:
                self._finish()
                self.history.reason = "interrupted"
                error.add_note(
                    f"training was interrupted after step {self.where.step}; "
                    "the model has the values reached by then"
                )
                raise
            finally:
                self.history.program = self.stepper.program
                self._finish()

    def _epochs(self, length: TrainingLength, progress: Progress, interrupts: Interrupts) -> None:
        """All epochs, some of their steps again where the workers that had made them are gone."""
        while True:
            try:
                while self.where.epoch < length.epochs and (
                    self._reason is None or self._epoch_is_over()
                ):
                    self._epoch(length, progress, interrupts)
                self._refresh()
            except ReplicasLostError:
                self._return()
            else:
                return

    def _epoch(self, length: TrainingLength, progress: Progress, interrupts: Interrupts) -> None:
        """One epoch, or what is left of it."""
        where = self.where
        batches = self.data.epoch(where.epoch, where.position)
        while True:
            if where.step >= length.steps:
                self.stop(length.reason)
            interrupts.check()
            if self._reason is not None:
                if self._epoch_is_over():
                    break
                return
            start = time.perf_counter()
            taken = list(islice(batches, self.stepper.steps_at_once(self._steps_allowed(length))))
            self._phases["data"] += time.perf_counter() - start
            if not taken:
                break
            self._steps(taken, progress, interrupts)
        self._end_of_epoch(progress)

    def _epoch_is_over(self) -> bool:
        """Whether all batches of the epoch are done but its end, where their number is known."""
        return self.where.position > 0 and self.where.position == self.data.count()

    def _steps_allowed(self, length: TrainingLength) -> float:
        """How many steps may be made before somebody looks at the values."""
        if self.callbacks or any(rule.every == "batch" for rule in self.rules):
            return 1
        most = length.steps - self.where.step
        due = math.inf if self.checkpoint is None else self.checkpoint.steps_left(self.where.step)
        return min(most, due)

    def _steps(self, batches: list[Batch], progress: Progress, interrupts: Interrupts) -> None:
        start = time.perf_counter()
        made = self.stepper.advance(batches, self.where.step, interrupts.check)
        took = time.perf_counter() - start
        self.history.seconds += took
        first = not self.history.batch_loss
        self._phases["first step and its building" if first else "steps"] += took
        self._note_workers()
        for batch, (loss, rate) in zip(batches, made, strict=True):
            self._record(batch, loss, rate, progress)
        if self.stepper.copy_is_due:
            self._refresh()

    def _note_workers(self) -> None:
        """Let the history know how many workers have made the steps, where it is to."""
        known = self.history.workers
        for step, count in self.stepper.workers or [(self.where.step, 1)] * bool(known):
            if not known or (step >= known[-1][0] and count != known[-1][1]):
                known.append((step, count))

    def _record(self, batch: Batch, loss: float, rate: float, progress: Progress) -> None:
        """Note a step that was made, and tell whoever wants to know."""
        where, history = self.where, self.history
        history.batch_loss.append(loss)
        history.rate.append(rate)
        where.step += 1
        where.position += 1
        where.rows += batch.rows
        where.total += loss * batch.rows
        if not math.isfinite(loss) and not self._warned:
            self._warned = True
            self._warn(loss, batch)
        progress.step(where.epoch, where.position, loss, rate)
        self._update_stopping("batch", loss)
        self._notify("batch", where.epoch, loss, {})

    def _warn(self, loss: float, batch: Batch) -> None:
        """Say once that the loss is no finite number, and of which data."""
        names = nonfinite_arrays(batch)
        cause = f"; its batch has NaN or infinities in {' and '.join(names)}" if names else ""
        warn(f"nn.train: the loss of step {self.where.step} is {loss}{cause}", RuntimeWarning)

    def _end_of_epoch(self, progress: Progress) -> None:
        where, history = self.where, self.history
        done, loss = where.epoch, where.total / where.rows
        found: dict[str, float] = {}
        if self.evaluation is not None:
            evaluator, data = self.evaluation
            self._refresh()
            start = time.perf_counter()
            found = evaluator.measure(data)
            self._phases["validation"] += time.perf_counter() - start
        history.loss.append(loss)
        for name, value in found.items():
            history.validation.setdefault(name, []).append(value)
        where.epoch, where.position, where.rows, where.total = done + 1, 0, 0, 0.0
        progress.epoch(done, loss, found)
        self._update_stopping("epoch", found.get("loss", loss))
        self._notify("epoch", done, loss, found)

    def _update_stopping(self, event: str, loss: float) -> None:
        for i, rule in enumerate(self.rules):
            if rule.every == event:
                self.where.stopping[i] = rule.update(self.where.stopping[i], loss)
        self._apply_stopping()

    def _apply_stopping(self) -> None:
        """Stop if a rule says so by what it remembers."""
        for rule, memory in zip(self.rules, self.where.stopping, strict=True):
            if (reason := rule.reason(memory)) is not None:
                self.stop(reason)

    def _notify(
        self, event: Literal["batch", "epoch"], epoch: int, loss: float, found: dict[str, float]
    ) -> None:
        """Call callbacks, and write a checkpoint if one is due."""
        if not self.callbacks and self.checkpoint is None:
            return
        where, start = self.where, time.perf_counter()
        rate = self.history.rate[-1]
        happened = TrainingEvent(event, epoch, where.step, loss, rate, found, self.history, self)
        for callback in self.callbacks:
            callback(happened)
        if self.checkpoint is not None and self.checkpoint.is_due(happened):
            path = self.checkpoint.path_at(where.step, epoch)
            arrays = self.current_state().by_name()
            checkpoints.save(path, arrays, where, self.history, self.about)
        self._phases["callbacks and checkpoints"] += time.perf_counter() - start
