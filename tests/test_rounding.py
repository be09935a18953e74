"""What the judges of fuzzed graphs and programs take for rounding, and what they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from random_programs import Judge
from rounding import rounding_explains
from tawny.array import wrap
from tawny.engine.reference import run
from tawny.node import make
from tawny.ops.creation import Cast
from tawny.ops.systems import Inv

SINGULAR = np.array([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]]) / 10
SOUND = np.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]])
LINE = np.array([1e16, 1.0, -1e16])


def cast(x: Any, dtype: str) -> Any:
    return wrap(make(Cast(np.dtype(dtype)), (x.node,)))


def loose_inverse(x: Any) -> Any:
    return wrap(make(Inv(strict=False), (x.node,)))


def explained(make_outputs: Callable[[Any], Any], value: Any, got: Any) -> bool:
    """Whether rounding leads from what the reference engine gives to `got`."""
    value = np.asarray(value)
    x = tw.var("x", shape=value.shape, dtype=value.dtype)
    outputs = [make_outputs(x).node]
    feeds = {x.node: value}
    if isinstance(got, list):
        with pytest.raises((np.linalg.LinAlgError, IndexError)):
            run(outputs, feeds)
        return rounding_explains(outputs, feeds, got, "raises")
    expected = run(outputs, feeds)
    if not isinstance(got, str):
        got = [np.asarray(got(expected[0])).astype(expected[0].dtype)]
    return rounding_explains(outputs, feeds, got, expected)


Row = tuple[Callable[[Any], Any], Any, Any]

ROUNDING: dict[str, Row] = {
    "an inverse of a matrix of less rank": (tnp.linalg.inv, SINGULAR, lambda e: -3 * e),
    "an inverse that is NaN by luck": (loose_inverse, np.ones((3, 3)), lambda e: 1e16 + 0 * np.nan_to_num(e)),
    "a system refused by luck": (lambda x: tnp.linalg.solve(x, x[0]), np.ones((3, 3)), [np.ones(3)]),
    "a system solved by luck": (lambda x: tnp.linalg.solve(x, x[0]), SINGULAR, "raises LinAlgError: Singular matrix"),
    "a product of a lost inverse": (lambda x: tnp.linalg.inv(x) @ x, SINGULAR, lambda e: e + 1),
    "vectors of equal singular values": (lambda x: tnp.linalg.svd(x)[0], np.eye(3)[::-1] + 0.0, lambda e: e[:, ::-1]),
    "a sum in another order": (tnp.sum, LINE, lambda e: e + 1),
    "a product that overflows before its zero": (tnp.prod, np.array([0.0] * 3 + [1e200] * 3), lambda e: e + np.nan),
    "what is left of a product": (lambda x: x @ tnp.linalg.inv(x) @ x - x, SOUND, lambda e: e + 1e-15),
    "the other side of a step": (lambda x: tnp.floor(tnp.sqrt(x) * tnp.sqrt(x)), [3.0], lambda e: e + 1),
    "an integer for no number": (lambda x: cast(x, "int32"), [np.nan], lambda e: e + 7),
    "an integer for a large number": (lambda x: cast(x, "uint8") + 1, [300.0], lambda e: e + 7),
}  # fmt: skip

DEFECTS: dict[str, Row] = {
    "a sound inverse": (tnp.linalg.inv, SOUND, lambda e: e * (1 + 1e-10)),
    "a sound system that is refused": (lambda x: tnp.linalg.solve(x, x[0]), SOUND, "raises LinAlgError: Singular matrix"),
    "an index outside": (lambda x: tnp.sin(LINE)[x], [7], [np.zeros(1)]),
    "a sum": (tnp.sum, [1.0, 2.0, 4.0], lambda e: e + 1e-6),
    "a place among equal numbers": (tnp.argmax, [2.0, 5.0, 5.0], lambda e: e + 1),
    "an order of equal numbers": (tnp.argsort, [2.0, 5.0, 5.0], lambda e: e[::-1]),
    "a step of exact numbers": (lambda x: tnp.floor(x * 2 + 1), [1.5], lambda e: e - 1),
    "an integer that is held": (lambda x: cast(x, "int32"), [3.7], lambda e: e + 1),
    "no number for a number": (tnp.exp, [1.0], lambda e: e * np.nan),
    "a product that cannot overflow": (tnp.prod, np.array([0.0] * 3 + [1e90] * 3), lambda e: e + np.nan),
    "infinity for a number": (tnp.exp, [1.0], lambda e: e * np.inf),
    "a number for none": (tnp.log, [-1.0], lambda e: np.zeros(1)),
    "one element among lost ones": (lambda x: tnp.concat([tnp.linalg.inv(x), x]), SINGULAR, lambda e: e + 1),
    "an error of another kind": (tnp.linalg.inv, SINGULAR, "raises IndexError: index 7 is out of bounds"),
    "integers": (lambda x: x * 3, [1, 2], lambda e: e + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUNDING)
def test_what_rounding_leads_to_is_no_defect(name: str) -> None:
    assert explained(*ROUNDING[name])


@pytest.mark.parametrize("name", DEFECTS)
def test_what_rounding_does_not_lead_to_is_a_defect(name: str) -> None:
    assert not explained(*DEFECTS[name])


@pytest.mark.parametrize("part", ["real", "imag"])
@pytest.mark.parametrize("given", [1.0, np.inf])
def test_parts_of_complex_products_of_infinities_may_be_nan_or_infinite(
    part: str, given: float
) -> None:
    """What such a part is made of is not: finite parts and products of finite numbers are compared."""
    x = tw.var("x", shape=(2, 2), dtype="complex128")
    value = np.array([[given + 1j, 2], [3, 4j]])
    product = (x @ x).node
    (want,) = run([product], {x.node: value})
    finite = np.isfinite(want).copy()

    def judged(place: tuple[int, int], wrong: float) -> bool:
        got = want.copy()
        getattr(got, part)[place] = wrong
        try:
            Judge([product], [], 0).check([got], {}, {x.node: value}, 0, 1)
        except AssertionError:
            return False
        return True

    for place in np.ndindex(2, 2):
        for wrong in (np.nan, np.inf, -np.inf):
            assert judged(place, wrong) == (
                not finite[place] or wrong == getattr(want, part)[place]
            )
    assert not judged((1, 1), 7.0)
    assert finite.all() == np.isfinite(given)
