"""Lazy evaluation: one chain of operations computed at once or as a program, and small changes.

python examples/lazy_evaluation.py [--short]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

import tawny as tw
import tawny.numpy as np
from tawny import eager


def chain(np: Any, x: Any) -> Any:
    """Nine operations, one after the other; `np` says whether they are computed now or later."""
    y = np.abs(np.cos(np.sin(x))) + 0.5
    return np.sqrt(np.exp(-np.log(y) * 0.5)) * x


def best(function: Callable[[], Any], times: int = 5) -> float:
    """Seconds that the fastest of several calls takes."""
    seconds: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def compare(size: int) -> None:
    """The same source, eager and lazy."""
    value = numpy.random.default_rng(0).uniform(-3, 3, (size, size))
    x = tw.var("x", shape=value.shape)
    program = tw.Graph([x], chain(np, x)).compile(incremental=False)

    def run() -> Any:
        program.set(x=value)
        return program.run()

    numpy.testing.assert_allclose(run(), chain(numpy, value), rtol=1e-12)
    print(f"Nine operations on {size} x {size} numbers:")
    print(f"  NumPy                {1e3 * best(lambda: chain(numpy, value)):8.2f} ms")
    print(f"  Tawny, one at a time {1e3 * best(lambda: chain(eager, value)):8.2f} ms")
    print(f"  Tawny, as a program  {1e3 * best(run):8.2f} ms")


def change(size: int) -> None:
    """Change b alone in b + a * sum(log |cos(sin a)|): the sum is not computed again."""
    a, b = tw.var("a", shape=(size, size)), tw.var("b")
    scaled = a * np.sum(np.log(np.abs(np.cos(np.sin(a)))))
    c = b + scaled
    program = tw.Graph([a, b], c).compile(often=[b])
    value = numpy.random.default_rng(1).uniform(-3, 3, (size, size))
    expected = value * numpy.log(numpy.abs(numpy.cos(numpy.sin(value)))).sum()
    start = time.perf_counter()
    program(a=value, b=0.0)
    print(f"\nFirst run, everything: {1e3 * (time.perf_counter() - start):8.2f} ms")
    for number in (1.0, 2.0, 3.0):
        start = time.perf_counter()
        result = program(b=number)
        seconds = time.perf_counter() - start
        numpy.testing.assert_allclose(result, number + expected, rtol=1e-9)
        steps = len(program.last_run.executed)
        print(f"b = {number}: {1e3 * seconds:8.2f} ms, {steps} step run")
        assert steps == 1, "only the addition depends on b"


def picture(folder: Path) -> None:
    """The graph as a picture."""
    x = tw.var("x", shape=(2, 2))
    path = folder / "chain.svg"
    tw.Graph([x], chain(np, x), name="chain").visualize(path)
    print(f"\nThe graph is drawn in {path}")


def main() -> None:
    """Compare, change, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="small arrays")
    parser.add_argument("--out", type=Path, default=None, help="folder for the picture")
    given = parser.parse_args()
    size = 200 if given.short else 2000
    compare(size)
    change(size)
    picture(given.out or Path(tempfile.mkdtemp()))


if __name__ == "__main__":
    main()
