"""Every public function, eager and lazy, against an independent witness."""

from __future__ import annotations

import importlib
import itertools
import os
import pkgutil
import random
import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import case_tables
import tawny as tw
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

ALL = "TAWNY_LARGE_TESTS" in os.environ
"""Whether every case is compiled in every dtype, which takes some minutes."""

PIECES = {"cpu": 2, "opencl": 16}
"""Of so many cases one run compiles one; others say little that is new, or take long."""


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


def _assert_close(got: object, expected: object, case: Case) -> None:
    """Shape and dtype agree, and values do up to rounding: compiled sums have an order of their own."""
    for g, w in zip(parts(got), parts(expected), strict=True):
        have, want = np.asarray(g), np.asarray(w)
        assert have.shape == want.shape
        if case.check_dtype:
            assert have.dtype == want.dtype
        if want.dtype.kind not in "fc":
            np.testing.assert_array_equal(have, want)
            continue
        sizes = np.abs([want.real, want.imag])
        rtol = max(case.rtol, 64 * float(np.finfo(want.dtype).eps))
        atol = rtol * float(np.max(sizes, initial=1.0, where=np.isfinite(sizes)))
        np.testing.assert_array_equal(np.isnan(have), np.isnan(want))
        known = ~np.isnan(want)
        for part in (np.real, np.imag):  # an infinite part says nothing of the other one
            np.testing.assert_allclose(part(have)[known], part(want)[known], rtol=rtol, atol=atol)


def _drawn(name: str, engine: str, draw: random.Random) -> list[tuple[Case, str]]:
    """Some of a function's cases, each in one of its dtypes."""
    cases = [case for own, case in CASES if own == name and not case.needs_values]
    if ALL:
        return [(case, dtype) for case in cases for dtype in case.dtypes]
    count = -(-len(cases) // PIECES.get(engine, 5))
    return [(case, draw.choice(case.dtypes)) for case in draw.sample(cases, count)]


def _check_compiled(engine: str, cases: list[tuple[Case, str]]) -> None:
    """The cases, as the outputs of one program."""
    inputs, values, results = list[Array](), list[np.ndarray](), list[list[object]]()
    for case, dtype in cases:
        operands = case.operands(dtype)
        own = [var(shape=x.shape, dtype=x.dtype) for x in operands]
        results.append(parts(case.call(tawny.numpy, *own)))
        inputs += own
        values += operands
    outputs = [a for result in results for a in result if isinstance(a, Array)]
    if not outputs:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # inputs of which a result has only the shape
        computed = iter(tw.Graph(inputs, outputs).compile(engine=engine)(*values))
    failures = Failures()
    for (case, dtype), result in zip(cases, results, strict=True):
        got = [next(computed) if isinstance(a, Array) else a for a in result]
        with failures.of(f"{case.name}, {dtype}, shapes {case.shapes}"):
            _assert_close(got, _expected(case, case.operands(dtype)), case)
    failures.raise_all()


@pytest.mark.parametrize("chapter", [m.name for m in pkgutil.iter_modules(case_tables.__path__)])
def test_compiled_functions_agree_with_their_witnesses(engine: str, chapter: str) -> None:
    """Another slice of the cases each time; every program computes all cases of a function."""
    seed = time.time_ns() % 2**40
    print(f"cases drawn with seed {seed}")
    draw = random.Random(seed)
    for name in dict.fromkeys(name for name, _ in CASES if name.startswith(f"{chapter}-")):
        _check_compiled(engine, _drawn(name, engine, draw))
