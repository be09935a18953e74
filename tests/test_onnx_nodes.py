"""Every operator, by the standard's own test cases: a fixed list passes, the rest has reasons."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("onnx")

import onnx_cases
from tawny.onnx.call import UnknownValueError

PASSING = onnx_cases.PASSING.read_text("utf-8").split()

LEAST = 1785
"""Cases that must pass, whatever version of the package is installed later."""

REASONS = {
    r"elements of type string|strings are not supported": "no dtype holds strings",
    r"elements of type (float8|float4)": "no dtype holds floating-point numbers of 4 and 8 bits",
    r"elements of type u?int[24] ": "no dtype holds integers of less than 8 bits",
    r"ImageDecoder\): the operator": "files of images are decoded by libraries for them",
    r"BitCast\): the operator": "no op reads bits as numbers of another type",
    r"training.Gradient\): the operator": "derivatives are made by tw.gradients, not by a node",
    r"(Label|StringNorm|StringSplit|StringConcat|RegexFullMatch).*\): the operator": "strings",
}
"""What an error says, and why that is no mistake."""

DRAWS = re.compile(r"test_(bernoulli|training_dropout)(?!.*zero_ratio)")
"""Cases whose results are random numbers of NumPy's own generator."""

ROUNDED = re.compile(r"test_attention_(4d_causal_fp16|.*_bf16)(_expanded)?$")
"""Cases whose short numbers were rounded after each step: some differ by units of these."""

UNITS = 2
"""By how many units of bfloat16 they differ, at most."""


def test_the_list_is_sorted_and_long_enough() -> None:
    assert sorted(set(PASSING)) == PASSING
    assert len(PASSING) >= LEAST


@pytest.mark.parametrize("part", range(4))
def test_cases_that_pass(part: int) -> None:
    known = onnx_cases.cases()
    failures: list[str] = []
    for name in PASSING[part::4]:
        if name not in known:
            continue  # a later version of the package left it out
        try:
            onnx_cases.check(onnx_cases.read(known[name]))
        except Exception as error:  # one list of all that fail says more than the first
            failures.append(f"{name}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)


def test_cases_that_do_not_pass_have_a_reason() -> None:
    without: list[str] = []
    for name, case in onnx_cases.cases().items():
        if name in PASSING or DRAWS.match(name) or ROUNDED.match(name):
            continue
        try:
            onnx_cases.check(onnx_cases.read(case))
            without.append(f"{name}: it passes, and belongs to the list")
        except UnknownValueError as error:
            without.append(f"{name}: {error}")
        except (ValueError, AssertionError) as error:
            if not any(re.search(pattern, str(error)) for pattern in REASONS):
                without.append(f"{name}: {error}")
    assert not without, "\n".join(without)


def test_cases_of_short_numbers_differ_by_their_rounding() -> None:
    for name, case in onnx_cases.cases().items():
        if ROUNDED.match(name):
            near = onnx_cases.read(case)._replace(rtol=UNITS * 2.0**-8, atol=2.0**-9)
            onnx_cases.check(near)


@pytest.mark.parametrize("name", PASSING[::60])
def test_some_cases_as_compiled_programs(name: str) -> None:
    case = onnx_cases.cases().get(name)
    if case is None:
        pytest.skip("a later version of the package left it out")
    onnx_cases.check(onnx_cases.read(case), engine="cpu")
