"""Kernels of GPUs: their values on an OpenCL device, and their code for NVIDIA's."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from engines import DEVICE, needs_device
from tawny import dtype as dt
from tawny import random as draws
from tawny.array import Array, array_for
from tawny.engine.gpu import engine as gpu_engine
from tawny.engine.gpu.engine import GpuEngine
from tawny.engine.gpu.launch import SYMBOL, KernelCode
from tawny.engine.gpu.loops import launches_of, runs_on_device
from tawny.engine.layout import Views
from tawny.engine.llvm.runtime.compiler import assembly
from tawny.engine.llvm.targets import nvptx
from tawny.engine.opencl.source import UntranslatableError, opencl_source
from tawny.node import make
from tawny.op import ELEMENTWISE
from tawny.operator import emit
from tawny.ops.systems import SolveTriangular

assert GpuEngine  # its module knows all rules

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def integers(low: int, high: int, *shape: int) -> np.ndarray:
    return RNG.integers(low, high, shape)


def definite(*shape: int) -> np.ndarray:
    """Positive definite matrices."""
    x = RNG.standard_normal((*shape, shape[-1]))
    return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])


def square_gradients(f: Callable[..., Array]) -> Callable[..., list[Array]]:
    """A function's value, and the gradients of the sum of its squares."""
    return lambda *x: [f(*x), *tw.gradients(tnp.sum(f(*x) ** 2), list(x))]


Case = tuple[Callable[[], Sequence[np.ndarray]], Callable[..., Any]]

