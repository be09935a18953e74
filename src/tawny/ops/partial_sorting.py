"""The first elements of a sorted axis: what is made of sorts of which no more is read.

No user writes these ops: `rewrite` puts them where few elements of a sort are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from tawny import dtype as dt
from tawny.attributes import Positive
from tawny.dtype import DType
from tawny.errors import value_error
from tawny.node import Node, make
from tawny.op import BatchOperand, Gradient, Op
from tawny.shape import Shape, size


class FirstElements(Op):
    """An op on the first `count` elements of an axis once it is sorted."""

    axis: int
    count: Positive

    def infer_shape(self, *shapes: Shape) -> Shape:
        name, (shape,) = self.facts().name, shapes
        if not 0 <= self.axis < len(shape) or self.count > shape[self.axis]:
            raise value_error(
                name,
                f"operand 0 has shape {shape}; it has no {self.count} elements on axis {self.axis}",
            )
        return (*shape[: self.axis], self.count, *shape[self.axis + 1 :])

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return make(self.with_attributes(axis=self.axis + 1), (operands[0].node,))

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        """A comparison for each element, and those of a sort for each that is left."""
        return size(operands[0]) + size(result) * max(self.count.bit_length(), 1)


class PartialSort(FirstElements, name="partial_sort", gradient=Gradient.NONE):
    """The first `count` elements along `axis` in order, NaN last."""


class PartialArgSort(FirstElements, name="partial_argsort", gradient=Gradient.NONE):
    """The places of the first `count` elements along `axis` in order, equal ones as they came."""

    descending: bool

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.INT64
