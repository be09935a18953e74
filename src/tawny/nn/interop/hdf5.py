"""Keras' files: weights in HDF5, alone or in an archive, read with limits on what they may claim.

An archive's contents, and the arrays of a file, may take `MAX_EXPANSION` times the file's own
bytes, or `MIN_LIMIT_BYTES` where that is more: weights hardly shrink when they are packed.  Every
group is visited once, and nothing is looked for in other files.  libhdf5 itself is not made for
files of strangers: damaged ones may end the process.
"""

from __future__ import annotations

import importlib
import io
import itertools
import math
import os
import zipfile
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tawny.dtype import kind_of
from tawny.errors import with_location
from tawny.files.reading import GraphFileError, open_regular
from tawny.node import Value

File = str | os.PathLike[str]

KERAS_WEIGHTS: Final = "model.weights.h5"
MAX_EXPANSION: Final = 20
"""The bytes of all arrays, as a multiple of those of the file they are in, at most.

Chosen by hand: weights hardly shrink when they are packed, and bombs grow a thousandfold.
"""
MIN_LIMIT_BYTES: Final = 2**26
"""Bytes that may be taken whatever the size of the file: 64 MB, which any machine can spare."""
MAX_DEPTH: Final = 64
"""The depth to which groups within groups are followed; models nest less deep."""

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


def from_archive(op: str, path: File) -> dict[str, Value]:
    """The weights of `x.keras`."""
    name = os.fspath(path)
    with open_regular(path) as file:
        most = _byte_limit(os.fstat(file.fileno()).st_size)
        try:
            with zipfile.ZipFile(file) as archive:
                claimed = archive.getinfo(KERAS_WEIGHTS).file_size
                if claimed > most:
                    raise GraphFileError(name, KERAS_WEIGHTS, _excess(claimed, most))
                contents = _unpack(archive)
        except GraphFileError:
            raise
        except Exception as error:  # whatever `zipfile` makes of damaged bytes
            raise GraphFileError(
                name, "format", f"an archive without {KERAS_WEIGHTS}, so none of Keras, or damaged"
            ) from error
    return from_hdf5(op, path, contents, len(contents.getbuffer()))


def _unpack(archive: zipfile.ZipFile) -> io.BytesIO:
    """The weights, a piece at a time: at once, more would be unpacked than is claimed."""
    contents = io.BytesIO()
    with archive.open(KERAS_WEIGHTS) as member:
        while piece := member.read(_CHUNK_BYTES):
            contents.write(piece)
    return contents


_CHUNK_BYTES: Final = 2**20


def from_hdf5(
    op: str, path: File, contents: File | io.BytesIO, total: int | None = None
) -> dict[str, Value]:
    """The weights of `x.h5` and `x.weights.h5`, or of such contents of `total` bytes."""
    try:
        h5py: Any = importlib.import_module("h5py")
    except ImportError:
        raise ImportError(
            with_location(
                f"{op}: {os.fspath(path)} is HDF5, which needs h5py: pip install 'tawny[keras]'"
            )
        ) from None
    bytes = os.stat(path).st_size if total is None else total
    try:
        with h5py.File(contents, "r") as file:
            return _WeightReader(h5py, file, bytes).weights()
    except Exception as error:  # whatever h5py makes of damaged bytes
        raise GraphFileError(
            os.fspath(path), "format", f"HDF5 that Keras did not write, or damaged: {error}"
        ) from error


def _byte_limit(bytes: int) -> int:
    return max(MAX_EXPANSION * bytes, MIN_LIMIT_BYTES)


def _excess(claimed: int, most: int) -> str:
    return (
        f"{claimed} bytes are claimed; at most {most} are read from a file of this size: "
        f"{MAX_EXPANSION} times its bytes, or {MIN_LIMIT_BYTES}"
    )


