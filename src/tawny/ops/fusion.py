"""What fusion makes of several ops: groups, products with an epilogue, and both as one.

No user writes these: `rewrite` puts them where they compute the same bits with less memory traffic.
They are differentiated before they are fused, or after `expanded`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tawny.attributes import Positive
from tawny.dtype import DType
from tawny.dtype_rules import not_boolean
from tawny.errors import type_error, value_error
from tawny.node import Node, make, source_scope
from tawny.op import (
    ELEMENTWISE,
    Cost,
    Elementwise,
    Gradient,
    Op,
    Type,
    dtype_mismatch,
    nbytes,
    primitives,
)
from tawny.ops.body import FOLDS, Body, folded_axes, nonunit
from tawny.ops.body_rows import band
from tawny.ops.convolution import ConvolutionOp
from tawny.ops.creation import Cast
from tawny.ops.indexing import Slice
from tawny.ops.linalg import Matmul
from tawny.ops.movement import BroadcastTo, Copy, Reshape
from tawny.ops.pieces import GatherPieces
from tawny.rows import Rows, RowSlice, broadcast_rows, row_axis
from tawny.shape import Shape, reduction_shape, size

# ---------------------------------------------------------------------- groups


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
    if not isinstance(group.op, (Group, ProductGroup, GatherPieces)):
        raise type_error("expand_group", f"operand 0 is {group.name}; accepted: a group")
    values = list(group.inputs if operands is None else operands)
    with source_scope(group.sources):
        if isinstance(group.op, GatherPieces):
            return group.op.expand(values)[1:]
        if isinstance(group.op, ProductGroup):
            values = group.op.body_operands(values)
        for step in group.op.body.steps:
            values.append(make(step.op, tuple([values[i] for i in step.inputs])))
    return tuple([values[r] for r in group.op.body.results])


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


# ------------------------------------------------------------------- epilogues


class Activation(enum.Enum):
    """The last op of an epilogue: nothing, or the elementwise op of this name."""

    NONE = ""
    RELU = "relu"
    SIGMOID = "sigmoid"
    TANH = "tanh"
    SOFTPLUS = "softplus"

    @property
    def op(self) -> Elementwise | None:
        """The elementwise op; None for nothing."""
        return ELEMENTWISE[self.value] if self.value else None


@dataclass(frozen=True, slots=True)
class Epilogue:
    """`activation(product * scale + bias + residual)`, each part optional, in this order.

    The bias has one element for each place on the last axis, the residual the result's shape; both
    have its dtype, and are the operands after the first two.
    """

    bias: bool = False
    residual: bool = False
    activation: Activation = Activation.NONE
    scaled: bool = False
    """Whether there is a scale: the bias has two rows then, the second of which it is."""

    @property
    def arity(self) -> int:
        """How many operands it adds."""
        return self.bias + self.residual

    def check(self, op: str, product: Type, types: Sequence[Type]) -> None:
        """Refuse operands that do not fit the product."""
        shape, dtype = product
        if self.scaled and not self.bias:
            raise value_error(op, "an epilogue with a scale needs a bias, whose second row it is")
        if len(types) != self.arity:
            raise type_error(op, f"{len(types) + 2} operands came; accepted: {self.arity + 2}")
        for position, (given, kind) in enumerate(types, 2):
            if kind != dtype:
                raise type_error(
                    op, f"operand {position} has dtype {kind}; the product has {dtype}"
                )
            fits, wanted = given == shape, str(shape)
            if self.bias and position == 2 and self.scaled:
                fits, wanted = given == (2, *shape[-1:]), f"(2, {shape[-1]})"
            elif self.bias and position == 2:
                fits = is_bias_shape(given, shape)
                wanted = f"{shape[-1:]}, after any axes of size 1"
            if not fits:
                raise value_error(op, f"operand {position} has shape {given}; it must be {wanted}")

    def row_reads(
        self, shape: Shape, operands: Sequence[Shape], rows: Rows
    ) -> tuple[Rows | None, ...]:
        """The rows of its operands that some rows of a result of this shape need."""
        residual = [broadcast_rows(operands[-1], shape, rows)] if self.residual else []
        return (*[None] * self.bias, *residual)

    def operations(self, elements: int) -> int:
        """The number of scalar operations on a number of elements."""
        last = self.activation.op
        return elements * (self.arity + self.scaled + (0 if last is None else primitives(last)))


PLAIN: Final = Epilogue()
"""Nothing after the product."""


def is_bias_shape(shape: Shape, product: Shape) -> bool:
    """Whether `shape` has one element for each place on the product's last axis."""
    return (
        0 < len(shape) <= len(product)
        and shape[-1] == product[-1]
        and all(n == 1 for n in shape[:-1])
    )


