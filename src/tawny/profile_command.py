"""`tawny profile`: the time of every step of a graph file, or of all programs of a script."""

from __future__ import annotations

import runpy
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tawny import Graph
from tawny.dtype import kind_of
from tawny.graph.profile.profile import Profile
from tawny.graph.profile.recording import record
from tawny.node import Node, Value
from tawny.onnx.model_files import read_graph, read_shapes

SHOWN: Final = 5
"""Programs of a script that are printed, those first that took the longest."""


def profile(given: Namespace) -> int:
    """Profile what the command line names; gives the exit status."""
    file: Path = given.file
    try:
        if file.suffix == ".py":
            found = profile_script(file, given.arguments)
        else:
            if given.arguments:
                raise ValueError(f"{given.arguments[0]}: arguments are for scripts")
            graph = read_graph(file, read_shapes(given.shape))
            found = [profile_graph(graph, given.engine, given.runs)]
    except (OSError, ValueError) as error:
        print(f"tawny profile: {error}", file=sys.stderr)
        return 1
    if not found:
        print("tawny profile: no program of tawny ran", file=sys.stderr)
        return 1
    for one in found[:SHOWN]:
        print(one, end="\n\n")
    if len(found) > SHOWN:
        print(f"and {len(found) - SHOWN} more programs that took less")
    _write(found[0], given)
    return 0


def _write(longest: Profile, given: Namespace) -> None:
    """Write the files that were asked for, of the program that took the longest."""
    if given.output is not None:
        print(longest.show(given.output))
    if given.trace is not None:
        print(longest.chrome_trace(given.trace))
    if given.save is not None:
        print(longest.save(given.save))


def profile_script(file: Path, arguments: Sequence[str]) -> list[Profile]:
    """Run a script, and measure every run of its programs."""
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [str(file), *arguments], str(file.resolve().parent)
    try:
        with record() as recording:
            try:
                runpy.run_path(str(file), run_name="__main__")
            except SystemExit as end:
                if end.code not in (None, 0):
                    print(f"tawny profile: the script ended with {end.code}", file=sys.stderr)
    finally:
        sys.argv, sys.path[0] = before
    return recording.profiles


def profile_graph(graph: Graph, engine: str, runs: int) -> Profile:
    """Compile a graph, and measure it on values that are made up."""
    program = graph.compile(engine=engine)
    draw = np.random.default_rng(0)
    values: dict[str, Any] = {graph.names[node]: _value(node, draw) for node in graph.variables}
    program.set(values)
    return program.profile(runs)


def _value(node: Node, draw: np.random.Generator) -> Value:
    """Numbers between 0 and 1 for a variable; zeros where it holds none with fractions."""
    if kind_of(node.dtype) in "fc":
        return np.asarray(draw.random(node.shape)).astype(node.dtype)
    return np.zeros(node.shape, node.dtype)
