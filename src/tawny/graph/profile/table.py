"""Tables of steps that fit the terminal."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Sequence
from typing import Final

from tawny.graph.report.trace import printable

SHOWN: Final = 20
"""Steps that a table shows, those first that take the most."""

LEAST: Final = 12
"""Characters of a text that stay, however narrow the terminal is."""


def width() -> int:
    """Characters of a line of the terminal."""
    return shutil.get_terminal_size((100, 24)).columns


def as_table(
    above: Sequence[str],
    heading: Sequence[str],
    rows: Sequence[Sequence[str]],
    below: Sequence[str] = (),
) -> str:
    """Lines, a table whose last two columns are texts, and lines, no wider than a terminal.

    The texts are cut where there is no room for them.
    """
    room = width()
    lines = [piece for line in above for piece in _wrap(printable(line), room)]
    if rows:
        cells = [[printable(cell) for cell in row] for row in (heading, *rows)]
        numbers = len(heading) - 2
        widths = [max(_columns_of(row[k]) for row in cells) for k in range(len(heading))]
        left = max(2 * LEAST, room - sum(widths[:numbers]) - 2 * (numbers + 1))
        what, line = widths[numbers:]
        if what + line > left:
            line = max(min(line, left // 2), left - what)
            what = max(LEAST, left - line)
        for row in cells:
            shown = [_pad(cell, widths[k], right=True) for k, cell in enumerate(row[:numbers])]
            shown += [_pad(_cut(row[-2], what), what), _cut(row[-1], line)]
            lines.append("  ".join(shown).rstrip())
    lines += [piece for line in below for piece in _wrap(printable(line), room)]
    return "\n".join(lines)


def _columns_of(text: str) -> int:
    """The columns of a terminal that a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _cut(text: str, most: int) -> str:
    if _columns_of(text) <= most:
        return text
    while text and _columns_of(text) > most - 1:
        text = text[:-1]
    return f"{text}…"


def _pad(text: str, width: int, *, right: bool = False) -> str:
    space = " " * (width - _columns_of(text))
    return space + text if right else text + space


def _wrap(text: str, room: int) -> list[str]:
    """A text in lines, broken at spaces."""
    lines: list[str] = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and _columns_of(longer) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def seconds_text(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(seconds) >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"


def count_text(count: float) -> str:
    """A large number, with the letter that stands before a unit."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.3g} "
