"""oneDNN as a provider of kernels: when it serves, what it is given, what stays as it was."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from codegen_harness import poisoned
from onednn_harness import FLOAT, by_onednn, called, drawn, kernel, needs_onednn, node_of
from tawny import cli
from tawny.array import array_for
from tawny.engine.cpu import CpuEngine
from tawny.engine.cpu.onednn import library
from tawny.engine.cpu.onednn.offers import OFFERS, offer
from tawny.engine.cpu.onednn.primitive import with_strides
from tawny.engine.cpu.providers import OPTION, faster
from tawny.engine.cpu.threads.pool import Pool, pool_of
from tawny.engine.cpu.threads.pool_code import SLEEPING, SPINS
from tawny.engine.layout import Memory, contiguous
from tawny.engine.llvm.runtime.library import compile_ir
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
)
from tawny.ops.fusion import Activation, Epilogue, FusedConvolution, FusedMatmul
from tawny.ops.linalg import Matmul
from tawny.ops.pooling import MaxPool

ONE_TAP = ((1, 1), ((0, 0), (0, 0)), (1, 1), 1)
NINE_TAPS = ((1, 1), ((1, 1), (1, 1)), (1, 1), 1)
W, B = drawn(40, 24), drawn(24)
KERNEL = drawn(3, 3, 8, 16)

PROGRAMS = {
    "matmul": lambda x: x @ W,
    "dense layer": lambda x: tnp.relu(x @ W + B),
    "residual": lambda x: tnp.tanh((x @ W + B) @ W.T + x),
    "transposed left": lambda x: x.T @ x,
    "vector": lambda x: x @ drawn(40),
    "reversed": lambda x: x[:, ::-1] @ W,
    "repeated": lambda x: tnp.broadcast_to(x[:, :1], (10, 40)) @ W,
    "convolution": lambda x: tnp.relu(
        tnp.conv2d(x.reshape((1, 10, 5, 8)), KERNEL, strides=2, padding="SAME") + drawn(16)
    ),
    "flipped kernel": lambda x: tnp.conv2d(
        x.reshape((1, 10, 5, 8)), np.flip(KERNEL, (0, 1)), padding="SAME"
    ),
    "kernel that varies": lambda x: tnp.conv2d(
        x[:, :40].reshape((1, 10, 5, 8)),
        tnp.sin(x.reshape((1, 1, 8, 50)))[..., :16],
        padding="SAME",
    ),
    "channels first": lambda x: tnp.conv2d(
        x.reshape((1, 8, 10, 5)).transpose((0, 2, 3, 1)),
        KERNEL,
        padding="SAME",
    ),
    "transposed convolution": lambda x: tnp.conv_transpose2d(
        x.reshape((1, 5, 5, 16)),
        drawn(3, 3, 16, 8),
        strides=2,
        padding="SAME",
    ),
    "depthwise": lambda x: tnp.depthwise_conv1d(
        x.reshape((1, 10, 40)), drawn(3, 40, 1), padding="SAME"
    ),
    "pooling": lambda x: tnp.avg_pool2d(
        tnp.max_pool2d(x.reshape((1, 10, 5, 8)), 2, strides=1), 3, padding="SAME"
    ),
}


OURS = {"vector", "reversed", "repeated", "channels first"}
"""Programs of which oneDNN computes nothing: operands do not lie as it wants them."""


@pytest.fixture
def forced(monkeypatch):
    monkeypatch.setenv(OPTION, "onednn")


def account(program) -> str:
    """What the plan says about providers."""
    return str(program.plan).splitlines()[-1]


# -------------------------------------------------------------------- programs


@needs_onednn
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree_with_the_reference(name, forced, monkeypatch):
    monkeypatch.setenv("TAWNY_DEBUG", "1")
    x, value = tw.var("x", shape=(10, 40), dtype="float32"), drawn(10, 40)
    graph = tw.Graph([x], PROGRAMS[name](x))
    native, reference = graph.compile(engine="cpu"), graph.compile(engine="reference")
    np.testing.assert_allclose(native(value), reference(value), rtol=2e-5, atol=2e-5)
    assert "by NumPy" not in account(native)
    assert ("by oneDNN" in account(native)) == (name not in OURS)


@needs_onednn
def test_a_training_step_agrees_with_our_own(monkeypatch):
    x = tw.var("x", shape=(4, 12, 12, 3), dtype="float32")
    names = {"kernel": (3, 3, 3, 8), "weights": (6 * 6 * 8, 5)}
    params = [tw.var(name, shape=shape, dtype="float32") for name, shape in names.items()]

    def loss(kernel, weights):
        seen = tnp.avg_pool2d(tnp.relu(tnp.conv2d(x, kernel, padding="SAME")), 2)
        return tnp.mean((seen.reshape((4, -1)) @ weights) ** 2)

    slopes = tw.grad(loss, argnums=(0, 1))(*params)
    updates = {p: p - 0.1 * s for p, s in zip(params, slopes, strict=True)}
    graph = tw.Graph([x], loss(*params), updates=updates)
    ended = []
    for provider in ("own", "onednn"):
        monkeypatch.setenv(OPTION, provider)
        program = graph.compile(engine="cpu")
        program.set(**{name: drawn(*shape) / 10 for name, shape in names.items()})
        program.set(x=drawn(4, 12, 12, 3))
        assert ("by oneDNN" in account(program)) == (provider == "onednn")
        ended.append([program.run(), program.run(steps=3), *program.state.values()])
    for ours, theirs in zip(*ended, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-5)


@needs_onednn
def test_the_plan_says_what_is_served(forced):
    x = tw.var("x", shape=(1, 9, 9, 8), dtype="float32")
    y = tnp.conv2d(
        tnp.conv2d(x, drawn(3, 3, 8, 8), padding="SAME"), drawn(1, 1, 8, 8), padding="SAME"
    )
    program = tw.Graph([x], tnp.max_pool2d(y, 3)).compile(engine="cpu")
    assert account(program).startswith("cpu: 3 of 3 steps compiled; by oneDNN: convolution 2")


@needs_onednn
def test_scratch_memory_is_planned_for_the_threads_of_the_program(forced):
    x = tw.var("x", shape=(1, 14, 14, 64), dtype="float32")
    k = tw.var("k", shape=(3, 3, 64, 32), dtype="float32")
    value = drawn(1, 14, 14, 64), drawn(3, 3, 64, 32)
    op = Convolution(*NINE_TAPS)
    said = []
    for threads in (1, 3):
        program = tw.Graph([x, k], tnp.conv2d(x, k, padding="SAME")).compile(
            engine="cpu", threads=threads
        )
        blocks = [b.bytes for b in program.plan.blocks if b.kind == "scratch"]
        wanted = kernel(op, value, threads=threads).scratch
        assert blocks == [wanted]
        assert program.plan.peak_bytes >= wanted + 14 * 14 * 32 * 4
        program(*value)
        said.append(wanted)
    assert said[0] < said[1], "each thread has scratch memory of its own"


@needs_onednn
def test_a_plan_is_not_run_by_kernels_it_was_not_made_for(monkeypatch):
    x = tw.var("x", shape=(1, 14, 14, 64), dtype="float32")
    k = tw.var("k", shape=(1, 1, 64, 64), dtype="float32")
    monkeypatch.setenv(OPTION, "own")
    program = tw.Graph([x, k], tnp.conv2d(x, k, padding="SAME")).compile(engine="cpu")
    assert not [b for b in program.plan.blocks if b.kind == "scratch"]
    task = program._compiled.task
    monkeypatch.setenv(OPTION, "onednn")
    with pytest.raises(RuntimeError, match="the environment has changed"):
        CpuEngine().prepare(task)


def test_an_unknown_provider_is_refused(monkeypatch):
    monkeypatch.setenv(OPTION, "mkl")
    x = tw.var("x", shape=(3, 3), dtype="float32")
    with pytest.raises(ValueError, match="'mkl' is no provider; accepted: own, onednn, auto"):
        tw.Graph([x], x @ x).compile(engine="cpu")


# ----------------------------------------------------------------------- rules

LAYERS = [
    # side, channels of a group, groups, window, stride, dtype: whether oneDNN gives the gradient
    ((28, 8, 32, 3, 2, "float32"), True),
    ((28, 8, 32, 3, 1, "float32"), False),
    ((14, 8, 32, 3, 2, "float32"), False),
    ((28, 8, 32, 1, 2, "float32"), False),
    ((28, 4, 64, 3, 2, "float32"), False),
    ((28, 16, 16, 3, 2, "float32"), False),
    ((28, 1, 256, 3, 2, "float32"), False),
    ((28, 8, 1, 3, 2, "float32"), False),
    ((28, 8, 32, 3, 2, "float64"), True),
]


def layer(
    side: int, channels: int, groups: int, window: int, stride: int, dtype: str
) -> tuple[tw.Array, ...]:
    """A convolution and the gradient of its input."""
    shape, kernel = (
        (1, side, side, channels * groups),
        (window, window, channels, channels * groups),
    )
    x, k = (tw.var(n, shape=s, dtype=dtype) for n, s in (("x", shape), ("k", kernel)))
    options = {"padding": "SAME", "groups": groups, "strides": stride}
    y = tnp.conv2d(x, k, **options)
    slope = tw.var("slope", shape=y.shape, dtype=dtype)
    return y, tnp.conv_input_gradient(k, slope, input_shape=shape, **options)


@pytest.mark.parametrize(("given", "expected"), LAYERS)
def test_rules(given, expected):
    for array, wanted in zip(layer(*given), (False, expected), strict=True):
        node = array.node
        operands = tuple(contiguous(i.shape, i.dtype) for i in node.inputs)
        assert faster(node, operands) == wanted


@needs_onednn
@pytest.mark.parametrize(("given", "expected"), [LAYERS[0], LAYERS[2], LAYERS[-1]])
def test_the_rules_serve_programs(given, expected, monkeypatch):
    monkeypatch.setenv(OPTION, "auto")
    for array, wanted in zip(layer(*given), (False, expected), strict=True):
        graph = tw.Graph([array_for(i) for i in array.node.inputs], array)
        values = [drawn(*i.shape).astype(given[-1]) for i in array.node.inputs]
        program = graph.compile(engine="cpu")
        served = wanted and given[-1] == "float32"
        assert ("by oneDNN: convolution" in account(program)) == served
        want = graph.compile(engine="reference")(*values)
        np.testing.assert_allclose(program(*values), want, rtol=1e-4, atol=1e-4)
        alone = graph.compile(engine="cpu", threads=1)
        np.testing.assert_array_equal(alone(*values), program(*values))


@needs_onednn
def test_what_the_rules_choose_does_not_depend_on_the_number_of_threads():
    for side, channels, groups, stride in (
        (14, 2, 24, 1),
        (9, 4, 32, 2),
        (11, 8, 9, 1),
        (6, 6, 5, 2),
    ):
        geometry = (stride, stride), ((1, 1), (1, 1)), (1, 1), groups
        x, k = drawn(2, side, side, channels * groups), drawn(3, 3, channels, channels * groups)
        slope = by_onednn(Convolution(*geometry), x, k)
        back = ConvolutionInputGradient(*geometry, (side, side))
        for op, arrays, known in (
            (Convolution(*geometry), (x, k), 1),
            (back, (k, slope), 0),
        ):
            for given in ((), (known,)):
                results = [by_onednn(op, *arrays, known=given, threads=t) for t in (1, 2, 3, 5)]
                for other in results[1:]:
                    np.testing.assert_array_equal(other, results[0])


# --------------------------------------------------------------------- kernels


@needs_onednn
@pytest.mark.parametrize("activation", Activation)
def test_special_values_are_those_of_our_own(activation):
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -1.0, 2.0, 1e38, -1e-40], np.float32)
    x, zeros = np.zeros((1, 2, 2, 4), np.float32), np.zeros((1, 1, 4, 8), np.float32)
    op = FusedConvolution(*ONE_TAP, Epilogue(True, False, activation))
    got = by_onednn(op, x, zeros, special)
    want = special
    if activation.op is not None:
        x = tw.var("x", shape=special.shape, dtype="float32")
        want = tw.Graph([x], getattr(tnp, activation.value)(x)).compile(engine="cpu")(special)
    np.testing.assert_array_equal(got, np.broadcast_to(want, got.shape))


@needs_onednn
def test_max_pooling_stays_with_us(forced):
    assert MaxPool not in OFFERS
    x = tw.var("x", shape=(1, 4, 4, 16), dtype="float32")
    value = drawn(1, 4, 4, 16)
    value[0, 1, 1, 3] = np.nan
    program = tw.Graph([x], tnp.max_pool2d(x, 2)).compile(engine="cpu")
    assert np.isnan(program(value)[0, 0, 0, 3])


@needs_onednn
def test_a_residual_may_lie_where_the_result_does():
    x, k, residual = drawn(1, 9, 9, 8), drawn(3, 3, 8, 16), drawn(1, 9, 9, 16)
    op = FusedConvolution(*NINE_TAPS, Epilogue(False, True, Activation.RELU))
    apart = by_onednn(op, x, k, residual)
    found, over = kernel(op, (x, k, residual)), residual.copy()
    guard = np.full(over.nbytes + 192, 0xA5, np.uint8)
    start = -guard.ctypes.data % 64 + 64
    place = guard[start : start + over.nbytes].view(np.float32).reshape(over.shape)
    place[...] = over
    called(found, (x, k, place), place)
    np.testing.assert_array_equal(place, apart)


@needs_onednn
@pytest.mark.parametrize(
    ("op", "shapes", "known"),
    [
        (Convolution(*NINE_TAPS), ((1, 14, 14, 64), (3, 3, 64, 48)), (1,)),
        (Convolution(*NINE_TAPS), ((3, 14, 14, 3), (3, 3, 3, 48)), ()),
        (Convolution(*ONE_TAP), ((1, 17, 17, 768), (1, 1, 768, 192)), (1,)),
        (Convolution(*NINE_TAPS), ((1, 7, 7, 512), (3, 3, 512, 512)), (1,)),
        (Matmul(), ((100, 784), (784, 300)), ()),
        (Matmul(), ((2, 33, 65), (2, 65, 17)), ()),
        (
            FusedMatmul(False, True, Epilogue(activation=Activation.TANH)),
            ((300, 400), (500, 400)),
            (1,),
        ),
    ],
    ids=str,
)
def test_results_forwards_do_not_depend_on_the_number_of_threads(op, shapes, known):
    arrays = [drawn(*shape) for shape in shapes]
    results = [by_onednn(op, *arrays, known=known, threads=t) for t in (1, 2, 3, 5)]
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@needs_onednn
def test_known_weights_are_arranged_once():
    arrays = drawn(1, 14, 14, 64), drawn(3, 3, 64, 48)
    known, unknown = (kernel(Convolution(*NINE_TAPS), arrays, n) for n in ((1,), ()))
    ((number, arrangement),) = known.prepared
    assert number == 1
    assert arrangement.nbytes >= arrays[1].nbytes
    assert arrangement(arrays[1]).nbytes == arrangement.nbytes
    assert not unknown.prepared
    assert unknown.scratch >= known.scratch + arrangement.nbytes


@needs_onednn
def test_kernels_are_remembered_by_what_they_depend_on():
    op, arrays = Convolution(*ONE_TAP), (drawn(1, 5, 5, 16), drawn(1, 1, 16, 16))
    first = kernel(op, arrays)
    assert kernel(op, [a + 1 for a in arrays]) is first
    assert kernel(op, arrays, threads=3) is not first
    assert kernel(op, arrays, known=(1,)) is not first


@needs_onednn
def test_what_it_cannot_do_it_does_not_offer():
    x, k = drawn(1, 5, 5, 16), drawn(1, 1, 16, 16)
    for arrays in ((x[:, ::-1], k), (x.astype(np.float64), k.astype(np.float64)), (x[:0], k)):
        assert kernel(Convolution(*ONE_TAP), arrays) is None
    backwards = Memory(k.shape, (*k.strides[:2], -64, 4), FLOAT)
    node = node_of(Convolution(*ONE_TAP), x, k)
    given = contiguous(x.shape, FLOAT), backwards
    assert offer(node, given, (contiguous(node.shape, FLOAT),), 2) is None


@needs_onednn
def test_a_primitive_that_fails_says_so():
    arrays = drawn(1, 5, 5, 16), drawn(1, 1, 16, 16)
    found = kernel(Convolution(*ONE_TAP), arrays, threads=4)
    _, recipe, calls = found.library.tracker
    place = list(recipe).index(calls[0].what.value)
    recipe[place] = 0
    try:
        with pytest.raises(AssertionError, match="it says that it failed"):
            called(found, arrays, poisoned((1, 5, 5, 16), FLOAT))
    finally:
        recipe[place] = calls[0].what.value
    called(found, arrays, poisoned((1, 5, 5, 16), FLOAT))


@needs_onednn
def test_gradients_with_known_weights():
    k, slope = drawn(3, 3, 8, 16), drawn(1, 9, 9, 16)
    op = ConvolutionInputGradient(*NINE_TAPS, (9, 9))
    np.testing.assert_array_equal(by_onednn(op, k, slope, known=(0,)), by_onednn(op, k, slope))
    down = ConvolutionKernelGradient(*NINE_TAPS, (3, 3))
    assert by_onednn(down, drawn(1, 9, 9, 8), slope) is not None


# --------------------------------------------------------------------- threads


@needs_onednn
def test_one_kernel_can_be_run_by_several_threads_at_once():
    arrays = drawn(1, 28, 28, 32), drawn(3, 3, 32, 32)
    found = kernel(Convolution(*NINE_TAPS), arrays)
    assert found is not None

    def right(seed: int) -> bool:
        x = drawn(1, 28, 28, 32, seed=seed)
        want = by_onednn(Convolution(*NINE_TAPS), x, arrays[1])
        results = [poisoned(want.shape, FLOAT) for _ in range(30)]
        for result in results:
            called(found, (x, arrays[1]), result)
        return all(np.array_equal(result, want) for result in results)

    with ThreadPoolExecutor(3) as threads:
        assert all(threads.map(right, (1, 2, 3)))


@needs_onednn
def test_kernels_can_be_made_by_several_threads_at_once():
    for turn in range(5):
        arrays = drawn(1, 6 + turn, 6, 8), drawn(3, 3, 8, 8)
        with_strides.cache_clear()
        with ThreadPoolExecutor(4) as threads:
            asked = partial(kernel, Convolution(*NINE_TAPS), arrays, (), 7)
            made = [asking.result() for asking in [threads.submit(asked) for _ in range(8)]]
            want = by_onednn(Convolution(*NINE_TAPS), *arrays, threads=1)
            for found in made:
                result = poisoned(want.shape, FLOAT)
                called(found, arrays, result)
                np.testing.assert_array_equal(result, want)


@needs_onednn
def test_the_pool_may_spin_again_after_a_kernel():
    by_onednn(Matmul(), drawn(30, 40), drawn(40, 50), threads=2)
    assert ctypes.c_int64.from_address(pool_of(2).resting).value == 0


def test_idle_workers_sleep_at_once_while_others_work():
    pool = Pool(2)
    pool.start()
    if not pool._workers:
        pytest.skip("there are no workers on this system")
    nothing = "define void @nothing(ptr %row, i64 %worker, i64 %workers) {\n  ret void\n}\n"
    enter = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(
        ctypes.c_int64.from_address(pool.state + _enter()).value
    )
    kernel_place = compile_ir(nothing).address("nothing")
    sleeping = ctypes.c_int32.from_address(pool.state + SLEEPING)
    resting = ctypes.c_int64.from_address(pool.resting)
    _await(lambda: sleeping.value == 1)
    pool._set(SPINS, 10**12)
    try:
        resting.value = 1
        for _ in range(3):
            enter(pool.state, kernel_place, None, 2)
            _await(lambda: sleeping.value == 1)
    finally:
        pool._set(SPINS, 0)
        resting.value = 0
        pool.stop()


def _enter() -> int:
    from tawny.engine.cpu.threads.pool_code import ENTER

    return ENTER


def _await(condition) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(1e-3)


@needs_onednn
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks on this system")
def test_a_forked_process_computes_the_same():
    text = """
        import os, sys
        import numpy as np
        import tawny as tw
        x = tw.var("x", shape=(300, 300), dtype="float32")
        p = tw.Graph([x], x @ x).compile(threads=2)
        value = np.ones((300, 300), np.float32)
        assert (p(value) == 300).all()
        assert "by oneDNN" in str(p.plan)
        child = os.fork()
        if not child:
            os._exit(int(not (p(2 * value) == 1200).all()))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (p(3 * value) == 2700).all()
    """
    _python(text, **{OPTION: "onednn"})


def _python(text: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ------------------------------------------------------------------- the library


def test_nothing_is_loaded_unless_it_serves():
    text = """
        import numpy as np
        import tawny as tw
        x = tw.var("x", shape=(64, 64), dtype="float32")
        tw.Graph([x], x @ x).compile()(np.ones((64, 64), np.float32))
        from pathlib import Path
        maps = Path("/proc/self/maps")
        print("libdnnl" in (maps.read_text() if maps.exists() else ""))
    """
    assert _python(text, **{OPTION: "auto"}).strip() == "False"


@pytest.fixture
def absent(monkeypatch):
    monkeypatch.setattr(library, "find_library", lambda: None)
    reason = library._load.__wrapped__()
    assert isinstance(reason, str)
    monkeypatch.setattr(library, "_load", lambda: reason)


def test_without_the_library_our_own_kernels_serve(absent, forced, capsys):
    x = tw.var("x", shape=(21, 23), dtype="float32")
    program = tw.Graph([x], x @ drawn(23, 27)).compile(engine="cpu")
    value = drawn(21, 23)
    np.testing.assert_allclose(program(value), value @ drawn(23, 27), rtol=1e-4, atol=1e-4)
    said = account(program)
    assert said.startswith("cpu: 1 of 1 steps compiled; TAWNY_PROVIDER asks for oneDNN, but ")
    assert "not installed" in said or "no wheel" in said
    cli.main(["doctor"])
    assert "our own kernels; no oneDNN: " in capsys.readouterr().out


def test_a_library_that_cannot_be_loaded_is_named(monkeypatch, tmp_path):
    broken = tmp_path / library.LIBRARY
    broken.write_bytes(b"this is no library")
    monkeypatch.setattr(library, "find_library", lambda: broken)
    assert "OSError" in library._load.__wrapped__()


@needs_onednn
def test_the_doctor_names_the_provider(capsys, monkeypatch):
    version = library.load().version
    for provider, words in (
        ("auto", f"our own kernels, and oneDNN {version} where it was measured to be faster"),
        ("own", f"our own kernels, as {OPTION} says; oneDNN {version} is there"),
        ("onednn", f"oneDNN {version} for all it computes alike, as {OPTION} says"),
    ):
        monkeypatch.setenv(OPTION, provider)
        cli.main(["doctor"])
        assert words in capsys.readouterr().out


@needs_onednn
def test_the_environment_is_left_as_it_was():
    assert "GOMP_SPINCOUNT" not in os.environ
    openmp = library.load().openmp
    before = openmp.omp_get_max_threads()
    by_onednn(Matmul(), drawn(30, 40), drawn(40, 50), threads=5)
    assert openmp.omp_get_max_threads() == before
