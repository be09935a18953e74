"""How tight the memory plans are, and how long they take.

Graphs: the peak of the order beside the best one recorded and beside the report's pipeline (depth
first, in place, Algorithm 1), and the arena beside its lower bound.  Traces: placement only.  The
published set (google/minimalloc, made to be hard) within a million looks each and, with --hard, until the
lower bound is met.  Large: generated graphs.  Times are processor seconds on one core.

    python benchmarks/memory.py [--check] [--hard]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from math import log10
from typing import TypeVar

from memory_data import CAPACITY, graph, graph_names, trace, trace_names
from tawny.memory.blocks import allocate_blocks
from tawny.memory.effort import SECOND
from tawny.memory.ordering.portfolio import depth_first_order
from tawny.memory.placement.place import place
from tawny.memory.plan import plan
from tawny.memory.problem import PlanStep, PlanValue, Problem

T = TypeVar("T")

RECORDED = {
    "resnet50_b1_r299": 12.96,
    "inceptionv3_b1_r299": 8.30,
    "vgg16_b1_r224": 25.69,
    "mobilenetv2_b1_r224": 6.02,
    "unet_b1_416x608": 259.0,
    "gpt2_b1_t512_L12": 104.5,
    "lstm_T50_b64_d256": 0.459,
    "resnet50_b32_r224_train": 2556.4,
    "mobilenetv2_b32_r224_train": 1717.8,
    "inceptionv3_b16_r299_train": 1485.9,
    "vgg16_b32_r224_train": 1957.2,
    "unet_b8_416x608_train": 9582.9,
    "gpt2_b4_t512_L12_train": 2641.6,
    "lstm_T100_b64_d256_train": 52.95,
    "mlp_b256_L6_train": 9.44,
}
"""Megabytes of the best order and placement known before."""


def timed(function: Callable[[], T]) -> tuple[T, float]:
    """A result and the processor seconds it took."""
    start = time.process_time()
    return function(), time.process_time() - start


def is_network(name: str) -> bool:
    """Whether a graph or trace is of a network, not of a random family."""
    return not name.startswith(("layered", "sp_", "tree"))


def allowed_seconds(count: int) -> float:
    """What planning may take: 0.1 s for 1,000 operations, 0.5 s for 10,000, 5 s for 100,000."""
    if count <= 10_100:
        return max(0.1, 0.1 * (count / 1000) ** log10(5))
    return 5e-5 * count


def graphs() -> Iterator[str]:
    """Plan all graphs; yields what misses its target."""
    print(
        f"{'graph':<28}{'ops':>6}{'report MB':>11}{'recorded':>10}{'peak MB':>11}{'arena MB':>11}"
        f"{'/bound':>8}{'report/':>9}{'ms':>8}"
    )
    for name in graph_names():
        problem = graph(name)
        layout, seconds = timed(lambda: plan(problem))  # noqa: B023
        report = allocate_blocks(problem, depth_first_order(problem)).total
        recorded = RECORDED.get(name)
        print(
            f"{name:<28}{len(problem.steps):>6}{report / 1e6:>11.2f}{recorded or '':>10}"
            f"{layout.schedule.peak / 1e6:>11.3f}{layout.arena / 1e6:>11.3f}"
            f"{layout.arena / layout.bound:>8.4f}{report / layout.arena:>9.2f}{seconds * 1e3:>8.1f}"
        )
        if recorded is not None and layout.schedule.peak / 1e6 > recorded * 1.0005:
            yield f"{name}: peak above the recorded one"
        if is_network(name) and layout.arena > layout.bound:
            yield f"{name}: arena above the bound"
        if layout.arena > report * 1.001:
            yield f"{name}: arena above the report's"
        if seconds > allowed_seconds(len(problem.steps)):
            yield f"{name}: planned in {seconds:.2f} s"


def traces() -> Iterator[str]:
    """Place all traces; yields what misses its target."""
    print(f"\n{'trace':<38}{'n':>7}{'/bound':>8}{'ms':>9}")
    for name in trace_names("own"):
        storages = trace("own", name)
        found, seconds = timed(lambda: place(storages))  # noqa: B023
        ratio = found.arena / found.bound
        print(f"{name:<38}{len(storages):>7}{ratio:>8.4f}{seconds * 1e3:>9.1f}")
        if is_network(name) and ratio > 1:
            yield f"{name}: arena above the bound"
        if seconds > allowed_seconds(len(storages)):
            yield f"{name}: placed in {seconds:.2f} s"


def published(hard: bool) -> Iterator[str]:
    """Place the published set; yields what misses its target."""
    print(f"\n{'published':<14}{'n':>5}{'/bound':>9}{'/capacity':>11}{'seconds':>9}")
    for name in trace_names("minimalloc"):
        storages = trace("minimalloc", name)
        for long in (False, True) if hard else (False,):
            looks = None if long else SECOND
            found, took = timed(
                lambda: place(storages, looks=looks, hard=long)  # noqa: B023
            )
            print(
                f"{name.split('.')[0] + (' hard' if long else ''):<14}{len(storages):>5}"
                f"{found.arena / found.bound:>9.4f}{found.arena / CAPACITY:>11.4f}{took:>9.2f}"
            )
            if long and found.arena > found.bound:
                yield f"{name}: above the bound"
            if not long and found.arena > 1.10 * found.bound:
                yield f"{name}: above 1.10"


def generated(kind: str, count: int) -> Problem:
    """A graph of about `count` operations: tree, layered, network or training."""
    rng = random.Random(1)
    sizes = [64 * int(2 ** rng.uniform(0, 12)) for _ in range(count)]
    steps: list[PlanStep] = []
    if kind == "tree":
        operands: list[list[int]] = [[] for _ in range(count)]
        for v in range(count - 1):
            operands[rng.randint(v + 1, min(count - 1, v + 50))].append(v)
        steps = [
            PlanStep(tuple(read), (v,), ((0, 0),) * bool(read)) for v, read in enumerate(operands)
        ]
    elif kind == "layered":
        for v in range(count):
            layer = v // 8 * 8
            read = [rng.randrange(max(0, layer - 32), layer) for _ in range(2)] if layer else []
            steps.append(PlanStep(tuple(read), (v,), tuple((i, 0) for i in range(len(read)))))
    elif kind == "network":
        for v in range(count):
            read = [v - 1] if v else []
            if v > 6 and rng.random() < 0.3:
                read.append(v - rng.randint(2, 6))
            if v and rng.random() < 0.7:
                sizes[v] = sizes[v - 1]
            steps.append(PlanStep(tuple(read), (v,), ((0, 0),) * bool(read)))
    else:
        layers = count // 3
        steps = [PlanStep((v - 1,) if v else (), (v,)) for v in range(layers)]
        gradient = layers - 1
        for v in reversed(range(layers)):
            made = len(steps)
            steps.append(PlanStep((gradient, v), (made,), ((0, 0),)))
            steps.append(PlanStep((made, v), (made + 1,)))
            gradient = made
            sizes[made] = sizes[v]
    read_at_all = {v for step in steps for v in step.inputs}
    values = [PlanValue(sizes[v], kept=v not in read_at_all) for v in range(len(steps))]
    return Problem(tuple(values), tuple(steps), 64)


def large() -> Iterator[str]:
    """Plan generated graphs; yields what misses its target."""
    print(f"\n{'generated':<12}{'ops':>8}{'arena MB':>11}{'/bound':>8}{'seconds':>9}")
    for count in (1000, 10_000, 100_000):
        for kind in ("network", "training", "tree", "layered"):
            problem = generated(kind, count)
            layout, seconds = timed(lambda: plan(problem))  # noqa: B023
            print(
                f"{kind:<12}{len(problem.steps):>8}{layout.arena / 1e6:>11.3f}"
                f"{layout.arena / layout.bound:>8.4f}{seconds:>9.2f}"
            )
            if seconds > allowed_seconds(len(problem.steps)):
                yield f"{kind} of {count}: planned in {seconds:.2f} s"


def main() -> None:
    """Print the tables; with --check fail if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--hard", action="store_true")
    options = parser.parse_args()
    missed = [*graphs(), *traces(), *published(options.hard), *large()]
    print("\n" + "\n".join(["missed:", *missed] if missed else ["all targets met"]))
    if missed and options.check:
        sys.exit(1)


if __name__ == "__main__":
    main()
