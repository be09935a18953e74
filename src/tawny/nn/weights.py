"""Weights in files: safetensors, checked when read, and the layouts of other libraries.

    nn.weights.save(model, "model.safetensors")
    nn.weights.load(model, "model.safetensors")
    nn.weights.load_torch(model, "torch.safetensors")
    nn.weights.load_keras(model, {w.path: w.numpy() for w in keras_model.weights})

A file holds the arrays of `model.parameters` and `model.state` under their paths, as
`layer1.0.conv1.weight`.  Files are plain data: nothing in them is ever run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from tawny import pages
from tawny.array import wrap
from tawny.errors import type_error, value_error
from tawny.graph.safetensors import GraphFileError, read, shown, write
from tawny.graph.saving import ARRAYS
from tawny.nn.binding import Declaration, Path, written
from tawny.nn.layouts import (
    CELLS,
    IGNORED,
    KERAS,
    TORCH,
    Rule,
    Table,
    rows_reordered,
    rule_for,
    same_name,
    unlike_torch,
)
from tawny.nn.module import Module, check_module
from tawny.nn.structure import by_name
from tawny.node import Value, constant

__all__ = ["load", "load_keras", "load_torch", "save"]

FORMAT: Final = "tawny.weights"
VERSION: Final = "1"

File = str | os.PathLike[str]
Source = File | Mapping[str, Any]
"""A safetensors file, or arrays by name."""

Rename = Mapping[str, str | None] | Callable[[str], str | None]
"""Names there to names here; None for what is to be left out."""


def save(model: Module, path: File) -> None:
    """Write parameters and state of `model` to a safetensors file."""
    declared = _declared(check_module(model, "save"), "save")
    arrays = {name: declaration.value for name, declaration in declared.items()}
    write(path, arrays, {"format": FORMAT, "version": VERSION}, "save")


def load(model: Module, path: File) -> None:
    """Take parameters and state of `model` from a file that `save` wrote.

    Any safetensors file will do whose arrays have the model's names and shapes.  Whatever does not
    fit is named, all at once, and then the model is as it was.
    """
    check_module(model, "load")
    contents = read(path)
    kind, version = contents.text.get("format"), contents.text.get("version")
    ours = kind is not None and kind.startswith("tawny.") and kind != ARRAYS
    if ours and (kind, version) != (FORMAT, VERSION):
        raise GraphFileError(
            os.fspath(path),
            "format",
            f"{shown(kind)}, version {shown(version)}; expected {FORMAT!r}, version {VERSION!r}",
        )
    _assign(model, contents.arrays, {n: n for n in contents.arrays}, f"load {os.fspath(path)}")


def load_torch(
    model: Module,
    source: Source,
    *,
    rename: Rename | None = None,
    flattened: Mapping[str, tuple[int, int, int]] | None = None,
) -> None:
    """Take the weights of a PyTorch model: a safetensors file or a `state_dict` of arrays.

    Layers are found by the names they have there, which `rename` turns into paths of `model`: a
    dict of prefixes or a function, giving None for what is to be left out.  Layouts are converted:
    convolutions from (outputs, inputs, *window) to (*window, inputs, outputs), linear layers
    transposed, names and gates as `docs/models.md` lists.  A linear layer that reads a flattened
    map has its rows in another order there: `flattened` gives the map's (rows, columns, channels).
    Layers that would make another shape of the same weights are refused.
    """
    for path, member in check_module(model, "load_torch").walk():
        if isinstance(member, Module) and (why := unlike_torch(member)) is not None:
            raise value_error("load_torch", f"{written(path) or type(member).__name__}: {why}")
    _load_foreign("load_torch", TORCH, model, source, rename, flattened or {})


def load_keras(model: Module, source: Source, *, rename: Rename | None = None) -> None:
    """Take the weights of a Keras model: arrays by path, `{w.path: w.numpy() for w in m.weights}`.

    As `load_torch`; parts of names may be joined by `/` and end in `:0`.  Kernels have the layout
    they have here.
    """
    check_module(model, "load_keras")
    _load_foreign("load_keras", KERAS, model, source, rename, {})


# --------------------------------------------------------------------- helpers


def _declared(model: Module, op: str) -> dict[str, Declaration]:
    """Parameters and states by their paths."""
    declared = ((path, m) for path, m in model.walk() if isinstance(m, Declaration))
    return by_name(declared, f"{op} {type(model).__name__}")


def _assign(model: Module, arrays: Mapping[str, Value], names: Mapping[str, str], op: str) -> None:
    """Give a model its values, or say all that is wrong; `names` are those in the source."""
    declared = _declared(model, op)
    wrong = [f"{n} is missing" for n in declared if n not in arrays]
    wrong += [f"{names[n]} is not expected" for n in arrays if n not in declared]
    for name, declaration in declared.items():
        if (value := arrays.get(name)) is None:
            continue
        where = name if names[name] == name else f"{name} (from {names[name]})"
        if value.shape != declaration.shape:
            wrong.append(f"{where} has shape {value.shape}; it must be {declaration.shape}")
        elif not np.can_cast(value.dtype, declaration.dtype, "same_kind"):
            wrong.append(f"{where} has dtype {value.dtype}; it must be like {declaration.dtype}")
    if wrong:
        raise value_error(op, f"the weights do not fit {type(model).__name__}: {'; '.join(wrong)}")
    for name, declaration in declared.items():
        value = pages.aligned(declaration.shape, declaration.dtype)
        np.copyto(value, arrays[name], casting="same_kind")
        declaration.assign(wrap(constant(value)))


def _load_foreign(
    op: str,
    table: Table,
    model: Module,
    source: Source,
    rename: Rename | None,
    flattened: Mapping[str, tuple[int, int, int]],
) -> None:
    _declared(model, op)  # refuses names that are not unique before anything is looked for
    theirs, names = _arrays(op, source, rename)
    owners = {path: member for path, member in model.walk() if isinstance(member, Module)}
    arrays: dict[str, Value] = {}
    origin: dict[str, str] = {}
    wrong: list[str] = []
    for path, member in model.walk():
        if not isinstance(member, Declaration):
            continue
        owner, rule = _rule(table, path, owners)
        wanted = [written((*owner, their)) for their in rule.theirs]
        found = [theirs[n] for n in wanted if n in theirs]
        called = " and ".join(names.pop(n, n) for n in wanted)
        if len(found) < len(wanted):
            wrong += [f"{n} is missing" for n in wanted if n not in theirs]
            continue
        if (why := rule.misfit(owners[owner], *found)) is not None:
            wrong.append(f"{called} {why}")
            continue
        value = rule.convert(*found)
        layer = written(path[:-1])
        if layer in flattened:
            value = rows_reordered(value, flattened[layer])
        arrays[written(path)] = value
        origin[written(path)] = called
    wrong += [f"{name} is not expected" for name in names.values()]
    if wrong:
        said = "; ".join(dict.fromkeys(wrong))
        raise value_error(op, f"the weights do not fit {type(model).__name__}: {said}")
    _assign(model, arrays, origin, op)


def _rule(table: Table, path: Path, owners: Mapping[Path, Module]) -> tuple[Path, Rule]:
    """How a parameter is made, and the path of the layer whose table says it."""
    places = [path[:n] for n in range(len(path)) if path[:n] in owners]
    for place in places:
        rule = rule_for(table, owners[place], written(path[len(place) :]))
        if rule is not None:
            return place, rule
    return places[-1], same_name(written(path[len(places[-1]) :]))


def _arrays(
    op: str, source: Source, rename: Rename | None
) -> tuple[dict[str, Value], dict[str, str]]:
    """Arrays by the names they have here, and the names they had."""
    given: Mapping[str, Any]
    if isinstance(source, (str, os.PathLike)):
        given = read(source).arrays
    elif isinstance(source, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        given = source
    else:
        raise type_error(op, f"source is {source!r}; accepted: a file's path or arrays by name")
    arrays: dict[str, Value] = {}
    names: dict[str, str] = {}
    for name, value in given.items():
        parts = name.removesuffix(":0").replace("/", ".").split(".")
        plain = ".".join(part for part in parts if part not in CELLS)
        here = _renamed(plain, rename)
        if here is None or here.rpartition(".")[2] in IGNORED:
            continue
        if here in arrays:
            raise value_error(op, f"{name} and {names[here]} are both renamed to {here}")
        arrays[here] = _value(op, name, value)
        names[here] = name
    return arrays, names


def _value(op: str, name: str, given: Any) -> Value:
    """A weight as NumPy's array; tensors are taken off their tape."""
    try:
        return np.asarray(given.detach() if hasattr(given, "detach") else given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise type_error(
            op, f"{name} is {type(given).__name__}, of which NumPy makes no array: {error}"
        ) from error


def _renamed(name: str, rename: Rename | None) -> str | None:
    if rename is None:
        return name
    if callable(rename):
        return rename(name)
    fitting = [p for p in rename if name == p or name.startswith(f"{p}.")]
    if not fitting:
        return name
    prefix = max(fitting, key=len)
    new = rename[prefix]
    if new is None:
        return None
    return f"{new}{name[len(prefix) :]}" if new else name[len(prefix) + 1 :]
