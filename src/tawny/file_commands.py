"""What is said and done about files of models in a shell: `inspect`, `run` and `optimise`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Final, cast

import numpy as np

from tawny.array import array_for, evaluator
from tawny.files.reading import GraphFileError
from tawny.graph.files import load
from tawny.graph.graph import Graph
from tawny.memory.budget import MemoryBudgetError
from tawny.node import Value
from tawny.onnx.call import UnknownValueError
from tawny.onnx.importer import Importer
from tawny.onnx.loading import load as load_onnx
from tawny.onnx.model import Model
from tawny.onnx.model_files import is_onnx, read_graph, read_shapes, shapes_for
from tawny.onnx.reading import read_model
from tawny.onnx.records import GraphRecord, ModelRecord, TensorType, ValueType
from tawny.onnx.saving import save as save_onnx
from tawny.rewrite.ledger import graph_cost
from tawny.rewrite.pipeline import SIMPLIFY, optimise
from tawny.tree import leaf_paths

FAILURE: Final = 1
"""The exit status where a file is refused, or results differ."""

TOLERANCE: Final = 1e-4
"""The difference from another library's results that is taken for rounding, as a part of the
largest result."""

Answer = dict[str, Any]
"""What a command says, as plain data."""


def answer(given: argparse.Namespace) -> int:
    """Run a command; gives the exit status."""
    commands: dict[str, Callable[[argparse.Namespace], Answer]] = {
        "inspect": inspect_file,
        "run": run_file,
        "optimise": optimise_file,
    }
    try:
        said = commands[given.command](given)
    except (OSError, ValueError, TypeError, MemoryBudgetError, ImportError) as error:
        print(f"tawny {given.command}: {error}", file=sys.stderr)
        return FAILURE
    try:
        print(json.dumps(said) if given.json else "\n".join(_lines(said)), flush=True)
    except BrokenPipeError:  # whoever reads it has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0 if said.get("equal", True) else FAILURE


def _lines(said: Mapping[str, Any]) -> list[str]:
    """What is said, for people."""
    lines: list[str] = []
    for name, value in said.items():
        if isinstance(value, dict):
            listed = [f"{key} {text}" for key, text in cast("Answer", value).items()]
            lines.append(f"{name:<12} {', '.join(listed) or 'none'}")
        elif isinstance(value, list):
            lines += [f"{name:<12} {item}" for item in cast("list[str]", value)]
        else:
            lines.append(f"{name:<12} {value}")
    return lines


# ------------------------------------------------------------------- reading


def _read(path: Path, shapes: Mapping[str, Any]) -> Graph | Model:
    if not is_onnx(path):
        return load(path)
    made = load_onnx(path)
    if isinstance(made, Model) and shapes:
        return made.graph(shapes_for(shapes, made))
    return made


# ------------------------------------------------------------------- inspect


def inspect_file(given: argparse.Namespace) -> Answer:
    """What a file holds; with shapes, what it computes and the memory it takes."""
    path, shapes = given.file, read_shapes(given.shape)
    said: Answer = {"file": str(path), "bytes": path.stat().st_size}
    if is_onnx(path):
        record = read_model(path, "inspect")
        said |= _inspect_record(record)
    try:
        graph = _read(path, shapes)
    except UnknownValueError as error:
        return said | {"problem": str(error)}
    except GraphFileError as error:
        if not said.get("unsupported"):
            raise
        return said | {"problem": f"{error.place}: {error.detail}"}
    if isinstance(graph, Model):
        return said | {"memory": "give --shape NAME=SIZES for what is computed and the memory"}
    return said | _inspect_graph(graph)


def _inspect_record(record: ModelRecord) -> Answer:
    graph = record.graph
    kinds = Counter(node.kind for node in graph.nodes)
    importer = Importer(record)
    unsupported = sorted({n.kind for n in graph.nodes if not importer.is_supported(n)})
    arrays = [*graph.constants.values(), *_attribute_arrays(graph)]
    return {
        "operators": {d or "ai.onnx": v for d, v in record.opsets.items()},
        "inputs": {n: _type_text(t) for n, t in graph.inputs.items() if n not in graph.constants},
        "outputs": {n: _type_text(t) for n, t in graph.outputs.items()},
        "nodes": dict(kinds.most_common()),
        "parameters": sum(a.size for a in arrays),
        "parameter bytes": sum(a.nbytes for a in arrays),
        "unsupported": unsupported,
    }


def _attribute_arrays(graph: GraphRecord) -> list[Value]:
    """Arrays in attributes of nodes."""
    values = (v for node in graph.nodes for v in node.attributes.values())
    return [v for v in values if isinstance(v, np.ndarray)]


def _type_text(kind: ValueType) -> str:
    if not isinstance(kind, TensorType) or kind.dims is None:
        return "?"
    return f"({', '.join('?' if d is None else str(d) for d in kind.dims)})"


def _inspect_graph(graph: Graph) -> Answer:
    plan, cost = graph.plan(), graph_cost(graph.order)
    return {
        "graph nodes": len(graph.order),
        "steps": len(plan.steps),
        "operations": cost.operations,
        "peak bytes": plan.peak_bytes,
        "lower bound": plan.lower_bound_bytes,
    }


# ----------------------------------------------------------------------- run


def run_file(given: argparse.Namespace) -> Answer:
    """The results of a model on arrays, kept in a file if one is named."""
    arrays = _arrays(given.input)
    shapes = {name: value.shape for name, value in arrays.items()}
    start = perf_counter()
    graph = read_graph(given.file, read_shapes(given.shape) | shapes, arrays)
    options = {"memory": given.memory, "engine": given.engine, "threads": given.threads}
    program = graph.compile(incremental=False, **options)
    built = perf_counter() - start
    names = set(graph.names.values())
    inputs = {name: value for name, value in arrays.items() if name in names}
    start = perf_counter()
    made = program(**inputs)
    seconds = perf_counter() - start
    results = {path or "output": np.asarray(value) for path, value in leaf_paths(made, "")}
    if given.output is not None:
        columns: dict[str, Any] = dict(results)
        np.savez(given.output, **columns)
    said: Answer = {
        "outputs": {n: f"{v.dtype}{list(v.shape)}" for n, v in results.items()},
        "build seconds": round(built, 4),
        "run seconds": round(seconds, 6),
        "peak bytes": program.plan.peak_bytes,
    }
    if given.compare is None:
        return said
    others = _by_other(given.compare, given.file, graph, arrays)
    differences = {n: _difference(v, others[n]) for n, v in results.items() if n in others}
    equal = bool(differences) and all(d <= TOLERANCE for d in differences.values())
    return said | {"differences": differences, "equal": equal}


def _arrays(given: list[str]) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not equals:
            raise ValueError(f"--input {text}: expected NAME=FILE, as x=array.npy")
        arrays[name] = np.load(file, allow_pickle=False)
    return arrays


def _by_other(name: str, path: Path, graph: Graph, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Results by another library, or by NumPy node by node."""
    if name == "reference":
        names = set(graph.names.values())
        inputs = {n: v for n, v in arrays.items() if n in names}
        made = graph.compile(engine="reference", optimise=False)(**inputs)
        return {p or "output": np.asarray(v) for p, v in leaf_paths(made, "")}
    runtime = __import__(name)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    titles = [o.name for o in session.get_outputs()]
    return dict(zip(titles, session.run(None, dict(arrays)), strict=True))


