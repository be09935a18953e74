"""Many random programs of loops in loops and branches: `python tests/loop_fuzz.py FIRST COUNT`.

Each is compared with plain loops over NumPy on every engine, half of them where memory that nobody should
read again is lost.  Every fifth gradient is compared with that of the same steps written one after the other,
also in the least memory that it can be computed in, and in some between.
"""

from __future__ import annotations

import sys
import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np

import tawny as tw
import tawny.numpy as tnp
from engines import ENGINES
from grouping_engine import NAME, grouping_engine
from loop_programs import LAZY, PLAIN, PROGRAMS, UNROLLED, LoopProgram, RandomLoops, values_of
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
        with grouping_engine() if engine == NAME else nullcontext():
            options = OPTIONS[(seed + number) % len(OPTIONS)]
            compiled = graph.compile(engine=engine, **options)
            for _ in range(2):
                for got, one in zip(compiled(*values), wanted, strict=True):
                    np.testing.assert_allclose(got, one, rtol=1e-6, atol=1e-9)
    if seed % 5 == 0:
        found, slopes = (gradient(program, language, values) for language in (LAZY, UNROLLED))
        for got, one in zip(found, slopes, strict=True):
            np.testing.assert_allclose(got.numpy(), one.numpy(), rtol=1e-5, atol=1e-7)
        check_in_least_memory(program, values, [s.numpy() for s in slopes])


def check_in_least_memory(program: LoopProgram, values: list[Any], slopes: list[Any]) -> None:
    """The gradient within the smallest budget."""
    variables = [tw.var(f"g{i}", s, d) for i, (s, d) in enumerate(program.inputs)]
    graph = tw.Graph(variables, gradient(program, LAZY, variables), unused="ignore")
    try:
        compiled = graph.compile(memory=1)
    except tw.MemoryBudgetError as error:
        compiled = graph.compile(memory=error.least_bytes)
    for got, one in zip(compiled(*values), slopes, strict=True):
        np.testing.assert_allclose(got, one, rtol=1e-5, atol=1e-7)


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
