"""The four programs of the report's table: what is run, and what the report measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

import tawny as tw
from tawny import models, nn, optim
from tawny.engine import reference
from tawny.engine.evaluation import at_once, compute
from tawny.graph.graph import Graph
from tawny.graph.program import Program
from tawny.memory.budget import MemoryBudgetError
from tawny.nn.parameters import BINDING, Binding
from tawny.nn.training.step import initial_state
from tawny.node import Node, Value
from tawny.tree import leaves

IMAGE: Final = (1, 299, 299, 3)
LARGE: Final = (1, 768, 768, 3)
LARGE_BUDGET: Final = "60 MB"
"""0.13 of what the network takes without the graph, as in the report.  On two threads it can do
with 58.9 MB; on more, whose scratch memory is planned too, with up to 68 MB: a thread's panel of a
transformed kernel and of the inputs it is multiplied with has 1.5 MB."""
BATCH: Final = 100


class ReportRow(NamedTuple):
    """The report's figures for a program: seconds and megabytes, without and with the graph."""

    eager_s: float
    build_s: float
    eval_s: float
    eager_mb: float
    graph_mb: float


@dataclass(frozen=True)
class Workload:
    """A program of the table."""

    name: str
    report: ReportRow
    prepare: Callable[[], PreparedWorkload]


class PreparedWorkload(NamedTuple):
    """A program with its weights drawn: built as a graph, or evaluated without one."""

    build: Callable[[], Graph]
    feeds: dict[str, Value]
    eager: Callable[[list[Any] | None], Any]
    """Evaluates without a graph; a list takes what the report's eager run keeps to the end."""
    memory: str | int | None = None
    """The bytes that the program is compiled for; None leaves that to it."""

    def compile(self, engine: str = "cpu") -> Program:
        """Build the graph and compile it; all of it runs in each evaluation."""
        return self.build().compile(engine, incremental=False, memory=self.memory)

    def with_feasible_budget(self, engine: str = "cpu") -> PreparedWorkload:
        """The workload with a budget that can be met here: its own, or the least planned."""
        if self.memory is None:
            return self
        try:
            self.build().plan(self.memory, incremental=False, engine=engine)
        except MemoryBudgetError as error:
            return self._replace(memory=error.least_bytes)
        return self


def _inference(
    model: nn.Module, shape: tuple[int, ...], memory: str | None = None
) -> PreparedWorkload:
    """A model applied to an image; eagerly, the report's keeps the result of each layer."""
    image = np.random.default_rng(0).standard_normal(shape, np.float32)
    _ = model.parameters, model.state

    def build() -> Graph:
        x = tw.var("x", shape=shape, dtype="float32")
        return tw.Graph([x], model(x))

    def eager(kept: list[Any] | None = None) -> Any:
        layers = {m: path for path, m in model.walk() if isinstance(m, nn.Module)}
        token = BINDING.set(Binding({}, layers, observe=None if kept is None else keep(kept)))
        try:
            with at_once():
                return model(image)
        finally:
            BINDING.reset(token)

    def keep(results: list[Any]) -> Callable[[nn.Module, Any, Any], None]:
        return lambda _, __, result: results.append(result)

    return PreparedWorkload(build, {"x": image}, eager, memory)


def _training() -> PreparedWorkload:
    """A step of the report's MNIST network: cross entropy of 100 images, AdaGrad.

    Eagerly, what is not needed any more is freed; the report's keeps all until the step is done.
    """
    rng = np.random.default_rng(0)
    batch = rng.standard_normal((BATCH, 28, 28, 1), np.float32), rng.integers(0, 10, BATCH)
    model, optimiser = models.Mnist(), optim.AdaGrad(0.005)
    feeds = {"x": batch[0], "y": batch[1], **initial_state(model, optimiser).by_name()}

    def build() -> Graph:
        return nn.training_graph(model, nn.cross_entropy, batch, optimiser)

    graph = build()
    nodes = [a.node for a in (*leaves(graph.outputs), *graph.updates.values())]
    given = {a.node: feeds[a.node.name] for a in (*graph.inputs, *graph.updates)}

    def eager(kept: list[Any] | None = None) -> Any:
        def by(node: Node, operands: Sequence[Value], draw: int) -> Any:
            value = compute(node, operands, draw)
            if kept is not None:
                kept.append(value)
            return value

        return reference.run(nodes, given, draw=1, by=by)

    return PreparedWorkload(build, feeds, eager)


WORKLOADS: Final = {
    workload.name: workload
    for workload in (
        Workload(
            "InceptionV3",
            ReportRow(0.5649, 0.1066, 0.2275, 625.76, 230.10),
            lambda: _inference(models.InceptionV3(), IMAGE),
        ),
        Workload(
            "ResNet50",
            ReportRow(0.7933, 0.1395, 0.6090, 1309.9, 397.07),
            lambda: _inference(models.ResNet50(form="keras"), IMAGE),
        ),
        Workload("MNIST training", ReportRow(20.422, 0.1436, 10.920, 3685.3, 895.32), _training),
        Workload(
            "Mask R-CNN",
            ReportRow(11.538, 0.3630, 8.379, 6483.4, 870.48),
            lambda: _inference(models.MaskRCNN(), LARGE, memory=LARGE_BUDGET),
        ),
    )
}
"""The rows of the table, in the report's order."""
