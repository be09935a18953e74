"""Loops beside JAX's, where that is installed.

A Kalman filter of 500 steps, 10,000 tiny steps, the gradient of 1,000 steps of a recurrent cell, and Newton's
method as long as it takes: seconds to build (trace, compile, run once) and to run, and bytes beside inputs and
outputs, as they are planned here and as XLA says.  Libraries are loaded before; `again` is building once more.  The gradient is computed in a quarter of the bytes beside its results too, where steps are computed
again: the slopes of two matrices are a third of its peak.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import tawny as tw
import tawny.numpy as tnp
from tawny.tree import leaves
from timing import interleaved

HAS_JAX: Final = importlib.util.find_spec("jax") is not None


class Library(NamedTuple):
    """What a function of loops is written in."""

    xp: Any
    scan: Callable[..., Any]
    while_loop: Callable[..., Any]
    grad: Callable[..., Any]


def kalman(o: Library) -> Callable[..., Any]:
    """The states that a filter finds in measurements."""

    def run(f: Any, h: Any, q: Any, r: Any, zs: Any) -> Any:
        def step(carry: Any, z: Any) -> Any:
            x, p = carry
            x, p = f @ x, f @ p @ f.T + q
            s = h @ p @ h.T + r
            gain = o.xp.linalg.solve(s, h @ p).T
            x, p = x + gain @ (z - h @ x), p - gain @ h @ p
            return (x, p), x

        n = q.shape[0]
        return o.scan(step, (o.xp.zeros(n, q.dtype), o.xp.eye(n, dtype=q.dtype)), zs)[1]

    return run


def tiny(o: Library) -> Callable[..., Any]:
    """A running mean that forgets."""
    return lambda xs: o.scan(lambda c, x: (c * 0.9 + x, c), xs[0] * 0, xs)


def cell(o: Library) -> Callable[..., Any]:
    """The gradient of a recurrent cell in its weights."""

    def loss(w: Any, u: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = o.xp.tanh(h @ w + x @ u)
            return h, o.xp.sum(h)

        return o.xp.sum(o.scan(step, xs[0] * 0, xs)[1])

    return o.grad(loss, argnums=(0, 1))


def newton(o: Library) -> Callable[..., Any]:
    """Square roots, until all are found."""

    def run(a: Any) -> Any:
        return o.while_loop(
            lambda x: o.xp.max(o.xp.abs(x * x - a)) > 1e-9, lambda x: (x + a / x) / 2, a
        )

    return run


def workloads() -> dict[str, tuple[Callable[[Library], Callable[..., Any]], list[np.ndarray]]]:
    """Each with its values."""
    rng = np.random.default_rng(0)
    n, m, kind = 8, 4, np.float64
    f = np.linalg.qr(rng.normal(size=(n, n)))[0].astype(kind)
    h = rng.normal(size=(m, n)).astype(kind)
    square = [f, h, 0.1 * np.eye(n, dtype=kind), np.eye(m, dtype=kind)]
    weights = [(rng.normal(size=(256, 256)) / 16).astype(np.float32) for _ in range(2)]
    rows = rng.normal(size=(1000, 1, 256)).astype(np.float32)
    return {
        "kalman, 500 steps": (kalman, [*square, rng.normal(size=(500, m)).astype(kind)]),
        "10,000 tiny steps": (tiny, [rng.normal(size=10_000)]),
        "gradient, 1,000 steps of 256": (cell, [*weights, rows]),
        "newton, 100 roots": (newton, [rng.uniform(1, 1e6, 100)]),
    }


def ours() -> Library:
    """Tawny's loops."""
    return Library(tnp, tw.scan, tw.while_loop, tw.grad)


def theirs() -> Library:
    """JAX's loops."""
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    return Library(importlib.import_module("jax.numpy"), jax.lax.scan, jax.lax.while_loop, jax.grad)


class Built(NamedTuple):
    """A workload that runs: what calls it, what that gave, and what it took."""

    call: Callable[[], Any]
    result: Any
    seconds: float
    nbytes: int


def build(
    make: Callable[[Library], Callable[..., Any]],
    name: str,
    values: list[np.ndarray],
    memory: int | None = None,
) -> Built:
    """A workload of a library, made runnable and run once."""
    start = time.perf_counter()
    if name == "JAX":
        jax = importlib.import_module("jax")
        given = jax.device_put(values)
        compiled = jax.jit(make(theirs())).lower(*given).compile()
        call: Callable[[], Any] = lambda: jax.block_until_ready(compiled(*given))  # noqa: E731
        took = compiled.memory_analysis()
        nbytes = took.temp_size_in_bytes + took.output_size_in_bytes
    else:
        variables = [tw.var(f"v{i}", v.shape, v.dtype) for i, v in enumerate(values)]
        program = tw.Graph(variables, make(ours())(*variables)).compile(memory=memory)
        call = lambda: program(*values)  # noqa: E731
        nbytes = program.plan.peak_bytes
    result = call()
    return Built(call, result, time.perf_counter() - start, nbytes)


def load() -> None:
    """Build something, so that libraries are loaded."""
    one = np.ones(1)
    for name in ("Tawny", "JAX")[: 1 + HAS_JAX]:
        build(lambda o: lambda x: o.xp.sum(x) + 1, name, [one])


def main() -> None:
    """Print the figures."""
    load()
    for title, (make, values) in workloads().items():
        built = {"Tawny": build(make, "Tawny", values)}
        again = {"Tawny": build(make, "Tawny", values).seconds}
        if title.startswith("gradient"):
            results = sum([a.nbytes for a in leaves(built["Tawny"].result)])
            quarter = results + (built["Tawny"].nbytes - results) // 4
            built["Tawny, a quarter"] = build(make, "Tawny", values, quarter)
        if HAS_JAX:
            built["JAX"] = build(make, "JAX", values)
            again["JAX"] = build(make, "JAX", values).seconds
        timed = interleaved({name: b.call for name, b in built.items()}, rounds=15)
        for name, b in built.items():
            print(
                f"{title:29} {name:17} build {b.seconds:6.3f} s, again {again.get(name, 0):6.3f}   "
                f"run {1e3 * timed[name].best:8.3f} ms (median {1e3 * timed[name].median:.3f})   "
                f"{b.nbytes:>10,} bytes"
            )
            for one, other in zip(leaves(b.result), leaves(built["Tawny"].result), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-3)


if __name__ == "__main__":
    main()
