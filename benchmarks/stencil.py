"""A periodic stencil written with rolls, beside the same inner points written with slices.

python benchmarks/stencil.py [--sizes 512 2048] [--dtypes float32 float64] [--threads 2]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from timing import installed, interleaved, table

RATE = 0.1


def rolls(np: Any, u: Any) -> Any:
    """One step of diffusion; what leaves on one side comes back on the other."""
    around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
    return u + RATE * (around - 4 * u)


def slices(np: Any, u: Any) -> Any:
    """The same of the inner points alone."""
    del np
    inner = u[1:-1, 1:-1]
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return inner + RATE * (around - 4 * inner)


def tawny(step: Callable[[Any, Any], Any], u: np.ndarray, threads: int) -> Callable[[], object]:
    """A compiled program, its input bound, its output seen where it lies."""
    import tawny as tw
    import tawny.numpy as tnp

    v = tw.var("u", shape=u.shape, dtype=u.dtype)
    compiled = tw.Graph([v], step(tnp, v)).compile(threads=threads)
    compiled.set(u=u, bind=True)

    def run() -> object:
        compiled.touch("u")
        return compiled.run(views=True)

    return run


def jax(step: Callable[[Any, Any], Any], u: np.ndarray) -> Callable[[], object]:
    """JAX, jitted."""
    import jax as library

    library.config.update("jax_enable_x64", True)
    function, value = library.jit(lambda v: step(library.numpy, v)), library.numpy.asarray(u)
    return lambda: function(value).block_until_ready()


def main() -> None:
    """Print a table for each size and dtype."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--dtypes", nargs="+", default=["float32", "float64"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    for size in given.sizes:
        for dtype in given.dtypes:
            u = np.random.default_rng(0).normal(size=(size, size)).astype(dtype)
            contenders = {
                "tawny": tawny(rolls, u, given.threads),
                "tawny slices": tawny(slices, u, given.threads),
                "numpy": lambda u=u: rolls(np, u),
            }
            if installed(["jax"]):
                contenders |= {"jax": jax(rolls, u), "jax slices": jax(slices, u)}
            timed = interleaved(contenders, rounds=given.rounds, calls=10)
            print(table(f"{size} x {size} {dtype}", timed), end="\n\n")


if __name__ == "__main__":
    main()
