"""Elementwise chains and reductions from a thousand to a hundred million elements.

python benchmarks/cpu_kernels.py [--sizes 1000 100000 10000000] [--peers numpy torch jax]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from timing import installed, interleaved, table

Make = Callable[[str, np.ndarray], Callable[[], object]]


def chain(np: Any, x: Any) -> Any:
    """Ten ops in one expression."""
    return np.sin(x) ** 2 + np.sqrt(np.abs(x)) * np.exp(-x * x)


def rows_of(x: Any) -> Any:
    """Rows of 1,000, or all of less."""
    return x.reshape((-1, min(1000, x.shape[0])))


def softmax(np: Any, x: Any) -> Any:
    """The library's own, if it has one."""
    rows = rows_of(x)
    if hasattr(np, "softmax"):
        return np.softmax(rows, axis=1)
    e = np.exp(rows - np.max(rows, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def layer_norm(np: Any, x: Any) -> Any:
    """The library's own, if it has one."""
    rows = rows_of(x)
    if hasattr(np, "layer_norm"):
        return np.layer_norm(rows)
    away = rows - np.mean(rows, axis=1, keepdims=True)
    return away / np.sqrt(np.mean(away * away, axis=1, keepdims=True) + 1e-5)


def logsumexp(np: Any, rows: Any, axis: int | None) -> Any:
    """The library's own, if it has one."""
    if hasattr(np, "logsumexp"):
        return np.logsumexp(rows, axis=axis)
    top = np.max(rows, axis=axis, keepdims=True)
    return np.log(np.sum(np.exp(rows - top), axis=axis)) + top.reshape(() if axis is None else -1)


KERNELS: dict[str, Callable[[Any, Any], Any]] = {
    "chain": chain,
    "sum of chain": lambda np, x: np.sum(chain(np, x)),
    "x + 2 x": lambda np, x: np.add(x, x * 2),
    "x cubed": lambda _, x: x**3,
    "sum": lambda np, x: np.sum(x),
    "softmax": softmax,
    "layer norm": layer_norm,
    "log-sum-exp": lambda np, x: logsumexp(np, rows_of(x), 1),
    "log-sum-exp of columns": lambda np, x: logsumexp(np, rows_of(x), 0),
    "log-sum-exp of all": lambda np, x: logsumexp(np, x, None),
    "argmax": lambda np, x: np.argmax(x),
    "argmax of rows": lambda np, x: np.argmax(rows_of(x), axis=1),
    "argmax of columns": lambda np, x: np.argmax(rows_of(x), axis=0),
    "argmin": lambda np, x: np.argmin(x),
    "argsort of short rows": lambda np, x: np.argsort(x.reshape((-1, 20)), axis=1),
}


def tawny(name: str, x: np.ndarray) -> Callable[[], object]:
    """A compiled program, its input bound, its output seen where it lies."""
    import tawny as tw
    import tawny.numpy as tnp

    v = tw.var("x", shape=x.shape, dtype="float32")
    compiled = tw.Graph([v], KERNELS[name](tnp, v)).compile()
    compiled.set(x=x, bind=True)

    def run() -> object:
        compiled.touch("x")
        return compiled.run(views=True)

    return run


def numpy(name: str, x: np.ndarray) -> Callable[[], object]:
    """NumPy itself."""
    return lambda: KERNELS[name](np, x)


class _Torch:
    """PyTorch under NumPy's names."""

    def __init__(self) -> None:
        import torch

        self.torch = torch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.torch, name)

    def sum(self, x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        return x.sum() if axis is None else x.sum(axis, keepdim=keepdims)

    def argmax(self, x: Any, axis: int | None = None) -> Any:
        return self.torch.argmax(x, axis)

    def argmin(self, x: Any, axis: int | None = None) -> Any:
        return self.torch.argmin(x, axis)

    def logsumexp(self, x: Any, axis: int | None) -> Any:
        return self.torch.logsumexp(x, 0 if axis is None else axis)

    def layer_norm(self, x: Any) -> Any:
        return self.torch.nn.functional.layer_norm(x, x.shape[-1:])


def torch(name: str, x: np.ndarray) -> Callable[[], object]:
    """PyTorch, one op at a time."""
    library = _Torch()
    t = library.torch.from_numpy(x)
    return lambda: KERNELS[name](library, t)


def torch_compiled(name: str, x: np.ndarray) -> Callable[[], object]:
    """PyTorch, compiled."""
    library = _Torch()
    t = library.torch.from_numpy(x)
    function = library.torch.compile(lambda t: KERNELS[name](library, t))
    return lambda: function(t)


def jax(name: str, x: np.ndarray) -> Callable[[], object]:
    """JAX, jitted."""
    import jax as library

    function = library.jit(lambda v: KERNELS[name](library.numpy, v))
    given = library.numpy.asarray(x)
    return lambda: function(given).block_until_ready()


PEERS: dict[str, Make] = {
    "numpy": numpy,
    "torch": torch,
    "torch.compile": torch_compiled,
    "jax": jax,
}


def main() -> int:
    """Print a table for each kernel and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000, 100_000, 10_000_000])
    parser.add_argument(
        "--peers", nargs="*", default=installed(["numpy", "torch", "jax"]), choices=list(PEERS)
    )
    parser.add_argument("--kernels", nargs="*", default=list(KERNELS), choices=list(KERNELS))
    args = parser.parse_args()
    for kernel in args.kernels:
        for size in args.sizes:
            x = np.random.default_rng(0).random(size, dtype=np.float32) * 4 - 2
            makers: dict[str, Make] = {"tawny": tawny} | {p: PEERS[p] for p in args.peers}
            runs = {name: make(kernel, x) for name, make in makers.items()}
            expected = (
                np.asarray(runs["numpy"]())
                if "numpy" in runs
                else np.asarray(KERNELS[kernel](np, x))
            )
            for name, run in runs.items():
                got = np.asarray(run())
                if kernel.startswith("argsort"):  # equal elements may come in any order
                    rows = x.reshape((-1, 20))
                    got, wanted = (np.take_along_axis(rows, p, 1) for p in (got, expected))
                else:
                    wanted = expected
                np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=1e-5, err_msg=name)
            calls = max(1, 200_000 // size)
            timed = interleaved(runs, rounds=15, calls=calls)
            print(table(f"{kernel}, {size:,} elements", timed, unit="us" if size < 10**6 else "ms"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
