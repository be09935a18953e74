"""16-bit floats: functions of several steps compute in float32 and round once, on all engines."""

from __future__ import annotations

import os
import zlib

import ml_dtypes
import numpy as np
import pytest
import scipy.special

import tawny as tw
import tawny.numpy as tnp
from cases import parts, sample
from engines import DEVICE, has_device
from tawny import nn
from tawny.tree import map_leaves
from test_functions import CASES

ULPS = 2.01
"""How far a result may be from the exact one: it is rounded once, in either direction, from a
float32 that is exact to far less than that."""

TRUTHS = {"spacing", "logspace"}
"""Functions whose result, or whose operands, say how coarse the dtype is."""

OTHERS = {"delay"}
"""What users' own functions compute with, NumPy or another, is theirs."""

CROSSING = {"sinc"}
"""Functions with zeros that float32 does not hold: near them bfloat16 has more digits than that."""

RUNNING = {"cumsum", "cumprod", "cumulative_sum", "cumulative_prod", "nancumsum", "nancumprod"}
"""Each of their elements is made of the rounded one before it, as in NumPy."""


def spaced(case):
    """Scales of the operands: as they are and, where nothing forbids it, with large squares."""
    return (1, 16, 256) if case.domain == (-8.0, 8.0) else (1,)


DEVICES = [DEVICE] * has_device()

LARGE = bool(os.environ.get("TAWNY_LARGE_TESTS"))
"""Whether all functions are compiled on devices, whose drivers take long; every fourth is, if not."""

HALVES = (np.dtype("float16"), np.dtype(ml_dtypes.bfloat16))


def spacing(rounded):
    """How far apart the numbers of a dtype of 16 bits are."""
    if rounded.dtype == "float16":
        return np.spacing(np.abs(rounded)).astype("float64")
    size = np.abs(rounded.astype("float64"))
    return 2.0 ** (np.floor(np.log2(np.maximum(size, 2.0**-126))) - 7)


def halves(case, scale, dtype):
    rng = np.random.default_rng(zlib.crc32(f"{case.name}{case.shapes}".encode()))
    low, high = case.domain
    for shape in case.shapes:
        if isinstance(shape, np.ndarray):
            yield shape.astype(dtype) if shape.dtype.kind == "f" else shape
        else:
            drawn = sample(rng, shape, "float16", (low * scale, high * scale))
            yield drawn.astype(dtype)


def widened(operands):
    return [x.astype("float64") if x.dtype in HALVES else x for x in operands]


def is_rounded(got, exact) -> bool:
    """Whether `got` is near an exact result that fits its dtype, and infinite elsewhere."""
    rounded = np.asarray(exact).astype(got.dtype)
    apart = np.abs(got.astype("float64") - exact)
    close = apart <= ULPS * spacing(rounded)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return bool((close | same).all())


def assert_rounded(got, exact) -> None:
    assert is_rounded(got, exact), (got, exact)


def of_floats(case) -> bool:
    """Whether a case is of a function of floats that has a value for variables.

    Those of float64 alone may scale their operands themselves, in float16 by what that does not
    hold.
    """
    floats = any(d.startswith("float") for d in case.dtypes) and list(case.dtypes) != ["float64"]
    return floats and not case.needs_values and case.name not in TRUTHS | RUNNING | OTHERS


def table(dtype):
    """Operands of a dtype, the arrays a function makes of variables, and the exact results."""
    for case in filter(of_floats, [case for _, case in CASES]):
        if case.name in CROSSING and dtype != "float16":
            continue
        for scale in spaced(case):
            operands = list(halves(case, scale, dtype))
            given = [tw.var(shape=x.shape, dtype=x.dtype) for x in operands]
            try:
                exact = parts(case.witness(*widened(operands)))
                outputs = [tnp.asarray(p) for p in parts(case.call(tnp, *given))]
            except (TypeError, ValueError):  # 16 bits are refused, or the scale leaves the domain
                continue
            if outputs and all(x.dtype == dtype for x in outputs):
                yield case.name, given, operands, outputs, exact


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_functions_round_once(dtype) -> None:
    tried, wrong = set(), []
    for name, given, operands, outputs, exact in table(dtype):
        graph = tw.Graph(given, outputs, unused="ignore")
        engines = ["reference", "cpu", *(DEVICES if LARGE or len(tried) % 4 == 0 else ())]
        for engine in ["reference"] if name in tried else engines:
            for got, w in zip(graph.compile(engine=engine)(*operands), exact, strict=True):
                if not is_rounded(got, w):
                    wrong.append(f"{name} on {engine}: {got}, not {w}")
        tried.add(name)
    assert wrong == []
    assert {"softmax", "linalg.vector_norm", "std", "nanvar", "quantile"} <= tried


