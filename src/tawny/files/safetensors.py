"""The safetensors format: named arrays and a little text in one file, and nothing that can run.

A file is the length of a header (8 bytes, little endian), the header (JSON: each array's dtype,
shape and place, and a table of strings) and the arrays' bytes, without holes.  Everything a header
claims is held against the bytes that are there before any array is made.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import numpy as np

from tawny.dtype import (
    FLOAT32,
    FLOAT64,
    DType,
    bfloat16,
    dtype_names,
    is_bfloat16,
    is_supported,
)
from tawny.errors import type_error, value_error
from tawny.files.atomic_write import write_atomically
from tawny.files.reading import (
    MAX_BYTES,
    MAX_RANK,
    Fail,
    GraphFileError,
    Json,
    excerpt,
    is_natural,
    open_regular,
    parse_json,
)
from tawny.node import Value
from tawny.progress import progress
from tawny.shape import Shape, size

MAX_HEADER: Final = 100_000_000
"""Bytes of the longest header, as the format's own library has it."""

_DIGEST: Final = "sha256"
_COMPLEX: Final = "complex"
_NO_DIGEST: Final = "0" * 64
_METADATA: Final = "__metadata__"

_CODES: Final[dict[str, DType]] = {
    "BOOL": np.dtype("?"),
    "I8": np.dtype("<i1"),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("<u1"),
    "U16": np.dtype("<u2"),
    "U32": np.dtype("<u4"),
    "U64": np.dtype("<u8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "C64": np.dtype("<c8"),
}
_BFLOAT16: Final = "BF16"
_KNOWN: Final = (*_CODES, _BFLOAT16)
_CODE_OF: Final = {d: code for code, d in _CODES.items() if code != "C64"}


@dataclass(frozen=True)
class Contents:
    """The contents of a file."""

    arrays: dict[str, Value]
    text: dict[str, str]


class _ArrayEntry(NamedTuple):
    """An array as the header describes it; offsets count from the end of the header."""

    name: str
    dtype: DType
    shape: Shape
    begin: int
    end: int


# --------------------------------------------------------------------- reading


def read(path: str | os.PathLike[str]) -> Contents:
    """The arrays and the text of a file, all of it checked."""
    with open_regular(path) as file, progress(f"reading {os.path.basename(path)}"):
        return read_from(file, os.fstat(file.fileno()).st_size, os.fspath(path))


def read_from(file: io.BufferedIOBase, total: int, name: str) -> Contents:
    """The arrays and the text of `total` bytes, which errors call `name`."""

    def fail(place: str, detail: str) -> GraphFileError:
        return GraphFileError(name, place, detail)

    raw = _header(file, total, fail)
    header = parse_json(raw, "header", fail)
    if not isinstance(header, dict):
        raise fail("header", "expected a JSON object")
    text = _text(header.pop(_METADATA, {}), fail)
    entries = [_entry(key, value, fail) for key, value in header.items()]
    _check_places(entries, total - 8 - len(raw), fail)
    digest = hashlib.sha256(_without_digest(raw, text))
    arrays = {e.name: _array(file, e, digest.update, fail) for e in _by_place(entries)}
    claimed = text.pop(_DIGEST, None)
    if claimed is None and text.get("format", "").startswith("tawny."):
        raise fail("checksum", f"expected {_DIGEST} beside format")
    if claimed is not None and claimed != digest.hexdigest():
        raise fail("checksum", "the bytes are not those that were written: the file is damaged")
    for key in _complex_names(text.pop(_COMPLEX, "[]"), fail):
        arrays[key] = _complex_from_pairs(key, arrays.get(key), fail)
    return Contents({e.name: arrays[e.name] for e in entries}, text)


def _header(file: io.BufferedIOBase, total: int, fail: Fail) -> bytes:
    start = file.read(8)
    if len(start) < 8:
        raise fail("file", f"expected at least 8 bytes, found {len(start)}")
    length = int.from_bytes(start, "little")
    if length > min(MAX_HEADER, total - 8):
        raise fail(
            "header length",
            f"{length} bytes are claimed; the file has {total - 8} and {MAX_HEADER} are allowed",
        )
    raw = file.read(length)
    if len(raw) != length:
        raise fail("header", f"expected {length} bytes, found {len(raw)}")
    if not raw.startswith(b"{"):
        raise fail("header", "expected a JSON object, starting with '{'")
    return raw


def _text(metadata: Json, fail: Fail) -> dict[str, str]:
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise fail(_METADATA, "expected an object whose values are strings")
    return cast("dict[str, str]", metadata)


def _entry(name: str, value: Json, fail: Fail) -> _ArrayEntry:
    place = f"array {excerpt(name)}"
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise fail(place, "expected an object of dtype, shape and data_offsets")
    code, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(code, str) or code not in _KNOWN:
        raise fail(place, f"dtype is {excerpt(code)}; expected one of {', '.join(_KNOWN)}")
    dtype = bfloat16() if code == _BFLOAT16 else _CODES[code]
    if not isinstance(shape, list) or len(shape) > MAX_RANK or not all(map(is_natural, shape)):
        raise fail(place, f"shape is {excerpt(shape)}; expected at most {MAX_RANK} sizes from 0")
    sizes = cast("list[int]", shape)
    if math.prod(n for n in sizes if n) * dtype.itemsize > MAX_BYTES:
        raise fail(place, f"shape {excerpt(shape)} is larger than any array")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(is_natural, offsets)):
        raise fail(place, f"data_offsets are {excerpt(offsets)}; expected [begin, end]")
    begin, end = cast("list[int]", offsets)
    needed = size(tuple(sizes)) * dtype.itemsize
    if end - begin != needed:
        raise fail(
            place, f"{excerpt(shape)} of {code} is {needed} bytes; its place has {end - begin}"
        )
    return _ArrayEntry(name, dtype, tuple(sizes), begin, end)