CASES: dict[str, Case] = {
    "broadcast": (lambda: (normal(5, 1, 7), normal(3, 1)), lambda a, b: [a * b + 1, (a - b).T * 2]),
    "neighbours": (lambda: (normal(8, 4), normal(33)), lambda a, b: [a * a + 0.5, a[1:] * 2, b[1:] ** 1, b[::-2] + 1]),
    "rolled": (lambda: (normal(6, 7),), lambda a: [tnp.roll(a, 2, 1) + a, tnp.roll(a, (1, 3), (0, 1)) * a]),
    "counted": (lambda: (normal(7),), lambda a: [a + tnp.arange(7.0), tnp.eye(7, 5, 1) + a[:5], tnp.linspace(0, 1, 7) * a]),
    "rows": (lambda: (normal(70, 33),), lambda a: [tnp.sum(a, 1), tnp.max(a, 0), tnp.var(a, 1), tnp.softmax(a, 1), tnp.argmin(a, 0)]),
    "long rows": (lambda: (normal(3, 40_000),), lambda a: [tnp.sum(a), tnp.mean(a, 1), tnp.argmax(a, 1), tnp.any(a > 3, 1)]),
    "middle axis": (lambda: (normal(6, 5, 4),), lambda a: [tnp.sum(tnp.exp(a), 1), tnp.logsumexp(a, (0, 2)), tnp.prod(a, (0, 1, 2))]),
    "integer sums": (lambda: (integers(-9, 9, 40, 50),), lambda a: [tnp.sum(a, 0), tnp.max(a), tnp.argmax(a, 1)]),
    "complex sums": (lambda: (normal(9, 50) + 1j * normal(9, 50),), lambda a: [tnp.sum(a, 1), tnp.mean(a * a), tnp.abs(a)]),
    "product": (lambda: (normal(33, 50), normal(50, 21)), lambda a, b: a @ b),
    "large product": (lambda: (normal(300, 257), normal(257, 400)), lambda a, b: a @ b),
    "vectors": (lambda: (normal(5, 33, 50), normal(50)), lambda a, b: [a @ b, b @ b]),
    "stack": (lambda: (normal(5, 1, 33, 50), normal(4, 50, 7)), lambda a, b: a @ b),
    "complex product": (lambda: (normal(30, 25) + 1j * normal(30, 25), normal(25, 4) + 0j), lambda a, b: a @ b),
    "integer product": (lambda: (integers(0, 9, 30, 25), integers(0, 9, 25, 4)), lambda a, b: a @ b),
    "half product": (lambda: (normal(30, 25).astype("float16"), normal(25, 40).astype("float16")), lambda a, b: a @ b),
    "no depth": (lambda: (normal(3, 0), normal(0, 4)), lambda a, b: a @ b),
    "endings": (
        lambda: (normal(40, 30), normal(30, 20), normal(20), normal(40, 20), normal(20, 30)),
        lambda a, b, c, d, e: [tnp.relu(a @ b + c + d), tnp.tanh(a @ e.T + c), tnp.sigmoid(a @ b), a.T @ d],
    ),
    "convolution and ending": (
        lambda: (normal(2, 9, 8, 4), normal(3, 3, 4, 6), normal(6), normal(2, 9, 8, 6)),
        lambda a, b, c, d: [tnp.relu(tnp.conv2d(a, b, padding="SAME") + c), tnp.relu(tnp.conv2d(a, b, padding="SAME") + d)],
    ),
    "truths": (lambda: (integers(0, 2, 30, 25) > 0, integers(0, 8, 25, 4) > 6), lambda a, b: a @ b),
    "einsum": (lambda: (normal(3, 4, 5), normal(5, 3, 7)), lambda a, b: tnp.einsum("abc,cad->adb", a, b)),
    "stretched einsum": (lambda: (normal(3, 1, 4), normal(2, 4)), lambda a, b: [tnp.vecdot(a, b), tnp.einsum("abc,cd->abd", a, b[:, :1].T)]),
    "strided convolution": (
        lambda: (normal(2, 9, 10, 4), normal(3, 3, 4, 6)),
        square_gradients(lambda a, b: tnp.conv2d(a, b, stride=2, padding="SAME")),
    ),
    "grouped convolution": (
        lambda: (normal(2, 9, 10, 4), normal(3, 2, 2, 6)),
        square_gradients(lambda a, b: tnp.conv2d(a, b, dilation=2, padding=((1, 1), (1, 1)), groups=2)),
    ),
    "line convolution": (
        lambda: (normal(2, 19, 3), normal(4, 3, 5)),
        square_gradients(lambda a, b: tnp.conv1d(a, b, stride=3, dilation=2, padding=((4, 1),))),
    ),
    **{
        f"{name} pooling {padding} {stride}": (
            lambda: (np.round(normal(2, 9, 8, 3)),),
            square_gradients(lambda x, p=pool, q=padding, s=stride: p(x, (3, 2), stride=s, padding=q)),
        )
        for name, pool in (("max", tnp.max_pool2d), ("mean", tnp.avg_pool2d))
        for padding in ("SAME", "VALID")
        for stride in (1, 2, 3)
    },
    "integer pooling": (lambda: (integers(-99, -9, 1, 6, 6, 2),), lambda x: tnp.max_pool2d(x, 2)),
    "upsampling": (lambda: (normal(2, 4, 4, 3),), square_gradients(lambda x: tnp.upsampling2d(x, (2, 3)))),
    "transforms": (
        lambda: (normal(3, 60) + 1j * normal(3, 60), normal(6, 44)),
        lambda a, b: [
            tnp.fft.fft(a), tnp.fft.ifft(a.T, axis=0), tnp.fft.fft(a, n=16, norm="ortho"), tnp.fft.fft(a, n=62), tnp.fft.irfft(a, n=120),
            tnp.fft.irfft(a, n=27), tnp.fft.fftn(b), tnp.fft.rfft(b), tnp.fft.rfftn(b[:, ::2]), tnp.fft.irfft2(a, s=(5, 8), norm="forward"),
        ],
    ),
    "long transforms": (
        lambda: (normal(1 << 15).astype("float64"),),
        lambda a: [tnp.fft.rfft(a), tnp.fft.fft(a[: 3**7] * (1 + 1j)), tnp.fft.ifft(a[:30030] + 0j)],
    ),
    "definite matrices": (
        lambda: (definite(2, 3, 40), definite(70).astype("float32"), definite(5) + 0j),
        lambda a, b, c: [tnp.linalg.cholesky(a), tnp.linalg.cholesky(b, upper=True), tnp.linalg.cholesky(c.T)],
    ),
    "linear systems": (
        lambda: (definite(3, 40), normal(40, 40) + 1j * normal(40, 40) + 9 * np.eye(40), normal(40).astype("float64"), normal(2, 1, 40, 2).astype("float64")),
        lambda a, b, c, d: [
            tnp.linalg.solve(a, c), tnp.linalg.solve(a, d), tnp.linalg.solve(b.T, c[:, None] + 0j), tnp.linalg.inv(a), tnp.linalg.inv(b),
            tnp.linalg.det(a / 9), *tnp.linalg.slogdet(a), *tnp.linalg.slogdet(b),
        ],
    ),
    "triangles": (
        lambda: (definite(40) * (1 + 0.1j), normal(40, 3).astype("complex128")),
        lambda a, b: [emit(SolveTriangular(lower, kind, unit), a * 0.01 + tnp.eye(40), b)
                      for lower in (True, False) for kind in range(3) for unit in (True, False)],
    ),
    "joining": (
        lambda: (normal(3, 4), normal(3, 5)),
        lambda a, b: [tnp.concatenate([a, b[:, ::-1], a], axis=1), tnp.pad(a, ((1, 2), (0, 3)), constant_values=2.5)],
    ),
    "repeating": (lambda: (normal(3, 4),), lambda a: [tnp.tile(a, (2, 3)), tnp.repeat(a, 3, axis=0), tnp.reshape(a.T, (2, 6))]),
    "wide elements": (lambda: ((normal(3, 4) + 1j).astype("complex128"),), lambda a: [tnp.tile(a, (2, 3)), tnp.concat([a.T, a.T])]),
    "gather": (lambda: (normal(4, 6, 7), integers(-4, 4, 5, 3)), lambda a, i: [a[i], a[:, i % 4], a[i, :, i % 3], a[i[0]]]),
    "scatter": (
        lambda: (normal(4, 6, 7), integers(-4, 4, 5, 3)),
        lambda a, i: [
            tnp.at(a)[i].add(1.5), tnp.at(a)[i].set(2.0), tnp.at(a)[1:, 2].add(1.0), tnp.at(a)[i, 2].mul(3.0),
            *tw.gradients(tnp.sum(a[i] ** 2), [a]),
        ],
    ),
    "sorted": (
        lambda: (np.round(normal(3, 200, 4)), normal(5, 7)),
        lambda a, b: [
            tnp.sort(a, axis=1), tnp.argsort(a, axis=1), tnp.sort(b, descending=True),
            tnp.argsort(a, axis=1, descending=True), tnp.sort(-a.T, axis=1, descending=True),
            tnp.searchsorted(tnp.sort(b[0]), b, side="right"), tnp.argmax(b),
        ],
    ),
    "running": (
        lambda: (normal(4, 70, 7),),
        lambda a: [tnp.cumsum(a, axis=1), tnp.cumprod(a, axis=0), tnp.cumulative_sum(a, axis=2, include_initial=True)],
    ),
    "loop": (
        lambda: (normal(11, 7), normal(7, 7)),
        lambda x, w: [*tw.scan(lambda c, a: (tnp.tanh(c @ w + a), c * a), x[0], x), *tw.scan(lambda c, a: (a - c, c), x[1], x[1:], reverse=True)],
    ),
    "loop of two carries": (
        lambda: (normal(6), normal(6)),
        lambda a, b: [*tw.fori_loop(0, 5, lambda i, c: (c[1], c[0] * 0.5 + tnp.astype(i, "f4")), (a, b)), *tw.fori_loop(0, 4, lambda i, c: (c[1], c[0]), (a, b)), tw.fori_loop(2, 2, lambda i, c: c + 1, a)],
    ),
    "rows that lie otherwise": (
        lambda: (normal(5, 9, 3),),
        lambda x: list(tw.scan(lambda c, a: (c + a.T, tnp.cumsum(a, 0)), x[:3, :, 0].T * 0, tnp.permute_dims(x[1:4, 1:], (1, 0, 2))[:, :, ::-1][:, :, :1] * tnp.ones((3, 9), "f4"))),
    ),
    "gradient of a loop": (
        lambda: (normal(9, 4), normal(4, 4)),
        lambda x, w: tw.gradients(tnp.sum(tw.scan(lambda c, a: (tnp.tanh(c @ w + a), c), x[0], x)[1] ** 2), [x, w]),
    ),
    "loops in loops": (
        lambda: (normal(4, 3),),
        lambda x: list(tw.scan(lambda c, a: (tw.fori_loop(0, 3, lambda i, b: b * 0.5 + a * tnp.astype(i, "f4"), c), tw.scan(lambda d, e: (d + e, d), a[0], a)[1]), x[0], x)),
    ),
    "draws in loops": (
        lambda: (normal(3),),
        lambda x: tw.fori_loop(0, 3, lambda i, c: tw.fori_loop(0, 2, lambda j, d: d + tw.random.uniform(shape=(3,), dtype="f4"), c) * tw.random.normal(shape=(3,), dtype="f4"), x),
    ),
    "as long as it takes": (
        lambda: (normal(5), normal()),
        lambda x, y: [*tw.while_loop(lambda c: tnp.sum(c[0] ** 2) < 100, lambda c: (c[0] * 1.3 + y * 0, c[1] + 1), (x, 0.0 * y)), tw.while_loop(lambda c: c < 0, lambda c: c - 1, y * y)],
    ),
    "branches": (
        lambda: (normal(5), integers(-1, 4, 6)),
        lambda x, i: [*[tw.switch(i[k], [tnp.sin, tnp.cos, lambda a: a * 2], x) for k in range(6)], tw.cond(x[0] > 0, lambda a: a + 1, lambda a: a[::-1], x)],
    ),
}  # fmt: skip
"""Operands and a function of them, by name."""

TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "complex64": 2e-5}


def graph_of(case: str) -> tuple[tw.Graph, Sequence[np.ndarray]]:
    arrays, function = CASES[case]
    values = arrays()
    variables = [tw.var(f"x{i}", v.shape, v.dtype) for i, v in enumerate(values)]
    outputs = function(*variables)
    return tw.Graph(variables, outputs if isinstance(outputs, list) else [outputs]), values


@needs_device
@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_the_reference(case: str) -> None:
    graph, values = graph_of(case)
    program, judge = graph.compile(engine=DEVICE), graph.compile(engine="reference")
    for got, want in zip(program(*values), judge(*values), strict=True):
        assert got.dtype == want.dtype
        tolerance = TOLERANCE.get(str(want.dtype), 1e-12)
        scale = np.max(np.abs(want), initial=0.0)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * float(scale))


@pytest.mark.parametrize("case", CASES)
def test_every_step_has_a_kernel_that_compiles_for_nvidia(case: str) -> None:
    """Of the graph as it was written: nothing is left to the host."""
    graph, _ = graph_of(case)
    views, codes = Views(), set[KernelCode]()
    for node in graph.order:
        if node.inputs and not node.op.facts().view:
            assert runs_on_device(node, views), node
            codes |= {launch.code for launch in launches_of(node, views)}
    for code in codes:
        ptx = assembly(code.ir(), nvptx("sm_80"))
        assert re.findall(r"^\.visible \.entry (\w+)\(", ptx, re.MULTILINE) == [SYMBOL]
        assert ".extern" not in ptx


