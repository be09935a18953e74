"""The functions of `tawny.numpy` over `numpy.ndarray`, computed at once.

Switching between lazy and eager is changing one import:

    import tawny.numpy as np     # records a graph
    import tawny.eager as np     # computes now

Every function is the lazy one, run on the spot: same names, same arguments, same checks, same
values.  NumPy computes what it has; large convolutions and pooling run on compiled kernels.
Results are `numpy.ndarray`, whose operators are NumPy's own: `x // y` is `numpy.floor_divide`,
`eager.floor_divide(x, y)` is that of `tawny.numpy`; see "The same source, computed now" in
docs/arrays.md for where they differ.

Of an argument of a function that is being differentiated (`tw.grad`, `tw.jvp`) they are lazy, since
a value would count as a constant; and of one example of a batch (`tw.vmap`), which has no value.

Functions and models written for lazy arrays run eagerly too:

    with tawny.eager.at_once():
        scores = model(images)   # every array on the way is computed as it is made
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, cast, final

import numpy as _numpy

import tawny.numpy as _lazy
from tawny.array import (
    Array,
    ArrayLike,
    check_unmasked,
    is_traced,
    is_unknown_argument,
    wrap,
)
from tawny.engine.evaluation import at_once as at_once
from tawny.engine.evaluation import run
from tawny.errors import type_error
from tawny.node import Value, borrowed_constant
from tawny.numpy.absent import absence
from tawny.numpy.grids import Grid
from tawny.numpy.ufunc_methods import METHODS
from tawny.public_names import export
from tawny.tree import items_of, leaves, map_leaves

export(__name__, dir(_lazy))


def make_eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of lazy arrays as one of NumPy arrays."""
    place = _place_of_out(function)
    finished = CONVERSIONS.get(function.__name__, _compute)

    @functools.wraps(function)
    def eager(*args: Any, **kwargs: Any) -> Any:
        lazy = [x.node for x in leaves((args, kwargs)) if isinstance(x, Array)]
        if not all(node.known for node in lazy):
            if is_unknown_argument(*lazy):
                return function(*args, **kwargs)
            raise type_error(
                function.__name__, "tawny.eager takes NumPy arrays, not variables; use tawny.numpy"
            )
        if lazy and is_traced(*lazy):
            return function(*args, **kwargs)
        out = args[place] if len(args) > place else kwargs.get("out")
        result = function(*map_leaves(_lift, args), **map_leaves(_lift, kwargs))
        if kwargs.get("copy", True) is False and isinstance(result, Array):
            for given in leaves(args):
                if result.node.value is given:
                    return given
        result = finished(result)
        return result if out is None else _fill_out(out, result)

    for name in [name for name in METHODS if hasattr(function, name)]:
        method = vars(function)[name]
        theirs = getattr(_numpy, method.__name__.partition(".")[0])
        setattr(eager, name, theirs.at if name == "at" else make_eager(method))
    return eager


def _place_of_out(function: Callable[..., Any]) -> int:
    """The position of the argument `out`; one that no call has where it is given by keyword."""
    parameters = list(inspect.signature(function).parameters.values())
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    return positional.index("out") if "out" in positional else sys.maxsize


def _fill_out(out: Any, result: Any) -> Any:
    """The arrays of `out`, with the results that they asked for in them."""
    if isinstance(out, tuple):
        pairs = zip(items_of(out), items_of(result), strict=True)
        filled = [_fill_out(o, r) for o, r in pairs]
        return tuple(filled) if len(filled) > 1 else filled[0]
    if out is None:
        return result
    _numpy.copyto(out, result)
    return out


def _lift(x: Any) -> Any:
    """An array as a lazy one over its memory; numbers, NumPy's too, stay numbers."""
    if isinstance(x, _numpy.ndarray):
        check_unmasked(x, "tawny.eager", "an argument")
        value: Value = _numpy.asarray(cast("Any", x))
        return wrap(borrowed_constant(value))
    return x


def _compute(result: Any) -> Any:
    """`result` with every lazy array in it computed, all in one run."""
    arrays = [x for x in leaves(result) if isinstance(x, Array)]
    values = iter(run([x.node for x in arrays]))
    return map_leaves(lambda x: next(values) if isinstance(x, Array) else x, result)


