"""Products and what follows them in one kernel: the only op of a product with a tail.

    a @ b + bias                        FusedProduct(Matmul(), Epilogue(bias=True))
    relu(conv(x, w) + bias)             FusedProduct(Convolution(...), Epilogue(True, False, RELU))
    w - rate * (a.T @ b)                FusedProduct(TransposedMatmul(True, False), PLAIN, body)

The tail of a product is an epilogue, which kernels compute while sums are in registers, and then
perhaps a body: elementwise steps that use the product up, some rows or some columns at a time.
No user writes these ops: `rewrite` puts them where they compute the same bits with less memory
traffic.  They are differentiated before they are fused.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from tawny.attributes import Positive
from tawny.dtype import DType
from tawny.errors import type_error, value_error
from tawny.node import Node, make
from tawny.op import (
    ELEMENTWISE,
    Cost,
    Elementwise,
    Gradient,
    Op,
    Type,
    dtype_mismatch,
    primitives,
)
from tawny.ops.body import Body
from tawny.ops.convolution import Convolution
from tawny.ops.creation import Cast
from tawny.ops.half_products import ConvolutionHalves, MatmulHalves
from tawny.ops.indexing import Slice
from tawny.ops.linalg import Matmul
from tawny.rows import Rows, RowSlice, broadcast_rows, row_axis
from tawny.shape import Shape, size

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


ACTIVATIONS: Final = {a.value: a for a in Activation if a is not Activation.NONE}
"""Which activation an elementwise op is, by its name."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """`activation(product * scale + bias + residual)`, each part optional, in this order.

    The bias has one element for each place on the last axis, the residual the result's shape; both
    have its dtype, and are the operands after the factors.
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


# -------------------------------------------------------------------- products


_MATMUL: Final = Matmul()


def exchanged_axes(shape: Shape) -> Shape:
    """`shape` with its last two sizes exchanged."""
    return (*shape[:-2], shape[-1], shape[-2])


class TransposedMatmul(
    Op, may_fail=False, name="transposed_matmul", arity=2, gradient=Gradient.NONE
):
    """Matrix product of operands whose last two axes are exchanged where it says so."""

    transpose_a: bool
    transpose_b: bool

    def factors(self, a: Shape, b: Shape) -> tuple[Shape, Shape]:
        """Shapes of the matrices that are multiplied."""
        return (
            exchanged_axes(a) if self.transpose_a else a,
            exchanged_axes(b) if self.transpose_b else b,
        )

    def infer_shape(self, *shapes: Shape) -> Shape:
        for position, exchanged in enumerate((self.transpose_a, self.transpose_b)):
            if exchanged and len(shapes[position]) < 2:
                raise value_error(
                    "transposed_matmul",
                    f"operand {position} has shape {shapes[position]}; "
                    "to be transposed it must have two axes",
                )
        return _MATMUL.infer_shape(*self.factors(*shapes))

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        return operands[0][-2 if self.transpose_a else -1] * size(result)

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """As a plain product; columns of a left matrix are no rows of it."""
        a, b = operands
        found = _MATMUL.slice_rows(shape, self.factors(a, b), rows)
        if found is None or (self.transpose_a and row_axis(shape) == len(shape) - 2):
            return None
        return found._replace(op=self)

    def mistake(self, types: Sequence[Type]) -> str | None:
        return dtype_mismatch(types[:2])


PlainProduct: TypeAlias = Matmul | TransposedMatmul | MatmulHalves | Convolution | ConvolutionHalves
"""The products that may have a tail, by themselves."""


def matmul_op(transpose_a: bool, transpose_b: bool) -> Matmul | TransposedMatmul:
    """The product of matrices that may have to be transposed."""
    return TransposedMatmul(transpose_a, transpose_b) if transpose_a or transpose_b else _MATMUL


def transposes(product: Op) -> tuple[bool, bool]:
    """Whether the last two axes of each factor of a product are exchanged."""
    if not isinstance(product, TransposedMatmul):
        return False, False
    return product.transpose_a, product.transpose_b


# --------------------------------------------------------- products with a tail


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


