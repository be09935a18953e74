"""Masked arrays are refused wherever arrays come in, unless nothing is masked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import tawny as tw
import tawny.eager as eager
import tawny.numpy as np
from tawny import nn

x = tw.var("x", (3,))
known = np.asarray([1.0, 2.0, 3.0])
Masked = numpy.ma.MaskedArray


def doubled() -> tw.Program:
    return tw.Graph([x], x * 2.0).compile(engine="reference")


def delayed(m: Any) -> Any:
    """Run a function that gives what it was not given."""
    y = tw.delay(lambda _: m, x, shape=(3,), dtype="float64")
    return tw.Graph([x], y).compile(engine="reference")(numpy.ones(3))


def predicted(m: Any) -> Any:
    model = nn.Linear(3, 1)
    return nn.predict(model, m.reshape(1, 3), engine="reference")


WAYS: dict[str, Callable[[Any], Any]] = {
    "a function": lambda m: np.sin(m),
    "asarray": lambda m: np.asarray(m),
    "array of another dtype": lambda m: np.array(m, dtype="float32"),
    "from_dlpack": lambda m: np.from_dlpack(m),
    "full": lambda m: np.full((3,), m),
    "an operand": lambda m: x + m,
    "a compared operand": lambda m: x == m,
    "NumPy's function": lambda m: numpy.add(x, m),
    "NumPy's joining": lambda m: numpy.stack([x, m]),
    "a list": lambda m: np.asarray([m, m]),
    "a nested list": lambda m: np.sum([[m], [m]]),
    "joining": lambda m: np.concat([x, m]),
    "a product": lambda m: m @ x,
    "an index": lambda m: known[m.astype(int) - 1],
    "a boolean index": lambda m: known[m > 1.0],
    "a condition": lambda m: np.where(m > 1.0, x, 0.0),
    "new elements": lambda m: x.at[:].set(m),
    "a parameter": lambda m: tw.random.normal(m, 1.0, (3,)),
    "a derivative": lambda m: tw.grad(lambda a: np.sum(a * a))(m),
    "a function called at once": lambda m: eager.sin(m),
    "a value for a program": lambda m: doubled()(m),
    "a value set": lambda m: doubled().set(x=m),
    "a value bound": lambda m: doubled().set(x=m, bind=True),
    "a swept value": lambda m: doubled().sweep(x=[m]),
    "an argument of a jitted function": lambda m: tw.jit(lambda a: a * 2.0)(m),
    "a structure for a jitted function": lambda m: tw.jit(lambda a: a["k"] * 2.0)({"k": m}),
    "the result of a delayed function": delayed,
    "an argument of a delayed function": lambda m: tw.delay(lambda a: a, m),
    "a layer's input": lambda m: nn.Linear(3, 1)(m.reshape(1, 3)),
    "data": predicted,
}


def masked(mask: Any) -> Masked[Any, Any]:
    return numpy.ma.masked_array([1.0, 2.0, 3.0], mask)


@pytest.mark.parametrize("way", WAYS)
def test_a_mask_is_never_lost(way: str) -> None:
    with pytest.raises(TypeError, match=r"is a masked array, whose mask would be lost.*filled"):
        WAYS[way](masked([False, True, False]))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mask", [False, [False] * 3])
def test_arrays_in_which_nothing_is_masked_are_arrays(way: str, mask: Any) -> None:
    WAYS[way](masked(mask))


def test_the_masked_constant_is_refused() -> None:
    with pytest.raises(TypeError, match=r"masked array"):
        np.asarray(numpy.ma.masked)


def test_weights_lose_no_mask(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"save_arrays.*masked array"):
        tw.save_arrays(tmp_path / "a.safetensors", {"a": masked([True, False, False])})
    assert not list(tmp_path.iterdir())


def test_a_bound_array_is_the_memory_given() -> None:
    program, given = doubled(), masked(False)
    program.set(x=given, bind=True)
    given[0] = 5.0
    program.touch("x")
    result = program.run()
    assert type(result) is numpy.ndarray
    assert result.tolist() == [10.0, 4.0, 6.0]
