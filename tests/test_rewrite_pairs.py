"""Every op on the result of every other: exact rules keep the bits of all small integers.

Integers wrap around, bytes have no sign, and zeros, infinities and NaN are numbers too: what holds
for ordinary numbers need not hold here, so each pair of ops meets every value of its dtype, or
those at which floating-point rules break.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from random_graphs import assert_same_bits, decides_signs, evaluated
from tawny.array import Array
from tawny.op import ELEMENTWISE
from tawny.operator import emit

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -2.5, 3, 1e-40, -1e-7, 6e4, 200, -300]
VALUES = {
    "bool": np.array([False, True]),
    "int8": np.arange(-128, 128).astype("int8"),
    "uint8": np.arange(256).astype("uint8"),
    "float16": np.array(SPECIAL).astype("float16"),
    "float64": np.array([*SPECIAL, 5e-324, 1e300]),
}
CONSTANTS = (0, 1, -1, 2, 0.5, -0.0)
BINARY = ("add", "subtract", "multiply", "divide", "pow", "maximum", "minimum", "floor_divide")
NARROW = ("int8", "uint8", "int64", "float16", "float32")

Step = Callable[[Array], Array]


def _with_constant(name: str, constant: float, first: bool) -> Step:
    def step(x: Array) -> Array:
        if name == "pow" and x.dtype.kind in "biu" and (first or constant < 0):
            raise ValueError("integers have no negative powers")
        k = tnp.asarray(np.asarray(constant).astype(x.dtype))
        return emit(ELEMENTWISE[name], *((k, x) if first else (x, k)))

    return step


def _steps() -> Iterator[Step]:
    for op in ELEMENTWISE.values():
        if op.info.arity == 1 and op.info.name != "signbit":  # NaN has any sign
            yield lambda x, op=op: emit(op, x)
    for name in BINARY:
        if name != "pow":
            yield lambda x, name=name: emit(ELEMENTWISE[name], x, x)
        for constant in CONSTANTS:
            yield _with_constant(name, constant, True)
            yield _with_constant(name, constant, False)
    for dtype in NARROW:
        yield lambda x, dtype=dtype: tnp.astype(x, dtype)
    yield lambda x: tnp.sum(x, axis=0, keepdims=True, dtype=x.dtype)
    yield lambda x: tnp.max(x, axis=0, keepdims=True)


STEPS = tuple(_steps())


def _applied(x: Array) -> Iterator[Array]:
    for step in STEPS:
        with contextlib.suppress(TypeError, ValueError):
            if (y := step(x)).dtype.kind != "c":
                yield y


def _says_too_little(x: Array, y: Array) -> bool:
    """Floats out of an integer's range become whatever the machine makes of them."""
    return x.dtype.kind == "f" and y.dtype.kind in "iu"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", VALUES)
def test_exact_rules_keep_every_value(dtype: str) -> None:
    x = tw.var("x", shape=VALUES[dtype].shape, dtype=dtype)
    feeds = {x.node: VALUES[dtype]}
    for inner in _applied(x):
        if _says_too_little(x, inner):
            continue
        outer = [y for y in _applied(inner) if not _says_too_little(inner, y)]
        graph = tw.Graph([x], outer, unused="ignore")
        result = tw.optimise(graph, disable=["contracting", "finite", "group"])
        for old, new in zip(graph.output_nodes, result.output_nodes, strict=True):
            if old is not new:
                want = evaluated([old], feeds)
                assert_same_bits(evaluated([new], feeds), want, decides_signs([old]))
