"""Functions that pick elements."""

from __future__ import annotations

import numpy as np

from cases import COMMON, EVERYTHING, Case

INDICES = np.array([[0, -1, 2], [2, 1, -3]])
ALONG = np.array([[0, -1, 2, 1], [2, 1, -3, 0]])


def naive_one_hot(x, n, axis=-1):
    out = np.zeros((*x.shape, n))
    for place in np.ndindex(x.shape):
        if 0 <= x[place] < n:
            out[(*place, x[place])] = 1
    return np.moveaxis(out, -1, axis)


CASES = [
    Case(
        "take",
        lambda xp, x: xp.take(x, INDICES, axis=0),
        lambda x: np.take(x, INDICES, 0),
        [(3, 4)],
        EVERYTHING,
    ),
    Case(
        "take", lambda xp, x: xp.take(x, INDICES), lambda x: np.take(x, INDICES), [(3, 4)], COMMON
    ),
    Case(
        "take",
        lambda xp, x: xp.take(x, [], axis=1),
        lambda x: np.take(x, np.array([], int), 1),
        [(3, 0)],
        COMMON,
    ),
    Case(
        "take",
        lambda xp, x, i: xp.take(x, i, axis=-1),
        lambda x, i: np.take(x, i, -1),
        [(2, 3), INDICES.astype("int8")],
    ),
    Case(
        "take",
        lambda xp, x, i: xp.take(x, i, axis=1),
        lambda x, i: np.take(x, i, 1),
        [(2, 3), np.array(2)],
    ),
    Case("take", lambda xp, x: xp.take(x, [True, False]), lambda x: np.take(x, [1, 0]), [(3,)]),
    Case(
        "take_along_axis",
        lambda xp, x, i: xp.take_along_axis(x, i, axis=0),
        lambda x, i: np.take_along_axis(x, i, 0),
        [(3, 4), ALONG],
        EVERYTHING,
    ),
    Case(
        "take_along_axis",
        lambda xp, x, i: xp.take_along_axis(x, i),
        np.take_along_axis,
        [(2, 4), ALONG],
    ),
    Case(
        "take_along_axis",
        lambda xp, x, i: xp.take_along_axis(x, i, axis=1),
        lambda x, i: np.take_along_axis(x, i, 1),
        [(1, 5), ALONG],
    ),
    Case(
        "take_along_axis",
        lambda xp, x, i: xp.take_along_axis(x, i, axis=None),
        lambda x, i: np.take_along_axis(x, i, None),
        [(3, 4), ALONG[0]],
    ),
    Case(
        "one_hot",
        lambda xp, x: xp.one_hot(x, 4),
        lambda x: naive_one_hot(x, 4),
        [(2, 3)],
        ("int32", "uint8"),
    ),
    Case(
        "one_hot",
        lambda xp, x: xp.one_hot(x, 3, axis=0),
        lambda x: naive_one_hot(x, 3, 0),
        [(2, 3)],
        ("int64",),
    ),
    Case(
        "one_hot",
        lambda xp, x: xp.one_hot(x, 3, dtype="bool"),
        lambda x: naive_one_hot(x, 3).astype(bool),
        [()],
        ("int64",),
    ),
    Case(
        "nonzero",
        lambda xp, x: xp.nonzero(x),
        np.nonzero,
        [(3, 4)],
        EVERYTHING,
        (-1, 1),
        needs_values=True,
    ),
    Case("nonzero", lambda xp, x: xp.nonzero(x), np.nonzero, [(0, 4)], needs_values=True),
    Case(
        "argwhere",
        lambda xp, x: xp.argwhere(x),
        np.argwhere,
        [(3, 4)],
        COMMON,
        (-1, 1),
        needs_values=True,
    ),
    Case(
        "argwhere",
        lambda xp, x: xp.argwhere(x),
        np.argwhere,
        [()],
        COMMON,
        (-1, 1),
        needs_values=True,
    ),
    Case(
        "flatnonzero",
        lambda xp, x: xp.flatnonzero(x),
        np.flatnonzero,
        [(3, 4)],
        COMMON,
        (-1, 1),
        needs_values=True,
    ),
    Case(
        "getitem",
        lambda xp, x: x.__getitem__((slice(1, None), ..., -1)),
        lambda x: x[1:, ..., -1],
        [(3, 4, 2)],
        EVERYTHING,
    ),
    Case(
        "getitem",
        lambda xp, x, i: x.__getitem__((slice(None), i)),
        lambda x, i: x[:, i],
        [(2, 3), INDICES],
    ),
]
