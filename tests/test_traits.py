"""What the traits of the elementwise table say is so, on numbers at the ends of every dtype."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from tawny import dtype as dt
from tawny.engine.reference.elementwise import compute
from tawny.op import ELEMENTWISE, Elementwise, Trait

FLOATS = [0.0, 0.5, 1.0, 3.0, 1e3, "tiny", "max"]
"""Numbers that are not negative; the least normal and the greatest of a dtype among them."""


def numbers(dtype: np.dtype, *, negative: bool) -> np.ndarray:
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([0, 1, 7, info.max, *([info.min, info.min // 2] * negative)], dtype)
    real = dt.real_dtype(dtype)
    info = np.finfo(real)
    given = [getattr(info, x) if isinstance(x, str) else x for x in FLOATS]
    found = np.array(given + [-x for x in given] * negative, real)
    if dtype.kind == "f":
        return found
    return (found[:, None] + 1j * found).reshape(-1).astype(dtype)


def results(op: Elementwise, kinds: str, *, negative: bool) -> Iterator[np.ndarray]:
    """The results on all pairs of such numbers, for each dtype that the op takes."""
    for dtype in dt.DTYPES:
        if dtype.kind not in kinds or (
            dtype.kind == "c" and dt.Category.COMPLEX not in op.info.dtype.accepts
        ):
            continue
        axes = [numbers(dtype, negative=negative)] * (op.info.arity or 0)
        columns = [np.array(c, dtype) for c in zip(*itertools.product(*axes), strict=True)]
        try:
            op.infer_dtype(*[c.dtype for c in columns])
        except TypeError:
            continue
        with np.errstate(all="ignore"):
            yield compute(op, columns)


def with_trait(trait: Trait) -> pytest.MarkDecorator:
    rows = {name: op for name, op in ELEMENTWISE.items() if trait in op.info.traits}
    assert rows
    return pytest.mark.parametrize("op", [*rows.values()], ids=[*rows])


@with_trait(Trait.KEEPS_FINITE)
def test_finite_numbers_stay_finite(op: Elementwise) -> None:
    found = list(results(op, "biufc", negative=True))
    assert found
    assert all(np.isfinite(y).all() for y in found)


@with_trait(Trait.KEEPS_FINITE_REAL)
def test_finite_real_numbers_stay_finite(op: Elementwise) -> None:
    assert all(np.isfinite(y).all() for y in results(op, "biuf", negative=True))


def is_positive(y: np.ndarray) -> bool:
    return bool((np.isnan(y) | ((y >= 0) & ~np.signbit(y))).all())


@with_trait(Trait.NONNEGATIVE)
def test_results_are_not_negative(op: Elementwise) -> None:
    assert all(is_positive(y) for y in results(op, "f", negative=True))


@with_trait(Trait.KEEPS_NONNEGATIVE)
def test_results_of_numbers_that_are_not_negative_are_not_either(op: Elementwise) -> None:
    assert all(is_positive(y) for y in results(op, "f", negative=False))


@with_trait(Trait.CHOOSING)
def test_results_are_among_the_operands(op: Elementwise) -> None:
    for dtype in dt.DTYPES:
        values = numbers(dtype, negative=True)
        pairs = np.meshgrid(values, values)
        assert np.isin(compute(op, pairs), values).all()