LAYERS = {
    "LayerNorm": (lambda d: nn.LayerNorm(6, dtype=d), (4, 6)),
    "LayerNorm without affine": (lambda d: nn.LayerNorm(6, affine=False), (4, 6)),
    "GroupNorm": (lambda d: nn.GroupNorm(2, 6, dtype=d), (4, 3, 6)),
    "BatchNorm": (lambda d: nn.BatchNorm(6, dtype=d), (4, 6)),
    "gelu": (lambda d: nn.Activation("gelu"), (4, 6)),
    "silu": (lambda d: nn.Activation("silu"), (4, 6)),
    "selu": (lambda d: nn.Activation("selu"), (4, 6)),
    "softsign": (lambda d: nn.Activation("softsign"), (4, 6)),
    "softmax": (lambda d: nn.Activation("softmax"), (4, 6)),
}


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_round_once(name, engine, training, half) -> None:
    make, shape = LAYERS[name]
    x = (np.random.default_rng(3).uniform(-1, 1, shape) * 500).astype("float16").astype(half)

    def output(dtype):
        given = tw.var(shape=shape, dtype=dtype)
        layer = make(dtype)
        result = layer.apply(layer.parameters, given, training=training)
        return tw.Graph([given], result).compile(engine=engine)(x.astype(dtype))

    got = output(half)
    assert got.dtype == half
    assert_rounded(got, output("float64"))


LOSSES = {
    "quadratic": nn.quadratic,
    "mean_squared": nn.mean_squared,
    "l2": nn.l2,
    "huber": lambda x, y: nn.huber(x, y, 200.0),
    "cross_entropy": nn.cross_entropy,
    "smoothed": lambda x, y: nn.cross_entropy(x, y, smoothing=0.1),
    "binary_cross_entropy": nn.binary_cross_entropy,
}


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_round_once(name, alike, engine, half) -> None:
    target = half if alike else "float64"
    x = np.zeros((4, 8), half)
    x[0, :2] = 400, -200
    y = np.full((4, 8), 0.125, target)

    def loss(dtype):
        given = [tw.var(shape=x.shape, dtype=dtype), tw.var(shape=y.shape, dtype=target)]
        return tw.Graph(given, LOSSES[name](*given)).compile(engine=engine)(x.astype(dtype), y)

    got = loss(half)
    assert got.dtype == half
    assert_rounded(got, loss("float64"))


def test_attention_adds_up_what_float16_cannot_hold(engine) -> None:
    """Scores of 90,000 are beyond float16; what is looked at is not."""
    layer = nn.MultiHeadAttention(4, 1, bias=False, dtype="float16")
    same = map_leaves(lambda _: np.eye(4, dtype="float16"), layer.parameters)
    x = np.zeros((1, 3, 4), "float16")
    x[0, :, 0] = 300, 299, -300
    given = tw.var(shape=x.shape, dtype="float16")
    got = tw.Graph([given], layer.apply(same, given)).compile(engine=engine)(x)
    w = x[0].astype("float64")
    expected = scipy.special.softmax(w @ w.T / 2, axis=-1) @ w
    assert got.dtype == "float16"
    assert_rounded(got[0], expected)


@pytest.mark.parametrize("power", [-6, -1, 0.5, 1, 2, 3, 6])
def test_norms_do_not_overflow_on_the_way(power) -> None:
    x = np.array([[-8.48, 100, 3], [250, 0.25, 17]], "float16")
    exact = np.linalg.norm(x.astype("float64"), power, axis=-1)
    given = tw.var(shape=x.shape, dtype="float16")
    graph = tw.Graph([given], tnp.linalg.vector_norm(given, ord=power, axis=-1))
    for engine in ("reference", "cpu"):
        assert_rounded(graph.compile(engine=engine)(x), exact)


def test_the_dtype_asked_for_is_the_dtype_given() -> None:
    x = np.array([60000, 60000, 3], "float16")
    assert float(tnp.mean(x)) == 40000
    assert tnp.average(x, weights=np.ones(3, "float32")).dtype == "float32"
    assert tnp.linalg.vector_norm(x).dtype == "float16"
    assert tnp.softmax(x).dtype == "float16"
    assert tnp.polyval(np.ones(2, "int16"), x).dtype == "float32"
