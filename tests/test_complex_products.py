"""Products and convolutions of complex numbers: by compiled code, as NumPy computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import tawny as tw
import tawny.numpy as np
from product_harness import COMPLEXES, filled
from tawny.engine.cpu import numpy_steps

Product = Callable[..., Any]

PRODUCTS: dict[str, tuple[Product, tuple[int, ...], tuple[int, ...]]] = {
    "matmul": (lambda np, a, b: a @ b, (33, 40), (40, 21)),
    "transposed": (lambda np, a, b: a.T @ b.T, (40, 33), (21, 40)),
    "conjugated": (lambda np, a, b: np.conj(a).T @ np.conj(b), (40, 33), (40, 21)),
    "of a stack": (lambda np, a, b: np.matmul(a, b), (3, 20, 17), (3, 17, 9)),
    "of a stack with one": (lambda np, a, b: np.matmul(a, b), (3, 20, 17), (17, 9)),
    "matrix and vector": (lambda np, a, b: a @ b, (33, 40), (40,)),
    "vector and matrix": (lambda np, a, b: a @ b, (40,), (40, 33)),
    "dot": (lambda np, a, b: np.dot(a, b), (133,), (133,)),
    "vdot": (lambda np, a, b: np.vdot(a, b), (133,), (133,)),
    "inner": (lambda np, a, b: np.inner(a, b), (12, 40), (7, 40)),
    "outer": (lambda np, a, b: np.outer(a, b), (33,), (21,)),
    "tensordot": (lambda np, a, b: np.tensordot(a, b, 2), (9, 8, 7), (8, 7, 11)),
    "einsum": (lambda np, a, b: np.einsum("bij,bkj->bik", a, b), (3, 20, 17), (3, 9, 17)),
    "with a bias": (lambda np, a, b: a @ b + b[0], (33, 40), (40, 21)),
    "and what follows": (lambda np, a, b: np.exp(a @ b / 40), (33, 40), (40, 21)),
    "convolve": (lambda np, a, b: np.convolve(a, b), (90,), (7,)),
    "correlate": (lambda np, a, b: np.correlate(a, b, "same"), (90,), (7,)),
}


@pytest.fixture
def noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that NumPy computes is worth a warning, which is an error here."""
    monkeypatch.setattr(numpy_steps, "NOTICEABLE", 0.0)


def close(got: Any, want: numpy.ndarray) -> None:
    assert got.dtype == want.dtype
    unit = float(numpy.finfo(want.dtype).eps)
    numpy.testing.assert_allclose(got, want, rtol=300 * unit, atol=300 * unit * 10)


@pytest.mark.usefixtures("noticed")
@pytest.mark.parametrize("name", PRODUCTS)
def test_values_are_numpys(engine: str, name: str) -> None:
    product, left, right = PRODUCTS[name]
    for seed, dtype in enumerate(COMPLEXES):
        rng = numpy.random.default_rng(seed)
        a, b = filled(rng, left, dtype), filled(rng, right, dtype)
        x, y = tw.var("x", shape=left, dtype=dtype), tw.var("y", shape=right, dtype=dtype)
        program = tw.Graph([x, y], [product(np, x, y)]).compile(engine=engine)
        close(program(a, b)[0], product(numpy, a, b))
        close(program(y=2 * b)[0], product(numpy, a, 2 * b))


@pytest.mark.usefixtures("noticed")
@pytest.mark.parametrize("dtype", COMPLEXES)
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_are_made_of_real_ones(dtype: type, groups: int) -> None:
    rng = numpy.random.default_rng(0)
    shapes = (2, 9, 8, 6), (3, 3, 6 // groups, 10)
    x, kernel = (filled(rng, shape, dtype) for shape in shapes)

    @tw.jit
    def convolved(x: Any, kernel: Any) -> Any:
        return np.conv2d(x, kernel, padding="SAME", groups=groups)

    parts = [[convolved(a, b) for b in (kernel.real, kernel.imag)] for a in (x.real, x.imag)]
    (rr, ri), (ir, ii) = ([numpy.asarray(part) for part in row] for row in parts)
    close(numpy.asarray(convolved(x, kernel)), (rr - ii + 1j * (ri + ir)).astype(dtype))


@pytest.mark.parametrize("columns", [1, 2, 30])
def test_each_part_is_infinite_or_no_number_where_its_sum_is(engine: str, columns: int) -> None:
    """As sums of elementwise products are; BLAS mixes parts by multiplying with 1 + 0j."""
    rng = numpy.random.default_rng(1)
    a, b = filled(rng, (31, 5), numpy.complex128), filled(rng, (5, columns), numpy.complex128)
    a[3, 2], a[7, 0], a[8, 4], b[1, 0] = complex(numpy.inf, 1), numpy.nan, -numpy.inf, 0
    with numpy.errstate(all="ignore"):
        want = (a[:, :, None] * b).sum(axis=1)
    x, y = (tw.var(shape=m.shape, dtype=m.dtype) for m in (a, b))
    (got,) = tw.Graph([x, y], [x @ y]).compile(engine=engine)(a, b)
    if engine == "cpu":
        for part in ("real", "imag"):
            numpy.testing.assert_allclose(getattr(got, part), getattr(want, part), rtol=1e-12)
    else:
        whole = numpy.isfinite(want)
        numpy.testing.assert_allclose(got[whole], want[whole], rtol=1e-12)
    assert not numpy.isfinite(got[~numpy.isfinite(want)]).any()


def test_functions_that_numpy_computes_leave_the_product_to_compiled_code() -> None:
    x = tw.var("x", shape=(4, 4), dtype="complex128")
    program = tw.Graph([x], [np.tanh(x @ x)]).compile()
    a = filled(numpy.random.default_rng(3), (4, 4), numpy.complex128)
    close(program(a)[0], numpy.tanh(a @ a))
    assert not [rewrite for rewrite in program.rewrites if rewrite.rule == "product_activation"]


@pytest.mark.usefixtures("noticed")
@pytest.mark.parametrize("name", ["matmul", "of a stack", "vdot", "einsum", "convolve"])
def test_gradients_are_those_of_the_parts(name: str) -> None:
    """The slope along any direction, from the real products of the parts."""
    product, left, right = PRODUCTS[name]
    rng = numpy.random.default_rng(2)
    a, b = (filled(rng, shape, numpy.complex128) for shape in (left, right))
    slope = filled(rng, product(numpy, a, b).shape, numpy.complex128)

    def loss(a: Any, b: Any) -> Any:
        return np.real(np.sum(product(np, a, b) * slope))

    gradients = tw.jit(tw.grad(loss, (0, 1)))(a, b)
    for gradient, place in zip(gradients, (0, 1), strict=True):
        step = filled(rng, (a, b)[place].shape, numpy.complex128)
        moved = [a, b]
        moved[place] = step  # products are linear in each operand, or in its conjugate
        want = numpy.real(numpy.sum(product(numpy, *moved) * slope))
        got = numpy.real(numpy.sum(numpy.asarray(gradient) * step))
        numpy.testing.assert_allclose(got, want, rtol=1e-9)
