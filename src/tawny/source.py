"""Where in the user's program something was written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import numpy

OURS: Final = tuple(f"{Path(file).parent}{os.sep}" for file in (__file__, numpy.__file__))
"""Folders whose frames are never the user's: this package, and NumPy's, which calls it back."""

PYTHONS: Final = f"{Path(os.__file__).parent}{os.sep}"
"""The folder of Python's own library, in which packages may be installed."""

PACKAGES: Final = frozenset({"site-packages", "dist-packages"})
"""Folders of what somebody installed."""

SCRIPTS: Final = Path(sys.executable).parent if sys.executable else None
"""Where the scripts lie that start installed packages."""


class Origin(Enum):
    """Whose a file is."""

    USER = 0
    PACKAGE = 1
    """Of an installed package, or a script that starts one: the user's only if nothing else is."""
    NOBODY = 2


SCOPE: Final[ContextVar[str]] = ContextVar("scope", default="")
"""The scope that is open: names of modules and of `tawny.scope`, joined by dots."""


class Source(NamedTuple):
    """A place in the user's program: a code object, an instruction in it, the scope open there.

    The line is worked out only when somebody asks: finding it while the graph
    is built would cost more than building the node.
    """

    code: CodeType
    instruction: int
    scope: str = ""
    name: str = ""
    """What `tawny.numpy.name` calls the array."""

    @property
    def line(self) -> int:
        """Line number of the instruction."""
        for start, end, line in self.code.co_lines():
            if start <= self.instruction < end and line is not None:
                return line
        return self.code.co_firstlineno

    @property
    def file(self) -> str:
        """Path of the file, as Python knows it."""
        return self.code.co_filename

    @property
    def path(self) -> str:
        """Scope and name, joined by a dot; empty where there is neither."""
        return f"{self.scope}.{self.name}" if self.scope and self.name else self.scope or self.name

    @property
    def place(self) -> str:
        """File and line, as in `model.py:41`."""
        return f"{_cell(self.file) or Path(self.file).name}:{self.line}"

    def __str__(self) -> str:
        return f"{self.place} in {self.path}" if self.path else self.place


def describe(sources: Iterable[Source]) -> str:
    """Places in a program as one text, each line once with its scopes: `a.py:5 in one + two`."""
    lines: dict[str, dict[str, None]] = {}
    for source in sources:
        paths = lines.setdefault(source.place, {})
        if source.path:
            paths[source.path] = None
    return ", ".join(
        f"{place} in {' + '.join(paths)}" if paths else place for place, paths in lines.items()
    )


def _cell(file: str) -> str | None:
    """What a notebook calls a cell, `In[7]`, if this is the name under which one was compiled."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if hasattr(ipython, "get_ipython") else None
    name = getattr(getattr(shell, "compile", None), "format_code_name", None)
    known = name(file) if name is not None else None
    return str(known[1]) if known else None


_NOBODYS: Final[set[str]] = set()
"""Files that were met and are nobody's: nearly all between a node and the user's line."""


RUNNERS: Final = frozenset({"dask", "distributed"})
"""Packages that run what others wrote: their lines say nothing of it."""


@lru_cache(1024)
def _origin(file: str) -> Origin:
    """Whose a file is."""
    if file.startswith(("<frozen ", *OURS)):
        return Origin.NOBODY
    folder = Path(file).parent
    if folder == SCRIPTS or not PACKAGES.isdisjoint(folder.parts):
        return Origin.PACKAGE if RUNNERS.isdisjoint(folder.parts) else Origin.NOBODY
    return Origin.NOBODY if file.startswith(PYTHONS) else Origin.USER


GENERATED: Final = "<string>"
"""The file of what Python writes itself, as a dataclass's `__init__`, and of `python -c`."""


def _is_ours(frame: FrameType) -> bool:
    """Whether code without a file belongs to a class of this package."""
    return str(frame.f_globals.get("__name__", "")).startswith("tawny.")


def users_frame() -> FrameType | None:
    """The innermost frame of the user's own code, else of an installed package; None without."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    package: FrameType | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if file not in _NOBODYS:
            origin = _origin(file)
            if origin is Origin.USER:
                if file != GENERATED or not _is_ours(frame):
                    return frame
            elif origin is Origin.NOBODY:
                _NOBODYS.add(file)
            elif package is None:
                package = frame
        frame = frame.f_back
    return package


def caller() -> Source | None:
    """The innermost place in the user's own code; None when there is none."""
    frame = users_frame()
    return None if frame is None else Source(frame.f_code, frame.f_lasti, SCOPE.get())
