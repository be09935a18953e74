"""Choosing among boxes (top, left, bottom, right): non-maximum suppression.

Overlap is intersection over union.  The best box is taken, those that overlap it are dropped, and
so on with what is left; of equal scores the first comes first, NaN comes last.
"""

from __future__ import annotations

import math
from typing import Final

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.attributes import Natural
from tawny.dtype import DType, check_categories
from tawny.errors import value_error
from tawny.node import make
from tawny.op import Gradient, Op
from tawny.shape import Shape, as_int

NONE: Final = -1
"""The place that says that no box is left."""


class NonMaximumSuppression(Op, name="non_maximum_suppression", arity=2, gradient=Gradient.ZERO):
    """Places of at most `count` boxes (n, 4), best first, that overlap by `threshold` at most.

    Operand 1 has the scores.  Where fewer are left the places are -1.
    """

    count: Natural
    threshold: float

    def infer_shape(self, *shapes: Shape) -> Shape:
        return _selection_shape("non_maximum_suppression", shapes, self.count)

    def infer_dtype(self, *dtypes: DType) -> DType:
        for position, dtype in enumerate(dtypes):
            check_categories("non_maximum_suppression", position, dtype, dt.REAL)
        return dt.INT64


class SuppressionByClass(Op, name="suppression_by_class", arity=3, gradient=Gradient.ZERO):
    """Places of at most `count` boxes, best first; a better one of its class drops a box.

    Operand 2 has the classes.  Class 0 is left out, as are scores below `least` and empty boxes.
    """

    count: Natural
    threshold: float
    least: float

    def infer_shape(self, *shapes: Shape) -> Shape:
        return _selection_shape("suppression_by_class", shapes, self.count)

    def infer_dtype(self, *dtypes: DType) -> DType:
        for position, dtype in enumerate(dtypes):
            check_categories("suppression_by_class", position, dtype, dt.REAL)
        return dt.INT64


def _selection_shape(op: str, shapes: tuple[Shape, ...], count: int) -> Shape:
    """The shape of the places; every box has a score and, if there are some, a class."""
    boxes, *others = shapes
    if len(boxes) != 2 or boxes[1] != 4:
        raise value_error(op, f"boxes have shape {boxes}; it must be (n, 4)")
    for word, shape in zip(("scores", "classes"), others, strict=False):
        if shape != boxes[:1]:
            raise value_error(op, f"{word} have shape {shape}; it must be {boxes[:1]}, as boxes")
    if count < 0:
        raise value_error(op, f"count is {count}; it must be at least 0")
    return (count,)


def non_maximum_suppression(
    boxes: ArrayLike, scores: ArrayLike, count: int, threshold: float
) -> Array:
    """Places of at most `count` boxes (n, 4), best first, that overlap by `threshold` at most.

    Overlap is intersection over union.  Where fewer are left the places are -1.
    """
    name = "non_maximum_suppression"
    op = NonMaximumSuppression(as_int(count, name, "count"), float(threshold))
    return wrap(make(op, (lift(boxes, name, 0), lift(scores, name, 1))))


def suppression_by_class(
    boxes: ArrayLike,
    scores: ArrayLike,
    classes: ArrayLike,
    count: int,
    threshold: float,
    least: float = -math.inf,
) -> Array:
    """Places of at most `count` boxes, best first; a better one of its class drops a box.

    Class 0 is the background, which is left out, as are scores below `least` and empty boxes.
    """
    name = "suppression_by_class"
    op = SuppressionByClass(as_int(count, name, "count"), float(threshold), float(least))
    given = (lift(boxes, name, 0), lift(scores, name, 1), lift(classes, name, 2))
    return wrap(make(op, given))