class FusedProduct(Op, name="fused_product", arity=None, gradient=Gradient.NONE):
    """A product and its tail: an epilogue, and perhaps a body that takes the product.

    Operands are the two factors, those of the epilogue, and those of the body but for its first
    ones: these are the product, or its pieces, which have equal numbers of its columns.  A product
    with a body is a matrix and is never stored; the results are those of the body.
    """

    product: PlainProduct
    epilogue: Epilogue
    body: Body | None = None
    pieces: Positive = 1

    @property
    def product_arity(self) -> int:
        """How many operands are those of the product and its epilogue."""
        return 2 + self.epilogue.arity

    def _product_type(self, types: Sequence[Type]) -> Type:
        (a, left), (b, right) = types[:2]
        return self.product.infer_shape(a, b), self.product.infer_dtype(left, right)

    @property
    def label(self) -> str:
        """The name of the product with `fused_` before it; product_group where it has a body."""
        if self.body is not None:
            return "product_group"
        return f"fused_{self.product.facts().name.removeprefix('transposed_')}"

    # ----------------------------------------------------------------- results

    def infer_shape(self, *shapes: Shape) -> Shape:
        if self.body is None:
            return self.product.infer_shape(*shapes[:2])
        return self.body.type_of(self.body.results[0])[0]

    def infer_dtype(self, *dtypes: DType) -> DType:
        if self.body is None:
            return self.product.infer_dtype(*dtypes[:2])
        return self.body.type_of(self.body.results[0])[1]

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        given, others = types[: self.product_arity], types[self.product_arity :]
        if self.body is None:
            self.epilogue.check("fused_product", self._product_type(types), types[2:])
            return ()
        if len(types) < self.product_arity or [len(shape) for shape, _ in given[:2]] != [2, 2]:
            raise value_error("fused_product", f"operands are {types}; the first are two matrices")
        product = self._product_type(given)
        self.epilogue.check("fused_product", product, given[2:])
        self._check_body(self.body, product, others)
        results = self.body.results
        return tuple(map(self.body.type_of, results)) if len(results) > 1 else ()

    def _check_body(self, body: Body, product: Type, others: Sequence[Type]) -> None:
        """Refuse a body that does not take the product and the other operands row by row."""
        (rows, columns), dtype = product
        wanted = [((rows, columns // max(self.pieces, 1)), dtype)] * self.pieces
        if (
            self.pieces < 1
            or columns % self.pieces
            or (*wanted, *others) != body.operands
            or not is_rowwise(body, self.pieces)
        ):
            raise value_error(
                "fused_product",
                f"the product is {dtype}{[rows, columns]} in {self.pieces} pieces, other operands "
                f"are {others}; its body takes {body.operands} and must be computed row by row",
            )

    def operand_counts(self) -> Sequence[int]:
        others = 0 if self.body is None else len(self.body.operands) - self.pieces
        return (self.product_arity + others,)

    def mistake(self, types: Sequence[Type]) -> str | None:
        if self.body is None and self.pieces != 1:
            return f"there are {self.pieces} pieces and no body that takes them"
        return dtype_mismatch(types[:2])

    # ------------------------------------------------------------------- parts

    def without_body(self) -> Op:
        """The product with its epilogue alone, as an op of its own."""
        return with_epilogue(self.product, self.epilogue)

    def product_node(self, operands: Sequence[Node]) -> Node:
        """The product with its epilogue alone, as a node of its own."""
        return make(self.without_body(), tuple(operands[: self.product_arity]))

    def body_operands(self, operands: Sequence[Node]) -> list[Node]:
        """The operands of the body, the product or its pieces among them as nodes."""
        product, others = self.product_node(operands), operands[self.product_arity :]
        if self.pieces == 1:
            return [product, *others]
        rows, columns = product.shape
        width = columns // self.pieces
        cuts = [((0, rows, 1), (first, width, 1)) for first in range(0, columns, width)]
        return [*[make(Slice(cut), (product,)) for cut in cuts], *others]

    # -------------------------------------------------------- memory and time

    def overwrites(self) -> tuple[tuple[int, int], ...]:
        """Pairs (operand, result): the result may be written over the operand.

        That is the residual, which is read where the result is written; of a product with a body
        what `Body.overwrites` gives, but no operand of the product: those are read for each part
        of it, when results of others have been written.
        """
        if self.body is None:
            return ((self.product_arity - 1, 0),) if self.epilogue.residual else ()
        pairs, before = self.body.overwrites(), self.product_arity - self.pieces
        return tuple([(operand + before, r) for operand, r in pairs if operand >= self.pieces])

    def may_overwrite(self, *types: Type) -> frozenset[int]:
        """Operands that result 0 may be written over; `overwrites` answers for each result."""
        return frozenset(operand for operand, result in self.overwrites() if not result)

    def may_fail(self, dtype: DType) -> bool:
        return self.body is not None and self.body.may_fail()

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """The product of some rows, with its epilogue; a product with a body is computed whole."""
        found = None
        if self.body is None:
            found = self.product.slice_rows(shape, operands[:2], rows)
        if found is None:
            return None
        reads = (*found.reads, *self.epilogue.row_reads(shape, operands[2:], found.rows))
        return found._replace(op=self.with_attributes(product=found.op), reads=reads)

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        factors = operands[:2]
        shape = result if self.body is None else self.product.infer_shape(*factors)
        return self.product.multiply_adds(shape, factors)

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        """Operations of the product and of its tail."""
        products = 2 * self.multiply_adds(result, operands)
        if self.body is None:
            return products + self.epilogue.operations(size(result))
        elements = size(self.product.infer_shape(*operands[:2]))
        return products + self.epilogue.operations(elements) + self.body.cost().operations

    def cost(self, result: Type, operands: Sequence[Type]) -> Cost:
        """Operations of both; a product with a body is neither written nor read."""
        own = super().cost(result, operands)
        if self.body is None:
            return own
        return own._replace(bytes_written=self.body.cost().bytes_written)


def plain_product(op: Op) -> Op:
    """A product without its tail; any other op itself."""
    return op.product if isinstance(op, FusedProduct) else op


def epilogue_of(op: Op) -> Epilogue | None:
    """What follows a product of matrices or a convolution; None if `op` is none, or has a body."""
    if isinstance(op, FusedProduct) and op.body is not None:
        return None
    if not isinstance(plain_product(op), (Matmul, TransposedMatmul, Convolution)):
        return None
    return op.epilogue if isinstance(op, FusedProduct) else PLAIN


@lru_cache(4096)
def with_epilogue(op: Op, epilogue: Epilogue) -> Op:
    """The product with another epilogue; a plain op where that is enough."""
    product = plain_product(op)
    assert isinstance(product, PlainProduct)
    return product if epilogue == PLAIN else FusedProduct(product, epilogue)
