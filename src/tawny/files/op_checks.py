"""What the makers of ops take care of, checked for ops that come from a file.

The functions of `tawny.numpy` give ops attributes that fit their operands: axes that exist, sizes
that are not negative, modes that are known; and they convert operands to a common dtype where a
kernel reads them as one.  Shape inference relies on it, and so does native code: what is accepted
here must be what a maker, or the optimiser, can make.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from tawny.op import Elementwise, Op, Type
from tawny.ops.fft import NORMS

AT_LEAST: Final = {
    "columns": 0,
    "count": 0,
    "dilation": 1,
    "factors": 1,
    "groups": 1,
    "height": 1,
    "index": 0,
    "length": 0,
    "max_columns": 0,
    "max_rows": 0,
    "padding": 0,
    "pieces": 1,
    "place": 0,
    "population": 0,
    "repeats": 0,
    "repetitions": 0,
    "rows": 0,
    "seed": 0,
    "shape": 0,
    "sizes": 0,
    "stream": 0,
    "strides": 1,
    "widths": 0,
    "window": 1,
}
"""The least integer in an attribute of this name, whatever its op."""

BELOW: Final = {
    "dilation": 2**31,
    "padding": 2**31,
    "seed": 2**64,
    "stream": 2**64,
    "strides": 2**31,
    "transposed": 3,
}
"""What the integers in an attribute of this name are less than."""

CHOICES: Final = {"norm": NORMS}
"""What an attribute of this name may be."""

OPERANDS: Final = {"axes", "axis", "place", "ranges", "mode", "shifts", "subscripts"}
"""Attributes held against the operands, or against their own op's list."""

FREE: Final = {
    "always", "body", "complete", "correction", "descending", "dtype", "endpoint", "epilogue",
    "file", "format", "full", "function", "header", "include_initial", "inverse", "invert",
    "keepdims", "least", "lower", "name", "offset", "pure", "right", "start", "step",
    "strict", "threshold", "transpose_a", "transpose_b", "unit", "upper",
}  # fmt: skip
"""Attributes that any value of their declared type fits."""


class MalformedError(ValueError):
    """What cannot be written or read, without its place in the graph or file."""


def check_op(op: Op, types: Sequence[Type]) -> None:
    """Refuse an op that no maker gives operands of these types."""
    facts = op.facts()
    if not facts.saved:
        raise MalformedError(f"op {facts.name} is never in a file")
    accepted = op.operand_counts()
    if accepted is not None and len(types) not in accepted:
        words = " or ".join(map(str, accepted)) if len(accepted) < 3 else f"at least {accepted[0]}"
        raise MalformedError(f"{facts.name}: {len(types)} operands came; expected {words}")
    if isinstance(op, Elementwise):
        return
    for field in op.fields:
        _check_numbers(facts.name, field, getattr(op, field))
    problem = op.mistake(types)
    if problem:
        raise MalformedError(f"{facts.name}: {problem}")


_MAX_INTEGER: Final = 2**63 - 1
_ANY_SIZE: Final = {"shape", "start", "step"}
"""Integers no machine word has to hold: those of a shape are held against the result's."""


def _check_numbers(name: str, field: str, value: Any) -> None:
    """Refuse integers that no op has in an attribute of this name."""
    word = None if field in _ANY_SIZE else _MAX_INTEGER
    least = AT_LEAST.get(field, None if word is None else -word)
    below = BELOW.get(field, word)
    for number in _integers(value):
        if least is not None and number < least:
            raise MalformedError(f"{name}: {field} is {value}; expected at least {least}")
        if below is not None and number >= below:
            raise MalformedError(f"{name}: {field} is {value}; expected less than {below}")
    if field in CHOICES and value not in CHOICES[field]:
        raise MalformedError(f"{name}: {field} is {value!r}; expected one of {CHOICES[field]}")


def _integers(value: object) -> Iterator[int]:
    """The integers in a number or nested tuple."""
    if isinstance(value, tuple):
        for item in cast("tuple[object, ...]", value):
            yield from _integers(item)
    elif type(value) is int:
        yield value
