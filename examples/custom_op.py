"""A differentiable operation of your own: its value, and its derivative stated by you.

    python examples/custom_op.py

The derivative of log(1 + exp(x)) is the logistic function; written out, both overflow for large x.
"""

from __future__ import annotations

import numpy

import tawny as tw
import tawny.numpy as np
from tawny.array import Array


def written_out(x: Array) -> Array:
    """log(1 + exp(x)), whose derivative is derived for you."""
    return np.log(1 + np.exp(x))


def without_overflow(x: Array) -> Array:
    """The same, with exp of nothing above 0."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


safe = tw.custom_vjp(without_overflow)


def _kept(x: Array) -> tuple[Array, Array]:
    """The value, and what the derivative needs."""
    return without_overflow(x), x


def _slope(x: Array, slope: Array) -> tuple[Array]:
    """The slope of the operand, given that of the result: itself differentiable."""
    return (slope * np.sigmoid(x),)


safe.defvjp(_kept, _slope)


@tw.custom_jvp
def cube_root(x: Array) -> Array:
    """The cube root, computed by a function that knows nothing of graphs."""
    return tw.delay(numpy.cbrt, tw.stop_gradient(x), pure=True)


@cube_root.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    root = cube_root(*primals)
    return root, tangents[0] / (3 * root * root)


def main() -> None:
    """Compare with what is derived, in first and second order, and use it in a program."""
    points = numpy.array([-4.0, -0.5, 0.0, 0.5, 4.0])
    for order in (1, 2):
        ours, theirs = safe, written_out
        for _ in range(order):
            ours, theirs = (tw.grad(lambda x, f=f: np.sum(f(x))) for f in (ours, theirs))
        numpy.testing.assert_allclose(ours(points).numpy(), theirs(points).numpy(), rtol=1e-12)
        print(f"derivative {order}: {ours(points).numpy().round(6)}")
    tw.testing.check_grads(safe, (points,), order=2, modes=["reverse"])
    tw.testing.check_grads(cube_root, (points[points != 0],), order=1)

    far = numpy.array([-1000.0, 1000.0])
    with numpy.errstate(over="ignore", invalid="ignore"):
        print(f"written out, far away: {tw.grad(lambda x: np.sum(written_out(x)))(far).numpy()}")
    print(f"stated, far away:      {tw.grad(lambda x: np.sum(safe(x)))(far).numpy()}")

    x = tw.var("x", shape=(5,))
    (slope,) = tw.gradients(np.sum(safe(x) * cube_root(x + 10)), [x])
    program = tw.Graph([x], slope).compile()
    root = numpy.cbrt(points + 10)
    expected = root / (1 + numpy.exp(-points)) + numpy.log1p(numpy.exp(points)) / (3 * root**2)
    numpy.testing.assert_allclose(program(points), expected, rtol=1e-12)
    print("The compiled gradient equals the formula worked out by hand.")


if __name__ == "__main__":
    main()
