"""Questions about arrays: what they are, where their extremes lie, and which elements to take."""

from __future__ import annotations

import numpy as np

from case_tables.calculus import NAN, same
from cases import COMMON, EVERYTHING, FLOATS, INTEGERS, REAL, Case

MATRIX = (3, 4)
SIGNS = np.array([[0, 0, 0, 0], [0, 1, 0, -2], [0, 0, 3, 0], [0, 0, 0, 0]])
MARKS = np.array([True, False, True])


def plain(name, *args, **kwargs):
    """A function of Python values."""
    return Case(
        name,
        lambda xp: getattr(xp, name)(*args, **kwargs),
        lambda: getattr(np, name)(*args, **kwargs),
        [],
    )


FACTS = [
    *[same(f, [s], exact=True) for f in ("shape", "ndim", "size") for s in (MATRIX, (), (2, 0))],
    *[plain(f, x) for f in ("shape", "ndim", "size") for x in (3.0, [1, 2], [[1], [2]], ((),))],
    *[same("size", [(3, 4, 5)], a) for a in (0, -1, (0, 2), ())],
    *[same(f, dtypes=EVERYTHING) for f in ("iscomplexobj", "isrealobj")],
    *[plain(f, x) for f in ("iscomplexobj", "isrealobj") for x in (1, 1j, [1, 2j])],
    *[plain("isscalar", x) for x in (1, 1.5, 2j, True, "a", [1], (1,), None)],
    same("isscalar", [()]),
    same("array_equiv", [MATRIX, MATRIX], dtypes=COMMON),
    same("array_equiv", [MATRIX, (3, 1)]),
    same("array_equiv", [MATRIX, (3, 2)]),
    same("array_equiv", [np.array([1, 2]), np.array([[1, 2], [1, 2]])]),
    same("array_equiv", [np.array([1, 2]), np.array([[1, 2], [1, 3]])]),
]

EXTREMES = [
    *[
        same(f, [MATRIX], axis=a, keepdims=k, dtypes=EVERYTHING, domain=(-3, 3))
        for f in ("nanargmax", "nanargmin")
        for a, k in ((None, False), (0, True), (-1, False))
    ],
    *[
        same(f, [NAN.astype(d)], a)
        for f in ("nanargmax", "nanargmin")
        for a in (None, -1)
        for d in FLOATS
    ],
]

TAKING = [
    *[
        Case(
            "compress",
            lambda xp, c, x, a=a: xp.compress(c, x, a),
            lambda c, x, a=a: np.compress(c, x, a),
            [MARKS, MATRIX],
            COMMON,
            needs_values=True,
        )
        for a in (None, 0, -1)
    ],
    *[same("compress", [MARKS.astype(d), (5,)], needs_values=True) for d in ("int8", "float32")],
    Case(
        "compress",
        lambda xp, x: xp.compress([True, False, True], x, axis=0),
        lambda x: np.compress([True, False, True], x, axis=0),
        [MATRIX],
        COMMON,
    ),
    same("extract", [SIGNS > 0, (4, 4)], dtypes=COMMON, needs_values=True),
    same("extract", [SIGNS, (4, 4)], needs_values=True),
    *[
        same("trim_zeros", [x], *a, needs_values=True, exact=True)
        for x in (SIGNS, SIGNS.astype(float)[2], SIGNS[0], SIGNS[:, 1:])
        for a in ((), ("f",), ("b",), ("B",), ("fb", -1))
    ],
    *[same("trim_zeros", [SIGNS], axis=a, needs_values=True) for a in (0, (0, 1))],
    *[
        Case(
            "choose",
            lambda xp, i, *c: xp.choose(i, c),
            lambda i, *c: np.choose(i, c),
            [np.array([[2, 0, 1, 1]], d), MATRIX, (4,), (3, 1)],
            COMMON,
        )
        for d in INTEGERS[:-1]
    ],
    *[
        Case(
            "choose",
            lambda xp, i, c, m=m: xp.choose(i, c, mode=m),
            lambda i, c, m=m: np.choose(i, c, mode=m),
            [np.array([7, 0, -1, 1]), MATRIX],
            COMMON,
        )
        for m in ("wrap", "clip")
    ],
    Case(
        "choose",
        lambda xp, i: xp.choose(i, [1, 2.5]),
        lambda i: np.choose(i, [1, 2.5]),
        [np.array([True, False])],
    ),
    Case(
        "choose", lambda xp, i: xp.choose(i, [10]), lambda i: np.choose(i, [10]), [np.zeros(3, int)]
    ),
    *[
        Case(
            "piecewise",
            lambda xp, x: xp.piecewise(x, [x < 0, x >= 1], [-1, lambda v: 2 * v]),
            lambda x: np.piecewise(x, [x < 0, x >= 1], [-1, lambda v: 2 * v]),
            [s],
            ("int32", *FLOATS),
        )
        for s in (MATRIX, (5,), (), (0, 3))
    ],
    Case(
        "piecewise",
        lambda xp, x: xp.piecewise(x, x > 0, [lambda v, k, p=0: v * k + p, 7.5], 3, p=1),
        lambda x: np.piecewise(x, x > 0, [lambda v, k, p=0: v * k + p, 7.5], 3, p=1),
        [(6,)],
        REAL[4:],
    ),
    Case(
        "piecewise",
        lambda xp, x: xp.piecewise(x, [x < 2, x < 0], [1, 2, 3]),
        lambda x: np.piecewise(x, [x < 2, x < 0], [1, 2, 3]),
        [MATRIX],
        FLOATS,
    ),
]

CASES = [*FACTS, *EXTREMES, *TAKING]
