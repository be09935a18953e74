"""Steps of training by the workers of a cluster, each with some rows of every batch.

A step is two programs on each worker: loss, gradients and running statistics of its own rows, and
the update from their means over all workers.  Both are graphs that travel as files, so workers need
none of the user's code.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import tawny
import tawny.numpy as tnp
from tawny.autodiff.functions import value_and_grad
from tawny.distributed.clients import as_client
from tawny.distributed.dask import Client
from tawny.distributed.orders import ReplicaPlan, VectorPlace, VectorSpec
from tawny.distributed.payloads import program_file, send_program
from tawny.distributed.replication import ReplicasLostError, Replication, ShardFile
from tawny.dtype import DType, is_half, kind_of
from tawny.errors import type_error, warn
from tawny.gc_pause import pause_gc
from tawny.graph.graph import Graph
from tawny.graph.options import CompileOptions
from tawny.nn.checks import TargetCheck
from tawny.nn.module import Module
from tawny.nn.training.data import Batch, batch_variables, signature, take_rows, values_of
from tawny.nn.training.programs import ProgramOptions, TargetChecks, trace_graph
from tawny.nn.training.step import (
    Loss,
    TrainingState,
    check_slopes,
    initial_state,
    one_number,
    step_objective,
)
from tawny.node import Value
from tawny.ops.creation import var
from tawny.ops.random import local_seed
from tawny.optim.composition import Steps
from tawny.shape import Shape
from tawny.tree import leaves, map_leaves, unflatten

__all__ = ["ClusterStepper", "ReplicasLostError"]

PROBED: Final = 4
"""Rows of the first batch on which a loss shows how it is made of those of its parts."""


def gradient_graph(
    model: Module, loss: Loss, variables: TrainingState, batch: Batch, seed: int
) -> Graph:
    """Loss, gradients and running statistics of a batch."""
    objective = step_objective(model, loss, variables, batch, seed)
    (value, state), slope = value_and_grad(objective, has_aux=True)(variables.parameters)
    check_slopes(slope)
    inputs = [*batch.arrays, *leaves(variables.parameters), *leaves(variables.state)]
    outputs = [value, *leaves(slope), *leaves(state)]
    return Graph(inputs, outputs, name="gradients", unused="ignore")


def mean_layout(variables: TrainingState) -> tuple[tuple[VectorSpec, ...], tuple[VectorPlace, ...]]:
    """Where the outputs of a gradient graph stand in vectors, one for each dtype."""
    sizes: dict[str, int] = {}
    places: list[VectorPlace] = []
    kinds = (variables.parameters, False), (variables.state, True)
    for array, is_statistic in [(a, kind) for part, kind in kinds for a in leaves(part)]:
        dtype = "float32" if is_half(array.dtype) else str(array.dtype)  # sums lose no digits
        start = sizes.setdefault(dtype, 0)
        sizes[dtype] = start + array.size
        places.append(VectorPlace([*sizes].index(dtype), start, sizes[dtype], is_statistic))
    return tuple([VectorSpec(*item) for item in sizes.items()]), tuple(places)


def update_graph(
    optimiser: Steps,
    variables: TrainingState,
    vectors: Sequence[VectorSpec],
    places: Sequence[VectorPlace],
    loss_dtype: Any,
) -> Graph:
    """From means over all workers to the loss and the rate; updates all variables."""
    means = [var(f"mean.{k}", (spec.size,), spec.dtype) for k, spec in enumerate(vectors)]
    loss = var("loss", (), loss_dtype)
    targets = leaves((variables.parameters, variables.state))
    found = [
        tnp.astype(tnp.reshape(means[p.vector][p.start : p.stop], target.shape), target.dtype)
        for p, target in zip(places, targets, strict=True)
    ]
    count = len(leaves(variables.parameters))
    slopes = unflatten(variables.parameters, found[:count])
    penalty = optimiser.parts().regularisation
    value = loss
    if penalty is not None:
        value = loss + tnp.astype(penalty.penalty(variables.parameters), loss.dtype)
    after = optimiser.apply(slopes, variables.parameters, variables.optimiser, value=value)
    sources = [*leaves(after[0]), *found[count:], *leaves(after[1])]
    held = leaves(variables)
    updates = {t: s for t, s in zip(held, sources, strict=True) if t.node is not s.node}
    fixed = [t for t in held if t not in updates]
    outputs = value, optimiser.rate_of(variables.optimiser)
    return Graph([*means, loss, *fixed], outputs, updates, "update", unused="ignore")


class ClusterStepper:
    """Steps of training on the workers of a client."""

    def __init__(
        self,
        client: object,
        model: Module,
        loss: Loss,
        optimiser: Steps,
        seed: int,
        options: ProgramOptions,
    ) -> None:
        method = optimiser.parts().gradient
        if method.needs_function:
            raise type_error(
                "nn.train",
                f"{type(method).__name__} looks at the loss itself in a step, of which each worker "
                "of a client has a part; accepted: methods that need gradients alone",
            )
        self._client: Client = as_client(client, "nn.train")
        self._model, self._loss, self._optimiser, self._seed = model, loss, optimiser, seed
        self._options = CompileOptions(**options._asdict(), incremental=False)
        self.shared_state = initial_state(model, optimiser)
        """The client's own copy of the values, which may be older than those of the workers."""
        self._variables = self.shared_state.variables()
        self._batch_bytes = 0
        self._graphs: dict[Hashable, ShardGraph] = {}
        self._checks = TargetChecks()
        self._is_mean = True
        self._replication: Replication[Batch] | None = None
        self._has_warned = False
        self.program = None
        """The compiled step, which is on the workers."""

    # -------------------------------------------------------------------- steps

    def steps_at_once(self, most: float) -> int:
        """The number of steps that are best made in one task."""
        replication = self._replication
        if replication is None or most <= 1:
            return 1
        return int(min(most, replication.steps_at_once(self._batch_bytes)))

    def advance(
        self, batches: Sequence[Batch], number: int, check: Callable[[], None]
    ) -> list[tuple[float, float]]:
        """Loss and rate of steps from `number` on, one for each batch."""
        self._batch_bytes = max([sum([a.nbytes for a in batch.arrays]) for batch in batches])
        if self._replication is None:
            self._replication = self._begin(batches[0])
        found = self._replication.advance(number, batches, check)
        return [(loss, rate) for loss, rate in found]

    def _begin(self, batch: Batch) -> Replication[Batch]:
        shard = rows_of(batch, slice(0, 1))
        self._is_mean = is_mean_over_rows(self._model, self._loss, self._variables, batch)
        vectors, places = mean_layout(self._variables)
        held = self.shared_state.by_name()

        def plan(session: str) -> ReplicaPlan:
            loss_dtype = self._graph_for(shard).graph.output_nodes[0].dtype
            graph = update_graph(self._optimiser, self._variables, vectors, places, loss_dtype)
            file = program_file(graph, self._options, "nn.train")
            shapes = {name: (array.shape, str(array.dtype)) for name, array in held.items()}
            return ReplicaPlan(
                session, "nn.train", tawny.__version__, file, vectors, places, shapes
            )

        replication = Replication(self._client, plan, self._split, held, "train", "nn.train")
        replication.begin_from_copy()
        return replication

    def _split(self, batch: Batch, count: int) -> list[ShardFile]:
        """The rows of each worker: neighbours, as many for each as can be."""
        rows, shards, first = batch.rows, list[ShardFile](), 0
        if rows < count and not self._has_warned:
            self._has_warned = True
            idle = f"{count - rows} of {count} workers have nothing to do in it"
            warn(f"nn.train: a batch has {rows} rows; {idle}", RuntimeWarning)
        for rank in range(min(count, rows)):
            stop = first + rows // count + (rank < rows % count)
            shard = rows_of(batch, slice(first, stop))
            known = self._graph_for(shard)
            self._checks.check(known.checks, shard)
            file = send_program(self._client, known.graph, self._options, "nn.train")
            share = shard.rows / rows
            weight = share if self._is_mean else 1.0
            shards.append(ShardFile(file, values_of(shard, known.variables), share, weight))
            first = stop
        return shards

    def _graph_for(self, shard: Batch) -> ShardGraph:
        """The graph for shards of this size."""
        key = signature(shard)
        known = self._graphs.get(key)
        if known is None:
            variables = batch_variables(shard)

            def build(batch: Batch) -> Graph:
                return gradient_graph(self._model, self._loss, self._variables, batch, self._seed)

            with pause_gc():
                graph, checks = trace_graph(build, variables)
            known = self._graphs[key] = ShardGraph(graph, variables, checks)
        return known

    # ------------------------------------------------------------------- values

    @property
    def workers(self) -> list[tuple[int, int]]:
        """From which step on there were how many workers."""
        return [] if self._replication is None else self._replication.sizes

    @property
    def copy_is_due(self) -> bool:
        """Whether the copy here is so old that a new one is worth its time."""
        return self._replication is not None and self._replication.copy_is_due

    def refresh(self) -> None:
        """Let the copy here be the state of now."""
        if self._replication is not None:
            self._replication.refresh()

    def return_to_copy(self, step: int) -> None:
        """Go on from the copy here, which has the state before a step."""
        if self._replication is not None:
            self._replication.return_to_copy(step)

    def close(self) -> None:
        """Let the workers forget all of it."""
        if self._replication is not None:
            self._replication.close()


