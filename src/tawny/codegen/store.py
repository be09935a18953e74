"""Object code on disk: found by key, written whole or not at all, bounded in size.

An entry is a line with the key and the checksum of what follows.  One that is damaged, cut short
or made for another key counts as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tawny.codegen.machine import cache_directory, is_ours
from tawny.later import Later

if TYPE_CHECKING:
    import tempfile
else:
    tempfile = Later("tempfile")

LIMIT_BYTES: Final = 64 << 20
"""When the entries together are larger, those that were used longest ago go."""

_SUFFIX: Final = ".object"

INDEX: Final = "index-"
"""Names of files that say which entries were made from what begin so."""

SOURCES: Final = "sources-"
"""Names of files with checksums of sources begin so."""

REFRESH: Final = 3600.0
"""An entry counts as used when it was read; this is noted at most once in so many seconds."""
_SWEEP: Final = 64
"""The size is checked after one in so many entries, whichever process writes it."""

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
                elif state.st_mtime < now - _kept_for(file.name):
                    os.unlink(file.path)
    if total <= limit:
        return
    for _, size, path in sorted(entries):
        if total <= limit * 3 // 4:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size


def _kept_for(name: str) -> float:
    """Seconds after which a file that is no entry goes, if its time is not renewed."""
    if name.startswith((INDEX, SOURCES)):
        return 30 * _DAY
    return _DAY if name.startswith("new-") else math.inf


def _head(key: str, code: bytes) -> bytes:
    return f"tawny object {key} {hashlib.sha256(code).hexdigest()}".encode()
