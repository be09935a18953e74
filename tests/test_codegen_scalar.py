"""Generated code of every elementwise op at every dtype, against the reference kernels."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import tawny.numpy  # noqa: F401
from codegen_harness import body_of, numbers, run, run_body, same_bits
from tawny import dtype as dt
from tawny.dtype import DTYPES as NUMPYS
from tawny.engine.llvm.scalar.expressions import is_supported
from tawny.engine.reference.creation import astype
from tawny.engine.reference.elementwise import compute
from tawny.op import ELEMENTWISE, Elementwise
from tawny.ops.body import Body, BodyStep
from tawny.ops.creation import Cast

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

EXACT = set(
    "add subtract multiply divide floor_divide remainder fmod negative positive abs sign square "
    "reciprocal fma sqrt floor ceil trunc rint copysign nextafter signbit isnan isinf isfinite "
    "equal not_equal less less_equal greater greater_equal maximum minimum fmax fmin bitwise_and "
    "bitwise_or bitwise_xor bitwise_invert bitwise_left_shift bitwise_right_shift logical_and "
    "logical_or logical_xor logical_not conj real imag where clip relu heaviside deg2rad rad2deg "
    "adagrad_rate".split()
)
"""Ops whose bits are the reference's, except for complex numbers."""

LEFT_TO_NUMPY = {
    "complex": set("pow sign exp2 expm1 log1p tan asin acos atan tanh asinh acosh atanh".split()),
    "signed": {"pow"},
    "always": {"dawsn"},
}
"""What `codegen.scalar.expressions` says it does not generate."""

ULP = {"float16": 1.0, "bfloat16": 1.0, "float32": 4.0, "float64": 5.0}
"""How far a mathematical function may be from NumPy's, which has an error of its own."""


DTYPES = (*NUMPYS, dt.bfloat16())


def combinations(arity: int) -> list[tuple[np.dtype, ...]]:
    """Dtypes of operands: all alike, and some mixed."""
    alike = [(d,) * arity for d in DTYPES]
    mixed = {
        1: [],
        2: [("i4", "f4"), ("u8", "i8"), ("i8", "u8"), ("f2", "f8"), ("?", "f4"), ("i1", "u1")],
        3: [("?", "f4", "f4"), ("f8", "i4", "f4"), ("?", "c8", "c8"), ("i8", "u1", "i2")],
    }
    return alike + [tuple(map(np.dtype, m)) for m in mixed[arity]]


def accepted(op: Elementwise) -> list[tuple[np.dtype, ...]]:
    """The combinations of dtypes an op takes."""
    out = []
    for dtypes in combinations(op.info.arity or 0):
        try:
            op.infer_dtype(*dtypes)
        except TypeError:
            continue
        out.append(dtypes)
    return out


def reference(op: Elementwise, operands: list[np.ndarray]) -> np.ndarray:
    dtype = op.infer_dtype(*(x.dtype for x in operands))
    with np.errstate(all="ignore"):
        return np.asarray(compute(op, operands)).astype(dtype)


