"""The pass that brings elements together before convolutions read them again and again.

A view of an image may have neither channels nor pixels of a line side by side.  Windows that
overlap read each element one by one, where it lies; a copy takes one pass over it.  So it is with
kernels of groups whose outputs lie apart, as PyTorch has them: vectors take several groups at once.
"""

from __future__ import annotations

from typing import Final

from tawny.node import Node, make, source_scope
from tawny.ops.convolution import Convolution, ConvolutionInputGradient
from tawny.ops.fused_products import FusedProduct, plain_product
from tawny.ops.movement import Copy
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo
from tawny.rewrite.lifetimes import is_leaf
from tawny.shape import size

COPY_SCATTERED: Final = RuleInfo(
    "copy_scattered",
    Kind.EXACT,
    "conv(x, k) = conv(copy(x), k), where x is a view of scattered pixels; and so for kernels",
)

_FAMILIES: Final = frozenset({Convolution, ConvolutionInputGradient, FusedProduct})

LEAST_ELEMENTS: Final = 2**10
"""Fewer elements of an image are read before a copy of them pays."""


def _run(flow: Flow, context: Context) -> Flow:
    if flow.families().isdisjoint(_FAMILIES) or not context.recorder.allows(COPY_SCATTERED):
        return flow
    replacements: dict[Node, Node] = {}
    for node in flow.order():
        op = plain_product(node.op)
        if is_leaf(node) or not isinstance(op, (Convolution, ConvolutionInputGradient)):
            continue
        inputs = list(node.inputs)
        if isinstance(op, Convolution) and _is_scattered(*inputs[:2]):
            inputs[0] = make(Copy(), (inputs[0],))
        at = 1 if isinstance(op, Convolution) else 0
        if op.groups > 1 and _lies_apart(inputs[at]):
            inputs[at] = make(Copy(), (inputs[at],))
        if inputs != list(node.inputs):
            with source_scope(node.sources):
                made = make(node.op, tuple(inputs))
            context.recorder.record(COPY_SCATTERED, (node,), (made,))
            replacements[node] = made
    return flow.replace_nodes(replacements)


copy_scattered: Final = Pass("copy_scattered", (COPY_SCATTERED,), _run)


def _is_scattered(image: Node, kernel: Node) -> bool:
    """Whether windows that overlap read single elements of what lies scattered in memory."""
    if size(image.shape) < LEAST_ELEMENTS or size(kernel.shape[:-2]) == 1 or image.shape[-1] == 1:
        return False
    strides = _strides(image)
    return strides is not None and 1 not in strides[-2:]


def _lies_apart(kernel: Node) -> bool:
    """Whether a kernel that is not known before the run has its outputs apart in memory."""
    strides = None if kernel.known else _strides(kernel)
    return strides is not None and strides[-1] != 1


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
