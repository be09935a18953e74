"""Many random programs of loops in loops and branches: `python tests/loop_fuzz.py FIRST COUNT`.

Each is compared with plain loops over NumPy on every engine, half of them where memory that nobody should
read again is lost.  So is every fifth gradient, with that of the same steps written one after the other, in the
least memory that it can be computed in and in some more; and every fifth gradient of steps that draw, with what the
reference engine makes of it as it was written.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

import tawny as tw
import tawny.numpy as tnp
from engines import ENGINES
from grouping_engine import NAME, grouping_engine
from loop_programs import LAZY, PLAIN, PROGRAMS, UNROLLED, LoopProgram, RandomLoops, values_of
from poisoned import Poisoned
from tawny.tree import leaves

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"optimise": False},
    {"incremental": False},
    {"threads": 3},
)


def check(seed: int) -> None:
    """A random program on every engine, with options by turns."""
    program = LoopProgram(RandomLoops(seed), PROGRAMS["recurrent"].inputs)
    values = values_of(program, seed)
    variables = [tw.var(f"v{i}", s, d) for i, (s, d) in enumerate(program.inputs)]
    graph = tw.Graph(variables, list(leaves(program.run(LAZY, *variables))), unused="ignore")
    wanted = [np.asarray(a) for a in leaves(program.run(PLAIN, *values))]
    for number, engine in enumerate(ENGINES):
        options = OPTIONS[(seed + number) % len(OPTIONS)]
        for got in runs(graph, engine, values, poisons=(seed + number) % 2 == 0, **options):
            compare(got, wanted, 1e-6)
    if seed % 5 == 0:
        slopes = [s.numpy() for s in gradient(program, UNROLLED, values)]
        check_in_budgets(gradient_graph(program, LAZY), values, [slopes] * 2, seed)
    if seed % 5 == 1:
        with tw.random.local_seed(seed):
            graph = gradient_graph(program, NOISY)
        drawn = graph.compile(engine="reference", optimise=False)
        check_in_budgets(graph, values, [drawn(*values) for _ in range(2)], seed)


def runs(
    graph: tw.Graph, engine: str, values: list[Any], *, poisons: bool, **options: Any
) -> Iterator[Any]:
    """What two runs of a graph give, with memory lost that nobody should read again."""
    with grouping_engine() if engine == NAME else nullcontext():
        program: Any = graph.compile(engine=engine, **options)
        if poisons:
            inner = program._compiled
            inner.__dict__["executable"] = Poisoned(inner.executable, inner.task)
        for _ in range(2):
            yield program(*values)


def compare(found: Any, wanted: list[Any], tolerance: float) -> None:
    """Whether all results are alike."""
    for got, one in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, one, rtol=tolerance, atol=tolerance / 100)


def noisy_put(x: Any, index: Any, value: Any) -> Any:
    """`x` with a value at an index, and noise."""
    return x.at[index].set(value + 0.25 * tw.random.normal()) * tw.random.uniform(shape=x.shape)


NOISY = LAZY._replace(put=noisy_put)


def gradient_graph(program: LoopProgram, language: Any) -> tw.Graph:
    """The graph of the gradient in all inputs."""
    variables = [tw.var(f"g{i}", s, d) for i, (s, d) in enumerate(program.inputs)]
    return tw.Graph(variables, gradient(program, language, variables), unused="ignore")


def check_in_budgets(graph: tw.Graph, values: list[Any], wanted: list[Any], seed: int) -> None:
    """Two runs on every engine: in all memory, in the least, and in some between."""
    for number, engine in enumerate(ENGINES):
        with grouping_engine() if engine == NAME else nullcontext():
            most, least = graph.plan(engine=engine).peak_bytes, 1
            try:
                graph.plan(engine=engine, memory=1)
            except tw.MemoryBudgetError as error:
                least = error.least_bytes
        for budget in {least, (least + most) // 2, most}:
            poisons = (seed // 5 + number) % 2 == 0
            found = runs(graph, engine, values, poisons=poisons, memory=budget)
            for got, one in zip(found, wanted, strict=True):
                compare(got, one, 1e-5)


def gradient(program: LoopProgram, language: Any, values: list[Any]) -> Any:
    """The gradient of a number that depends on all results."""

    def number(*arrays: Any) -> Any:
        return sum((tnp.sum(tnp.sin(a)) for a in leaves(program.run(language, *arrays))), 0.0)

    return tw.grad(number, argnums=(0, 1, 2))(*values)


def main() -> None:
    """All seeds that were asked for; those that fail are listed."""
    first, count = map(int, sys.argv[1:3])
    failed: list[int] = []
    for seed in range(first, first + count):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(seed)
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    print(f"{count} programs from {first}: {len(failed)} failed {failed}")


if __name__ == "__main__":
    main()
