"""Fourier transforms beside NumPy, SciPy, PyTorch and JAX, on two threads each.

python benchmarks/fft.py [--cases 1-d 2-d ...] [--peers numpy scipy torch jax]

A ratio is our time over that of the best other; the last line is the geometric mean of all.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads=2"

import numpy as np

from timing import installed, interleaved

THREADS = 2


class Case(NamedTuple):
    """What is transformed: the shape of the operand, its dtype, and what a library does."""

    group: str
    title: str
    shape: tuple[int, ...]
    dtype: str
    run: Callable[[Any, Any], Any]
    """Of a library's transforms and an array."""


def _cases() -> list[Case]:
    found: list[Case] = []

    def add(group: str, title: str, shape: tuple[int, ...], run: Any, *dtypes: str) -> None:
        found.extend(Case(group, title, shape, dtype, run) for dtype in dtypes)

    both = "complex64", "complex128"
    reals = "float32", "float64"
    for batch, n in ((20000, 16), (5000, 64), (2000, 256), (1000, 1024), (200, 4096), (10, 65536)):
        add("1-d", f"fft of {batch} x {n}", (batch, n), lambda f, x: f.fft(x), *both)
        add("real", f"rfft of {batch} x {n}", (batch, n), lambda f, x: f.rfft(x), *reals)
        half = (batch, n // 2 + 1)
        add("real", f"irfft of {batch} x {n}", half, lambda f, x, n=n: f.irfft(x, n), *both)
    add("long", "fft of 2**20", (2**20,), lambda f, x: f.fft(x), *both)
    add("long", "rfft of 2**20", (2**20,), lambda f, x: f.rfft(x), *reals)
    add("long", "fft of 10**6", (10**6,), lambda f, x: f.fft(x), *both)
    for n in (31, 100, 360, 1000, 1155, 10000):
        shape = 1_000_000 // n, n
        add("mixed", f"fft of {shape[0]} x {n}", shape, lambda f, x: f.fft(x), *both)
        add("mixed", f"rfft of {shape[0]} x {n}", shape, lambda f, x: f.rfft(x), *reals)
    for n in (17, 101, 1009, 10007):
        shape = 500_000 // n, n
        add("primes", f"fft of {shape[0]} x {n}", shape, lambda f, x: f.fft(x), *both)
        add("primes", f"rfft of {shape[0]} x {n}", shape, lambda f, x: f.rfft(x), *reals)
    for n in (128, 512, 1000, 2048):
        add("2-d", f"fft2 of {n} x {n}", (n, n), lambda f, x: f.fft2(x), *both)
        add("2-d", f"rfft2 of {n} x {n}", (n, n), lambda f, x: f.rfft2(x), *reals)
    add("3-d", "fftn of 128 ** 3", (128,) * 3, lambda f, x: f.fftn(x), *both)
    add("3-d", "rfftn of 16 x 64 x 64 x 64", (16, 64, 64, 64), _volumes, *reals)
    add("3-d", "rfft2 of 500 x 64 x 64", (500, 64, 64), lambda f, x: f.rfft2(x), *reals)
    add("3-d", "irfft2 of 100 x 128 x 65", (100, 128, 65), lambda f, x: f.irfft2(x), *both)
    for n in (64, 1000, 4096):
        shape = n, 1_000_000 // n
        add("columns", f"fft of axis 0 of {shape}", shape, lambda f, x: f.fft(x, axis=0), *both)
        add("columns", f"rfft of axis 0 of {shape}", shape, lambda f, x: f.rfft(x, axis=0), *reals)
    add("real as complex", "fft of 1000 x 1024", (1000, 1024), lambda f, x: f.fft(x), *reals)
    add("real as complex", "fft2 of 512 x 512", (512, 512), lambda f, x: f.fft2(x), *reals)
    for n in (16, 64, 256, 1024, 4096):
        add("one", f"fft of {n}", (n,), lambda f, x: f.fft(x), *both)
        add("one", f"rfft of {n}", (n,), lambda f, x: f.rfft(x), *reals)
    add("filters", "low-pass of 1024 x 1024", (1024, 1024), _low_pass, *reals)
    add("filters", "convolution of 100 x 10000", (100, 10000), _convolve, *reals)
    return found


def _volumes(f: Any, x: Any) -> Any:
    return f.rfftn(x, None, (-3, -2, -1))


def _low_pass(f: Any, x: Any) -> Any:
    """An image without what is finer than a quarter of the grid."""
    spectrum = f.rfft2(x)
    return f.irfft2(spectrum * f.mask(spectrum.shape, str(x.dtype)))


def _convolve(f: Any, x: Any) -> Any:
    """Signals convolved with the first of them, ends wrapped."""
    return f.irfft(f.rfft(x) * f.rfft(x[:1]), 10000)


class _Library:
    """The transforms of a library, and a mask of frequencies as it has arrays."""

    def __init__(self, transforms: Any, as_array: Callable[[np.ndarray], Any]) -> None:
        self._transforms, self._as_array = transforms, as_array
        self._masks: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transforms, name)

    def mask(self, shape: Any, dtype: str) -> Any:
        shape, real = tuple(shape), np.float32 if "32" in dtype else np.float64
        if (shape, real) not in self._masks:
            rows, columns = np.fft.fftfreq(shape[0]), np.arange(shape[1]) / (2 * shape[1] - 2)
            kept = np.hypot(rows[:, None], columns) < 0.25
            self._masks[shape, real] = self._as_array(kept.astype(real))
        return self._masks[shape, real]


