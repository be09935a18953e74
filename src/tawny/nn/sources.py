"""Where the weights of other libraries come from: arrays by name, models, and files.

What a file is, its first bytes say: safetensors; HDF5, which Keras writes as `x.weights.h5` and
`x.h5`; or an archive with HDF5 in it, Keras' `x.keras`.  PyTorch's own files are pickles, which run
what is in them, and are not read.
"""

from __future__ import annotations

import importlib
import io
import itertools
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import numpy as np

from tawny.errors import located, type_error, value_error
from tawny.graph.safetensors import GraphFileError, read
from tawny.node import Value

__all__ = ["File", "Read", "keras_arrays", "torch_arrays"]

File = str | os.PathLike[str]

Read = Callable[[str, Any], Mapping[str, Any]]
"""From the function that was called and what it was given to arrays by name."""

HDF5: Final = b"\x89HDF\r\n\x1a\n"
ARCHIVE: Final = b"PK\x03\x04"
PICKLE: Final = b"\x80"
KERAS_WEIGHTS: Final = "model.weights.h5"

VARIABLES: Final = "vars"
"""The group of a layer's own variables in Keras' files, where they are numbered."""
OPTIMISER: Final = "optimizer"
SEPARABLE: Final = ("depthwise_kernel", "pointwise_kernel", "bias")
UNNAMED: Final = {
    "cell": (),
    "query_dense": ("query",),
    "key_dense": ("key",),
    "value_dense": ("value",),
    "output_dense": ("attention_output",),
}
"""Groups of files without names of layers, and what the layers in them are called by themselves."""
DEEPEST: Final = 64
"""Groups within groups that are followed in a file."""


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


def _beginning(path: File) -> bytes:
    with open(path, "rb") as file:
        return file.read(8)


def _torch_file(op: str, path: File) -> Mapping[str, Value]:
    beginning = _beginning(path)
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
    beginning = _beginning(path)
    if beginning == HDF5:
        return _hdf5(op, path, path)
    if beginning.startswith(ARCHIVE):
        try:
            with zipfile.ZipFile(path) as archive:
                contents = archive.read(KERAS_WEIGHTS)
        except (KeyError, zipfile.BadZipFile, EOFError) as error:
            raise GraphFileError(
                os.fspath(path), "format", f"an archive without {KERAS_WEIGHTS}, so none of Keras"
            ) from error
        return _hdf5(op, path, io.BytesIO(contents))
    if beginning.startswith(b"{") and 0 not in beginning:
        raise GraphFileError(
            os.fspath(path),
            "format",
            "a list of several files; have Keras write one: model.save_weights('x.weights.h5')",
        )
    return read(path).arrays


def _hdf5(op: str, path: File, contents: File | io.BytesIO) -> dict[str, Value]:
    try:
        h5py: Any = importlib.import_module("h5py")
    except ImportError:
        raise ImportError(
            located(
                f"{op}: {os.fspath(path)} is HDF5, which needs h5py: pip install 'tawny[keras]'"
            )
        ) from None
    found: dict[str, Value] = {}
    try:
        with h5py.File(contents, "r") as file:
            top = file.get("model_weights", file)
            known = any(name in top.attrs for name in ("layer_names", "layer_names0"))
            for name, dataset in _by_layer(top) if known else _by_variable(file):
                if name in found:
                    raise value_error(op, f"{os.fspath(path)} has two weights called {name}")
                found[name] = _value(dataset, file)
    except (OSError, KeyError, AttributeError, RuntimeError, TypeError) as error:
        raise GraphFileError(
            os.fspath(path), "format", f"HDF5 that Keras did not write, or damaged: {error}"
        ) from error
    return found


def _value(dataset: Any, file: Any) -> Value:
    """An array that lies in the file itself; those that lie in other files are not looked for."""
    if dataset.external or dataset.is_virtual or dataset.file.filename != file.filename:
        raise OSError(f"{dataset.name} lies in another file")
    return np.asarray(dataset[()])


def _by_layer(top: Any) -> Iterator[tuple[str, Any]]:
    """Weights of `x.h5`: the names of layers, and in the group of each those of its weights.

    Published files have names of an early time, `block1_conv1_W_1:0`: there the number counts.
    """
    for layer in _texts(top, "layer_names"):
        for number, name in enumerate(_texts(top[layer], "weight_names")):
            path = name if "/" in name else f"{layer}/{VARIABLES}/{number}"
            yield _under(layer, path), top[layer][name]
    if "top_level_model_weights" in top:
        own = top["top_level_model_weights"]
        for name in _texts(own, "weight_names"):
            yield name, own[name]


def _texts(group: Any, key: str) -> list[str]:
    """Names that are kept beside a group, in one list or in several that are numbered."""
    numbered = itertools.takewhile(
        lambda name: name in group.attrs, (f"{key}{n}" for n in itertools.count())
    )
    parts = [key] if key in group.attrs else [*numbered]
    return [_text(text) for part in parts for text in group.attrs[part]]


def _text(given: Any) -> str:
    return given.decode() if isinstance(given, bytes) else str(given)


def _by_variable(file: Any) -> Iterator[tuple[str, Any]]:
    """Weights of `x.weights.h5`: groups as the model holds its layers, with their names beside.

    Variables have numbers: `dense_1/vars/0` is the first of the layer called so.  Files of early
    versions have no names beside: there the second dense layer is called `layers/dense_1`.
    """
    waiting: list[tuple[Any, tuple[str, ...], tuple[str, ...]]] = [(file, (), ())]
    while waiting:
        group, place, between = waiting.pop()
        if len(place) + len(between) > DEEPEST:
            raise OSError(f"{group.name} is within more than {DEEPEST} groups")
        for key in group:
            inner = group[key]
            if key == VARIABLES or (key == OPTIMISER and group.name == "/"):
                continue
            if VARIABLES not in inner:
                waiting.append((inner, place, (*between, key)))
                continue
            own = inner[VARIABLES]
            if "name" in own.attrs:
                here = (*place, _text(own.attrs["name"]))
            else:
                here = (*place, *between, *UNNAMED.get(key.lstrip("_"), (key,)))
            waiting.append((inner, here, ()))
            for number in own:
                yield "/".join((*here, _variable(key, number))), own[number]
    for number in file.get(VARIABLES, ()):
        yield f"{VARIABLES}/{number}", file[VARIABLES][number]


def _variable(layer: str, number: str) -> str:
    if layer.startswith("separable_conv") and number.isdigit() and int(number) < len(SEPARABLE):
        return SEPARABLE[int(number)]
    return f"{VARIABLES}/{number}" if number.isdigit() else number


# ---------------------------------------------------------------------- models


def _keras_model(op: str, model: Any) -> dict[str, Value]:
    """The weights of a model of Keras under the names of its layers, those of a layer under its."""
    found: dict[str, Value] = {}
    for layer in getattr(model, "layers", ()):
        for weight in layer.weights:
            found[_under(layer.name, _path(weight))] = weight.numpy()
    if not found:
        paths = [(_path(weight), weight) for weight in model.weights]
        return {
            _under(model.name, path).removeprefix(f"{model.name}/"): weight.numpy()
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


def _under(layer: str, path: str) -> str:
    """A weight's path from its layer on: `model/dense/kernel` and `kernel` as `dense/kernel`."""
    parts = path.split("/")
    return "/".join(parts[parts.index(layer) :] if layer in parts else (layer, *parts))
