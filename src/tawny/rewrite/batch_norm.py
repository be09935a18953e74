"""Batch normalisation with constant statistics, taken into the product before it.

A product followed by multiplications and additions of constants, one for each output channel, is a
product with other weights and a bias.  This holds for a scale and a shift, and for the expression
`(conv - mean) / sqrt(var + eps) * gamma + beta`, since what depends on constants alone is constant.
Scale and shift are computed in double precision and rounded once; where they would not be finite
(a variance of zero) nothing is changed.

Weights that are not small are not multiplied, since that would be a second copy of them: the
product's epilogue has the scale, which costs one multiplication for each result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tawny.dtype import kind_of
from tawny.node import Node, Value, constant, make, source_scope
from tawny.op import ELEMENTWISE, Op
from tawny.ops.convolution import ConvolutionOp
from tawny.ops.fused_products import (
    Activation,
    Epilogue,
    epilogue_of,
    is_bias_shape,
    plain_product,
    transposes,
    with_epilogue,
)
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, sources_of
from tawny.rewrite.fusion import PRODUCTS
from tawny.rewrite.lifetimes import is_leaf
from tawny.shape import size

BATCH_NORM: Final = RuleInfo(
    "batch_norm", Kind.CONTRACTING, "conv(x, w) * s + t = conv(x, w * s) + t, s and t constant"
)

SMALL: Final = 2**12
"""Bytes of weights, at most, that are multiplied by the scale; those of grouped convolutions always
are.  Chosen by hand: it trades a second copy of the weights for a multiplication a result."""

_ADD: Final = ELEMENTWISE["add"]
_SUBTRACT: Final = ELEMENTWISE["subtract"]
_MULTIPLY: Final = ELEMENTWISE["multiply"]
_DIVIDE: Final = ELEMENTWISE["divide"]
_NEGATIVE: Final = ELEMENTWISE["negative"]
_FMA: Final = ELEMENTWISE["fma"]
_AFFINE: Final = frozenset({_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE, _NEGATIVE, _FMA})
_SCALES: Final = _AFFINE - {_ADD, _SUBTRACT}


@dataclass(frozen=True, slots=True)
class _AffineChain:
    """A product and the affine steps after it, each with the place of the value it continues."""

    product: Node
    steps: tuple[tuple[Node, int], ...] = ()

    @property
    def scales(self) -> bool:
        """Whether some step does more than add."""
        return any(n.op in _SCALES or place for n, place in self.steps if n.op is not _ADD)


def _run(flow: Flow, context: Context) -> Flow:
    replacements: dict[Node, Node] = {}
    for chain in _chains(flow):
        after = _fold_chain(chain, context)
        if after is not None:
            end = chain.steps[-1][0]
            context.recorder.record(
                BATCH_NORM, (chain.product, *(n for n, _ in chain.steps)), (after,)
            )
            replacements[end] = after
    return flow.replace_nodes(replacements)


fold_batch_norm: Final = Pass("fold_batch_norm", (BATCH_NORM,), _run, PRODUCTS)


def _is_constant(node: Node) -> bool:
    return node.known and not node.volatile


def _begins(node: Node) -> bool:
    """Whether a chain can begin here: a product with constant weights and at most a bias."""
    epilogue = epilogue_of(node.op)
    if epilogue is None or epilogue.residual or epilogue.activation is not Activation.NONE:
        return False
    weights = node.inputs[1]
    return (
        kind_of(node.dtype) == "f"
        and len(weights.shape) >= 2
        and weights.dtype == node.dtype
        and all(map(_is_constant, node.inputs[1:]))
        and not node.known
    )


def _chains(flow: Flow) -> list[_AffineChain]:
    """The longest chains that multiply."""
    order = flow.order()
    found: dict[Node, _AffineChain] = {}
    uses: Counter[Node] | None = None
    for node in order:
        if node.op.family in PRODUCTS:
            if not is_leaf(node) and _begins(node):
                found[node] = _AffineChain(node)
        elif found and node.op in _AFFINE and not is_leaf(node):
            place = next((p for p, i in enumerate(node.inputs) if i in found), None)
            if place is None:
                continue
            if uses is None:
                uses = Counter(i for n in order if not is_leaf(n) for i in n.inputs)
                uses.update(flow.outputs)
            before = node.inputs[place]
            if uses[before] == 1 and _continues(node, place):
                chain = found.pop(before)
                found[node] = _AffineChain(chain.product, (*chain.steps, (node, place)))
    return [chain for chain in found.values() if chain.scales]


def _continues(node: Node, place: int) -> bool:
    """Whether a node multiplies or adds constants, one a channel, to its operand at `place`."""
    value = node.inputs[place]
    if (node.shape, node.dtype) != (value.shape, value.dtype):
        return False
    if (node.op is _DIVIDE and place != 0) or (node.op is _FMA and place == 2):
        return False
    return all(
        _is_constant(c)
        and c.dtype == node.dtype
        and (is_bias_shape(c.shape, node.shape) or size(c.shape) == 1)
        for position, c in enumerate(node.inputs)
        if position != place
    )


def _fold_chain(chain: _AffineChain, context: Context) -> Node | None:
    """The product with the chain in it; None where its numbers would not be finite."""
    product = chain.product
    scale, shift = _scale_and_shift(chain, context)
    bias, factors = shift.astype(product.dtype), scale.astype(product.dtype)
    if not (_is_finite(bias) and _is_finite(factors)):
        return None
    weights = product.inputs[1]
    plain = plain_product(product.op)
    grouped = isinstance(plain, ConvolutionOp) and plain.groups > 1
    if size(weights.shape) * weights.dtype.itemsize > SMALL and not grouped:
        op = with_epilogue(product.op, Epilogue(bias=True, scaled=True))
        both = np.stack([bias, factors])
        return _make_product(chain, op, lambda: (weights, constant(both)))
    (given,) = _values([weights], context)
    _, exchanged = transposes(plain)
    scaled = _scale_weights(given, scale[:, None] if exchanged else scale)
    if not _is_finite(scaled):
        return None
    biased = bool(bias.any())
    op = with_epilogue(product.op, Epilogue(bias=biased))
    return _make_product(chain, op, lambda: (constant(scaled), *[constant(bias)] * biased))


def _make_product(chain: _AffineChain, op: Op, operands: Callable[[], tuple[Node, ...]]) -> Node:
    """What stands for a chain: its product's left operand and others."""
    product = chain.product
    with source_scope(sources_of((product, *(n for n, _ in chain.steps)))):
        return make(op, (product.inputs[0], *operands()))


