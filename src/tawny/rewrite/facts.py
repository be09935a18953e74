"""What the side conditions of rules ask about nodes, without computing anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import copysign
from typing import Any, Final

import numpy as np

from tawny import dtype as dt
from tawny.dtype import DType, kind_of
from tawny.node import Constant, Node, Value, constant, make_as
from tawny.op import ELEMENTWISE, Elementwise, Family, Op, Trait
from tawny.ops.creation import Arange, Cast
from tawny.ops.movement import BroadcastTo, Reshape
from tawny.ops.reduction import Sum
from tawny.rewrite.flow import Evaluate
from tawny.shape import Shape

FILL_LIMIT: Final = 65_536
"""Bytes of a constant, at most, that is searched for one value that fills it."""
DEPTH: Final = 4
"""How many nodes a proof looks through."""

_MISSING: Final = object()


@dataclass(slots=True)
class NodeFacts:
    """The facts known of nodes while a pass runs."""

    evaluate: Evaluate
    assume_finite: bool = False
    uses: dict[Node, int] = field(default_factory=dict[Node, int])
    """How often each node is read, counting outputs."""
    twins: dict[tuple[object, ...], Node] = field(default_factory=dict[tuple[object, ...], Node])
    """The first node met for each commutative op and set of operands."""
    refused_for_sharing: bool = False
    """Whether a rule was refused because others read a node, as they may no longer do later."""
    _fills: dict[Node, Any] = field(default_factory=dict[Node, Any])

    def is_shared(self, node: Node) -> bool:
        """Whether a node is read more than once, or is an output as well."""
        found = self.uses.get(node, 1) > 1
        self.refused_for_sharing |= found
        return found

    def fill(self, node: Node) -> Any:
        """The value that fills `node`, a NumPy scalar; None if it is not a filled constant."""
        while type(node.op) is BroadcastTo:
            (node,) = node.inputs
        if type(node.op) is not Constant:
            return None
        found = self._fills.get(node, _MISSING)
        if found is _MISSING:
            found = self._fills[node] = None if node.value is None else _fill(node.value)
        return found

    def is_finite(self, node: Node, depth: int = DEPTH) -> bool:
        """Whether `node` is known to hold neither NaN nor infinity."""
        if self.assume_finite or node.dtype.kind in "biu":
            return True
        op = node.op
        if type(op) is Constant:
            return node.value is not None and _all_finite(node.value)
        if type(op) is Arange and not _stays_finite(op):
            return False
        if type(op) is Cast and not _holds_all(node.inputs[0].dtype, node.dtype):
            return False
        if not depth and node.inputs:
            return False
        are_real = all(i.dtype.kind != "c" for i in node.inputs)
        if _has(op, _FINITE_REAL if are_real else Trait.KEEPS_FINITE) or _is_view(node):
            return all(self.is_finite(i, depth - 1) for i in node.inputs)
        return False

    def is_nonnegative(self, node: Node, depth: int = DEPTH) -> bool:
        """Whether `node` is known to be +0, positive or NaN, and never -0."""
        if node.dtype.kind in "bu":
            return True
        if node.dtype.kind == "c":
            return False
        op = node.op
        if type(op) is Elementwise and not _has(op, _SIGNED):
            return False
        value = self.fill(node)
        if value is not None:
            return bool(value >= 0) and not np.signbit(value)
        if node.dtype.kind == "i" and not _never_wraps(node):
            return False
        if _has(op, Trait.NONNEGATIVE):
            return node.inputs[0].dtype.kind != "c"
        if not depth or not node.inputs:
            return False
        if _has(op, Trait.KEEPS_NONNEGATIVE) or _is_view(node):
            return all(self.is_nonnegative(i, depth - 1) for i in node.inputs)
        return False

    def is_never_negative_zero(self, node: Node, depth: int = DEPTH) -> bool:
        """Whether `node` is known to hold no -0.0, so that adding +0.0 changes no bit."""
        if node.dtype.kind in "biu":
            return True
        if node.dtype.kind == "c":
            return False
        op = node.op
        if type(op) is Elementwise and op is not _SUBTRACT and not _has(op, _SIGNED):
            return False
        value = self.fill(node)
        if value is not None:
            return not is_negative_zero(value)
        if self.is_nonnegative(node, depth):
            return True
        if not depth or not node.inputs:
            return False
        if op is _ADD:  # -0.0 only as the sum of two
            return any(self.is_never_negative_zero(i, depth - 1) for i in node.inputs)
        if type(op) is Cast and not is_lossless(node.inputs[0].dtype, node.dtype):
            return False  # small negative numbers become -0.0
        if op is _SUBTRACT:
            return self.is_never_negative_zero(node.inputs[0], depth - 1)
        if _has(op, Trait.CHOOSING) or type(op) in (Sum, Cast) or _is_view(node):
            return all(self.is_never_negative_zero(i, depth - 1) for i in node.inputs)
        return False


def _fill(value: Value) -> Any:
    """The value of every element, if they are the same to the bit."""
    if not 0 < value.nbytes <= FILL_LIMIT:
        return None
    flat = value.reshape(-1)
    first = flat[0]
    if flat.size > 1 and flat.tobytes() != first.tobytes() * flat.size:
        return None
    return first


def _all_finite(value: Value) -> bool:
    return value.nbytes <= FILL_LIMIT and bool(np.isfinite(value).all())


def is_negative_zero(value: Any) -> bool:
    """Whether a scalar is -0.0, or a complex zero with a negative part."""
    number: complex = value.item()
    if number:
        return False
    return copysign(1.0, number.real) < 0 or copysign(1.0, number.imag) < 0


def is_lossless(source: DType, target: DType) -> bool:
    """Whether every value of `source` is a value of `target`."""
    if source == target:
        return True
    if not dt.can_cast(source, target, "safe"):
        return False
    if kind_of(source) in "iu" and kind_of(target) in "fc":
        bits = 8 * source.itemsize - (source.kind == "i")
        return bits <= int(dt.finfo(target).nmant) + 1
    return True


_broadcast_to: Final = lru_cache(4096)(BroadcastTo)
_reshape: Final = lru_cache(4096)(Reshape)


def broadcast_to(node: Node, shape: Shape) -> Node:
    """`node` repeated to `shape`; rules ask for the same few shapes often, so ops are shared."""
    return (
        node if node.shape == shape else make_as(_broadcast_to(shape), (node,), shape, node.dtype)
    )


def reshape_to(node: Node, shape: Shape) -> Node:
    """`node` in another shape, of shared ops too."""
    return node if node.shape == shape else make_as(_reshape(shape), (node,), shape, node.dtype)


def scalar_like(value: Any, node: Node) -> Node:
    """A zero-dimensional constant of the dtype of `node`."""
    return constant(np.array(value, dtype=node.dtype))


def full_like(value: Any, node: Node) -> Node:
    """`value` everywhere, with the shape and dtype of `node`."""
    return broadcast_to(scalar_like(value, node), node.shape)


def _holds_all(source: DType, target: DType) -> bool:
    """Whether no value of `source` is too large for `target`."""
    return is_lossless(source, target) or (source.kind in "iu" and target.itemsize > 2)


def _is_view(node: Node) -> bool:
    return node.op.facts().view


def _stays_finite(op: Arange) -> bool:
    """Whether no number is more than the dtype holds; a step more is for rounding."""
    rise = float(abs(op.step)) * (op.length + 1) if op.length > 1 else 0.0
    most = float(abs(op.start)) + rise
    return most < float(dt.finfo(op.dtype).max)


def _never_wraps(node: Node) -> bool:
    """Whether integers come out of an op as they go in."""
    if type(node.op) is Cast:
        return is_lossless(node.inputs[0].dtype, node.dtype)
    return _has(node.op, Trait.CHOOSING) or _is_view(node)


_ADD: Final = ELEMENTWISE["add"]
_SUBTRACT: Final = ELEMENTWISE["subtract"]


_FINITE_REAL: Final = Trait.KEEPS_FINITE | Trait.KEEPS_FINITE_REAL
_SIGNED: Final = Trait.NONNEGATIVE | Trait.KEEPS_NONNEGATIVE
"""Traits of elementwise ops of whose sign something can be known."""


def _has(op: Op, traits: Trait) -> bool:
    """Whether an op has one of some traits."""
    known = _KNOWN.get((op.family, traits))
    if known is None:
        known = _KNOWN[op.family, traits] = bool(op.facts().traits & traits)
    return known


_KNOWN: Final[dict[tuple[Family, Trait], bool]] = {}
