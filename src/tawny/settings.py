"""What the environment, or the user in its place, says of threads, files and kernels.

Whoever asks gets text, as the environment has it; `tawny.configuration` checks what users set.
"""

from __future__ import annotations

import os
from typing import Final

OVERRIDES: Final[dict[str, str]] = {}
"""What was set in place of environment variables, by their names."""


def read_setting(variable: str) -> str:
    """The value of an environment variable, or what was set in its place; empty for nothing."""
    chosen = OVERRIDES.get(variable)
    return os.environ.get(variable, "") if chosen is None else chosen


def is_debugging() -> bool:
    """Whether graphs are checked after each pass, and memory is poisoned before its first use."""
    return read_setting("TAWNY_DEBUG") not in ("", "0")
