"""The op tables on devices: every case of the public functions, against its witness."""

from __future__ import annotations

import importlib
import os
import pkgutil
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

import case_tables
import tawny as tw
import tawny.numpy as tnp
from cases import Case, Failures, assert_same, parts
from engines import DEVICE, needs_device
from tawny.array import Array

pytestmark = pytest.mark.filterwarnings("ignore:compile. it took")

LARGE: Final = bool(os.environ.get("TAWNY_LARGE_TESTS"))

STEP: Final = 40
"""One case of so many is run in one dtype; `TAWNY_LARGE_TESTS=1` runs all in all dtypes."""

CASES: Final = {
    module.name: importlib.import_module(f"case_tables.{module.name}").CASES
    for module in pkgutil.iter_modules(case_tables.__path__)
}

TOLERANCE: Final = 1e-9
"""Sums are added in another order than the witness adds them."""


def check_on(engine: str, case: Case, dtypes: Sequence[str]) -> None:
    """One program for a case in several dtypes."""
    drawn = [case.operands(dtype) for dtype in dtypes]
    inputs = [[tw.var(shape=x.shape, dtype=x.dtype) for x in one] for one in drawn]
    outputs = [[a for a in parts(case.call(tnp, *own)) if isinstance(a, Array)] for own in inputs]
    variables = [v for own in inputs for v in own]
    if not any(outputs):
        return
    graph = tw.Graph(variables, [a for own in outputs for a in own], unused="ignore")
    found = iter(graph.compile(engine=engine, optimise=False)(*[x for one in drawn for x in one]))
    for operands, own in zip(drawn, outputs, strict=True):
        got = [next(found) for _ in own]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            want = parts(case.witness(*operands))
        if len(want) == len(got):  # otherwise some of it was known without a program
            is_rounded = any(np.asarray(g).dtype.kind in "fc" for g in got)
            tolerant = replace(case, exact=False, rtol=max(case.rtol, TOLERANCE))
            assert_same(got, want, tolerant if is_rounded else case)


@needs_device
@pytest.mark.parametrize("name", CASES)
def test_functions_on_a_device_agree_with_their_witnesses(name: str) -> None:
    failures = Failures()
    for number, case in enumerate(CASES[name]):
        if not case.needs_values and (LARGE or number % STEP == 0):
            dtypes = case.dtypes if LARGE else [case.dtypes[number // STEP % len(case.dtypes)]]
            with failures.of(f"{case.name}, case {number}"):
                check_on(DEVICE, case, dtypes)
    failures.raise_all()
