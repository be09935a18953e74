"""Shapes, orders, joining, splitting, padding, diagonals."""

from __future__ import annotations

import numpy as np

from cases import COMMON, EVERYTHING, Case

MATRIX, CUBE, FLAT, NONE, EMPTY = (3, 4), (2, 3, 4), (5,), (), (3, 0, 2)


def same(name, shapes, *args, dtypes=COMMON, **kwargs):
    """A function of arrays called as NumPy's is, with fixed further arguments."""
    witness = getattr(np, name)
    return Case(
        name,
        lambda xp, *x: getattr(xp, name)(*x, *args, **kwargs),
        lambda *x: witness(*x, *args, **kwargs),
        shapes,
        dtypes,
    )


def together(name, shapes, dtypes=COMMON, **kwargs):
    """A function of a list of arrays."""
    witness = getattr(np, name)
    return Case(
        name,
        lambda xp, *x: getattr(xp, name)(list(x), **kwargs),
        lambda *x: witness(list(x), **kwargs),
        shapes,
        dtypes,
    )


def each(name, argument_lists, shape=CUBE, **kwargs):
    return [same(name, [shape], *a, **kwargs) for a in argument_lists]


RAGGED = np.array([2, 0, 3])

VIEWS = [
    *each("broadcast_to", [((5, 3, 4),), ((3, 4),)], MATRIX, dtypes=EVERYTHING),
    *each("broadcast_to", [((2, 0),), (3,)], NONE),
    Case(
        "broadcast_arrays",
        lambda xp, *x: xp.broadcast_arrays(*x),
        np.broadcast_arrays,
        [(3, 1), (4,), ()],
        COMMON,
    ),
    Case(
        "broadcast_shapes",
        lambda xp: xp.broadcast_shapes((3, 1), 4, ()),
        lambda: (3, 4),
        [],
        check_dtype=False,
    ),
    Case("broadcast_shapes", lambda xp: xp.broadcast_shapes(), lambda: (), []),
    *each("reshape", [((4, 6),), ((-1, 2, 2),), (24,), (-1,)], dtypes=EVERYTHING),
    *each("reshape", [((0, 5),), ((-1,),), ((2, -1, 3),)], EMPTY),
    *each("reshape", [((1, 1),), ((),), (-1,)], NONE),
    *[same("reshape", [CUBE], s, order="F") for s in ((4, 6), (-1,), (2, 12))],
    same("reshape", [CUBE], (6, 4), copy=True),
    same("reshape", [CUBE], CUBE, copy=True),
    *[same("ravel", [s], order=o) for s in (CUBE, EMPTY, NONE) for o in "CF"],
    *each("expand_dims", [(0,), (-1,), ((1, -1),), ((0, 3, 4),)]),
    same("expand_dims", [NONE], axis=0),
    same("squeeze", [(1, 3, 1)]),
    *each("squeeze", [(0,), (-1,), ((0, 2),)], (1, 3, 1)),
    *[same(f"atleast_{n}d", [s]) for n in (1, 2, 3) for s in (NONE, FLAT, MATRIX, CUBE)],
    same("atleast_2d", [NONE, FLAT]),
    *each("permute_dims", [((2, 0, 1),), ((0, -1, 1),)], dtypes=EVERYTHING),
    same("permute_dims", [NONE], ()),
    *each("transpose", [(), ((1, 0, 2),), (None,)]),
    same("transpose", [EMPTY], dtypes=EVERYTHING),
    *[same("matrix_transpose", [s]) for s in (MATRIX, CUBE, EMPTY)],
    *each("swapaxes", [(0, 2), (-1, 1), (0, 0)]),
    *each("moveaxis", [(0, -1), ((0, 1), (-1, 0)), ([2], [0])]),
    *[same("rollaxis", [(2, 3, 4, 5)], a, s) for a in (0, 2, -1) for s in (0, 1, 4, -1, -3)],
]

