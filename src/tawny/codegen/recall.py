"""Which code on disk was made from what: a file of lines, each whole or ignored.

A line has the checksum of a structure, the key under which `store` has the code, the functions that
can be found in it, the libraries it is linked with, and a checksum of the line.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from functools import cache
from pathlib import Path
from typing import Final

from tawny.codegen.machine import cache_directory, is_ours
from tawny.codegen.sources import generators
from tawny.codegen.store import INDEX, REFRESH
from tawny.named import NamedTuple

MOST_BYTES: Final = 2**20
"""A longer file is begun anew."""

_PARTS: Final = 6


class Record(NamedTuple):
    """Where the code of a structure is, and what is known of it without its text."""

    key: str
    symbols: tuple[str, ...]
    requires: tuple[str, ...]
    instructions: int


def recalled(structure: str) -> Record | None:
    """What was noted for the checksum of a structure by these generators."""
    path = _path()
    return None if path is None else _read(_lines(path).get(structure.encode(), b""))


def note(structure: str, record: Record) -> None:
    """Remember where the code of a structure is; a disk that cannot take it is no error."""
    path = _path()
    if path is None or recalled(structure) == record:
        return
    key, symbols, requires, instructions = record
    text = " ".join(
        [structure, key, ",".join(symbols), ",".join(requires) or "-", str(instructions)]
    )
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
    directory, source = cache_directory(), generators()
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


def _read(line: bytes) -> Record | None:
    """What a line says; nothing if it is damaged."""
    text, _, check = line.rpartition(b" ")
    parts = text.decode("ascii", "replace").split(" ")
    if check != b"%08x" % zlib.crc32(text) or len(parts) != _PARTS - 1:
        return None
    _, key, symbols, requires, count = parts
    required = () if requires == "-" else tuple(requires.split(","))
    return Record(key, tuple(symbols.split(",")), required, int(count))
