"""Training: epochs of steps, each of them one run of one program."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from numbers import Real
from typing import Any, Final, Literal, NamedTuple, cast

from tawny.bad_calls import explain_bad_calls
from tawny.errors import type_error, value_error, warn
from tawny.graph.graph import Graph
from tawny.graph.profile.recording import ProfileRecording, record
from tawny.nn.module import Module, as_seed, check_module
from tawny.nn.training import checkpoints
from tawny.nn.training.callbacks import Callback, History, TrainingEvent, as_callbacks
from tawny.nn.training.checkpoints import (
    Checkpoint,
    TrainingPosition,
    as_checkpoint,
    without_addresses,
)
from tawny.nn.training.data import (
    Batch,
    BatchSource,
    IteratorSource,
    as_batch,
    as_source,
    batch_variables,
    nonfinite_arrays,
)
from tawny.nn.training.evaluation import Evaluator, Metrics, measure_table, shared_evaluator
from tawny.nn.training.programs import ProgramOptions
from tawny.nn.training.step import (
    Loss,
    Stepper,
    check_loss,
    initial_state,
    step_graph,
)
from tawny.nn.training.terminal import Interrupts, Progress, defer_interrupts, show_progress
from tawny.optim.batches import Batches, Mini, Sample, as_batches
from tawny.optim.optimiser import as_optimiser
from tawny.optim.stopping import Stopping
from tawny.shape import as_int

PHASES: Final = (
    *("data", "first step and its building", "steps"),
    *("validation", "callbacks and checkpoints"),
)
"""What the time of a training is spent on."""


@explain_bad_calls
def train(
    model: Module,
    loss: Loss,
    data: Any,
    optimiser: Any,
    epochs: float = 1,
    *,
    batch: int | Batches | None = None,
    seed: int = 0,
    steps: int | None = None,
    validation: Any = None,
    metrics: Metrics | None = None,
    stopping: Stopping | Sequence[Stopping] | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    callbacks: Iterable[Callback] = (),
    progress: bool | None = None,
    engine: str = "cpu",
    memory: str | int | None = None,
    precision: str | None = None,
    profile: bool = False,
) -> History:
    """Train a model on data; it has the trained values at the end, however training ends.

    - `model`: an `nn.Module`.
    - `loss`: a function `loss(prediction, target)` that gives one number.
    - `data`: `(x, y)`, arrays whose first axis counts the samples (a tuple x has one for each
      argument of the model), or an iterable of such pairs, one for each batch.
    - `optimiser`: an optimiser of `tawny.optim`, as `optim.Adam(0.001)`.
    - `epochs`: how often all rows are seen; 0.1 epochs are a tenth of an epoch's steps.
    - `batch`: how arrays are cut: a number of rows, 100 when None, or one of `optim.Full`,
      `Mini`, `Sample` and `Stochastic`.
    - `seed`: decides the order of rows and what random layers draw.
    - `steps`: the most updates to make; None sets no limit.
    - `validation`: data, given as `data` are, that are measured after each epoch.
    - `metrics`: further functions by name, measured beside the loss on the validation data.
    - `stopping`: a rule such as `optim.Early()`, or several, that may end training.
    - `checkpoint`: a path, or `nn.Checkpoint`: where and when to write files to resume from.
    - `resume`: such a file; training goes on from there to the same bits.  Where a rule of
      `stopping` had said to end, it makes no further step.
    - `callbacks`: functions that are called with what is going on after each step and epoch.
    - `progress`: whether to show a bar; None shows it on terminals.
    - `engine`, `precision`: as for `Graph.compile`.
    - `memory`: a budget for what a step computes, `"2GB"` or bytes; None sets no limit.
    - `profile`: whether to time every operation of every step; `history.profile` then has that,
      with what data, validation and callbacks took, and `.show()` draws it.

    Gives a `History`: `loss` of each epoch, `batch_loss` and `rate` of each step, `validation`,
    `reason` why it ended, and `seconds`.

        x = numpy.linspace(-1, 1, 20, dtype="float32").reshape(20, 1)
        model = nn.Linear(1, 1)
        history = nn.train(model, nn.mean_squared, (x, 3 * x), optim.SGD(0.5), epochs=20, batch=5)
        history.loss[-1] < history.loss[0]            # -> True
    """
    check_module(model, "nn.train")
    check_loss(loss, "nn.train")
    _check_length(epochs, steps)
    _check_options(progress, resume, profile)
    if metrics and validation is None:
        raise value_error("nn.train", "metrics are measured on validation data; none are given")
    rule = as_optimiser(optimiser, "nn.train")
    cut = Mini(100) if batch is None else as_batches(batch, "nn.train")
    number = _seed(seed, "nn.train")
    source = _source(data, batch, cut, number)
    options = ProgramOptions(engine, memory, precision)
    stepper = Stepper(model, loss, rule, number, options)
    evaluation = None
    if validation is not None:
        table = measure_table(loss, metrics, "nn.train")
        evaluator = shared_evaluator(model, table, stepper.shared_state, options)
        held_out = as_source(validation, _validation_batches(cut), 0, "nn.train: validation")
        evaluation = evaluator, held_out
    training = TrainingRun(
        model,
        stepper,
        source,
        evaluation,
        _as_rules(stopping),
        as_checkpoint(checkpoint),
        as_callbacks(callbacks),
        {
            "optimiser": without_addresses(repr(rule)),
            "data": source.description(),
            "seed": str(number),
        },
    )
    if evaluation is not None:
        evaluation[0].prepare(evaluation[1])  # what cannot be measured is refused before all steps
    if resume is not None:
        training.resume(resume)
    length = _length(epochs, steps, source)
    with record() if profile else nullcontext() as recording:
        training.run(length, progress)
    if recording is not None:
        training.note_profile(recording)
    return training.history


def _check_options(progress: object, resume: object, profile: object) -> None:
    """Refuse options of other types than they take."""
    if progress not in (True, False, None):
        raise type_error("nn.train", f"progress is {progress!r}; accepted: True, False and None")
    if resume is not None and not isinstance(resume, (str, os.PathLike)):
        raise type_error("nn.train", f"resume is {resume!r}; accepted: the path of a checkpoint")
    if not isinstance(profile, bool):
        raise type_error("nn.train", f"profile is {profile!r}; accepted: True, False")


def _source(data: Any, batch: object, cut: Batches, seed: int) -> BatchSource:
    """The source of the batches of training."""
    source = as_source(data, cut, seed, "nn.train")
    if batch is not None and isinstance(source, IteratorSource):
        raise value_error(
            "nn.train",
            f"batch is {batch!r}, but the data come in batches; arrays (x, y) are cut into such",
        )
    return source


def training_graph(model: Module, loss: Loss, data: Any, optimiser: Any, *, seed: int = 0) -> Graph:
    """The graph of one training step for a batch: forward, backward and update.

    - `model`, `loss`, `optimiser`: as for `nn.train`.
    - `data`: a batch `(x, y)`, of which shapes and dtypes matter alone.
    - `seed`: decides what random layers draw.

    Its outputs are the loss and the rate; parameters, running statistics and what the optimiser
    remembers are variables with update edges.

        batch = numpy.zeros((5, 3), "float32"), numpy.zeros((5, 1), "float32")
        graph = nn.training_graph(nn.Linear(3, 1), nn.mean_squared, batch, optim.SGD(0.1))
        graph.plan().peak_bytes > 0                   # -> True
    """
    check_module(model, "nn.training_graph")
    check_loss(loss, "nn.training_graph")
    rule = as_optimiser(optimiser, "nn.training_graph")
    variables = initial_state(model, rule).variables()
    batch = batch_variables(as_batch(data, "nn.training_graph"))
    return step_graph(model, loss, rule, variables, batch, _seed(seed, "nn.training_graph"))


class TrainingRun:
    """A training under way."""

    def __init__(
        self,
        model: Module,
        stepper: Stepper,
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
        self.where = TrainingPosition(stopping=[rule.start() for rule in rules])
        self._reason: str | None = None
        self._warned = False
        self._phases = dict.fromkeys(PHASES, 0.0)

    # ------------------------------------------------------------------ control

    def stop(self, reason: str) -> None:
        """End at the next occasion; the first reason stands."""
        self._reason = self._reason or reason

    def note_profile(self, recording: ProfileRecording) -> None:
        """Let the history have what was measured of the steps."""
        program = self.stepper.programs.first
        found = None if program is None else recording.profile_of(program)
        if found is not None:
            phases = {name: seconds for name, seconds in self._phases.items() if seconds}
            self.history.profile = replace(found, phases=phases)

    def update_model(self) -> None:
        """Let the model have copies of the values of now."""
        state = self.stepper.training_state
        self.model.parameters, self.model.state = state.parameters, state.state

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Go on where a checkpoint was written."""
        where, history = checkpoints.restore(
            path, self.stepper.shared_state.by_name(), self.about, self.where.stopping
        )
        self.where, self.history = where, history
        self._apply_stopping()

    # -------------------------------------------------------------------- loops

    def run(self, length: TrainingLength, show: bool | None) -> None:
        """All epochs; whatever happens, the model gets the values reached."""
        with defer_interrupts() as interrupts:
            try:
                with show_progress(show, length.epochs, self.data.count()) as progress:
                    while self.where.epoch < length.epochs and (
                        self._reason is None or self._epoch_is_over()
                    ):
                        self._epoch(length, progress, interrupts)
                interrupts.check()
                self.history.reason = self._reason or "epochs"
            except KeyboardInterrupt as interrupt:
                self.history.reason = "interrupted"
                interrupt.add_note(
                    f"training was interrupted after step {self.where.step}; "
                    "the model has the values reached by then"
                )
                raise
            finally:
                self.history.program = self.stepper.programs.first
                self.update_model()

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
            batch = next(batches, None)
            self._phases["data"] += time.perf_counter() - start
            if batch is None:
                break
            self._step(batch, progress)
        self._end_of_epoch(progress)

    def _epoch_is_over(self) -> bool:
        """Whether all batches of the epoch are done but its end, where their number is known."""
        return self.where.position > 0 and self.where.position == self.data.count()

    def _step(self, batch: Batch, progress: Progress) -> None:
        where, history = self.where, self.history
        start = time.perf_counter()
        loss, rate = self.stepper.step(batch, where.step)
        took = time.perf_counter() - start
        history.seconds += took
        self._phases["steps" if history.batch_loss else "first step and its building"] += took
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
            arrays = self.stepper.training_state.by_name()
            checkpoints.save(path, arrays, where, self.history, self.about)
        self._phases["callbacks and checkpoints"] += time.perf_counter() - start