def close(name: str, got: np.ndarray, want: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
    """Where a mathematical function is near enough."""
    if got.dtype.kind == "c":
        info = np.finfo(got.dtype)
        size = np.maximum(np.abs(got.real), np.abs(got.imag))
        return (
            same_bits(got, want)
            | (np.abs(got - want) <= 4 * info.eps * np.abs(want))
            | ~(np.isfinite(size) & np.isfinite(want.real) & np.isfinite(want.imag))
        )
    info = dt.finfo(got.dtype)
    size = np.maximum(np.abs(want.astype(np.float64)), float(info.tiny))
    unit = 2.0 ** np.floor(np.log2(size)) * float(info.eps)
    if name in {"logaddexp", "logaddexp2", "softplus"}:
        # The sum cancels near zero: the error is that of the larger operand.
        size = np.max([np.abs(x).astype(np.float64) for x in operands], axis=0)
        unit = np.maximum(unit, 2 * float(info.eps) * np.where(np.isfinite(size), size, 0))
    error = np.abs(got.astype(np.float64) - want.astype(np.float64))
    near = error <= ULP[str(got.dtype)] * unit
    return same_bits(got, want) | near


def check(name: str, got: np.ndarray, want: np.ndarray, operands: list[np.ndarray]) -> None:
    with np.errstate(all="ignore"):
        kind = dt.kind_of(got.dtype)
        exact = kind not in "fc" or (name in EXACT and kind == "f")
        complex_inside = any(x.dtype.kind == "c" for x in operands) and kind in "fc"
        if name in {"fmax", "fmin"}:
            # NumPy takes one zero or the other, by where the element lies.
            got, want = got + 0, want + 0
        if exact and not complex_inside:
            good = same_bits(got, want)
        else:
            good = close(name, got, want, operands)
    if not good.all():
        worst = np.flatnonzero(~good)[:4]
        shown = [([x[i] for x in operands], got[i], want[i]) for i in worst]
        dtypes = [str(x.dtype) for x in operands]
        pytest.fail(f"{name} of {dtypes}: {len(np.flatnonzero(~good))} wrong: {shown}")


def left_out(op: Elementwise, dtypes: tuple[np.dtype, ...]) -> bool:
    """Whether the op is documented as left to NumPy at these dtypes."""
    name, loop = op.info.name, op.info.dtype.computes_in(op.info.name, dtypes)
    return (
        name in LEFT_TO_NUMPY["always"]
        or (loop.kind == "c" and name in LEFT_TO_NUMPY["complex"])
        or (loop.kind == "i" and name in LEFT_TO_NUMPY["signed"])
    )


def grouped(arity: int) -> list[tuple[tuple[np.dtype, ...], tuple[str, ...]]]:
    """Ops of an arity, several at a time that take the same dtypes."""
    table: dict[tuple[np.dtype, ...], list[str]] = {}
    for name, op in ELEMENTWISE.items():
        if op.info.arity == arity:
            for dtypes in accepted(op):
                table.setdefault(dtypes, []).append(name)
    return [
        (dtypes, tuple(names[i : i + 12]))
        for dtypes, names in table.items()
        for i in range(0, len(names), 12)
    ]


CASES = [case for arity in (1, 2, 3) for case in grouped(arity)]


@pytest.mark.parametrize(
    ("dtypes", "names"), CASES, ids=lambda v: "-".join(map(str, v)) if len(str(v)) < 60 else None
)
def test_every_op_computes_what_the_reference_does(dtypes, names):
    operands = [numbers(d, 501, i) for i, d in enumerate(dtypes)]
    ops = [ELEMENTWISE[n] for n in names]
    made = [op for op in ops if is_supported(op, dtypes)]
    assert {op.info.name for op in ops if op not in made} == {
        op.info.name for op in ops if left_out(op, dtypes)
    }
    if not made:
        return
    count = len(dtypes)
    steps = tuple(BodyStep(op, tuple(range(count)), (501,), op.infer_dtype(*dtypes)) for op in made)
    types = tuple((x.shape, x.dtype) for x in operands)
    body = Body.of(types, steps, tuple(range(count, count + len(made))))
    results = run_body(body, operands)
    assert results is not None
    for op, got in zip(made, results, strict=True):
        check(op.info.name, got, reference(op, operands), operands)


def test_every_op_is_in_a_case():
    tried = {name for _, names in CASES for name in names}
    assert tried == {n for n, op in ELEMENTWISE.items() if accepted(op)}


@pytest.mark.parametrize("given", DTYPES, ids=str)
def test_casts_are_those_of_numpy(given):
    """Also of numbers out of range, except where NumPy itself gives one or the other."""
    x = numbers(given, 501, 5)
    if dt.kind_of(given) in "fc":
        x[:12] = [
            127.9,
            -128.9,
            255.5,
            256,
            32768,
            -40000,
            2.0**31,
            -(2.0**31),
            1e10,
            1e19,
            1e30,
            -1,
        ]
    for wanted in DTYPES:
        body = body_of(Cast(wanted), x) if given.kind != "c" or wanted.kind in "cb" else None
        if body is None:
            step = BodyStep(Cast(wanted), (0,), x.shape, wanted)
            body = Body.of(((x.shape, given),), (step,), (1,))
        results = run_body(body, [x])
        assert results is not None
        with np.errstate(all="ignore"):
            want = astype(Cast(wanted), x)
        good = same_bits(results[0], want)
        if dt.kind_of(given) in "fc" and wanted == dt.UINT32:
            good |= ~((np.real(x) >= 0) & (np.real(x) < 2.0**32))
        assert good.all(), (given, wanted, x[~good][:5], results[0][~good][:5], want[~good][:5])


def test_a_float64_becomes_float16_with_one_rounding():
    base = 1 + 2.0**-11
    x = np.array([base + 2.0**-40, base - 2.0**-40, base, 65519.999, 65520, 2.0**-25 * 1.0000001])
    (got,) = run_body(body_of(Cast(dt.FLOAT16), x), [x])
    np.testing.assert_array_equal(got, x.astype(np.float16))


def nearest_bfloat16(number: float) -> float:
    """By exact fractions: the nearest number of 8 bits, of two the even one."""
    exact = abs(Fraction(number))
    unit = Fraction(2) ** (exact.numerator.bit_length() - exact.denominator.bit_length() - 8)
    while exact / unit >= 256:
        unit *= 2
    return float(round(exact / unit) * unit) * (1 if number >= 0 else -1)


@pytest.mark.parametrize("dtype", ["f8", "i4", "u4", "i8", "u8"])
def test_wide_numbers_become_bfloat16_with_one_rounding(dtype):
    ties = [(2 * n + 1) * 2**k for n in (128, 129, 255) for k in (0, 9, 22, 45, 54)]
    near = [t + d for t in ties for d in (-1, 0, 1)]
    if dtype == "f8":
        near = [t / 2**54 * (1 + d * 2.0**-40) for t in ties for d in (-1, 0, 1)]
    info = np.iinfo(dtype) if dtype != "f8" else None
    x = np.array([n for n in near if info is None or n <= info.max], dtype)
    if dtype[0] != "u":
        x = np.concatenate([x, -x])
    want = [nearest_bfloat16(n) for n in x.tolist()]
    (got,) = run_body(body_of(Cast(dt.bfloat16()), x), [x])
    np.testing.assert_array_equal(got.astype("f8"), want)
    np.testing.assert_array_equal(astype(Cast(dt.bfloat16()), x).astype("f8"), want)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_division_of_all_edges(name, dtype):
    info = np.iinfo(dtype)
    edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 100]
    edges += [-1, -2, -3, -7, -100] if info.min else []
    pairs = np.array(list(itertools.product(edges, edges)), dtype)
    x, y = pairs[:, 0].copy(), pairs[:, 1].copy()
    check(name, run(name, x, y), reference(ELEMENTWISE[name], [x, y]), [x, y])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_remainders_are_exact_however_long_the_quotient(name, dtype):
    rng = np.random.default_rng(3)
    bits = np.dtype(dtype).itemsize * 8
    raw = rng.integers(0, 2**63, 2 * 4001, dtype=np.uint64) << np.uint64(1)
    values = (raw >> np.uint64(64 - bits)).astype(f"u{bits // 8}").view(dtype)
    x, y = values[:4001].copy(), values[4001:].copy()
    x[:5], y[:5] = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    check(name, run(name, x, y), reference(ELEMENTWISE[name], [x, y]), [x, y])


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
def test_powers_of_unsigned_integers_wrap(dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 200, 300).astype(dtype)
    y = rng.integers(0, 70, 300).astype(dtype)
    np.testing.assert_array_equal(run("pow", x, y), np.power(x, y))


def test_whole_powers_are_exact():
    x, y = (a.ravel() for a in np.meshgrid(np.arange(-12.0, 13.0), np.arange(0.0, 13.0)))
    np.testing.assert_array_equal(run("pow", x, y), np.power(x, y))


def test_every_special_case_of_powers():
    inf = np.inf
    edges = np.array(
        [0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 2.5, inf, -inf, np.nan, 2.0**53, 2.0**53 + 2]
    )
    x, y = (a.ravel() for a in np.meshgrid(edges, edges))
    for dtype in ("f4", "f8"):
        a, b = x.astype(dtype), y.astype(dtype)
        with np.errstate(all="ignore"):
            want = np.power(a, b)
        got = run("pow", a, b)
        good = same_bits(got, want) | (np.abs(got - want) <= np.spacing(np.abs(want)))
        assert good.all(), [(a[i], b[i], got[i], want[i]) for i in np.flatnonzero(~good)]
