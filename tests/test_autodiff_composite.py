"""Derivatives of functions made of others, and that none of them was forgotten."""

from __future__ import annotations

import importlib
import math
import time

import numpy as np
import pytest

import gradients
import tawny as tw
import tawny.numpy as tnp
import test_autodiff_indexing
import test_autodiff_movement
import test_autodiff_reduction
import test_autodiff_sorting
from gradient_cases import Row, Samples, check, check_single
from tawny.array import wrap
from tawny.methods import PUBLIC_FUNCTIONS
from tawny.node import Variable, toposort

SAMPLES = Samples(4)
apart, complex_, positive, real = SAMPLES.apart, SAMPLES.complex, SAMPLES.positive, SAMPLES.real

RISING = np.array([-1.5, -0.2, 0.4, 1.9])
ANGLES = np.array([0.3, 2.9, -3.0, -0.4, 2.0, -2.2])

SMALL = [
    Row("clip", lambda x, a, b: tnp.clip(x, a, b), [apart(5), np.array(-0.97), np.array(1.03)]),
    Row("clip", lambda x, a: tnp.clip(x, a), [apart(5), np.array(-0.97)]),
    Row("clip", lambda x, b: tnp.clip(x, max=b), [apart(5), np.array(1.03)]),
    Row("clip", tnp.clip, [real(3)]),
    Row("clip_by_norm", lambda x, c: tnp.clip_by_norm(x, c), [real(2, 3), np.array(0.7)]),
    Row("clip_by_norm", lambda x, c: tnp.clip_by_norm(x, c), [real(3), np.array(9.0)]),
    Row("clip_by_norm", lambda x: tnp.clip_by_norm(x, 0.5), [complex_(3)]),
    Row("nan_to_num", lambda x: tnp.nan_to_num(tnp.where(x > 1, math.nan, x), nan=2.5), [real(6)]),
    Row(
        "nan_to_num",
        lambda x, v: tnp.nan_to_num(tnp.where(x > 1, math.inf, x), posinf=v),
        [real(6), np.array(3.0)],
    ),
    Row("nan_to_num", tnp.nan_to_num, [complex_(3)]),
    Row("fabs", tnp.fabs, [real(4)]),
    Row("divmod", lambda x, y: tnp.divmod(x, y), [np.array([4.3, -2.6]), np.array([1.2, 0.9])]),
    Row("modf", tnp.modf, [np.array([1.3, -2.6, 0.4])]),
    Row("float_power", lambda x, y: tnp.float_power(x, y), [positive(3), real(3)]),
    Row("sinc", tnp.sinc, [np.array([0.5, -1.3, 0.031, 0.033, 2.0])]),
    Row("sinc", tnp.sinc, [np.array([0.0, 1e-9, -1e-4, 0.02])]),
    Row("sinc", tnp.sinc, [0.5 * complex_(3)]),
    Row("angle", tnp.angle, [complex_(4)]),
    Row("angle", lambda x: tnp.angle(x) * x, [real(4)]),
    Row("diff", tnp.diff, [real(2, 4)]),
    Row("diff", lambda x: tnp.diff(x, axis=0, n=2), [real(4, 2)]),
    Row("diff", lambda x, a, b: tnp.diff(x, prepend=a, append=b), [real(2, 3), real(2, 1), real()]),
    Row("round", lambda x: tnp.round(x, 1) + x * x, [np.array([1.23, -0.57])]),
    Row("i0", tnp.i0, [np.array([0.3, -1.5, 4.0])]),
    Row("i0", lambda x: tnp.i0(x) / 1e3, [np.array([-9.5, 8.0, 12.0])]),
    Row("ldexp", lambda x: tnp.ldexp(x, np.array([2, -1, 0])), [real(3)]),
]

SERIES = [
    *(
        Row(name, lambda a, v, n=name, m=mode: getattr(tnp, n)(a, v, m), [sample(n), sample(m)])
        for name in ("correlate", "convolve")
        for mode in ("full", "same", "valid")
        for n, m, sample in (
            (5, 3, real),
            (4, 5, real),
            (3, 3, complex_),
            (2, 6, complex_),
            (6, 4, real),
            (1, 1, real),
        )
    ),
    Row("polyval", lambda p, x: tnp.polyval(p, x), [real(4), real(2, 3)]),
    Row("vander", lambda x: tnp.vander(x, 4), [real(3)]),
    Row("vander", lambda x: tnp.vander(x, increasing=True), [np.array([0.0, 1.5, -1.0])]),
    Row("vander", lambda x: tnp.vander(x, 1), [complex_(2)]),
]

