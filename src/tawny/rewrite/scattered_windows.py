"""The pass that brings an image's elements together before windows of several taps read them.

A view may have neither channels nor pixels of a line side by side.  Windows that overlap read each
element again and again, one by one, where it lies; a copy takes one pass over it.
"""

from __future__ import annotations

from typing import Final

from tawny.node import Node, make, source_scope
from tawny.ops.convolution import Convolution
from tawny.ops.fused_products import FusedProduct, plain_product
from tawny.ops.movement import Copy
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo
from tawny.rewrite.lifetimes import is_leaf
from tawny.shape import size

COPY_SCATTERED: Final = RuleInfo(
    "copy_scattered",
    Kind.EXACT,
    "conv(x, k) = conv(copy(x), k), where x is a view of scattered pixels",
)

_FAMILIES: Final = frozenset({Convolution, FusedProduct})

LEAST_ELEMENTS: Final = 2**10
"""Fewer elements are read before a copy of them pays."""


def _run(flow: Flow, context: Context) -> Flow:
    if flow.families().isdisjoint(_FAMILIES) or not context.recorder.allows(COPY_SCATTERED):
        return flow
    replacements: dict[Node, Node] = {}
    for node in flow.order():
        is_convolution = isinstance(plain_product(node.op), Convolution)
        if is_convolution and not is_leaf(node) and _is_scattered(node):
            image, *others = node.inputs
            with source_scope(node.sources):
                made = make(node.op, (make(Copy(), (image,)), *others))
            context.recorder.record(COPY_SCATTERED, (node,), (made,))
            replacements[node] = made
    return flow.replace_nodes(replacements)


copy_scattered: Final = Pass("copy_scattered", (COPY_SCATTERED,), _run)


def _is_scattered(node: Node) -> bool:
    """Whether windows that overlap read single elements of what lies scattered in memory."""
    image, kernel = node.inputs[:2]
    if size(image.shape) < LEAST_ELEMENTS or size(kernel.shape[:-2]) == 1 or image.shape[-1] == 1:
        return False
    strides = _strides(image)
    return strides is not None and 1 not in strides[-2:]


def _strides(node: Node) -> tuple[int, ...] | None:
    """Elements from one to the next along each axis of a view; None if it has memory of its own."""
    chain: list[Node] = []
    while node.op.facts().view and len(node.inputs) == 1 and not is_leaf(node):
        chain.append(node)
        (node,) = node.inputs
    if not chain:
        return None
    strides = tuple([size(node.shape[axis + 1 :]) for axis in range(len(node.shape))])
    for view in reversed(chain):
        found = view.op.view(view.inputs[0].shape, strides)
        if found is None:
            return None
        strides = found.strides
    return strides
