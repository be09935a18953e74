"""The values of a model: nested dicts made from its declarations, matched with them, assigned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from tawny import pages
from tawny.array import Array, lift, wrap
from tawny.errors import type_error, value_error
from tawny.nn.parameters import Declaration, Path, path_text
from tawny.node import Value, constant
from tawny.tree import leaf_paths

if TYPE_CHECKING:
    from tawny.nn.module import Module

PlacedDeclarations = Iterable[tuple[Path, Declaration]]


class NestedValues(dict[Any, Any]):
    """Arrays by name; not called, as a method of that name is elsewhere."""

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise type_error(
            "nn",
            "parameters and state are nested dicts, not methods: write model.parameters; "
            "optimisers are given them by nn.train(model, loss, data, optimiser), or by "
            "optimiser.step(function, parameters, state)",
        )


def nest(placed: PlacedDeclarations, leaf: Callable[[Declaration], Any]) -> dict[Any, Any]:
    """A nested dict with a leaf at the path of each declaration."""
    top: dict[Any, Any] = NestedValues()
    for path, declaration in placed:
        level = top
        for key in path[:-1]:
            level = level.setdefault(key, {})
        level[path[-1]] = leaf(declaration)
    return top


def by_name(placed: PlacedDeclarations, op: str) -> dict[str, Declaration]:
    """Declarations by their paths as text; two that are called the same are refused."""
    named: dict[str, Declaration] = {}
    for path, declaration in placed:
        name = path_text(path)
        if name in named:
            raise value_error(
                op, f"two parameters or states are called {name}; keys with dots can cause this"
            )
        named[name] = declaration
    return named


def match_arrays(
    given: Any, placed: PlacedDeclarations, op: str, what: str
) -> dict[Declaration, Array]:
    """The arrays given for each declaration; whatever does not fit is named, all at once.

    Indices of lists may be given as numbers or as text, and in lists instead of dicts.
    """
    if not isinstance(given, (Mapping, list, tuple)):
        raise type_error(
            op, f"the {what} came as {type(given).__name__}; accepted: a nested dict of arrays"
        )
    found = dict(leaf_paths(cast("Any", given)))
    wanted = by_name(placed, op)
    wrong = [
        *(f"{path} is missing" for path in wanted if path not in found),
        *(f"{path} is not expected" for path in found if path not in wanted),
    ]
    arrays: dict[Declaration, Array] = {}
    for path, declaration in wanted.items():
        if path not in found:
            continue
        array = wrap(lift(found[path], op))
        arrays[declaration] = array
        if array.shape != declaration.shape:
            wrong.append(f"{path} has shape {array.shape}; it must be {declaration.shape}")
        elif not declaration.accepts(array.dtype):
            wrong.append(f"{path} has dtype {array.dtype}; it must be like {declaration.dtype}")
    if wrong:
        does = "do" if what.endswith("s") else "does"
        raise value_error(op, f"the {what} {does} not fit: {'; '.join(wrong)}")
    return arrays


def declarations_by_path(model: Module, op: str) -> dict[str, Declaration]:
    """Parameters and states by their paths."""
    placed = ((path, m) for path, m in model.walk() if isinstance(m, Declaration))
    return by_name(placed, f"{op} {type(model).__name__}")


def assign(model: Module, arrays: Mapping[str, Value], names: Mapping[str, str], op: str) -> None:
    """Give a model its values, or say all that is wrong; `names` are those in the source."""
    places = declarations_by_path(model, op)
    wrong = [f"{n} is missing" for n in places if n not in arrays]
    wrong += [f"{names[n]} is not expected" for n in arrays if n not in places]
    for name, declaration in places.items():
        if (value := arrays.get(name)) is None:
            continue
        where = name if names[name] == name else f"{name} (from {names[name]})"
        if value.shape != declaration.shape:
            wrong.append(f"{where} has shape {value.shape}; it must be {declaration.shape}")
        elif not declaration.accepts(value.dtype):
            wrong.append(f"{where} has dtype {value.dtype}; it must be like {declaration.dtype}")
    if wrong:
        raise value_error(op, f"the weights do not fit {type(model).__name__}: {'; '.join(wrong)}")
    for name, declaration in places.items():
        declaration.check_fits(arrays[name], op, names[name])
    for name, declaration in places.items():
        value = pages.empty_aligned(declaration.shape, declaration.dtype)
        np.copyto(value, arrays[name], casting="unsafe")  # what fits was checked
        declaration.assign(wrap(constant(value)))
