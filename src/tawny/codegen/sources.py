"""The source that writes IR: a checksum of it, which code on disk is found by.

Reading a hundred files takes longer than loading the kernels of a network.  So the checksum is kept
on disk for files of the same sizes, places on disk and times of change, down to the time that no
program can set.  Files that were just changed are read: their times may not tell the next change.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tawny.codegen.machine import cache_directory, remember, remembered
from tawny.codegen.store import SOURCES

GENERATORS: Final = (".", "codegen", "codegen/products", "codegen/vectormath", "ops")
"""Folders of the package with all that IR depends on: generators, and the ops they are for."""

YOUNG: Final = 10.0
"""Seconds within which a changed file may be changed again without another time."""


@cache
def generators() -> str | None:
    """A checksum of the source that writes IR; None where it cannot be read."""
    try:
        files = _files(Path(__file__).parent.parent)
        states = [(path, os.stat(path)) for path in files]
        told = [
            (path, s.st_size, s.st_ino, s.st_dev, s.st_mtime_ns, s.st_ctime_ns)
            for path, s in states
        ]
        latest = max([max(s.st_mtime, s.st_ctime) for _, s in states], default=0.0)
        if latest > time.time() - YOUNG:
            return _checksum(files)
        kind = hashlib.sha256(repr(told).encode()).hexdigest()
        return _known(kind) or _noted(kind, _checksum(files))
    except OSError:
        return None


def _files(root: Path) -> list[str]:
    return [
        os.path.join(root, folder, name)
        for folder in GENERATORS
        for name in sorted(os.listdir(root / folder))
        if name.endswith(".py")
    ]


def _checksum(files: Sequence[str]) -> str:
    found = hashlib.sha256()
    for path in files:
        found.update(os.path.basename(path).encode())
        with open(path, "rb", buffering=0) as file:
            found.update(file.read())
    return found.hexdigest()


def _known(kind: str) -> str:
    directory = cache_directory()
    return "" if directory is None else remembered(directory / (SOURCES + kind[:24]), kind)


def _noted(kind: str, checksum: str) -> str:
    directory = cache_directory()
    if directory is not None:
        remember(directory / (SOURCES + kind[:24]), kind, checksum)
    return checksum