def _seed(value: object, op: str) -> int:
    """A seed that random draws in graphs can take."""
    number = as_seed(value, op)
    if number >= 2**64:
        raise value_error(op, f"seed is {number}; it must be less than 2**64")
    return number


def _check_length(epochs: object, steps: object) -> None:
    if isinstance(epochs, bool) or not isinstance(epochs, Real):
        raise type_error("nn.train", f"epochs is {epochs!r}; accepted: a number")
    count = 0 if steps is None else as_int(steps, "nn.train", "steps")
    if not 0 <= float(epochs) < math.inf:
        raise value_error("nn.train", f"epochs is {epochs}; it must be finite and at least 0")
    if count < 0:
        raise value_error("nn.train", f"steps is {steps}; it must be at least 0")


class TrainingLength(NamedTuple):
    """The length of training, in epochs and batches."""

    epochs: int
    """Epochs to begin."""
    steps: float
    """The most steps to make."""
    reason: str = "steps"
    """Why training ends with these steps."""


def _length(epochs: float, steps: int | None, data: BatchSource) -> TrainingLength:
    most = math.inf if steps is None else steps
    if epochs == int(epochs):
        return TrainingLength(int(epochs), most)
    count = data.count()
    if count is None:
        raise value_error(
            "nn.train", f"epochs is {epochs}; of data without a length only whole ones can be seen"
        )
    share = round(epochs * count)
    return TrainingLength(
        math.ceil(epochs), min(most, share), "steps" if most < share else "epochs"
    )


def _validation_batches(batches: Batches) -> Batches:
    """How validation data are cut: as training data, but in order."""
    size = batches.size if isinstance(batches, (Mini, Sample)) else 0
    return Mini(max(size, 100), shuffle=False)


def _as_rules(given: Stopping | Sequence[Stopping] | None) -> tuple[Stopping, ...]:
    several = isinstance(cast("object", given), (tuple, list))
    rules = () if given is None else tuple(cast("list[Any]", given)) if several else (given,)
    for rule in rules:
        if not isinstance(rule, Stopping):
            raise type_error("nn.train", f"stopping is {rule!r}; accepted: rules of tawny.optim")
    return cast("tuple[Stopping, ...]", rules)
