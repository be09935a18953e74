"""Operators whose results have as many elements as are found: their operands must be known."""

from __future__ import annotations

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.node import Value
from tawny.onnx.call import NodeCall
from tawny.onnx.table import operator


@operator("NonMaxSuppression")
def non_maximum_suppression(call: NodeCall) -> Array:
    """The boxes of each class that overlap no better one, by image, class and place."""
    boxes, scores = call.known_operand(0), call.known_operand(1)
    most = call.known_int(2) if call.optional(2) is not None else 0
    overlap = float(call.known_operand(3).reshape(())) if call.optional(3) is not None else 0.0
    least = float(call.known_operand(4).reshape(())) if call.optional(4) is not None else None
    corners = _corners(boxes, call.flag("center_point_box"))
    found: list[tuple[int, int, int]] = []
    for image in range(scores.shape[0]):
        for kind in range(scores.shape[1]):
            order = numpy.argsort(-scores[image, kind], kind="stable")
            if least is not None:
                order = order[scores[image, kind][order] > least]
            chosen: list[int] = []
            for box in order:
                if len(chosen) == most:
                    break
                if not chosen or _overlaps(corners[image], box, chosen).max() <= overlap:
                    chosen.append(int(box))
            found += [(image, kind, box) for box in chosen]
    return np.asarray(numpy.array(found, numpy.int64).reshape(-1, 3))


def _corners(boxes: Value, centred: bool) -> Value:
    """Boxes as their least and greatest rows and columns."""
    if centred:
        x, y, width, height = numpy.moveaxis(boxes, -1, 0)
        sides = (y - height / 2, x - width / 2, y + height / 2, x + width / 2)
        return numpy.stack(sides, -1)
    low = numpy.minimum(boxes[..., :2], boxes[..., 2:])
    return numpy.concatenate([low, numpy.maximum(boxes[..., :2], boxes[..., 2:])], -1)


def _overlaps(boxes: Value, box: int, others: list[int]) -> Value:
    """The shared part of a box and others, of what they cover together."""
    a, b = boxes[box], boxes[others]
    sides = numpy.minimum(a[2:], b[:, 2:]) - numpy.maximum(a[:2], b[:, :2])
    shared = numpy.clip(sides, 0, None).prod(-1)
    whole = (a[2:] - a[:2]).prod() + (b[:, 2:] - b[:, :2]).prod(-1) - shared
    return numpy.where(whole > 0, shared / numpy.where(whole > 0, whole, 1), 0)


@operator("TfIdfVectorizer")
def n_grams(call: NodeCall) -> Array:
    """How often runs of numbers occur, weighted."""
    if call.has("pool_strings"):
        call.fail("strings are not supported")
    x = call.known_operand(0)
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    mode = call.choice("mode", "", ("TF", "IDF", "TFIDF"))
    starts, places = call.ints("ngram_counts"), call.ints("ngram_indexes")
    pool, weights = call.ints("pool_int64s"), call.floats("weights", ())
    if not places or min(places) < 0 or max(places) >= 2**24:
        call.fail(f"ngram_indexes are {places}")
    counts = numpy.zeros((len(rows), max(places) + 1), numpy.float32)
    low, high = call.integer("min_gram_length"), call.integer("max_gram_length")
    grams: dict[tuple[int, ...], int] = {}
    for n, first in enumerate(starts, 1):
        end = starts[n] if n < len(starts) else len(pool)
        for at in range(first, end, n):
            if low <= n <= high:
                grams[pool[at : at + n]] = len(grams) + _count_runs_before(starts, pool, low)
    for i, row in enumerate(rows):
        for n in range(low, high + 1):
            for skip in range(call.integer("max_skip_count") + 1 if n > 1 else 1):
                span = (n - 1) * (skip + 1) + 1
                for at in range(len(row) - span + 1):
                    found = grams.get(tuple(map(int, row[at : at + span : skip + 1])))
                    if found is not None:
                        counts[i, places[found]] += 1
    if mode != "TF":
        by_place = numpy.ones(counts.shape[1], numpy.float32)
        for place, weight in zip(places, weights, strict=False):
            by_place[place] = weight
        counts = (counts > 0) * by_place if mode == "IDF" else counts * by_place
    return np.asarray((counts[0] if x.ndim == 1 else counts).astype(numpy.float32))


def _count_runs_before(starts: tuple[int, ...], pool: tuple[int, ...], low: int) -> int:
    """How many shorter runs stand before those that are looked for."""
    ends = (*starts[1:], len(pool))
    return sum(
        (e - s) // n for n, (s, e) in enumerate(zip(starts, ends, strict=True), 1) if n < low
    )