_MATMUL: Final = Matmul()


class FusedMatmul(Op, may_fail=False, name="fused_matmul", arity=None, gradient=Gradient.NONE):
    """A matrix product of operands whose last two axes may be exchanged, and its epilogue."""

    transpose_a: bool
    transpose_b: bool
    epilogue: Epilogue

    def product(self, a: Shape, b: Shape) -> Shape:
        """Shape of the matrix product."""
        for position, (shape, exchanged) in enumerate(
            ((a, self.transpose_a), (b, self.transpose_b))
        ):
            if exchanged and len(shape) < 2:
                raise value_error(
                    "fused_matmul",
                    f"operand {position} has shape {shape}; to be transposed it must have two axes",
                )
        return _MATMUL.infer_shape(*self._factors(a, b))

    def _factors(self, a: Shape, b: Shape) -> tuple[Shape, Shape]:
        """Shapes of the matrices that are multiplied."""
        return (
            exchanged_axes(a) if self.transpose_a else a,
            exchanged_axes(b) if self.transpose_b else b,
        )

    def infer_shape(self, *shapes: Shape) -> Shape:
        return self.product(shapes[0], shapes[1])

    def infer_dtype(self, *dtypes: DType) -> DType:
        return _MATMUL.infer_dtype(*dtypes[:2])

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        self.epilogue.check("fused_matmul", self._product_type(types), types[2:])
        return ()

    def may_overwrite(self, *types: Type) -> frozenset[int]:
        """The residual, which is read where the result is written."""
        return frozenset({len(types) - 1}) if self.epilogue.residual else frozenset()

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        a, b, *others = operands
        a, b = self._factors(a, b)
        found = _MATMUL.slice_rows(shape, (a, b), rows)
        if found is None or (self.transpose_a and row_axis(shape) == len(shape) - 2):
            return None
        return RowSlice(self, (*found.reads, *self.epilogue.row_reads(shape, others, rows)), rows)

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        return operands[0][-2 if self.transpose_a else -1] * size(result)

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        products = 2 * self.multiply_adds(result, operands)
        return products + self.epilogue.operations(size(result))

    def _product_type(self, types: Sequence[Type]) -> Type:
        (a, left), (b, right) = types[:2]
        return self.product(a, b), _MATMUL.infer_dtype(left, right)

    def operand_counts(self) -> Sequence[int]:
        return (2 + self.epilogue.arity,)

    def mistake(self, types: Sequence[Type]) -> str | None:
        return dtype_mismatch(types[:2])


def exchanged_axes(shape: Shape) -> Shape:
    """`shape` with its last two sizes exchanged."""
    return (*shape[:-2], shape[-1], shape[-2])


def is_rowwise(body: Body, pieces: int = 1) -> bool:
    """Whether a body is computed row by row from the matrices that are its first operands.

    They are of one shape; its steps are elementwise ops and conversions; all it reads and makes is
    a matrix of that shape, a column or a row of one, or one element; all results are such matrices.
    """
    matrix = body.operands[0][0] if body.operands else ()
    given = [shape for shape, _ in body.operands[:pieces]]
    if len(matrix) != 2 or min(matrix) < 2 or given != [matrix] * pieces:
        return False
    rows, columns = matrix
    fitting = {matrix, (rows, 1), (1, columns), (columns,), (1, 1), (1,), ()}
    count = len(body.operands) + len(body.steps)
    return (
        all(isinstance(step.op, (Elementwise, Cast)) for step in body.steps)
        and all(body.type_of(value)[0] in fitting for value in range(count))
        and all(body.type_of(result)[0] == matrix for result in body.results)
    )


