"""Equal constants become one: which are equal, what follows from it, and what is never looked at."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.array import Array, wrap
from tawny.engine.reference import run
from tawny.node import MOST_INTERNED_BYTES, Constant, borrowed_constant, toposort
from tawny.rewrite import constants as constant_passes
from tawny.rewrite.pipeline import SIMPLIFY, OptimisedGraph, optimise

SIZE = MOST_INTERNED_BYTES  # elements, so that constants of every dtype are large


def simplified(*arrays: Array, **options: Any) -> OptimisedGraph:
    return optimise(
        [a.node for a in arrays], evaluate=run, check=True, pipeline=(SIMPLIFY,), **options
    )


def constants(result: OptimisedGraph) -> list[np.ndarray[Any, Any]]:
    return [n.value for n in toposort(result.outputs) if isinstance(n.op, Constant)]


def pair(first: Any, second: Any) -> Array:
    """An expression that reads two constants, each in its own way."""
    x = tw.var("x", shape=(1,))
    return tnp.sum(tnp.hypot(x, tnp.abs(wrap(borrowed_constant(first))))) + tnp.sum(
        tnp.arctan2(x, tnp.abs(wrap(borrowed_constant(second))))
    )


def leaves(first: Any, second: Any) -> int:
    """How many of two constants are left when both are outputs."""
    result = simplified(wrap(borrowed_constant(first)), wrap(borrowed_constant(second)))
    return len({id(n) for n in result.outputs})


DTYPES = ["bool", "int8", "uint64", "float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_constants_of_every_dtype_are_one(dtype: str) -> None:
    value = np.random.default_rng(0).integers(0, 2, 8 * SIZE).astype(dtype)
    assert leaves(value, value.copy()) == 1


@pytest.mark.parametrize("place", [0, 1, SIZE // 2 + 3, SIZE - 1])
def test_one_other_element_makes_another_constant(place: int) -> None:
    value = np.random.default_rng(0).normal(size=SIZE)
    other = value.copy()
    other[place] = np.nextafter(other[place], np.inf)
    assert leaves(value, other) == 2


def test_bits_decide_not_values() -> None:
    zeros = np.zeros(SIZE)
    assert leaves(zeros, -zeros) == 2
    assert leaves(np.full(SIZE, np.nan), np.full(SIZE, np.nan)) == 1
    assert leaves(zeros, np.zeros(SIZE, np.int64)) == 2
    assert leaves(zeros, zeros.reshape(2, -1).copy()) == 2


def test_layout_does_not_matter() -> None:
    value = np.arange(2.0 * SIZE).reshape(2, SIZE)
    assert leaves(value, np.asfortranarray(value)) == 1
    assert leaves(value, np.repeat(value, 2, axis=1)[:, ::2]) == 1
    assert leaves(value, value[:, ::-1]) == 2


def test_what_is_computed_from_them_is_one_too() -> None:
    x = tw.var("x", shape=(SIZE,))
    tables = [tnp.asarray(np.linspace(0, 1, SIZE)) for _ in range(5)]
    total = sum((tnp.sin(x * t) for t in tables), start=x)
    result = simplified(total)
    assert [n.name for n in toposort(result.outputs)].count("sin") == 1
    assert result.rewrites.counts()["merge_constants"] == 4
    values = {x.node: np.linspace(-2, 2, SIZE)}
    np.testing.assert_array_equal(run(result.outputs, values), run([total.node], values))


def test_folded_constants_are_merged_again() -> None:
    x = tw.var("x", shape=(SIZE,))
    table = np.linspace(0, 1, SIZE)
    doubled = tnp.asarray(table) * 2.0
    given = tnp.asarray(table * 2.0)
    result = simplified(tnp.sin(x * doubled) - tnp.cos(x * given))
    assert len(constants(result)) == 1
    assert result.rewrites.counts() == {"fold_constants": 1, "merge_constants": 1}


def test_ledger_names_both_places_and_keeps_no_value_alive() -> None:
    value = np.linspace(0, 1, SIZE)
    alive = weakref.ref(value)
    written = pair(np.linspace(0, 1, SIZE), value)
    result = optimise([written.node], evaluate=run, pipeline=(constant_passes.MERGING,))
    (record,) = result.rewrites
    assert [e.name for e in record.before] == ["constant", "constant"]
    assert [e.name for e in record.after] == ["constant"]
    assert (record.operations, record.bytes) == (0, 0)
    del written, value
    assert alive() is None


def test_it_can_be_switched_off() -> None:
    value = np.linspace(0, 1, SIZE)
    written = pair(value, value.copy())
    assert len(constants(simplified(written))) == 1
    off = simplified(written, disable=["merge_constants"])
    assert len(constants(off)) == 2


def test_constants_that_differ_are_not_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[object] = []
    digest = constant_passes._digest
    monkeypatch.setattr(constant_passes, "_digest", lambda v: hashed.append(v) or digest(v))
    rng = np.random.default_rng(0)
    weights = [tnp.asarray(rng.normal(size=SIZE)) for _ in range(20)]
    weights += [tnp.asarray(rng.normal(size=SIZE + k)) for k in range(20)]
    assert len(simplified(*weights).rewrites) == 0
    assert not hashed
    simplified(*weights, tnp.asarray(np.array(weights[3].numpy())))
    assert len(hashed) == 2
