"""The engines that every property of programs is tested on.

An engine gets all of these tests by its name here; the fixture `engine` gives one after the other.
"""

from __future__ import annotations

import os

import pytest

from grouping_engine import NAME as GROUPING
from tawny.engine.protocol import engine_named

DEVICE = os.environ.get("TAWNY_TEST_DEVICE", "opencl")
"""The engine of a device that is tested: `make test-gpu` says `cuda`."""


def has_device() -> bool:
    """Whether a device of that engine can be used here."""
    try:
        engine_named(DEVICE).warm_up()
    except ValueError:
        return False
    return True


needs_device = pytest.mark.skipif(
    not has_device(), reason=f"no device of engine {DEVICE!r} works here"
)

ENGINES = ("cpu", "reference", GROUPING, *([DEVICE] * has_device()))
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
