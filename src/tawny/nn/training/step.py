"""Training steps: forward, backward and update in one graph.

Parameters, running statistics and everything the optimiser remembers are variables with update
edges.  Their values lie in arrays that several programs share, one program for each size of batch,
so a last batch with fewer rows is computed as exactly as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, cast

import tawny.numpy as tnp
from tawny.array import Array
from tawny.dtype import kind_of
from tawny.engine.protocol import Engine, engine_named
from tawny.errors import type_error, value_error
from tawny.graph.graph import Graph
from tawny.graph.program import Program
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
    objective = step_objective(model, loss, variables, batch, seed)
    step = optimiser.advance(objective, variables.parameters, variables.optimiser, has_aux=True)
    check_slopes(step.slope)
    sources = leaves(TrainingState(step.parameters, step.aux, step.state))
    targets = leaves(variables)
    updates = {t: s for t, s in zip(targets, sources, strict=True) if t.node is not s.node}
    fixed = [t for t in targets if t not in updates]
    rate = tnp.asarray(step.rate, dtype=tnp.float64)
    inputs = [*batch.arrays, *fixed]
    return Graph(inputs, (step.value, rate), updates, "training", unused="ignore")


def step_objective(
    model: Module, loss: Loss, variables: TrainingState, batch: Batch, seed: int
) -> Callable[[Any], tuple[Any, Any]]:
    """The loss of a batch as a function of the parameters, beside the running statistics."""

    def objective(parameters: Any) -> tuple[Any, Any]:
        with local_seed(seed):  # every trace of the loss draws the same numbers
            prediction, state = model.advance(parameters, variables.state, *batch.inputs)
            with scope("loss"):
                value = one_number(loss(prediction, batch.target), "the loss")
            if kind_of(value.dtype) != "f":
                accepted = "accepted: real floating-point numbers"
                raise type_error("nn", f"the loss has dtype {value.dtype}; {accepted}")
            return value, state

    return objective


def check_slopes(slope: Any) -> None:
    """Refuse a loss that depends on no parameter."""
    if all(s.node is zeros_node(s.shape, s.dtype) for s in leaves(slope)):
        raise value_error(
            "nn", "the loss does not depend on any parameter of the model: nothing could be learnt"
        )


def one_number(value: Any, what: str) -> Array:
    """A loss or metric as an array without axes."""
    if value is None or isinstance(value, (str, list, tuple, dict)):
        kind = type(cast("object", value)).__name__
        raise type_error("nn", f"{what} is {kind}; it must be one number")
    array = tnp.asarray(value)
    if array.shape:
        raise value_error("nn", f"{what} has shape {array.shape}; it must be one number")
    return array


class StepMaker(Protocol):
    """Steps of training, wherever they are made."""

    @property
    def shared_state(self) -> TrainingState:
        """The values, in the engine's memory, of the newest `refresh`."""
        ...

    @property
    def program(self) -> Program | None:
        """The compiled step for a batch of full size."""
        ...

    @property
    def workers(self) -> list[tuple[int, int]]:
        """From which step on there were how many workers; empty without a cluster."""
        ...

    def steps_at_once(self, most: float) -> int:
        """The number of steps that are best made in one call, `most` or fewer."""
        ...

    def advance(
        self, batches: Sequence[Batch], number: int, check: Callable[[], None]
    ) -> list[tuple[float, float]]:
        """Loss and rate of steps from `number` on, one for each batch.

        `check` may raise where nothing can be done but wait.
        """
        ...

    @property
    def copy_is_due(self) -> bool:
        """Whether `shared_state` should be refreshed though nobody asks for it."""
        ...

    def refresh(self) -> None:
        """Let `shared_state` have the values of now."""
        ...

    def return_to_copy(self, step: int) -> None:
        """Go on from the values of `shared_state`, those before a step."""
        ...

    def close(self) -> None:
        """Make no more steps."""
        ...


class Stepper:
    """Steps of training in this process."""

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
        self.workers = list[tuple[int, int]]()
        self.copy_is_due = False
        self._programs = Programs(
            lambda batch: step_graph(model, loss, optimiser, variables, batch, seed),
            self.shared_state.by_name(),
            options,
        )

    @property
    def program(self) -> Program | None:
        return self._programs.first

    def steps_at_once(self, most: float) -> int:
        return 1

    def advance(
        self, batches: Sequence[Batch], number: int, check: Callable[[], None]
    ) -> list[tuple[float, float]]:
        runs = [self._programs.run(batch, step) for step, batch in enumerate(batches, number)]
        return [(float(loss), float(rate)) for loss, rate in runs]

    def refresh(self) -> None:
        """Nothing: steps change `shared_state` itself."""

    def return_to_copy(self, step: int) -> None:
        """Nothing: no values are lost."""

    def close(self) -> None:
        """Nothing: programs go with the last reference."""
