"""Rules for the dtype of an op's result, as values: `inexact`, `promoted`, `truth` and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from tawny import dtype as dt
from tawny.dtype import Category, DType, check_categories
from tawny.errors import type_error


@dataclass(frozen=True, slots=True)
class DTypeRule:
    """The result dtype, given those of the operands: the first loop they all cast to safely.

    What has a loop for float16 has one for bfloat16.
    """

    says: str
    loops: tuple[DType, ...]
    result: Callable[[DType], DType]
    refuses: frozenset[Category] = frozenset()
    """Categories the operands may have, but not all of them."""
    integers: DType | None = None
    """What operands that are all boolean or integer are computed in, if not the first loop."""
    ignores: int = 0
    """How many leading operands have no say: the condition of `where`."""

    @property
    def accepts(self) -> frozenset[Category]:
        """Categories of operands some loop takes."""
        return _castable_categories(self.loops)

    def computes_in(self, op: str, dtypes: Sequence[DType]) -> DType:
        """The dtype the operands are converted to."""
        dtypes = dtypes[self.ignores :]
        for position, dtype in enumerate(dtypes, self.ignores):
            check_categories(op, position, dtype, self.accepts)
        if self.refuses:
            check_categories(op, 0, dt.promote(*dtypes), self.accepts - self.refuses)
        if self.integers is not None and all(d.kind in "biu" for d in dtypes):
            return self.integers
        common = dt.promote(*dtypes)
        if common in self.loops or (dt.FLOAT16 in self.loops and dt.is_bfloat16(common)):
            return common
        for loop in self.loops:
            if all(dt.can_cast(d, loop) for d in dtypes):
                return loop
        listed = " and ".join(map(str, dtypes))
        raise type_error(
            op, f"operands have dtypes {listed}, whose common dtype {common} is not accepted"
        )

    def __call__(self, op: str, dtypes: Sequence[DType]) -> DType:
        return self.result(self.computes_in(op, dtypes))


@cache
def _castable_categories(loops: tuple[DType, ...]) -> frozenset[Category]:
    return frozenset(c for d, c in dt.DTYPES.items() if any(np.can_cast(d, t) for t in loops))


def _keep_dtype(dtype: DType) -> DType:
    return dtype


def _bool(dtype: DType) -> DType:
    del dtype
    return dt.BOOL


ALL_LOOPS: Final = tuple(dt.DTYPES)
NUMBER_LOOPS: Final = ALL_LOOPS[1:]
REAL_LOOPS: Final = ALL_LOOPS[:-2]
REAL_NUMBER_LOOPS: Final = NUMBER_LOOPS[:-2]
INTEGER_LOOPS: Final = ALL_LOOPS[1:9]
FLOAT_LOOPS: Final = ALL_LOOPS[9:12]
INEXACT_LOOPS: Final = ALL_LOOPS[9:]

promoted: Final = DTypeRule("the promoted dtype", ALL_LOOPS, _keep_dtype)
numeric: Final = DTypeRule("the promoted dtype, at least int8", NUMBER_LOOPS, _keep_dtype)
not_boolean: Final = DTypeRule("the promoted dtype", NUMBER_LOOPS, _keep_dtype, dt.BOOLEAN)
real: Final = DTypeRule("the promoted dtype, not complex", REAL_LOOPS, _keep_dtype)
real_numeric: Final = DTypeRule("the promoted dtype, at least int8", REAL_NUMBER_LOOPS, _keep_dtype)
floating: Final = DTypeRule(
    "the least floating-point dtype that holds all", FLOAT_LOOPS, _keep_dtype
)
inexact: Final = DTypeRule("the least inexact dtype that holds all", INEXACT_LOOPS, _keep_dtype)
quotient: Final = DTypeRule(
    "the least inexact dtype that holds all; float64 for integers",
    INEXACT_LOOPS,
    _keep_dtype,
    integers=dt.FLOAT64,
)
magnitude: Final = DTypeRule("the promoted dtype, real", ALL_LOOPS, dt.real_dtype)
bits: Final = DTypeRule("the promoted boolean or integer dtype", ALL_LOOPS[:9], _keep_dtype)
integer: Final = DTypeRule("the promoted integer dtype", INTEGER_LOOPS, _keep_dtype)
whole: Final = DTypeRule("the promoted integer dtype", INTEGER_LOOPS, _keep_dtype, dt.BOOLEAN)
chosen: Final = DTypeRule("the promoted dtype of the choices", ALL_LOOPS, _keep_dtype, ignores=1)
truth: Final = DTypeRule("bool", ALL_LOOPS, _bool)
real_truth: Final = DTypeRule("bool", FLOAT_LOOPS, _bool)
