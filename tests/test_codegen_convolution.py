"""Convolutions and their gradients against the reference kernels, over all of their geometry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
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
from tawny.engine.cpu.kernels.element import element_of
from tawny.engine.cpu.products import (
    blocking,
    choice,
    convolution,
    winograd,
    winograd_gradient,
)
from tawny.engine.cpu.products.convolution import (
    convolution_kernel,
    input_gradient_kernel,
    kernel_gradient_kernel,
)
from tawny.engine.reference import elementwise
from tawny.engine.reference.kernel import KERNELS
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
)
from tawny.ops.fused_products import PLAIN, Activation, Epilogue


@dataclass(frozen=True)
class Case:
    """A convolution: its input's and its kernel's shape, and its attributes."""

    x: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int = 1

    @property
    def geometry(self):
        return self.strides, self.padding, self.dilation, self.groups

    @property
    def forward(self) -> Convolution:
        return Convolution(*self.geometry)

    @property
    def result(self) -> tuple[int, ...]:
        return self.forward.infer_shape(self.x, self.kernel)


def plain(x, kernel, strides=1, padding=0, dilation=1, groups=1) -> Case:
    rank = len(x) - 2
    pads = ((padding, padding),) * rank
    return Case(x, kernel, (strides,) * rank, pads, (dilation,) * rank, groups)


def convolve(
    case: Case,
    x: np.ndarray,
    kernel: np.ndarray,
    extra: list[np.ndarray] | None = None,
    epilogue: Epilogue = PLAIN,
    prepared: bool = False,
) -> np.ndarray | None:
    """The convolution by a kernel, compared with the reference; None where there is no kernel."""
    extra, op, shape = extra or [], case.forward, case.result
    lx, lk, *le = layouts(x, kernel, *extra)
    result = poisoned(shape, x.dtype)
    made = convolution_kernel(
        op, lx, lk, *layouts(result), le, epilogue=epilogue, workers=3, prepared=prepared
    )
    if made is None:
        return None
    code, preparation = made
    given = kernel if preparation is None else preparation(kernel)
    got = computed(code, [x, given, *extra], shape, x.dtype)
    last = epilogue.activation.op
    judge(
        got,
        partial(KERNELS[Convolution], op),
        (x, kernel),
        int(np.prod(case.kernel[:-1])),
        extra,
        (lambda v: v) if last is None else (lambda v: elementwise.compute(last, (v,))),
    )
    return got


def input_gradient(case: Case, kernel: np.ndarray, gradient: np.ndarray) -> np.ndarray | None:
    op = ConvolutionInputGradient(*case.geometry, case.x[1:-1])
    result = poisoned(case.x, kernel.dtype)
    code = input_gradient_kernel(op, *layouts(kernel, gradient, result), workers=3)
    if code is None:
        return None
    got = computed(code, [kernel, gradient], case.x, kernel.dtype)
    reference = partial(KERNELS[ConvolutionInputGradient], op)
    length = int(np.prod(case.kernel[:-2])) * case.kernel[-1]
    judge(got, reference, (kernel, gradient), length)
    return got


def kernel_gradient(case: Case, x: np.ndarray, gradient: np.ndarray) -> np.ndarray | None:
    op = ConvolutionKernelGradient(*case.geometry, case.kernel[:-2])
    result = poisoned(case.kernel, x.dtype)
    code = kernel_gradient_kernel(op, *layouts(x, gradient, result), workers=3)
    if code is None:
        return None
    got = computed(code, [x, gradient], case.kernel, x.dtype)
    reference = partial(KERNELS[ConvolutionKernelGradient], op)
    length = int(np.prod(case.result[:-1]))
    judge(got, reference, (x, gradient), length)
    return got


def check_all(case: Case, dtype: type, prepared: bool = False) -> None:
    """All three kernels of a geometry."""
    rng = np.random.default_rng(sum(case.x) + 7 * sum(case.kernel))
    x, kernel = filled(rng, case.x, dtype), filled(rng, case.kernel, dtype)
    gradient = filled(rng, case.result, dtype)
    assert convolve(case, x, kernel, prepared=prepared) is not None
    assert input_gradient(case, kernel, gradient) is not None
    assert kernel_gradient(case, x, gradient) is not None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 3))
    small = st.integers(1, 4)

    def each(numbers) -> tuple[int, ...]:
        return tuple(draw(numbers) for _ in range(rank))

    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    channels, outputs = draw(st.integers(1, 20)), draw(st.integers(1, 40))
    spatial = each(st.integers(1, 12 if rank < 3 else 5))
    pads = tuple((draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in range(rank))
    case = Case(
        (draw(st.integers(1, 3)), *spatial, channels * groups),
        (*each(small), channels, outputs * groups),
        each(st.integers(1, 3)),
        pads,
        each(st.integers(1, 3)),
        groups,
    )
    try:
        assume(all(case.result))
    except ValueError:
        assume(False)
    return case


@settings(max_examples=30, deadline=None)
@given(cases(), st.sampled_from([np.float32, np.float64, *COMPLEXES]), st.booleans())
def test_any_geometry(case, dtype, prepared):
    check_all(case, dtype, prepared)


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEXES, np.int16, np.uint32])
def test_dtypes(dtype):
    check_all(plain((2, 9, 8, 6), (3, 3, 6, 21), padding=1), dtype)
    check_all(plain((1, 9, 8, 6), (3, 3, 3, 4), strides=2, padding=1, groups=2), dtype)


LAYERS = {
    "one by one": plain((2, 7, 9, 40), (1, 1, 40, 70)),
    "one by one with stride": plain((2, 9, 9, 40), (1, 1, 40, 70), strides=2),
    "one by one in groups": plain((2, 7, 7, 40), (1, 1, 10, 64), groups=4),
    "late": plain((1, 7, 7, 150), (3, 3, 150, 130), padding=1),
    "first": plain((1, 23, 21, 3), (7, 7, 3, 64), strides=2, padding=3),
    "digits": plain((5, 12, 12, 1), (5, 5, 1, 32), padding=2),
    "dilated": plain((1, 20, 20, 16), (3, 3, 16, 16), padding=4, dilation=4),
    "groups of two": plain((2, 9, 9, 64), (3, 3, 2, 64), padding=1, groups=32),
    "groups of three, twice as many outputs": plain((1, 9, 7, 12), (3, 3, 3, 24), 2, 1, groups=4),
    "groups of four": plain((1, 9, 9, 48), (5, 5, 4, 48), padding=2, groups=12),
    "groups of five, one output": plain((1, 9, 9, 20), (3, 3, 5, 4), padding=1, groups=4),
    "groups of eight": plain((2, 28, 28, 64), (3, 3, 8, 64), padding=1, groups=8),
    "groups of eight, long lines": plain((2, 5, 112, 16), (3, 3, 8, 16), padding=1, groups=2),
    "groups of eight, odd lines": plain((1, 5, 37, 16), (3, 3, 8, 16), padding=1, groups=2),
    "groups of eight, three of them": plain((1, 5, 59, 24), (3, 3, 8, 24), 2, 1, groups=3),
    "groups of four, long strides": plain((1, 9, 50, 32), (2, 5, 4, 32), 3, 1, groups=8),
    "groups of thirty-two": plain((2, 5, 14, 64), (3, 3, 32, 64), padding=1, groups=2),
    "groups of sixteen": plain((3, 7, 7, 32), (3, 3, 16, 32), padding=1, groups=2),
    "groups of sixteen, half as many outputs": plain((1, 9, 9, 64), (3, 3, 16, 32), 1, 1, groups=4),
    "groups of eight, strides": plain((2, 9, 56, 16), (3, 3, 8, 16), 2, 1, groups=2),
    "groups of sixteen, strides": plain((2, 9, 28, 32), (3, 3, 16, 32), 2, 1, groups=2),
    "groups in a sequence": plain((3, 50, 32), (5, 8, 32), padding=2, groups=4),
    "groups in a volume": plain((1, 5, 6, 7, 32), (3, 2, 3, 8, 32), padding=1, groups=4),
    "depthwise": plain((2, 9, 9, 24), (3, 3, 1, 24), padding=1, groups=24),
    "depthwise, two windows each": plain((2, 9, 9, 24), (3, 3, 1, 48), padding=1, groups=24),
    "window larger than the input": plain((1, 2, 2, 5), (5, 5, 5, 9), padding=3),
    "stride larger than the window": plain((1, 11, 11, 4), (2, 2, 4, 6), strides=3),
    "dilation and stride": plain((1, 17, 17, 4), (3, 3, 4, 6), strides=4, dilation=2),
    "one output": plain((2, 13, 29, 8), (5, 5, 8, 1), padding=2),
    "five outputs, long lines": plain((1, 3, 61, 3), (3, 9, 3, 5), strides=2, padding=1),
    "eight outputs": plain((1, 6, 50, 8), (3, 15, 8, 8), padding=7),
    "one output, nothing around": plain((2, 400, 1), (64, 1, 1), strides=2),
    "sequence": plain((3, 50, 33), (5, 33, 40), padding=2),
    "volume": plain((1, 5, 6, 7, 8), (3, 2, 3, 8, 20), padding=1),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    check_all(LAYERS[name], np.float32)
    check_all(LAYERS[name], np.float32, prepared=True)


@st.composite
def groups(draw: st.DrawFn) -> Case:
    """A convolution of groups of few channels, along one or two axes."""
    rank, most = draw(st.integers(1, 2)), draw(st.sampled_from([9, 60]))
    sizes = [1, 2, 3, 4, 6, 8, 16]
    channels, outputs = (draw(st.sampled_from(sizes[least:])) for least in (1, 0))
    number = draw(st.integers(2, 9))
    spatial = [*[draw(st.integers(1, 6)) for _ in range(rank - 1)], draw(st.integers(1, most))]
    steps = st.integers(1, 2)
    case = Case(
        (draw(steps), *spatial, channels * number),
        (*[draw(st.integers(1, 3)) for _ in range(rank)], channels, outputs * number),
        tuple(draw(steps) for _ in range(rank)),
        tuple((draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(rank)),
        tuple(draw(steps) for _ in range(rank)),
        number,
    )
    try:
        assume(all(case.result))
    except ValueError:
        assume(False)
    return case


@settings(max_examples=25, deadline=None)
@given(groups(), st.sampled_from([np.float32, np.float64]), st.booleans())
def test_any_groups(case, dtype, prepared):
    check_all(case, dtype, prepared)


@pytest.mark.parametrize("name", [name for name in LAYERS if name.startswith("groups")])
def test_groups_with_an_epilogue_give_the_same_bits_on_any_number_of_workers(name):
    case, rng = LAYERS[name], np.random.default_rng(5)
    x, kernel = filled(rng, case.x, np.float32), filled(rng, case.kernel, np.float32)
    bias, residual = (filled(rng, s, np.float32) for s in (case.result[-1:], case.result))
    ending = Epilogue(True, True, Activation.RELU)
    assert convolve(case, x, kernel, [bias, residual], ending) is not None
    found = []
    for workers in (1, 2, 5):
        result = poisoned(case.result, x.dtype)
        code, _ = convolution_kernel(case.forward, *layouts(x, kernel, result), workers=workers)
        called(code, [x, kernel], result, workers)
        found.append(result.tobytes())
    assert len(set(found)) == 1


def test_channels_are_cut_into_blocks(monkeypatch):
    monkeypatch.setattr(blocking, "PANEL_BYTES", 2**13)
    monkeypatch.setattr(blocking, "CHUNK_TILES", 2)
    for prepared in (False, True):
        check_all(plain((1, 9, 9, 50), (3, 3, 50, 70), padding=1), np.float32, prepared)
        check_all(plain((3, 9, 9, 20), (3, 3, 20, 20), padding=1, strides=2), np.float32, prepared)


SQUARES = {
    "even": plain((1, 12, 10, 32), (3, 3, 32, 64), padding=1),
    "odd": plain((1, 13, 11, 48), (3, 3, 48, 80), padding=1),
    "without padding": plain((2, 13, 12, 32), (3, 3, 32, 96)),
    "far out": plain((1, 11, 10, 32), (3, 3, 32, 32), padding=3),
    "uneven padding": Case((3, 7, 9, 32), (3, 3, 32, 48), (1, 1), ((0, 2), (2, 1)), (1, 1)),
    "many outputs": plain((1, 10, 11, 64), (3, 3, 64, 400), padding=1),
    "many channels": plain((1, 10, 10, 512), (3, 3, 512, 64), padding=1),
    "one line": plain((4, 1, 60, 32), (3, 3, 32, 32), padding=1),
    "few positions": plain((1, 7, 7, 64), (3, 3, 64, 80), padding=1),
    "slices of channels": plain((1, 8, 9, 256), (3, 3, 256, 192), padding=1),
}


@pytest.mark.parametrize("name", SQUARES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_windows_of_three_by_three(monkeypatch, name, dtype):
    used = []
    product = convolution.winograd_product
    monkeypatch.setattr(choice, "WINOGRAD_TURNED", choice.WINOGRAD_POSITIONS)
    monkeypatch.setattr(
        convolution,
        "winograd_product",
        lambda *given, **how: used.append(name) or product(*given, **how),
    )
    case, rng = SQUARES[name], np.random.default_rng(5)
    x, kernel = filled(rng, case.x, dtype), filled(rng, case.kernel, dtype)
    bias, residual = filled(rng, case.result[-1:], dtype), filled(rng, case.result, dtype)
    result = convolve(case, x, kernel)
    assert result is not None
    epilogue = Epilogue(True, True, Activation.RELU)
    assert convolve(case, x, kernel, [bias, residual], epilogue) is not None
    before = convolve(case, x, kernel, prepared=True)
    assert before is not None
    np.testing.assert_array_equal(before, result)
    slope = filled(rng, case.result, dtype)
    assert input_gradient(case, kernel, slope) is not None
    apart = np.swapaxes(np.swapaxes(kernel, 0, -1).copy(), 0, -1)
    assert input_gradient(case, apart, slope) is not None
    monkeypatch.setattr(winograd, "PANELS_BYTES", 0)
    monkeypatch.setattr(winograd, "ROOM_BYTES", 0)
    monkeypatch.setattr(winograd, "LEAST_TILES", 1)
    assert convolve(case, x, kernel) is not None
    assert input_gradient(case, kernel, slope) is not None
    assert len(used) == 7


@st.composite
def squares(draw: st.DrawFn) -> Case:
    """A convolution with windows of 3 by 3 that may be computed with fewer multiplications."""
    spatial = tuple(draw(st.integers(1, 16)) for _ in range(2))
    pads = tuple((draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in range(2))
    channels = draw(st.sampled_from([32, 48, 80]))
    outputs = draw(st.sampled_from([32, 48, 64, 144]))
    x, kernel = (draw(st.integers(1, 3)), *spatial, channels), (3, 3, channels, outputs)
    assume(all(n + sum(pad) >= 3 for n, pad in zip(spatial, pads, strict=True)))
    return Case(x, kernel, (1, 1), pads, (1, 1))


@settings(max_examples=15, deadline=None)
@given(squares(), st.booleans())
def test_any_squares(case, prepared):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("WINOGRAD_POSITIONS", "WINOGRAD_TURNED"):
            patch.setattr(choice, name, 1)
        check_all(case, np.float32, prepared)


@settings(max_examples=15, deadline=None)
@given(squares(), st.sampled_from([1, 2, 3, 5]), st.sampled_from([2**12, 2**15, 2**17]))
def test_kernels_transformed_in_slices_give_the_same_bits(case, workers, slice_bytes):
    rng = np.random.default_rng(9)
    x, kernel = filled(rng, case.x, np.float32), filled(rng, case.kernel, np.float32)
    whole, sliced = poisoned(case.result, x.dtype), poisoned(case.result, x.dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "WINOGRAD_POSITIONS", 1)
        for result, nbytes in ((whole, 2**40), (sliced, slice_bytes)):
            patch.setattr(winograd, "SLICE_BYTES", nbytes)
            made = convolution_kernel(case.forward, *layouts(x, kernel, result), workers=workers)
            called(made.code, [x, kernel], result, workers)
    np.testing.assert_array_equal(whole, sliced)
    want = KERNELS[Convolution](case.forward, x, kernel)
    np.testing.assert_allclose(whole, want, rtol=1e-3, atol=1e-3)


def in_memory(case, workers, **how):
    """Bytes that a kernel takes beside its operands and result, and what makes its own copy."""
    x, kernel, result = (np.empty(s, np.float32) for s in (case.x, case.kernel, case.result))
    code, preparation = convolution_kernel(
        case.forward, *layouts(x, kernel, result), workers=workers, **how
    )
    return code.scratch + (0 if preparation is None else preparation.nbytes), preparation


@pytest.mark.parametrize("workers", [1, 2, 4, 16, 64])
@pytest.mark.parametrize(
    ("size", "channels", "outputs"),
    [(75, 64, 64), (38, 128, 128), (19, 256, 256), (10, 512, 512), (8, 448, 384), (35, 96, 96)],
)
def test_known_kernels_are_transformed_where_that_takes_least(size, channels, outputs, workers):
    """In every run by some columns, or before it where the panels of all workers are larger."""
    case = plain((1, size, size, channels), (3, 3, channels, outputs), padding=1)
    chosen, preparation = in_memory(case, workers, known=True)
    in_runs, none = in_memory(case, workers)
    before, _ = in_memory(case, workers, prepared=True)
    assert none is None
    assert chosen == (in_runs if preparation is None else before)
    assert chosen <= 1.1 * min(in_runs, before)
    if workers == 2 and channels > 100:
        assert preparation is None
        assert chosen < 0.5 * 16 * channels * outputs * 4 + 2**21


def test_slices_are_cut_where_channels_are_many_and_positions_few():
    def slices(size, channels, outputs, workers=2):
        case = plain((1, size, size, channels), (3, 3, channels, outputs), padding=1)
        shapes = [np.empty(s, np.float32) for s in (case.x, case.kernel, case.result)]
        found = []
        with pytest.MonkeyPatch.context() as patch:
            made = convolution.kernel_of
            patch.setattr(
                convolution, "kernel_of", lambda p, *a, **k: found.extend(p) or made(p, *a, **k)
            )
            convolution_kernel(case.forward, *layouts(*shapes), workers=workers)
        return found[0].numbers["slices"]

    assert slices(10, 512, 512) == 512 * 16 * 4 * winograd_width() // winograd.SLICE_BYTES
    assert slices(8, 448, 384) > 1
    assert slices(75, 64, 64) == 1
    assert slices(96, 256, 256) == 1, "sums of too many tiles would have to wait"


def winograd_width():
    """Columns of a panel of float32."""
    return blocking.vectors_for(25) * element_of(np.dtype(np.float32)).lanes


def test_fewer_multiplications_are_nearly_as_exact(monkeypatch):
    case = plain((1, 30, 30, 64), (3, 3, 64, 64), padding=1)
    rng = np.random.default_rng(6)
    x, kernel = filled(rng, case.x, np.float32), filled(rng, case.kernel, np.float32)
    exact = KERNELS[Convolution](case.forward, x.astype(np.float64), kernel.astype(np.float64))

    def error() -> float:
        return float(np.abs(convolve(case, x, kernel) - exact).max())

    by_squares = error()
    monkeypatch.setattr(choice, "WINOGRAD_POSITIONS", 10**9)
    assert 0 < by_squares < 3 * error()


def test_nan_stays_in_the_windows_that_see_it():
    case = plain((1, 12, 12, 32), (3, 3, 32, 32), padding=1)
    x, kernel = np.ones(case.x, np.float32), np.ones(case.kernel, np.float32)
    x[0, 5, 6, 3] = np.nan
    result = poisoned(case.result, x.dtype)
    made = convolution_kernel(case.forward, *layouts(x, kernel, result))
    called(made.code, [x, kernel], result, 1)
    seen = np.zeros((12, 12), bool)
    seen[4:7, 5:8] = True
    np.testing.assert_array_equal(np.isnan(result[0]).all(axis=-1), seen)
    np.testing.assert_array_equal(np.isnan(result[0]).any(axis=-1), seen)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_epilogues(activation):
    rng = np.random.default_rng(1)
    for case in (
        plain((2, 6, 7, 9), (3, 3, 9, 40), padding=1),
        plain((1, 6, 6, 8), (1, 1, 4, 22), groups=2),
        plain((1, 6, 6, 8), (3, 3, 4, 22), padding=1, groups=2),
    ):
        x, kernel = filled(rng, case.x, np.float32), filled(rng, case.kernel, np.float32)
        bias = filled(rng, case.result[-1:], np.float32)
        residual = filled(rng, case.result, np.float32)
        for extra in ([bias], [residual], [bias, residual]):
            has = any(e is bias for e in extra), any(e is residual for e in extra)
            assert convolve(case, x, kernel, extra, Epilogue(*has, activation)) is not None


@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU])
@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("prepared", [False, True])
def test_products_are_scaled_before_the_bias(activation, has_residual, prepared):
    rng = np.random.default_rng(1)
    for case in (
        plain((2, 6, 7, 9), (3, 3, 9, 40), padding=1),
        plain((1, 6, 6, 8), (1, 1, 8, 22)),
        plain((1, 6, 6, 8), (1, 1, 4, 22), groups=2),
        plain((1, 6, 6, 8), (3, 3, 4, 22), padding=1, groups=2),
        plain((1, 6, 6, 8), (3, 3, 1, 8), groups=8),
        plain((1, 9, 9, 3), (3, 3, 3, 17), strides=2),
        plain((1, 14, 15, 32), (3, 3, 32, 48), padding=1),
        plain((1, 5, 20, 1, 6), (2, 2, 1, 6, 1)),
    ):
        x, kernel = filled(rng, case.x, np.float32), filled(rng, case.kernel, np.float32)
        both = filled(rng, (2, *case.result[-1:]), np.float32)
        residual = [filled(rng, case.result, np.float32)] * has_residual
        product = convolve(case, x, kernel, prepared=prepared)
        code, preparation = convolution_kernel(
            case.forward,
            *layouts(x, kernel, poisoned(case.result, x.dtype)),
            layouts(both, *residual),
            epilogue=Epilogue(True, has_residual, activation, scaled=True),
            workers=3,
            prepared=prepared,
        )
        given = kernel if preparation is None else preparation(kernel)
        got = computed(code, [x, given, both, *residual], case.result, x.dtype)
        np.testing.assert_array_equal(got, ended(product, both, residual, activation))


def test_the_result_may_lie_over_the_residual(monkeypatch):
    monkeypatch.setattr(blocking, "PANEL_BYTES", 2**13)
    rng = np.random.default_rng(2)
    for case in (
        plain((1, 6, 7, 50), (3, 3, 50, 40), padding=1),
        plain((1, 6, 7, 200), (1, 1, 200, 40)),
        plain((1, 11, 11, 32), (3, 3, 32, 48), padding=1),
    ):
        x, kernel = filled(rng, case.x, np.float32), filled(rng, case.kernel, np.float32)
        residual, result = filled(rng, case.result, np.float32), poisoned(case.result, x.dtype)
        lx, lk, lr, lo = layouts(x, kernel, residual, result)
        epilogue = Epilogue(residual=True)
        made = convolution_kernel(case.forward, lx, lk, lo, [lr], epilogue=epilogue)
        result[...] = residual
        called(made.code, [x, kernel, result], result, 1)
        reference = partial(KERNELS[Convolution], case.forward)
        judge(result, reference, (x, kernel), int(np.prod(case.kernel[:-1])), [residual])


def test_operands_may_be_views():
    case = plain((2, 8, 9, 12), (3, 3, 12, 20), padding=1)
    rng = np.random.default_rng(3)
    wide = filled(rng, (4, 16, 18, 24), np.float32)
    x = wide[::2, ::-2, ::2, :12]
    kernel = filled(rng, (20, 3, 12, 3), np.float32).transpose(1, 3, 2, 0)
    gradient = filled(rng, (2, 9, 8, 20), np.float32).transpose(0, 2, 1, 3)
    assert convolve(case, x, kernel) is not None
    assert convolve(case, x, kernel, prepared=True) is not None
    assert input_gradient(case, kernel, gradient) is not None
    assert kernel_gradient(case, x, gradient) is not None


@pytest.mark.parametrize(
    "case",
    [
        plain((2, 7, 9, 12), (1, 1, 12, 20)),
        plain((2, 7, 9, 12), (3, 3, 12, 20), padding=1),
        plain((2, 7, 9, 3), (3, 3, 3, 20), 2, 1),
        plain((2, 9, 11, 32), (3, 3, 32, 32), padding=1),
        plain((2, 9, 11, 40), (3, 3, 1, 40), padding=1, groups=40),
    ],
)
def test_residuals_may_be_views(case):
    """As those that are some channels, or some lines, of something larger."""
    rng = np.random.default_rng(6)
    x, kernel = filled(rng, case.x, np.float32), filled(rng, case.kernel, np.float32)
    batch, high, wide, outputs = case.result
    larger = filled(rng, (batch, 2 * high, wide + 1, 2 * outputs), np.float32)
    epilogue = Epilogue(residual=True)
    for residual in (larger[:, ::-2, 1:, outputs:], larger[:, :high, :-1, :outputs]):
        for prepared in (False, True):
            assert convolve(case, x, kernel, [residual], epilogue, prepared) is not None


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("strides", [1, 2])
def test_channels_may_lie_apart(groups, strides):
    case = plain((2, 8, 9, 12), (3, 3, 12 // groups, 20), strides, 1, groups=groups)
    rng = np.random.default_rng(4)
    x = filled(rng, (2, 12, 8, 9), np.float32).transpose(0, 2, 3, 1)
    batch, high, wide, outputs = case.result
    gradient = filled(rng, (batch, outputs, high, wide), np.float32).transpose(0, 2, 3, 1)
    kernel = filled(rng, case.kernel, np.float32)
    assert convolve(case, x, kernel) is not None
    assert convolve(case, x, kernel, prepared=True) is not None
    assert input_gradient(case, kernel, gradient) is not None
    assert kernel_gradient(case, x, np.ascontiguousarray(gradient)) is not None


@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.complex64])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 16, 37])
def test_channels_may_be_planes(channels, dtype):
    """Images as files have them: channel by channel, pixels side by side, in lines of any length."""
    rng = np.random.default_rng(channels)
    for wide, strides in ((9, 1), (35, 2)):
        case = plain((2, 6, wide, channels), (3, 3, channels, 7), strides, 1)
        planes = filled(rng, (2, channels, 6, wide + 3), dtype)[..., 3:].transpose(0, 2, 3, 1)
        assert convolve(case, planes, filled(rng, case.kernel, dtype)) is not None


@settings(max_examples=10, deadline=None)
@given(cases())
def test_lines_that_are_copied(case):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "LINE_PIXEL_BYTES", 2**20)
        check_all(case, np.float32)


@pytest.mark.parametrize(
    "case",
    [
        plain((0, 5, 5, 3), (3, 3, 3, 4), padding=1),
        plain((2, 5, 5, 0), (3, 3, 0, 4), padding=1),
        plain((2, 5, 5, 3), (3, 3, 3, 0), padding=1),
        plain((2, 0, 5, 3), (3, 3, 3, 4), padding=1),
    ],
)
def test_empty_axes(case):
    check_all(case, np.float32)


def test_what_is_left_to_numpy():
    case = plain((1, 5, 5, 4), (3, 3, 4, 4))
    x, kernel = np.ones(case.x, np.float32), np.ones(case.kernel, np.float32)
    gradient = np.ones((1, 4, 3, 3), np.float32).transpose(0, 2, 3, 1)
    assert kernel_gradient(case, x, gradient) is None
    assert convolve(case, x, kernel.astype(np.float64)) is None
    residual = np.ones((1, 4, 3, 3), np.float32).transpose(0, 2, 3, 1)
    assert convolve(case, x, kernel, [residual], Epilogue(residual=True)) is None


def test_taps_that_see_nothing_have_no_slope():
    case = Case((1, 1, 60, 32), (3, 3, 32, 32), (1, 1), ((1, 2), (1, 1)), (1, 1))
    rng = np.random.default_rng(9)
    x, slope = filled(rng, case.x, np.float32), filled(rng, case.result, np.float32)
    got = kernel_gradient(case, x, slope)
    assert got is not None
    assert not got[2].any()


SEEN = {
    n: case for n, case in SQUARES.items() if n not in {"far out", "uneven padding", "one line"}
}


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_of_kernels_of_three_by_three(monkeypatch, name, dtype):
    used = []
    made = convolution.winograd_gradient
    monkeypatch.setattr(
        convolution, "winograd_gradient", lambda *given: used.append(name) or made(*given)
    )
    case, rng = SEEN[name], np.random.default_rng(7)
    x, slope = filled(rng, case.x, dtype), filled(rng, case.result, dtype)
    assert kernel_gradient(case, x, slope) is not None
    monkeypatch.setattr(winograd_gradient, "SEGMENT", 5)
    assert kernel_gradient(case, x, slope) is not None
    assert len(used) == 2
