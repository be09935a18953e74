"""Training steps: forward, backward and update in one graph.

Parameters, running statistics and everything the optimiser remembers are variables with update
edges.  Their values lie in arrays that several programs share, one program for each size of batch,
so a last batch with fewer rows is computed as exactly as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

import tawny.numpy as tnp
from tawny.array import Array
from tawny.dtype import kind_of
from tawny.engine.protocol import Engine, engine_named
from tawny.errors import type_error, value_error
from tawny.graph.graph import Graph
from tawny.nn.module import Module
from tawny.nn.parameters import Declaration
from tawny.nn.training.data import Batch
from tawny.nn.training.programs import ProgramOptions, Programs
from tawny.ops.movement import zeros_node
from tawny.ops.random import local_seed
from tawny.optim.composition import Steps
from tawny.optim.structures import variables_for
from tawny.pages import copy_aligned
from tawny.scopes import scope
from tawny.tree import leaf_paths, leaves, map_leaves

Loss = Callable[[Any, Any], Any]
"""From predictions and targets to one number."""


def check_loss(value: object, op: str) -> None:
    """Refuse what is no function."""
    if not callable(value):
        raise type_error(op, f"the loss is {type(value).__name__}; it is a function")


class TrainingState(NamedTuple):
    """All that changes in training: values, or the variables that stand for them."""

    parameters: Any
    state: Any
    optimiser: Any

    def by_name(self) -> dict[str, Any]:
        """Every value by its kind and path: `parameters.0.weight`."""
        return {
            name: value
            for kind, structure in zip(self._fields, self, strict=True)
            for name, value in leaf_paths(structure, kind)
        }

    def variables(self) -> TrainingState:
        """Variables for all of it, called by these names."""
        return TrainingState(
            *(variables_for(x, kind) for kind, x in zip(self._fields, self, strict=True))
        )


def initial_state(model: Module, optimiser: Steps) -> TrainingState:
    """The values before the first step, in memory of their own."""
    if not leaves(model.parameters):
        has_frozen = any(isinstance(m, Declaration) and m.parameter for _, m in model.walk())
        frozen = " that is not frozen" if has_frozen else ""
        raise type_error(
            "nn", f"{type(model).__name__} has no parameter{frozen}: there is nothing to train"
        )
    parameters = map_leaves(copy_aligned, model.parameters)
    state = map_leaves(copy_aligned, model.state)
    return TrainingState(parameters, state, map_leaves(copy_aligned, optimiser.start(parameters)))


def in_memory_of(engine: Engine, state: TrainingState) -> TrainingState:
    """The values in an engine's memory."""
    return cast("TrainingState", map_leaves(engine.place, state))


def step_graph(
    model: Module, loss: Loss, optimiser: Steps, variables: TrainingState, batch: Batch, seed: int
) -> Graph:
    """One step over variables: gives the loss and the rate, and updates all of `variables`."""

    def objective(parameters: Any) -> tuple[Any, Any]:
        with local_seed(seed):  # every trace of the loss draws the same numbers
            prediction, state = model.advance(parameters, variables.state, *batch.inputs)
            with scope("loss"):
                value = one_number(loss(prediction, batch.target), "the loss")
            if kind_of(value.dtype) != "f":
                accepted = "accepted: real floating-point numbers"
                raise type_error("nn", f"the loss has dtype {value.dtype}; {accepted}")
            return value, state

    step = optimiser.advance(objective, variables.parameters, variables.optimiser, has_aux=True)
    if all(s.node is zeros_node(s.shape, s.dtype) for s in leaves(step.slope)):
        raise value_error(
            "nn", "the loss does not depend on any parameter of the model: nothing could be learnt"
        )
    sources = leaves(TrainingState(step.parameters, step.aux, step.state))
    targets = leaves(variables)
    updates = {t: s for t, s in zip(targets, sources, strict=True) if t.node is not s.node}
    fixed = [t for t in targets if t not in updates]
    rate = tnp.asarray(step.rate, dtype=tnp.float64)
    inputs = [*batch.arrays, *fixed]
    return Graph(inputs, (step.value, rate), updates, "training", unused="ignore")


def one_number(value: Any, what: str) -> Array:
    """A loss or metric as an array without axes."""
    if value is None or isinstance(value, (str, list, tuple, dict)):
        kind = type(cast("object", value)).__name__
        raise type_error("nn", f"{what} is {kind}; it must be one number")
    array = tnp.asarray(value)
    if array.shape:
        raise value_error("nn", f"{what} has shape {array.shape}; it must be one number")
    return array


class Stepper:
    """Steps of training: each sees a batch and changes the training state."""

    def __init__(
        self,
        model: Module,
        loss: Loss,
        optimiser: Steps,
        seed: int,
        options: ProgramOptions,
    ) -> None:
        engine = engine_named(options.engine)
        self.shared_state = in_memory_of(engine, initial_state(model, optimiser))
        """The values in the engine's memory, where all programs find them."""
        variables = self.shared_state.variables()
        self.programs = Programs(
            lambda batch: step_graph(model, loss, optimiser, variables, batch, seed),
            self.shared_state.by_name(),
            options,
        )

    @property
    def training_state(self) -> TrainingState:
        """The values of now, in the host's memory: copies where they lie on a device."""
        return cast("TrainingState", map_leaves(np.asarray, self.shared_state))

    def step(self, batch: Batch, number: int) -> tuple[float, float]:
        """The loss before step `number` and its rate, after all updates."""
        loss, rate = self.programs.run(batch, number)
        return float(loss), float(rate)
