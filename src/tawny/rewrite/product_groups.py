"""The pass that joins a group, or an elementwise op, with a matrix product that only it reads.

The kernel of both computes a few rows of the product at a time and uses them up, so the product is
never whole in memory.  They are joined where that saves the product's memory: its result is large,
no result of the group would have been written over it, and waiting for the group keeps no more
bytes than the product has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from tawny.memory.inplace import match
from tawny.node import Node, Part, Variable, make, part, written_at
from tawny.op import Elementwise, Family
from tawny.ops.fused import PLAIN, Body, FusedMatmul, Group, ProductGroup, Step, is_rowwise
from tawny.ops.linalg import Matmul
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, united_sources
from tawny.rewrite.group_lifetime import bytes_of, is_leaf
from tawny.rewrite.groups import Moment

PRODUCT_GROUP: Final = RuleInfo(
    "product_group", Kind.EXACT, "group(a @ b, x) = product_group(a, b, x), some rows at a time"
)

LEAST_BYTES: Final = 2**20
"""Smaller products stay in the caches anyway."""

PRODUCTS: Final[frozenset[Family]] = frozenset({Matmul, FusedMatmul})

Joins = Callable[[ProductGroup, Sequence[Node]], bool]
"""Whether an op on some operands is worth a kernel."""


def joining(
    joins: Joins,
    moments: Callable[[Sequence[Node]], Moment] | None = None,
    least: int = LEAST_BYTES,
) -> Pass:
    """The pass; with `moments`, given the outputs, only what runs at the same time is joined.

    `joins` is asked last.  Products of fewer than `least` bytes are left alone.
    """

    def run(flow: Flow, context: Context) -> Flow:
        if PRODUCTS.isdisjoint(flow.families()) or not context.recorder.allows(PRODUCT_GROUP):
            return flow
        moment = None if moments is None else moments(flow.outputs)
        uses, outputs = flow.uses(), frozenset(flow.outputs)
        replacements: dict[Node, Node] = {}
        for reader in flow.order():
            if type(reader.op) not in (Group, Elementwise) or is_leaf(reader):
                continue
            for place, product in enumerate(reader.inputs):
                if (
                    _is_product(product, least)
                    and uses[product] == 1
                    and (moment is None or moment(product) == moment(reader))
                    and _saves(reader, place, uses, outputs)
                ):
                    made = _joined(reader, place, joins)
                    if made is not None:
                        context.recorder.record(PRODUCT_GROUP, (product, reader), (made,))
                        replacements[reader] = made
                        break
        return flow.replaced(replacements)

    return Pass("join_products", (PRODUCT_GROUP,), run)


def _is_product(node: Node, least: int) -> bool:
    """Whether a node is a large product of two matrices."""
    return (
        node.op.family in PRODUCTS
        and not is_leaf(node)
        and len(node.inputs[0].shape) == len(node.inputs[1].shape) == 2
        and bytes_of(node) >= least
    )


def _body(reader: Node) -> Body:
    """What a group or an elementwise op computes."""
    if isinstance(reader.op, Group):
        return reader.op.body
    given = tuple([(i.shape, i.dtype) for i in reader.inputs])
    step = Step(reader.op, tuple(range(len(given))), reader.shape, reader.dtype)
    return Body.of(given, (step,), (len(given),))


def _joined(reader: Node, place: int, joins: Joins) -> Node | None:
    """One node for a reader and the product that is its operand `place`; None if it is no gain."""
    product = reader.inputs[place]
    body = product_first(_body(reader), place)
    if not is_rowwise(body):
        return None
    op = ProductGroup(False, False, PLAIN, body)
    if isinstance(product.op, FusedMatmul):
        op = ProductGroup(**product.op.attributes(), body=body)
    operands = (*product.inputs, *reader.inputs[:place], *reader.inputs[place + 1 :])
    with written_at(united_sources((product, reader))):
        return make(op, operands) if joins(op, operands) else None


def product_first(body: Body, place: int) -> Body:
    """The same body with operand `place` as the first."""
    order = [place, *[i for i in range(len(body.operands)) if i != place]]
    new = {old: number for number, old in enumerate(order)}
    steps = [s._replace(inputs=tuple([new.get(i, i) for i in s.inputs])) for s in body.steps]
    results = tuple([new.get(r, r) for r in body.results])
    return Body.of(tuple([body.operands[i] for i in order]), tuple(steps), results)


# ---------------------------------------------------------------------- memory


def _saves(reader: Node, place: int, uses: Counter[Node], outputs: Collection[Node]) -> bool:
    """Whether less memory is in use if the product is not stored.

    As many results as before must be written over operands.  Where the reader waits for what is
    computed, or makes what takes memory of its own, so that it should wait, the product's operands
    are kept in place of the product: they must be no larger.
    """
    product = reader.inputs[place]
    pairs = list(_overwrites(reader, uses, outputs))
    found = match([(operand, result) for operand, result in pairs if operand != place])
    if len(found) < len(match(pairs)):
        return False
    others = [owner(source) for source in reader.inputs if source is not product]
    if all(map(is_leaf, others)) and len(found) == len(_body(reader).results):
        return True
    owners = {owner(source) for source in product.inputs}
    return sum(bytes_of(n) for n in owners if not is_leaf(n)) <= bytes_of(product)


def _overwrites(
    reader: Node, uses: Counter[Node], outputs: Collection[Node]
) -> Iterator[tuple[int, int]]:
    """Pairs (operand, result): the result is likely to be written over the operand.

    Nobody else reads the operand; or it is a variable and the result is asked for, as updates are.
    """
    results = [part(reader, i) for i in range(len(reader.parts))] or [reader]
    for operand, result in _body(reader).overwrites():
        source = reader.inputs[operand]
        if is_leaf(source):
            dies = isinstance(source.op, Variable) and results[result] in outputs
        else:
            dies = uses[source] == 1 and owner(source) is source
        if dies:
            yield operand, result


def owner(node: Node) -> Node:
    """The node whose memory holds the value of one that may be a view."""
    while not is_leaf(node) and node.op.facts().view and not isinstance(node.op, Part):
        node = node.inputs[0]
    return node
