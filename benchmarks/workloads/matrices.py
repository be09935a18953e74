"""Linear algebra, and programs of a few small operations."""

from __future__ import annotations

from typing import Any

import numpy

from workloads.family import Arrays, Chapter, Draw

MATRICES = Chapter("linear algebra")

product = MATRICES.family(
    "product", "small f32 64, medium f32 256, medium f64 512, large f32 1536, large f64 1024"
)


@product.data
def _(draw: Draw, n: int) -> Arrays:
    return {"a": draw.normal(n, n), "b": draw.normal(n, n)}


@product.numpy
def _(np: Any, a: Any, b: Any) -> Any:
    return a @ b


@product.torch
def _(torch: Any, a: Any, b: Any) -> Any:
    return a @ b


turned = MATRICES.family("products of transposes", "small f64 48, large f32 768")


@turned.data
def _(draw: Draw, n: int) -> Arrays:
    return {"a": draw.normal(n, n), "b": draw.normal(n, n)}


@turned.numpy
def _(np: Any, a: Any, b: Any) -> Any:
    return a.T @ b, a @ b.T, a.T @ b.T


@turned.torch
def _(torch: Any, a: Any, b: Any) -> Any:
    return a.T @ b, a @ b.T, a.T @ b.T


batched = MATRICES.family(
    "batch of products, 48 x 48", "small f32 4, large f32 1000, medium f64 200"
)


@batched.data
def _(draw: Draw, n: int) -> Arrays:
    return {"a": draw.normal(n, 48, 48), "b": draw.normal(n, 48, 48)}


@batched.numpy
def _(np: Any, a: Any, b: Any) -> Any:
    return a @ b


@batched.torch
def _(torch: Any, a: Any, b: Any) -> Any:
    return a @ b


complex_product = MATRICES.family("complex product", "small c64 32, large c128 400", tolerance=1e-4)


@complex_product.data
def _(draw: Draw, n: int) -> Arrays:
    parts = draw.rng.standard_normal((4, n, n))
    return {
        "a": (parts[0] + 1j * parts[1]).astype(draw.dtype),
        "b": (parts[2] + 1j * parts[3]).astype(draw.dtype),
    }


@complex_product.numpy
def _(np: Any, a: Any, b: Any) -> Any:
    return a @ b


@complex_product.torch
def _(torch: Any, a: Any, b: Any) -> Any:
    return a @ b


system = MATRICES.family("system of equations", "small f64 16, medium f64 200, large f64 800")


@system.data
def _(draw: Draw, n: int) -> Arrays:
    return {"a": draw.normal(n, n) + n * numpy.eye(n), "b": draw.normal(n, 8)}


@system.numpy
def _(np: Any, a: Any, b: Any) -> Any:
    return np.linalg.solve(a, b)


@system.torch
def _(torch: Any, a: Any, b: Any) -> Any:
    return torch.linalg.solve(a, b)


determinant = MATRICES.family(
    "log-determinant and slopes", "small f64 16, large f64 400", slopes=("a",)
)


@determinant.data
def _(draw: Draw, n: int) -> Arrays:
    a = draw.normal(n, n)
    return {"a": a @ a.T / n + numpy.eye(n)}


@determinant.numpy
def _(np: Any, a: Any) -> Any:
    return np.linalg.slogdet(a)[1]


@determinant.torch
def _(torch: Any, a: Any) -> Any:
    return torch.linalg.slogdet(a)[1]


eigen = MATRICES.family("eigenvalues", "small f64 16, large f64 200")


@eigen.data
def _(draw: Draw, n: int) -> Arrays:
    a = draw.normal(n, n)
    return {"a": a + a.T}


@eigen.numpy
def _(np: Any, a: Any) -> Any:
    return np.linalg.eigvalsh(a)


@eigen.torch
def _(torch: Any, a: Any) -> Any:
    return torch.linalg.eigvalsh(a)


power = MATRICES.family("power iteration, 30", "small f64 32, large f64 800")


@power.data
def _(draw: Draw, n: int) -> Arrays:
    a = draw.normal(n, n)
    return {"a": a @ a.T, "x": draw.uniform(n)}


@power.numpy
def _(np: Any, a: Any, x: Any) -> Any:
    for _ in range(30):
        y = a @ x
        x = y / np.sqrt(np.sum(y * y))
    return x


@power.torch
def _(torch: Any, a: Any, x: Any) -> Any:
    for _ in range(30):
        y = a @ x
        x = y / torch.sqrt((y * y).sum())
    return x


gradients = MATRICES.family("conjugate gradients in a loop, 50", "small f64 32, medium f64 400",
    without={"torch.compile": "unrolls the loop"})  # fmt: skip


