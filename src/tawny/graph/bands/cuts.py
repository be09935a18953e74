"""Where a program needs most memory: steps that need less when they are computed in bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from tawny.engine.lowering import LoweredGraph, is_leaf, result_of
from tawny.graph.bands.search import SMALL_SHARE, BandCut, BandSearch
from tawny.memory.plan import ArenaLayout
from tawny.node import Node, make, part, source_scope, toposort
from tawny.op import nbytes
from tawny.ops.bands import Bands
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, RunKey, rebuild

BANDS: Final = RuleInfo(
    "bands", Kind.CONTRACTING, "f(g(x)) = f(g(some rows of x)), one band of rows after the other"
)

MIN_ARENA: Final = 2**24
"""Bytes of the smallest plan that is searched; chosen by hand: below it a search costs more time
than memory is worth."""

WORTHWHILE_SHARE: Final = 0.97
"""The arena with bands, as a share of that without, at which they are used: less gain is not worth
the time they cost."""

MAX_ROUNDS: Final = 16
"""The most rounds of cut and planning again."""

MAX_CUTS_AT_ONCE: Final = 32
"""The most cuts of one round."""

NEAR_PEAK: Final = 0.95
"""The share of the peak at which steps are cut in the same round as those at the peak."""

HIGH_USE: Final = 0.8
"""The share of the peak at which steps are cut where bytes are scarce."""


def find_cuts(
    results: Sequence[Node], lowered: LoweredGraph, layout: ArenaLayout, run_key: RunKey | None
) -> Iterator[BandCut]:
    """Cuts where nearly most memory is needed, which share no step.

    The largest come first where most is needed; if there is none, the peak is as it is.  With
    `run_key` a cut has only steps of one key.
    """
    most = max(layout.live, default=0)
    places = _cuts_above(results, lowered, layout, run_key, NEAR_PEAK)
    for number, (live, found) in enumerate(islice(places, MAX_CUTS_AT_ONCE)):
        if not number and live < most:
            return
        yield found


def find_relieving_cuts(
    results: Sequence[Node],
    lowered: LoweredGraph,
    layout: ArenaLayout,
    run_key: RunKey | None,
    scratch: Callable[[Node], int],
) -> Iterator[BandCut]:
    """Cuts that need less than their steps do in a plan, wherever much memory is needed."""
    place = {lowered.steps[s]: p for p, s in enumerate(layout.sequence)}
    for _, found in _cuts_above(results, lowered, layout, run_key, HIGH_USE):
        steps = [node for node in found.steps if node in place]
        position = max([place[node] for node in steps], key=layout.live.__getitem__)
        own = {*steps, *found.bands.inputs}
        held = sum([nbytes((n.shape, n.dtype)) for n in _live_values(layout, position) if n in own])
        held += layout.problem.steps[layout.sequence[position]].scratch
        if found.held_bytes + scratch(found.bands) < held:
            yield found


def _cuts_above(
    results: Sequence[Node],
    lowered: LoweredGraph,
    layout: ArenaLayout,
    run_key: RunKey | None,
    share: float,
) -> Iterator[tuple[int, BandCut]]:
    """Cuts where at least a share of the peak is needed, and the bytes that are needed there."""
    sequence = [lowered.steps[s] for s in layout.sequence]
    search = BandSearch(results, run_key, sequence, lowered.order, lowered.machine)
    most = max(layout.live, default=0)
    positions = [p for p, live in enumerate(layout.live) if live >= share * most]
    for position in sorted(positions, key=lambda p: -layout.live[p]):
        node = lowered.steps[layout.sequence[position]]
        seeds = dict.fromkeys([search.owner(source) for source in (node, *node.inputs)])
        for seed in sorted(seeds, key=search.bytes, reverse=True):
            found = search.cut_around(seed, position)
            if found is not None:
                yield layout.live[position], found


def find_recomputing_cuts(
    results: Sequence[Node],
    lowered: LoweredGraph,
    layout: ArenaLayout,
    run_keys: Callable[[Sequence[Node]], RunKey | None],
) -> Iterator[tuple[tuple[Node, ...], BandCut]]:
    """Cuts that recompute what is alive where most memory is needed, the largest first.

    Each comes with the results, in which bands that read the value, or make it, are expanded.
    Bands of fewer rows are among them, and single steps that are written over an operand when they
    are computed in bands.
    """
    whole, order, machine = tuple(results), lowered.order, lowered.machine
    run_key = run_keys(order)
    sequence = [lowered.steps[s] for s in layout.sequence]
    position = layout.live.index(max(layout.live))
    views = lowered.views
    finer = BandSearch(whole, run_key, sequence, order, machine).cut_finer(sequence[position])
    if finer is not None:
        yield whole, finer
    for seed in _live_values(layout, position):
        if nbytes((seed.shape, seed.dtype)) < SMALL_SHARE * layout.live[position]:
            return
        readers = [n for n in sequence[position:] if seed in [views.get(i, i) for i in n.inputs]]
        around = tuple(dict.fromkeys((result_of(seed)[0], *readers)))
        opening = {node: made for one in around for node, made in expand_bands(one).items()}
        plain = rebuild(whole, opening)
        walk = toposort(plain, is_leaf)
        again = BandSearch(plain, run_keys(walk), sequence, walk, machine)
        found = again.cut_around(opening.get(seed, seed), position, again=True)
        if found is not None:
            yield plain, found
        search = BandSearch(whole, run_key, sequence, order, machine)
        for alone in [search.cut_in_place(node, position) for node in around]:
            if alone is not None:
                yield whole, alone


def _live_values(layout: ArenaLayout, position: int) -> list[Node]:
    """The values that are alive at a position, the largest first."""
    schedule, values = layout.schedule, layout.problem.values
    found: list[tuple[int, Node]] = []
    for storage in schedule.alive(position):
        tenants = [v for v, at in schedule.occupants[storage] if at <= position]
        owners = [v for v in tenants if values[v].view_of is None]
        if owners and isinstance(node := values[owners[-1]].label, Node):
            found.append((values[owners[-1]].bytes, node))
    return [node for _, node in sorted(found, key=lambda one: -one[0])]


def expand_bands(node: Node) -> dict[Node, Node]:
    """For each result of bands the node that it stands for; nothing for other nodes."""
    if not isinstance(node.op, Bands):
        return {}
    values = list(node.inputs)
    with source_scope(node.sources):
        for step in node.op.body.steps:
            values.append(make(step.op, tuple([values[i] for i in step.inputs])))
    made = [values[r] for r in node.op.body.results]
    return {node: made[0]} if len(made) == 1 else {part(node, i): m for i, m in enumerate(made)}


def bands_pass(cuts: Sequence[BandCut]) -> Pass:
    """The pass that puts bands in place of the steps they compute."""

    def run(flow: Flow, context: Context) -> Flow:
        replacements: dict[Node, Node] = {}
        for cut in cuts:
            context.recorder.record(BANDS, cut.steps, (cut.bands,))
            replacements |= cut.replacements
        return flow.replace_nodes(replacements)

    return Pass("cut_bands", (BANDS,), run)