def tawny(case: Case, x: np.ndarray) -> Callable[[], object]:
    """A compiled program, its input bound, its output seen where it lies."""
    import tawny as tw
    import tawny.numpy as tnp

    v = tw.var("x", shape=x.shape, dtype=x.dtype)
    library = _Library(tnp.fft, tnp.asarray)
    compiled = tw.Graph([v], case.run(library, v)).compile(threads=THREADS)
    compiled.set(x=x, bind=True)

    def run() -> object:
        compiled.touch("x")
        return compiled.run(views=True)

    return run


def numpy(case: Case, x: np.ndarray) -> Callable[[], object]:
    """NumPy, which has one thread for this."""
    library = _Library(np.fft, np.asarray)
    return lambda: case.run(library, x)


def scipy(case: Case, x: np.ndarray) -> Callable[[], object]:
    """SciPy with two workers."""
    import scipy.fft as transforms

    library = _Library(transforms, np.asarray)

    def run() -> object:
        with transforms.set_workers(THREADS):
            return case.run(library, x)

    return run


class _Torch:
    """PyTorch's transforms under NumPy's names of arguments."""

    def __init__(self) -> None:
        import torch

        self._fft = torch.fft

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._fft, name)
        return lambda x, n=None, axis=-1: function(x, n, axis)

    def fft2(self, x: Any) -> Any:
        return self._fft.fft2(x)

    def rfft2(self, x: Any) -> Any:
        return self._fft.rfft2(x)

    def irfft2(self, x: Any) -> Any:
        return self._fft.irfft2(x)

    def fftn(self, x: Any) -> Any:
        return self._fft.fftn(x)

    def rfftn(self, x: Any, s: Any, axes: Any) -> Any:
        return self._fft.rfftn(x, s, axes)


def torch(case: Case, x: np.ndarray) -> Callable[[], object]:
    """PyTorch, which calls MKL."""
    import torch as library

    library.set_num_threads(THREADS)
    given, transforms = library.from_numpy(x), _Library(_Torch(), library.from_numpy)

    def run() -> object:
        with library.inference_mode():
            return case.run(transforms, given)

    return run


def jax(case: Case, x: np.ndarray) -> Callable[[], object]:
    """JAX, jitted."""
    import jax as library

    library.config.update("jax_enable_x64", True)
    transforms = _Library(library.numpy.fft, np.asarray)
    function = library.jit(lambda v: case.run(transforms, v))
    given = library.numpy.asarray(x)
    return lambda: function(given).block_until_ready()


PEERS: dict[str, Callable[[Case, np.ndarray], Callable[[], object]]] = {
    "numpy": numpy,
    "scipy": scipy,
    "torch": torch,
    "jax": jax,
}


def _operand(case: Case) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(case.shape)
    if case.dtype.startswith("c"):
        x = x + 1j * rng.standard_normal(case.shape)
    return x.astype(case.dtype)


def _measure(case: Case, peers: list[str], rounds: int) -> float:
    """Print a line of the table; our time over that of the best other."""
    x = _operand(case)
    runs = {"tawny": tawny(case, x)} | {name: PEERS[name](case, x) for name in peers}
    expected = np.asarray(numpy(case, x)())
    tolerance = 1e-5 if "32" in case.dtype or case.dtype == "complex64" else 1e-12
    for name, run in runs.items():
        away = np.abs(np.asarray(run()) - expected).max()
        assert away < tolerance * np.abs(expected).max(), (name, case.title, away)
    calls = max(1, 200_000 // x.size)
    timed = interleaved(runs, rounds=rounds, calls=calls)
    ours = timed["tawny"].best
    ratio = ours / min(t.best for name, t in timed.items() if name != "tawny")
    cells = "".join(f"{timed[name].best * 1e6:>12.1f}" for name in runs)
    print(f"{case.title:<32}{case.dtype:<12}{cells}{ratio:>8.2f}", flush=True)
    return ratio


def main() -> int:
    """Print a table."""
    cases = _cases()
    groups = list(dict.fromkeys(case.group for case in cases))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", default=groups, choices=groups)
    peers = installed(list(PEERS))
    parser.add_argument("--peers", nargs="*", default=peers, choices=list(PEERS))
    parser.add_argument("--dtypes", nargs="*", default=["32", "64", "128"])
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    heads = "".join(f"{name:>12}" for name in ["tawny", *args.peers])
    print(f"{'microseconds, best':<44}{heads}{'ratio':>8}")
    ratios = [
        _measure(case, args.peers, args.rounds)
        for case in cases
        if case.group in args.cases and any(case.dtype.endswith(d) for d in args.dtypes)
    ]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.2f}, worst {max(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
