"""What fusion makes of a gather from joined arrays: one that reads the pieces where they lie.

No user writes it: `rewrite` puts it where nothing else reads the joined array.  It is
differentiated before it is fused, or after it is written out again.
"""

from __future__ import annotations

from collections.abc import Sequence

from tawny.attributes import Positive
from tawny.dtype import DType
from tawny.errors import type_error, value_error
from tawny.node import Node, make
from tawny.op import BatchOperand, Cost, Gradient, Op, Type, nbytes
from tawny.ops.indexing import Gather, check_indices
from tawny.ops.joining import Concat
from tawny.rows import Rows, RowSlice, row_axis
from tawny.shape import Shape, size


class GatherPieces(Op, name="gather_pieces", arity=None, gradient=Gradient.NONE):
    """Places along axis 0 of arrays that are joined there, without joining them.

    The first `pieces` operands are joined, the last gives the places: the result is
    `concat(pieces, axis=0)[places]`.  Negative places count from the end of all pieces together.
    """

    pieces: Positive

    def infer_shape(self, *shapes: Shape) -> Shape:
        self._check(len(shapes))
        *given, places = shapes
        for position, shape in enumerate(given):
            if not shape or shape[1:] != given[0][1:]:
                raise value_error(
                    "gather_pieces",
                    f"operand {position} has shape {shape}; it must have an axis 0, and after it "
                    f"those of operand 0 of shape {given[0]}",
                )
        return (*places, *given[0][1:])

    def infer_dtype(self, *dtypes: DType) -> DType:
        self._check(len(dtypes))
        *given, places = dtypes
        for position, dtype in enumerate(given):
            if dtype != given[0]:
                raise type_error(
                    "gather_pieces",
                    f"operand {position} has dtype {dtype}; it must have that of operand 0, "
                    f"{given[0]}",
                )
        check_indices("gather_pieces", (places,), len(given))
        return given[0]

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Rows of the places, as those of a gather; the pieces are read whole."""
        *pieces, places = operands
        if row_axis(shape) >= len(places):
            return None
        return RowSlice(self, (*[None] * len(pieces), rows), rows)

    def _check(self, count: int) -> None:
        if not self.pieces or count != self.pieces + 1:
            raise value_error(
                "gather_pieces",
                f"{count} operands came; accepted: {self.pieces} pieces, at least 1, and places",
            )

    def expand(self, operands: Sequence[Node]) -> tuple[Node, Node]:
        """The joined array, and what is gathered from it, as nodes of plain ops."""
        *pieces, places = operands
        whole = make(Concat(0), tuple(pieces))
        return whole, make(Gather((0,), 0), (whole, places))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """As a gather from joined arrays."""
        *pieces, places = operands
        if any(x.batched for x in pieces):
            joined = BatchOperand(Concat(0).batch(pieces), True)
        else:
            joined = BatchOperand(make(Concat(0), tuple([x.node for x in pieces])), False)
        return Gather((0,), 0).batch((joined, places))

    def operand_counts(self) -> Sequence[int]:
        return (self.pieces + 1,)

    def cost(self, result: Type, operands: Sequence[Type]) -> Cost:
        """What is picked is read, not all it is picked from."""
        read = nbytes(result) + sum(map(nbytes, operands[self.pieces :]))
        return Cost(size(result[0]), read, nbytes(result))
