"""Places in a user's program, as files say them."""

from __future__ import annotations

from types import CodeType
from typing import Final

from tawny.files.reading import Json
from tawny.source import Source

_CODE: Final = compile("", "", "exec")
_MAX_LINE: Final = 2**31 - 1


def read_source(data: Json) -> Source | None:
    """A place in a program, as data say: an empty code object stands for its file."""
    match data if isinstance(data, list) else [data, "", ""]:
        case [str(text), str(scope), str(name)]:
            file, _, line = text.rpartition(":")
        case _:
            return None
    if not file or not line.isascii() or not line.isdigit() or len(line) > 10:
        return None
    first = int(line)
    if not (file + scope + name).isprintable() or first > _MAX_LINE:
        return None
    code: CodeType = _CODE.replace(co_filename=file, co_firstlineno=first)
    return Source(code, -1, scope, name)


def write_source(source: Source) -> Json:
    """What `read_source` reads: its text, or a list of it, scope and name where it has one."""
    text = source.place, source.scope, source.name
    return [*text] if any(text[1:]) else text[0]
