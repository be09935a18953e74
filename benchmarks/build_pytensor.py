"""Seconds in which PyTensor constructs the program of `build.py`, one line for each line read.

PyTensor needs an LLVM that is too old for Tawny, so it has an environment of its own, which
`make bench` makes, and `build.py` runs this file there.  It ends with its input.

    .venv-peers/bin/python benchmarks/build_pytensor.py ROUNDS
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

import pytensor.tensor as tensor

from rounds import mixed  # beside this file


class Names:
    """NumPy's names over PyTensor."""

    def __getattr__(self, name: str) -> Callable[..., object]:
        return getattr(tensor, {"where": "switch"}.get(name, name))


def main() -> None:
    """Build once for each line of the input."""
    rounds = int(sys.argv[1])
    print("ready", flush=True)
    for _ in sys.stdin:
        gc.collect()
        start = time.perf_counter()
        mixed(Names(), tensor.fmatrix("x"), tensor.fmatrix("w"), rounds)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
