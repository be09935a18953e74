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
from tawny.ops.fusion import PLAIN, Body, FusedMatmul, Group, ProductGroup, Step, is_rowwise
from tawny.ops.indexing import Slice
from tawny.ops.linalg import Matmul
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, united_sources
from tawny.rewrite.group_lifetime import bytes_of, is_leaf, owner
from tawny.rewrite.groups import Moment

PRODUCT_GROUP: Final = RuleInfo(
    "product_group", Kind.EXACT, "group(a @ b, x) = product_group(a, b, x), some rows at a time"
)

LEAST_BYTES: Final = 2**20
"""Smaller products stay in the caches anyway."""

LEAST_IN_PIECES: Final = 2**12
"""The same where a product is read in pieces, which one thread made and others need."""

PRODUCTS: Final[frozenset[Family]] = frozenset({Matmul, FusedMatmul})

Joins = Callable[[ProductGroup, Sequence[Node]], bool]
"""Whether an op on some operands is worth a kernel."""


def joining(
    joins: Joins,
    moments: Callable[[Sequence[Node]], Moment] | None = None,
    least: int = LEAST_BYTES,
) -> Pass:
    """The pass; with `moments`, given all nodes, only what runs at the same time is joined.

    `joins` is asked last.  Products of fewer than `least` bytes are left alone.
    """

    def run(flow: Flow, context: Context) -> Flow:
        if PRODUCTS.isdisjoint(flow.families()) or not context.recorder.allows(PRODUCT_GROUP):
            return flow
        moment = None if moments is None else moments(flow.order())
        uses, outputs = flow.uses(), frozenset(flow.outputs)
        replacements: dict[Node, Node] = {}
        for reader in flow.order():
            if type(reader.op) not in (Group, Elementwise) or is_leaf(reader):
                continue
            for product, places in _products(reader, uses):
                if (
                    _is_product(product, least if len(places) == 1 else min(least, LEAST_IN_PIECES))
                    and (moment is None or moment(product) == moment(reader))
                    and _saves(reader, product, places, uses, outputs)
                ):
                    made = _joined(reader, product, places, joins)
                    if made is not None:
                        context.recorder.record(PRODUCT_GROUP, (product, reader), (made,))
                        replacements[reader] = made
                        break
        return flow.replaced(replacements)

    return Pass("join_products", (PRODUCT_GROUP,), run)


def _products(reader: Node, uses: Counter[Node]) -> Iterator[tuple[Node, tuple[int, ...]]]:
    """What only a group reads, whole or cut into pieces, and which of its operands that is."""
    for place, source in enumerate(reader.inputs):
        if uses[source] != 1 or is_leaf(source):
            continue
        if not isinstance(source.op, Slice):
            yield source, (place,)
        elif len(source.shape) == 2 and source.op.ranges[1][0] == 0:
            places = _pieces(reader, source.inputs[0], source, uses)
            if places:
                yield source.inputs[0], places


def _pieces(reader: Node, whole: Node, first: Node, uses: Counter[Node]) -> tuple[int, ...]:
    """The operands of a group that are all of a matrix, cut like its first piece; else none."""
    (rows, columns), width = whole.shape, first.shape[1]
    count = columns // max(width, 1)
    if is_leaf(whole) or count < 2 or count * width != columns or uses[whole] != count:
        return ()
    places: list[int] = []
    for number in range(count):
        cut = Slice(((0, rows, 1), (number * width, width, 1)))
        found = [
            place
            for place, source in enumerate(reader.inputs)
            if source.op == cut and source.inputs[0] is whole and uses[source] == 1
        ]
        places += found
    return tuple(places) if len(places) == count else ()


def _is_product(node: Node, least: int) -> bool:
    """Whether a node is a large product of two matrices."""
    return (
        node.op.family in PRODUCTS
        and not is_leaf(node)
        and len(node.inputs[0].shape) == len(node.inputs[1].shape) == 2
        and bytes_of(node) >= least
    )


