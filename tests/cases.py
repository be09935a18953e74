"""Cases: one call of a public function, and an independent witness of what it must give.

A case is run as `tawny.eager`, as `tawny.numpy` on constants, and as `tawny.numpy` on variables,
for every dtype it names; shape, dtype and values must be the witness's.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

FLOATS = ("float32", "float64")
INEXACT = (*FLOATS, "complex64", "complex128")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
REAL = ("bool", *INTEGERS, "float16", *FLOATS)
NUMERIC = (*INTEGERS, "float16", *INEXACT)
EVERYTHING = ("bool", *NUMERIC)
COMMON = ("bool", "int32", "float32", "float64", "complex128")
"""Enough dtypes for functions that treat all alike."""

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0)


@dataclass(frozen=True)
class Case:
    """`call(xp, *operands)` must equal `witness(*operands)`.

    `shapes` are the operands' shapes; operands are drawn in every one of `dtypes` (all alike), from
    the interval `domain` (for dtypes that hold it), with special values among them if `special`.
    An operand given as an array instead of a shape is taken as it is.
    `exact` asks for equal bits; otherwise `rtol` and `atol` (scaled for small floats) apply.
    """

    name: str
    call: Callable[..., Any]
    witness: Callable[..., Any]
    shapes: Sequence[Any] = ((3, 4),)
    dtypes: Sequence[str] = ("float64",)
    domain: tuple[float, float] = (-8.0, 8.0)
    special: bool = False
    exact: bool = True
    rtol: float = 1e-12
    check_dtype: bool = True
    needs_values: bool = False
    """The result's shape depends on values, so variables are refused with a clear error."""

    def operands(self, dtype: str) -> list[np.ndarray]:
        rng = np.random.default_rng(zlib.crc32(f"{self.name}{dtype}{self.shapes}".encode()))
        return [
            s if isinstance(s, np.ndarray) else sample(rng, s, dtype, self.domain, self.special)
            for s in self.shapes
        ]


def sample(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: str,
    domain: tuple[float, float] = (-8, 8),
    special: bool = False,
) -> np.ndarray:
    """A non-contiguous random array: every second element of a larger one along its last axis."""
    kind = np.dtype(dtype)
    low, high = domain
    wide = (*shape[:-1], 2 * shape[-1]) if shape else ()
    if kind.kind == "b":
        out = rng.random(wide) < 0.5
    elif kind.kind in "iu":
        low = max(low, 0) if kind.kind == "u" else low
        out = rng.integers(int(np.ceil(low)), int(np.floor(high)) + 1, wide)
    else:
        out = rng.uniform(low, high, wide)
        if kind.kind == "c":
            out = out + 1j * rng.uniform(low, high, wide)
        if special and np.size(out) > 0:
            flat = np.asarray(out).reshape(-1)
            flat[::3] = np.resize(SPECIAL, flat[::3].shape)
            out = flat.reshape(wide)
    out = np.asarray(out).astype(kind)
    return out[..., ::2] if shape else out


def rounded_once(oracle: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function, with float16 computed in float32 and rounded once."""

    def function(x: Any, *args: Any, **options: Any) -> Any:
        if np.asarray(x).dtype != np.float16:
            return oracle(x, *args, **options)
        result = oracle(x.astype(np.float32), *args, **options)
        return result.astype(x.dtype) if result.dtype == np.float32 else result

    return function


class Failures:
    """What fails among many small checks of one test: the others run all the same."""

    def __init__(self) -> None:
        self._found: list[BaseException] = []

    @contextmanager
    def of(self, label: str) -> Iterator[None]:
        """Notes a failure inside under its label."""
        try:
            yield
        except (Exception, pytest.fail.Exception) as failure:
            failure.add_note(label)
            self._found.append(failure)

    def raise_all(self) -> None:
        """Fails with all that failed."""
        if self._found:
            labels = [failure.__notes__[-1] for failure in self._found]
            raise BaseExceptionGroup(f"{len(labels)} failed: {'; '.join(labels)}", self._found)


def each(
    items: Iterable[Any], label: Callable[[Any], str] = str
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Makes one test of a quick check: it checks all items, and names all that fail.

    An item that is a tuple is the arguments of the check.
    """
    rows = list(items)

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            failures = Failures()
            for item in rows:
                with failures.of(label(item)):
                    check(*item) if isinstance(item, tuple) else check(item)
            assert rows, "there is nothing to check"
            failures.raise_all()

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate


def parts(result: Any) -> list[Any]:
    """The arrays in a result, flattened."""
    if isinstance(result, (tuple, list)):
        return [a for r in result for a in parts(r)]
    return [result]


def assert_same(got: Any, expected: Any, case: Case) -> None:
    """Shape, dtype and values agree."""
    got_parts, expected_parts = parts(got), parts(expected)
    assert len(got_parts) == len(expected_parts)
    for g, w in zip(got_parts, expected_parts, strict=True):
        want = np.asarray(w)
        have = np.asarray(g)
        assert have.shape == want.shape
        if case.check_dtype:
            assert have.dtype == want.dtype
        if case.exact:
            np.testing.assert_array_equal(have, want)
            if want.dtype.kind == "f":
                np.testing.assert_array_equal(
                    np.signbit(have[want == 0]), np.signbit(want[want == 0])
                )
        else:
            eps = np.finfo(want.dtype).eps if want.dtype.kind in "fc" else 0.0
            rtol = max(case.rtol, 64 * float(eps))
            infinite = np.isinf(want) & ~np.isnan(want) if want.dtype.kind == "c" else np.False_
            for part in (np.real, np.imag) if np.any(infinite) else ():
                ends = part(have[infinite]), part(want[infinite])
                np.testing.assert_allclose(*ends, rtol=rtol, atol=rtol)
            ends = (np.where(infinite, 0, x) for x in (have, want))
            np.testing.assert_allclose(*ends, rtol=rtol, atol=rtol)
