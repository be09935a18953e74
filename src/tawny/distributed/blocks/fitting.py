"""Blocks that are small enough for a budget, and stages in which little is computed twice."""

from __future__ import annotations

from typing import Final, NamedTuple

from tawny.distributed.blocks.boxes import Box, halve, largest_cell, volume
from tawny.distributed.blocks.creation import CREATION_RULES
from tawny.distributed.blocks.movement import MOVEMENT_RULES
from tawny.distributed.blocks.regions import BlockRecipe, plan_block
from tawny.distributed.blocks.stages import BlockStage, Staging
from tawny.graph.memory_limits import bytes_text
from tawny.graph.options import CompileOptions
from tawny.node import Node
from tawny.shape import size
from tawny.source import describe

MOST_REPEATED: Final = 2.0
"""How often blocks together may compute a large value; above that it is stored."""

REPEATED: Final = 1.8
"""How often a value that is stored for that would be computed at least."""

PROGRESS: Final = 0.9
"""What is left, at most, of the bytes of a block where cutting it is worth something."""


class BlockBudget(NamedTuple):
    """The bounds of the blocks of one task."""

    share: int
    """Bytes that are read, computed and stored."""
    options: CompileOptions
    """How programs are compiled."""
    op: str
    """Who asks, as errors say it."""


class UnfitError(Exception):
    """A stage that has to be computed as several, or cannot be computed within the budget."""

    def __init__(self, inner: set[Node], refusal: MemoryError | None = None) -> None:
        super().__init__(str(refusal))
        self.inner = inner
        """The nodes in it that could be stages of their own."""
        self.refusal = refusal
        """What to say if they are already; None if it may stay as it is."""


def plan_stage(staging: Staging, stage: BlockStage, box: Box) -> BlockRecipe:
    """How a block of a stage is computed."""
    cuts = [root.cut(box) for root in stage.roots]
    return plan_block(cuts, staging.outer_values(stage), staging.position)


def fit_stage(staging: Staging, stage: BlockStage, budget: BlockBudget) -> BlockStage:
    """The stage in blocks that are small enough for the budget."""
    taken = _block_bytes(staging, stage, budget)
    while taken > budget.share:
        grid = stage.grid
        may_be_cut = all(root.may_be_cut for root in stage.roots)
        for axis in sorted(range(len(grid)), key=lambda a: -max(grid[a])):
            if max(grid[axis]) < 2 or not may_be_cut:
                continue
            smaller = _cut_axis(stage, axis)
            less = _block_bytes(staging, smaller, budget)
            if less < PROGRESS * taken:
                stage, taken = smaller, less
                break
        else:
            raise UnfitError(staging.inner_work(stage), _refusal(stage, taken, budget))
    if repeated := _repeated_work(staging, stage):
        raise UnfitError(repeated)
    return stage


def _cut_axis(stage: BlockStage, axis: int) -> BlockStage:
    grid = (*stage.grid[:axis], halve(stage.grid[axis]), *stage.grid[axis + 1 :])
    return BlockStage(tuple([root.on_grid(grid) for root in stage.roots]))


def _block_bytes(staging: Staging, stage: BlockStage, budget: BlockBudget) -> int:
    """What the largest block takes: what is read, computed and stored."""
    recipe = plan_stage(staging, stage, largest_cell(stage.grid))
    read = sum([volume(box) * node.dtype.itemsize for node, box in recipe.reads])
    graph = recipe.make_graph("block")
    made = sum([_bytes(x) for x in graph.output_nodes])
    most = sum([_bytes(x) for x in graph.order if not x.op.facts().view and x.inputs])
    if read + most + made <= budget.share:
        return read + most + made
    options = budget.options._replace(memory=None, threads=1)
    return read + graph.plan(**options._asdict()).peak_bytes + made


def _bytes(node: Node) -> int:
    return size(node.shape) * node.dtype.itemsize


def _refusal(stage: BlockStage, taken: int, budget: BlockBudget) -> MemoryError:
    root = max(stage.roots, key=lambda r: sum(map(_bytes, r.node.inputs)))
    node, shapes = root.node, [x.shape for x in root.node.inputs]
    return MemoryError(
        f"{budget.op}: {node.name} of operands of shapes {', '.join(map(str, shapes))} cannot be "
        f"computed in smaller blocks: it takes {bytes_text(taken)} at once, and a task has "
        f"{bytes_text(budget.share)}; give more (memory=...), reduce or rechunk what it is given "
        f"first, or compute that (x.compute())  [{describe(node.sources)}]"
    )


# ------------------------------------------------------------------- repeated work


def _repeated_work(staging: Staging, stage: BlockStage) -> set[Node]:
    """Large values that neighbouring blocks compute again and again, where that begins.

    Each stencil of a chain adds to the border around a block that those before it are computed on.
    """
    count = stage.block_count
    if count <= 1:
        return set()
    boxes = plan_stage(staging, stage, largest_cell(stage.grid)).boxes
    often = {
        node: count * sum(map(volume, own)) / size(node.shape)
        for node, own in boxes.items()
        if _is_work(node) and node not in staging.stored
    }
    largest = max([size(node.shape) for node in often], default=0)
    often = {node: n for node, n in often.items() if 2 * size(node.shape) >= largest}
    if max(often.values(), default=0) <= MOST_REPEATED:
        return set()
    found: set[Node] = set()
    above: set[Node] = set()
    for node in boxes:  # readers first
        is_often = often.get(node, 0) >= REPEATED
        if is_often and node not in above:
            found.add(node)
        if is_often or node in above:
            above.update(node.inputs)
    return found


def _is_work(node: Node) -> bool:
    """Whether a node computes, and does not only move or make elements."""
    family = node.op.family
    is_moved = family in MOVEMENT_RULES or family in CREATION_RULES
    return bool(node.inputs and size(node.shape) and not is_moved)
