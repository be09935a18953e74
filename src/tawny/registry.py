"""Public functions by name, for the operators, methods and protocols of `Array`.

`Array` stands below the chapters that define these functions, so it finds them here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

PUBLIC_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {}
"""`numpy`'s names (`add`, `linalg.norm`), filled as the chapters are imported."""
