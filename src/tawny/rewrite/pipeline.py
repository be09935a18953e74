"""The passes of the optimiser, in order, and running them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tawny.gc_pause import pause_gc
from tawny.node import Node
from tawny.rewrite import (
    algebra,
    broadcasting,
    constants,
    contraction,
    contractions,
    derivatives,
    layouts,
    movement,
    reassociation,
    reductions,
    spec,
)
from tawny.rewrite.batch_norm import fold_batch_norm
from tawny.rewrite.bodies import bodies_pass
from tawny.rewrite.driver import rules_pass
from tawny.rewrite.flow import Context, Evaluate, Flow, Pass, RuleInfo
from tawny.rewrite.fusion import fuse_products
from tawny.rewrite.gathers import gather_pieces
from tawny.rewrite.groups.elementwise import group_elementwise
from tawny.rewrite.ledger import Ledger, Rewrites, graph_cost
from tawny.rewrite.loops import CHOOSE_BRANCHES, SHARE_LOOPS, TRIM_LOOPS
from tawny.settings import is_debugging

MOST_ROUNDS: Final = 16
"""Rounds of a repeated pass, at most: rules that undo each other would never end."""


def repeat_passes(name: str, *passes: Pass) -> Pass:
    """A pass that runs others in turn until none changes anything.

    Each of them must leave nothing to do for itself.
    """
    rules = {r.name: r for p in passes for r in p.rules}

    def run(flow: Flow, context: Context) -> Flow:
        settled = 0
        for step in itertools.islice(itertools.cycle(passes), MOST_ROUNDS * len(passes)):
            new = step(flow, context)
            settled = settled + 1 if new is flow else 1
            flow = new
            if settled == len(passes):
                break
        return flow

    return Pass(name, tuple(rules.values()), run)


SIMPLIFY: Final = repeat_passes(
    "simplify",
    constants.MERGING,
    constants.FOLDING,
    rules_pass(
        "rules",
        derivatives.ANNOTATIONS,
        constants.FOLD_RULES,
        movement.VIEWS,
        movement.CHAINS,
        layouts.LAYOUTS,
        algebra.SUMS,
        algebra.PRODUCTS,
        reassociation.REASSOCIATIONS,
        algebra.POWERS,
        algebra.CHOICES,
        algebra.TRAITS,
        broadcasting.BROADCASTS,
        broadcasting.ONES,
        reductions.REDUCTIONS,
        contractions.CONTRACTIONS,
        algebra.TWINS,
    ),
)

CONTRACT: Final = rules_pass(
    "contract", constants.FOLD_RULES, contraction.ADAGRAD, contraction.FMA, broadcasting.ONES
)

IN_BODIES: Final = (SHARE_LOOPS, TRIM_LOOPS, SIMPLIFY, CHOOSE_BRANCHES, fold_batch_norm)
"""Passes that simplify the bodies of loops and branches."""

SIMPLIFY_PASSES: Final[tuple[Pass, ...]] = (
    SHARE_LOOPS,
    TRIM_LOOPS,
    bodies_pass("simplify_bodies", *IN_BODIES),
    TRIM_LOOPS,
    SIMPLIFY,
    CHOOSE_BRANCHES,
    fold_batch_norm,
)
FUSE_PASSES: Final[tuple[Pass, ...]] = (
    bodies_pass("fuse_bodies", fuse_products, CONTRACT),
    fuse_products,
    CONTRACT,
)
PIPELINE: Final = (*SIMPLIFY_PASSES, *FUSE_PASSES, gather_pieces, group_elementwise)
"""The passes of `tw.optimise`; `tawny.graph.pipeline` has all stages of compiling a program."""


def rules(pipeline: Sequence[Pass] = PIPELINE) -> tuple[RuleInfo, ...]:
    """Every rule of a pipeline, in the order of its passes."""
    return tuple({r.name: r for p in pipeline for r in p.rules}.values())


@dataclass(frozen=True, slots=True)
class OptimisedGraph:
    """A graph that computes the same with less, and what was done to make it."""

    flow: Flow
    rewrites: Rewrites

    @property
    def outputs(self) -> tuple[Node, ...]:
        """The nodes that stand for the outputs given."""
        return self.flow.outputs


def optimise(
    outputs: Sequence[Node] | Flow,
    *,
    evaluate: Evaluate,
    assume_finite: bool = False,
    disable: Iterable[str] = (),
    enable: Iterable[str] = (),
    check: bool = False,
    pipeline: Sequence[Pass] = PIPELINE,
    known: Collection[RuleInfo] | None = None,
    measured: bool = True,
) -> OptimisedGraph:
    """The graph of `outputs`, optimised; the nodes given are never changed.

    `evaluate` computes constants.  `assume_finite` lets finite rules apply everywhere, not just
    where an operand is proved finite.  `disable` names rules or classes of rules to leave out,
    `enable` those to use that are left out otherwise: the class "reassociating".  `check` refuses
    illegal graphs after each pass (see `spec`); so does `TAWNY_DEBUG=1` in the environment.
    `known` are the rules that may be named, where they are more than those of the pipeline.  The
    ledger gets the size and the cost of both graphs if they are `measured`.
    """
    check = check or is_debugging()
    ledger = Ledger(rules(pipeline) if known is None else known, disable, enable)
    context = Context(evaluate, ledger, assume_finite)
    given = flow = outputs if isinstance(outputs, Flow) else Flow(tuple(outputs))
    with pause_gc():
        for step in pipeline:
            old = flow if check else None  # else it may go while the next pass runs
            flow = step(flow, context)
            if old is not None:
                spec.check(flow, step.name, old)
        if measured:
            measure(ledger.rewrites, given.order(), flow.order())
    return OptimisedGraph(flow, ledger.rewrites)


def measure(rewrites: Rewrites, before: Sequence[Node], after: Sequence[Node]) -> None:
    """Note how many nodes there were and are, and what they cost."""
    rewrites.nodes_before, rewrites.cost_before = len(before), graph_cost(before)
    rewrites.nodes_after, rewrites.cost_after = len(after), graph_cost(after)