DTYPES = ("bool", "int32", "uint8", "float16", "bfloat16", "float32", "float64", "complex64")


@needs_device
@pytest.mark.parametrize("dtype", DTYPES)
def test_elementwise_bits_are_those_of_the_cpu(dtype: str) -> None:
    kind = dt.dtype_named(dtype)
    variables, outputs, names, values = [], [], [], []
    for name, op in ELEMENTWISE.items():
        own = [tw.var(f"{name}{i}", (257 + len(names) % 2,), kind) for i in range(op.info.arity)]
        try:
            outputs.append(array_for(make(op, tuple([v.node for v in own]))))
        except TypeError:
            continue
        names.append(name)
        variables += own
        values += [sample(kind, v.shape[0], op.info.domain.low, op.info.domain.high) for v in own]
    graph = tw.Graph(variables, outputs)
    with np.errstate(all="ignore"):
        got, want = (graph.compile(engine=e, optimise=False)(*values) for e in (DEVICE, "cpu"))
    wrong = [n for n, g, w in zip(names, got, want, strict=True) if not same_numbers(g, w)]
    assert not wrong


def sample(kind: np.dtype[Any], count: int, low: float, high: float) -> np.ndarray:
    """Numbers of a dtype from an interval, and special ones."""
    numbers = RNG.uniform(low, high, count)
    if dt.kind_of(kind) == "f":
        numbers[::17] = RNG.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40], len(numbers[::17]))
    if kind.kind == "c":
        return (numbers + 1j * RNG.uniform(low, high, count)).astype(kind)
    if kind.kind == "b":
        return numbers > 0
    return (np.abs(numbers) if kind.kind == "u" else numbers).astype(kind)


