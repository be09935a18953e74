"""Numbers that are carried, masked, and read or written alone."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.codegen.builder import I32, Function, Value
from tawny.codegen.numbers import Number, Pair, loaded, store, stored
from tawny.dtype import DType


def flat(numbers: Sequence[Number]) -> list[Value]:
    """Numbers as values, complex ones as two."""
    return [v for n in numbers for v in (n if isinstance(n, Pair) else (n,))]


def unflat(values: Sequence[Value], like: Sequence[Number]) -> list[Number]:
    """Values as numbers of the same kinds as others."""
    found = iter(values)
    return [Pair(next(found), next(found)) if isinstance(n, Pair) else next(found) for n in like]


def first_lanes(f: Function, count: Value, lanes: int) -> Value:
    """A mask of the first `count` lanes, of at most as many as there are."""
    return f.first_lanes(f.convert("trunc", count, I32), lanes)


def load_scalar(f: Function, dtype: DType, address: Value) -> Number:
    """One number in memory."""
    if dtype.kind != "c":
        return loaded(f, dtype, address, 0)
    kind = stored(dtype)
    return Pair(f.load(kind, address), f.load(kind, f.element(address, 1, kind)))


def store_scalar(f: Function, dtype: DType, number: Number, address: Value) -> None:
    """Write one number."""
    if isinstance(number, Pair):
        f.store(number.real, address)
        f.store(number.imag, f.element(address, 1, stored(dtype)))
    else:
        store(f, dtype, number, address)
