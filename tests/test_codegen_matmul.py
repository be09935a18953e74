"""Products of matrices against NumPy's in float64: all shapes, strides, stacks and epilogues."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codegen_harness import poisoned
from product_harness import (
    ACTIVATIONS,
    COMPLEXES,
    FLOATS,
    called,
    computed,
    ended,
    filled,
    judge,
    layouts,
)
from tawny.engine.cpu.products import blocking, choice, dot
from tawny.engine.cpu.products.matmul import matmul_kernel
from tawny.engine.reference import elementwise
from tawny.ops.fused_products import PLAIN, Activation, Epilogue

INTEGERS = [np.int8, np.uint16, np.int32, np.uint64]


def laid(x: np.ndarray, how: str) -> np.ndarray:
    """`x` in other memory."""
    match how:
        case "transposed" if x.ndim > 1:
            return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
        case "spread":
            return np.repeat(x, 3, axis=-1)[..., ::3]
        case "rows apart" if x.ndim > 1:
            return np.repeat(x, 2, axis=-2)[..., ::2, :]
        case "backwards":
            return np.ascontiguousarray(x[..., ::-1])[..., ::-1]
        case _:
            return x


LAYOUTS = ["plain", "transposed", "spread", "rows apart", "backwards"]


def multiply(
    a: np.ndarray,
    b: np.ndarray,
    extra: list[np.ndarray] | None = None,
    epilogue: Epilogue = PLAIN,
    transposed: tuple[bool, bool] = (False, False),
    prepared: bool = False,
    workers: int = 3,
) -> np.ndarray | None:
    """The product by a kernel, compared with NumPy's; None where there is no kernel."""
    extra = extra or []
    left = a.swapaxes(-1, -2) if transposed[0] else a
    right = b.swapaxes(-1, -2) if transposed[1] else b
    shape = np.matmul(np.zeros(left.shape, bool), np.zeros(right.shape, bool)).shape
    la, lb, *le = layouts(a, b, *extra)
    result = poisoned(shape, a.dtype)
    made = matmul_kernel(
        la,
        lb,
        *layouts(result),
        le,
        transposed=transposed,
        epilogue=epilogue,
        workers=workers,
        prepared=prepared,
    )
    if made is None:
        return None
    code, preparation = made
    given = b if preparation is None else preparation(b)
    got = computed(code, [a, given, *extra], shape, a.dtype)
    op = epilogue.activation.op
    judge(
        got,
        np.matmul,
        (left, right),
        left.shape[-1],
        extra,
        (lambda x: x) if op is None else (lambda x: elementwise.compute(op, (x,))),
    )
    return got


sizes = st.integers(1, 70)


@settings(max_examples=60, deadline=None)
@given(
    sizes,
    sizes,
    sizes,
    st.sampled_from([np.float32, np.float64, *COMPLEXES]),
    st.sampled_from(LAYOUTS),
    st.sampled_from(LAYOUTS),
    st.booleans(),
)
@example(64, 64, 64, np.float32, "plain", "plain", False)
@example(1, 70, 1, np.float32, "spread", "transposed", False)
@example(60, 41, 33, np.complex64, "transposed", "transposed", False)
@example(3, 70, 33, np.complex128, "plain", "transposed", True)
def test_any_size_and_layout(rows, depth, columns, dtype, left, right, prepared):
    rng = np.random.default_rng(rows * 71 + columns)
    a = laid(filled(rng, (rows, depth), dtype), left)
    b = laid(filled(rng, (depth, columns), dtype), right)
    assert multiply(a, b, prepared=prepared) is not None


@pytest.mark.parametrize("dtype", FLOATS + COMPLEXES + INTEGERS)
@pytest.mark.parametrize("right", ["plain", "transposed"])
@pytest.mark.parametrize("shape", [(1, 40, 33), (4, 33, 20), (13, 9, 70), (50, 37, 17)])
def test_dtypes(dtype, right, shape):
    rows, depth, columns = shape
    rng = np.random.default_rng(1)
    a, b = filled(rng, (rows, depth), dtype), filled(rng, (depth, columns), dtype)
    assert multiply(a, laid(b, right)) is not None


