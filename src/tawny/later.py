"""Modules that are imported when something of them is first used."""

from __future__ import annotations

import importlib
from typing import Any, final


@final
class Later:
    """Stands for a module that few programs use, so that the others need not wait for it.

    What the type checker should see is imported beside it, under `TYPE_CHECKING`.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value
