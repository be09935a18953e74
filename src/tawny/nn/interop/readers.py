"""Where the weights of other libraries come from: arrays by name, models, and files.

What a file is, its first bytes say: safetensors; HDF5, which Keras writes as `x.weights.h5` and
`x.h5`; or an archive with HDF5 in it, Keras' `x.keras`.  PyTorch's own files are pickles, which run
what is in them, and are not read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, cast

from tawny.errors import type_error, value_error
from tawny.files.reading import GraphFileError, open_regular
from tawny.files.safetensors import read
from tawny.nn.interop.hdf5 import File, from_archive, from_hdf5, path_from_layer
from tawny.node import Value

HDF5: Final = b"\x89HDF\r\n\x1a\n"
ARCHIVE: Final = b"PK\x03\x04"
PICKLE: Final = b"\x80"


def torch_arrays(op: str, source: Any) -> Mapping[str, Any]:
    """The weights of a PyTorch model: a safetensors file, a `state_dict`, or the model itself."""
    if isinstance(source, Mapping):
        return cast("Mapping[str, Any]", source)
    if isinstance(source, (str, os.PathLike)):
        return _torch_file(op, cast("File", source))
    if callable(getattr(source, "state_dict", None)):
        return cast("Mapping[str, Any]", source.state_dict())
    raise type_error(
        op,
        f"source is {type(source).__name__}; accepted: a file's path, arrays by name (a "
        "state_dict), or a PyTorch module",
    )


def keras_arrays(op: str, source: Any) -> Mapping[str, Any]:
    """The weights of a Keras model: a file of it, arrays by path, or the model itself."""
    if isinstance(source, Mapping):
        return cast("Mapping[str, Any]", source)
    if isinstance(source, (str, os.PathLike)):
        return _keras_file(op, cast("File", source))
    if hasattr(source, "weights") and hasattr(source, "name"):
        return _keras_model(op, source)
    raise type_error(
        op,
        f"source is {type(source).__name__}; accepted: a file's path, arrays by name, or a Keras "
        "model",
    )


# ----------------------------------------------------------------------- files


def _first_bytes(path: File) -> bytes:
    with open_regular(path) as file:
        return file.read(8)


def _torch_file(op: str, path: File) -> Mapping[str, Value]:
    beginning = _first_bytes(path)
    if beginning.startswith((ARCHIVE, PICKLE)):
        raise GraphFileError(
            os.fspath(path),
            "format",
            "a pickle, which can run anything; read it with PyTorch and give the result: "
            f"{op}(model, torch.load(path, weights_only=True))",
        )
    if beginning == HDF5:
        raise GraphFileError(os.fspath(path), "format", "HDF5; load_keras reads files of Keras")
    return read(path).arrays


def _keras_file(op: str, path: File) -> Mapping[str, Value]:
    beginning = _first_bytes(path)
    if beginning == HDF5:
        return from_hdf5(op, path, path)
    if beginning.startswith(ARCHIVE):
        return from_archive(op, path)
    if beginning.startswith(b"{") and 0 not in beginning:
        raise GraphFileError(
            os.fspath(path),
            "format",
            "a list of several files; have Keras write one: model.save_weights('x.weights.h5')",
        )
    return read(path).arrays


# ---------------------------------------------------------------------- models


def _keras_model(op: str, model: Any) -> dict[str, Value]:
    """The weights of a model of Keras under the names of its layers, those of a layer under its."""
    found: dict[str, Value] = {}
    for layer in getattr(model, "layers", ()):
        for weight in layer.weights:
            found[path_from_layer(layer.name, _path(weight))] = weight.numpy()
    if not found:
        paths = [(_path(weight), weight) for weight in model.weights]
        return {
            path_from_layer(model.name, path).removeprefix(f"{model.name}/"): weight.numpy()
            for path, weight in paths
        }
    if len(found) < len(model.weights):
        raise value_error(
            op,
            f"{model.name} has weights outside of its layers or of the same path; give arrays by "
            "name",
        )
    return found


def _path(weight: Any) -> str:
    return str(weight.path if hasattr(weight, "path") else weight.name).removesuffix(":0")
