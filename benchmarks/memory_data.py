"""The graphs and traces in benchmarks/data/memory, as the planner's problems.

`graphs/*.json.gz` become a `Problem`; `own/*.csv.gz` (lifetimes of those graphs' values) and
`minimalloc/*.csv.gz` (published with google/minimalloc, capacity 1 MiB) become storages.
"""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

from tawny.memory.problem import PlanStep, PlanValue, Problem
from tawny.memory.schedule import Storage

DATA = Path(__file__).parent / "data" / "memory"
CAPACITY = 1 << 20
"""What every problem of the published set fits in."""


def graph_names() -> list[str]:
    """The names of all graphs."""
    return sorted(path.name.removesuffix(".json.gz") for path in DATA.glob("graphs/*.json.gz"))


def trace_names(folder: str) -> list[str]:
    """The names of all traces in a folder: own or minimalloc."""
    return sorted(path.name.removesuffix(".csv.gz") for path in DATA.glob(f"{folder}/*.csv.gz"))


def graph(name: str) -> Problem:
    """The named graph: its nodes are values, its operations steps; its outputs are kept."""
    with gzip.open(DATA / "graphs" / f"{name}.json.gz", "rt") as file:
        document = json.load(file)
    kept = set(document["out"])
    index = {node["id"]: i for i, node in enumerate(document["nodes"])}
    values: list[PlanValue] = []
    steps: list[PlanStep] = []
    for node in document["nodes"]:
        inputs = tuple(index[i] for i in node["inputs"])
        view = inputs[0] if node["view"] else None
        values.append(PlanValue(node["size"], node["id"], kept=node["id"] in kept, view_of=view))
        if node["kind"] == "op":
            steps.append(
                PlanStep(
                    inputs,
                    (index[node["id"]],),
                    tuple((i, 0) for i in node["inplace"]),
                    seconds=node["cost"],
                    label=node["op"],
                )
            )
    return Problem(tuple(values), tuple(steps), 64)


def trace(folder: str, name: str) -> list[Storage]:
    """The named trace: storages with their lifetimes."""
    with gzip.open(DATA / folder / f"{name}.csv.gz", "rt") as file:
        rows = csv.DictReader(file)
        return [Storage(int(r["size"]), int(r["lower"]), int(r["upper"])) for r in rows]
