"""Training: what a user asks for, checked and put together."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from numbers import Real
from typing import Any, cast

from tawny.bad_calls import explain_bad_calls
from tawny.errors import type_error, value_error
from tawny.graph.graph import Graph
from tawny.graph.profile.recording import record
from tawny.nn.module import Module, as_seed, check_module
from tawny.nn.training.callbacks import Callback, History, as_callbacks
from tawny.nn.training.checkpoints import (
    Checkpoint,
    as_checkpoint,
    without_addresses,
)
from tawny.nn.training.data import (
    BatchSource,
    IteratorSource,
    as_batch,
    as_source,
    batch_variables,
)
from tawny.nn.training.data_parallel import ClusterStepper
from tawny.nn.training.evaluation import Metrics, measure_table, shared_evaluator
from tawny.nn.training.programs import ProgramOptions
from tawny.nn.training.run import TrainingLength, TrainingRun
from tawny.nn.training.step import (
    Loss,
    StepMaker,
    Stepper,
    check_loss,
    initial_state,
    step_graph,
)
from tawny.optim.batches import Batches, Mini, Sample, as_batches
from tawny.optim.optimiser import as_optimiser
from tawny.optim.stopping import Stopping
from tawny.shape import as_int


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
    client: Any = None,
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
    - `resume`: such a file, or a path with fields for the newest whole one; training goes on from
      there to the same bits.  Where a rule of
      `stopping` had said to end, it makes no further step.
    - `callbacks`: functions that are called with what is going on after each step and epoch.
    - `progress`: whether to show a bar; None shows it on terminals.
    - `engine`, `precision`: as for `Graph.compile`.
    - `memory`: a budget for what a step computes, `"2GB"` or bytes; None sets no limit.
    - `profile`: whether to time every operation of every step; `history.profile` then has that,
      with what data, validation and callbacks took, and `.show()` draws it.
    - `client`: a `distributed.Client`, whose workers then make the steps together, each with some
      rows of every batch; `engine`, `memory` and `precision` are those of each.

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
    _check_options(progress, resume, profile, client)
    if metrics and validation is None:
        raise value_error("nn.train", "metrics are measured on validation data; none are given")
    rule = as_optimiser(optimiser, "nn.train")
    cut = Mini(100) if batch is None else as_batches(batch, "nn.train")
    number = _seed(seed, "nn.train")
    source = _source(data, batch, cut, number)
    options = ProgramOptions(engine, memory, precision)
    stepper: StepMaker = (
        Stepper(model, loss, rule, number, options)
        if client is None
        else ClusterStepper(client, model, loss, rule, number, options)
    )
    evaluation = None
    if validation is not None:
        table = measure_table(loss, metrics, "nn.train")
        here = options if client is None else options._replace(engine="cpu")
        evaluator = shared_evaluator(model, table, stepper.shared_state, here)
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


def _check_options(progress: object, resume: object, profile: object, client: object) -> None:
    """Refuse options of other types than they take."""
    if progress not in (True, False, None):
        raise type_error("nn.train", f"progress is {progress!r}; accepted: True, False and None")
    if resume is not None and not isinstance(resume, (str, os.PathLike)):
        raise type_error("nn.train", f"resume is {resume!r}; accepted: the path of a checkpoint")
    if not isinstance(profile, bool):
        raise type_error("nn.train", f"profile is {profile!r}; accepted: True, False")
    if profile and client is not None:
        raise value_error(
            "nn.train", "profile times steps in this process; a client makes none here"
        )


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
