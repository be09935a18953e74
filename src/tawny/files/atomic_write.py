"""Writing a file whole: another takes its place when all of it is on the disk, and not before."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import secrets
import stat
from collections.abc import Iterable
from typing import Final

try:
    import fcntl
except ImportError:  # a system without locks on files
    fcntl = None  # type: ignore[assignment]

_SUFFIX: Final = ".unfinished"


def write_atomically(path: str, blocks: Iterable[bytes | memoryview]) -> None:
    """Write a file, or replace it with one of the same mode and owner.

    What is written is on the disk before it takes the place of what stood there.  What killed
    processes left of their attempts is removed.
    """
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "there is a folder of this name", path)
    if os.path.lexists(path) and not os.path.isfile(path):  # a device would be replaced
        raise OSError(errno.EINVAL, "there is something of this name that is no file", path)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "there is no folder for this file", path)
    beginning = _prefix(path)
    _remove_abandoned(folder, beginning)
    file = _create_unfinished(os.path.join(folder, beginning))
    with file:
        try:
            _copy_mode_and_owner(file, path)
            file.writelines(blocks)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file.name)
            raise
    _fsync_folder(folder)


def _prefix(path: str) -> str:
    """How the names of unfinished files of a path begin: short, however long its own name is."""
    digest = hashlib.sha256(os.fsencode(os.path.basename(path))).hexdigest()
    return f".tawny-{digest[:16]}-"


def _create_unfinished(beginning: str) -> io.BufferedWriter:
    """A new file of a name that begins so, locked as long as it is open."""
    while True:
        file = open(f"{beginning}{secrets.token_hex(8)}{_SUFFIX}", "xb")  # noqa: SIM115
        if fcntl is None:
            return file
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(file.name)):
                return file
        except FileNotFoundError:  # taken for abandoned before it was locked
            pass
        except OSError:  # a file system without locks
            return file
        file.close()


def _remove_abandoned(folder: str, beginning: str) -> None:
    """Remove what processes that are gone left: files that nobody holds locked."""
    if fcntl is None:
        return
    try:
        names = [n for n in os.listdir(folder) if n.startswith(beginning) and n.endswith(_SUFFIX)]
    except OSError:  # a folder that may be written to, but not read
        return
    for name in names:
        left = os.path.join(folder, name)
        with contextlib.suppress(OSError), open(left, "rb") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(left)


def _copy_mode_and_owner(file: io.BufferedWriter, path: str) -> None:
    """Give a new file the mode of the one it is to replace, and its owner where that may be."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        return
    new = os.fstat(file.fileno())
    if hasattr(os, "fchown") and (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(file.fileno(), old.st_uid, old.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))


def _fsync_folder(folder: str) -> None:
    """Bring the entry of a file that was renamed to the disk, where folders can be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
