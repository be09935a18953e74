"""The table of PyTorch's ops: a function over `tawny.numpy` for each, and what calls tell it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import DType, dtype_named, dtype_names
from tawny.pytorch.library import is_tensor, prims

Lowering = Callable[..., Any]
F = TypeVar("F", bound=Lowering)

LOWERINGS: Final[dict[str, Lowering]] = {}
"""What computes each op, by the op's name with its overload: `aten.add.Tensor`."""


class UnsupportedError(Exception):
    """An op, or a call of it, that stays in PyTorch; the message says why."""


def lowers(*names: str) -> Callable[[F], F]:
    """Enter a function for these ops of `aten` or `prims`; without an overload, the default."""

    def enter(function: F) -> F:
        for name in names:
            full = name if name.startswith("prims.") else f"aten.{name}"
            full = full if full.count(".") == 2 else f"{full}.default"
            assert full not in LOWERINGS, f"{full} is in the table twice"
            LOWERINGS[full] = function
        return function

    return enter


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an op, as the graph of PyTorch has it."""

    name: str
    result: Any
    """A stand-in for the result, with dtype and strides, or a sequence of them."""
    operands: tuple[Any, ...]
    """The positional arguments, tensors by their stand-ins."""

    @property
    def dtype(self) -> DType:
        """The dtype of the result, or of the first of several."""
        return self.dtype_of(0)

    def dtype_of(self, number: int) -> DType:
        """The dtype of one of several results."""
        result = self.result
        return own_dtype((result if is_tensor(result) else result[number]).dtype)

    @property
    def common(self) -> DType:
        """The dtype in which PyTorch compares the operands."""
        kind = prims.ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
        given = [x for x in self.operands if is_tensor(x) or isinstance(x, (int, float, complex))]
        return own_dtype(prims.elementwise_dtypes(*given, type_promotion_kind=kind)[0])


def own_dtype(dtype: Any) -> DType:
    """NumPy's dtype of PyTorch's."""
    name = str(dtype).removeprefix("torch.")
    if name not in _NAMES:
        raise UnsupportedError(f"dtype {name}")
    return dtype_named(name)


_NAMES: Final = frozenset(dtype_names())


def cast(x: Any, dtype: DType) -> Array:
    """A tensor or number of the program as an array of `dtype`, as PyTorch converts it."""
    if not isinstance(x, Array):
        return np.asarray(numpy.asarray(x).astype(dtype))
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = np.real(x)
    return np.astype(x, dtype, copy=False)


def choose(condition: Array, x: Array, y: Array) -> Array:
    """Elements of `x` where the condition holds, elsewhere of `y`."""
    found: Array = np.where(condition, x, y)
    return found


def is_integral(dtype: DType) -> bool:
    """Whether a dtype holds integers or truth values."""
    return dtype.kind in "biu"


def as_axes(dim: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Axes counted from 0; all of them for None or none at all."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(rank))
    given = (dim,) if isinstance(dim, int) else dim
    return tuple(d % max(rank, 1) for d in given if rank)


def as_axis(dim: int, rank: int) -> int:
    """An axis counted from 0; of a single number it is 0."""
    return dim % max(rank, 1)


def at_least_vector(x: Array) -> Array:
    """`x`, a single number as a vector of one element."""
    return x if x.ndim else np.reshape(x, (1,))


def refuse(condition: object, why: str) -> None:
    """Leave a call to PyTorch where the condition holds."""
    if condition:
        raise UnsupportedError(why)