def test_long_common_axes_are_cut_into_blocks():
    rng = np.random.default_rng(2)
    for rows, depth, columns in ((7, 5000, 70), (1, 9001, 40), (130, 3001, 65), (9, 4000, 3)):
        dtype = np.complex64 if rows == 9 else np.float32
        a, b = filled(rng, (rows, depth), dtype), filled(rng, (depth, columns), dtype)
        for right, prepared in itertools.product(("plain", "transposed"), (False, True)):
            assert multiply(a, laid(b, right), prepared=prepared) is not None


CUTS = {
    "short blocks": [(blocking, "PANEL_BYTES", 2**13)],
    "short blocks of few tiles": [(blocking, "PANEL_BYTES", 2**13), (blocking, "CHUNK_TILES", 2)],
    "packed": [(choice, "PACKING_BYTES", 0)],
    "packed in short blocks": [(choice, "PACKING_BYTES", 0), (blocking, "PANEL_BYTES", 2**13)],
    "packed block by block": [(choice, "PACKING_BYTES", 0), (blocking, "PACKED_BYTES", 64)],
    "streamed": [(choice, "STREAMED_BYTES", 0)],
    "two columns together": [(dot, "TOGETHER", 2)],
}


@pytest.mark.parametrize("way", CUTS)
def test_every_way_of_cutting(monkeypatch, way):
    for module, name, value in CUTS[way]:
        monkeypatch.setattr(module, name, value)
    rng = np.random.default_rng(3)
    for rows, depth, columns in ((200, 150, 150), (33, 400, 200), (2, 300, 333)):
        a, b = filled(rng, (rows, depth), np.float32), filled(rng, (depth, columns), np.float32)
        bias = filled(rng, (columns,), np.float32)
        residual = filled(rng, (rows, columns), np.float32)
        for right in ("plain", "transposed", "spread"):
            assert multiply(a, laid(b, right)) is not None
            epilogue = Epilogue(True, True, Activation.RELU)
            assert multiply(a, laid(b, right), [bias, residual], epilogue) is not None


@pytest.mark.parametrize("rows", [6, 7, 11, 12, 16, 31, 32])
@pytest.mark.parametrize("dtype", FLOATS)
def test_columns_side_by_side_need_no_packing_for_some_rows(monkeypatch, rows, dtype):
    used = []
    made = dot.dot_kernel
    monkeypatch.setattr(dot, "dot_kernel", lambda *a, **k: used.append(rows) or made(*a, **k))
    rng = np.random.default_rng(rows)
    epilogue = Epilogue(True, True, Activation.RELU)
    for depth, columns in ((128, 64), (200, 70)):
        a = filled(rng, (rows, depth), dtype)
        b = laid(filled(rng, (depth, columns), dtype), "transposed")
        bias, residual = filled(rng, (columns,), dtype), filled(rng, (rows, columns), dtype)
        assert multiply(a, b) is not None
        assert multiply(a, b, [bias, residual], epilogue) is not None
    assert len(used) == 4


STACKS = [
    ((3, 5, 7), (3, 7, 4)),
    ((3, 5, 7), (7, 4)),
    ((5, 7), (3, 7, 4)),
    ((2, 1, 5, 7), (3, 7, 4)),
    ((2, 3, 5, 7), (2, 1, 7, 20)),
    ((4, 2, 3, 20, 9), (4, 1, 3, 9, 17)),
    ((7,), (7,)),
    ((7,), (7, 4)),
    ((5, 7), (7,)),
    ((3, 5, 40), (40,)),
    ((2, 3, 5, 7), (7,)),
    ((7,), (3, 7, 4)),
    ((3, 5, 7), (3, 7, 1)),
    ((3, 1, 70), (3, 70, 1)),
    ((6, 40, 1), (6, 1, 20)),
]


