"""Which update edges need no copy: their source is computed in the variable's own memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tawny.graph.incremental import VOLATILE, Dependence
from tawny.graph.lowering import Lowered, Place, is_leaf, overwrites, result_of
from tawny.memory.schedule import Schedule
from tawny.node import Node
from tawny.op import Elementwise, Op
from tawny.ops.convolution import Windowed
from tawny.ops.creation import BroadcastTo, Cast, Copy
from tawny.ops.fused import FusedMatmul, Group
from tawny.ops.joining import Concat, Pad, Repeat, Tile
from tawny.ops.linalg import Matmul
from tawny.ops.movement import Flip, Reshape, Roll, Transpose
from tawny.ops.pooling import Pool
from tawny.ops.random import Draw
from tawny.ops.reduction import ArgExtremum, Reduction, Scan

INFALLIBLE: Final = (
    ArgExtremum, BroadcastTo, Cast, Concat, Copy, Draw, Flip, FusedMatmul, Matmul, Pad, Pool,
    Reduction, Repeat, Reshape, Roll, Scan, Tile, Transpose, Windowed,
)  # fmt: skip
"""Ops that cannot fail once their shapes fit: no user's code, no singular matrix, no index."""


def homes(
    updates: Sequence[tuple[Node, Node]],
    results: Sequence[Node],
    lowered: Lowered,
    schedule: Schedule,
    known: Dependence,
) -> dict[Node, Node]:
    """For each source that may be computed in its variable's memory, that variable.

    Safe means: the source runs in every run; every other reader of the variable is done before,
    and the op may overwrite it if it reads it itself; nobody else wants the variable's old value;
    and no later step can fail, which would leave the variable changed by half a run.
    """
    readers = _readers(lowered, schedule)
    safe_from = _safe_from(lowered, schedule)
    out: dict[Node, Node] = {}
    for target, source in updates:
        made = result_of(source)
        place = _position(made[0], lowered, schedule)
        if place is None or results.count(source) > 1 or known.moment(source) != VOLATILE:
            continue
        if place < safe_from or _wanted(target, results, lowered):
            continue
        if all(_done(p, node, place, made, target) for p, node in readers.get(target, ())):
            out[source] = target
    return out


def _position(node: Node, lowered: Lowered, schedule: Schedule) -> int | None:
    """The only position at which `node` is computed."""
    step = lowered.step_of.get(node)
    if step is None or schedule.sequence.count(step) != 1:
        return None
    return schedule.sequence.index(step)


def _readers(lowered: Lowered, schedule: Schedule) -> Mapping[Node, list[tuple[int, Node]]]:
    """For each leaf the positions that read it, through views or not, and what they read."""
    problem = lowered.problem
    owner = {value: node for (node, _), value in lowered.values.items()}
    out: dict[Node, list[tuple[int, Node]]] = {}
    for position, s in enumerate(schedule.sequence):
        for value in problem.steps[s].inputs:
            root = owner[problem.roots[value]]
            if is_leaf(root):
                out.setdefault(root, []).append((position, owner[value]))
    return out


def _safe_from(lowered: Lowered, schedule: Schedule) -> int:
    """The first position from which on no step can fail."""
    for position in range(len(schedule.sequence) - 1, -1, -1):
        if not _infallible(lowered.steps[schedule.sequence[position]]):
            return position + 1
    return 0


def _infallible(node: Node) -> bool:
    if isinstance(node.op, Group):
        return all(_cannot_fail(step.op, step.dtype.kind) for step in node.op.body.steps)
    return _cannot_fail(node.op, node.dtype.kind)


def _cannot_fail(op: Op, kind: str) -> bool:
    """Whether an op whose result is of this kind of dtype cannot fail."""
    if isinstance(op, Elementwise):
        return kind not in "iu" or op.info.name != "pow"
    return isinstance(op, INFALLIBLE)


def _wanted(target: Node, results: Sequence[Node], lowered: Lowered) -> bool:
    """Whether some result is the variable itself or a view of it."""
    if (target, 0) not in lowered.values:
        return False
    roots = lowered.problem.roots
    return any(roots[lowered.value(n)] == lowered.value(target) for n in results)


def _done(position: int, read: Node, place: int, made: Place, target: Node) -> bool:
    """Whether a reader has had the old value before it is overwritten."""
    if position != place:
        return position < place
    node, result = made
    allowed = overwrites(node)
    return read is target and all(
        (p, result) in allowed for p, source in enumerate(node.inputs) if source is target
    )
