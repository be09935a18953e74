"""The pass that makes a group, or an elementwise op, the body of the matrix product it reads.

The product may have an epilogue already, by `rewrite.fusion`; both are then its tail.  The kernel
of all computes a few rows of the product at a time and uses them up, so the product is never whole
in memory.  They are joined where that saves the product's memory: its result is large, no result of
the group would have been written over it, and waiting for the group keeps no more bytes than the
product has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from tawny.memory.inplace import match
from tawny.node import Node, Part, Variable, make, part, source_scope
from tawny.op import Elementwise, Family
from tawny.ops.body import Body, BodyStep
from tawny.ops.fused_products import (
    FusedProduct,
    TransposedMatmul,
    epilogue_of,
    is_rowwise,
    plain_product,
)
from tawny.ops.fusion import Group
from tawny.ops.indexing import Slice
from tawny.ops.linalg import Matmul
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, RunKey, sources_of
from tawny.rewrite.lifetimes import bytes_of, is_leaf, owner

PRODUCT_GROUP: Final = RuleInfo(
    "product_group", Kind.EXACT, "group(a @ b, x) = fused_product(a, b, x), some rows at a time"
)

LEAST_BYTES: Final = 2**20
"""Bytes of a product, at least, that is joined: smaller ones stay in the caches anyway."""

LEAST_IN_PIECES: Final = 2**12
"""Bytes of a product, at least, that is joined where it is read in pieces.

One thread makes a piece and others need it.
"""

MATRIX_PRODUCTS: Final[frozenset[Family]] = frozenset({Matmul, TransposedMatmul, FusedProduct})

CanFuseProduct = Callable[[FusedProduct, Sequence[Node]], bool]
"""Whether an op on some operands is worth a kernel."""


def product_group_pass(
    can_fuse_product: CanFuseProduct,
    run_keys: Callable[[Sequence[Node]], RunKey] | None = None,
    min_bytes: int = LEAST_BYTES,
) -> Pass:
    """The pass; with `run_keys`, given all nodes, only nodes with the same run key are joined.

    `can_fuse_product` is asked last.  Products of fewer than `min_bytes` are left alone.
    """

    def run(flow: Flow, context: Context) -> Flow:
        run_key = None if run_keys is None else run_keys(flow.order())
        uses, outputs = flow.uses(), frozenset(flow.outputs)
        replacements: dict[Node, Node] = {}
        for reader in flow.order():
            if type(reader.op) not in (Group, Elementwise) or is_leaf(reader):
                continue
            for product, positions in _products(reader, uses):
                if (
                    _is_product(
                        product,
                        min_bytes if len(positions) == 1 else min(min_bytes, LEAST_IN_PIECES),
                    )
                    and (run_key is None or run_key(product) == run_key(reader))
                    and _saves_memory(reader, product, positions, uses, outputs)
                ):
                    made = _join(reader, product, positions, can_fuse_product)
                    if made is not None:
                        context.recorder.record(PRODUCT_GROUP, (product, reader), (made,))
                        replacements[reader] = made
                        break
        return flow.replace_nodes(replacements)

    return Pass("join_products", (PRODUCT_GROUP,), run, MATRIX_PRODUCTS)


def _products(reader: Node, uses: Counter[Node]) -> Iterator[tuple[Node, tuple[int, ...]]]:
    """What only a group reads, whole or cut into pieces, and which of its operands that is."""
    for position, source in enumerate(reader.inputs):
        if uses[source] != 1 or is_leaf(source):
            continue
        if not isinstance(source.op, Slice):
            yield source, (position,)
        elif len(source.shape) == 2 and source.op.ranges[1][0] == 0:
            positions = _pieces(reader, source.inputs[0], source, uses)
            if positions:
                yield source.inputs[0], positions


def _pieces(reader: Node, whole: Node, first: Node, uses: Counter[Node]) -> tuple[int, ...]:
    """The operands of a group that are all of a matrix, cut like its first piece; else none."""
    (rows, columns), width = whole.shape, first.shape[1]
    count = columns // max(width, 1)
    if is_leaf(whole) or count < 2 or count * width != columns or uses[whole] != count:
        return ()
    positions: list[int] = []
    for number in range(count):
        cut = Slice(((0, rows, 1), (number * width, width, 1)))
        found = [
            position
            for position, source in enumerate(reader.inputs)
            if source.op == cut and source.inputs[0] is whole and uses[source] == 1
        ]
        positions += found
    return tuple(positions) if len(positions) == count else ()


def _is_product(node: Node, least: int) -> bool:
    """Whether a node is a large product of two matrices."""
    return (
        epilogue_of(node.op) is not None
        and not is_leaf(node)
        and len(node.inputs[0].shape) == len(node.inputs[1].shape) == 2
        and bytes_of(node) >= least
    )


def body_of(reader: Node) -> Body:
    """What a group or an elementwise op computes."""
    if isinstance(reader.op, Group):
        return reader.op.body
    given = tuple([(i.shape, i.dtype) for i in reader.inputs])
    step = BodyStep(reader.op, tuple(range(len(given))), reader.shape, reader.dtype)
    return Body.of(given, (step,), (len(given),))


def _join(
    reader: Node, product: Node, positions: Sequence[int], can_fuse_product: CanFuseProduct
) -> Node | None:
    """One node for a reader and the product that some operands are; None if it is no gain."""
    body, pieces = product_first(body_of(reader), *positions), len(positions)
    if not is_rowwise(body, pieces):
        return None
    plain, epilogue = plain_product(product.op), epilogue_of(product.op)
    assert isinstance(plain, (Matmul, TransposedMatmul))
    assert epilogue is not None
    op = FusedProduct(plain, epilogue, body, pieces)
    others = [source for position, source in enumerate(reader.inputs) if position not in positions]
    operands = (*product.inputs, *others)
    with source_scope(sources_of((product, reader))):
        return make(op, operands) if can_fuse_product(op, operands) else None


def product_first(body: Body, *positions: int) -> Body:
    """The body with the operands at some positions as its first ones."""
    order = [*positions, *[i for i in range(len(body.operands)) if i not in positions]]
    new = {old: number for number, old in enumerate(order)}
    steps = [s._replace(inputs=tuple([new.get(i, i) for i in s.inputs])) for s in body.steps]
    results = tuple([new.get(r, r) for r in body.results])
    return Body.of(tuple([body.operands[i] for i in order]), tuple(steps), results)


# ---------------------------------------------------------------------- memory


def _saves_memory(
    reader: Node,
    product: Node,
    positions: Sequence[int],
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
    found = match([(operand, result) for operand, result in pairs if operand not in positions])
    if len(found) < len(match(pairs)):
        return False
    sources = [source for position, source in enumerate(reader.inputs) if position not in positions]
    others = [owner(source) for source in sources]
    results = len(body_of(reader).results)
    if all(map(is_leaf, others)) and len(found) == results:
        return True
    if len(positions) > 1 and results - len(found) <= len(positions):
        at_hand = _available_nodes(product)
        if all(is_leaf(other) or _maker(other) in at_hand for other in others):
            return True
    owners = {owner(source) for source in product.inputs}
    return sum(bytes_of(n) for n in owners if not is_leaf(n)) <= bytes_of(product)


def _available_nodes(product: Node) -> set[Node]:
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
