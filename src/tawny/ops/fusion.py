"""Groups: what fusion makes of several elementwise ops and reductions.

No user writes these: `rewrite` puts them where they compute the same bits with less memory traffic.
They are differentiated before they are fused, or after `expand_group`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tawny.dtype import DType
from tawny.errors import type_error, value_error
from tawny.node import Node, make, source_scope
from tawny.op import Cost, Elementwise, Gradient, Op, Type
from tawny.ops.body import FOLDS, Body, folded_axes, nonunit
from tawny.ops.body_rows import band
from tawny.ops.creation import Cast
from tawny.ops.fused_products import FusedProduct
from tawny.ops.movement import BroadcastTo, Copy, Reshape
from tawny.ops.pieces import GatherPieces
from tawny.rows import Rows, RowSlice
from tawny.shape import Shape, reduction_shape


class Group(Op, name="group", arity=None, gradient=Gradient.NONE):
    """Elementwise ops and reductions that run as one kernel, without storing what is between.

    Among its steps may be rolls of operands, and arrays that follow from the places of elements.
    The elementwise steps run over one space of loops.  Reductions all fold the same of its axes;
    where their results meet the whole space again, those axes are the last ones and short, so
    that a row is swept several times while it is in the cache.
    """

    body: Body
    repeats: bool = False
    """Whether it computes for itself what other groups compute too; grouping leaves it as it is."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        if shapes != tuple([s for s, _ in self.body.operands]):
            listed = " and ".join(str(s) for s, _ in self.body.operands)
            raise value_error("group", f"operands have shapes {shapes}; its body takes {listed}")
        return self.body.type_of(self.body.results[0])[0]

    def infer_dtype(self, *dtypes: DType) -> DType:
        if dtypes != tuple([d for _, d in self.body.operands]):
            listed = " and ".join(str(d) for _, d in self.body.operands)
            raise type_error("group", f"operands have dtypes {dtypes}; its body takes {listed}")
        return self.body.type_of(self.body.results[0])[1]

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        results = self.body.results
        return tuple(map(self.body.type_of, results)) if len(results) > 1 else ()

    def may_overwrite(self, *types: Type) -> frozenset[int]:
        """Operands that result 0 may be written over; `body.overwrites` answers for each result."""
        return frozenset(operand for operand, result in self.body.overwrites() if not result)

    def may_fail(self, dtype: DType) -> bool:
        return self.body.may_fail()

    def cost(self, result: Type, operands: Sequence[Type]) -> Cost:
        """Each step's operations; each operand read once, each result written once."""
        del result, operands
        return self.body.cost()

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """All steps on the same rows."""
        found = band(self.body, (rows,), views=False) if len(self.body.results) == 1 else None
        return (
            None
            if found is None
            else RowSlice(self.with_attributes(body=found.body), found.reads, rows)
        )

    def mistake(self, types: Sequence[Type]) -> str | None:
        return None if is_group(self.body) else f"{self.body!r} is no body of one kernel"


def expand_group(group: Node, operands: Sequence[Node] | None = None) -> tuple[Node, ...]:
    """The results of a group, or of its body on other operands, as nodes of plain ops."""
    op, values = group.op, list(group.inputs if operands is None else operands)
    with source_scope(group.sources):
        if isinstance(op, GatherPieces):
            return op.expand(values)[1:]
        if not isinstance(op, (Group, FusedProduct)) or op.body is None:
            raise type_error("expand_group", f"operand 0 is {group.name}; accepted: a group")
        if isinstance(op, FusedProduct):
            values = op.body_operands(values)
        for step in op.body.steps:
            values.append(make(step.op, tuple([values[i] for i in step.inputs])))
    return tuple([values[r] for r in op.body.results])


def is_group(body: Body) -> bool:
    """Whether a body is what grouping makes: pointwise steps and folds over one space.

    What spans the space has all its sizes, but for axes of size 1; what comes after a fold may have
    those that the folds leave; anything else is smaller, and is spread by a broadcast.
    """
    first, seen = len(body.operands), set(body.results)
    if len(seen) != len(body.results) or min(seen) < first:
        return False
    if any(0 in body.type_of(value)[0] for value in range(first + len(body.steps))):
        return False
    space = nonunit(body.space())
    spans = {space}
    for step in body.steps:
        given = body.type_of(step.inputs[0])[0] if step.inputs else ()
        if isinstance(step.op, FOLDS):
            if nonunit(given) != space:
                return False
            spans.add(nonunit(reduction_shape(given, folded_axes(step.op, given), True)))
        elif isinstance(step.op, Reshape):
            if nonunit(step.op.shape) != nonunit(given):
                return False
        elif not isinstance(step.op, (Elementwise, Cast, Copy, BroadcastTo)):
            return False
    return len(spans) <= 2 and all(nonunit(body.type_of(r)[0]) in spans for r in body.results)
