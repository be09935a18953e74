"""Arrays of a model file, checked before memory is taken: sizes, types, external data."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tawny.dtype import is_half, kind_of
from tawny.files.reading import MAX_BYTES, MAX_RANK, Fail, excerpt, open_regular
from tawny.node import Value
from tawny.onnx.element_types import element_dtype

EXTERNAL: Final = 1
"""The data location of arrays that lie in files of their own."""

MOST_DENSE_BYTES: Final = 2**28
"""Bytes that a sparse array may take when it is filled: 256 MB, more than models have."""

_FIELDS: Final = {
    1: "float_data",
    11: "double_data",
    7: "int64_data",
    12: "uint64_data",
    13: "uint64_data",
    14: "float_data",
    15: "double_data",
}
"""Where elements lie that are not given as bytes; `int32_data` has all others."""


@dataclass(frozen=True, slots=True)
class TensorReader:
    """Reads arrays of one file."""

    folder: Path | None
    """Where the model lies; None for one given as bytes, which has no files beside it."""
    fail: Fail

    def read(self, tensor: Any, place: str) -> Value:
        """The array of a TensorProto; `UnsupportedTypeError` for elements without a dtype."""
        shape = self.shape(tensor.dims, place)
        dtype = element_dtype(tensor.data_type)
        count = math.prod(shape)
        if count * dtype.itemsize > MAX_BYTES:
            raise self.fail(place, f"an array of shape {shape} and dtype {dtype} is too large")
        if tensor.HasField("segment"):
            raise self.fail(place, "arrays in segments are not supported")
        if tensor.data_location == EXTERNAL:
            data = self._external(tensor, count * dtype.itemsize, place)
            return self._from_bytes(data, dtype, shape, place)
        if tensor.HasField("raw_data"):
            return self._from_bytes(tensor.raw_data, dtype, shape, place)
        return self._from_list(tensor, dtype, shape, place)

    def shape(self, dims: Any, place: str) -> tuple[int, ...]:
        """The sizes of axes, each at least 0."""
        shape = tuple(map(int, dims))
        if len(shape) > MAX_RANK:
            raise self.fail(
                place, f"an array of {len(shape)} axes; at most {MAX_RANK} are possible"
            )
        if any(n < 0 for n in shape):
            raise self.fail(place, f"the shape is {shape}; no size may be negative")
        return shape

    def read_sparse(self, sparse: Any, place: str) -> Value:
        """The array of a SparseTensorProto, with zeros filled in."""
        shape = self.shape(sparse.dims, place)
        values, indices = self.read(sparse.values, place), self.read(sparse.indices, place)
        count = math.prod(shape)
        if count * values.itemsize > MOST_DENSE_BYTES:
            raise self.fail(place, f"a sparse array of shape {shape} is too large to be filled")
        if values.ndim != 1 or indices.dtype != np.int64:
            raise self.fail(place, "a sparse array has its values on one axis, and int64 indices")
        if indices.ndim == 1 and indices.shape == values.shape:
            flat = indices
        elif indices.shape == (len(values), len(shape)):
            sizes = np.asarray(shape, np.int64)
            if ((indices < 0) | (indices >= sizes)).any():
                raise self.fail(place, f"an index is outside the shape {shape}")
            flat = indices @ np.asarray([math.prod(shape[i + 1 :]) for i in range(len(shape))])
        else:
            raise self.fail(
                place,
                f"{len(values)} values have indices of shape {indices.shape}; they do not fit",
            )
        if len(flat) and (flat.min() < 0 or flat.max() >= count):
            raise self.fail(place, f"an index is outside the shape {shape}")
        dense = np.zeros(count, values.dtype)
        dense[flat] = values
        return dense.reshape(shape)

    def _from_bytes(
        self, data: bytes | Value, dtype: np.dtype[Any], shape: tuple[int, ...], place: str
    ) -> Value:
        expected = math.prod(shape) * dtype.itemsize
        if len(data) != expected:
            raise self.fail(
                place,
                f"{len(data)} bytes came for shape {shape} and dtype {dtype}; expected {expected}",
            )
        found = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False)
        if dtype.kind == "b":  # any byte but 0 is true, as NumPy has it
            found = np.frombuffer(data, np.uint8) != 0
        return found.reshape(shape)

    def _from_list(
        self, tensor: Any, dtype: np.dtype[Any], shape: tuple[int, ...], place: str
    ) -> Value:
        items = getattr(tensor, _FIELDS.get(tensor.data_type, "int32_data"))
        expected = math.prod(shape) * (2 if dtype.kind == "c" else 1)
        if len(items) != expected:
            raise self.fail(
                place, f"{len(items)} numbers came for shape {shape}, which takes {expected}"
            )
        if dtype.kind == "c":
            part = np.float32 if dtype.itemsize == 8 else np.float64
            return np.fromiter(items, part, len(items)).view(dtype).reshape(shape)
        if is_half(dtype):
            bits = np.fromiter(items, np.int64, len(items)).astype(np.uint16)
            return bits.view(dtype).reshape(shape)
        wide = dtype if kind_of(dtype) == "f" or dtype.itemsize == 8 else np.dtype(np.int64)
        return np.fromiter(items, wide, len(items)).astype(dtype, copy=False).reshape(shape)

    def _external(self, tensor: Any, size: int, place: str) -> Value:
        """The bytes of an array in a file beside the model's, which it must not leave."""
        fields = {str(entry.key): str(entry.value) for entry in tensor.external_data}
        location = fields.get("location", "")
        if self.folder is None:
            raise self.fail(
                place, f"data lies in the file {excerpt(location)}; load the model by its path"
            )
        offset, length = (
            self._number(fields, "offset", place),
            self._number(fields, "length", place),
        )
        home = self.folder.resolve()
        path = Path(location)
        if not location or "\0" in location or path.is_absolute() or ".." in path.parts:
            raise self.fail(place, f"data in {excerpt(location)}, outside the model's folder")
        try:
            whole = (home / path).resolve()
        except (OSError, RuntimeError) as error:
            raise self.fail(place, f"data in {excerpt(location)}: {error}") from None
        if not whole.is_relative_to(home):
            raise self.fail(place, f"data in {excerpt(location)}, outside the model's folder")
        if length is not None and length != size:
            raise self.fail(place, f"{length} bytes of external data for an array of {size}")
        return self._read_bytes(whole, offset or 0, size, place, location)

    def _read_bytes(self, path: Path, offset: int, size: int, place: str, location: str) -> Value:
        try:
            with open_regular(path) as file:
                there = os.fstat(file.fileno()).st_size
                if offset + size > there:
                    raise self.fail(
                        place,
                        f"{size} bytes from {offset} of {excerpt(location)}, which has {there}",
                    )
                file.seek(offset)
                return np.fromfile(file, np.uint8, size)
        except OSError as error:
            raise self.fail(place, f"data in {excerpt(location)}: {error.strerror}") from None

    def _number(self, fields: dict[str, str], key: str, place: str) -> int | None:
        text = fields.get(key)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit()) or len(text) > 18:
            raise self.fail(place, f"{key} of external data is {excerpt(text)}")
        return int(text)