class _WeightReader:
    """Reads the weights of a file that opened."""

    def __init__(self, h5py: Any, file: Any, bytes: int) -> None:
        self.h5py = h5py
        self.file = file
        self.bytes = bytes
        self.most = self.left = _byte_limit(bytes)
        self.visited: set[Any] = set()

    def weights(self) -> dict[str, Value]:
        """The arrays by name."""
        top = self.group(self.file, "model_weights") if "model_weights" in self.file else self.file
        known = any(name in top.attrs for name in ("layer_names", "layer_names0"))
        found: dict[str, Value] = {}
        for name, dataset in self.by_layer(top) if known else self.by_variable():
            if name in found:
                raise ValueError(f"two weights are called {name}")
            found[name] = self.value(dataset)
        return found

    # ------------------------------------------------------------------- members

    def member(self, group: Any, path: str) -> Any:
        """What a group holds at a path, not looking into other files."""
        for key in path.split("/"):
            if not isinstance(group, self.h5py.Group):
                raise TypeError(f"{group.name} is an array, where a group is expected")
            if isinstance(group.get(key, getlink=True), self.h5py.ExternalLink):
                raise OSError(f"{group.name}/{key} lies in another file")
            group = group[key]
        return group

    def group(self, owner: Any, path: str) -> Any:
        """A group within another."""
        found = self.member(owner, path)
        if not isinstance(found, self.h5py.Group):
            raise TypeError(f"{found.name} is an array, where a group is expected")
        return found

    def visit(self, group: Any, depth: int) -> None:
        """Refuse a group that was visited before, under another name or within itself."""
        info = self.h5py.h5o.get_info(group.id)
        place = (info.fileno, info.addr)
        if place in self.visited or depth > MAX_DEPTH:
            raise OSError(
                f"{group.name} is there under several names, or within more than {MAX_DEPTH} groups"
            )
        self.visited.add(place)

    def value(self, dataset: Any) -> Value:
        """An array that lies in the file itself, within what a file of its size may hold."""
        if not isinstance(dataset, self.h5py.Dataset):
            raise TypeError(f"{dataset.name} is no array")
        if dataset.external or dataset.is_virtual or dataset.file.filename != self.file.filename:
            raise OSError(f"{dataset.name} lies in another file")
        if kind_of(dataset.dtype) not in "biufc":
            raise TypeError(f"{dataset.name} holds {dataset.dtype}; expected numbers")
        claimed = math.prod(dataset.shape) * dataset.dtype.itemsize
        self.left -= claimed
        if self.left < 0:
            raise OSError(f"{dataset.name}: {_excess(self.most - self.left, self.most)}")
        if claimed and not dataset.id.get_storage_size():
            raise OSError(f"{dataset.name} was never written")
        return np.asarray(dataset[()])

    def texts(self, group: Any, key: str) -> list[str]:
        """Names that are kept beside a group, in one list or in several that are numbered."""
        numbered = itertools.takewhile(
            lambda name: name in group.attrs, (f"{key}{n}" for n in itertools.count())
        )
        parts = [key] if key in group.attrs else [*numbered]
        return [_text(text) for part in parts for text in self.attribute(group, part)]

    def attribute(self, group: Any, key: str) -> Any:
        """What is kept beside a group, within what a file of its size may hold."""
        attribute = group.attrs.get_id(key)
        claimed = math.prod(attribute.shape or ()) * attribute.dtype.itemsize
        if claimed > max(self.bytes, MIN_LIMIT_BYTES):
            raise OSError(f"{group.name}: {key} has shape {attribute.shape}")
        return group.attrs[key]

    # --------------------------------------------------------------------- walks

    def by_layer(self, top: Any) -> Iterator[tuple[str, Any]]:
        """Weights of `x.h5`: the names of layers, and in the group of each those of its weights.

        Published files have names of an early time, `block1_conv1_W_1:0`: there the number counts.
        """
        for layer in self.texts(top, "layer_names"):
            group = self.group(top, layer)
            for number, name in enumerate(self.texts(group, "weight_names")):
                path = name if "/" in name else f"{layer}/{VARIABLES}/{number}"
                yield path_from_layer(layer, path), self.member(group, name)
        if "top_level_model_weights" in top:
            own = self.group(top, "top_level_model_weights")
            for name in self.texts(own, "weight_names"):
                yield name, self.member(own, name)

    def by_variable(self) -> Iterator[tuple[str, Any]]:
        """Weights of `x.weights.h5`: groups as the model holds its layers, their names beside.

        Variables have numbers: `dense_1/vars/0` is the first of the layer called so.  Files of
        early versions have no names beside: there the second dense layer is `layers/dense_1`.
        """
        waiting: list[tuple[Any, tuple[str, ...], tuple[str, ...]]] = [(self.file, (), ())]
        while waiting:
            group, place, between = waiting.pop()
            self.visit(group, len(place) + len(between))
            for key in group:
                if key == VARIABLES or (key == OPTIMISER and group.name == "/"):
                    continue
                inner = self.group(group, key)
                if VARIABLES not in inner:
                    waiting.append((inner, place, (*between, key)))
                    continue
                own = self.group(inner, VARIABLES)
                if "name" in own.attrs:
                    here = (*place, _text(self.attribute(own, "name")))
                else:
                    here = (*place, *between, *UNNAMED.get(key.lstrip("_"), (key,)))
                waiting.append((inner, here, ()))
                for number in own:
                    yield "/".join((*here, _variable(key, number))), self.member(own, number)
        if VARIABLES in self.file:
            own = self.group(self.file, VARIABLES)
            for number in own:
                yield f"{VARIABLES}/{number}", self.member(own, number)


def _text(given: Any) -> str:
    return given.decode() if isinstance(given, bytes) else str(given)


def _variable(layer: str, number: str) -> str:
    if layer.startswith("separable_conv") and number.isdigit() and int(number) < len(SEPARABLE):
        return SEPARABLE[int(number)]
    return f"{VARIABLES}/{number}" if number.isdigit() else number


def path_from_layer(layer: str, path: str) -> str:
    """A weight's path from its layer on: `model/dense/kernel` and `kernel` as `dense/kernel`."""
    parts = path.split("/")
    return "/".join(parts[parts.index(layer) :] if layer in parts else (layer, *parts))