@pytest.mark.parametrize(("left", "right"), STACKS)
def test_stacks_and_vectors(left, right):
    rng = np.random.default_rng(4)
    for how, other in itertools.product(("plain", "transposed", "spread"), repeat=2):
        a = laid(filled(rng, left, np.float64), how)
        b = laid(filled(rng, right, np.float64), other)
        assert multiply(a, b) is not None
        assert multiply(a, b, prepared=True) is not None


def test_operands_that_repeat():
    rng = np.random.default_rng(5)
    row, column = filled(rng, (1, 40), np.float32), filled(rng, (40, 1), np.float32)
    a, b = np.broadcast_to(row, (33, 40)), np.broadcast_to(column, (40, 50))
    assert multiply(a, b) is not None
    assert multiply(np.broadcast_to(filled(rng, (5, 6), np.float32), (4, 5, 6)), b[:6]) is not None


def test_flags_exchange_the_last_axes():
    rng = np.random.default_rng(6)
    a, b = filled(rng, (3, 9, 20), np.float32), filled(rng, (3, 33, 9), np.float32)
    assert multiply(a, b, transposed=(True, True)) is not None
    weights = filled(rng, (33, 9), np.float32)
    for prepared in (False, True):
        assert multiply(a, weights, transposed=(True, True), prepared=prepared) is not None


EMPTY = [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 0, 1), (0, 0, 0), (40, 0, 70)]


@pytest.mark.parametrize(("rows", "depth", "columns"), EMPTY)
def test_empty_axes(rows, depth, columns):
    a, b = np.ones((2, rows, depth), np.float32), np.ones((depth, columns), np.float32)
    assert multiply(a, b) is not None
    assert multiply(a[0], laid(b, "transposed")) is not None
    assert multiply(a[:0], b) is not None
    bias = np.arange(columns, dtype=np.float32) - 1
    assert multiply(a, b, [bias], Epilogue(bias=True, activation=Activation.RELU)) is not None


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("bias", "residual"), [(True, False), (False, True), (True, True)])
def test_epilogues(dtype, activation, bias, residual):
    rng = np.random.default_rng(7)
    epilogue = Epilogue(bias, residual, activation)
    for left, right in (((20, 9), (9, 70)), ((3, 40), (40, 21)), ((2, 5, 40), (40,))):
        a, b = filled(rng, left, dtype), filled(rng, right, dtype)
        shape = np.matmul(a, b).shape
        extra = [filled(rng, shape[-1:], dtype)] * bias + [filled(rng, shape, dtype)] * residual
        for how in ("plain", "transposed"):
            assert multiply(a, laid(b, how), extra, epilogue) is not None


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU])
@pytest.mark.parametrize("has_residual", [False, True])
def test_products_are_scaled_before_the_bias(dtype, activation, has_residual):
    rng = np.random.default_rng(7)
    epilogue = Epilogue(True, has_residual, activation, scaled=True)
    for left, right in (
        ((20, 9), (9, 70)),
        ((3, 40), (40, 21)),
        ((200, 300), (300, 300)),
        ((5, 200), (200, 90)),
        ((40,), (40, 9)),
        ((7, 9), (9, 1)),
        ((3, 6, 9), (9, 1)),
        ((2, 5, 40), (40, 33)),
        ((2, 5, 40), (2, 40, 33)),
    ):
        a, b = filled(rng, left, dtype), filled(rng, right, dtype)
        for how, prepared in (("plain", False), ("transposed", False), ("transposed", True)):
            laid_b = laid(b, how)
            product = multiply(a, laid_b, prepared=prepared)
            both = filled(rng, (2, *product.shape[-1:]), dtype)
            residual = [filled(rng, product.shape, dtype)] * has_residual
            code, preparation = matmul_kernel(
                *layouts(a, laid_b, poisoned(product.shape, a.dtype)),
                layouts(both, *residual),
                epilogue=epilogue,
                workers=3,
                prepared=prepared,
            )
            given = laid_b if preparation is None else preparation(laid_b)
            got = computed(code, [a, given, both, *residual], product.shape, a.dtype)
            np.testing.assert_array_equal(got, ended(product, both, residual, activation))