def _difference(ours: Any, theirs: Any) -> float:
    """The greatest difference, as a part of the largest result; infinite where shapes differ."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    if not ours.size:
        return 0.0
    a, b = ours.astype("float64"), theirs.astype("float64")
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        gap = np.where(same, 0, np.abs(a - b))
    scale = float(np.max(np.abs(b), where=np.isfinite(b), initial=0)) or 1.0
    return float("inf") if np.isnan(gap).any() else float(gap.max() / scale)


# ------------------------------------------------------------------ optimise


def optimise_file(given: argparse.Namespace) -> Answer:
    """Write a model whose constants are folded and whose rules have been applied."""
    graph = _read(given.file, read_shapes(given.shape))
    if isinstance(graph, Model):
        raise ValueError("the file leaves shapes open: give them by --shape NAME=SIZES")
    made = optimise(graph.results, evaluate=evaluator(), pipeline=(SIMPLIFY,))
    count = len(graph.output_nodes)
    less = Graph(
        [array_for(n) for n in graph.input_nodes],
        graph.unflatten(map(array_for, made.outputs[:count])),
        updates={
            array_for(target): array_for(after)
            for (target, _), after in zip(graph.update_nodes, made.outputs[count:], strict=True)
        },
        name=graph.name,
        unused="ignore",
    )
    if is_onnx(given.output):
        save_onnx(less, given.output)
    else:
        less.save(given.output)
    said: Answer = {
        "nodes": f"{len(graph.order)} to {len(less.order)}",
        "operations": " to ".join(str(graph_cost(g.order).operations) for g in (graph, less)),
        "written": str(given.output),
    }
    if given.explain:
        counts = Counter(step.rule.name for step in made.rewrites)
        says = {step.rule.name: step.rule.says for step in made.rewrites}
        said["rules"] = [f"{times} x {name}: {says[name]}" for name, times in counts.most_common()]
    return said
