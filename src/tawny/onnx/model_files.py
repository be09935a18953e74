"""Files of models as graphs: those of `Graph.save`, and ONNX files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tawny.graph.files import load
from tawny.graph.graph import Graph
from tawny.onnx.call import UnknownValueError
from tawny.onnx.loading import load as load_onnx
from tawny.onnx.model import Model


def is_onnx(path: Path) -> bool:
    """Whether a file is one of ONNX, by its name."""
    return path.suffix.lower() == ".onnx"


def read_shapes(given: Iterable[str]) -> dict[str, Any]:
    """Shapes of inputs and sizes of axes, as a command line has them."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, sizes = text.rpartition("=")
        parts = sizes.split("x")
        if not equals or not all(p.isascii() and p.isdigit() for p in parts):
            raise ValueError(
                f"--shape {text}: expected NAME=SIZES, as image=1x3x224x224 or batch=1"
            )
        found[name] = tuple(map(int, parts))
    return found


def shapes_for(shapes: Mapping[str, Any], model: Model) -> dict[str, Any]:
    """Shapes, with single sizes where a name is that of an axis."""
    return {n: s if n in model.inputs or len(s) > 1 else s[0] for n, s in shapes.items()}


def read_graph(
    path: Path, shapes: Mapping[str, Any], arrays: Mapping[str, Any] | None = None
) -> Graph:
    """The graph for some shapes; inputs that shapes depend on are fixed."""
    if not is_onnx(path):
        return load(path)
    made = load_onnx(path)
    if isinstance(made, Graph):
        return made
    fixed: dict[str, Any] = {}
    while True:
        own = {n: s for n, s in shapes_for(shapes, made).items() if n not in fixed}
        try:
            return made.graph(own, fixed)
        except UnknownValueError as error:
            given = arrays or {}
            needed = {n: given[n] for n in error.inputs if n in given and n not in fixed}
            if not needed:
                raise
            fixed |= needed