def test_a_bias_may_be_one_number_or_have_leading_axes():
    rng = np.random.default_rng(8)
    a, b = filled(rng, (3, 6, 9), np.float32), filled(rng, (9, 1), np.float32)
    for bias in (np.float32([2.5]), np.float32([[[2.5]]])):
        assert multiply(a, b, [bias], Epilogue(bias=True)) is not None
    wide = filled(rng, (9, 20), np.float32)
    bias = filled(rng, (1, 20), np.float32)
    assert multiply(a, wide, [bias], Epilogue(bias=True)) is not None


def test_relu_keeps_nan():
    a, b = np.float32([[np.nan, 1], [-1, 1]]), np.eye(2, dtype=np.float32)
    a_, b_ = layouts(a, b)
    result = poisoned((2, 2), a.dtype)
    made = matmul_kernel(a_, b_, *layouts(result), epilogue=Epilogue(activation=Activation.RELU))
    called(made.code, [a, b], result, 1)
    np.testing.assert_array_equal(result, [[np.nan, np.nan], [0, 1]])


@pytest.mark.parametrize("depth", [20, 3000])
@pytest.mark.parametrize("right", ["plain", "transposed"])
def test_the_result_may_lie_over_the_residual(depth, right):
    rng = np.random.default_rng(9)
    for rows, columns in ((40, 70), (3, 200)):
        a, b = filled(rng, (rows, depth), np.float32), filled(rng, (depth, columns), np.float32)
        b, residual = laid(b, right), filled(rng, (rows, columns), np.float32)
        result = poisoned((rows, columns), a.dtype)
        la, lb, lr = layouts(a, b, residual)
        epilogue = Epilogue(residual=True)
        made = matmul_kernel(la, lb, *layouts(result), [lr], epilogue=epilogue, workers=2)
        result[...] = residual
        called(made.code, [a, b, result], result, 2)
        judge(result, np.matmul, (a, b), depth, [residual])


def test_what_is_left_to_numpy():
    truth, complex_ = np.ones((3, 3), bool), np.ones((3, 3), np.complex64)
    assert multiply(truth, truth) is None
    a = np.ones((3, 3), np.float32)
    assert multiply(a, a, [laid(a[0], "spread")], Epilogue(bias=True)) is None
    assert multiply(a, a, [laid(a, "transposed")], Epilogue(residual=True)) is None
    assert multiply(a, a.astype(np.float64)) is None
    scaled = Epilogue(bias=True, scaled=True)
    assert multiply(complex_, complex_, [complex_[:2]], scaled) is None


def test_code_serves_many_sizes():
    """Kernels of other sizes and strides are the same code, told other numbers."""
    rng = np.random.default_rng(10)
    libraries = set()
    for rows, depth, columns in ((60, 40, 128), (301, 7, 64), (1000, 500, 640)):
        a, b = filled(rng, (rows, depth), np.float32), filled(rng, (depth, columns), np.float32)
        for left in ("plain", "transposed"):
            la, lb = layouts(laid(a, left), b)
            made = matmul_kernel(la, lb, *layouts(poisoned((rows, columns), a.dtype)))
            libraries.add(made.code.library.address(made.code.symbol))
    assert len(libraries) <= 2, "with and without scratch memory"


def test_small_products_are_not_shared():
    def shared(n: int) -> bool:
        a = np.ones((n, n), np.float32)
        made = matmul_kernel(*layouts(a, a, a), workers=4)
        return made.code.parallel

    assert not shared(32)
    assert shared(256)
