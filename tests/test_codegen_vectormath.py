"""Mathematical functions against oracles of higher precision, in units in the last place."""

from __future__ import annotations

import ctypes
import re
from functools import cache

import mpmath
import numpy as np
import pytest

import tawny as tw
from tawny import nn
from tawny.engine.llvm import vectormath
from tawny.engine.llvm.ir.builder import F32, F64, I64, PTR, Module, Type
from tawny.engine.llvm.runtime.compiler import assembly
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import compile_ir

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

LIMITS = {"f4": 2.0, "f8": 4.0}
"""What is promised, in units in the last place."""

UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh cbrt erf erfc".split()
)
BINARY = ["atan2", "hypot", "pow", "fmod"]
NUMPY = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "pow": "power",
}
TYPES = {"f4": F32, "f8": F64}
EXTENDED = np.finfo(np.longdouble).nmant >= 63
"""Whether NumPy's longest float is long enough to judge float64."""


@cache
def function(name: str, dtype: str, lanes: int, arity: int):
    """A compiled loop over arrays whose length is a multiple of the lanes."""
    type: Type = TYPES[dtype]
    module = Module(host())
    arguments = {f"x{i}": PTR for i in range(arity)} | {"out": PTR, "n": I64}
    with module.function("loop", arguments) as f:
        *operands, out, n = f.arguments
        with f.loop(0, n, max(lanes, 1)) as loop:
            values = [f.load(type.by(lanes), f.element(x, loop.index, type)) for x in operands]
            result = getattr(vectormath, name)(f, *values)
            f.store(result, f.element(out, loop.index, type))
    library = compile_ir(module.text())
    kinds = [ctypes.c_void_p] * (arity + 1) + [ctypes.c_int64]
    return library, ctypes.CFUNCTYPE(None, *kinds)(library.address("loop"))


def apply(name: str, *operands: np.ndarray, lanes: int | None = None) -> np.ndarray:
    """The function of arrays."""
    dtype = operands[0].dtype.str[1:]
    if lanes is None:
        lanes = host().vector_bytes // operands[0].itemsize
    _, loop = function(name, dtype, lanes, len(operands))
    count = len(operands[0])
    padded = [np.append(x, np.ones(-count % max(lanes, 1), x.dtype)) for x in operands]
    out = np.full(len(padded[0]), np.nan, padded[0].dtype)
    loop(*[x.ctypes.data for x in padded], out.ctypes.data, len(out))
    return out[:count]


def spread(dtype: str, seed: int = 0, count: int = 4000) -> np.ndarray:
    """Numbers with every exponent and both signs, in intervals of interest, and special ones."""
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    low, high = int(np.log2(info.smallest_subnormal)), info.maxexp
    powers = np.arange(low, high).repeat(8).astype(float)
    every = np.ldexp(rng.uniform(1, 2, powers.size), powers.astype(int)) * rng.choice(
        [-1, 1], powers.size
    )
    intervals = [(-1, 1), (-2, 2), (0.4, 2.5), (-10, 10), (-30, 30), (-110, 110), (-750, 750)]
    intervals += [(-1e4, 1e4), (-1e6, 1e6)]
    near = [rng.uniform(a, b, count) for a, b in intervals]
    small = rng.choice([-1, 1], count) * 10.0 ** rng.uniform(-9, 2, count)
    beside_one = 1 + rng.standard_normal(count) * 10.0 ** rng.uniform(-16, -1, count)
    quarter_turns = np.arange(-800, 800) * (np.pi / 2)
    eighths = np.arange(-1200, 1200) / 8
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, info.max, -info.max, info.tiny]
    special += [-info.tiny, info.smallest_subnormal, -info.smallest_subnormal, 0.5, -0.5, 2, 10]
    parts = [every, *near, small, beside_one, quarter_turns, eighths, special]
    return np.concatenate(parts).astype(dtype)


