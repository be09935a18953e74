"""User functions against NumPy's own loops."""

from __future__ import annotations

import io

import numpy as np

from cases import COMMON, EVERYTHING, Case

SHAPES = ((), (5,), (3, 4), (2, 0, 3), (2, 3, 4))


def greater(a, b):
    return max(a, b)


CASES = [
    *(
        Case(
            "delay", lambda xp, x: xp.delay(np.negative, x), np.negative, [s], ("int32", "float64")
        )
        for s in SHAPES
    ),
    Case(
        "delay",
        lambda xp, x, y: xp.delay(np.matmul, x, y, shape=(3, 2)),
        np.matmul,
        [(3, 4), (4, 2)],
        COMMON[1:],
    ),
    *(
        Case(
            "map_elements",
            lambda xp, x: xp.map_elements(lambda v: v, x),
            lambda x: x,
            [s],
            EVERYTHING,
        )
        for s in SHAPES
    ),
    Case(
        "map_elements",
        lambda xp, x: xp.map_elements(lambda v: v > 0, x, dtype=bool),
        lambda x: x > 0,
        dtypes=("int8", "float32"),
    ),
    *(
        Case(
            "fold",
            lambda xp, x, a=axis: xp.fold(greater, x, axis=a),
            lambda x, a=axis: np.max(x, axis=a),
            [(2, 3, 4)],
            ("bool", "int8", "uint64", "float32"),
        )
        for axis in (None, 0, 1, -1)
    ),
    *(
        Case(
            "fold",
            lambda xp, x, a=axis: xp.fold(lambda s, v: 2 * s + v, x, a, 1.0, dtype="float64"),
            lambda x, a=axis: np.apply_along_axis(
                lambda line: np.polyval([1, *line], 2.0),
                0 if a is None else a,
                x.ravel() if a is None else x,
            ),
            [(2, 3)],
            ("int32", "float64"),
            exact=False,
        )
        for axis in (None, 0, 1)
    ),
    Case(
        "fold",
        lambda xp, x, start: xp.fold(max, x, 1, start),
        lambda x, start: np.maximum(np.max(x, axis=1), start),
        [(3, 4), (3,)],
    ),
    Case("fold", lambda xp, x: xp.fold(max, x, 0, 2.5), lambda x: np.full(3, 2.5), [(0, 3)]),
    *(
        Case(
            "scan",
            lambda xp, x, a=axis: xp.scan(greater, x, a),
            lambda x, a=axis: (
                np.maximum.accumulate(x, axis=a)
                if a is not None
                else np.maximum.accumulate(x.ravel()).reshape(x.shape)
            ),
            [(2, 3, 4)],
            ("int8", "float32"),
        )
        for axis in (None, 0, 1, -1)
    ),
    Case("scan", lambda xp, x: xp.scan(max, x, 1), lambda x: x, [(2, 0)]),
    *(
        Case(
            "lazy_print",
            lambda xp, x: xp.lazy_print(x, file=io.StringIO()),
            lambda x: x,
            [s],
            COMMON,
        )
        for s in SHAPES
    ),
    Case(
        "lazy_print",
        lambda xp, x: xp.lazy_print(x, max_rows=3, max_columns=2, file=io.StringIO()),
        lambda x: x,
        [(2, 5, 4)],
    ),
]