def _by_place(entries: list[_ArrayEntry]) -> list[_ArrayEntry]:
    return sorted(entries, key=lambda e: (e.begin, e.end))


def _check_places(entries: list[_ArrayEntry], available: int, fail: Fail) -> None:
    """Refuse arrays that overlap, leave holes, or are not all of the bytes that are there."""
    reached = 0
    for entry in _by_place(entries):
        if entry.begin != reached:
            problem = "overlaps another" if entry.begin < reached else "leaves a hole before it"
            raise fail(
                f"array {excerpt(entry.name)}",
                f"it {problem}: expected to begin at {reached}, not {entry.begin}",
            )
        reached = entry.end
    if reached != available:
        raise fail("data", f"the arrays take {reached} bytes; the file has {available}")


def _array(
    file: io.BufferedIOBase, entry: _ArrayEntry, seen: Callable[[memoryview], None], fail: Fail
) -> Value:
    """The bytes of one array; `_check_places` has found that the file has them."""
    raw = np.empty(entry.end - entry.begin, np.uint8)
    view = raw.data
    if (count := file.readinto(view)) != len(raw):
        raise fail(f"array {excerpt(entry.name)}", f"expected {len(raw)} bytes, found {count}")
    seen(view)
    if entry.dtype.kind == "b" and raw.size and int(raw.max()) > 1:
        raise fail(f"array {excerpt(entry.name)}", "a boolean is neither 0 nor 1")
    shaped = raw.view(entry.dtype).reshape(entry.shape)
    return shaped.astype(entry.dtype.newbyteorder("="), copy=False)


def _without_digest(raw: bytes, text: Mapping[str, str]) -> bytes:
    claimed = text.get(_DIGEST, "")
    return raw.replace(claimed.encode(errors="replace"), _NO_DIGEST.encode(), 1) if claimed else raw


def _complex_names(listed: str, fail: Fail) -> list[str]:
    names = parse_json(listed, "the list of complex arrays", fail)
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise fail("the list of complex arrays", "expected a list of names")
    if len(set(map(str, names))) != len(names):
        raise fail("the list of complex arrays", "a name occurs twice")
    return cast("list[str]", names)


def _complex_from_pairs(name: str, value: Value | None, fail: Fail) -> Value:
    """A complex array from pairs of real numbers."""
    if value is None or value.dtype not in (FLOAT32, FLOAT64) or value.shape[-1:] != (2,):
        raise fail(f"array {excerpt(name)}", "expected pairs of F32 or F64 numbers: it is complex")
    return value.view(np.result_type(value.dtype, np.complex64))[..., 0]


# --------------------------------------------------------------------- writing


def write(
    path: str | os.PathLike[str], arrays: Mapping[str, Value], text: Mapping[str, str], op: str
) -> None:
    """Write a file whole: what stood at `path` before is replaced when all is written."""
    write_atomically(os.path.realpath(path), file_blocks(arrays, text, op))


def file_blocks(
    arrays: Mapping[str, Value], text: Mapping[str, str], op: str
) -> list[bytes | memoryview]:
    """The bytes of a file, one after another.

    Complex numbers are pairs of real ones, which every reader of the format knows.
    """
    plain = {name: _plain(name, value, op) for name, value in arrays.items()}
    order = sorted(plain, key=lambda n: (-plain[n].dtype.itemsize, n))
    table: dict[str, Any] = {_METADATA: {**text, _DIGEST: _NO_DIGEST}}
    pairs = sorted(name for name, value in arrays.items() if value.dtype.kind == "c")
    if pairs:
        table[_METADATA][_COMPLEX] = json.dumps(pairs)
    place = 0
    for name in order:
        value = plain[name]
        table[name] = {
            "dtype": _BFLOAT16 if is_bfloat16(value.dtype) else _CODE_OF[value.dtype],
            "shape": list(value.shape),
            "data_offsets": [place, place + value.nbytes],
        }
        place += value.nbytes
    raw = json.dumps(table, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    if len(raw) > MAX_HEADER:
        raise value_error(op, f"the header is {len(raw)} bytes; at most {MAX_HEADER} are allowed")
    views = [plain[name].reshape(-1).view(np.uint8).data for name in order]
    digest = hashlib.sha256(raw)
    for view in views:
        digest.update(view)
    raw = raw.replace(
        f'"{_DIGEST}":"{_NO_DIGEST}"'.encode(), f'"{_DIGEST}":"{digest.hexdigest()}"'.encode(), 1
    )
    return [len(raw).to_bytes(8, "little"), raw, *views]


def _plain(name: str, value: Value, op: str) -> Value:
    """`value` as the format stores it: contiguous, little endian, real."""
    if name == _METADATA or not _is_text(name):
        raise value_error(op, f"an array cannot be called {excerpt(name)}")
    if not is_supported(value.dtype):
        raise type_error(
            op,
            f"array {name!r} has dtype {value.dtype}; accepted: {', '.join(dtype_names())}",
        )
    out = np.array(value, dtype=value.dtype.newbyteorder("<"), order="C", copy=None)
    if out.dtype.kind == "c":
        out = out[..., None].view(np.dtype(f"<f{out.dtype.itemsize // 2}"))
    return out


def _is_text(name: str) -> bool:
    """Whether a string can be written as UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