class ShardGraph(NamedTuple):
    """The graph for shards of one size, its variables, and what its targets must be."""

    graph: Graph
    variables: Batch
    checks: list[tuple[int, TargetCheck]]


def rows_of(batch: Batch, rows: slice) -> Batch:
    """Some rows of a batch."""
    return batch._replace(
        inputs=take_rows(batch.inputs, rows), target=take_rows(batch.target, rows)
    )


# ------------------------------------------------------------ how losses are made


def is_mean_over_rows(model: Module, loss: Loss, variables: TrainingState, batch: Batch) -> bool:
    """Whether the loss of a batch is the mean of the losses of its parts, and not their sum.

    It is tried on random predictions for some rows, cut in two unequal parts.  What is neither is
    taken for a mean, with a warning: workers see parts alone.
    """
    rows = min(PROBED, batch.rows)
    parts = slice(0, rows), slice(0, rows - 1), slice(rows - 1, rows)
    if rows < 2:
        return True
    shapes = _prediction(model, variables, rows_of(batch, parts[0]))
    if not all(a.shape[:1] == (rows,) and kind_of(a.dtype) == "f" for a in leaves(shapes)):
        return True
    draws = np.random.default_rng(0)
    drawn = map_leaves(lambda a: _unequal_rows(draws, a.shape, a.dtype), shapes)
    values = [loss(take_rows(drawn, some), take_rows(batch.target, some)) for some in parts]
    whole, one, other = (float(one_number(value, "the loss")) for value in values)
    share = (rows - 1) / rows
    digits = 1e-2 if any(is_half(a.dtype) for a in leaves(drawn)) else 1e-4
    if np.isclose(whole, share * one + (1 - share) * other, digits, 1e-6, equal_nan=True):
        return True
    if np.isclose(whole, one + other, digits, 1e-6):
        return False
    warn(
        "nn.train: the loss of some rows is neither the mean nor the sum of the losses of their "
        "parts; with a client it is taken for the mean of the workers' parts, so training is "
        "another than on one machine",
        RuntimeWarning,
    )
    return True


def _unequal_rows(draws: np.random.Generator, shape: Shape, dtype: DType) -> Value:
    """Random numbers between 0 and 1, of which those of the last row are greater."""
    rows = draws.uniform(0.1, 0.5, shape)
    rows[-1] += 0.4
    return rows.astype(dtype)


def _prediction(model: Module, variables: TrainingState, batch: Batch) -> Any:
    """What the model gives for a batch, as arrays whose shapes and dtypes are known."""
    with local_seed(0):
        inputs = batch_variables(batch).inputs
        return model.advance(variables.parameters, variables.state, *inputs)[0]
