"""Exact rules keep every bit, on every engine: what they leave is compared with what was written.

Values are the ones that tell identities apart: zeros of both signs, infinities, NaN, the smallest
and largest numbers, the ends of integers, and complex numbers of all these.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from random_graphs import assert_same_bits
from tawny.array import Array, array_for
from tawny.node import Value, Variable, toposort
from test_rewrite_rules import FINITE_LINES, LINES, Line, i, x

EXACT_ONLY = ("contracting", "finite")

REALS = (
    0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, 2.2250738585072014e-308,
    1.7976931348623157e308, -1.7976931348623157e308, 1.0, -1.0, 1.5, -2.5, 0.1, 3.0, -7.0, 1e-3, 2**53 + 2.0,
)  # fmt: skip


def specials(dtype: np.dtype[Any]) -> Value:
    """What tells identities apart in a dtype."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        some = [0, 1, 2, 3, 7, ends.max, ends.max - 1, ends.min, ends.min + 1]
        return np.array(some + ([-1, -2, -7] if dtype.kind == "i" else []), dtype)
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            least = float(np.finfo(dtype).smallest_subnormal)
            return np.array([*REALS, least, -least, float(np.finfo(dtype).max)]).astype(dtype)
        parts = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.5, 1e-310]
        return np.array([complex(a, b) for a, b in product(parts, parts)]).astype(dtype)


def given(outputs: list[Array], turn: int) -> dict[str, Value]:
    """A value for each variable: all special values in some order, another one in each turn."""
    nodes = [n for n in toposort([o.node for o in outputs]) if isinstance(n.op, Variable)]
    out: dict[str, Value] = {}
    for place, node in enumerate(nodes):
        rng = np.random.default_rng(100 * turn + place)
        values = specials(node.dtype)
        count = int(np.prod(node.shape))
        out[node.name] = rng.choice(values, count).reshape(node.shape)
    return out


def compared(
    engine: str, names: list[str], outputs: list[Array], turns: int, **options: Any
) -> None:
    """Programs with rules and without give the same bits."""
    values = given(outputs, 0)
    inputs = [
        array_for(n) for n in toposort([o.node for o in outputs]) if isinstance(n.op, Variable)
    ]
    graph = tw.Graph(inputs, outputs)
    plain = graph.compile(engine=engine, optimise=False)
    ruled = graph.compile(engine=engine, **options)
    for turn in range(turns):
        values = given(outputs, turn)
        with np.errstate(all="ignore"):
            got, want = ruled(**values), plain(**values)
        wrong: list[str] = []
        for name, g, w in zip(names, got, want, strict=True):
            try:
                assert_same_bits([g], [w])
            except AssertionError as error:
                wrong.append(f"{name}: {error}")
        assert not wrong, "\n".join(wrong)


def exact_lines() -> list[Line]:
    """The lines of the table whose rules all are exact."""
    out: list[Line] = []
    for name, before, after in LINES:
        graph = tw.optimise(tw.Graph([], before(), unused="ignore")) if not _read(before) else None
        kinds = {r.rule.kind.value for r in (graph or _optimised(before)).rewrites}
        if kinds <= {"exact"}:
            out.append((name, before, after))
    return out


def _read(before: Callable[[], Array]) -> list[Array]:
    nodes = toposort([before().node])
    return [array_for(n) for n in nodes if isinstance(n.op, Variable)]


def _optimised(before: Callable[[], Array]) -> tw.Graph:
    return tw.optimise(tw.Graph(_read(before), before()), disable=["group"])


def test_every_exact_line_keeps_every_bit(engine: str) -> None:
    lines = exact_lines()
    assert len(lines) > 100
    names = [f"{name}-{k}" for k, (name, _, _) in enumerate(lines)]
    outputs = [before() for _, before, _ in lines]
    compared(engine, names, outputs, 12, disable=EXACT_ONLY)


def test_what_may_not_be_left_out_is_computed(engine: str) -> None:
    """Lines of rules that change bits are computed as they are written, by default."""
    names = [f"{name}-{k}" for k, (name, _, _) in enumerate(FINITE_LINES)]
    outputs = [before() for _, before, _ in FINITE_LINES]
    compared(engine, names, outputs, 6, disable=["contracting"])


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_zeros_keep_their_signs(engine: str, dtype: str) -> None:
    z = tw.var("z", shape=(2,), dtype=dtype)
    zeros = np.array([0.0, -0.0], dtype)
    for made, want in (
        (z + 0, zeros + 0), (0 + z, 0 + zeros), (z - 0, zeros - 0), (0 - z, 0 - zeros),
        (z + tnp.asarray(-0.0, dtype=dtype), zeros + np.asarray(-0.0, dtype)),
    ):  # fmt: skip
        got = tw.Graph([z], made).compile(engine=engine)(zeros)
        assert_same_bits([got], [np.asarray(want, got.dtype)])


def test_what_depends_on_the_sign_of_a_zero_is_right(engine: str) -> None:
    z = tw.var("z")
    assert tw.Graph([z], 1 / (z + 0)).compile(engine=engine)(-0.0) == np.inf
    v = tw.var("v", shape=(2,))
    got = tw.Graph([v], tnp.arctan2(v + 0, v - 1)).compile(engine=engine)(np.array([-0.0, 0.0]))
    np.testing.assert_array_equal(got, [np.pi, np.pi])
    assert tw.Graph([x, i], [x + 0, i + 0]).compile(engine=engine).rewrites.counts() == {
        "add_zero": 1
    }


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8"])
def test_powers_by_numbers_are_numpys(engine: str, dtype: str) -> None:
    """Powers by 0.5, 2 and -1 are what NumPy makes of them, with rules and without."""
    v = tw.var("v", shape=(len(specials(np.dtype(dtype))),), dtype=dtype)
    values = specials(np.dtype(dtype))
    for exponent in (0.5, 2.0, -1.0, np.float64(0.5)):
        for optimise in (True, False):
            made = tw.Graph([v], v**exponent).compile(engine=engine, optimise=optimise)
            with np.errstate(all="ignore"):
                assert_same_bits([made(values)], [values**exponent])
    arrays = tnp.pow(v, tnp.asarray(np.full(v.shape, 0.5)))
    for optimise in (True, False):
        with np.errstate(all="ignore"):
            got = tw.Graph([v], arrays).compile(engine=engine, optimise=optimise)(values)
            want = np.power(values, np.full(v.shape, 0.5))
        np.testing.assert_allclose(got, want, rtol=1e-15)
        there = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[there], np.signbit(want)[there])


def test_kernels_and_constants_without_contracting_rules(engine: str) -> None:
    """Sums inside groups and functions of constants round in their own way, so they contract."""
    wide = tw.var("wide", shape=(64, 80), dtype="float32")
    values = np.random.default_rng(0).normal(size=(64, 80)).astype("float32")
    steps = tnp.asarray(np.linspace(0, 9, 80).astype("float32"))
    centred = (wide - tnp.mean(wide, axis=1, keepdims=True)) / tnp.std(wide, axis=1, keepdims=True)
    chosen = tnp.exp(wide - tnp.max(wide, axis=1, keepdims=True)) * 2
    graph = tw.Graph([wide], [centred, tnp.sin(steps) * wide, tnp.cos(wide) * 2 + 1, chosen])
    plain = graph.compile(engine=engine, optimise=False)
    exact = graph.compile(engine=engine, disable=EXACT_ONLY)
    assert_same_bits(exact(values), plain(values))
    assert {r.rule.kind.value for r in exact.rewrites} <= {"exact"}
    whole = graph.compile(engine=engine)
    for got, want in zip(whole(values), plain(values), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)
