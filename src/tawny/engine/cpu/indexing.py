"""Native kernels of the indexing chapter."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.codegen.indexing import Picks, gathering
from tawny.engine.cpu.kernels import Kernel, Memory, native
from tawny.engine.cpu.views import broadcast_strides
from tawny.node import Node
from tawny.ops.indexing import Gather
from tawny.shape import broadcast


@native(Gather, scratch=False)
def gather(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Runs of elements from the places the index arrays name."""
    assert isinstance(node.op, Gather)
    source, *given = operands
    if not given:
        return None
    shape = broadcast("gather", [m.shape for m in given])
    indices = tuple([Memory(shape, broadcast_strides(m, shape), m.dtype) for m in given])
    picks = Picks(source, indices, node.op.axes, node.op.place)
    return Kernel(*gathering(picks, results[0]), fallible=True)
