"""One node by NumPy, as it was inferred; errors say which node they are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tawny.engine.reference import elementwise
from tawny.engine.reference.kernel import INTO, Value, call_kernel, cast
from tawny.node import Constant, Node
from tawny.op import Elementwise
from tawny.ops.delay import Delay
from tawny.ops.loops import BodyOp
from tawny.ops.pieces import GatherPieces
from tawny.ops.random import Draw
from tawny.source import describe


def compute(node: Node, operands: Sequence[Value], draw: int) -> Any:
    """The value of one node, of the shape and dtype that were inferred for it."""
    op = node.op
    if type(op) is Constant and node.value is not None:  # another thread computed it meanwhile
        return node.value
    try:
        if isinstance(op, Elementwise):
            return cast(elementwise.compute(op, operands), node.dtype)
        if isinstance(op, Draw):
            return cast(call_kernel(op, operands, draw), node.dtype)
        result = call_kernel(op, operands, *([draw] if isinstance(op, BodyOp) else []))
    except Exception as error:
        explain_failure(node, error)
        raise
    if node.parts:
        return tuple(cast(v, dtype) for v, (_, dtype) in zip(result, node.parts, strict=True))
    return cast(result, node.dtype)


def compute_into(node: Node, operands: Sequence[Value], out: Value) -> None:
    """Write the value of a node whose op has a kernel for that."""
    try:
        INTO[type(node.op)](node.op, *operands, out)
    except Exception as error:
        explain_failure(node, error)
        raise


def explain_failure(node: Node, error: Exception) -> None:
    """Say of an error which node it is about; NumPy's own are said again."""
    if isinstance(node.op, BodyOp):
        return  # it is said already which node of the body it is about
    kind = MemoryError if isinstance(error, MemoryError) else type(error)  # NumPy's takes a shape
    if isinstance(node.op, Delay) or kind not in _REWORDED:
        error.add_note(f"in {node.name}, written at {_places(node)}")
    else:
        raise kind(f"{_name(node)}: {error}  [{_places(node)}]") from None


_REWORDED = (
    ValueError,
    IndexError,
    TypeError,
    ZeroDivisionError,
    OverflowError,
    MemoryError,
    np.linalg.LinAlgError,
)
"""Errors of NumPy's own whose message can be said again with the op and the user's line."""


def _name(node: Node) -> str:
    """The op as the user knows it."""
    return "gather" if isinstance(node.op, GatherPieces) else node.name


def _places(node: Node) -> str:
    return describe(node.sources) or "an unknown place"
