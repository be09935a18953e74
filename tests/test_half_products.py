"""Products of bfloat16: float32 sums of exact products, with and without the processor's own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny import nn, optim
from tawny.engine.llvm.runtime.host import INSTRUCTION_SETS, host

BF16 = np.dtype(ml_dtypes.bfloat16)
rng = np.random.default_rng(3)

SHAPES = [((64, 64), (64, 64)), ((5, 40), (40, 7)), ((1, 384), (384, 96)), ((33, 37), (37, 19))]
SHAPES += [((3, 20, 12), (12, 30)), ((2, 4, 16, 16), (2, 4, 16, 16)), ((130, 256), (256, 1))]

KERNELS = [(14, 16, 8, 3, 1, 1), (9, 3, 5, 3, 2, 1), (12, 5, 9, 1, 1, 0), (12, 32, 32, 3, 1, 1)]
"""Side, channels, outputs, window, stride, padding."""


def halves(shape: tuple[int, ...]) -> Any:
    return rng.normal(size=shape).astype(BF16)


def assert_sums(got: Any, exact: Any, size: Any) -> None:
    """Sums in float32, or those rounded: `size` is the sum of the sizes of what was added."""
    unit = 2.0**-20 if got.dtype == "float32" else 2.0**-8
    apart = np.abs(got.astype("float64") - exact)
    assert (apart <= unit * np.abs(exact) + 2.0**-20 * size).all(), apart.max()


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("wide", [True, False])
def test_matrices(known: bool, wide: bool, engine: str) -> None:
    for left, right in SHAPES if engine == "cpu" else SHAPES[::3]:
        a, b = halves(left), halves(right)
        x, y = tw.var("x", left, BF16), tw.var("y", right, BF16)
        factor = tnp.asarray(b) if known else y
        made = x.astype("f4") @ factor.astype("f4") if wide else x @ factor
        program = tw.Graph([x] if known else [x, y], made).compile(engine=engine)
        got = program(x=a) if known else program(x=a, y=b)
        assert got.dtype == ("float32" if wide else BF16)
        one, other = a.astype("f8"), b.astype("f8")
        assert_sums(got, one @ other, np.abs(one) @ np.abs(other))


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize(("side", "channels", "outputs", "window", "stride", "padding"), KERNELS)
def test_convolutions(
    side: int,
    channels: int,
    outputs: int,
    window: int,
    stride: int,
    padding: int,
    wide: bool,
    engine: str,
) -> None:
    image, kernel = halves((2, side, side, channels)), halves((window, window, channels, outputs))
    x, pads = tw.var("x", image.shape, BF16), ((padding, padding),) * 2

    def convolution(a: Any, b: Any, dtype: Any) -> Any:
        return tnp.conv2d(
            a.astype(dtype), tnp.asarray(b).astype(dtype), stride=stride, padding=pads
        )

    program = tw.Graph([x], convolution(x, kernel, "f4" if wide else BF16)).compile(engine=engine)
    exact, size = (
        tw.evaluate(convolution(tnp.asarray(f(image.astype("f8"))), f(kernel.astype("f8")), "f8"))
        for f in (lambda v: v, np.abs)
    )
    assert_sums(program(x=image), exact, size)


@pytest.mark.parametrize("dtype", ["float32", BF16], ids=str)
def test_what_follows_a_product_is_computed_with_it(dtype: Any, engine: str) -> None:
    a, b, bias, rest = halves((40, 48)), halves((48, 33)), halves((33,)), halves((40, 33))
    x, r = tw.var("x", a.shape, BF16), tw.var("r", rest.shape, dtype)

    def layer(x: Any, b: Any, bias: Any, r: Any) -> Any:
        return tnp.maximum(x @ b + bias + r, 0)

    weights = [tnp.asarray(v).astype(dtype) for v in (b, bias)]
    program = tw.Graph([x, r], layer(x.astype(dtype), *weights, r)).compile(engine=engine)
    got = program(x=a, r=rest.astype(dtype))
    exact = tw.evaluate(layer(*[tnp.asarray(v.astype("f8")) for v in (a, b, bias, rest)]))
    size = np.abs(a.astype("f8")) @ np.abs(b.astype("f8")) + 8
    assert got.dtype == dtype
    np.testing.assert_allclose(got.astype("f8"), exact, rtol=1e-2, atol=2.0**-7 * size.max())
    if dtype == "float32":
        assert_sums(got, exact, size)


def names(program: tw.Program) -> list[str]:
    return [step.array.node.name for step in program.plan.steps]


def test_products_of_bfloat16_are_ops_of_their_own() -> None:
    x, weights = tw.var("x", (64, 64), BF16), tnp.asarray(halves((64, 64)))
    graph = tw.Graph([x], tnp.matmul(x.astype("f4"), weights.astype("f4")) + 1)
    assert names(graph.compile())[0] == "matmul_halves"
    assert "matmul_halves" not in names(graph.compile(disable=["half_product"]))
    assert "half_product" in repr(tw.Graph([x], x @ weights).compile().rewrites)


# ------------------------------------------------------------- precision="bfloat16"


def rounded(x: Any) -> Any:
    return x.astype(BF16).astype("float64")


def test_factors_are_rounded_and_all_else_is_float32(engine: str) -> None:
    a, b, c = (rng.normal(size=s).astype("f4") for s in ((32, 48), (48, 40), (40, 24)))
    x = tw.var("x", a.shape, "float32")
    hidden = tnp.tanh(tnp.matmul(x, tnp.asarray(b))) + x[:, :40]
    graph = tw.Graph([x], [hidden, hidden @ tnp.asarray(c)])
    for optimise in (True, False):
        program = graph.compile(engine=engine, precision="bfloat16", optimise=optimise)
        between, got = program(a)
        exact = np.tanh(rounded(a) @ rounded(b)) + a[:, :40]
        assert between.dtype == got.dtype == "float32"
        np.testing.assert_allclose(between, exact, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(got, rounded(between) @ rounded(c), rtol=1e-5, atol=1e-5)
    assert "round factors" in [stage.name for stage in program.explain()]


def test_products_of_other_dtypes_are_left_alone(engine: str) -> None:
    a = rng.normal(size=(20, 20))
    x = tw.var("x", a.shape)
    program = tw.Graph([x], x @ x).compile(engine=engine, precision="bfloat16")
    np.testing.assert_allclose(program(a), a @ a, rtol=1e-12)


def test_products_in_loops_and_gradients_are_rounded_too(engine: str) -> None:
    w = rng.normal(size=(24, 24)).astype("f4") / 6
    x = tw.var("x", (20, 24), "float32")

    def loss(w: Any) -> Any:
        last, _ = tw.scan(lambda c, _: (tnp.tanh(c @ w), None), x, length=3)
        return tnp.sum(last)

    v = tw.var("w", w.shape, "float32")
    graph = tw.Graph([x, v], tw.value_and_grad(loss)(v))
    a = rng.normal(size=(20, 24)).astype("f4")
    found, exact = (graph.compile(engine=engine, precision=p)(a, w) for p in ("bfloat16", None))
    for got, want in zip(found, exact, strict=True):
        assert not np.array_equal(got, want)
        np.testing.assert_allclose(got, want, rtol=0.1, atol=0.1)


def test_networks_are_trained_in_it(engine: str) -> None:
    x = rng.normal(size=(64, 16)).astype("f4")
    y = np.maximum(x @ rng.normal(size=(16, 4)).astype("f4"), 0)
    losses = []
    for precision in (None, "bfloat16"):
        tw.random.seed(2)
        model = nn.Sequential(nn.Linear(16, 32), nn.relu, nn.Linear(32, 4))
        rule = optim.Adam(0.01)
        history = nn.train(
            model, nn.mean_squared, (x, y), rule, 20, batch=32, engine=engine, precision=precision
        )
        losses.append(history.loss)
    assert losses[1][-1] < losses[1][0] / 2
    assert losses[0] != losses[1]


CHILD = """
import hashlib, numpy as np, tawny as tw, tawny.numpy as tnp
from tawny.engine.llvm.runtime.host import host
rng = np.random.default_rng(1)
a, b = (rng.normal(size=s).astype("f4") for s in ((20, 71), (71, 50)))
x = tw.var("x", a.shape, "float32")
graph = tw.Graph([x], tnp.maximum(tnp.matmul(x, tnp.asarray(b)), 0))
got = graph.compile(precision="bfloat16", threads=1)(a)
print(host().multiplies_halves, hashlib.sha256(got.tobytes()).hexdigest())
"""


def run_at(level: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TAWNY_ISA": level},
    )
    return done.stdout.split()


def test_every_instruction_set_gives_the_same_bits() -> None:
    found = {name: run_at(name) for name in (INSTRUCTION_SETS[0].name, "avx2", "sse2")}
    assert len({bits for _, bits in found.values()}) == 1
    assert found["avx2"][0] == "False"
    assert found[INSTRUCTION_SETS[0].name][0] == str(host().multiplies_halves)


def test_weights_of_float32_are_not_looked_at() -> None:
    """Only beside a factor of bfloat16; nor is its package imported."""
    code = """
import sys, numpy, tawny as tw, tawny.numpy as np
x = tw.var("x", (64, 256), "float32")
tw.Graph([x], x @ numpy.ones((256, 128), "float32")).compile()
assert "ml_dtypes" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
