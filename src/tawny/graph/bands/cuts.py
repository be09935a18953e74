"""Where a program needs most memory: stretches that need less when they are computed in bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from tawny.graph.bands.search import SMALL, Course, Cutting, Moment
from tawny.graph.lowering import Lowered, is_leaf, result_of
from tawny.memory.plan import Layout
from tawny.node import Node, make, part, toposort, written_at
from tawny.ops.bands import Bands
from tawny.ops.fusion import nbytes
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, rebuild

BANDS: Final = RuleInfo(
    "bands", Kind.CONTRACTING, "f(g(x)) = f(g(some rows of x)), one band of rows after the other"
)

WORTH: Final = 2**24
"""Programs that need fewer bytes are left alone."""

GAIN: Final = 0.97
"""Bands are used where a plan with all of them needs at most so many times the bytes."""

MOST_CUT: Final = 16
"""So many stretches are cut."""

MOST_AT_ONCE: Final = 32
"""So many stretches are cut before a plan is made."""

NEAR: Final = 0.95
"""Stretches are cut at once wherever so much of the peak is needed."""

MUCH: Final = 0.8
"""Where bytes are scarce, stretches are cut wherever so much of the peak is needed."""


def cuttings(
    results: Sequence[Node], lowered: Lowered, layout: Layout, moment: Moment | None
) -> Iterator[Cutting]:
    """Stretches to compute in bands where nearly most memory is needed, which share no step.

    The largest come first where most is needed; if there is none, the peak is as it is.  With
    `moment` a stretch has only what runs at the same time.
    """
    most = max(layout.live, default=0)
    places = _cuttings(results, lowered, layout, moment, NEAR)
    for number, (live, found) in enumerate(islice(places, MOST_AT_ONCE)):
        if not number and live < most:
            return
        yield found


def reliefs(
    results: Sequence[Node],
    lowered: Lowered,
    layout: Layout,
    moment: Moment | None,
    scratch: Callable[[Node], int],
) -> Iterator[Cutting]:
    """Stretches that need less in bands than they do in a plan, wherever much memory is needed."""
    place = {lowered.steps[s]: p for p, s in enumerate(layout.sequence)}
    for _, found in _cuttings(results, lowered, layout, moment, MUCH):
        steps = [node for node in found.stretch if node in place]
        position = max([place[node] for node in steps], key=layout.live.__getitem__)
        own = {*steps, *found.bands.inputs}
        held = sum([nbytes((n.shape, n.dtype)) for n in _alive(layout, position) if n in own])
        held += layout.problem.steps[layout.sequence[position]].scratch
        if found.held + scratch(found.bands) < held:
            yield found


def _cuttings(
    results: Sequence[Node],
    lowered: Lowered,
    layout: Layout,
    moment: Moment | None,
    near: float,
) -> Iterator[tuple[int, Cutting]]:
    """Stretches where a part of the peak is needed, and the bytes that are needed there."""
    sequence = [lowered.steps[s] for s in layout.sequence]
    course = Course(results, moment, sequence, lowered.order)
    most = max(layout.live, default=0)
    positions = [p for p, live in enumerate(layout.live) if live >= near * most]
    for position in sorted(positions, key=lambda p: -layout.live[p]):
        node = lowered.steps[layout.sequence[position]]
        seeds = dict.fromkeys([course.owner(source) for source in (node, *node.inputs)])
        for seed in sorted(seeds, key=course.bytes, reverse=True):
            found = course.from_value(seed, position)
            if found is not None:
                yield layout.live[position], found


def copyings(
    results: Sequence[Node],
    lowered: Lowered,
    layout: Layout,
    moments: Callable[[Sequence[Node]], Moment | None],
) -> Iterator[tuple[tuple[Node, ...], Cutting]]:
    """Stretches that compute again what is alive where most memory is needed, the largest first.

    Each comes with the results, in which bands that read the value, or make it, are opened.  Bands
    of fewer rows are among them, and single steps that are written over an operand when they are
    computed in bands.
    """
    whole, order, moment = tuple(results), lowered.order, moments(lowered.order)
    sequence = [lowered.steps[s] for s in layout.sequence]
    position = layout.live.index(max(layout.live))
    views = lowered.views
    finer = Course(whole, moment, sequence, order).finer(sequence[position])
    if finer is not None:
        yield whole, finer
    for seed in _alive(layout, position):
        if nbytes((seed.shape, seed.dtype)) < SMALL * layout.live[position]:
            return
        readers = [n for n in sequence[position:] if seed in [views.get(i, i) for i in n.inputs]]
        around = tuple(dict.fromkeys((result_of(seed)[0], *readers)))
        opening = {node: made for one in around for node, made in opened(one).items()}
        plain = rebuild(whole, opening)
        walk = toposort(plain, is_leaf)
        again = Course(plain, moments(walk), sequence, walk)
        found = again.from_value(opening.get(seed, seed), position, again=True)
        if found is not None:
            yield plain, found
        course = Course(whole, moment, sequence, order)
        for alone in [course.over_operand(node, position) for node in around]:
            if alone is not None:
                yield whole, alone


def _alive(layout: Layout, position: int) -> list[Node]:
    """The values that are alive at a position, the largest first."""
    schedule, values = layout.schedule, layout.problem.values
    found: list[tuple[int, Node]] = []
    for storage in schedule.alive(position):
        tenants = [v for v, at in schedule.tenants[storage] if at <= position]
        owners = [v for v in tenants if values[v].view_of is None]
        if owners and isinstance(node := values[owners[-1]].label, Node):
            found.append((values[owners[-1]].bytes, node))
    return [node for _, node in sorted(found, key=lambda one: -one[0])]


def opened(node: Node) -> dict[Node, Node]:
    """For each result of bands the node that it stands for; nothing for other nodes."""
    if not isinstance(node.op, Bands):
        return {}
    values = list(node.inputs)
    with written_at(node.sources):
        for step in node.op.body.steps:
            values.append(make(step.op, tuple([values[i] for i in step.inputs])))
    made = [values[r] for r in node.op.body.results]
    return {node: made[0]} if len(made) == 1 else {part(node, i): m for i, m in enumerate(made)}


def banding(cuttings: Sequence[Cutting]) -> Pass:
    """The pass that puts bands in place of stretches."""

    def run(flow: Flow, context: Context) -> Flow:
        if not context.recorder.allows(BANDS):
            return flow
        replacements: dict[Node, Node] = {}
        for cutting in cuttings:
            context.recorder.record(BANDS, cutting.stretch, (cutting.bands,))
            replacements |= cutting.replacements
        return flow.replaced(replacements)

    return Pass("cut_bands", (BANDS,), run)