def errors(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Distance in units in the last place of the rounded oracle; infinite where special values
    differ."""
    rounded = want.astype(got.dtype)
    unit = np.spacing(np.maximum(np.abs(rounded), np.finfo(got.dtype).tiny))
    distance = np.abs(got.astype(want.dtype) - want) / unit.astype(want.dtype)
    same = (np.isnan(got) & np.isnan(rounded)) | (np.isinf(rounded) & (got == rounded))
    return np.where(same, 0, np.where(np.isnan(distance), np.inf, distance)).astype(float)


def check(name: str, operands: list[np.ndarray], got: np.ndarray, want: np.ndarray) -> None:
    limit = LIMITS[got.dtype.str[1:]]
    distance = errors(got, want)
    worst = int(np.argmax(distance))
    shown = [x[worst] for x in operands], got[worst], want[worst]
    assert distance[worst] <= limit, (name, distance[worst], shown)
    zeros = (want == 0) & (got == 0)
    signs = np.signbit(got[zeros]) == np.signbit(want[zeros])
    assert signs.all(), (name, [x[zeros][~signs][:3] for x in operands])


def oracle(name: str, operands: list[np.ndarray]) -> np.ndarray:
    """NumPy's function in the next longer format."""
    longer = np.float64 if operands[0].dtype == np.float32 else np.longdouble
    return getattr(np, NUMPY.get(name, name))(*[x.astype(longer) for x in operands])


def exact(name: str, operands: list[np.ndarray]) -> np.ndarray:
    """The function to 40 digits, as the sum of two float64 in the longest format."""
    with mpmath.workdps(40):
        out = [_one(name, *[float(x) for x in xs]) for xs in zip(*operands, strict=True)]
    return np.array(out, np.longdouble)


def _one(name: str, *args: float) -> np.longdouble:
    spelled = {"exp2": lambda x: mpmath.power(2, x), "pow": mpmath.power, "cbrt": _cbrt}
    spelled |= {"log2": lambda x: mpmath.log(x, 2), "log1p": mpmath.log1p}
    value = spelled.get(name, getattr(mpmath, name, None))(*[mpmath.mpf(a) for a in args])
    high = float(value)
    if not np.isfinite(high):
        return np.longdouble(high)
    return np.longdouble(high) + np.longdouble(float(value - mpmath.mpf(high)))


def _cbrt(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


@pytest.mark.parametrize("name", [n for n in UNARY if n not in {"erf", "erfc"}])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_functions_of_one_number(name, dtype):
    if dtype == "f8" and not EXTENDED:
        pytest.skip("no longer format; the exact test remains")
    x = spread(dtype)
    check(name, [x], apply(name, x), oracle(name, [x]))


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_error_functions_of_float32(name):
    import scipy.special

    x = spread("f4")
    check(name, [x], apply(name, x), getattr(scipy.special, name)(x.astype("f8")))


HARD = {
    "acosh": np.float32([1.001937, 1.0070128, 1.0277458]),
    "tan": np.float32([-152.62483, 1.3138533]),
    "atan": np.float32([0.42586902, 0.43487814]),
}
"""Numbers of all float32 where roundings add up most."""


@pytest.mark.parametrize("name", HARD)
def test_hard_numbers(name):
    check(name, [HARD[name]], apply(name, HARD[name]), oracle(name, [HARD[name]]))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_logistic_function_in_both_tails(dtype):
    rng = np.random.default_rng(6)
    x = np.append(rng.uniform(-100, 40, 60_000), rng.uniform(-6, 2, 60_000)).astype(dtype)
    x[:4] = -5.542755, -4.8480477, -np.inf, np.inf
    argument = tw.var("x", shape=x.shape, dtype=dtype)
    (got,) = tw.Graph([argument], [nn.sigmoid(argument)]).compile()(x)
    tail = np.exp(-np.abs(x.astype(np.longdouble)))
    check("sigmoid", [x], got, np.where(x < 0, tail, 1) / (1 + tail))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_functions_of_two_numbers(name, dtype):
    if dtype == "f8" and not EXTENDED:
        pytest.skip("no longer format; the exact test remains")
    x = spread(dtype)
    rng = np.random.default_rng(1)
    operands = [np.concatenate([x] * 3), np.concatenate([rng.permutation(x) for _ in range(3)])]
    if name == "pow":
        operands[0] = np.where(rng.random(len(operands[0])) < 0.7, abs(operands[0]), operands[0])
    got = apply(name, *operands)
    if name == "fmod":
        want = np.fmod(*operands)
        assert ((got == want) | (np.isnan(got) & np.isnan(want))).all()
    else:
        check(name, operands, got, oracle(name, operands))


DOMAINS = {
    "exp": (-745, 709.7),
    "exp2": (-1074, 1023.9),
    "log": (1e-300, 10),
    "log2": (1e-300, 10),
    "log10": (1e-300, 10),
    "log1p": (-0.999, 10),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atanh": (-1, 1),
    "acosh": (1, 10),
    "erf": (-6, 6),
    "erfc": (-6, 27.3),
    "sin": (-1e6, 1e6),
    "cos": (-1e6, 1e6),
    "tan": (-1e6, 1e6),
}


@pytest.mark.parametrize("name", UNARY)
def test_float64_to_many_digits(name):
    rng = np.random.default_rng(2)
    low, high = DOMAINS.get(name, (-20, 20))
    x = np.concatenate(
        [rng.uniform(low, high, 250), rng.uniform(max(low, -1), min(high, 1.5), 250)]
    )
    check(name, [x], apply(name, x), exact(name, [x]))


@pytest.mark.parametrize("name", ["atan2", "hypot", "pow"])
def test_float64_of_two_numbers_to_many_digits(name):
    rng = np.random.default_rng(2)
    x = np.exp(rng.uniform(-5, 5, 400)) * (1 if name == "pow" else rng.choice([-1, 1], 400))
    y = rng.standard_normal(400) * np.exp(rng.uniform(-3, 4, 400))
    check(name, [x, y], apply(name, x, y), exact(name, [x, y]))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_angles_keep_their_digits(name):
    rng = np.random.default_rng(4)
    x = np.ldexp(rng.uniform(1, 2, 200), rng.integers(20, 1023, 200))
    # The float64 nearest to a multiple of pi / 2 among all.
    x[0] = 6381956970095103.0 * 2.0**797
    with mpmath.workdps(400):
        want = np.array([_one(name, float(v)) for v in x], np.longdouble)
    check(name, [x], apply(name, x), want)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_lanes_do_not_change_the_bits(name, dtype):
    """Also of one number at a time, and of vectors wider or narrower than a register."""
    x = spread(dtype, count=200)[::3]
    whole = apply(name, x)
    for lanes in (0, 2, 32):
        got = apply(name, x, lanes=lanes)
        assert ((got == whole) | (np.isnan(got) & np.isnan(whole))).all(), lanes


def test_places_where_users_expect_exact_results():
    for dtype in ("f4", "f8"):

        def of(name: str, *numbers: float, dtype: str = dtype) -> list[float]:
            return apply(name, np.array(numbers, dtype)).tolist()

        assert of("exp", 0.0, -0.0) == [1.0, 1.0]
        assert of("cos", 0.0, -0.0) == [1.0, 1.0]
        assert of("log", 1.0) == [0.0]
        assert of("exp2", *range(-20, 21)) == [2.0**n for n in range(-20, 21)]
        assert of("log2", *[2.0**n for n in range(-20, 21)]) == list(range(-20, 21))
        assert of("cbrt", 8.0, 27.0, -125.0, 1000.0) == [2.0, 3.0, -5.0, 10.0]
        assert of("erfc", 0.0) == [1.0]
        assert of("tanh", 100.0, -100.0) == [1.0, -1.0]
        assert of("cosh", 0.0) == [1.0]
        assert of("acos", 1.0) == [0.0]
    tens = 10.0 ** np.arange(0, 23)
    np.testing.assert_array_equal(apply("log10", tens), np.arange(23.0))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_no_function_of_the_system_is_called(dtype):
    """Only the reduction of huge angles, which is our own."""
    module = Module(host())
    type, lanes = TYPES[dtype], host().vector_bytes // TYPES[dtype].nbytes
    with module.function("all", {"x": PTR, "y": PTR}) as f:
        x, y = (f.load(type.by(lanes), p) for p in f.arguments)
        for name in UNARY + BINARY:
            operands = (x, y) if name in BINARY else (x,)
            f.store(getattr(vectormath, name)(f, *operands), f.arguments[0])
    listing = assembly(module.text(), host())
    called = set(re.findall(r"\b(?:callq?|bl|jmpq?)\s+([A-Za-z_]\w*)", listing))
    assert called == {"angles_reduced"}
