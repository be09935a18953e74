"""Parts of a function that the derivative computes again instead of keeping their values."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, final

from tawny.array import Array, array_for, lift, wrap
from tawny.autodiff.forward import push_forward
from tawny.autodiff.functions import Function
from tawny.autodiff.reverse import pull_back, sum_seeds
from tawny.autodiff.tracing import check_callable, substitute
from tawny.bad_calls import explain_bad_calls
from tawny.node import Node, make, make_parts, toposort, variable
from tawny.ops.differentiation import Again, Checkpoint, Derivative, GivenRule
from tawny.tree import leaves, map_leaves


@explain_bad_calls
def checkpoint(function: Function) -> Function:
    """`function`, of which a derivative keeps the arguments only and computes the rest again.

    - `function`: computes arrays from arrays.

    Gives a function of the same arguments and values.  This holds whatever the planner decides,
    which makes its own choice under a memory budget.

        block = tw.checkpoint(lambda a: np.sin(np.sin(a)))
        float(tw.grad(lambda a: block(block(a)))(0.0))   # -> 1.0
    """
    check_callable("checkpoint", function)

    @functools.wraps(function)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        given = [x.node for x in leaves((args, kwargs)) if isinstance(x, Array)]
        arguments = list(dict.fromkeys(given))
        results = [lift(x, "checkpoint") for x in leaves(result) if x is not None]
        inner = _nodes_between(results, arguments)
        made = [r for r in results if r in inner]
        if not made:
            return result
        besides = list(dict.fromkeys(x for n in inner for x in n.inputs if x not in inner))
        besides = [x for x in besides if x not in arguments]
        op = Checkpoint(len(made), CheckpointRule(len(made), len(arguments)))
        parts = dict(zip(made, make_parts(op, (*made, *arguments, *besides)), strict=True))
        nodes = iter(results)

        def mark(x: Any) -> Any:
            return None if x is None else wrap(parts.get(n := next(nodes), n))

        return map_leaves(mark, result)

    return checkpointed


def _nodes_between(results: Sequence[Node], arguments: Sequence[Node]) -> set[Node]:
    """The nodes on the way from arguments to results."""
    start, inner = frozenset(arguments), set[Node]()
    for node in toposort(results, lambda n: n in start):
        if node not in start and any(x in start or x in inner for x in node.inputs):
            inner.add(node)
    return inner


@final
class CheckpointRule(GivenRule):
    """The rule of one call."""

    def __init__(self, results: int, arguments: int) -> None:
        self.results = results
        self.arguments = arguments
        """How many operands behind the results are arguments; the rest were used besides."""

    def batch(self, batched: Sequence[bool]) -> GivenRule:
        """What is computed again is found in the graph of the batch."""
        return self

    def pullback(
        self, cotangents: Sequence[Derivative], results: Sequence[Array], operands: Sequence[Array]
    ) -> list[Derivative]:
        made, holders, given = self._write_in_placeholders(operands)
        seeds = [(y, s.node) for y, s in zip(made, cotangents, strict=True) if s is not None]
        found = pull_back(sum_seeds(seeds), holders)
        after = seeds[0][1]
        behind = {
            h: make(Again(), (x, after)) if i < self.arguments else x
            for i, (h, x) in enumerate(zip(holders, given, strict=True))
        }
        reached = [h for h in holders if h in found]
        written = dict(zip(reached, substitute([found[h] for h in reached], behind), strict=True))
        passed = [array_for(written[h]) if h in written else None for h in holders]
        return [*[None] * self.results, *passed]

    def pushforward(
        self, tangents: Sequence[Derivative], results: Sequence[Array], operands: Sequence[Array]
    ) -> list[Derivative]:
        made, holders, given = self._write_in_placeholders(operands)
        moved = {
            h: t.node
            for h, t in zip(holders, tangents[self.results :], strict=True)
            if t is not None
        }
        found = push_forward(moved, made)
        back = dict(zip(holders, given, strict=True))
        return [None if t is None else array_for(substitute([t], back)[0]) for t in found]

    def _write_in_placeholders(
        self, operands: Sequence[Array]
    ) -> tuple[list[Node], list[Node], list[Node]]:
        """The segment's results written in placeholders, these, and what they stand for."""
        results = [x.node for x in operands[: self.results]]
        given = [x.node for x in operands[self.results :]]
        holders = [variable(None, x.shape, x.dtype) for x in given]
        return substitute(results, dict(zip(given, holders, strict=True))), holders, given
