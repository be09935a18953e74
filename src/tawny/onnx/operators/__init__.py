"""What the operators of ONNX mean, a chapter per file."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Fill the table."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