def body_of(reader: Node) -> Body:
    """What a group or an elementwise op computes."""
    if isinstance(reader.op, Group):
        return reader.op.body
    given = tuple([(i.shape, i.dtype) for i in reader.inputs])
    step = Step(reader.op, tuple(range(len(given))), reader.shape, reader.dtype)
    return Body.of(given, (step,), (len(given),))


def _joined(reader: Node, product: Node, places: Sequence[int], joins: Joins) -> Node | None:
    """One node for a reader and the product that some operands are; None if it is no gain."""
    body, pieces = product_first(body_of(reader), *places), len(places)
    if not is_rowwise(body, pieces):
        return None
    op = ProductGroup(False, False, PLAIN, body, pieces)
    if isinstance(product.op, FusedMatmul):
        op = ProductGroup(**product.op.attributes(), body=body, pieces=pieces)
    others = [source for place, source in enumerate(reader.inputs) if place not in places]
    operands = (*product.inputs, *others)
    with written_at(united_sources((product, reader))):
        return make(op, operands) if joins(op, operands) else None


def product_first(body: Body, *places: int) -> Body:
    """The same body with some operands as the first ones."""
    order = [*places, *[i for i in range(len(body.operands)) if i not in places]]
    new = {old: number for number, old in enumerate(order)}
    steps = [s._replace(inputs=tuple([new.get(i, i) for i in s.inputs])) for s in body.steps]
    results = tuple([new.get(r, r) for r in body.results])
    return Body.of(tuple([body.operands[i] for i in order]), tuple(steps), results)


# ---------------------------------------------------------------------- memory


def _saves(
    reader: Node,
    product: Node,
    places: Sequence[int],
    uses: Counter[Node],
    outputs: Collection[Node],
) -> bool:
    """Whether less memory is in use if the product, some of the reader's operands, is not stored.

    As many results as before must be written over operands.  Where the reader waits for what is
    computed, or makes what takes memory of its own, so that it should wait, the product's operands
    are kept in place of the product: they must be no larger.  A reader of pieces that need not wait
    must not make more than the product was.
    """
    pairs = list(_overwrites(reader, uses, outputs))
    found = match([(operand, result) for operand, result in pairs if operand not in places])
    if len(found) < len(match(pairs)):
        return False
    sources = [source for place, source in enumerate(reader.inputs) if place not in places]
    others = [owner(source) for source in sources]
    results = len(body_of(reader).results)
    if all(map(is_leaf, others)) and len(found) == results:
        return True
    if len(places) > 1 and results - len(found) <= len(places):
        at_hand = _at_hand(product)
        if all(is_leaf(other) or _maker(other) in at_hand for other in others):
            return True
    owners = {owner(source) for source in product.inputs}
    return sum(bytes_of(n) for n in owners if not is_leaf(n)) <= bytes_of(product)


def _at_hand(product: Node) -> set[Node]:
    """Some of what is there when a product can be computed.

    That is whatever its operands were made from, and all that was made together with them.
    """
    makers = {_maker(owner(source)) for source in product.inputs}
    before = [source for maker in makers if not is_leaf(maker) for source in maker.inputs]
    return makers | {_maker(owner(source)) for source in before}


def _maker(node: Node) -> Node:
    """The node that makes a value, perhaps with others."""
    return node.inputs[0] if isinstance(node.op, Part) else node


def _overwrites(
    reader: Node, uses: Counter[Node], outputs: Collection[Node]
) -> Iterator[tuple[int, int]]:
    """Pairs (operand, result): the result is likely to be written over the operand.

    Nobody else reads the operand; or it is a variable and the result is asked for, as updates are.
    """
    results = [part(reader, i) for i in range(len(reader.parts))] or [reader]
    for operand, result in body_of(reader).overwrites():
        source = reader.inputs[operand]
        if is_leaf(source):
            dies = isinstance(source.op, Variable) and results[result] in outputs
        else:
            dies = uses[source] == 1 and owner(source) is source
        if dies:
            yield operand, result
