"""What readers of files share: nothing of a file is believed before it is checked.

Errors name the file and the place in it; JSON that readers disagree about is refused.
"""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Sized
from typing import Final

MAX_BYTES: Final = 2**63 - 1
"""Bytes of the largest array, and the greatest size of an axis."""

MAX_RANK: Final = 64
"""Axes of an array, as NumPy has it."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


class GraphFileError(ValueError):
    """A file that cannot be what it should be: which file, where in it, and what was expected."""

    def __init__(self, path: str, place: str, detail: str) -> None:
        super().__init__(f"{path}: {place}: {detail}")
        self.path = path
        self.place = place
        self.detail = detail


Fail = Callable[[str, str], GraphFileError]
"""The error for a place in a file and what is wrong there."""


def open_regular(path: str | os.PathLike[str]) -> io.BufferedReader:
    """A regular file to read; a pipe or device is refused, and never waited for."""
    name = os.fspath(path)
    descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _FLAGS)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(mode):
            raise GraphFileError(name, "file", "expected a regular file")
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


_FLAGS: Final[int] = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def parse_json(text: str | bytes, place: str, fail: Fail) -> Json:
    """The JSON value `text` is, refusing what readers disagree about: repeated keys, NaN."""

    def unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        table = dict(pairs)
        if len(table) != len(pairs):
            times = Counter([name for name, _ in pairs])
            twice = next(name for name, count in times.items() if count > 1)
            raise fail(place, f"the key {excerpt(twice)} occurs twice in one object")
        return table

    def constant(name: str) -> Json:
        raise fail(place, f"{name} is no JSON number")

    try:
        decoded = text if isinstance(text, str) else text.decode()
        result: Json = json.loads(decoded, object_pairs_hook=unique, parse_constant=constant)
    except GraphFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise fail(place, f"expected JSON text: {error}") from None
    return result


def excerpt(value: object) -> str:
    """`value` for an error message, cut short."""
    if isinstance(value, Sized) and len(value) > 100:
        return f"a {type(value).__name__} of length {len(value)}"
    try:
        text = ascii(value)
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def is_natural(value: object) -> bool:
    """Whether a JSON value is an integer from 0 that an array's size can be."""
    return type(value) is int and 0 <= value <= MAX_BYTES
