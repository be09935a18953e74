"""Methods of NumPy's ufuncs: `np.add.reduce` and its kin, lazy and eager, against NumPy's own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.eager
import tawny.numpy as tnp
from tawny.numpy.ufunc_methods import ASSOCIATIVE, METHODS, ufuncs

VALUES = {
    "floats": np.arange(1.0, 13.0).reshape(3, 4) / 3,
    "integers": np.arange(12).reshape(3, 4) - 4,
    "narrow": np.array([[1, 2, 3], [4, 5, 60]], "uint8"),
    "truths": np.array([[True, False, True], [True, True, True]]),
    "special": np.array([[1.0, np.nan, -0.0], [-np.inf, 2.0, 0.0]]),
    "nothing": np.zeros((0, 3)),
}

CALLS = {
    "reduce": [{}, {"axis": 1}, {"axis": -1, "keepdims": True}, {"initial": 2}],
    "accumulate": [{}, {"axis": 1}],
}


def called(function: Any, *args: Any, **options: Any) -> Any:
    """What a call gives, or the kind of its error."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(*args, **options))
    except (TypeError, ValueError) as error:
        return type(error)


def check(got: Any, want: Any, label: object) -> None:
    if isinstance(want, type):
        assert isinstance(got, type), label
        assert issubclass(got, want) or issubclass(want, got), label
        return
    assert not isinstance(got, type), (label, got)
    assert (got.shape, got.dtype) == (want.shape, want.dtype), label
    tolerance = 1e-2 if want.dtype == np.float16 else 1e-12
    np.testing.assert_allclose(got, want, rtol=tolerance, err_msg=str(label))


@pytest.mark.parametrize("name", sorted(ASSOCIATIVE))
def test_reductions_and_partial_results_are_numpys(name: str) -> None:
    theirs, lazy, eager = (getattr(module, name) for module in (np, tnp, tawny.eager))
    for key, value in VALUES.items():
        for method, calls in CALLS.items():
            for options in calls:
                want = called(getattr(theirs, method), value, **options)
                for own in (lazy, eager):
                    got = called(getattr(own, method), value, **options)
                    check(got, want, (key, method, options))
        check(called(lazy.outer, value, value), called(theirs.outer, value, value), (key, "outer"))


def test_methods_are_compiled(engine: str) -> None:
    x = tw.var("x", (3, 4))
    results = [tnp.maximum.reduce([x, x * x, x + 1])]
    for name in ("maximum", "fmax", "hypot", "logaddexp"):
        ufunc = getattr(tnp, name)
        results += [ufunc.reduce(x), ufunc.accumulate(x, 1), getattr(np, name).reduce(x, axis=1)]
    value = VALUES["floats"]
    got = tw.Graph([x], results).compile(engine=engine)(value)
    wanted = [np.maximum.reduce([value, value * value, value + 1])]
    for name in ("maximum", "fmax", "hypot", "logaddexp"):
        ufunc = getattr(np, name)
        wanted += [ufunc.reduce(value), ufunc.accumulate(value, 1), ufunc.reduce(value, axis=1)]
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_options() -> None:
    value = VALUES["floats"]
    mask = value > 1
    for name in ("add", "hypot", "logaddexp", "logical_or"):
        ours, theirs = getattr(tnp, name), getattr(np, name)
        got = ours.reduce(value, None, where=mask).numpy()
        np.testing.assert_allclose(got, theirs.reduce(value, None, where=mask))
    into = tnp.zeros(4)
    tnp.hypot.reduce(value, out=into)
    np.testing.assert_allclose(into.numpy(), np.hypot.reduce(value))
    assert tnp.add.reduce(VALUES["narrow"], 0, "float32").dtype == np.float32
    slope = tw.grad(tnp.logaddexp.reduce)(np.arange(3.0)).numpy()
    np.testing.assert_allclose(slope, np.exp(np.arange(3.0)) / np.exp(np.arange(3.0)).sum())


def test_places_that_occur_twice_are_updated_twice() -> None:
    for name in ("add", "multiply", "maximum", "minimum"):
        lazy, plain, own = tnp.asarray(np.arange(4.0)), np.arange(4.0), np.arange(4.0)
        at = [0, 0, 3], np.array([2.0, 3.0, -1.0])
        getattr(tnp, name).at(lazy, *at)
        getattr(np, name).at(plain, *at)
        getattr(tawny.eager, name).at(own, *at)
        np.testing.assert_array_equal(lazy.numpy(), plain)
        np.testing.assert_array_equal(own, plain)


def test_every_ufunc_of_two_operands_has_every_method_or_says_the_way_out() -> None:
    names = {ufunc.name for ufunc in ufuncs()}
    assert {"add", "subtract", "power", "left_shift", "fmod", "greater"} < names | {"left_shift"}
    for ufunc in ufuncs():
        for method in METHODS:
            assert callable(getattr(getattr(tnp, ufunc.name), method))
            assert callable(getattr(getattr(tawny.eager, ufunc.name), method))
    for call, message in (
        (lambda: tnp.subtract.reduce([1, 2]), r"subtract\.reduce: .*tw\.fold"),
        (lambda: tnp.divide.accumulate([1, 2]), r"divide\.accumulate: .*tw\.scan"),
        (lambda: tnp.add.reduceat([1, 2], [0]), r"add\.reduceat: .*np\.split"),
        (lambda: tnp.add.at(np.zeros(3), [0], 1), r"add\.at: operand 0 is ndarray"),
        (lambda: tnp.divide.at(tnp.zeros(3), [0], 1), r"divide\.at: .*x\.at\[index\]\.set"),
        (lambda: tnp.add.reduce([1], nothing=1), "add.reduce: unknown argument 'nothing'"),
    ):
        with pytest.raises(TypeError, match=message), warnings.catch_warnings():
            call()
    with pytest.raises(ValueError, match=r"fmax\.reduce: axis 0 has no element"):
        tnp.fmax.reduce(np.zeros((0, 3)))
