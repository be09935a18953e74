"""Dask's tasks for the stages of a graph: programs, the pieces they read, trees of folds."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple, final

import tawny
from tawny.array import wrap
from tawny.distributed.blocks.boxes import (
    Box,
    Chunks,
    bounds,
    box_shape,
    cells,
    largest_cell,
    overlaps,
    spans,
)
from tawny.distributed.blocks.fitting import BlockBudget, fit_stage, plan_stage
from tawny.distributed.blocks.folds import Parts
from tawny.distributed.blocks.regions import BlockRecipe
from tawny.distributed.blocks.stages import BlockStage, Root, Staging
from tawny.distributed.blocks.tasks import (
    BlockCall,
    BlockOperand,
    MergeCall,
    merge_parts,
    pick,
    run_block,
    take_part,
)
from tawny.distributed.dask import task_spec
from tawny.distributed.payloads import ProgramFile, program_file
from tawny.dtype import DType
from tawny.graph.graph import Graph
from tawny.graph.options import CompileOptions
from tawny.node import Node, variable
from tawny.shape import Shape, size

MOST_MERGED: Final = 8
"""Parts of a fold that one task merges."""

LEAST_MERGED: Final = 2

Place = tuple[int, ...]


class TaskArray(NamedTuple):
    """An array in blocks: those of a dask array, a value, or what a stage stores."""

    name: str
    """What its tasks are called, each with its place."""
    chunks: Chunks
    places: tuple[tuple[int, ...], ...] | None = None
    """For each axis the places of the chunks that have elements; None where all do."""

    def key(self, place: Place) -> tuple[Any, ...]:
        """The name of the task of a block."""
        if self.places is None:
            return (self.name, *place)
        return (self.name, *[p[i] for p, i in zip(self.places, place, strict=True)])


class Layer(NamedTuple):
    """Tasks of one kind, and the layers they read."""

    tasks: dict[Hashable, Any]
    reads: set[str]


class BuildRequest(NamedTuple):
    """The sources and options that the tasks of a graph are built from."""

    sources: Mapping[Node, TaskArray]
    """What is given."""
    options: CompileOptions
    token: str
    """Differs for different graphs, values and options."""
    share: int
    """Bytes that the blocks of one task may take."""
    op: str
    """Who asks, as errors say it."""


@final
class Builder:
    """The tasks of one graph."""

    def __init__(
        self,
        graph: Graph,
        staging: Staging,
        request: BuildRequest,
    ) -> None:
        self._staging = staging
        self._options, self._token, self._op = request.options, request.token, request.op
        self._share, self.label = request.share, graph.name or request.op
        self.stored: dict[Node, TaskArray] = dict(request.sources)
        self.layers: dict[str, Layer] = {}
        self._bounds: dict[str, list[list[int]]] = {}
        """Where the chunks of what is stored begin and end, by its name."""
        self._types: dict[tuple[Node, Shape], list[tuple[Shape, DType]]] = {}
        self._files: dict[Hashable, tuple[str, ProgramFile]] = {}
        budget = BlockBudget(request.share, request.options, request.op)
        for number, stage in enumerate([fit_stage(staging, s, budget) for s in staging.stages]):
            self._add_stage(number, stage)

    def _plan(self, stage: BlockStage, box: Box) -> BlockRecipe:
        return plan_stage(self._staging, stage, box)

    # -------------------------------------------------------------------- stages

    def _add_stage(self, number: int, stage: BlockStage) -> None:
        names = [
            self._name(root.node.op.facts().name, f"{number}.{k}")
            for k, root in enumerate(stage.roots)
        ]
        counts = self._part_counts(stage)
        several = sum(counts) > 1
        layer = Layer({}, set())
        first = names[0] if not several and stage.roots[0].fold is None else None
        name = first or self._name("blocks", str(number))
        self.layers[name] = layer
        for place, box in cells(stage.grid):
            plan = self._plan(stage, box)
            self._add_task(layer, (name, *place), plan, several)
        index = 0
        for root, own, count in zip(stage.roots, names, counts, strict=True):
            parts = range(index, index + count) if several else None
            index += count
            self.stored[root.node] = TaskArray(own, root.result_chunks())
            if root.fold is not None:
                self._add_fold(own, root, name, parts)
            elif parts is not None:
                self._add_picks(own, root, name, parts[0])

    def _part_counts(self, stage: BlockStage) -> list[int]:
        """How many arrays each root makes of a block."""
        return [len(self._part_types(root)) for root in stage.roots]

    def _add_picks(self, own: str, root: Root, stage: str, index: int) -> None:
        layer = self.layers[own] = Layer({}, {stage})
        for place, _ in cells(root.grid):
            key = (own, *place)
            layer.tasks[key] = task_spec.Task(key, pick, task_spec.TaskRef((stage, *place)), index)

    def _add_task(self, layer: Layer, key: Hashable, plan: BlockRecipe, several: bool) -> None:
        file_key = self._file(layer, (plan.key, "blocks"), lambda: plan.make_graph(self.label))
        operands: list[BlockOperand] = []
        refs: list[Any] = []
        for node, box in plan.reads:
            operand, blocks = self._read(layer, node, box)
            operands.append(operand)
            refs += blocks
        call = BlockCall(self._op, tawny.__version__, tuple(operands), plan.numbers, several)
        layer.tasks[key] = task_spec.Task(key, run_block, file_key, call, *refs)

    def _file(self, layer: Layer, key: Hashable, make: Any) -> Any:
        """A reference to the program of a graph, made once for each key."""
        known = self._files.get(key)
        if known is None:
            file = program_file(make(), self._options, self._op)
            name = f"program-{file.digest}"
            self.layers[name] = Layer({name: task_spec.DataNode(name, file)}, set())
            known = self._files[key] = name, file
        layer.reads.add(known[0])
        return task_spec.TaskRef(known[0])

    def _read(self, layer: Layer, node: Node, box: Box) -> tuple[BlockOperand, list[Any]]:
        """How a box is put together of blocks, and these."""
        stored = self.stored[node]
        layer.reads.add(stored.name)
        ends = self._bounds.get(stored.name)
        if ends is None:
            ends = self._bounds[stored.name] = list(map(bounds, stored.chunks))
        found = [overlaps(places, span) for places, span in zip(ends, box, strict=True)]
        refs: list[Any] = []
        where: list[tuple[slice, ...]] = []
        for parts in product(*found):
            place = tuple([number for number, _, _ in parts])
            own = tuple([slice(*span) for _, span, _ in parts])
            shape = tuple([c[i] for c, i in zip(stored.chunks, place, strict=True)])
            refs.append(self._part(layer, stored, place, own, shape))
            where.append(tuple([slice(*span) for _, _, span in parts]))
        shape = box_shape(box)
        pieces = None if len(refs) == 1 else tuple(where)
        return BlockOperand(shape, node.dtype, pieces), refs

    @staticmethod
    def _part(
        layer: Layer, stored: TaskArray, place: Place, own: tuple[slice, ...], shape: Shape
    ) -> Any:
        """A reference to a part of a block; what is cut off does not travel."""
        key = stored.key(place)
        if all(s == slice(0, n) for s, n in zip(own, shape, strict=True)):
            return task_spec.TaskRef(key)
        ends = [f"{s.start}:{s.stop}" for s in own]
        name = (f"part-{stored.name}", *place, ",".join(ends))
        if name not in layer.tasks:
            layer.tasks[name] = task_spec.Task(name, take_part, task_spec.TaskRef(key), own)
        return task_spec.TaskRef(name)

    def add_copies(self, name: str, stored: TaskArray) -> None:
        """Tasks under another name, for a result that is something given."""
        layer = self.layers[name] = Layer({}, {stored.name})
        for place, _ in cells(stored.chunks):
            key = (name, *place)
            layer.tasks[key] = task_spec.Alias(key, stored.key(place))

    # --------------------------------------------------------------------- folds

    def _add_fold(self, own: str, root: Root, stage: str, parts: range | None) -> None:
        """Trees of merging tasks, one for each block of the result."""
        layer = self.layers[own] = Layer({}, {stage})
        fold = root.fold
        assert fold is not None
        grid = root.grid
        kept = [a for a in fold.kept if a is not None]
        folded = [a for a in range(len(grid)) if a not in kept]
        types = self._part_types(root)
        wide = max(
            LEAST_MERGED, min(MOST_MERGED, self._share // max(1, sum(map(_type_bytes, types))) - 1)
        )
        for place in product(*[range(1 if a is None else len(grid[a])) for a in fold.kept]):
            at = {a: i for a, i in zip(fold.kept, place, strict=True) if a is not None}
            members: list[Any] = []
            for inner in product(*[range(len(grid[a])) for a in folded]):
                full = at | dict(zip(folded, inner, strict=True))
                members.append((stage, *[full[a] for a in range(len(grid))]))
            boxes = {a: spans(grid[a])[i] for a, i in at.items()}
            self._add_tree(layer, (own, *place), root, members, parts, wide, boxes)

    def _part_types(self, root: Root, box: Box | None = None) -> list[tuple[Shape, DType]]:
        """Shapes and dtypes of what is computed of a block."""
        box = largest_cell(root.grid) if box is None else box
        key = root.node, box_shape(box)
        if key not in self._types:
            made = self._plan(BlockStage((root,)), box).make_graph("part").output_nodes
            self._types[key] = [(x.shape, x.dtype) for x in made]
        return self._types[key]

    def _add_tree(
        self,
        layer: Layer,
        key: tuple[Any, ...],
        root: Root,
        members: list[Any],
        parts: range | None,
        wide: int,
        boxes: Mapping[int, tuple[int, int]],
    ) -> None:
        cell = tuple([boxes.get(a, (0, sizes[0])) for a, sizes in enumerate(root.grid)])
        types = self._part_types(root, cell)
        level = 0
        while True:
            ends = len(members) <= wide
            merged: list[Any] = []
            for number, first in enumerate(range(0, len(members), wide)):
                some = members[first : first + wide]
                name = key if ends else (f"{key[0]}-merge", *key[1:], level, number)
                self._add_merge(layer, name, root, types, some, parts if not level else None, ends)
                merged.append(name)
            if ends:
                return
            members, level = merged, level + 1

    def _add_merge(
        self,
        layer: Layer,
        key: tuple[Any, ...],
        root: Root,
        types: Sequence[tuple[Shape, DType]],
        members: Sequence[Any],
        parts: range | None,
        ends: bool,
    ) -> None:
        """A task that merges parts; `parts` says which of a block's results they are."""
        fold = root.fold
        assert fold is not None

        def make() -> Graph:
            columns = [
                [variable(f"x{k}.{m}", *t) for m, t in enumerate(types)]
                for k in range(len(members))
            ]
            rows: list[Parts] = [tuple(column) for column in columns]
            merged = fold.merge(rows) if len(rows) > 1 else rows[0]
            results = (fold.finish(merged),) if ends else merged
            inputs = [wrap(x) for row in rows for x in row]
            return Graph(inputs, list(map(wrap, results)), name=self.label, unused="ignore")

        file = self._file(layer, (fold.key, tuple(types), len(members), ends), make)
        call = MergeCall(self._op, tawny.__version__, parts, not ends and len(types) > 1)
        layer.tasks[key] = task_spec.Task(
            key, merge_parts, file, call, *[task_spec.TaskRef(m) for m in members]
        )

    def _name(self, step: str, number: str) -> str:
        """The name of tasks: those of the dashboard are cut before the last part."""
        digest = hashlib.sha256(f"{self._token} {number}".encode()).hexdigest()[:32]
        return f"{self.label}-{step}-{digest}"


def _type_bytes(kind: tuple[Shape, DType]) -> int:
    return size(kind[0]) * kind[1].itemsize
