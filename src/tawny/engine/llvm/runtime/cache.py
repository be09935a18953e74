"""Compiled code on disk: the objects, an index of what they were made from, and what decides it.

An object is found by its key, written whole or not at all, and bounded in size: a line with the key
and the checksum of what follows.  One that is damaged, cut short or made for another key counts as
absent.  The index has a line for each structure, which is what a generator of IR was given, spelled
out; so code is found without writing its IR.  There is one index for each state of the source that
writes IR.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import hashlib
import math
import os
import time
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tawny.engine.llvm.runtime.directory import cache_directory, is_ours, read_note, write_note
from tawny.lazy import LazyModule
from tawny.op import ELEMENTWISE, Elementwise, Op

if TYPE_CHECKING:
    import tempfile
else:
    tempfile = LazyModule("tempfile")

LIMIT_BYTES: Final = 64 << 20
"""When the entries together are larger, those that were used longest ago go."""

_SUFFIX: Final = ".object"

INDEX: Final = "index-"
"""Names of files that say which entries were made from what begin so."""

SOURCES: Final = "sources-"
"""Names of files with checksums of sources begin so."""

REFRESH: Final = 3600.0
"""Seconds after which reading an entry is noted again: entries used longest ago go first."""
_SWEEP: Final = 64
"""Entries of which one has the size of all checked after it, whichever process writes it."""

_DAY: Final = 86400.0

_BLOCK: Final = 4096
"""Bytes on disk are counted in such blocks."""


def load(key: str) -> bytes | None:
    """What was saved under `key`, if it is whole."""
    directory = cache_directory()
    if directory is None:
        return None
    path = directory / (key + _SUFFIX)
    try:
        with open(path, "rb") as file:
            data = file.read() if is_ours(file.fileno()) else b""
            age = time.time() - os.fstat(file.fileno()).st_mtime
    except OSError:
        return None
    head, _, code = data.partition(b"\n")
    if head != _head(key, code):
        discard(key)
        return None
    if age > REFRESH:
        with contextlib.suppress(OSError):
            os.utime(path)
    return code


def save(key: str, code: bytes) -> None:
    """Keep `code`; a disk that cannot take it is no error."""
    directory = cache_directory()
    if directory is None:
        return
    try:
        descriptor, name = tempfile.mkstemp(prefix="new-", dir=directory)
    except OSError:
        return
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_head(key, code) + b"\n" + code)
        os.replace(name, directory / (key + _SUFFIX))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        return
    if int(key[:8], 16) % _SWEEP == 0:
        sweep(directory, LIMIT_BYTES)


def discard(key: str) -> None:
    """Forget what was saved under `key`."""
    directory = cache_directory()
    if directory is not None:
        with contextlib.suppress(OSError):
            (directory / (key + _SUFFIX)).unlink()


def sweep(directory: Path, limit: int) -> None:
    """Delete the entries used longest ago until three quarters of `limit` remain.

    Other processes may do the same at the same time.  Files that a dead process left half written
    go after a day, indices that nobody read after a month.
    """
    entries, total = list[tuple[float, int, str]](), 0
    now = time.time()
    with contextlib.suppress(OSError), os.scandir(directory) as files:
        for file in files:
            with contextlib.suppress(OSError):
                state = file.stat()
                if file.name.endswith(_SUFFIX):
                    size = -(-state.st_size // _BLOCK) * _BLOCK
                    entries.append((state.st_mtime, size, file.path))
                    total += size
                elif state.st_mtime < now - _max_age(file.name):
                    os.unlink(file.path)
    if total <= limit:
        return
    for _, size, path in sorted(entries):
        if total <= limit * 3 // 4:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size


def _max_age(name: str) -> float:
    """Seconds after which a file that is no entry goes, if its time is not renewed."""
    if name.startswith((INDEX, SOURCES)):
        return 30 * _DAY
    return _DAY if name.startswith("new-") else math.inf


def _head(key: str, code: bytes) -> bytes:
    return f"tawny object {key} {hashlib.sha256(code).hexdigest()}".encode()


# -------------------------------------------------------------------- the index

MOST_BYTES: Final = 2**20
"""A longer file is begun anew."""

_PARTS: Final = 5


class IndexEntry(NamedTuple):
    """The file with the code of a structure, and what is known of it without its text.

    A line of the index has the checksum of a structure, the key of the code, the functions that can
    be found in it, the libraries it is linked with, and a checksum of the line.
    """

    key: str
    symbols: tuple[str, ...]
    requires: tuple[str, ...]


def find_entry(structure: str) -> IndexEntry | None:
    """What was noted for the checksum of a structure by these generators."""
    path = _path()
    return None if path is None else _read(_lines(path).get(structure.encode(), b""))


def note_entry(structure: str, entry: IndexEntry) -> None:
    """Remember where the code of a structure is; a disk that cannot take it is no error."""
    path = _path()
    if path is None or find_entry(structure) == entry:
        return
    key, symbols, requires = entry
    text = " ".join([structure, key, ",".join(symbols), ",".join(requires) or "-"])
    line = f"{text} {zlib.crc32(text.encode()):08x}\n".encode()
    _lines(path)[structure.encode()] = line.rstrip()
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        if path.exists() and path.stat().st_size > MOST_BYTES:
            flags |= os.O_TRUNC
            _lines(path).clear()
            _lines(path)[structure.encode()] = line.rstrip()
        descriptor = os.open(path, flags, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def _path() -> Path | None:
    directory, source = cache_directory(), source_checksum()
    return None if directory is None or source is None else directory / (INDEX + source[:24])


@cache
def _lines(path: Path) -> dict[bytes, bytes]:
    """The lines of the file by their structures; of several the last."""
    try:
        with open(path, "rb") as file:
            data = file.read() if is_ours(file.fileno()) else b""
            age = time.time() - os.fstat(file.fileno()).st_mtime
    except OSError:
        return {}
    if age > REFRESH:
        with contextlib.suppress(OSError):
            os.utime(path)
    return {line.partition(b" ")[0]: line for line in data.splitlines()}


def _read(line: bytes) -> IndexEntry | None:
    """What a line says; nothing if it is damaged."""
    text, _, check = line.rpartition(b" ")
    parts = text.decode("ascii", "replace").split(" ")
    if check != b"%08x" % zlib.crc32(text) or len(parts) != _PARTS - 1:
        return None
    _, key, symbols, requires = parts
    required = () if requires == "-" else tuple(requires.split(","))
    return IndexEntry(key, tuple(symbols.split(",")), required)


# ------------------------------------------------------------------- structures


def stable_key(thing: object) -> str:
    """The text of numbers, names, dtypes, ops, enums, and tuples and dataclasses of them.

    It is the same in every process.
    Raises TypeError where something else is met.
    """
    return (_SPELLINGS.get(type(thing)) or _spelling(type(thing)))(thing)


def _stable_keys(things: tuple[object, ...]) -> str:
    return f"({','.join([stable_key(thing) for thing in things])})"


_SPELLINGS: Final[dict[type, Callable[[Any], str]]] = {
    int: repr,
    bool: repr,
    str: repr,
    float: float.hex,
    type(None): repr,
    tuple: _stable_keys,
}
"""How things are spelled, by their types; those of other types are added as they are met."""


def _spelling(kind: type[Any]) -> Callable[[Any], str]:
    found = _SPELLINGS[kind] = _of_kind(kind, f"{kind.__module__}.{kind.__qualname__}")
    return found


def _of_kind(kind: type[Any], name: str) -> Callable[[Any], str]:
    if issubclass(kind, np.dtype):
        return _of_dtype
    if issubclass(kind, enum.Enum):
        return lambda thing: f"{name}.{thing.name}"
    if issubclass(kind, Elementwise):
        return lambda thing: f"{name}:{_row(thing)}"
    if issubclass(kind, Op):
        return lambda thing: name + _stable_keys(tuple(thing.attributes().values()))
    if issubclass(kind, tuple):
        return lambda thing: name + _stable_keys(thing)
    if dataclasses.is_dataclass(kind):
        fields = _fields(kind)
        return lambda thing: name + _stable_keys(tuple([getattr(thing, f) for f in fields]))
    return _refuse


def _of_dtype(dtype: np.dtype[Any]) -> str:
    return dtype.str


def _row(op: Elementwise) -> str:
    """The name of an op in the table."""
    called = op.facts().name
    if ELEMENTWISE.get(called) is not op:
        raise TypeError(f"{op!r} is not an op of the table")
    return called


def _refuse(thing: object) -> str:
    kind = type(thing)
    raise TypeError(f"{thing!r} is {kind.__module__}.{kind.__qualname__}, which has no spelling")


def _fields(kind: type[Any]) -> tuple[str, ...]:
    """Names of what tells records of a kind apart."""
    return tuple([field.name for field in dataclasses.fields(kind) if field.compare])


# ------------------------------------------------------------------- the source

GENERATORS: Final = (
    ".",
    "engine/cpu",
    "engine/cpu/factors",
    "engine/cpu/kernels",
    "engine/cpu/kernels/loops",
    "engine/cpu/kernels/reduction",
    "engine/cpu/kernels/sorting",
    "engine/cpu/products",
    "engine/cpu/threads",
    "engine/cpu/transforms",
    "engine/llvm",
    "engine/llvm/ir",
    "engine/llvm/runtime",
    "engine/llvm/scalar",
    "engine/llvm/vectormath",
    "ops",
)
"""Folders of the package with all that IR depends on: generators, and the ops they are for."""

YOUNG: Final = 10.0
"""Seconds within which a changed file may be changed again without another time."""


@cache
def source_checksum() -> str | None:
    """A checksum of the source that writes IR; None where it cannot be read.

    Reading a hundred files takes longer than loading the kernels of a network.  So the checksum is
    kept on disk for files of the same sizes, places on disk and times of change, down to the time
    that no program can set.  Files that were just changed are read: their times may not tell the
    next change.
    """
    try:
        files = _files(Path(__file__).parents[3])
        states = [(path, os.stat(path)) for path in files]
        state = [
            (path, s.st_size, s.st_ino, s.st_dev, s.st_mtime_ns, s.st_ctime_ns)
            for path, s in states
        ]
        latest = max([max(s.st_mtime, s.st_ctime) for _, s in states], default=0.0)
        if latest > time.time() - YOUNG:
            return _digest(files)
        kind = hashlib.sha256(repr(state).encode()).hexdigest()
        return _read_checksum(kind) or _note_checksum(kind, _digest(files))
    except OSError:
        return None


def _files(root: Path) -> list[str]:
    return [
        os.path.join(root, folder, name)
        for folder in GENERATORS
        for name in sorted(os.listdir(root / folder))
        if name.endswith(".py")
    ]


def _digest(files: Sequence[str]) -> str:
    found = hashlib.sha256()
    for path in files:
        found.update(os.path.basename(path).encode())
        with open(path, "rb", buffering=0) as file:
            found.update(file.read())
    return found.hexdigest()


def _read_checksum(kind: str) -> str:
    directory = cache_directory()
    return "" if directory is None else read_note(directory / (SOURCES + kind[:24]), kind)


def _note_checksum(kind: str, checksum: str) -> str:
    directory = cache_directory()
    if directory is not None:
        write_note(directory / (SOURCES + kind[:24]), kind, checksum)
    return checksum
