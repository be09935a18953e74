"""Bands made runnable: the steps of each, planned in the scratch memory of the step they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from tawny.engine.cpu.kernel_table import kernel_alone
from tawny.engine.cpu.numpy_steps import numpy_workspace_bytes
from tawny.engine.cpu.threads.pool import NOMINAL_THREADS
from tawny.engine.layout import Views
from tawny.engine.lowering import PROCESSOR, is_leaf, lower, overwrites, with_scratch
from tawny.engine.protocol import Task
from tawny.memory.plan import plan, replan
from tawny.node import Node, Variable, make, source_scope, variable
from tawny.ops.bands import Bands, byte_range
from tawny.ops.body_rows import Band


class BandKind(NamedTuple):
    """A task that bands share which differ in their places alone."""

    task: Task
    """Variables are the operands that a band is given anew, then all results."""
    operands: tuple[int, ...]
    """Which operands those are."""


class Strip(NamedTuple):
    """One band: its kind, and where it begins in operands and results."""

    kind: BandKind
    operands: tuple[int, ...]
    """Bytes from the start of each operand that its kind is given."""
    results: tuple[int, ...]
    """Bytes from the start of each result."""
    lagging: int
    """Bytes of the result that may lag behind."""


class Strips(NamedTuple):
    """All bands of a step."""

    strips: tuple[Strip, ...]
    arena: int
    """Bytes for what a band computes, but for its results."""
    aside: int
    """Bytes for a result that lags behind, of one band; two bands are kept."""

    @property
    def scratch(self) -> int:
        """Bytes needed while the step runs."""
        return self.arena + 2 * self.aside

    @property
    def kinds(self) -> list[BandKind]:
        """Each kind once."""
        return list({id(strip.kind): strip.kind for strip in self.strips}.values())


_KNOWN: Final[WeakKeyDictionary[Node, dict[int, Strips]]] = WeakKeyDictionary()


def strips_of(node: Node, threads: int) -> Strips:
    """The bands of a node; only their scratch memory depends on the number of threads."""
    known = _KNOWN.setdefault(node, {})
    if threads not in known:
        if threads == NOMINAL_THREADS:
            known[threads] = _strips(node)
        else:
            known[threads] = _with_threads(strips_of(node, NOMINAL_THREADS), threads)
    return known[threads]


def _with_threads(nominal: Strips, threads: int) -> Strips:
    """The bands placed with the scratch memory of another number of threads."""
    kinds = {id(kind): _on_threads(kind, threads) for kind in nominal.kinds}
    arena = max(kind.task.layout.arena for kind in kinds.values())
    strips = [strip._replace(kind=kinds[id(strip.kind)]) for strip in nominal.strips]
    return nominal._replace(strips=tuple(strips), arena=_round_up(arena))


def _on_threads(kind: BandKind, threads: int) -> BandKind:
    """The steps of a kind, in their order, placed with the scratch memory of that many threads."""
    task = kind.task
    lowered = with_scratch(task.lowered, lambda n: scratch_of(n, threads))
    layout = replan(task.layout, lowered.problem)
    return kind._replace(task=replace(task, lowered=lowered, layout=layout, threads=threads))


def _strips(node: Node) -> Strips:
    op = node.op
    assert isinstance(op, Bands)
    kinds: dict[object, BandKind] = {}
    strips: list[Strip] = []
    body, lagging = op.body, op.lagging
    made = [body.type_of(value) for value in body.results]
    for band in op.bands:
        kind = kinds.get(band.body)
        if kind is None:
            kind = kinds[band.body] = _kind(node, band)
        results = [byte_range(*pair) for pair in zip(made, band.rows, strict=True)]
        strips.append(
            Strip(
                kind,
                tuple([byte_range(body.operands[o], band.reads[o]).first for o in kind.operands]),
                tuple([result.first for result in results]),
                results[lagging].last - results[lagging].first,
            )
        )
    arena = max(kind.task.layout.arena for kind in kinds.values())
    aside = max(strip.lagging for strip in strips) if overwrites(node) else 0
    return Strips(tuple(strips), _round_up(arena), _round_up(aside))


def _kind(node: Node, band: Band) -> BandKind:
    """The steps of a band as a task; operands that are known and read whole stay what they are."""
    views = Views()
    given: dict[int, Node] = {}
    values: list[Node] = []
    for number, (source, kind) in enumerate(zip(node.inputs, band.body.operands, strict=True)):
        if band.reads[number] is None and _is_known(views(source).root):
            values.append(source)
        else:
            given[number] = variable(None, *kind)
            values.append(given[number])
    with source_scope(node.sources):
        for step in band.body.steps:
            values.append(make(step.op, tuple([values[i] for i in step.inputs])))
    results = [values[r] for r in band.body.results]
    homes = {result: variable_like(result) for result in results}
    lowered = lower(results, scratch=scratch_of, outside_arena=results)
    layout = plan(lowered.problem)
    variables = (*given.values(), *homes.values())
    return BandKind(Task(lowered, layout, variables, homes, threads=NOMINAL_THREADS), tuple(given))


def variable_like(node: Node) -> Node:
    """A variable in which the value of a node may lie."""
    return variable(None, node.shape, node.dtype)


def scratch_of(node: Node, threads: int = NOMINAL_THREADS) -> int:
    """Bytes that a step needs while it runs."""
    if isinstance(node.op, Bands):
        return strips_of(node, threads).scratch
    kernel = kernel_alone(node, threads)
    return numpy_workspace_bytes(node) if kernel is None else kernel.scratch


def _is_known(root: Node) -> bool:
    return is_leaf(root) and not isinstance(root.op, Variable)


def _round_up(count: int) -> int:
    return -(-count // PROCESSOR.alignment) * PROCESSOR.alignment


def steps_of(strips: Strips) -> Sequence[Node]:
    """The steps of one band of each kind."""
    return [step for kind in strips.kinds for step in kind.task.lowered.steps]
