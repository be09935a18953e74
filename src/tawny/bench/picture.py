"""The table as a picture: time and memory with the graph, as parts of what they are without."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

from tawny.bench.rows import BenchRow
from tawny.bench.workloads import WORKLOADS

OURS, HELD, WHOLE, THEIRS = "#c2702b", "#e3b587", "#8a8f5c", "#c9c4bb"
Series = tuple[str, str, Sequence[float]]
"""A label, a colour, and a ratio for each network."""


def series(rows: Sequence[BenchRow]) -> tuple[list[Series], list[Series]]:
    """What is drawn of time, and of memory."""
    report = [WORKLOADS[row.name].report for row in rows]
    return [
        ("Tawny, here", OURS, [row.time_ratio for row in rows]),
        ("the report", THEIRS, [r.eval_s / r.eager_s for r in report]),
    ], [
        ("Tawny, here: activations", OURS, [row.memory_ratio for row in rows]),
        ("the same, to results held to the end", HELD, [row.held_ratio for row in rows]),
        ("Tawny, here: whole processes", WHOLE, [row.process_ratio for row in rows]),
        (
            "the report, of whole processes, holding them",
            THEIRS,
            [r.graph_mb / r.eager_mb for r in report],
        ),
    ]


def draw(rows: Sequence[BenchRow], path: str | os.PathLike[str]) -> None:
    """Write the picture, in the format that the file's name says."""
    figure: Any = importlib.import_module("matplotlib.figure").Figure(
        figsize=(9, 5), layout="constrained"
    )
    time, memory = figure.subplots(1, 2, sharey=True)
    of_time, of_memory = series(rows)
    _bars(time, "time of an evaluation", of_time)
    _bars(memory, "memory", of_memory)
    time.set_yticks(range(len(rows)), [row.name for row in rows])
    time.invert_yaxis()
    figure.suptitle("With the computation graph, as a part of what it takes without", fontsize=11)
    figure.savefig(path, dpi=150)


def _bars(axes: Any, title: str, series: Sequence[Series]) -> None:
    height = 0.8 / len(series)
    for number, (label, colour, ratios) in enumerate(series):
        places = [at + (number - (len(series) - 1) / 2) * height for at in range(len(ratios))]
        axes.barh(places, ratios, 0.9 * height, color=colour, label=label)
        for place, ratio in zip(places, ratios, strict=True):
            axes.text(ratio + 0.01, place, f"{ratio:.2f}", va="center", fontsize=8)
    axes.set_title(title, fontsize=10)
    axes.axvline(1, color="#6b665e", linewidth=0.8, linestyle=":")
    axes.set_xlim(0, max(1.05, *(r for _, _, ratios in series for r in ratios)) + 0.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), frameon=False, fontsize=8)
