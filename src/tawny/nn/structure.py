"""Parameters as nested dicts: made from a model's declarations, and matched with them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, cast

from tawny.array import Array, lift, wrap
from tawny.errors import type_error, value_error
from tawny.nn.binding import Declaration, Path, written
from tawny.tree import paths

Placed = Iterable[tuple[Path, Declaration]]


class Values(dict[Any, Any]):
    """Arrays by name; not called, as a method of that name is elsewhere."""

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise type_error(
            "nn",
            "parameters and state are nested dicts, not methods: write model.parameters; "
            "optimisers are given them by nn.train(model, loss, data, optimiser), or by "
            "optimiser.step(function, parameters, state)",
        )


def nested(placed: Placed, leaf: Callable[[Declaration], Any]) -> dict[Any, Any]:
    """A nested dict with a leaf at the path of each declaration."""
    top: dict[Any, Any] = Values()
    for path, declaration in placed:
        level = top
        for key in path[:-1]:
            level = level.setdefault(key, {})
        level[path[-1]] = leaf(declaration)
    return top


def by_name(placed: Placed, op: str) -> dict[str, Declaration]:
    """Declarations by their paths as text; two that are called the same are refused."""
    named: dict[str, Declaration] = {}
    for path, declaration in placed:
        name = written(path)
        if name in named:
            raise value_error(
                op, f"two parameters or states are called {name}; keys with dots can cause this"
            )
        named[name] = declaration
    return named


def matched(given: Any, placed: Placed, op: str, what: str) -> dict[Declaration, Array]:
    """The arrays given for each declaration; whatever does not fit is named, all at once.

    Indices of lists may be given as numbers or as text, and in lists instead of dicts.
    """
    if not isinstance(given, (Mapping, list, tuple)):
        raise type_error(
            op, f"the {what} came as {type(given).__name__}; accepted: a nested dict of arrays"
        )
    found = dict(paths(cast("Any", given)))
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
        elif not declaration.takes(array.dtype):
            wrong.append(f"{path} has dtype {array.dtype}; it must be like {declaration.dtype}")
    if wrong:
        does = "do" if what.endswith("s") else "does"
        raise value_error(op, f"the {what} {does} not fit: {'; '.join(wrong)}")
    return arrays
