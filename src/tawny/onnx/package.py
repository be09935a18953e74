"""The `onnx` package, which reads and writes the files; installed by the extra `tawny[onnx]`."""

from __future__ import annotations

import importlib
from typing import Any

from tawny.errors import with_location


def onnx_package(op: str) -> Any:
    """The package itself.

    - `op`: who asks, as an error says it.
    """
    try:
        return importlib.import_module("onnx")
    except ImportError:
        raise ImportError(
            with_location(f"{op}: reading and writing ONNX needs onnx; pip install tawny[onnx]")
        ) from None
