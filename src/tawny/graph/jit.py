"""Functions as programs: traced once per shapes and dtypes, then run again and again."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeVar,
    final,
    overload,
)

import numpy as np

from tawny.array import Array, lift, wrap
from tawny.autodiff.tracing import substitute
from tawny.errors import PerformanceWarning, ValuesNeededError, type_error, warn
from tawny.forking import fork_safe_lock
from tawny.graph.calls import (
    Key,
    TracedCall,
    as_data,
    call_of,
    common_dtype,
    dtype_of,
    is_data,
    plain_key,
)
from tawny.graph.graph import Graph
from tawny.graph.jit_methods import BoundJitMethod, JitMethod, LoweredCall
from tawny.graph.jit_options import (
    Static,
    compile_options,
    positional_names,
    static_list,
    static_places,
)
from tawny.graph.program import Program
from tawny.lazy import LazyModule
from tawny.node import Node, Variable, constant, toposort, variable
from tawny.op import Trait
from tawny.tree import leaf_paths, leaves, map_leaves

BLOCKS: Final = "tawny.distributed.blocks.arrays"
"""The module that computes over dask arrays; it stands above this one and is loaded on demand."""

if TYPE_CHECKING:
    from tawny.distributed.blocks import arrays as blocks
else:
    blocks = LazyModule(BLOCKS)

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")

MAX_PROGRAMS: Final = 128
"""Programs that a function keeps; small ones take about 50 kB each with their code."""

MIN_WARNED_PROGRAMS: Final = 16
"""The number of programs that differ in nothing but Python values at which a warning is due."""

_NO_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType({})


class CacheEntry(NamedTuple):
    """A program of a function, and how it is called."""

    program: Program
    run: Callable[..., Any]
    objects: tuple[weakref.ref[Any], ...] = ()
    """The objects that are part of the program: without them nobody can ask for it."""
    kind_key: Key = ()
    values: tuple[Hashable, ...] = ()
    """The Python values that are part of the program."""


class Recording(NamedTuple):
    """A function called on variables."""

    inputs: list[Node]
    """The variables, which the function may have given other values in place."""
    result: Any
    """The result: a structure of arrays, and of None."""

    @property
    def nodes(self) -> list[Node]:
        """The arrays among the results."""
        return [x.node for x in leaves(self.result) if x is not None]

    @property
    def is_open(self) -> bool:
        """Whether a result depends on what stands for an argument of another function.

        That one is being traced, and what it uses becomes a part of it.
        """
        given = set(self.inputs)
        for node in toposort(self.nodes):
            if type(node.op) is Variable and node not in given:
                return True
            if node.volatile and Trait.TRACED in node.op.facts().traits:
                return True
        return False

    def called_on(self, values: Sequence[Any]) -> Any:
        """The results for `values`, lazily."""
        pairs = zip(self.inputs, values, strict=True)
        known = {x: constant(np.array(value, x.dtype)) for x, value in pairs}
        new = iter(substitute(self.nodes, known))
        return map_leaves(lambda x: None if x is None else wrap(next(new)), self.result)


@final
class JitFunction(Generic[P, R]):
    """A function that records a graph at its first call with given shapes and dtypes.

    Arguments may be nested structures.  Arrays and Python floats in them are data, and a float
    takes the dtype it would have beside the call's arrays; ints, bools, strings, None and other
    objects stay what they are: they are part of the program, as are the arguments named in
    `static`.  Inside another function that is being traced it is simply called.
    """

    def __init__(
        self,
        function: Callable[P, R],
        static: Iterable[int | str] = (),
        options: Mapping[str, Any] = _NO_OPTIONS,
    ) -> None:
        if not callable(function):
            raise type_error("jit", f"{type(function).__name__} {function!r} is no function")
        functools.update_wrapper(self, function)
        self._function = function
        self._name: str = getattr(function, "__name__", type(function).__name__)
        self._path: str = getattr(function, "__qualname__", self._name)
        self._signature = inspect.signature(function)
        self._names = positional_names(self._signature)
        self._static = static_places(self._signature, static)
        self._options: dict[str, Any] = {"incremental": False, **options}
        self._programs: dict[Key | None, CacheEntry] = {}
        """By what the calls of one program share; once there are many, the newest at the end."""
        self._is_crowded = self._has_warned = False
        self._newest: Program | None = None
        """The program of the last call with nothing but arrays, if it gives results as they are."""
        self._lock = fork_safe_lock()

    @overload
    def __get__(self, instance: None, owner: type) -> JitFunction[P, R]: ...
    @overload
    def __get__(
        self: JitFunction[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> JitMethod[Q, R]: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        return self if instance is None else BoundJitMethod(self, instance)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        newest = self._newest
        if newest is not None and not kwargs:
            outputs: Any = newest._call_directly(args)  # pyright: ignore[reportPrivateUsage]
            if outputs is not NotImplemented:
                found_soon: R = outputs
                return found_soon
        if kwargs:
            args, kwargs = self._to_positions(args, kwargs)
        key, given = (None, args) if kwargs or self._static else plain_key(args)
        known = self._programs.get(key)
        call: TracedCall | None = None
        if key is None:
            call = call_of(args, kwargs, self._static)
            if call.in_blocks:
                return self._call_on_blocks(args, kwargs)
            if call.lazy:
                return self._call(self._map_arguments(self._lift, args, kwargs))
            if call.has_foreign:
                args, kwargs = self._split(self._map_arguments(as_data, args, kwargs))
                return self(*args, **kwargs)
            key, given = call.key(self._name), call.data
            known = self._programs.get(key)
        if known is None:
            found = self._program_for(key, call, args, kwargs, given)
            if isinstance(found, Recording):
                lazily: R = found.called_on(given)
                return lazily
            known = found
        elif self._is_crowded:
            self._move_to_end(key)
        if given is args:
            self._newest = known.program if known.run is known.program else None
        result: R = known.run(*given)
        return result

    def lower(self, /, *args: P.args, **kwargs: P.kwargs) -> LoweredCall:
        """The graph and plan that a call with such arguments would run.

        - `args`, `kwargs`: as for a call.
        """
        args, kwargs = self._split(self._map_arguments(as_data, *self._to_positions(args, kwargs)))
        key, given = (None, args) if kwargs or self._static else plain_key(args)
        call = None if key is not None else call_of(args, kwargs, self._static)
        if call is not None:
            key, given = call.key(self._name), call.data
        found = self._program_for(key, call, args, kwargs, given)
        entry = self._compile(found) if isinstance(found, Recording) else found
        return LoweredCall(entry.program)

    def clear_cache(self) -> None:
        """Forget all programs."""
        self._programs.clear()
        self._newest = None

    def __copy__(self) -> JitFunction[P, R]:
        return self

    def __deepcopy__(self, memo: object) -> JitFunction[P, R]:
        return self

    def __reduce__(self) -> str:
        return self._path  # found where it was defined, as a plain function is

    def __repr__(self) -> str:
        return f"<jitted {self._name}{self._signature}: {len(self._programs)} programs>"

    # ----------------------------------------------------------------- programs

    def _program_for(
        self, key: Key | None, call: TracedCall | None, args: Any, kwargs: Any, given: Sequence[Any]
    ) -> CacheEntry | Recording:
        """The program of a call; what was recorded, if it is part of another function."""
        with self._lock:
            known = self._programs.get(key)
            if known is not None:
                return known
            recorded = self._record(args, kwargs, given)
            if recorded.is_open:
                return recorded
            entry = self._compile(recorded)
            if call is not None:
                objects: list[weakref.ref[Any]] = []

                def hold(x: Any) -> weakref.ref[Any]:
                    objects.append(weakref.ref(x, self._forget))
                    return objects[-1]

                key = call.key(self._name, hold)
                kind_key, values = call.kind_key(self._name), call.values()
                entry = entry._replace(objects=tuple(objects), kind_key=kind_key, values=values)
            self._programs[key] = entry
            if len(self._programs) > MAX_PROGRAMS:
                self._programs.pop(next(iter(self._programs.copy())), None)
            self._is_crowded = len(self._programs) > MAX_PROGRAMS // 2
            self._warn_of_many(entry, args, kwargs)
            return entry

    def _move_to_end(self, key: Key | None) -> None:
        """Let a program be the last to be forgotten."""
        with self._lock:
            entry = self._programs.pop(key, None)
            if entry is not None:
                self._programs[key] = entry

    def _forget(self, gone: weakref.ref[Any]) -> None:
        """Drop the programs that an object was part of."""
        for key, entry in self._programs.copy().items():
            if any(x is gone for x in entry.objects):
                self._programs.pop(key, None)

    def _warn_of_many(self, entry: CacheEntry, args: Any, kwargs: Any) -> None:
        """Say once that programs differ in nothing but Python values."""
        if not entry.kind_key or self._has_warned:
            return
        alike = [e for e in self._programs.copy().values() if e.kind_key == entry.kind_key]
        if len(alike) < MIN_WARNED_PROGRAMS:
            return
        self._has_warned = True
        names = [
            path
            for _, name, x in self._named_arguments(args, kwargs)
            for path, _ in leaf_paths(x, name)
        ]
        first = alike[0].values
        differing = [
            n for n, x, y in zip(names, first, entry.values, strict=False) if x != y
        ] or names
        warn(
            f"{self._name}: {len(alike)} programs were compiled that differ in the value of "
            f"{', '.join(map(repr, differing[:3]))} alone; to compute with it in one program, "
            "pass it as an array or a float: numpy.asarray(value)",
            PerformanceWarning,
        )

    # ------------------------------------------------------------------ tracing

    def _to_positions(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The arguments, by position where they follow on those that are given so."""
        named, first = dict(kwargs), len(args)
        for name in self._names[first:]:
            if name not in named:
                break
            args = (*args, named.pop(name))
        return args, named

    def _named_arguments(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Iterator[NamedArgument]:
        """The arguments, in the order in which their leaves are counted."""
        names = list(self._signature.parameters)
        for i, value in enumerate(args):
            own = min(i, len(self._names))
            yield i, names[own] if i == own < len(self._names) else f"{names[own]}.{i - own}", value
        for name in sorted(kwargs):
            yield name, name, kwargs[name]

    def _map_arguments(
        self, function: Callable[[Any], Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Arguments:
        """The arguments, with a function applied to all leaves that may be data."""
        given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        return {
            place: x if place in self._static else map_leaves(function, x)
            for place, x in given.items()
        }

    def _lift(self, x: Any) -> Any:
        """An array as a lazy one, as the function sees it when it is traced."""
        return wrap(lift(x, self._name)) if isinstance(x, (np.ndarray, np.generic)) else x

    @staticmethod
    def _split(placed: Arguments) -> tuple[Any, Any]:
        """Positional arguments, and those by name."""
        named = {place: x for place, x in placed.items() if isinstance(place, str)}
        return tuple([x for place, x in placed.items() if isinstance(place, int)]), named

    def _call(self, placed: Arguments) -> R:
        function: Callable[..., R] = self._function
        args, kwargs = self._split(placed)
        return function(*args, **kwargs)

    def _record(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], given: Sequence[Any]
    ) -> Recording:
        """The function called on variables in place of the data it was given."""
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise type_error(self._name, str(error)) from None
        beside, values = common_dtype(given), iter(given)
        inputs: dict[str, Node] = {}
        placed: Arguments = {}
        for place, name, argument in self._named_arguments(args, kwargs):
            found = iter(list(leaf_paths(argument, name)))

            def put(x: Any, found: Any = found) -> Any:
                path, _ = next(found)
                if not is_data(x):
                    return x
                value = next(values)
                while path in inputs:
                    path += "'"
                inputs[path] = variable(path, np.shape(value), dtype_of(value, beside))
                return wrap(inputs[path])

            placed[place] = argument if place in self._static else map_leaves(put, argument)
        try:
            result: Any = self._call(placed)
        except ValuesNeededError as error:
            mine = [n for n in error.variables if n in inputs]
            if mine:
                error.suggest(
                    f"{mine[0]!r} is traced by {self._name}: Python's own ints, bools and strings "
                    f"stay values, and static=[{mine[0].partition('.')[0]!r}] keeps any argument "
                    "one, at a compilation for each value"
                )
            raise
        made = map_leaves(lambda x: _output(x, self._name), result)
        return Recording(list(inputs.values()), made)

    def _call_on_blocks(self, args: Any, kwargs: Any) -> R:
        """The results for dask arrays, as dask arrays; the program of a block is compiled later."""
        given: list[Any] = []

        def stand_in(x: Any) -> Any:
            if blocks.is_collection(x, self._name):
                given.append(x)
                return np.broadcast_to(np.zeros((), x.dtype), x.shape)
            x = as_data(x)
            if is_data(x):
                given.append(x)
            return x

        args, kwargs = self._split(self._map_arguments(stand_in, args, kwargs))
        call = call_of(args, kwargs, self._static)
        with self._lock:
            recorded = self._record(args, kwargs, call.data)
        if recorded.is_open:
            raise type_error(self._name, "a dask array is no argument of a function being traced")
        options = dict(self._options)
        made: R = blocks.results_on_blocks(
            self._name, recorded.inputs, recorded.result, given, options
        )
        return made

    def _compile(self, recorded: Recording) -> CacheEntry:
        """The program of what was recorded."""
        inputs, result = recorded
        found = leaves(result)
        arrays = [x for x in found if x is not None]
        if not arrays:
            raise type_error(self._name, "a jitted function gives arrays; this one gives none")
        whole = len(arrays) == len(found) and not isinstance(result, list)
        variables = [wrap(x) for x in inputs]
        graph = Graph(variables, result if whole else arrays, name=self._name, unused="ignore")
        program = graph.compile(**self._options)
        if whole:
            return CacheEntry(program, program)
        places = map_leaves(lambda x: x is not None, result)

        def run(*given: Any) -> Any:
            values = iter(program(*given))
            return map_leaves(lambda there: next(values) if there else None, places)

        return CacheEntry(program, run)


NamedArgument = tuple[int | str, str, Any]
"""The place of an argument, its name, and what was given for it."""

Arguments = dict[int | str, Any]
"""Arguments by their positions and names."""


def _output(x: Any, name: str) -> Array | None:
    if isinstance(x, Array) or x is None:
        return x
    if is_data(x) or isinstance(x, (int, bool)):
        return wrap(lift(x, name))
    raise type_error(name, f"a jitted function gives arrays, not {type(x).__name__} {x!r}")


class Decorator(Protocol):
    """A decorator that makes a function a program."""

    def __call__(self, function: Callable[P, R], /) -> JitFunction[P, R]: ...


@overload
def jit(
    function: Callable[P, R],
    /,
    *,
    static: Static = (),
    static_argnums: Static = (),
    static_argnames: Static = (),
    **options: Any,
) -> JitFunction[P, R]: ...
@overload
def jit(
    *,
    static: Static = (),
    static_argnums: Static = (),
    static_argnames: Static = (),
    **options: Any,
) -> Decorator: ...
def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    static: Static = (),
    static_argnums: Static = (),
    static_argnames: Static = (),
    **options: Any,
) -> Any:
    """Make a function a program, traced once for each combination of shapes and dtypes.

    - `function`: computes arrays, or a structure of them, from arguments that may be nested
      structures.  Without it `jit` gives a decorator: `@tw.jit(static=["n"])`.
    - `static`: names or positions of further arguments that are to stay Python values.
    - `static_argnums`, `static_argnames`: other names for `static`.
    - `options`: those of `Graph.compile`; nothing is kept from call to call unless
      `incremental=True`.

    Arrays and floats are what the function computes with.  Ints, bools, strings, None and other
    objects stay Python values: they can be sizes, indices and conditions, and each new value is
    compiled anew.  Gives a function of the same arguments, whose results are NumPy arrays; its
    `lower(...)` gives the graph and the plan of a call, `clear_cache()` forgets all programs.

        @tw.jit
        def pooled(x, size):
            return np.mean(np.reshape(x, (-1, size)), axis=1)

        pooled(numpy.arange(6.0), 3).tolist()         # -> [1.0, 4.0]
        pooled.lower(numpy.arange(6.0), 3).plan.peak_bytes > 0   # -> True
    """
    places = [x for given in (static, static_argnums, static_argnames) for x in static_list(given)]
    kept = compile_options(options)
    if function is None:
        return functools.partial(JitFunction, static=places, options=kept)
    return JitFunction(function, places, kept)
