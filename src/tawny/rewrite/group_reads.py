"""The pass that lets groups read rolled arrays where they lie, and count for themselves.

A roll that only groups and elementwise ops read is never made: its operand is kept in its place,
which takes no more memory.  Arrays that follow from the places of their elements, such as `arange`,
are computed by each group that runs over as many elements, and made only for others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from tawny.node import Node, make, written_at
from tawny.op import Elementwise
from tawny.ops.creation import Cast
from tawny.ops.fusion import FOLDS, Body, Group, Step, nonunit
from tawny.ops.movement import Roll
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, united_sources
from tawny.rewrite.group_lifetime import is_leaf
from tawny.rewrite.own_reads import OWN, can_roll
from tawny.rewrite.product_groups import body_of

GROUP_READS: Final = RuleInfo(
    "group_reads", Kind.EXACT, "group(roll(x), arange(n)) = group(x), which rolls and counts"
)

Worth = Callable[[Body], bool]
"""Whether a body is worth a kernel."""


def reading(worth: Worth) -> Pass:
    """The pass; `worth` says which bodies are made groups."""

    def run(flow: Flow, context: Context) -> Flow:
        if OWN.isdisjoint(flow.families()) or not context.recorder.allows(GROUP_READS):
            return flow
        wanted = _taken(flow, worth)
        replacements: dict[Node, Node] = {}
        for reader, taken in wanted.items():
            with written_at(united_sources((*taken, reader))):
                replacements[reader] = _made(reader, taken)
            context.recorder.record(GROUP_READS, (*taken, reader), (replacements[reader],))
        return flow.replaced(replacements)

    return Pass("group_reads", (GROUP_READS,), run)


def _taken(flow: Flow, worth: Worth) -> dict[Node, tuple[Node, ...]]:
    """What each group or elementwise op reads that it takes into its body."""
    readers, outputs = flow.consumers(), frozenset(flow.outputs)
    wanted: dict[Node, tuple[Node, ...]] = {}
    for node in flow.order():
        if is_leaf(node) or not isinstance(node.op, (Group, Elementwise, Cast, *FOLDS)):
            continue
        inputs = dict.fromkeys(node.inputs)
        taken = [n for n in inputs if _may_take(node, n)]
        rolls = [n for n in taken if type(n.op) is Roll]
        counted = [n for n in taken if type(n.op) is not Roll]
        for choice in (taken, rolls, counted):
            if choice and worth(_body(node, choice)):
                wanted[node] = tuple(choice)
                break
    left = {
        n
        for n, nodes in readers.items()
        if type(n.op) is Roll and (n in outputs or any(n not in wanted.get(r, ()) for r in nodes))
    }
    chosen = {r: tuple([n for n in taken if n not in left]) for r, taken in wanted.items()}
    return {r: taken for r, taken in chosen.items() if taken}


def _may_take(reader: Node, source: Node) -> bool:
    """Whether what a reader reads could be a step of its body."""
    if is_leaf(source) or type(source.op) not in OWN:
        return False
    space = nonunit(body_of(reader).space())
    if type(source.op) is Roll:
        return can_roll(source, space, reader.inputs)
    return nonunit(source.shape) == space


def _body(reader: Node, taken: Collection[Node]) -> Body:
    return _united(reader, taken)[0]


def _united(reader: Node, taken: Collection[Node]) -> tuple[Body, tuple[Node, ...]]:
    """The body of a reader with steps for some of its operands, and the operands that are left."""
    body = body_of(reader)
    given = [n for n in reader.inputs if n not in taken]
    operands = tuple(dict.fromkeys([*given, *[n for t in taken for n in t.inputs]]))
    numbers = {n: i for i, n in enumerate(operands)}
    first = len(operands)
    steps = [Step(n.op, tuple([numbers[i] for i in n.inputs]), n.shape, n.dtype) for n in taken]
    numbers |= {n: first + i for i, n in enumerate(taken)}
    before, shift = len(reader.inputs), first + len(steps) - len(reader.inputs)
    new = [numbers[n] for n in reader.inputs]

    def renumbered(value: int) -> int:
        return new[value] if value < before else value + shift

    steps += [s._replace(inputs=tuple(map(renumbered, s.inputs))) for s in body.steps]
    types = tuple([(n.shape, n.dtype) for n in operands])
    results = tuple(map(renumbered, body.results))
    return Body.of(types, tuple(steps), results), operands


def _made(reader: Node, taken: Collection[Node]) -> Node:
    """The group of a reader and what it takes."""
    body, operands = _united(reader, taken)
    return make(Group(body), operands)