class ProductGroup(Op, name="product_group", arity=None, gradient=Gradient.NONE):
    """A matrix product that a group uses up, a part at a time, without storing it.

    Operands are the product's, then those of the body but for the first, which is the product; or
    the first are pieces of it, equal numbers of columns side by side.
    """

    transpose_a: bool
    transpose_b: bool
    epilogue: Epilogue
    body: Body
    pieces: Positive = 1

    @property
    def product(self) -> Op:
        """The product as an op of its own."""
        if self.transpose_a or self.transpose_b or self.epilogue != PLAIN:
            return self._fused_product
        return _MATMUL

    @property
    def _fused_product(self) -> FusedMatmul:
        return FusedMatmul(self.transpose_a, self.transpose_b, self.epilogue)

    @property
    def product_arity(self) -> int:
        """How many operands are the product's."""
        return 2 + self.epilogue.arity

    def product_node(self, operands: Sequence[Node]) -> Node:
        """The product as a node of its own."""
        return make(self.product, tuple(operands[: self.product_arity]))

    def body_operands(self, operands: Sequence[Node]) -> list[Node]:
        """The operands of the body, the product or its pieces among them as nodes."""
        product, others = self.product_node(operands), operands[self.product_arity :]
        if self.pieces == 1:
            return [product, *others]
        rows, columns = product.shape
        width = columns // self.pieces
        cuts = [((0, rows, 1), (first, width, 1)) for first in range(0, columns, width)]
        return [*[make(Slice(cut), (product,)) for cut in cuts], *others]

    def infer_shape(self, *shapes: Shape) -> Shape:
        return self.body.type_of(self.body.results[0])[0]

    def infer_dtype(self, *dtypes: DType) -> DType:
        return self.body.type_of(self.body.results[0])[1]

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        body, given, others = self.body, types[: self.product_arity], types[self.product_arity :]
        if len(types) < self.product_arity or [len(shape) for shape, _ in given[:2]] != [2, 2]:
            raise value_error("product_group", f"operands are {types}; the first are two matrices")
        fused = self._fused_product
        fused.infer_parts(*given)
        rows, columns = fused.infer_shape(*[s for s, _ in given])
        dtype, pieces = fused.infer_dtype(*[d for _, d in given]), self.pieces
        wanted = [((rows, columns // max(pieces, 1)), dtype)] * pieces
        if (
            pieces < 1
            or columns % pieces
            or (*wanted, *others) != body.operands
            or not is_rowwise(body, pieces)
        ):
            raise value_error(
                "product_group",
                f"the product is {dtype}{[rows, columns]} in {pieces} pieces, other operands are "
                f"{others}; its body takes {body.operands} and must be computed row by row",
            )
        return tuple(map(body.type_of, body.results)) if len(body.results) > 1 else ()

    def overwrites(self) -> tuple[tuple[int, int], ...]:
        """Pairs (operand, result) as `Body.overwrites` gives them; never an operand of the product.

        Those are read for each panel, when results of others have been written.
        """
        pairs, before = self.body.overwrites(), self.product_arity - self.pieces
        return tuple([(operand + before, r) for operand, r in pairs if operand >= self.pieces])

    def may_overwrite(self, *types: Type) -> frozenset[int]:
        """Operands that result 0 may be written over; `overwrites` answers for each result."""
        return frozenset(operand for operand, result in self.overwrites() if not result)

    def may_fail(self, dtype: DType) -> bool:
        return self.body.may_fail()

    def cost(self, result: Type, operands: Sequence[Type]) -> Cost:
        """Operations of both; the product is neither written nor read."""
        del result
        body, product = self.body.cost(), self._fused_product
        shapes = [shape for shape, _ in operands[: self.product_arity]]
        operations = product.operations(product.infer_shape(*shapes), shapes) + body.operations
        return Cost(operations, sum(map(nbytes, operands)), body.bytes_written)

    def mistake(self, types: Sequence[Type]) -> str | None:
        return dtype_mismatch(types[:2])


class FusedConvolution(ConvolutionOp, name="fused_convolution", arity=None, gradient=Gradient.NONE):
    """A convolution and its epilogue."""

    epilogue: Epilogue

    def infer_shape(self, *shapes: Shape) -> Shape:
        return self.output_shape(shapes[0], shapes[1], "fused_convolution")

    def infer_dtype(self, *dtypes: DType) -> DType:
        return not_boolean("fused_convolution", dtypes[:2])

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        self.epilogue.check("fused_convolution", self._product_type(types), types[2:])
        return ()

    def may_overwrite(self, *types: Type) -> frozenset[int]:
        """The residual, which is read where the result is written."""
        return frozenset({len(types) - 1}) if self.epilogue.residual else frozenset()

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        x, kernel, *others = operands
        found = self.slice_output_rows(shape, (x, kernel), rows)
        if found is None:
            return None
        return found._replace(reads=(*found.reads, *self.epilogue.row_reads(shape, others, rows)))

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        return size(operands[1][:-1]) * size(result)

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        products = 2 * self.multiply_adds(result, operands)
        return products + self.epilogue.operations(size(result))

    def _product_type(self, types: Sequence[Type]) -> Type:
        (x, kind), (kernel, other) = types[:2]
        shape = self.output_shape(x, kernel, "fused_convolution")
        return shape, not_boolean("fused_convolution", (kind, other))

    def operand_counts(self) -> Sequence[int]:
        return (2 + self.epilogue.arity,)

    def mistake(self, types: Sequence[Type]) -> str | None:
        return super().mistake(types) or dtype_mismatch(types[:2])


ACTIVATIONS: Final = {a.value: a for a in Activation if a is not Activation.NONE}
"""Which activation an elementwise op is, by its name."""
