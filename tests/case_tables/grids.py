"""Grids: spaced numbers, index arrays, and functions sampled on them."""

from __future__ import annotations

import numpy as np

from cases import FLOATS, Case


def made(name, *args, exact=True, **kwargs):
    """A function of plain numbers, called as NumPy's is."""
    return Case(
        name,
        lambda xp: getattr(xp, name)(*args, **kwargs),
        lambda: getattr(np, name)(*args, **kwargs),
        [],
        exact=exact,
    )


def ends(name, *args, dtypes=FLOATS, **kwargs):
    """A sequence between ends that are arrays."""
    return Case(
        name,
        lambda xp, a, b: getattr(xp, name)(a, b, *args, **kwargs),
        lambda a, b: getattr(np, name)(a, b, *args, **kwargs),
        [(), ()],
        dtypes,
        domain=(1, 8),
        exact=False,
    )


SPACED = [
    made("logspace", 0, 3, exact=False),
    made("logspace", 0, 3, 4, False, 2.0, exact=False),
    made("logspace", 0, 3, 4, dtype="int32"),
    *[made("logspace", 1, 2, n, dtype="float32", exact=False) for n in (0, 1)],
    made("logspace", 1j, 2, 5, exact=False),
    ends("logspace", 6),
    *[made("geomspace", *e, 7, exact=False) for e in ((1, 1000), (256, 2), (-1000, -1))],
    made("geomspace", 1, 256, 9, endpoint=False, exact=False),
    made("geomspace", 1, 256, 9, dtype=int),
    *[made("geomspace", 3, 7, n, exact=False) for n in (0, 1, 2)],
    made("geomspace", 1j, 1000j, 4, exact=False),
    made("geomspace", -1 + 0j, 1 + 0j, 5, exact=False),
    ends("geomspace", 6),
]

INDEX = [
    *[made("indices", s) for s in ((2, 3), (4,), (2, 0, 3), ())],
    made("indices", (2, 3), "float32"),
    made("indices", (2, 3), sparse=True),
    made("tril_indices", 4),
    *[
        made(f, 3, k, m)
        for f in ("tril_indices", "triu_indices")
        for k in (-1, 0, 2)
        for m in (None, 5, 2)
    ],
    made("tril_indices", 0),
    made("diag_indices", 4),
    made("diag_indices", 3, 3),
    made("fromfunction", lambda i, j: i + 2 * j, (3, 4)),
    made("fromfunction", lambda i, j, k: i * k + j, (3, 4), dtype=int, k=5),
    made("ix_", [0, 2], [1, 3, 4], [0]),
    made("ix_", [], [1]),
    Case(
        "ix_",
        lambda xp, i, j: xp.ix_(i, j),
        np.ix_,
        [np.array([2, 0], "int16"), np.array([1, 1, 0])],
    ),
    Case(
        "ix_",
        lambda xp, i, j: xp.ix_(i, j),
        np.ix_,
        [np.array([True, False, True]), np.array([1, 0])],
        needs_values=True,
    ),
    *[
        Case(
            "unravel_index",
            lambda xp, i, s=s, o=o: xp.unravel_index(i, s, o),
            lambda i, s=s, o=o: np.unravel_index(i, s, o),
            [x],
        )
        for o in "CF"
        for s in ((3, 4, 5), (60,), (4, 15))
        for x in (
            np.array([[0, 59, 17], [3, 20, 41]]),
            np.array(7),
            np.array([5, 6], "uint8"),
            np.zeros((0,), int),
        )
    ],
    made("unravel_index", 22, (7, 6)),
    made("unravel_index", [22, 41], (7, 6), order="F"),
    *[
        Case(
            "ravel_multi_index",
            lambda xp, i, j, o=o, m=m: xp.ravel_multi_index((i, j), (4, 5), m, o),
            lambda i, j, o=o, m=m: np.ravel_multi_index((i, j), (4, 5), m, o),
            [x, y],
        )
        for o in "CF"
        for m, x, y in (
            ("raise", np.array([3, 0, 1]), np.array([4, 2, 0])),
            ("raise", np.array([[3], [1]], "uint8"), np.array([4, 2, 0])),
            ("wrap", np.array([7, -1, 1]), np.array([4, 2, 9])),
            (("clip", "wrap"), np.array([7, -1, 1]), np.array([4, 2, 9])),
        )
    ],
    Case(
        "ravel_multi_index",
        lambda xp, x: xp.ravel_multi_index(x, (4, 5)),
        lambda x: np.ravel_multi_index(x, (4, 5)),
        [np.array([[3, 1], [0, 4]])],
    ),
    made("ravel_multi_index", (3, 1), (4, 5)),
]

WINDOWS = [
    *[
        made(f, n, exact=False)
        for f in ("hanning", "hamming", "blackman", "bartlett")
        for n in (0, 1, 2, 5, 12)
    ],
    *[made("kaiser", n, b, exact=False) for n in (0, 1, 2, 11) for b in (0, 5, 14.0, 40.0)],
    Case(
        "kaiser",
        lambda xp, b: xp.kaiser(6, b),
        lambda b: np.kaiser(6, b),
        [np.array(8.6)],
        exact=False,
    ),
]

CASES = [*SPACED, *INDEX, *WINDOWS]
