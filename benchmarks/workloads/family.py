"""A computation as the libraries write it, and the sizes in which it is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Function = Callable[..., Any]

TOLERANCES = {
    "float32": 2e-3,
    "complex64": 2e-3,
    "float64": 1e-6,
    "complex128": 1e-6,
    "int32": 1e-6,
}
"""How far results may be apart, as a part of the largest, by the dtype of a workload."""


class Draw:
    """The same random numbers each time, of one dtype."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.rng = np.random.default_rng(0)

    def normal(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        return (self.rng.standard_normal(shape) * scale).astype(self.dtype)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
        return self.rng.uniform(low, high, shape).astype(self.dtype)

    def integers(self, below: int, *shape: int, dtype: str = "int32") -> np.ndarray:
        return self.rng.integers(0, below, shape).astype(dtype)

    def weight(self, inputs: int, outputs: int) -> np.ndarray:
        """A matrix that keeps the size of what it is applied to."""
        return self.normal(inputs, outputs, scale=inputs**-0.5)

    def kernel(self, *shape: int) -> np.ndarray:
        """A kernel of a convolution: windows, inputs, outputs."""
        return self.normal(*shape, scale=(2 / np.prod(shape[:-1])) ** 0.5)


@dataclass(frozen=True)
class Case:
    """A size of a family: `small`, `medium` or `large`, a dtype, and the number that it means."""

    size: str
    dtype: str
    n: int


@dataclass
class Family:
    """One computation, a function of arrays, as the libraries write it.

    It is given `data`, which another call may bring anew, and `weights`, which stay.  With `slopes`
    the results are the value and its derivatives in these; with `trained` it is a loss, and a call
    is a step that moves these arrays along its slopes.
    """

    name: str
    area: str
    cases: tuple[Case, ...]
    slopes: tuple[str, ...] = ()
    trained: tuple[str, ...] = ()
    onnx: bool = False
    """Whether it is a network that servers of networks run too."""
    without: Mapping[str, str] = field(default_factory=dict)
    """Libraries that do not take part, and why."""
    tolerance: float | None = None
    parts: dict[str, Function] = field(default_factory=dict)

    def _part(self, name: str) -> Callable[[Function], Function]:
        def keep(function: Function) -> Function:
            self.parts[name] = function
            return function

        return keep

    def data(self, function: Function) -> Function:
        """Say what another call may bring anew: arrays by name, of a `Draw` and a number."""
        return self._part("data")(function)

    def weights(self, function: Function) -> Function:
        """Say what stays from call to call, in the same way."""
        return self._part("weights")(function)

    def numpy(self, function: Function) -> Function:
        """Say it in NumPy's names, for the libraries that have them."""
        return self._part("numpy")(function)

    def torch(self, function: Function) -> Function:
        """Say it in PyTorch's words."""
        return self._part("torch")(function)

    def torch_weights(self, function: Function) -> Function:
        """Lay weights out once as PyTorch has them: from tensors by name to tensors by name."""
        return self._part("torch_weights")(function)

    def workloads(self) -> Iterator[Workload]:
        """Each size of it."""
        for case in self.cases:
            yield Workload(self, case)


@dataclass(frozen=True)
class Workload:
    """A family in one of its sizes."""

    family: Family
    case: Case

    @property
    def name(self) -> str:
        kind = self.case.dtype.replace("float", "f").replace("int", "i")
        return f"{self.family.area}: {self.family.name}, {self.case.n} {kind}"

    @property
    def tolerance(self) -> float:
        given = self.family.tolerance
        return TOLERANCES[self.case.dtype] if given is None else given

    def data(self) -> Arrays:
        """What a call is given."""
        found: Arrays = self.family.parts["data"](Draw(self.case.dtype), self.case.n)
        return found

    def weights(self) -> Arrays:
        """What stays from call to call."""
        make = self.family.parts.get("weights")
        return {} if make is None else make(Draw(self.case.dtype), self.case.n)


def cases(text: str) -> tuple[Case, ...]:
    """Cases as they are written in short: `small f64 64, large f32 1024`."""
    found = []
    for part in text.split(","):
        size, kind, n = part.split()
        dtype = {"f": "float", "i": "int", "c": "complex"}[kind[0]] + kind[1:]
        found.append(Case(size, dtype, int(n)))
    return tuple(found)


class Chapter(list[Family]):
    """The families of one area."""

    def __init__(self, area: str) -> None:
        super().__init__()
        self.area = area

    def family(self, name: str, sizes: str, **options: Any) -> Family:
        """A new family."""
        self.append(Family(name, self.area, cases(sizes), **options))
        return self[-1]