def _scale_and_shift(chain: _AffineChain, context: Context) -> tuple[Value, Value]:
    """What a chain makes of its product without a bias, for each channel."""
    product = chain.product
    constants = [c for n, place in chain.steps for p, c in enumerate(n.inputs) if p != place]
    given = iter(_values([*product.inputs[2:], *constants], context))
    channels = product.shape[-1]
    scale, shift = np.ones(channels), np.zeros(channels)
    epilogue = epilogue_of(product.op)
    assert epilogue is not None
    with np.errstate(all="ignore"):
        if epilogue.bias:
            rows = next(given).reshape(-1, channels).astype(np.float64)
            shift = rows[0]
            scale = rows[1] if epilogue.scaled else scale
        for node, place in chain.steps:
            operands = [next(given).reshape(-1).astype(np.float64) for _ in node.inputs[1:]]
            scale, shift = _compose_step(node, place, scale, shift, operands)
    return scale, shift


def _values(nodes: Sequence[Node], context: Context) -> list[Value]:
    """The values of constants, which are not changed."""
    found = {n: n.value for n in nodes if n.value is not None}
    others = [n for n in dict.fromkeys(nodes) if n not in found]
    if others:
        found |= dict(zip(others, context.evaluate(others), strict=True))
    return [found[n] for n in nodes]


def _scale_weights(weights: Value, scale: Value) -> Value:
    """The weights times the scale, rounded once."""
    out = np.empty(weights.shape, weights.dtype)
    with np.errstate(all="ignore"):
        return np.multiply(weights, scale, out=out, dtype=np.float64, casting="same_kind")


def _is_finite(values: Value) -> bool:
    """Whether no value is infinite or NaN."""
    return bool(np.isfinite(values).all())


def _compose_step(
    node: Node, place: int, scale: Value, shift: Value, operands: list[Value]
) -> tuple[Value, Value]:
    """Scale and shift after one more step."""
    op = node.op
    if op is _NEGATIVE:
        return -scale, -shift
    c = operands[0]
    if op is _ADD:
        return scale, shift + c
    if op is _SUBTRACT:
        return (scale, shift - c) if place == 0 else (-scale, c - shift)
    if op is _MULTIPLY:
        return scale * c, shift * c
    if op is _DIVIDE:
        return scale / c, shift / c
    return scale * c, shift * c + operands[1]
