"""Models on data, in inference mode, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

import tawny.numpy as tnp
from tawny.array import Array
from tawny.bad_calls import explain_bad_calls
from tawny.errors import type_error, value_error
from tawny.graph.graph import Graph
from tawny.nn.module import Module, check_module
from tawny.nn.training.data import Batch, BatchSource, as_batch, as_source, take_rows
from tawny.nn.training.programs import CachedPrograms, ProgramOptions, Programs
from tawny.nn.training.step import Loss, TrainingState, check_loss, one_number
from tawny.node import Value
from tawny.optim.batches import Mini
from tawny.tree import leaves, map_together

Metrics = Mapping[str, Callable[[Any, Any], Any]]
"""Functions from predictions and targets to one number, by name."""


def accuracy(prediction: Any, target: Any) -> Any:
    """The share of rows whose greatest score is at the target.

    - `prediction`: scores, (..., classes), of two classes or more.
    - `target`: class indices, (...), or one-hot rows.

    Gives one number, as a metric of `nn.train` or `nn.evaluate`.

        float(nn.accuracy([[0.1, 0.9], [0.8, 0.2]], [1, 1]))   # -> 0.5
    """
    prediction, target = tnp.asarray(prediction), tnp.asarray(target)
    if prediction.shape[-1:] in ((), (1,)):
        raise value_error(
            "accuracy",
            f"the prediction has shape {prediction.shape}; accepted: (..., classes), a score for "
            "each of two or more (for one score: lambda p, t: np.mean((p > 0) == (t > 0.5)))",
        )
    if target.shape not in (prediction.shape[:-1], prediction.shape):
        raise value_error(
            "accuracy",
            f"the target has shape {target.shape}; accepted: classes of shape "
            f"{prediction.shape[:-1]}, or one-hot rows of shape {prediction.shape}",
        )
    wanted = target if target.ndim < prediction.ndim else tnp.argmax(target, axis=-1)
    return tnp.mean(tnp.astype(tnp.argmax(prediction, axis=-1) == wanted, tnp.float64))


class Evaluator:
    """Loss and metrics of a model on data."""

    def __init__(self, measures: Metrics, programs: Programs) -> None:
        self._names = list(measures)
        self._programs = programs

    def prepare(self, data: BatchSource) -> None:
        """Compile what the first batch needs, where there is one to look at."""
        batch = data.sample()
        if batch is not None:
            self._programs.program_for(batch)

    def measure(self, data: BatchSource) -> dict[str, float]:
        """Means over all rows: each batch counts as much as it has rows."""
        sums, rows = np.zeros(len(self._names)), 0
        for batch in data.epoch(0):
            values = self._programs.run(batch, 0)
            sums += np.array([float(v) for v in values]) * batch.rows
            rows += batch.rows
        return dict(zip(self._names, (sums / rows).tolist(), strict=True))


def shared_evaluator(
    model: Module,
    measures: Metrics,
    training_state: TrainingState,
    options: ProgramOptions,
) -> Evaluator:
    """An evaluator of parameters that lie in memory shared with a training step."""
    shared = TrainingState(training_state.parameters, training_state.state, {})
    parameters, state, _ = shared.variables()

    def build(batch: Batch) -> Graph:
        prediction = model.apply(parameters, *batch.inputs, state=state)
        inputs = [*batch.arrays, *leaves((parameters, state))]
        outputs = _measure_all(measures, prediction, batch.target)
        return Graph(inputs, outputs, name="evaluation", unused="ignore")

    return Evaluator(measures, Programs(build, shared.by_name(), options))


def _measure_all(measures: Metrics, prediction: Any, target: Any) -> tuple[Array, ...]:
    """The value of each of the measures."""
    return tuple(one_number(m(prediction, target), name) for name, m in measures.items())


def measure_table(loss: Loss, metrics: Metrics | None, op: str) -> dict[str, Callable[..., Any]]:
    """The loss and the metrics in one table."""
    if metrics is not None and not isinstance(cast("object", metrics), Mapping):
        raise type_error(
            op, f"metrics is {type(metrics).__name__}; accepted: functions by name, a dict"
        )
    extra = dict(metrics or {})
    if "loss" in extra:
        raise value_error(op, "a metric is called 'loss', as the loss is")
    for name, metric in extra.items():
        if not callable(metric):
            raise type_error(op, f"metric {name!r} is {type(metric).__name__}; it is a function")
    return {"loss": loss, **extra}


@explain_bad_calls
def evaluate(
    model: Module,
    loss: Loss,
    data: Any,
    *,
    metrics: Metrics | None = None,
    batch: int = 100,
    engine: str = "cpu",
    memory: str | int | None = None,
    precision: str | None = None,
) -> dict[str, float]:
    """Loss and metrics of a model on data, as means over all rows.

    - `model`: an `nn.Module`, which computes in inference mode.
    - `loss`: a function `loss(prediction, target)` that gives one number.
    - `data`: `(x, y)`, or an iterable of batches, as for `nn.train`.
    - `metrics`: further such functions by name; means over batches are weighed by their rows.
    - `batch`: how many rows are computed at a time.
    - `engine`, `precision`: as for `Graph.compile`.
    - `memory`: a budget for what a batch computes, `"2GB"` or bytes; None sets no limit.

    Gives a dict of numbers by name, with the loss under `"loss"`.

        x = numpy.ones((4, 3), "float32")
        found = nn.evaluate(nn.Linear(3, 1), nn.mean_squared, (x, numpy.zeros((4, 1), "float32")))
        list(found)                                   # -> ['loss']
    """
    check_module(model, "nn.evaluate")
    check_loss(loss, "nn.evaluate")
    batches = as_source(data, Mini(batch, shuffle=False), 0, "nn.evaluate")
    table = measure_table(loss, metrics, "nn.evaluate")

    def build(batch: Batch) -> Graph:
        outputs = _measure_all(table, model(*batch.inputs), batch.target)
        return Graph(batch.arrays, outputs, name="evaluation", unused="ignore")

    purpose = tuple((name, id(measure)) for name, measure in table.items())
    programs = CachedPrograms(model, purpose, build, ProgramOptions(engine, memory, precision))
    return Evaluator(table, programs).measure(batches)


@explain_bad_calls
def predict(
    model: Module,
    *inputs: Any,
    batch: int = 100,
    engine: str = "cpu",
    memory: str | int | None = None,
    precision: str | None = None,
) -> Any:
    """What the model gives for any number of rows, computed some rows at a time.

    - `model`: an `nn.Module`, which computes in inference mode.
    - `inputs`: an array for each argument of the model; their first axis counts the samples.
    - `batch`: how many rows are computed at a time.
    - `engine`, `precision`: as for `Graph.compile`.
    - `memory`: a budget for what a batch computes, `"2GB"` or bytes; None sets no limit.

    Gives a NumPy array, or a structure of them as the model gives it.  Programs are kept with the
    model: the next call with batches of the same shape compiles nothing, as long as the
    parameters have the same values.

        model = nn.Sequential(nn.Linear(3, 8), nn.relu, nn.Linear(8, 2))
        nn.predict(model, numpy.ones((250, 3), "float32")).shape   # -> (250, 2)
    """
    check_module(model, "nn.predict")
    size = Mini(batch).size
    data = as_batch((inputs, ()), "nn.predict")
    if not data.rows:
        raise value_error("nn.predict", "the inputs have no rows")

    def build(batch: Batch) -> Graph:
        return Graph(leaves(batch.inputs), model(*batch.inputs), unused="ignore")

    programs = CachedPrograms(model, "predict", build, ProgramOptions(engine, memory, precision))
    parts: list[Any] = []
    for first in range(0, data.rows, size):
        some = data._replace(inputs=take_rows(data.inputs, slice(first, first + size)))
        parts.append(programs.run(some))
    return map_together(_concatenate, *parts)


def _concatenate(*pieces: Value) -> Value:
    return np.concatenate(pieces)
