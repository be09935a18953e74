"""The directory where compiled code is kept across processes, and short notes in it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
from functools import cache
from pathlib import Path
from typing import Final

from tawny.settings import read_setting


def cache_directory() -> Path | None:
    """Where compiled code is kept across processes; None when it is not kept.

    `TAWNY_CACHE` names it, or says `off`.  Code is run from it, so a directory that others own or
    may write is not used.
    """
    named = read_setting("TAWNY_CACHE")
    if named.lower() in {"off", "0", "none"}:
        return None
    path = Path(named) if named else _users_cache(*map(os.environ.get, _PLACES))
    if path is None:
        return None
    try:
        state = _state(path)
    except OSError:
        return None
    if not stat.S_ISDIR(state.st_mode):
        return None
    if os.name == "posix" and (state.st_uid != os.getuid() or state.st_mode & 0o022):
        return None
    return path


def _state(path: Path) -> os.stat_result:
    """What the system says of a directory, which is made if it is not there."""
    with contextlib.suppress(FileNotFoundError):
        return os.stat(path)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.stat(path)


_PLACES: Final = ("HOME", "LOCALAPPDATA", "XDG_CACHE_HOME")
"""The environment variables that say where users' files are."""


@cache
def _users_cache(*places: str | None) -> Path | None:
    """The directory for our files among caches by each system's custom, where places are these.

    None where no absolute path is known: a relative one would be another in each directory.
    """
    home, (_, local, caches) = _home(), places
    if sys.platform == "win32":
        found = [local, home and home / "AppData" / "Local"]
    elif sys.platform == "darwin":
        found = [home and home / "Library" / "Caches"]
    else:
        found = [caches, home and home / ".cache"]
    absolute = [Path(path) for path in found if path and os.path.isabs(path)]
    return absolute[0] / "tawny" if absolute else None


def _home() -> Path | None:
    """The user's directory; None where nobody knows it, as in containers without users."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def is_ours(descriptor: int) -> bool:
    """Whether an open file is the user's own, and nobody else may write it."""
    state = os.fstat(descriptor)
    return os.name != "posix" or (state.st_uid == os.getuid() and not state.st_mode & 0o022)


def read_note(path: Path, kind: str) -> str:
    """What a file says of a kind of thing; nothing where it is damaged or says it of another."""
    check, _, text = _read(path).partition(" ")
    return text if check == _check(kind, text) else ""


def write_note(path: Path, kind: str, text: str) -> None:
    """Write it down; a disk that cannot take it is no error."""
    _write(path, f"{_check(kind, text)} {text}")


def _check(kind: str, text: str) -> str:
    return hashlib.sha256(f"{kind} {text}".encode()).hexdigest()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError:
        return
