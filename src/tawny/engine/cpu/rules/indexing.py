"""Native kernels of the indexing and scatter chapters."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.engine.cpu.kernel_table import Kernel, Memory, native
from tawny.engine.cpu.kernels.indexing import GatherSpec, gather_kernel
from tawny.engine.cpu.kernels.scatter import PUT, ScatterSpec, scatter_kernel
from tawny.engine.cpu.views import broadcast_strides
from tawny.node import Node
from tawny.ops.indexing import Gather, gather_shape
from tawny.ops.pieces import GatherPieces
from tawny.ops.scatter import COMBINE, Scatter
from tawny.shape import broadcast


def _together(op: str, given: Sequence[Memory]) -> tuple[Memory, ...]:
    """Index arrays broadcast to one shape."""
    if not given:
        return ()
    shape = broadcast(op, [m.shape for m in given])
    return tuple([Memory(shape, broadcast_strides(m, shape), m.dtype) for m in given])


@native(Gather)
def gather(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Runs of elements from the places the index arrays name."""
    assert isinstance(node.op, Gather)
    source, *given = operands
    if not given:
        return None
    picks = GatherSpec((source,), _together("gather", given), node.op.axes, node.op.place)
    return Kernel(*gather_kernel(picks, results[0]), fallible=True)


@native(GatherPieces)
def gather_pieces(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel:
    """Runs of elements from the piece in which each index lies."""
    del node
    *pieces, places = operands
    picks = GatherSpec(tuple(pieces), (places,), (0,), 0)
    return Kernel(*gather_kernel(picks, results[0]), fallible=True)


@native(Scatter)
def scatter(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """A copy, and runs of elements put into the places the index arrays name."""
    op, (source, value, *given) = node.op, operands
    assert isinstance(op, Scatter)
    lengths = tuple([length for _, length, _ in op.ranges])
    part = gather_shape("scatter", lengths, op.axes, op.place, [m.shape for m in given])
    wide = Memory(part, broadcast_strides(value, part), value.dtype)
    puts = ScatterSpec(
        source,
        wide,
        _together("scatter", given),
        op.ranges,
        op.axes,
        op.place,
        None if op.mode == "set" else COMBINE[op.mode],
    )
    found = scatter_kernel(puts, results[0])
    return None if found is None else Kernel(*found, after=((PUT, True),), fallible=bool(given))
