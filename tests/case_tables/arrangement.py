"""Arrays put together from blocks, repeated, cut into windows, and mapped line by line."""

from __future__ import annotations

import numpy as np

from cases import COMMON, EVERYTHING, FLOATS, Case

MATRIX = (3, 4)


def blocks(shapes, nest, dtypes=COMMON):
    return Case(
        "block", lambda xp, *x: xp.block(nest(*x)), lambda *x: np.block(nest(*x)), shapes, dtypes
    )


def resized(shape, new):
    return Case(
        "resize",
        lambda xp, x: xp.resize(x, new),
        lambda x: np.resize(x, new),
        [shape],
        COMMON,
    )


def windows(shape, *args, dtypes=("float64",), **kwargs):
    return Case(
        "sliding_window_view",
        lambda xp, x: xp.sliding_window_view(x, *args, **kwargs),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, *args, **kwargs),
        [shape],
        dtypes,
    )


def along(call, shape, axis, *args, dtypes=("float64",), **kwargs):
    """`call(xp, line)` of each line."""
    return Case(
        "apply_along_axis",
        lambda xp, x: xp.apply_along_axis(lambda v, *a, **k: call(xp, v, *a, **k), axis, x, *args, **kwargs),
        lambda x: np.apply_along_axis(lambda v, *a, **k: call(np, v, *a, **k), axis, x, *args, **kwargs),
        [shape],
        dtypes,
        exact=False,
    )  # fmt: skip


CASES = [
    blocks([(2, 2), (2, 3), (3, 5)], lambda a, b, c: [[a, b], [c]], EVERYTHING),
    blocks([(2,), (3,)], lambda a, b: [a, b]),
    blocks([(2,), (2,)], lambda a, b: [[a], [b]]),
    blocks([(), ()], lambda a, b: [a, b, 2]),
    blocks([MATRIX], lambda a: a),
    blocks([()], lambda a: a),
    blocks([(2, 3, 4), (2, 3, 1)], lambda a, b: [a, b]),
    blocks([(4,), (3, 4)], lambda a, b: [[a], [b]]),
    blocks([(1, 2, 2)], lambda a: [[[a, a]], [[a, 2 * a]]]),
    blocks([(0, 2), (0, 1)], lambda a, b: [[a, b]]),
    *[
        resized(s, n)
        for s in (MATRIX, (5,), (), (0,))
        for n in ((2, 3), (5, 7), 4, (0, 2), (), (2, 3, 4))
    ],
    windows((6,), 3, dtypes=EVERYTHING),
    windows((3, 4, 5), (2, 3, 1)),
    windows((3, 4, 5), 2, axis=1),
    windows((3, 4, 5), (2, 3), axis=(-1, 0)),
    windows((7, 2), (2, 3), axis=(0, 0)),
    windows((4,), (4,)),
    *[along(lambda xp, v: v.sum(), s, a, dtypes=COMMON) for s, a in ((MATRIX, 0), ((2, 3, 4), 1), ((5,), -1))],
    *[along(lambda xp, v: xp.sort(v)[:2], (2, 3, 4), a, dtypes=FLOATS) for a in (0, 1, -1)],
    *[along(lambda xp, v: xp.diag(v), (2, 3), a) for a in (0, 1)],
    along(lambda xp, v, k, p=0: v * k + p, MATRIX, 1, 3, p=2),
    along(lambda xp, v: 7, MATRIX, 1),
]  # fmt: skip
