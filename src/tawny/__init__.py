"""Tawny: write NumPy, record a graph, run it again and again.

    import tawny as tw
    import tawny.numpy as np       # NumPy's names, lazily

    x = tw.var("x", shape=(1000, 1000))
    y = np.sin(2 - x)              # nothing is computed

Importing is light: each name that `__init__.pyi` lists loads its part of the library when it is
first used.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any, Final

from tawny.public_names import export_stub

__version__ = "0.1.0"

_HOME: Final = export_stub(__name__)
"""The module of each public name; `tawny` itself of those that are modules."""


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None and (name.startswith("_") or find_spec(f"{__name__}.{name}")):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")  # not yet imported
    importlib.import_module("tawny.numpy")  # whatever is used, arrays have all their methods
    if home is None:
        raise importlib.import_module("tawny.numpy.absent").absence(__name__, name)
    if home == __name__:
        value = importlib.import_module(f"tawny.{name}")
    else:
        value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
