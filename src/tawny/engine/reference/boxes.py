"""Kernels of the boxes chapter."""

from __future__ import annotations

import numpy as np

from tawny.dtype import kind_of
from tawny.engine.reference.kernel import Value, kernel
from tawny.ops.boxes import NONE, NonMaximumSuppression, SuppressionByClass


@kernel(NonMaximumSuppression)
def non_maximum_suppression(op: NonMaximumSuppression, boxes: Value, scores: Value) -> Value:
    """One box after the other."""
    return _fill_up(_suppress(boxes, scores, op.threshold, op.count), op.count)


@kernel(SuppressionByClass)
def suppression_by_class(
    op: SuppressionByClass, boxes: Value, scores: Value, classes: Value
) -> Value:
    """Class by class, then the best of all."""
    candidates = np.flatnonzero((classes > 0) & (scores >= op.least) & (_area(boxes) > 0))
    kept: list[int] = []
    for kind in np.unique(classes[candidates]):
        places = candidates[classes[candidates] == kind]
        chosen = _suppress(boxes[places], scores[places], op.threshold, op.count)
        kept += places[chosen].tolist()
    places = np.sort(np.array(kept, np.int64))
    return _fill_up(places[_order(scores[places])][: op.count], op.count)


def _suppress(boxes: Value, scores: Value, threshold: float, count: int) -> Value:
    """Places of the boxes that are kept."""
    left = _order(scores)
    ordered = boxes[left].astype(np.float64)
    columns = np.concatenate([ordered, _area(ordered)[:, None]], axis=1).T.copy()
    kept: list[int] = []
    while left.size and len(kept) < count:
        kept.append(int(left[0]))
        dropped = _overlapping(columns, threshold)
        left, columns = left[1:], columns[:, 1:]
        if dropped.any():
            left, columns = left[~dropped], columns[:, ~dropped]
    return np.array(kept, np.int64)


def _order(scores: Value) -> Value:
    """Places by falling score; equals in the order they came."""
    falling = -scores if kind_of(scores.dtype) == "f" else ~scores
    return np.argsort(falling, kind="stable")


def _overlapping(columns: Value, threshold: float) -> Value:
    """Whether each box but the first overlaps the first by more than `threshold`.

    `columns` are (5, n): top, left, bottom, right and area.  Overlap is intersection over union, 0
    where both are empty.
    """
    first, others = columns[:, :1], columns[:, 1:]
    shared = np.minimum(first[2], others[2])
    shared -= np.maximum(first[0], others[0])
    np.maximum(shared, 0, out=shared)
    sides = np.minimum(first[3], others[3])
    sides -= np.maximum(first[1], others[1])
    np.maximum(sides, 0, out=sides)
    shared *= sides
    union = first[4] + others[4]
    union -= shared
    np.divide(shared, union, out=shared, where=union > 0)
    out: Value = shared > threshold
    return out


def _area(boxes: Value) -> Value:
    corners = boxes.astype(np.result_type(boxes, np.float16), copy=False)
    out: Value = np.prod(np.maximum(corners[..., 2:] - corners[..., :2], 0), axis=-1)
    return out


def _fill_up(kept: Value, count: int) -> Value:
    out = np.full(count, NONE, np.int64)
    out[: len(kept)] = kept
    return out