@gradients.data
def _(draw: Draw, n: int) -> Arrays:
    a = draw.normal(n, n)
    return {"a": a @ a.T / n + 3 * numpy.eye(n), "b": draw.normal(n)}


def _conjugate(dot: Any, a: Any, state: Any) -> Any:
    x, r, p, rr = state
    ap = a @ p
    step = rr / (dot(p, ap) + 1e-300)
    x, r = x + step * p, r - step * ap
    new = dot(r, r)
    return x, r, r + (new / (rr + 1e-300)) * p, new


@gradients.numpy
def _(np: Any, a: Any, b: Any) -> Any:
    def step(_: Any, state: Any) -> Any:
        return _conjugate(np.dot, a, state)

    return np.fori_loop(0, 50, step, (0 * b, b, b, np.dot(b, b)))[0]


@gradients.torch
def _(torch: Any, a: Any, b: Any) -> Any:
    state = (0 * b, b, b, b @ b)
    for _ in range(50):
        state = _conjugate(torch.dot, a, state)
    return state[0]


bilinear = MATRICES.family("contraction bi,ijk,bk", "small f64 8, large f32 256")


@bilinear.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 64), "w": draw.normal(64, 48, 64), "y": draw.normal(n, 64)}


@bilinear.numpy
def _(np: Any, x: Any, w: Any, y: Any) -> Any:
    return np.einsum("bi,ijk,bk->bj", x, w, y, optimize=True)


@bilinear.torch
def _(torch: Any, x: Any, w: Any, y: Any) -> Any:
    return torch.einsum("bi,ijk,bk->bj", x, w, y)


orthogonal = MATRICES.family("Newton-Schulz, 5 iterations", "small f32 32, large f32 512")


@orthogonal.data
def _(draw: Draw, n: int) -> Arrays:
    return {"g": draw.normal(n, n)}


def _orthogonal(g: Any, size: Any) -> Any:
    x = g / (size + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return x


@orthogonal.numpy
def _(np: Any, g: Any) -> Any:
    return _orthogonal(g, np.sqrt(np.sum(g * g)))


@orthogonal.torch
def _(torch: Any, g: Any) -> Any:
    return _orthogonal(g, g.norm())


SMALL = Chapter("small programs")

addition = SMALL.family("one addition", "small f32 64, medium f64 10000, large f32 4000000")


@addition.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n)}


@addition.numpy
def _(np: Any, x: Any) -> Any:
    return x + x


@addition.torch
def _(torch: Any, x: Any) -> Any:
    return x + x


rosenbrock = SMALL.family("Rosenbrock and slopes", "small f64 10, large f64 100000", slopes=("x",))


@rosenbrock.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n)}


@rosenbrock.numpy
def _(np: Any, x: Any) -> Any:
    apart = x[1:] - x[:-1] ** 2
    return np.sum(100.0 * apart**2 + (1 - x[:-1]) ** 2)


@rosenbrock.torch
def _(torch: Any, x: Any) -> Any:
    apart = x[1:] - x[:-1] ** 2
    return (100.0 * apart**2 + (1 - x[:-1]) ** 2).sum()


rotation = SMALL.family("rotations of points", "small f64 3, medium f64 1000")


@rotation.data
def _(draw: Draw, n: int) -> Arrays:
    return {"points": draw.normal(n, 3), "angle": draw.uniform(1)}


def _rotated(cos: Any, sin: Any, stack: Any, points: Any, angle: Any) -> Any:
    x, y, z = points[:, 0], points[:, 1], points[:, 2]
    c, s = cos(angle), sin(angle)
    return stack([c * x - s * y, s * x + c * y, z], -1)


@rotation.numpy
def _(np: Any, points: Any, angle: Any) -> Any:
    return _rotated(np.cos, np.sin, np.stack, points, angle)


@rotation.torch
def _(torch: Any, points: Any, angle: Any) -> Any:
    return _rotated(torch.cos, torch.sin, torch.stack, points, angle)


chain = SMALL.family(
    "300 small operations", "small f32 64",
    without={"torch.compile": "compiled in minutes"},
)  # fmt: skip


@chain.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n)}


def _chain(tanh: Any, x: Any) -> Any:
    y = x
    for i in range(100):
        x, y = tanh(x * 0.5 + y), x - y * (0.1 + 0.001 * i)
    return x


@chain.numpy
def _(np: Any, x: Any) -> Any:
    return _chain(np.tanh, x)


@chain.torch
def _(torch: Any, x: Any) -> Any:
    return _chain(torch.tanh, x)