def same_numbers(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether numbers are the same, signs of zeros included; any NaN is another."""
    if dt.is_bfloat16(one.dtype):
        one, other = one.astype("float32"), other.astype("float32")
    if one.dtype.kind not in "fc":
        return np.array_equal(one, other)
    pairs = [(one.real, other.real), (one.imag, other.imag)]
    return all(
        np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a) & (a == a), np.signbit(b) & (b == b))
        for a, b in pairs
    )  # fmt: skip


@needs_device
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_draws_are_the_same_numbers(dtype: str) -> None:
    v = tw.var("v", (3,))
    graph = tw.Graph(
        [v],
        [draws.uniform(shape=(1001,), dtype=dtype), draws.normal(shape=(7, 100), dtype=dtype), v],
    )
    programs = [graph.compile(engine=e) for e in (DEVICE, "cpu")]
    for turn in range(3):
        one, other = (p(np.full(3, turn)) for p in programs)
        for a, b in zip(one, other, strict=True):
            assert np.array_equal(a, b)


@needs_device
def test_an_index_outside_is_refused_and_nothing_is_changed() -> None:
    x, i = tw.var("x", (4, 6)), tw.var("i", (2,), "int64")
    program = tw.Graph([x, i], [x[i]], updates={x: tnp.at(x)[i].set(0.0)}).compile(engine=DEVICE)
    program.set(x=np.ones((4, 6)), i=np.array([1, 9]))
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 of size 4"):
        program.run()
    assert program.state["x"].min() == 1.0
    program.set(i=np.array([1, -1]))
    program.run()
    assert program.state["x"].sum(1).tolist() == [6.0, 0.0, 6.0, 0.0]


SINGULAR: dict[str, Callable[[Array], Array]] = {
    "cholesky": tnp.linalg.cholesky,
    "inv": tnp.linalg.inv,
    "solve": lambda x: tnp.linalg.solve(x, x),
}


@needs_device
@pytest.mark.parametrize("name", SINGULAR)
def test_matrices_without_a_result_are_refused_and_nothing_is_changed(name: str) -> None:
    """A determinant of a singular matrix beside it is zero, and no error."""
    x = tw.var("x", (2, 4, 4))
    outputs = [SINGULAR[name](x), tnp.linalg.det(x)]
    program = tw.Graph([x], outputs, updates={x: x * 2}).compile(engine=DEVICE)
    bad = np.stack([np.eye(4), np.full((4, 4), -1.0)])
    program.set(x=bad)
    with pytest.raises(np.linalg.LinAlgError, match=f"{name}: "):
        program.run()
    assert np.array_equal(program.state["x"], bad)
    program.set(x=np.stack([np.eye(4), 4 * np.eye(4)]))
    _, found = program.run()
    assert found.tolist() == [1.0, 256.0]
    singular = tw.Graph([x], tnp.linalg.det(x)).compile(engine=DEVICE)
    assert singular(bad).tolist() == [1.0, 0.0]


@needs_device
def test_what_has_no_kernel_is_computed_by_the_host_and_said() -> None:
    x = tw.var("x", (50,))
    matrices = tnp.reshape(tnp.exp(x), (5, 10))
    program = tw.Graph([x], [tnp.linalg.svdvals(matrices) * 2]).compile(engine=DEVICE)
    values = RNG.standard_normal(50)
    want = np.linalg.svdvals(np.exp(values).reshape(5, 10)) * 2
    np.testing.assert_allclose(program(values)[0], want, rtol=1e-12)
    assert "by the host, with copies of 440 bytes: svdvals" in repr(program.explain())


@needs_device
def test_copies_for_the_host_that_can_be_noticed_are_said_once(monkeypatch) -> None:
    x = tw.var("x", (5, 10))
    given = [tw.delay(np.sin, x), tnp.exp(x)]
    graph = tw.Graph([x], [tnp.linalg.svdvals(one) for one in given])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph.compile(engine=DEVICE)
    monkeypatch.setattr(gpu_engine, "NOTICEABLE_BYTES", 881)
    graph.compile(engine=DEVICE)
    monkeypatch.setattr(gpu_engine, "NOTICEABLE_BYTES", 880)
    with pytest.warns(tw.PerformanceWarning) as said:
        graph.compile(engine=DEVICE)
    (text,) = [str(w.message) for w in said]
    assert "no kernel for (svdvals), with copies of 880 bytes in a run" in text
    assert text.count("test_gpu_engine.py:") == 1
    assert text.endswith("]")


def test_unknown_ir_is_refused() -> None:
    with pytest.raises(UntranslatableError, match="frobnicate"):
        opencl_source(
            "define ptx_kernel void @k() #0 {\nentry:\n  %v1 = frobnicate i32 1\n  ret void\n}"
        )


def test_a_machine_without_a_gpu_says_so() -> None:
    code = (
        "import ctypes\n"
        "def refuse(*args, **kwargs): raise OSError('no library')\n"
        "ctypes.CDLL = refuse\n"
        "import tawny as tw\n"
        "x = tw.var('x')\n"
        "try: tw.Graph([x], [x + 1]).compile(engine='cuda')\n"
        "except ValueError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "engine 'cuda' needs NVIDIA's driver, which this machine does not have" in done.stdout


def test_all_dtypes_are_known_to_the_tables() -> None:
    assert set(DTYPES) <= set(dt.dtype_names())


@needs_device
def test_remarks_of_the_devices_compiler_are_not_passed_on() -> None:
    """Generated code compares numbers with themselves, which compilers remark on."""
    x = tw.var("x", (37,), "int32")
    flags = x > 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = tw.Graph([x], [x != x, flags < flags, flags <= flags]).compile(engine=DEVICE)
    first, second, third = program(np.arange(37, dtype="int32"))
    assert not first.any()
    assert not second.any()
    assert third.all()
