"""The engines that every property of programs is tested on.

An engine gets all of these tests by its name here; the fixture `engine` gives one after the other.
"""

from __future__ import annotations

from grouping_engine import NAME as GROUPING

ENGINES = ("cpu", "reference", GROUPING)
"""The last is known in tests alone: fused groups, run by NumPy."""
