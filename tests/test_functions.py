"""Every public function, eager and lazy, against an independent witness."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import case_tables
import tawny.eager
import tawny.numpy
from cases import Case, Failures, assert_same, parts
from tawny.array import Array
from tawny.engine.reference import run
from tawny.ops.creation import var

CASES: list[tuple[str, Case]] = [
    (f"{module.name}-{case.name}", case)
    for module in pkgutil.iter_modules(case_tables.__path__)
    for case in importlib.import_module(f"case_tables.{module.name}").CASES
]


def _eager(case: Case, operands: list[np.ndarray]) -> object:
    return case.call(tawny.eager, *operands)


def _constants(case: Case, operands: list[np.ndarray]) -> object:
    result = case.call(tawny.numpy, *(tawny.numpy.asarray(x) for x in operands))
    return [a.numpy() if isinstance(a, Array) else a for a in parts(result)]


def _variables(case: Case, operands: list[np.ndarray]) -> object:
    inputs = [var(shape=x.shape, dtype=x.dtype) for x in operands]
    result = parts(case.call(tawny.numpy, *inputs))
    arrays = [a for a in result if isinstance(a, Array)]
    values = iter(
        run([a.node for a in arrays], {i.node: x for i, x in zip(inputs, operands, strict=True)})
    )
    for a in arrays:
        assert isinstance(a, Array)
    out = [next(values) if isinstance(a, Array) else a for a in result]
    for a, v in zip(result, out, strict=True):
        if isinstance(a, Array):
            assert (a.shape, a.dtype) == (v.shape, v.dtype), (
                "inferred shape and dtype are those computed"
            )
    return out


MODES = {"eager": _eager, "constants": _constants, "variables": _variables}


def _expected(case: Case, operands: list[np.ndarray]) -> object:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # NumPy's own about empty and all-NaN slices.
        warnings.simplefilter("ignore", RuntimeWarning)
        return case.witness(*operands)


def _check(case: Case, dtype: str, mode: Callable[..., object]) -> None:
    operands = case.operands(dtype)
    kept = [x.copy() for x in operands]
    if mode is _variables and case.needs_values:
        with pytest.raises(TypeError, match="depends on variable"):
            mode(case, operands)
        return
    got = mode(case, operands)
    assert_same(got, _expected(case, operands), case)
    for x, k in zip(operands, kept, strict=True):
        np.testing.assert_array_equal(x, k, err_msg="operands are never changed")


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in CASES))
def test_function_agrees_with_its_witness(name: str) -> None:
    """All cases of a function: an item of pytest costs more than a case does."""
    failures = Failures()
    for number, (own, case) in enumerate(CASES):
        if own == name:
            for dtype, mode in itertools.product(case.dtypes, MODES):
                with failures.of(f"case {number}, {dtype}, {mode}"):
                    _check(case, dtype, MODES[mode])
    failures.raise_all()
