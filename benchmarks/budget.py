"""What a budget of bytes costs: extra time of training steps by the fraction of their peak.

The table of MEMORY.md 3.3: budgets are fractions of the optimal peak without recomputation and
without in-place writing; the arena stays within them.  Costs by a roofline of 15 TFLOP/s and
900 GB/s.  Beside ours the published figures ("sweep").  Times are processor seconds of planning.

    python benchmarks/budget.py [--check] [--looks 1000000] [name ...]
"""

from __future__ import annotations

import argparse
import sys
import time
from math import inf
from pathlib import Path

from memory_data import graph
from tawny.memory.budget import Budget, MemoryBudgetError
from tawny.memory.effort import SECOND
from tawny.memory.plan import ArenaLayout
from tawny.memory.problem import Problem

FLOPS, BANDWIDTH = 15e12, 900e9
FRACTIONS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2)
ONE_SHOT = {
    "resnet50_b32_r224_train": 2569.0e6,
    "unet_b8_416x608_train": 10085e6,
    "mobilenetv2_b32_r224_train": 1725.7e6,
    "gpt2_b4_t512_L12_train": 2641.6e6,
    "vgg16_b32_r224_train": 1981.9e6,
    "inceptionv3_b16_r299_train": 1485.9e6,
    "lstm_T100_b64_d256_train": 53.1e6,
    "mlp_b256_L6_train": 9.44e6,
}
"""Bytes of the optimal order without in-place writing (LSTM: the best order found)."""
PUBLISHED = {
    "resnet50_b32_r224_train": (0.9, 1.8, 3.3, 5.0, 7.2, 10.1, 14.7, 17.3, 26.8),
    "unet_b8_416x608_train": (0.2, 0.4, 0.8, 1.2, 3.6, 10.7, 29.4, inf, inf),
    "mobilenetv2_b32_r224_train": (1.3, 2.6, 4.4, 6.6, 10.4, 15.0, 20.7, inf, inf),
    "gpt2_b4_t512_L12_train": (0.5, 1.4, 2.7, 4.1, 9.0, 14.6, inf, inf, inf),
    "vgg16_b32_r224_train": (0.7, 0.7, 3.2, inf, inf, inf, inf, inf, inf),
}


def roofline(name: str) -> Problem:
    """The named graph with seconds: the slower of computing and moving its bytes."""
    problem = graph(name)
    values = problem.values
    steps = [
        step._replace(
            seconds=max(
                step.seconds / FLOPS,
                sum(values[v].bytes for v in {*step.inputs, *step.outputs}) / BANDWIDTH,
            ),
        )
        for step in problem.steps
    ]
    return Problem(problem.values, tuple(steps), problem.alignment)


def check(layout: ArenaLayout) -> None:
    """Replay the layout with the independent checker of the tests."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from memory_checks import assert_apart, replay

    address = {
        (position, o): offset
        for position in range(len(layout.sequence))
        for o, offset in enumerate(layout.writes(position))
        if offset is not None
    }
    replay(layout.problem, layout.sequence, address, layout.arena)
    assert_apart([(size, birth, death, at) for (size, birth, death), at in layout.placed_storages])


def row(name: str, looks: int, checked: bool) -> None:
    """Print a graph's lines of the table."""
    problem = roofline(name)
    total = sum(step.seconds for step in problem.steps)
    extra, spent, least = list[str](), list[str](), ""
    for fraction in FRACTIONS:
        start = time.process_time()
        budget = Budget(problem, looks=looks)
        try:
            layout = budget.within(int(ONE_SHOT[name] * fraction))
            extra.append(f"{100 * (layout.schedule.seconds / total - 1):.1f}")
            spent.append(f"{time.process_time() - start:.2f}")
            if checked:
                check(layout)
        except MemoryBudgetError as error:
            extra.append("inf")
            spent.append(f"{time.process_time() - start:.2f}")
            least = (
                f"least {error.least_bytes / 1e6:.1f} MB = {error.least_bytes / ONE_SHOT[name]:.3f}"
            )
    published = [f"{figure:.1f}" for figure in PUBLISHED.get(name, ())]
    print(f"{name}, {ONE_SHOT[name] / 1e6:.1f} MB  {least}")
    for label, figures in (("extra %", extra), ("published", published), ("seconds", spent)):
        print(f"  {label:10}" + "".join(f"{figure:>8}" for figure in figures), flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(ONE_SHOT))
    parser.add_argument("--looks", type=int, default=SECOND)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    print(f"  {'fraction':10}" + "".join(f"{fraction:>8}" for fraction in FRACTIONS))
    for name in options.names:
        row(name, options.looks, options.check)


if __name__ == "__main__":
    main()
