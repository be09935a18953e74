"""Products and what surrounds them: transposes before, the epilogue after.

A bias, a residual and an activation become the epilogue of a `FusedProduct`.  The rest of its tail,
a body that uses the product up, is found when there are groups: see `groups.products`.

A step after a product is taken into it only when nothing else reads the product.  An addend that
is made later delays the product, which must not raise the peak (see `lifetimes`).  Where both
addends are products, the later one takes the other as its residual, and nothing is delayed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import Final

from tawny.lazy import cached_property
from tawny.node import Node, Part, make, source_scope
from tawny.op import ELEMENTWISE, Elementwise, Family, Op
from tawny.ops.convolution import Convolution
from tawny.ops.fused_products import (
    ACTIVATIONS,
    PLAIN,
    Activation,
    Epilogue,
    FusedProduct,
    TransposedMatmul,
    epilogue_of,
    is_bias_shape,
    matmul_op,
    plain_product,
    transposes,
    with_epilogue,
)
from tawny.ops.linalg import Matmul
from tawny.ops.movement import Transpose
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, sources_of, with_inputs
from tawny.rewrite.lifetimes import Lifetimes, is_leaf
from tawny.shape import contiguous_strides

TRANSPOSE: Final = RuleInfo(
    "matmul_transpose",
    Kind.CONTRACTING,
    "transpose(a) @ b = transposed_matmul(a, b, transpose_a)",
)
BIAS: Final = RuleInfo("product_bias", Kind.EXACT, "a @ b + c = fused_product(a, b, c)")
RESIDUAL: Final = RuleInfo("product_residual", Kind.EXACT, "a @ b + y = fused_product(a, b, y)")
ACTIVATION: Final = RuleInfo("product_activation", Kind.EXACT, "f(a @ b) = fused_product(a, b, f)")

_ADD: Final = ELEMENTWISE["add"]
_FUNCTIONS: Final = {ELEMENTWISE[name]: activation for name, activation in ACTIVATIONS.items()}


PRODUCTS: Final[frozenset[Family]] = frozenset(
    {Matmul, TransposedMatmul, Convolution, FusedProduct}
)
_FUSED: Final[frozenset[Family]] = PRODUCTS | {_ADD, *_FUNCTIONS}
"""What may be fused; everything else is only made on other inputs."""


def exchanges_last_axes(node: Node) -> bool:
    """Whether `node` transposes matrices: the last two axes exchanged, the others in place."""
    if type(node.op) is not Transpose:
        return False
    axes = node.op.axes
    rank = len(axes)
    return rank >= 2 and axes == (*range(rank - 2), rank - 1, rank - 2)


def _has_neighbours(addend: Node) -> bool:
    """Whether elements along the last axis of an addend are side by side in memory."""
    views, base = list[Node](), addend
    while base.op.facts().view and not is_leaf(base) and not isinstance(base.op, Part):
        views.append(base)
        base = base.inputs[0]
    steps = contiguous_strides(base.shape, 1)
    for view in reversed(views):
        found = view.op.view(view.inputs[0].shape, steps)
        steps = contiguous_strides(view.shape, 1) if found is None else found.strides
    return not steps or addend.shape[-1] <= 1 or steps[-1] == 1


def _run(flow: Flow, context: Context) -> Flow:
    """Fuse, and again as long as what was done may have opened the way to more."""
    while True:
        fusion = _Fusion(flow, context)
        flow = flow.with_outputs(fusion.outputs())
        if not fusion.may_find_more:
            return flow


fuse_products: Final = Pass(
    "fuse_products", (TRANSPOSE, BIAS, RESIDUAL, ACTIVATION), _run, PRODUCTS
)


class _Fusion:
    """One walk over a flow, inputs first."""

    def __init__(self, flow: Flow, context: Context) -> None:
        self.flow = flow
        self.recorder = context.recorder
        self.allowed = {r for r in fuse_products.rules if context.recorder.allows(r)}
        self.made: dict[Node, Node] = {}
        """What stands for each node."""
        self.reads: dict[Node, tuple[Node, ...]] = {}
        """What each product reads, with all that was taken into it."""
        self.uses = Counter[Node]()
        self.waiting = False
        """Whether some product was not delayed; in another order it may be."""
        self.order = flow.order()
        self.places = {node: i for i, node in enumerate(self.order)}
        computed = [n.inputs for n in self.order if n.value is None or not is_leaf(n)]
        self.uses.update(chain.from_iterable(computed))
        self.uses.update(flow.outputs)
        self._walk()

    def _walk(self) -> None:
        made = self.made
        now = made.__getitem__
        for node in self.order:
            if node.op.family not in _FUSED:
                if is_leaf(node):
                    made[node] = node
                else:
                    made[node] = with_inputs(node, tuple(map(now, node.inputs)))
            else:
                made[node] = node if is_leaf(node) else self._visit(node)

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """How long values live; only asked when a product would have to wait."""
        return Lifetimes(self.order, self.flow.outputs)

    def outputs(self) -> tuple[Node, ...]:
        """What stands for the outputs."""
        return tuple([self.made[n] for n in self.flow.outputs])

    @property
    def may_find_more(self) -> bool:
        """Whether another walk may fuse more: the order changed, or two nodes became one."""
        if self.outputs() == self.flow.outputs:
            return False
        return self.waiting or len(set(self.made.values())) < len(self.made)

    def _visit(self, node: Node) -> Node:
        op = node.op
        if isinstance(op, Elementwise):
            return (
                self._fuse_addend(node)
                if op is _ADD
                else self._fuse_activation(node, _FUNCTIONS[op])
            )
        node_now = self._with_new_inputs(node)
        self.reads[node] = node.inputs
        is_open = epilogue_of(op) is not None
        if is_open and isinstance(plain_product(op), (Matmul, TransposedMatmul)):
            return self._without_transposes(node_now)
        return node_now

    def _with_new_inputs(self, node: Node) -> Node:
        return with_inputs(node, tuple([self.made[i] for i in node.inputs]))

    def _record(self, rule: RuleInfo, before: tuple[Node, ...], op: Op, *inputs: Node) -> Node:
        with source_scope(sources_of(before)):
            after = make(op, inputs)
        self.recorder.record(rule, before, (after,))
        return after

    # ---------------------------------------------------------------- transposes

    def _without_transposes(self, node: Node) -> Node:
        """A matrix product that reads what its transposed operands are made from."""
        if TRANSPOSE not in self.allowed:
            return node
        operands, flags = list(node.inputs), [*transposes(plain_product(node.op))]
        taken: list[Node] = []
        for position in (0, 1):
            while exchanges_last_axes(operands[position]):
                taken.append(operands[position])
                (operands[position],) = operands[position].inputs
                flags[position] = not flags[position]
        if not taken:
            return node
        op = with_epilogue(matmul_op(*flags), epilogue_of(node.op) or PLAIN)
        return self._record(TRANSPOSE, (*dict.fromkeys(taken), node), op, *operands)

    # ----------------------------------------------------------------- epilogues

    def _open_epilogue(self, node: Node, reader: Node) -> Epilogue | None:
        """The epilogue of a product that `reader` alone reads and to which more can be added."""
        epilogue = epilogue_of(self.made[node].op)
        if (
            epilogue is None
            or epilogue.activation is not Activation.NONE
            or self.uses[node] != 1
            or (node.shape, node.dtype) != (reader.shape, reader.dtype)
        ):
            return None
        return epilogue

    def _fuse_activation(self, node: Node, activation: Activation) -> Node:
        (source,) = node.inputs
        epilogue = self._open_epilogue(source, node)
        if epilogue is None or ACTIVATION not in self.allowed or node.dtype.kind == "c":
            return self._with_new_inputs(node)
        product = self.made[source]
        op = with_epilogue(product.op, replace(epilogue, activation=activation))
        return self._record(ACTIVATION, (product, node), op, *product.inputs)

    def _fuse_addend(self, node: Node) -> Node:
        first, second = node.inputs
        later_first = self.places[first] > self.places[second]
        for source, other in ((first, second), (second, first))[:: 1 if later_first else -1]:
            epilogue = self._open_epilogue(source, node)
            if epilogue is None or epilogue.residual:
                continue
            if other.dtype != node.dtype:
                continue
            if is_bias_shape(other.shape, node.shape) and not epilogue.bias:
                rule, wider = BIAS, replace(epilogue, bias=True)
            elif other.shape == node.shape and _has_neighbours(self.made[other]):
                rule, wider = RESIDUAL, replace(epilogue, residual=True)
            else:
                continue
            if rule not in self.allowed or not self._may_wait(source, other):
                continue
            product = self.made[source]
            self.reads[node] = (*self.reads[source], other)
            op = with_epilogue(product.op, wider)
            return self._record(rule, (product, node), op, *product.inputs, self.made[other])
        return self._with_new_inputs(node)

    def _may_wait(self, product: Node, addend: Node) -> bool:
        """Whether a product may be computed as late as its addend is there."""
        if is_leaf(addend) or self.places[addend] < self.places[product]:
            return True
        lifetimes = self.lifetimes
        start = lifetimes.index[product]
        until = lifetimes.owner[lifetimes.index[addend]]
        if lifetimes.leaf[until] or until < start:
            return True
        reads = [lifetimes.index[n] for n in self.reads[product]]
        extra = lifetimes.bytes_kept_until(reads, until + 1) - lifetimes.bytes[start]
        if lifetimes.reserve(extra, start, until + 1):
            return True
        self.waiting = True
        return False
