"""Weights in files: safetensors, checked when read, and those of other libraries.

    nn.weights.save(model, "model.safetensors")
    nn.weights.load(model, "model.safetensors")
    nn.weights.load_torch(model, torch_model)
    nn.weights.load_keras(model, "model.weights.h5")

A file holds the arrays of `model.parameters` and `model.state` under their paths, as
`layer1.0.conv1.weight`.  Files are plain data: nothing in them is ever run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, cast

from tawny.errors import value_error
from tawny.files.reading import GraphFileError, excerpt
from tawny.files.safetensors import read, write
from tawny.graph.saving import ARRAYS
from tawny.nn.interop.conversion import Rename, as_rename, load_foreign, plain_name
from tawny.nn.interop.flattened_maps import Shapes, flattened_shapes, row_adjustment
from tawny.nn.interop.hdf5 import File
from tawny.nn.interop.layouts import KERAS, TORCH, torch_difference
from tawny.nn.interop.readers import keras_arrays, torch_arrays
from tawny.nn.module import Module, check_module
from tawny.nn.parameters import path_text
from tawny.nn.training import checkpoints
from tawny.nn.values import assign, declarations_by_path
from tawny.node import Value

__all__ = ["load", "load_keras", "load_torch", "save"]

FORMAT: Final = "tawny.weights"
VERSION: Final = "1"

Source = File | Mapping[str, Any]
"""A file, or arrays by name."""


def save(model: Module, path: File) -> None:
    """Write parameters and state of `model` to a safetensors file."""
    places = declarations_by_path(check_module(model, "save"), "save")
    arrays = {name: declaration.value for name, declaration in places.items()}
    write(path, arrays, {"format": FORMAT, "version": VERSION}, "save")


def load(model: Module, path: File) -> None:
    """Take parameters and state of `model` from a file that `save` or `nn.Checkpoint` wrote.

    Any safetensors file will do whose arrays have the model's names and shapes.  Whatever does not
    fit is named, all at once, and then the model is as it was.
    """
    check_module(model, "load")
    contents = read(path)
    kind, version = contents.text.get("format"), contents.text.get("version")
    ours = kind is not None and kind.startswith("tawny.") and kind != ARRAYS
    if ours and (kind, version) not in {(FORMAT, VERSION), (checkpoints.FORMAT, VERSION)}:
        raise GraphFileError(
            os.fspath(path),
            "format",
            f"{excerpt(kind)}, version {excerpt(version)}; expected {FORMAT!r} or "
            f"{checkpoints.FORMAT!r}, version {VERSION!r}",
        )
    names = {name: name for name in contents.arrays}
    if kind == checkpoints.FORMAT:
        names = checkpoints.weight_names(contents.arrays)
    arrays = {own: contents.arrays[name] for own, name in names.items()}
    assign(model, arrays, names, f"load {os.fspath(path)}")


def load_torch(
    model: Module,
    source: Source | Any,
    *,
    rename: Rename | None = None,
    flattened: Shapes | None = None,
) -> None:
    """Take the weights of a PyTorch model: the model, its `state_dict`, or a safetensors file.

    Layers are found by the names they have there, which `rename` turns into paths of `model`: a
    dict of prefixes or a function, giving None for what is to be left out.  Layouts are converted:
    convolutions from (outputs, inputs, *window) to (*window, inputs, outputs), linear layers
    transposed, names and gates as `docs/models.md` lists.  A linear layer that reads a flattened
    map has its rows in another order there: `flattened` gives the map's (rows, columns, channels).
    Networks of `tw.models` know both for themselves.  Layers that would make something else of the
    same weights are refused.
    """
    op = "load_torch"
    for path, member in check_module(model, op).walk():
        if isinstance(member, Module) and (why := torch_difference(member)) is not None:
            raise value_error(op, f"{path_text(path) or type(member).__name__}: {why}")
    shapes = flattened_shapes(model) if flattened is None else flattened
    known = getattr(model, "torch_name", None) if rename is None else rename
    given = torch_arrays(op, source)
    load_foreign(op, TORCH, model, given, as_rename(known), row_adjustment(op, model, shapes))


def load_keras(model: Module, source: Source | Any, *, rename: Rename | None = None) -> None:
    """Take the weights of a Keras model: the model, a file of it, or arrays by path.

    Files are `x.weights.h5`, `x.keras` and `x.h5`, for which h5py is needed (`tawny[keras]`), or
    safetensors.  Layers are found by their names there, without the model's own, and renamed as by
    `load_torch`: `rename={"dense_1": "0"}`.  Arrays by path are `{w.path: w.numpy() for w in
    keras_model.weights}`; parts of names may be joined by `/` and end in `:0`.
    """
    op = "load_keras"
    check_module(model, op)
    given = keras_arrays(op, source)
    known = _keras_names(model, given) if rename is None else rename
    load_foreign(op, KERAS, model, given, as_rename(known), _no_adjustment)


def _keras_names(model: Module, given: Mapping[str, Any]) -> Rename | None:
    """How a network that was published by Keras calls its layers there, if it says so."""
    if hasattr(model, "keras_names"):
        return cast("Rename", model.keras_names([plain_name(name) for name in given]))
    return getattr(model, "keras_name", None)


def _no_adjustment(_: str, value: Value) -> Value:
    return value
