"""Derivatives of loops: loops themselves.

A tangent is computed beside what it belongs to.  Cotangents go through the steps the other way
round, given what the steps computed on the way: the loop is written again with that as further
rows, and takes the place of the first when the graph is optimised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tawny.array import Array, array_for
from tawny.autodiff.forward import push_forward
from tawny.autodiff.reverse import pull_back, sum_seeds
from tawny.dtype import kind_of
from tawny.loops.building import (
    OWN_NUMBERS,
    Inside,
    LoopStep,
    build_loop,
    build_while,
    maker_of,
    stand_in,
)
from tawny.node import Constant, Node, Part, make, make_parts, part, toposort
from tawny.op import ELEMENTWISE, Elementwise
from tawny.ops.creation import Cast, convert_node
from tawny.ops.differentiation import keeps_zeros
from tawny.ops.loops import ScanLoop, Switch, WhileLoop
from tawny.ops.movement import BroadcastTo, broadcast_node, zeros_node
from tawny.ops.subgraph import Subgraph, substitute

_ADD: Final = ELEMENTWISE["add"]

Derivative = Array | None


def push_forward_loop(
    op: ScanLoop, tangents: Sequence[Derivative], operands: Sequence[Array]
) -> list[Derivative]:
    """Tangents of the results: a loop that carries them along."""
    body, given = op.body, [x.node for x in operands]
    own = body.arguments[1:]
    moves = {i: t.node for i, t in enumerate(tangents) if t is not None}
    holders = {own[i]: stand_in(own[i]) for i in moves}
    while True:
        found = push_forward(holders, body.results)
        more = [
            own[i]
            for i in range(op.carries)
            if found[i] is not None and own[i] not in holders and kind_of(own[i].dtype) in "fc"
        ]
        if not more:
            break
        holders |= {x: stand_in(x) for x in more}
    carries = [i for i in range(op.carries) if own[i] in holders]
    rows = [i for i in range(op.carries, op.first_shared) if own[i] in holders]
    changed = [i for i in range(op.carries, len(found)) if found[i] is not None]
    results = [*body.results, *[_whole(found[i], body.results[i]) for i in (*carries, *changed)]]
    places = dict(zip(own[op.first_shared :], given[op.first_shared :], strict=True))
    places |= {holders[own[i]]: moves[i] for i in moves if i >= op.first_shared}
    made = substitute(toposort(results, places.__contains__), places)
    new = [made[r] for r in results]
    count, split = len(body.results), len(body.results) + len(carries)
    step = LoopStep(
        body.arguments[0],
        (*own[: op.carries], *[holders[own[i]] for i in carries]),
        (*own[op.carries : op.first_shared], *[holders[own[i]] for i in rows]),
        (*new[: op.carries], *new[count:split]),
        (*new[op.carries : count], *new[split:]),
    )
    loop = build_loop(
        step,
        [*given[: op.carries], *[_whole(moves.get(i), given[i]) for i in carries]],
        [*given[op.carries : op.first_shared], *[_whole(moves[i], given[i]) for i in rows]],
        op.length,
        reverse=op.reverse,
        inside=_draws_inside(op, made),
    )
    out: dict[int, Node] = dict(zip(carries, loop.carries[op.carries :], strict=True))
    out |= dict(zip(changed, loop.rows[count - op.carries :], strict=True))
    return [array_for(out[i]) if i in out else None for i in range(count)]


def pull_back_loop(
    op: ScanLoop, cotangents: Sequence[Derivative], operands: Sequence[Array]
) -> list[Derivative]:
    """Cotangents of the operands: a loop from the last step to the first."""
    body, given = op.body, [x.node for x in operands]
    own = body.arguments[1:]
    seeds = {i: c.node for i, c in enumerate(cotangents) if c is not None}
    holders, found = _pull_back_step(op, seeds)
    carries = sorted(i for i in holders if i < op.carries)
    rows = [i for i in range(op.carries, op.first_shared) if own[i] in found]
    shared = [i for i in range(op.first_shared, len(own)) if own[i] in found]
    sums = {i: stand_in(own[i]) for i in shared}
    results = [_whole(found.get(own[i]), own[i]) for i in carries]
    results += [make(_ADD, (sums[i], _whole(found[own[i]], own[i]))) for i in shared]
    results += [_whole(found[own[i]], own[i]) for i in rows]

    saved = _saved_nodes(op, results)
    later = _seen_later(op, saved)
    last, stacked = _stack_saved(op, given, [n for n in saved if n not in later])
    cotangent_rows = [i for i in holders if i >= op.carries]
    given_rows = range(op.carries, op.first_shared)
    kept = {node: stand_in(node) for node in saved}
    passed = {kept[node]: kept[own[i]] for node, i in later.items()}
    places: dict[Node, Node] = kept | dict(
        zip(own[op.first_shared :], given[op.first_shared :], strict=True)
    )
    made = substitute(toposort(results, places.__contains__), places)
    new = tuple([made[r] for r in results])
    split = len(carries) + len(shared)
    read = [x for x in kept.values() if x not in passed]
    step = LoopStep(
        body.arguments[0],
        (*[holders[i] for i in carries], *sums.values(), *passed),
        (*[own[i] for i in given_rows], *read, *[holders[i] for i in cotangent_rows]),
        (*new[:split], *passed.values()),
        new[split:],
    )
    first = [_whole(seeds.get(i), body.results[i]) for i in carries]
    first += [zeros_node(given[i].shape, given[i].dtype) for i in shared]
    first += [last[i] for i in later.values()]
    whole = [((op.length, *body.results[i].shape), seeds[i]) for i in cotangent_rows]
    loop = build_loop(
        step,
        first,
        [*[given[i] for i in given_rows], *stacked]
        + [broadcast_node(seed, shape) for shape, seed in whole],
        op.length,
        reverse=not op.reverse,
        inside=Inside(min([n.serial for n in body.arguments]), ()),
    )
    out = dict(zip((*carries, *shared), loop.carries, strict=False))
    out |= dict(zip(rows, loop.rows, strict=True))
    return [array_for(out[i]) if i in out else None for i in range(len(given))]


def _pull_back_step(
    op: ScanLoop, wanted: Iterable[int]
) -> tuple[dict[int, Node], dict[Node, Node]]:
    """Cotangents of a step's arguments, and what stands for those of its results.

    A carry whose argument has a cotangent has one as a result of the step before.
    """
    body, own = op.body, op.body.arguments[1:]
    holders = {i: stand_in(body.results[i]) for i in wanted}
    smooth = [x for x in own if kind_of(x.dtype) in "fc"]
    while True:
        pairs = [(body.results[i], holder) for i, holder in holders.items()]
        found = pull_back(sum_seeds(pairs), smooth, masked=keeps_zeros())
        more = [i for i in range(op.carries) if own[i] in found and i not in holders]
        if not more:
            return holders, found
        holders |= {i: stand_in(body.results[i]) for i in more}


def push_forward_while(
    op: WhileLoop, tangents: Sequence[Derivative], operands: Sequence[Array]
) -> list[Derivative]:
    """Tangents of the results: a loop that carries them along."""
    body, given = op.body, [x.node for x in operands[1:]]
    own, count = body.arguments[1:], op.carries
    moves = {i: t.node for i, t in enumerate(tangents[1:]) if t is not None}
    holders = {own[i]: stand_in(own[i]) for i in moves}
    results = body.results[1:]
    while True:
        found = push_forward(holders, results)
        changed = [own[i] for i in range(count) if found[i] is not None]
        more = [x for x in changed if x not in holders and kind_of(x.dtype) in "fc"]
        if not more:
            break
        holders |= {x: stand_in(x) for x in more}
    carries = [i for i in range(count) if own[i] in holders]
    made = [*body.results, *[_whole(found[i], results[i]) for i in carries]]
    places = dict(zip(own[count:], given[count:], strict=True))
    places |= {holders[own[i]]: moves[i] for i in moves if i >= count}
    written = substitute(toposort(made, places.__contains__), places)
    flag, *new = [written[n] for n in made]
    step = LoopStep(
        body.arguments[0],
        (*own[:count], *[holders[own[i]] for i in carries]),
        (),
        tuple(new),
        (flag,),
    )
    first = [*given[:count], *[_whole(moves.get(i), given[i]) for i in carries]]
    last = build_while(step, operands[0].node, first, inside=_draws_inside(op, written))
    out = dict(zip(carries, last[count:], strict=True))
    return [array_for(out[i]) if i in out else None for i in range(count)]


def push_forward_switch(
    op: Switch, tangents: Sequence[Derivative], operands: Sequence[Array]
) -> list[Derivative]:
    """Tangents of the results of the branch that is taken."""
    moves = [i for i, t in enumerate(tangents[1:]) if t is not None]
    holders = [stand_in(op.branches[0].arguments[i]) for i in moves]
    rows: list[list[Node | None]] = []
    for branch in op.branches:
        seeds = {branch.arguments[i]: h for i, h in zip(moves, holders, strict=True)}
        rows.append(push_forward(seeds, branch.results))
    given = [t.node for t in tangents[1:] if t is not None]
    types = [op.branches[0].results[i] for i in range(len(rows[0]))]
    return _choose(op, operands, rows, types, dict(zip(holders, given, strict=True)))


def pull_back_switch(
    op: Switch, cotangents: Sequence[Derivative], operands: Sequence[Array]
) -> list[Derivative]:
    """Cotangents of the operands by the branch that is taken, which is computed again."""
    seeds = {i: c.node for i, c in enumerate(cotangents) if c is not None}
    holders = {i: stand_in(op.branches[0].results[i]) for i in seeds}
    rows: list[list[Node | None]] = []
    for branch in op.branches:
        smooth = [x for x in branch.arguments if kind_of(x.dtype) in "fc"]
        pairs = [(branch.results[i], h) for i, h in holders.items()]
        found = pull_back(sum_seeds(pairs), smooth, masked=keeps_zeros())
        rows.append([found.get(x) for x in branch.arguments])
    given = {holders[i]: _whole(seeds[i], op.branches[0].results[i]) for i in seeds}
    return [None, *_choose(op, operands, rows, op.branches[0].arguments, given)]


def _choose(
    op: Switch,
    operands: Sequence[Array],
    rows: Sequence[Sequence[Node | None]],
    types: Sequence[Node],
    besides: Mapping[Node, Node],
) -> list[Derivative]:
    """Derivatives by the branch that is taken; `rows` are those that each would give.

    They are written in its arguments and in what stands for `besides`.
    """
    wanted = [i for i in range(len(types)) if any(row[i] is not None for row in rows)]
    if not wanted:
        return [None] * len(types)
    index, *given = [x.node for x in operands]
    holders = tuple(besides)
    results = tuple([tuple([_whole(row[i], types[i]) for i in wanted]) for row in rows])
    bodies = [
        Subgraph((*branch.arguments, *holders), made)
        for branch, made in zip(op.branches, results, strict=True)
    ]
    used = {
        i for body in bodies for i, x in enumerate(body.arguments) if x in frozenset(body.order)
    }
    taken = sorted(used)
    chosen = Switch(
        tuple([Subgraph(tuple([b.arguments[i] for i in taken]), b.results) for b in bodies])
    )
    sources = [*given, *besides.values()]
    made = make_parts(chosen, (index, *[sources[i] for i in taken]))
    out = dict(zip(wanted, made, strict=True))
    return [array_for(out[i]) if i in out else None for i in range(len(types))]


def _whole(derivative: Node | None, x: Node) -> Node:
    """A derivative of the shape and dtype of what it belongs to; zeros for None."""
    if derivative is None:
        return zeros_node(x.shape, x.dtype)
    return convert_node(broadcast_node(derivative, x.shape), x.dtype)


def _draws_inside(op: ScanLoop | WhileLoop, made: Mapping[Node, Node]) -> Inside:
    """The draws of a body that was written anew."""
    body, numbering = op.body, op.numbering if isinstance(op, ScanLoop) else OWN_NUMBERS
    since = min([n.serial for n in body.arguments])
    return Inside(since, [made.get(n, n) for n in body.impure], numbering)


# -------------------------------------------------------------- what is kept


def _saved_nodes(op: ScanLoop, results: Iterable[Node]) -> list[Node]:
    """What the steps backward need of those forward and do not compute again.

    They have place, rows and what is the same for all; what follows from that and from other nodes
    that are kept, element by element, is computed again.
    """
    body = op.body
    forward = frozenset(body.order)
    there = {body.arguments[0], *body.arguments[1 + op.carries :]}

    def is_forward(node: Node) -> bool:
        return maker_of(node) in forward

    read = [n for n in toposort(results, is_forward) if is_forward(n)]
    order = {node: number for number, node in enumerate(body.order)}
    saved: dict[Node, None] = {}
    for node in sorted(read, key=lambda n: order[maker_of(n)]):
        if not _is_cheap(node, there | saved.keys()):
            saved[node] = None
    return list(saved)


def _is_cheap(node: Node, there: Iterable[Node]) -> bool:
    """Whether a node follows, element by element, from what is there."""
    known = frozenset(there)
    for inner in toposort([node], known.__contains__):
        op = inner.op
        if inner in known or type(op) is Constant:
            continue
        local = isinstance(op, (Elementwise, Cast, BroadcastTo)) or op.facts().view
        if not local or not inner.inputs or op.facts().impure:
            return False
    return True


def _seen_later(op: ScanLoop, saved: Sequence[Node]) -> dict[Node, int]:
    """The nodes that need no rows: new values of carries whose old ones are saved, by their number.

    On the way back the step before has met them, as the old value of the step after.
    """
    body, own = op.body, op.body.arguments[1:]
    found: dict[Node, int] = {}
    if op.length < FEW_STEPS_BACK:
        return found
    for i in range(op.carries):
        node = body.results[i]
        if node not in saved or node in found or own[i] not in saved:
            continue
        before = own[i]
        while before in found:
            before = own[found[before]]
        if before is not node:
            found[node] = i
    return found


FEW_STEPS_BACK: Final = 3
"""Loops of fewer steps keep rows for whatever they need, since a carry may take its bytes twice."""


def _stack_saved(
    op: ScanLoop, given: Sequence[Node], saved: Sequence[Node]
) -> tuple[list[Node], list[Node]]:
    """The last carries, and what all steps computed, stacked, of the nodes that are saved."""
    body, first = op.body, op.carries
    if not saved:
        return [], []
    own = body.arguments[1:]
    made = body.apply((*body.arguments[: 1 + op.first_shared], *given[op.first_shared :]))
    results = [made[r] for r in body.results]
    kept = [
        part(made[maker_of(n)], n.op.index) if isinstance(n.op, Part) else made[n] for n in saved
    ]
    step = LoopStep(
        body.arguments[0],
        own[:first],
        own[first : op.first_shared],
        tuple(results[:first]),
        (*results[first:], *kept),
    )
    loop = build_loop(
        step,
        given[:first],
        given[first : op.first_shared],
        op.length,
        reverse=op.reverse,
        inside=_draws_inside(op, made),
    )
    return loop.carries, loop.rows[len(results) - first :]
