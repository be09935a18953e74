"""Products of bytes: exact on every engine, with and without the processor's instruction for them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.engine.llvm.runtime.host import INSTRUCTION_SETS, host

rng = np.random.default_rng(3)

SHAPES = [((64, 64), (64, 64)), ((5, 40), (40, 7)), ((1, 384), (384, 96)), ((33, 37), (37, 19))]
SHAPES += [((3, 20, 12), (12, 30)), ((2, 4, 16, 16), (2, 4, 16, 16)), ((130, 256), (256, 1))]

KERNELS = [(14, 16, 8, 3, 1, 1), (9, 3, 5, 3, 2, 1), (12, 5, 9, 1, 1, 0), (11, 8, 17, 5, 2, 2)]
"""Side, channels, outputs, window, stride, padding."""


def bytes_of(shape: tuple[int, ...], dtype: str) -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matrices(left: Any, right: Any, known: bool, engine: str) -> None:
    a, b = bytes_of(left, "uint8"), bytes_of(right, "int8")
    x, y = tw.var("x", left, "uint8"), tw.var("y", right, "int8")
    factor = tnp.asarray(b) if known else y
    made = tnp.matmul(x.astype("int32"), factor.astype("int32"))
    program = tw.Graph([x] if known else [x, y], {"made": made}).compile(engine=engine)
    got = program(x=a)["made"] if known else program(x=a, y=b)["made"]
    np.testing.assert_array_equal(got, np.matmul(a.astype("int32"), b.astype("int32")))


@pytest.mark.parametrize(("side", "channels", "outputs", "window", "stride", "padding"), KERNELS)
def test_convolutions(
    side: int, channels: int, outputs: int, window: int, stride: int, padding: int, engine: str
) -> None:
    image = bytes_of((2, side, side, channels), "uint8")
    kernel = bytes_of((window, window, channels, outputs), "int8")
    x = tw.var("x", image.shape, "uint8")
    pads = ((padding, padding),) * 2

    def convolution(a: Any, b: Any, dtype: str) -> Any:
        return tnp.conv2d(
            a.astype(dtype), tnp.asarray(b).astype(dtype), stride=stride, padding=pads
        )

    program = tw.Graph([x], {"y": convolution(x, kernel, "int32")}).compile(engine=engine)
    want = tw.evaluate(convolution(tnp.asarray(image), kernel, "float64"))
    np.testing.assert_array_equal(program(x=image)["y"], want)


def test_images_and_kernels_that_are_turned_when_they_are_wide(engine: str) -> None:
    """Files have channels first: casts lie beneath the moves of axes."""
    image, kernel = bytes_of((2, 12, 9, 9), "uint8"), bytes_of((24, 12, 3, 3), "int8")
    x = tw.var("x", image.shape, "uint8")
    wide = tnp.transpose(x.astype("int32"), (0, 2, 3, 1))
    for given in (tnp.asarray(kernel), tw.var("k", kernel.shape, "int8")):
        factor = tnp.transpose(given.astype("int32"), (2, 3, 1, 0))
        graph = tw.Graph([x] if given.node.known else [x, given], tnp.conv2d(wide, factor))
        program = graph.compile(engine=engine)
        got = program(image) if given.node.known else program(image, kernel)
        turned = image.transpose(0, 2, 3, 1), kernel.transpose(2, 3, 1, 0)
        want = tw.evaluate(tnp.conv2d(*[tnp.asarray(a.astype("float64")) for a in turned]))
        np.testing.assert_array_equal(got, want)
        if engine == "cpu" and host().multiplies_bytes:
            assert "convolution_bytes" in [s.array.node.name for s in program.plan.steps]


WOVEN = [((6, 4, 64), "int8"), ((3, 7, 2, 33), "uint8"), ((5, 2, 40), "float16"), ((4, 17), "int8")]
WOVEN += [((2, 3, 4, 50), "bool"), ((4, 5), "int8"), ((3, 4, 40), "int16"), ((2, 8, 40), "int8")]


@pytest.mark.parametrize(("shape", "dtype"), WOVEN)
def test_rows_are_woven(shape: tuple[int, ...], dtype: str) -> None:
    """A few rows of short numbers, the first of each side by side."""
    values = rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    x = tw.var("x", shape, dtype)
    for node, given in ((x, values), (x[..., ::2], values[..., ::2])):
        graph = tw.Graph([x], tnp.reshape(tnp.swapaxes(node, -1, -2), (-1,)))
        want = np.swapaxes(given, -1, -2).ravel()
        np.testing.assert_array_equal(graph.compile()(values), want)


def test_products_of_bytes_are_ops_of_their_own() -> None:
    x = tw.var("x", (64, 64), "uint8")
    weights = tnp.asarray(bytes_of((64, 64), "int8"))
    graph = tw.Graph([x], tnp.matmul(x.astype("int32"), weights.astype("int32")))
    names = [step.array.node.name for step in graph.compile().plan.steps]
    assert names == ["matmul_bytes"]
    plain = graph.compile(disable=["byte_product"])
    assert "matmul_bytes" not in [step.array.node.name for step in plain.plan.steps]


@pytest.mark.parametrize("known", [True, False])
def test_matrices_in_loops(known: bool, engine: str) -> None:
    """The weights of recurrent layers are the same in all steps."""
    weights, first = bytes_of((40, 40), "int8"), bytes_of((2, 40), "uint8")
    x, y = tw.var("x", first.shape, "uint8"), tw.var("y", weights.shape, "int8")
    factor = tnp.asarray(weights) if known else y

    def step(carry: Any, _: Any) -> tuple[Any, Any]:
        sums = tnp.matmul(carry.astype("int32"), factor.astype("int32"))
        return tnp.clip(tnp.abs(sums) // 64, 0, 255).astype("uint8"), sums

    last, sums = tw.scan(step, x, length=5)
    graph = tw.Graph([x] if known else [x, y], [last, sums])
    got = graph.compile(engine=engine)(*([first] if known else [first, weights]))
    carry, rows = first, []
    for _ in range(5):
        rows.append(np.matmul(carry.astype("int32"), weights.astype("int32")))
        carry = np.clip(np.abs(rows[-1]) // 64, 0, 255).astype("uint8")
    np.testing.assert_array_equal(got[0], carry)
    np.testing.assert_array_equal(got[1], np.stack(rows))
    if known and engine == "cpu":
        assert "byte_product" in {r.rule.name for r in graph.compile().rewrites}


@pytest.mark.parametrize("right", [np.full((64, 8), 128), np.full((64, 8), -129)])
def test_numbers_that_do_not_fit_bytes_are_not_taken_for_them(right: Any) -> None:
    a = bytes_of((64, 64), "uint8")
    x = tw.var("x", a.shape, "uint8")
    made = tnp.matmul(x.astype("int32"), tnp.asarray(right.astype("int32")))
    got = tw.Graph([x], {"y": made}).compile()(x=a)["y"]
    np.testing.assert_array_equal(got, a.astype("int64") @ right)


CHILD = """
import numpy as np, tawny as tw, tawny.numpy as tnp
from tawny.engine.llvm.runtime.host import host
a = np.full((20, 70), 255, "uint8")
b = np.tile(np.array([-128, 127, -1, 0, 1], "int8"), (70, 8))
x = tw.var("x", a.shape, "uint8")
made = tnp.matmul(x.astype("int32"), tnp.asarray(b).astype("int32"))
got = tw.Graph([x], {"y": made}).compile()(x=a)["y"]
assert (got == a.astype("int64") @ b).all()
print(host().multiplies_bytes)
"""


@pytest.mark.parametrize("level", [s.name for s in INSTRUCTION_SETS] + ["sse2"])
def test_every_instruction_set_gives_the_same(level: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TAWNY_ISA": level},
    )
    if level in {"avx2", "sse2"}:
        assert done.stdout.strip() == "False"
    if level == INSTRUCTION_SETS[0].name:
        assert done.stdout.strip() == str(host().multiplies_bytes)
