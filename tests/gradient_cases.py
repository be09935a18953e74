"""Tables of functions whose derivatives are checked, and the checks that every row undergoes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import tawny as tw
from tawny.testing import check_grads
from tawny.tree import map_leaves


class Row(NamedTuple):
    """A public function, a call of it, and where to differentiate that."""

    name: str
    call: Callable[..., Any]
    args: Sequence[Any]

    def __repr__(self) -> str:
        return self.name


class Samples:
    """Numbers to differentiate at: the same for a module whatever else is tested beside it."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def real(self, *shape: int) -> np.ndarray:
        """Numbers from -2 to 2, none near zero."""
        return self.positive(*shape) * self._rng.choice([-1.0, 1.0], shape)

    def positive(self, *shape: int) -> np.ndarray:
        """Numbers from 0.3 to 2."""
        return self._rng.uniform(0.3, 2, shape)

    def complex(self, *shape: int) -> np.ndarray:
        """Complex numbers, none near zero."""
        return np.asarray(self.real(*shape) + 1j * self.real(*shape))

    def apart(self, *shape: int) -> np.ndarray:
        """Numbers between -2 and 2.2 that are not near each other, in no order."""
        count = int(np.prod(shape))
        return self._rng.permutation(np.linspace(-1.9, 2.1, count)).reshape(shape)


def bent(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call with its floating-point results squared, so that second derivatives are not zero."""

    def function(*args: Any) -> Any:
        def bend(y: Any) -> Any:
            return y * y + y if y.dtype.kind in "fc" else y * 0.0

        result = call(*args)
        if not isinstance(result, tw.Array):
            result = list(result)
        return map_leaves(bend, result)

    return function


def check(row: Row) -> None:
    """Both modes and both orders against differences, of the function and of its square."""
    check_grads(bent(row.call), row.args)


def check_single(row: Row) -> None:
    """Slopes of single-precision numbers are single-precision, and right to their digits."""
    args = [x.astype({"f": "f4", "c": "c8"}[x.dtype.kind]) for x in map(np.asarray, row.args)]
    check_grads(bent(row.call), args, order=1)
    value, pullback = tw.vjp(bent(row.call), *args)
    ones = map_leaves(lambda y: np.ones(y.shape, y.dtype), value)
    assert [s.dtype for s in pullback(ones)] == [x.dtype for x in args]