ORDER = [
    *[same("flip", [CUBE], axis=a, dtypes=EVERYTHING) for a in (None, 0, -1, (0, 2))],
    same("flip", [NONE]),
    same("fliplr", [CUBE]),
    same("flipud", [FLAT]),
    *[same("rot90", [CUBE], k, a) for k in (0, 1, 2, -1, 7) for a in ((0, 1), (2, 0))],
    *[
        same("roll", [CUBE], s, axis=a)
        for s, a in ((1, None), (-5, 1), ((1, 2), (0, -1)), (3, (0, 1)), ((1, 1), 2))
    ],
    *[same("roll", [s], 2, dtypes=EVERYTHING) for s in (FLAT, EMPTY, NONE)],
    same("roll", [EMPTY], 2, axis=1),
]

JOINING = [
    *[
        together("concat", [MATRIX, MATRIX, (3, 4)], axis=a, dtypes=EVERYTHING)
        for a in (0, -1, None)
    ],
    together("concat", [(2, 4), (0, 4), (3, 4)]),
    together("concat", [MATRIX]),
    together("concatenate", [MATRIX, (3, 2)], axis=1),
    together("concatenate", [MATRIX, (3, 2)], axis=1, dtype="complex128"),
    Case(
        "concatenate",
        lambda xp, x, y: xp.concatenate((x, y), 1),
        lambda x, y: np.concatenate((x, y), 1),
        [MATRIX, (3, 2)],
    ),
    Case(
        "concat",
        lambda xp, x, y: xp.concat((x, y)),
        lambda x, y: np.concat((x, y)),
        [np.arange(3, dtype="int8"), (2,)],
        COMMON,
    ),
    Case("concat", lambda xp, x: xp.concat(x), np.concat, [CUBE]),
    *[together("stack", [MATRIX, MATRIX], axis=a, dtypes=EVERYTHING) for a in (0, 1, -1)],
    together("stack", [NONE, NONE, NONE]),
    Case(
        "stack",
        lambda xp, x: xp.stack([x, [1, 2, 3]]),
        lambda x: np.stack([x, [1, 2, 3]]),
        [(3,)],
        COMMON,
    ),
    *[
        together("vstack", s)
        for s in ([MATRIX, (2, 4)], [FLAT, FLAT], [NONE, NONE], [(1, 5), FLAT])
    ],
    *[together("hstack", s) for s in ([MATRIX, (3, 2)], [FLAT, (2,)], [NONE, FLAT])],
    *[together("dstack", s) for s in ([MATRIX, MATRIX], [FLAT, FLAT], [CUBE, (2, 3, 1)], [NONE])],
    *[together("column_stack", s) for s in ([FLAT, FLAT], [(5, 2), FLAT], [NONE, NONE])],
    same("append", [MATRIX, (2, 4)], axis=0),
    same("append", [MATRIX, FLAT]),
    *[
        Case(
            "meshgrid",
            lambda xp, *x, o=o: xp.meshgrid(*x, **o),
            lambda *x, o=o: np.meshgrid(*x, **o),
            s,
            COMMON,
        )
        for s in ([(2,), (3,)], [(2,), (3,), (4,)], [(3,)], [(2,), NONE], [(0,), (2,)])
        for o in ({}, {"indexing": "ij"}, {"sparse": True})
    ],
]

SPLITTING = [
    *[same("unstack", [CUBE], axis=a, dtypes=EVERYTHING) for a in (0, 1, -1)],
    *each("split", [(3, 1), ([1, 3], -1), ([0, 5, 2], 2), ((), 0), (2,), ([-1], 2)]),
    *each("array_split", [(3, 2), (5, 1), ([1], 0)]),
    same("hsplit", [CUBE], 3),
    same("hsplit", [FLAT], [2]),
    same("vsplit", [CUBE], 2),
    same("dsplit", [CUBE], [1, 2]),
    *[
        same("delete", [MATRIX], o, a)
        for o, a in ((1, 0), (-1, 1), ([0, 2, 2], 1), (slice(0, 3, 2), 1), (5, None))
    ],
    same("delete", [FLAT], [True, False, True, False, True]),
    same("delete", [FLAT], []),
    *[
        same("insert", [MATRIX], o, v, a)
        for o, v, a in ((1, 7, 0), (-1, [7, 8, 9], 1), ([0, 2, 2], 5, 1), (3, [1, 2], None))
    ],
    Case(
        "insert",
        lambda xp, x, v: xp.insert(x, [0, 4], v, axis=1),
        lambda x, v: np.insert(x, [0, 4], v, axis=1),
        [MATRIX, (3, 2)],
        COMMON,
    ),
    Case(
        "insert",
        lambda xp, x, v: xp.insert(x, 1, v, axis=1),
        lambda x, v: np.insert(x, 1, v, axis=1),
        [MATRIX, (2, 3)],
    ),
    same("insert", [FLAT], slice(0, 4, 2), [1, 2]),
]

