"""Functions as programs: traced once per shapes and dtypes, then run again and again."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, cast, final, overload

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, fresh, lift
from tawny.dtype import DType, Number
from tawny.errors import type_error, value_error
from tawny.graph.graph import Graph
from tawny.graph.plan import Plan
from tawny.graph.program import Program
from tawny.named import NamedTuple
from tawny.node import Value, variable
from tawny.tree import leaves, map_leaves, outline, paths

Key = tuple[Hashable, ...]


class Lowering(NamedTuple):
    """What a call would run, without running it."""

    program: Program

    @property
    def graph(self) -> Graph:
        """The traced graph."""
        return self.program.graph

    @property
    def plan(self) -> Plan:
        """Where every byte of a call lies."""
        return self.program.plan


@final
class Jitted:
    """A function that records a graph at its first call with given shapes and dtypes.

    Arguments may be nested structures of arrays and numbers.  A number takes the dtype it would
    have beside the call's arrays.  Arguments named in `static` are part of the program: another
    value makes another program.  Called with lazy arrays, the function is simply called.
    """

    def __init__(self, function: Callable[..., Any], static: Iterable[str], options: Any) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._name: str = getattr(function, "__name__", type(function).__name__)
        self._signature = inspect.signature(function)
        self._static = frozenset(static)
        for name in self._static:
            if name not in self._signature.parameters:
                accepted = ", ".join(self._signature.parameters)
                raise value_error("jit", f"static argument {name!r} is not among: {accepted}")
        self._options = options
        self._programs: dict[Key, Program] = {}
        self._plain: dict[Key | None, Program] = {}
        """The same for calls with arrays alone, by their shapes and dtypes."""
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kinds, arrays = (None, args) if kwargs else _kinds(args)
        known = self._plain.get(kinds)
        if known is not None:
            return known(*arrays)
        bound = self._bound(args, kwargs)
        dynamic = self._dynamic(bound)
        given = leaves(dynamic)
        if any(isinstance(x, Array) for x in given):
            return self._function(*args, **kwargs)
        program = self._program(bound, dynamic)
        if kinds is not None and [*map(id, dynamic.values())] == [*map(id, args)]:
            self._plain[kinds] = program
        return program(*[x for x in given if _is_data(x)])

    def lower(self, *args: Any, **kwargs: Any) -> Lowering:
        """The graph and plan that a call with such arguments would run."""
        bound = self._bound(args, kwargs)
        return Lowering(self._program(bound, self._dynamic(bound)))

    def _dynamic(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        """The arguments that are not part of the program."""
        return {k: v for k, v in bound.arguments.items() if k not in self._static}

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise type_error(self._name, str(error)) from None
        bound.apply_defaults()
        return bound

    def _program(self, bound: inspect.BoundArguments, dynamic: dict[str, Any]) -> Program:
        key = self._key(bound, dynamic)
        with self._lock:
            program = self._programs.get(key)
            if program is None:
                program = self._programs[key] = self._traced(bound, dynamic)
        return program

    def _key(self, bound: inspect.BoundArguments, dynamic: dict[str, Any]) -> Key:
        fixed = [(k, v) for k, v in bound.arguments.items() if k in self._static]
        given: list[Any] = []
        structure = outline(dynamic, given)
        beside = _common(given)
        key: Key = (structure, *[_kind(x, beside) for x in given], *fixed)
        try:
            hash(key)
        except TypeError:
            raise type_error(
                self._name,
                "static arguments must be hashable: numbers, strings, tuples",
            ) from None
        return key

    def _traced(self, bound: inspect.BoundArguments, dynamic: dict[str, Any]) -> Program:
        names = iter([p for p, x in paths(dynamic) if _is_data(x)])
        beside = _common(leaves(dynamic))
        inputs: list[Array] = []

        def place(x: Any) -> Any:
            if not _is_data(x):
                return x
            shape, dtype = np.shape(x), _dtype(x, beside)
            inputs.append(fresh(variable(next(names), shape, dtype)))
            return inputs[-1]

        for name, value in dynamic.items():
            bound.arguments[name] = map_leaves(place, value)
        result = self._function(*bound.args, **bound.kwargs)
        outputs = map_leaves(lambda x: _output(x, self._name), result)
        graph = Graph(inputs, outputs, name=self._name, unused="ignore")
        return graph.compile(**self._options)


def _is_data(x: Any) -> bool:
    """Whether a leaf is an array or number; all others are part of the program."""
    return isinstance(x, (np.ndarray, np.generic)) or dt.is_weak(x)


def _kinds(args: tuple[Any, ...]) -> tuple[Key | None, Sequence[Any]]:
    """Structure, shapes and dtypes, if there are arrays alone in the arguments; the leaves."""
    kinds: list[Hashable] = []
    given: Sequence[Any] = args
    for x in args:
        if type(x) is not np.ndarray:
            found: list[Any] = []
            kinds.append(outline(args, found))
            given = found
            break
    for x in given:
        if type(x) is not np.ndarray:
            return None, given
        kinds.append(x.shape)
        kinds.append(x.dtype)
    return tuple(kinds), given


def _common(given: list[Any]) -> DType | None:
    """The dtype of a call's arrays together, if there are any."""
    arrays = cast("list[Value]", [x for x in given if isinstance(x, np.ndarray)])
    return dt.promote(*[dt.as_dtype(x.dtype, "jit") for x in arrays]) if arrays else None


def _dtype(x: Any, beside: DType | None) -> DType:
    if not dt.is_weak(x):
        return dt.as_dtype(x.dtype, "jit")
    kind = cast("Number", x)
    return dt.default_dtype(kind) if beside is None else dt.weak_dtype(type(kind), beside)


def _kind(x: Any, beside: DType | None) -> Hashable:
    return (np.shape(x), _dtype(x, beside)) if _is_data(x) else cast("Hashable", x)


def _output(x: Any, name: str) -> Array:
    if isinstance(x, Array):
        return x
    if _is_data(x):
        return fresh(lift(x, name))
    raise type_error(name, f"a jitted function gives arrays, not {type(x).__name__} {x!r}")


@overload
def jit(function: Callable[..., Any], /) -> Jitted: ...
@overload
def jit(
    *, static: Iterable[str] = (), **options: Any
) -> Callable[[Callable[..., Any]], Jitted]: ...
def jit(
    function: Callable[..., Any] | None = None, /, *, static: Iterable[str] = (), **options: Any
) -> Jitted | Callable[[Callable[..., Any]], Jitted]:
    """Make a function a program, traced once for each combination of shapes and dtypes.

    `static` names arguments that are part of the program; `options` are those of `Graph.compile`.
    """
    names = (static,) if isinstance(static, str) else tuple(static)
    if function is None:
        return functools.partial(Jitted, static=names, options=options)
    return Jitted(function, names, options)