CALCULUS = [
    Row(
        "ediff1d",
        lambda x, a, b: tnp.ediff1d(x, to_begin=a, to_end=b),
        [real(2, 2), real(), real(2)],
    ),
    Row("gradient", tnp.gradient, [real(3, 4)]),
    Row(
        "gradient",
        lambda f, d: tnp.gradient(f, d, axis=1, edge_order=2),
        [real(2, 4), np.array(0.7)],
    ),
    Row("gradient", lambda f, x: tnp.gradient(f, x), [real(4), RISING]),
    Row("trapezoid", lambda y: tnp.trapezoid(y, axis=0), [real(3, 2)]),
    Row("trapezoid", lambda y, x: tnp.trapezoid(y, x), [real(2, 4), RISING]),
    Row("trapezoid", lambda y, d: tnp.trapezoid(y, dx=d), [complex_(4), np.array(0.3)]),
    Row("unwrap", tnp.unwrap, [ANGLES]),
    Row("unwrap", lambda x: tnp.unwrap(x, axis=0, period=1.5), [ANGLES.reshape(3, 2)]),
    Row(
        "interp",
        lambda x, xp, fp: tnp.interp(x, xp, fp),
        [np.array([-2.0, -0.7, 0.1, 1.2, 2.5]), RISING, real(4)],
    ),
    Row(
        "interp",
        lambda x, fp, a, b: tnp.interp(x, RISING, fp, a, b),
        [np.array([-2.0, 0.1, 2.5]), complex_(4), complex_(), complex_()],
    ),
    Row(
        "interp",
        lambda x, xp, fp: tnp.interp(x, xp, fp, period=2.7),
        [np.array([[-4.0, 0.1], [1.0, 7.0]]), RISING, real(4)],
    ),
    Row("interp", lambda fp: tnp.interp(0.3, [1.0], fp), [real(1)]),
    Row("polyfit", lambda x, y: tnp.polyfit(x, y, 2), [np.linspace(-1, 2, 6), real(6)]),
    Row(
        "polyfit",
        lambda y, w: tnp.polyfit(np.linspace(-1, 2, 6), y, 1, w=w),
        [real(6, 2), positive(6)],
    ),
    Row("cov", tnp.cov, [real(2, 4)]),
    Row("cov", lambda x, y: tnp.cov(x, y, rowvar=False, bias=True), [real(4, 2), real(4)]),
    Row(
        "cov", lambda x, w: tnp.cov(x, aweights=w, fweights=[1, 2, 1, 3]), [real(2, 4), positive(4)]
    ),
    Row("cov", tnp.cov, [complex_(2, 4)]),
    Row("corrcoef", lambda x: tnp.corrcoef(x), [real(3, 5)]),
]

GRIDS = [
    Row(
        "logspace",
        lambda a, b, c: tnp.logspace(a, b, 4, base=c),
        [np.array(0.1), np.array(0.7), np.array(2.0)],
    ),
    Row("geomspace", lambda a, b: tnp.geomspace(a, b, 4), [np.array(0.5), np.array(3.0)]),
    Row(
        "geomspace",
        lambda a, b: tnp.geomspace(a, b, 3, endpoint=False),
        [np.array(-0.5), np.array(-3.0)],
    ),
    Row("kaiser", lambda b: tnp.kaiser(5, b), [np.array(3.0)]),
    Row(
        "fromfunction",
        lambda a: tnp.fromfunction(lambda i, j: tnp.sin(i * a + j), (2, 3)),
        [real()],
    ),
]

PRODUCTS = [
    Row("cross", lambda a, b: tnp.cross(a, b), [real(2, 3), real(3)]),
    Row("kron", lambda a, b: tnp.kron(a, b), [real(2, 2), real(3)]),
]


def changed(change):
    """A function that changes a copy of its first argument, as one that gives it."""

    def function(x, *others):
        array = tnp.copy(x)
        change(array, *others)
        return array

    return function


