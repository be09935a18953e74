"""The passes of the optimiser one by one, with the graph before and after each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tawny.graph.pipeline import PLANNING, CompileRequest, CompileState
from tawny.node import Node
from tawny.rewrite.flow import Flow, Pass
from tawny.rewrite.ledger import Rewrites
from tawny.rewrite.pipeline import OptimisedGraph


class PassRecord(NamedTuple):
    """A pass: the graph before and after it, and the rules it applied."""

    name: str
    before: tuple[Node, ...]
    after: tuple[Node, ...]
    rewrites: Rewrites


REWRITING = PLANNING[:4]
"""The stages that rewrite; those behind them plan."""


def repeat_rewriting(request: CompileRequest) -> list[PassRecord]:
    """Rewrite the graph once more, pass by pass; gives what each pass did."""
    optimise, count = request.optimise, len(request.results)
    if optimise is None:
        return []
    records: list[PassRecord] = []

    def run(flow: Flow, passes: Sequence[Pass]) -> OptimisedGraph:
        rewrites = Rewrites()
        for step in passes:
            made = optimise(flow, (step,))
            before, after = flow.outputs[:count], made.outputs[:count]
            records.append(PassRecord(step.name, before, after, made.rewrites))
            flow, rewrites = made.flow, rewrites.followed_by(made.rewrites)
        return OptimisedGraph(flow, rewrites)

    state = CompileState(replace(request, optimise=run), Flow(request.results))
    for stage in REWRITING:
        stage.run(state)
    return records
