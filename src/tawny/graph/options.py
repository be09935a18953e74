"""How a graph is compiled: the options of `Graph.compile`, as plain data."""

from __future__ import annotations

from typing import NamedTuple

from tawny.graph.plan_choice import Planning


class CompileOptions(NamedTuple):
    """The options of `Graph.compile`, by the names of its arguments."""

    engine: str = "cpu"
    memory: str | float | None = None
    often: tuple[str, ...] = ()
    """Names of variables."""
    optimise: bool = True
    assume_finite: bool = False
    incremental: bool = True
    threads: int | None = None
    plan: Planning = "default"
    disable: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()
    precision: str | None = None