MASK = np.array([[True, False, True], [False, True, True]])

NUMPYS = [
    Row("sum", lambda x, a: tnp.sum(x, 0, None, None, True, a, MASK), [real(2, 3), real()]),
    Row("prod", lambda x, a: tnp.prod(x, 1, initial=a, where=MASK), [real(2, 3), real()]),
    Row("mean", lambda x: tnp.mean(x, 1, where=MASK), [real(2, 3)]),
    Row("var", lambda x: tnp.var(x, where=MASK, ddof=1), [real(2, 3)]),
    Row("std", lambda x, m: tnp.std(x, 1, mean=m), [real(2, 3), real(2, 1)]),
    Row("max", lambda x: tnp.max(x, 0, None, False, -9.0, MASK), [apart(2, 3)]),
    Row("add", lambda x, y: tnp.add(x, y, out=tnp.zeros((2, 3)), where=MASK), [real(2, 3), real(2, 3)]),
    Row("linspace", lambda a, b: tnp.linspace(a, b, 4, axis=1), [real(3), real(3)]),
    Row("logspace", lambda a, b: tnp.logspace(a, b, 3, base=2.0), [real(3), real(3)]),
    Row("geomspace", lambda a, b: tnp.geomspace(a, b, 4), [positive(2), positive(2)]),
    Row("take", lambda x: tnp.take(x, [5, -7], 1, None, "wrap"), [real(2, 3)]),
    Row("quantile", lambda x: tnp.quantile(x, [0.2, 0.6], 1, method="hazen"), [apart(2, 5)]),
    Row("quantile", lambda x: tnp.quantile(x, 0.6, 0, method="nearest"), [apart(5, 2)]),
    Row("pad", lambda x: tnp.pad(x, 2, "mean"), [real(2, 3)]),
    Row("pad", lambda x: tnp.pad(x, (1, 3), "reflect", reflect_type="odd"), [real(4)]),
    Row("pad", lambda x: tnp.pad(x, 2, "linear_ramp", end_values=1.0), [real(2, 3)]),
    Row("pad", lambda x: tnp.pad(x, 1, "median"), [apart(2, 3)]),
    Row("pad", lambda x, c: tnp.pad(x, 1, constant_values=c), [real(2, 3), real()]),
    Row("frexp", lambda x: tnp.frexp(x)[0], [np.array([0.7, -3.3, 5.1, 12.0])]),
    Row("poly", tnp.poly, [real(3)]),
    Row("poly", tnp.poly, [np.array([[1.0, 0.3], [0.2, -2.0]])]),
    Row("polyadd", tnp.polyadd, [real(3), real(2)]),
    Row("polysub", tnp.polysub, [real(2), real(3)]),
    Row("polymul", tnp.polymul, [real(3), real(2)]),
    Row("polydiv", tnp.polydiv, [real(4), positive(2)]),
    Row("polyder", lambda p: tnp.polyder(p, 2), [real(4)]),
    Row("polyint", lambda p, k: tnp.polyint(p, 1, k), [real(3), real(1)]),
    Row("roots", lambda p: tnp.roots(p), [np.array([1.0, 0.5, -4.0])]),
    Row("histogramdd", lambda w: tnp.histogramdd([[0.1, 0.9], [0.2, 0.8]], 2, weights=w)[0], [real(2)]),
    Row("histogram2d", lambda w: tnp.histogram2d([0.1, 0.9], [0.2, 0.8], 2, weights=w)[0], [real(2)]),
    Row("sort_complex", lambda x: tnp.real(tnp.sort_complex(x)), [apart(4)]),
    Row("real_if_close", lambda x: tnp.real_if_close(x), [complex_(3)]),
    Row("apply_over_axes", lambda x: tnp.apply_over_axes(tnp.sum, x, [0, 1]), [real(2, 3)]),
    Row("asanyarray", lambda x: tnp.asanyarray(x) * x, [real(3)]),
    Row("ascontiguousarray", lambda x: tnp.ascontiguousarray(x) * x, [real()]),
    Row("put", changed(lambda x, v: tnp.put(x, [1, 4], v)), [real(2, 3), real(2)]),
    Row(
        "put_along_axis",
        changed(lambda x, v: tnp.put_along_axis(x, np.array([[1], [0]]), v, 1)),
        [real(2, 3), real(2, 1)],
    ),
    Row("fill_diagonal", changed(tnp.fill_diagonal), [real(3, 3), real(3)]),
    Row("place", changed(lambda x, v: tnp.place(x, MASK, v)), [real(2, 3), real(2)]),
    Row("putmask", changed(lambda x, v: tnp.putmask(x, MASK, v)), [real(2, 3), real(2)]),
    Row("copyto", changed(lambda x, v: tnp.copyto(x, v, where=MASK)), [real(2, 3), real(3)]),
]  # fmt: skip

