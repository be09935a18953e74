"""A gradient for each of 256 examples, beside JAX and beside the sum of them all.

A network of three layers in float32, 256 wide, traced for one example and mapped over the batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

import tawny as tw
import tawny.numpy as tnp
from timing import Timed, interleaved

EXAMPLES: Final = 256
SIZES: Final = {"small": (64, 64, 64, 10), "wide": (256, 256, 256, 10)}

Arrays = dict[str, np.ndarray]


def values(sizes: tuple[int, ...]) -> tuple[Arrays, np.ndarray, np.ndarray]:
    """Parameters, inputs and targets."""
    rng = np.random.default_rng(0)
    parameters: Arrays = {}
    for i, (n, m) in enumerate(itertools.pairwise(sizes)):
        parameters[f"w{i}"] = (rng.normal(size=(n, m)) / np.sqrt(n)).astype(np.float32)
        parameters[f"b{i}"] = np.zeros(m, np.float32)
    x = rng.normal(size=(EXAMPLES, sizes[0])).astype(np.float32)
    return parameters, x, rng.normal(size=(EXAMPLES, sizes[-1])).astype(np.float32)


def loss_of(names: Any) -> Callable[[Any, Any, Any], Any]:
    """The squared error for one example, in a library's functions."""

    def loss(p: Any, x: Any, y: Any) -> Any:
        hidden = names.tanh(x @ p["w0"] + p["b0"])
        hidden = names.tanh(hidden @ p["w1"] + p["b1"])
        return names.sum((hidden @ p["w2"] + p["b2"] - y) ** 2)

    return loss


def measure(sizes: tuple[int, ...]) -> dict[str, Timed]:
    """Seconds for the gradients of all examples."""
    parameters, x, y = values(sizes)
    theirs = jax.jit(jax.vmap(jax.grad(loss_of(jnp)), in_axes=(None, 0, 0)))
    ours = tw.jit(tw.vmap(tw.grad(loss_of(tnp)), in_axes=(None, 0, 0)))
    whole = tw.jit(tw.grad(lambda p, x, y: tnp.sum(tw.vmap(loss_of(tnp), (None, 0, 0))(p, x, y))))
    on_device = jax.device_put((parameters, x, y))
    expected, got = theirs(*on_device), ours(parameters, x, y)
    for name, value in got.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-3, atol=1e-4)
    program = ours.lower(parameters, x, y)
    print(f"{sizes}: our plan has {program.plan.peak_bytes / 1e6:.1f} MB")
    return interleaved(
        {
            "JAX": lambda: jax.block_until_ready(theirs(*on_device)),
            "Tawny": lambda: ours(parameters, x, y),
            "Tawny, summed": lambda: whole(parameters, x, y),
        },
        calls=5,
    )


def main() -> None:
    """Print the figures."""
    for name, sizes in SIZES.items():
        timed = measure(sizes)
        for who, seconds in timed.items():
            ratio = seconds.best / timed["JAX"].best
            print(f"{name:8} {who:14} {1e3 * seconds.best:8.3f} ms  {ratio:5.2f} of JAX")


if __name__ == "__main__":
    main()
