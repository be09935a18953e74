"""Derivatives of reductions and running folds; ties, zeros and infinities."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from gradient_cases import Row, Samples, check, check_single
from tawny.testing import check_grads

SAMPLES = Samples(2)
apart, complex_, positive, real = SAMPLES.apart, SAMPLES.complex, SAMPLES.positive, SAMPLES.real

AXES = [
    (None, (2, 3), False),
    (0, (3, 4), False),
    (-1, (3, 4), True),
    ((0, 2), (2, 3, 2), False),
    ((2, 0), (2, 3, 2), True),
    ((), (2, 3), False),
    (0, (1, 3), False),
    (None, (), False),
]
FILLED = ("sum", "prod", "mean", "var", "std", "logsumexp", "max", "min", "ptp")


def over_axes(name: str, sample: object) -> list[Row]:
    function = getattr(tnp, name)
    return [
        Row(name, lambda x, a=axis, k=keep: function(x, axis=a, keepdims=k), [sample(*shape)])
        for axis, shape, keep in AXES
        if name != "std" or (np.prod(shape) > 1 and axis != () and shape != (1, 3))
    ]


REDUCTIONS = [
    *(
        row
        for name in ("sum", "prod", "mean", "var", "std", "logsumexp")
        for row in over_axes(name, real)
    ),
    *(row for name in ("max", "min", "ptp") for row in over_axes(name, apart)),
    *(
        Row(name, getattr(tnp, name), [complex_(2, 3)])
        for name in ("sum", "prod", "mean", "var", "std")
    ),
    *(
        Row(name, lambda x, n=name: getattr(tnp, n)(x.T[::2], axis=0), [real(3, 4)])
        for name in ("sum", "prod", "var")
    ),
    *(
        Row(name, lambda x, n=name: getattr(tnp, n)(x, axis=0), [real(0, 3)])
        for name in ("sum", "prod")
    ),
    *(Row(name, lambda x, n=name: getattr(tnp, n)(x, axis=1), [real(0, 3)]) for name in FILLED),
    Row("sum", lambda x: tnp.sum(x, axis=0, dtype="complex128") * 1j, [real(3, 2)]),
    Row("var", lambda x: tnp.var(x, axis=1, correction=1), [real(2, 4)]),
    Row("var", lambda x: tnp.var(x, axis=0, correction=0.5), [complex_(3, 2)]),
    Row("std", lambda x: tnp.std(x, axis=0, ddof=1), [complex_(3, 2)]),
    Row("average", lambda x: tnp.average(x, axis=0), [real(3, 2)]),
    Row(
        "average",
        lambda x, w: tnp.average(x, axis=1, weights=w, returned=True),
        [real(2, 3), positive(3)],
    ),
    Row("average", lambda x, w: tnp.average(x, weights=w), [complex_(2, 3), positive(2, 3)]),
    Row("softmax", lambda x: tnp.softmax(x, axis=0), [real(3, 4)]),
    Row("softmax", tnp.softmax, [np.array([1.0, 1.0, 0.5])]),
    Row("log_softmax", tnp.log_softmax, [real(3, 4)]),
]

RUNNING = [
    *(
        Row(
            name,
            lambda x, n=name, a=axis, i=initial: getattr(tnp, n)(x, axis=a, include_initial=i),
            [real(*shape)],
        )
        for name in ("cumulative_sum", "cumulative_prod")
        for axis, shape in ((0, (5,)), (1, (2, 6)), (0, (3, 2)), (0, (1,)), (0, (0,)), (1, (0, 3)))
        for initial in (False, True)
    ),
    *(
        Row(name, lambda x, n=name: getattr(tnp, n)(x, axis=0), [complex_(4, 2)])
        for name in ("cumulative_sum", "cumulative_prod")
    ),
    *(
        Row("cumulative_prod", lambda x: tnp.cumulative_prod(x), [real(n)])
        for n in (2, 3, 4, 7, 8, 9)
    ),
    Row("cumsum", tnp.cumsum, [real(2, 3)]),
    Row("cumprod", tnp.cumprod, [real(2, 3)]),
]

HOLED = np.array([[1.5, math.nan, -0.7, 2.0], [0.4, 1.1, math.nan, math.nan]])


def holed(name: str, **options: object) -> Row:
    """A function that ignores NaN, of numbers put beside some that are there already."""
    return Row(
        name,
        lambda x: getattr(tnp, name)(tnp.where(np.isnan(HOLED), HOLED, x), **options),
        [np.array([[0.5, 1.0, -1.2, 2.0], [0.9, -1.4, 1.0, 1.0]])],
    )


IGNORING_NAN = [
    *(
        holed(name, **options)
        for name in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin")
        for options in ({}, {"axis": 0}, {"axis": 1, "keepdims": True})
        if not (name == "nanstd" and options.get("axis") == 0)
    ),
    holed("nanvar", axis=1, ddof=1),
    holed("nancumsum", axis=1),
    holed("nancumprod", axis=1),
    holed("nancumprod"),
]

TABLE = [*REDUCTIONS, *RUNNING, *IGNORING_NAN]


@pytest.mark.parametrize("row", TABLE, ids=repr)
def test_slopes_agree_with_differences(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("row", [*REDUCTIONS[::3], *RUNNING[::3]], ids=repr)
def test_slopes_of_single_precision(row: Row) -> None:
    check_single(row)


def slope(function: object, *x: float) -> np.ndarray:
    return tw.grad(function)(np.array(x)).numpy()


# ----------------------------------------------------------------------- zeros


@pytest.mark.parametrize("zeros", [(2,), (0, 3), (0, 1, 4), range(5)])
def test_zeros_in_products(zeros: object) -> None:
    x = np.array([1.5, -0.5, 2.0, 3.0, 0.7])
    x[list(zeros)] = 0
    check_grads(tnp.prod, [x])
    check_grads(tnp.cumprod, [x])
    check_grads(lambda x: tnp.prod(x, axis=(0, 2)), [np.stack([x, x + 1]).reshape(2, 5, 1)])
    np.testing.assert_allclose(tw.grad(tnp.prod)(x), [np.prod(np.delete(x, i)) for i in range(5)])


def test_the_second_derivative_of_a_product_with_two_zeros() -> None:
    x = np.array([0.0, 3.0, 0.0, 5.0])
    for function in (tnp.prod, lambda x: tnp.cumprod(x)[-1]):
        mixed = tw.grad(lambda x, f=function: tw.grad(f)(x)[0])(x)
        np.testing.assert_array_equal(mixed, [0, 0, 15, 0])


def test_a_product_of_one_or_no_element() -> None:
    np.testing.assert_array_equal(slope(tnp.prod, 0.0), [1.0])
    assert tw.grad(tnp.prod)(np.zeros((0, 2))).shape == (0, 2)


# ------------------------------------------------------------------------ ties


def test_equal_extremes_share_the_slope() -> None:
    np.testing.assert_array_equal(slope(tnp.max, 2.0, 1.0, 2.0, 2.0), np.array([1, 0, 1, 1]) / 3)
    np.testing.assert_array_equal(slope(tnp.min, 1.0, 1.0, 2.0), [0.5, 0.5, 0])
    np.testing.assert_array_equal(slope(tnp.ptp, 2.0, 2.0), [0, 0])
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    for function in (
        lambda x: tnp.sum(tnp.max(x, axis=1)),
        lambda x: -tnp.sum(tnp.min(-x, axis=1, keepdims=True)),
    ):
        np.testing.assert_allclose(tw.grad(function)(x), [[0, 0.5, 0.5], [1 / 3] * 3])
    tangent = tw.jvp(lambda x: tnp.max(x, axis=1), (x,), (np.arange(6.0).reshape(2, 3),))[1]
    np.testing.assert_allclose(tangent, [1.5, 4.0])


# ------------------------------------------------------- infinities and nothing

INF = math.inf


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ((0.0, -INF), (1, 0)),
        ((-INF, -INF), (0, 0)),
        ((0.0, INF), (0, 1)),
        ((INF, INF), (1, 1)),
        ((-INF, INF, 0.0), (0, 1, 0)),
        ((1e3, 1e3), (0.5, 0.5)),
        ((-1e3, -1e3), (0.5, 0.5)),
        ((1e308, -1e308), (1, 0)),
    ],
)
def test_logsumexp_of_infinities(x: tuple[float, ...], expected: tuple[float, ...]) -> None:
    np.testing.assert_allclose(slope(tnp.logsumexp, *x), expected)
    curvature = tw.jvp(tw.grad(tnp.logsumexp), (np.array(x),), (np.ones(len(x)),))[1]
    assert np.isfinite(curvature).all()


def test_softmax_has_slopes_far_out() -> None:
    x = np.array([1000.0, 1001.0, -1000.0])
    check_grads(lambda x: tnp.softmax(x), [x], atol=1e-6)
    check_grads(lambda x: tnp.log_softmax(x)[:2], [x], atol=1e-6)


def test_deviations_without_spread_have_no_slope() -> None:
    for function in (tnp.std, tnp.nanstd, lambda x: tnp.std(x, ddof=1)):
        np.testing.assert_array_equal(slope(function, 2.0, 2.0, 2.0), [0, 0, 0])
    np.testing.assert_array_equal(slope(tnp.std, 2.0), [0])
    np.testing.assert_array_equal(tw.grad(tnp.std)(np.full(3, 1 + 2j)), np.zeros(3))
    np.testing.assert_array_equal(
        tw.grad(lambda x: tnp.sum(tw.grad(tnp.std)(x)))(np.ones(3)), np.zeros(3)
    )
    rows = np.array([[1.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(
        tw.grad(lambda x: tnp.sum(tnp.std(x, axis=1)))(rows), [[0, 0], [-0.5, 0.5]]
    )


@pytest.mark.parametrize("order", [1, 1.5, 2, 3, INF])
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_norms_at_zero_have_no_slope(order: float, kind: str) -> None:
    """At the origin, beside a vector that is not zero, and in the second derivative."""
    norm = lambda x: tnp.sum(tnp.linalg.vector_norm(x, ord=order, axis=-1))  # noqa: E731
    x = np.array([[0.0, 0.0], [0.6, -0.8]], kind)
    got = tw.grad(norm)(x)
    np.testing.assert_array_equal(got[0], [0, 0])
    assert np.isfinite(got).all()
    if order > 1.5:
        assert np.isfinite(tw.jvp(tw.grad(norm), (x,), (np.ones_like(x),))[1]).all()
    check_grads(
        lambda x: tnp.linalg.vector_norm(x, ord=order), [np.array([0.6, -0.9], kind)], order=1
    )


def test_other_norms_at_zero() -> None:
    for function in (
        tnp.linalg.norm,
        tnp.linalg.matrix_norm,
        lambda x: tnp.linalg.norm(x, "fro"),
        lambda x: tnp.sum(tnp.linalg.norm(x, axis=0)),
        lambda x: tnp.sum(tnp.clip_by_norm(x, 1.0)) - tnp.sum(x),
    ):
        np.testing.assert_array_equal(tw.grad(function)(np.zeros((2, 2))), np.zeros((2, 2)))


@pytest.mark.parametrize("order", [-INF, -2, -1, 0.5, 1, 2, 3, 3.5, INF])
def test_norms_away_from_zero(order: float) -> None:
    check_grads(lambda x: tnp.linalg.vector_norm(x, ord=order, axis=1), [apart(2, 3) + 0.05])


def test_masked_reductions_stay_finite() -> None:
    """What `where` hides has no slope, whatever the reduction makes of it."""
    x = np.array([-1.0, 4.0])
    for reduce in (tnp.sum, tnp.mean, tnp.max, tnp.var, tnp.prod, tnp.logsumexp):
        hidden = lambda x, f=reduce: tnp.where(x[1] > 0, tnp.sum(x), f(tnp.log(x)))  # noqa: E731
        np.testing.assert_array_equal(tw.grad(hidden)(x), [1, 1], err_msg=reduce.__name__)


def test_steps_and_places_have_zero_slopes() -> None:
    x = np.array([0.5, -1.0, 2.0])
    for function in (tnp.argmax, tnp.argmin, tnp.count_nonzero, tnp.all, tnp.any):
        np.testing.assert_array_equal(tw.grad(lambda x, f=function: f(x) * 1.0)(x), np.zeros(3))
