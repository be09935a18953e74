"""Identities for every way to write the constant: shape, dtype and bits are kept, the op is gone.

Rows of the rule tables have their own lines in `test_rewrite_rules`; here each identity meets
scalars, filled arrays, arrays of equal elements, and shapes that broadcast either way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from random_graphs import assert_close, evaluated
from tawny.array import Array, wrap
from tawny.engine.reference import run
from tawny.node import toposort
from tawny.rewrite.facts import NodeFacts
from tawny.rewrite.pipeline import PIPELINE, SIMPLIFY, OptimisedGraph, optimise

SHAPE = (4, 3)


def simplified(*arrays: Array, **options: Any) -> OptimisedGraph:
    options.setdefault("pipeline", (SIMPLIFY,))
    return optimise([a.node for a in arrays], evaluate=run, check=True, **options)


def names(result: OptimisedGraph) -> list[str]:
    return [n.name for n in toposort(result.outputs)]


IDENTITIES: dict[str, tuple[Callable[[Any, Any], Any], float, str]] = {
    "x + 0": (lambda x, k: x + k, 0, "add"),
    "0 + x": (lambda x, k: k + x, 0, "add"),
    "x - 0": (lambda x, k: x - k, 0, "subtract"),
    "x * 1": (lambda x, k: x * k, 1, "multiply"),
    "1 * x": (lambda x, k: k * x, 1, "multiply"),
    "x / 1": (lambda x, k: x / k, 1, "divide"),
    "x ** 1": (lambda x, k: x**k, 1, "pow"),
    "x ** 2": (lambda x, k: x**k, 2, "pow"),
    "x ** 0.5": (lambda x, k: x**k, 0.5, "pow"),
}

CONSTANTS: dict[str, Callable[[float, str], Array]] = {
    "scalar": lambda v, d: tnp.asarray(v, dtype=d),
    "filled": lambda v, d: tnp.full(SHAPE, v, dtype=d),
    "equal elements": lambda v, d: tnp.asarray(np.full(SHAPE, v, d)),
    "a row": lambda v, d: tnp.full((3,), v, dtype=d),
    "a column": lambda v, d: tnp.asarray(np.full((4, 1), v, d)),
    "more axes": lambda v, d: tnp.full((2, *SHAPE), v, dtype=d),
    "one more axis": lambda v, d: tnp.full((1, *SHAPE), v, dtype=d),
}

DTYPES = ["float64", "float32", "int64", "int8", "complex128"]
CASES = [
    (identity, dtype)
    for identity in IDENTITIES
    for dtype in DTYPES
    if identity != "x ** 0.5" or not dtype.startswith("int")
]


@pytest.mark.parametrize(("identity", "dtype"), CASES)
@pytest.mark.parametrize("constant", CONSTANTS)
def test_identity(identity: str, constant: str, dtype: str) -> None:
    apply, value, name = IDENTITIES[identity]
    x = tw.var("x", shape=SHAPE, dtype=dtype)
    written = apply(x, CONSTANTS[constant](value, dtype))
    result = simplified(written, assume_finite=True)
    (out,) = result.outputs
    assert (out.shape, out.dtype) == (written.shape, written.dtype)
    kept = dtype == "complex128" and value in (2, 0.5)  # powers of complex numbers, in their way
    assert kept or name not in names(result)
    feeds = {x.node: np.linspace(0.5, 60, 12).astype(dtype).reshape(SHAPE)}
    with np.errstate(over="ignore"):
        assert_close(evaluated(result.outputs, feeds), evaluated([written.node], feeds))


@pytest.mark.parametrize("shape", [(), (3,), (1, 3), (4, 1), (2, 4, 3)])
@pytest.mark.parametrize("identity", IDENTITIES)
def test_identity_where_the_variable_is_broadcast(identity: str, shape: tuple[int, ...]) -> None:
    apply, value, name = IDENTITIES[identity]
    x = tw.var("x", shape=shape)
    written = apply(x, tnp.full(SHAPE, value))
    result = simplified(written, assume_finite=name == "add")  # a sum of zeros has no sign
    (out,) = result.outputs
    assert out.shape == written.shape
    exponents = value == 0.5  # where x may be -inf an array of them is not the square root
    assert exponents or name not in names(result)
    feeds = {x.node: np.linspace(1, 2, int(np.prod(shape))).reshape(shape)}
    assert_close(evaluated(result.outputs, feeds), evaluated([written.node], feeds))


# ------------------------------------------------------------- zeros and ones

CREATED: list[tuple[str, Callable[[], Array], float]] = [
    ("zeros + zeros", lambda: tnp.zeros(SHAPE) + tnp.zeros(SHAPE), 0),
    ("zeros + ones", lambda: tnp.zeros(SHAPE) + tnp.ones(SHAPE), 1),
    ("ones * ones", lambda: tnp.ones(SHAPE) * tnp.ones(3), 1),
    ("zeros of a scalar's shape", lambda: tnp.zeros(()) + tnp.ones(SHAPE), 1),
    ("functions of ones", lambda: tnp.exp(tnp.log(tnp.ones(SHAPE))), 1),
    ("like others", lambda: tnp.zeros_like(tnp.ones_like(tw.var("x", shape=SHAPE))), 0),
    ("moved", lambda: tnp.reshape(tnp.ones((3, 4)).T, (2, 6)).reshape(SHAPE), 1),
    ("repeated", lambda: tnp.repeat(tnp.tile(tnp.zeros((2, 1)), (1, 3)), 2, axis=0), 0),
    ("converted", lambda: tnp.astype(tnp.ones(SHAPE, dtype="int8"), "float64"), 1),
    ("summed", lambda: tnp.sum(tnp.zeros((1000, 1000, 1, 1)), axis=(0, 1)) + tnp.zeros(SHAPE), 0),
]


@pytest.mark.parametrize(("what", "make", "value"), CREATED, ids=[w for w, _, _ in CREATED])
def test_created_zeros_and_ones_collapse(
    what: str, make: Callable[[], Array], value: float
) -> None:
    result = simplified(make())
    assert names(result) == ["constant", "broadcast_to"]
    constant = toposort(result.outputs)[0]
    assert constant.value is not None
    assert constant.value.reshape(-1).tolist() == [value]
    assert result.outputs[0].shape == SHAPE


# ------------------------------------------------------------------ repetitions

REPEATED: list[tuple[str, Callable[[Array], Array]]] = [
    ("repeat", lambda c: tnp.repeat(c, 3, axis=1)),
    ("tile", lambda c: tnp.tile(c, (1, 3))),
    ("broadcast_to", lambda c: tnp.broadcast_to(c, SHAPE)),
]


@pytest.mark.parametrize(("what", "repeat"), REPEATED, ids=[w for w, _ in REPEATED])
def test_repetitions_go_where_the_other_operand_has_the_shape(
    what: str, repeat: Callable[[Array], Array]
) -> None:
    x, column = tw.var("x", shape=SHAPE), tw.var("c", shape=(4, 1))
    assert simplified(repeat(column) - x).outputs == ((column - x).node,)
    assert simplified(x - repeat(column)).outputs == ((x - column).node,)


@pytest.mark.parametrize(("what", "repeat"), REPEATED, ids=[w for w, _ in REPEATED])
def test_repetitions_that_make_the_shape_are_done_last(
    what: str, repeat: Callable[[Array], Array]
) -> None:
    column, other = tw.var("c", shape=(4, 1)), tw.var("d", shape=(4, 1))
    wanted = (tnp.broadcast_to(column - other, SHAPE).node,)
    assert simplified(repeat(column) - repeat(other)).outputs == wanted
    assert simplified(repeat(column) - other).outputs == wanted


# ----------------------------------------------------------- dead and shared nodes


def test_what_nothing_reads_any_more_is_gone() -> None:
    x = tw.var("x", shape=SHAPE)
    costly = tnp.linalg.qr(tnp.exp(x))[0]
    assert names(simplified(tnp.where(True, x, tnp.sum(costly)))) == ["x"]
    assert names(simplified(x - x + costly[:0].sum() * 0, assume_finite=True))[-1] == "broadcast_to"


def test_common_subexpressions_that_rules_bring_about_are_shared() -> None:
    x, y = tw.var("x", shape=SHAPE), tw.var("y", shape=SHAPE)
    first = tnp.sin((x * 1) @ (y - 0.0).T)
    second = tnp.sin(tnp.copy(x) @ tnp.reshape(y, (12,)).reshape(SHAPE).T)
    result = simplified(first - tnp.exp(second))
    assert names(result).count("sin") == names(result).count("matmul") == 1


def test_products_of_transposed_repeats_are_folded_at_once() -> None:
    """Not only when the transpose has become part of the product."""
    eye = tnp.broadcast_to(tnp.eye(4) * 2.0, (2, 4, 4))
    written = tnp.matrix_transpose(eye) @ eye + tw.var("x", shape=(4, 1))
    first = simplified(written, pipeline=PIPELINE)
    assert "fused_matmul" not in names(first)
    assert "matmul" not in names(first)
    assert simplified(wrap(first.outputs[0]), pipeline=PIPELINE).outputs == first.outputs


# ------------------------------------------------------------- structural zeros

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "polynomial": lambda x: tnp.sum(x * x * 3.0 + x * 0.5 + 7),
    "choice": lambda x: tnp.sum(tnp.where(x > 0, tnp.log(tnp.abs(x) + 1), x)),
    "slices": lambda x: tnp.sum(x[1:] * 2) + tnp.sum(x[:2] ** 3),
    "joined with zeros": lambda x: tnp.sum(tnp.concat([x, x[:1], tnp.zeros(3)]) ** 2),
    "padded": lambda x: tnp.sum(tnp.pad(x, 2) ** 2),
    "stopped": lambda x: tnp.sum(tw.stop_gradient(x) * x),
    "constant in part": lambda x: tnp.sum(x * tnp.exp(tnp.ones(5))) + tnp.sum(tnp.ones(5)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("transform", [tw.grad, tw.hessian])
def test_differentiation_leaves_no_product_with_zeros(name: str, transform: Any) -> None:
    """A slope that is plainly zero is never made, so no finite rule is needed to remove it."""
    x = tw.var("x", shape=(5,))
    result = simplified(transform(FUNCTIONS[name])(x))
    facts = NodeFacts(run)
    for node in toposort(result.outputs):
        if node.name in ("multiply", "divide", "matmul"):
            assert not any(facts.fill(i) == 0 for i in node.inputs), node