TABLE = [*SMALL, *SERIES, *CALCULUS, *GRIDS, *PRODUCTS, *NUMPYS]


@pytest.mark.parametrize("row", TABLE, ids=repr)
def test_slopes_agree_with_differences(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("row", [*SMALL[:4], *SERIES[::3], *CALCULUS[:6]], ids=repr)
def test_slopes_of_single_precision(row: Row) -> None:
    check_single(row)


# ----------------------------------------------------------------------- edges


def slope(function: object, x: float) -> float:
    return float(tw.grad(function)(np.array(x)))


def test_the_sinc_function_at_zero() -> None:
    curvature = lambda x: tw.grad(tw.grad(tnp.sinc))(x)  # noqa: E731
    assert slope(tnp.sinc, 0.0) == 0
    assert float(curvature(np.array(0.0))) == pytest.approx(-(math.pi**2) / 3)
    assert float(curvature(np.array(1e-9))) == pytest.approx(-(math.pi**2) / 3)
    assert slope(tnp.sinc, 1e-9) == pytest.approx(-(math.pi**2) / 3 * 1e-9)


def test_the_bessel_function_at_zero_and_where_its_series_meet() -> None:
    assert slope(tnp.i0, 0.0) == pytest.approx(0, abs=1e-12)
    assert slope(tw.grad(tnp.i0), 0.0) == pytest.approx(0.5, rel=1e-10)
    assert slope(tnp.i0, 8.0) == pytest.approx(399.873136782560, rel=1e-12)  # I1(8)
    assert slope(tnp.i0, -8.0) == pytest.approx(-399.873136782560, rel=1e-12)


def test_interpolation_at_the_points_has_the_slope_behind_them() -> None:
    heights = np.array([0.0, 2.0, 1.0])
    f = lambda x: tnp.interp(x, [0.0, 1.0, 2.0], heights)  # noqa: E731
    assert [slope(f, x) for x in (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5)] == [0, 2, 2, -1, -1, -1, 0]
    np.testing.assert_array_equal(f(np.array([0.0, 1.0, 2.0])), heights)


def test_interpolation_beside_infinite_heights() -> None:
    slopes = tw.grad(
        lambda x: tnp.sum(tnp.interp(x, [0.0, 1.0, 2.0, 3.0], [1.0, 3.0, math.inf, math.inf])[:1])
    )
    np.testing.assert_array_equal(slopes(np.array([0.5, 1.0, 2.5])), [2, 0, 0])


def test_a_real_angle_has_no_slope() -> None:
    np.testing.assert_array_equal(
        tw.grad(lambda x: tnp.sum(tnp.angle(x)))(np.array([0.0, -1.0, 2.0])), np.zeros(3)
    )


def test_numbers_taken_as_constants_are_so() -> None:
    """Bounds that decide a length have no slope; the numbers between them have."""
    slopes = tw.grad(lambda a, b: tnp.sum(tnp.arange(a, b)), (0, 1))(np.array(0.5), np.array(3.2))
    assert [float(s) for s in slopes] == [3, 0]


def test_user_functions_are_refused_by_name() -> None:
    calls = {
        "delay": lambda x: tnp.delay(np.sin, x),
        "map_elements": lambda x: tnp.map_elements(math.sin, x),
        "fold": lambda x: tnp.fold(lambda a, b: a + b, x),
        "scan": lambda x: tnp.scan(lambda a, b: a + b, x),
    }
    for name, call in calls.items():
        for derive in (
            lambda f: tw.grad(lambda x: tnp.sum(f(x)))(np.ones(2)),
            lambda f: tw.jvp(f, (np.ones(2),), (np.ones(2),)),
        ):
            with pytest.raises(
                ValueError, match=f"grad: {name} has no derivative; .*stop_gradient"
            ):
                derive(call)
        stopped = tw.grad(lambda x, f=call: tnp.sum(x * f(tw.stop_gradient(x))))
        assert np.isfinite(stopped(np.ones(2))).all()


# --------------------------------------------------------------- a long network


def test_the_gradient_of_a_long_recurrent_network_is_right() -> None:
    loss, weights = gradients.lstm(steps=4, dtype="float64")
    slopes = tw.gradients(loss, weights)
    variables = [wrap(n) for n in toposort([loss.node]) if isinstance(n.op, Variable)]
    program = tw.Graph(variables, [loss, slopes]).compile(engine="reference")
    rng = np.random.default_rng(3)
    values = {v.name: 0.4 * rng.normal(size=v.shape) for v in variables}
    directions = [rng.normal(size=w.shape) for w in weights]
    _, got = program(**values)
    expected = sum(float(np.sum(s * d)) for s, d in zip(got, directions, strict=True))
    ends = []
    for step in (1e-6, -1e-6):
        moved = {
            w.name: values[w.name] + step * d for w, d in zip(weights, directions, strict=True)
        }
        ends.append(float(program(**(values | moved))[0]))
    assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(expected, rel=1e-6)


def test_the_gradient_of_a_long_recurrent_network_is_small_and_quick() -> None:
    """A hundred steps, 15,000 nodes: the build takes a third of the 1.5 seconds allowed here."""
    loss, weights = gradients.lstm()
    nodes = len(toposort([loss.node]))
    assert nodes > 15_000
    start = time.process_time()
    slopes = tw.gradients(loss, weights)
    assert time.process_time() - start < gradients.BOUND
    assert len(toposort([loss.node, *(s.node for s in slopes)])) <= gradients.GROWTH * nodes


# ---------------------------------------------------------------- completeness

CHAPTERS = [
    *"ops.assignment ops.creation ops.cumulative ops.delay ops.diagonal ops.joining".split(),
    *"ops.movement ops.reduction ops.selection ops.series ops.sorting".split(),
    *"numpy.arrangement numpy.calculus numpy.composite".split(),
    *"numpy.digits numpy.grids numpy.histograms numpy.missing numpy.mutation numpy.padding".split(),
    *"numpy.polynomials numpy.queries numpy.sets numpy.statistics numpy.windows".split(),
]

STILL = {
    "argmax argmin argpartition argsort argwhere array_equal array_equiv all allclose any count_nonzero digitize "
    "flatnonzero isclose iscomplex iscomplexobj isin isneginf isposinf isreal isrealobj isscalar lexsort nanargmax "
    "nanargmin ndim nonzero searchsorted shape size": "places, counts and answers",
    "bitwise_count gcd ix_ lcm one_hot packbits ravel_multi_index unpackbits unravel_index": "functions of integers",
    "iterable mask_indices": "answers and places",
    "bartlett blackman broadcast_shapes diag_indices diag_indices_from tril_indices_from triu_indices_from empty empty_like eye hamming hanning identity indices ones "
    "ones_like tri tril_indices triu_indices zeros zeros_like": "what depends on shapes alone",
    "delay fold map_elements scan spacing": "refused",
    "at convert from_dlpack setitem getitem": "written otherwise",
    "intersect1d": "tested by itself",
}


def test_every_public_function_was_checked() -> None:
    tables = (
        test_autodiff_indexing,
        test_autodiff_movement,
        test_autodiff_reduction,
        test_autodiff_sorting,
    )
    checked = {r.name for table in tables for r in table.TABLE} | {r.name for r in TABLE}
    known = checked | {name for names in STILL for name in names.split()}
    missing = [
        f"{chapter}.{name}"
        for chapter in CHAPTERS
        for name, function in vars(importlib.import_module(f"tawny.{chapter}")).items()
        if PUBLIC_FUNCTIONS.get(name) is function
        and function.__module__ == f"tawny.{chapter}"
        and name not in known
    ]
    assert missing == []