def _truth(result: Any) -> bool:
    """The answer to a question about whole arrays, as Python says it."""
    return bool(_compute(result))


def _broadcast_view(result: Any) -> Any:
    """Broadcast arrays as NumPy gives them: read-only views that take no memory."""
    if isinstance(result, tuple):
        return tuple([_broadcast_view(x) for x in items_of(result)])
    node = result.node
    source = node.inputs[0] if node.inputs else node
    value = run([source])[0] if source.value is None else source.value
    return _numpy.broadcast_to(value, node.shape)


CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "allclose": _truth,
    "array_equal": _truth,
    "array_equiv": _truth,
    "broadcast_to": _broadcast_view,
    "broadcast_arrays": _broadcast_view,
}
"""How results become what NumPy gives, where it is not an array of their values."""


@final
class EagerPart:
    """A part of an array, to be read or updated; updates give a new array."""

    def __init__(self, array: Any, key: Any) -> None:
        self._array = array
        self._key = key

    def get(self) -> Any:
        """The part of the array."""
        return _at("get")(self._array, self._key)

    def set(self, value: Any) -> Any:
        """The array with `value` in this part."""
        return _at("set")(self._array, self._key, value)

    def add(self, value: Any) -> Any:
        """The array with `value` added to this part."""
        return _at("add")(self._array, self._key, value)

    def mul(self, value: Any) -> Any:
        """The array with this part multiplied by `value`."""
        return _at("mul")(self._array, self._key, value)

    def min(self, value: Any) -> Any:
        """The array with this part no greater than `value`."""
        return _at("min")(self._array, self._key, value)

    def max(self, value: Any) -> Any:
        """The array with this part no less than `value`."""
        return _at("max")(self._array, self._key, value)


@functools.cache
def _at(mode: str) -> Callable[..., Any]:
    """What reads or updates a part of an array."""

    def update(x: Any, key: Any, *value: Any) -> Any:
        return getattr(_lazy.at(x)[key], mode)(*value)

    update.__name__ = f"at[...].{mode}"
    return make_eager(update)


@final
class EagerAt:
    """An array that waits for a key."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> EagerPart:
        return EagerPart(self._array, key)


def at(x: ArrayLike, /) -> EagerAt:
    """Functional updates: `at(x)[key].set(value)`, `.add`, `.mul`, `.min`, `.max`, `.get()`."""
    return EagerAt(x)


class _Namespace:
    """A submodule (`linalg`, `fft`) of eager functions."""

    def __init__(self, module: ModuleType, name: str) -> None:
        self._module = module
        self._name = name
        self.__doc__ = module.__doc__
        self.__all__ = dir(module)

    def __getattr__(self, name: str) -> Any:
        value = _eager(getattr(self._module, name), f"{self._name}.{name}")
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return list(self.__all__)


IN_PLACE: Final = ("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask")
"""Functions that change an array, which NumPy does to its own."""


def _eager(value: Any, name: str) -> Any:
    """What stands under `name` here for what stands there in `tawny.numpy`."""
    if isinstance(value, ModuleType):
        return value if value.__name__.startswith("numpy") else _Namespace(value, name)
    if isinstance(value, Grid):
        return getattr(_numpy, "ogrid" if value is _lazy.ogrid else "mgrid")
    if not callable(value) or isinstance(value, type) or value.__module__.startswith("numpy"):
        return value
    function = _numpy_function(value) if value.__name__ in IN_PLACE else make_eager(value)
    function.__module__, function.__qualname__ = __name__, name  # where pickle finds it
    return function


def _numpy_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function of the same name and arguments."""
    theirs = getattr(_numpy, function.__name__)

    @functools.wraps(function)
    def eager(*args: Any, **kwargs: Any) -> Any:
        return theirs(*args, **kwargs)

    return eager


_FUNCTIONS: Final[dict[str, Any]] = {}
"""Functions by name, each made when first asked for; globals would hide Python's `any`, `sum`."""


def __getattr__(name: str) -> Any:
    if name not in _FUNCTIONS:
        if name not in dir(_lazy):
            raise absence("tawny.eager", name)
        _FUNCTIONS[name] = _eager(getattr(_lazy, name), name)
    return _FUNCTIONS[name]