REPEATING = [
    *[
        same("tile", [s], r)
        for s in (MATRIX, NONE, EMPTY)
        for r in (2, (2, 3), (2, 1, 3), (0, 1), ())
    ],
    same("tile", [CUBE], (1, 2, 1), dtypes=EVERYTHING),
    *[
        same("repeat", [CUBE], r, axis=a)
        for r, a in ((2, None), (3, 1), (0, -1), ([1, 2, 0], 1), ([2], 0))
    ],
    same("repeat", [NONE], 3),
    Case(
        "repeat",
        lambda xp, x: xp.repeat(x, RAGGED, axis=0),
        lambda x: np.repeat(x, RAGGED, 0),
        [MATRIX],
        EVERYTHING,
    ),
]

PADDING = [
    *[same("pad", [MATRIX], w, dtypes=EVERYTHING) for w in (1, (1, 2))],
    *[
        same("pad", [MATRIX], w)
        for w in (((1, 0), (2, 3)), ((2,), (1,)), {1: 2}, {0: (1, 2), -1: 1}, 0)
    ],
    *[same("pad", [MATRIX], 2, m) for m in ("edge", "reflect", "symmetric", "wrap")],
    *[same("pad", [(3, 2)], ((5, 7), (0, 4)), m) for m in ("edge", "reflect", "symmetric", "wrap")],
    *[same("pad", [(1, 2)], 2, m) for m in ("edge", "reflect", "symmetric", "wrap")],
    *[same("pad", [(0, 2)], ((0, 0), (1, 1)), m) for m in ("edge", "wrap")],
    same("pad", [EMPTY], 1),
    same("pad", [NONE], 1),
    *[
        same("pad", [MATRIX], 1, constant_values=c)
        for c in (5, (1, 2), ((1, 2), (3, 4)), ((1,), (3,)))
    ],
    Case(
        "pad",
        lambda xp, x, c: xp.pad(x, ((1, 2), (0, 1)), constant_values=c),
        lambda x, c: np.pad(x, ((1, 2), (0, 1)), constant_values=c),
        [MATRIX, NONE],
        EVERYTHING,
    ),
    Case(
        "pad",
        lambda xp, x, c: xp.pad(x, 1, constant_values=c),
        lambda x, c: np.pad(x, 1, constant_values=c),
        [MATRIX, (2, 2)],
        COMMON,
    ),
]

DIAGONALS = [
    *[
        same(f, [s], k=k)
        for f in ("tril", "triu")
        for s in (MATRIX, CUBE, EMPTY)
        for k in (0, 1, -2, 9)
    ],
    *[same(f, [FLAT], dtypes=EVERYTHING) for f in ("tril", "triu")],
    *[
        Case("tri", lambda xp, a=a: xp.tri(*a), lambda a=a: np.tri(*a), [])
        for a in ((3,), (3, 5), (4, 2, -1), (0, 3, 1))
    ],
    Case("tri", lambda xp: xp.tri(3, dtype="int32"), lambda: np.tri(3, dtype="int32"), []),
    *[same("diag", [s], k, dtypes=EVERYTHING) for s in (FLAT, MATRIX) for k in (0, 2, -1)],
    same("diag", [(0,)]),
    *[same("diagflat", [s], k) for s in (MATRIX, NONE) for k in (0, 1, -2)],
    *[
        same("diagonal", [CUBE], o, a, b)
        for o, a, b in ((0, 0, 1), (1, 2, 0), (-1, -1, 1), (9, 0, 1))
    ],
    *[same("trace", [CUBE], o, a, b) for o, a, b in ((0, 0, 1), (1, 1, 2), (-5, 0, 1))],
    same("trace", [(4, 4)], dtypes=EVERYTHING),
    same("trace", [(4, 4)], dtype="complex128"),
]

CASES = [*VIEWS, *ORDER, *JOINING, *SPLITTING, *REPEATING, *PADDING, *DIAGONALS]
