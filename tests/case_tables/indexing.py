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


def naive_update(x, key, value, update=None):
    out = x.copy()
    if update is None:
        out[key] = value
    else:
        update.at(out, key, np.asarray(value).astype(x.dtype))
    return out


CASES = [
    Case(
        "at",
        lambda xp, x: (xp.at(x)[1:, 0].set(2), xp.at(x)[1, 2].get()),
        lambda x: (naive_update(x, np.s_[1:, 0], 2), x[1, 2]),
        [(3, 4)],
        EVERYTHING,
    ),
    Case(
        "at",
        lambda xp, x: [
            getattr(xp.at(x)[[0, 2, 0]], how)(2) for how in ("add", "mul", "min", "max")
        ],
        lambda x: [
            naive_update(x, [0, 2, 0], 2, update)
            for update in (np.add, np.multiply, np.minimum, np.maximum)
        ],
        [(3, 4)],
        ("int32", "float32", "float64", "complex128"),
    ),
    Case(
        "at",
        lambda xp, x, i: xp.at(x)[:, i].add(1.0),
        lambda x, i: naive_update(x, np.s_[:, i], 1.0, np.add),
        [(2, 3), np.array([2, 2, 0])],
    ),
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
