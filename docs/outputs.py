"""A page with what its code prints written below each block: `python docs/outputs.py PAGE`.

It runs in a process of its own, since a page may declare ops.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Final

BLOCK: Final = re.compile(
    r"^```python\n(.*?)^```\n(?:\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL
)


def with_outputs(page: Path) -> str:
    """The text of a page, its blocks run one after the other with the same names."""
    names: dict[str, object] = {"__name__": page.stem}
    text, parts, end = page.read_text(), list[str](), 0
    for block in BLOCK.finditer(text):
        before, printed = text[: block.start()].count("\n") + 1, io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * before + block[1], str(page), "exec"), names)
        lines = [line.rstrip() for line in printed.getvalue().splitlines()]
        shown = "\n```text\n" + "\n".join(lines) + "\n```\n" if lines else ""
        parts.append(text[end : block.start()] + f"```python\n{block[1]}```\n{shown}")
        end = block.end()
    return "".join(parts) + text[end:]


if __name__ == "__main__":
    sys.stdout.write(with_outputs(Path(sys.argv[1])))
