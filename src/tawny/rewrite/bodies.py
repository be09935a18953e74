"""Passes applied to the bodies of loops and branches, and to those of what is in them."""

from __future__ import annotations

from typing import Final

from tawny.node import Node
from tawny.op import Family
from tawny.ops.loops import BodyOp, ScanLoop, Switch, WhileLoop, with_bodies
from tawny.ops.subgraph import Subgraph
from tawny.rewrite.flow import Context, Flow, Pass

BODY_OPS: Final[frozenset[Family]] = frozenset({ScanLoop, Switch, WhileLoop})
"""The families of ops that have bodies."""


def bodies_pass(name: str, *passes: Pass) -> Pass:
    """The pass that applies others to all bodies, innermost last."""
    rules = {r.name: r for p in passes for r in p.rules}

    def run(flow: Flow, context: Context) -> Flow:
        done: dict[Subgraph, Subgraph] = {}
        replacements: dict[Node, Node] = {}
        for node in flow.order():
            if not isinstance(node.op, BodyOp):
                continue
            for body in node.op.bodies():
                if body not in done:
                    done[body] = optimise_body(body, context)
            bodies = [done[body] for body in node.op.bodies()]
            if any(new is not old for new, old in zip(bodies, node.op.bodies(), strict=True)):
                replacements[node] = with_bodies(node, bodies)
        return flow.replace_nodes(replacements)

    def optimise_body(body: Subgraph, context: Context) -> Subgraph:
        flow = Flow(body.results)
        for step in (*passes, own):
            flow = step(flow, context)
        same = flow.outputs == body.results
        return body if same else Subgraph(body.arguments, flow.outputs)

    own = Pass(name, tuple(rules.values()), run, BODY_OPS)
    return own
