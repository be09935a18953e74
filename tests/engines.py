"""The engines that every property of programs is tested on.

An engine gets all of these tests by its name here; the fixture `engine` gives one after the other.
"""

from __future__ import annotations

import importlib

import pytest

from grouping_engine import NAME as GROUPING


def has_opencl() -> bool:
    """Whether an OpenCL device can be used here."""
    try:
        importlib.import_module("tawny.engine.opencl").ENGINE.warm_up()
    except ValueError:
        return False
    return True


ENGINES = ("cpu", "reference", GROUPING, *(["opencl"] * has_opencl()))
"""`grouping` is known in tests alone: fused groups, run by NumPy."""

BINDING = ("cpu", "reference", GROUPING)
"""Engines whose variables may lie in arrays of the host."""


SLOW = 6
"""How many times fewer random programs run where a driver compiles each kernel anew."""


def examples(engine: str, count: int) -> int:
    """How many of `count` random programs an engine runs by default."""
    return count if engine in BINDING else count // SLOW


def skip_without_binding(engine: str) -> None:
    """Skip a test on engines whose variables lie in memory of their own."""
    if engine not in BINDING:
        pytest.skip("variables of this engine cannot lie in the host's memory")
