"""Lists of public names, read from the imports that make them public.

A package that loads its parts at first use has these imports in its stub, `__init__.pyi`; one that
loads them at once, in the module itself.  Type checkers read the same lines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import ModuleType


def export(module: str, names: Iterable[str]) -> None:
    """Let `from module import *` and `dir(module)` give these names."""
    listed = sorted(names)
    vars(sys.modules[module]).update(__all__=listed, __dir__=lambda: list(listed))


def export_imports(module: str, *parts: str) -> None:
    """Export what a module imports or defines without an underscore, and the array API's own names.

    Modules of its own package are private, but for `parts`.
    """

    def is_private(name: str, value: object) -> bool:
        if isinstance(value, ModuleType) and value.__name__ == f"{module}.{name}":
            return name not in parts
        return name.startswith("_") and not name.startswith("__array_")

    namespace = vars(sys.modules[module])
    export(module, [name for name, value in namespace.items() if not is_private(name, value)])


def export_stub(package: str) -> dict[str, str]:
    """Export what the stub of a package imports or declares; the module of each import.

    Its lines are `from module import name as name` and `name: type`.
    """
    (folder,) = sys.modules[package].__path__
    with open(os.path.join(folder, "__init__.pyi"), encoding="utf-8") as stub:
        lines = [line.split() for line in stub if line.strip() and not line.startswith("#")]
    homes = {words[3]: words[1] for words in lines if words[0] == "from"}
    export(package, [*homes, *(words[0][:-1] for words in lines if words[0].endswith(":"))])
    return homes
