"""Classical machine learning."""

from __future__ import annotations

from typing import Any

from workloads.family import Arrays, Chapter, Draw

LEARNING = Chapter("machine learning")

k_means = LEARNING.family("k-means step", "small f32 200, large f32 20000, medium f64 5000")


@k_means.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 16), "centres": draw.normal(32, 16)}


@k_means.numpy
def _(np: Any, x: Any, centres: Any) -> Any:
    apart = np.sum(centres * centres, axis=1) - 2 * x @ centres.T
    own = np.one_hot(np.argmin(apart, axis=1), 32, dtype=x.dtype)
    return (own.T @ x) / (np.sum(own, axis=0)[:, None] + 1e-9)


@k_means.torch
def _(torch: Any, x: Any, centres: Any) -> Any:
    apart = (centres * centres).sum(1) - 2 * x @ centres.T
    own = apart.argmin(1)
    sums = torch.zeros_like(centres).index_add_(0, own, x)
    return sums / (torch.bincount(own, minlength=32)[:, None] + 1e-9).to(x.dtype)


neighbours = LEARNING.family("10 nearest neighbours", "small f32 100, large f32 4000")


@neighbours.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(500, 32), "known": draw.normal(n, 32)}


@neighbours.numpy
def _(np: Any, x: Any, known: Any) -> Any:
    apart = np.sum(known * known, axis=1) - 2 * x @ known.T
    return -np.top_k(-apart, 10)


@neighbours.torch
def _(torch: Any, x: Any, known: Any) -> Any:
    apart = (known * known).sum(1) - 2 * x @ known.T
    return apart.topk(10, largest=False).values


components = LEARNING.family(
    "principal components", "small f64 100, large f64 20000", tolerance=1e-5
)


@components.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 64)}


@components.numpy
def _(np: Any, x: Any) -> Any:
    x = x - np.mean(x, axis=0)
    values, vectors = np.linalg.eigh(x.T @ x / x.shape[0])
    return values, np.abs(x @ vectors[:, -4:])


@components.torch
def _(torch: Any, x: Any) -> Any:
    x = x - x.mean(0)
    values, vectors = torch.linalg.eigh(x.T @ x / len(x))
    return values, (x @ vectors[:, -4:]).abs()


process = LEARNING.family(
    "Gaussian process, likelihood and slopes", "small f64 50, medium f64 256, large f64 700",
    slopes=("scale", "noise"), tolerance=1e-5,
)  # fmt: skip


@process.data
def _(draw: Draw, n: int) -> Arrays:
    return {
        "scale": 1 + draw.uniform(3),
        "noise": 0.1 + draw.uniform(1),
        "x": draw.normal(n, 3),
        "y": draw.normal(n),
    }


@process.numpy
def _(np: Any, scale: Any, noise: Any, x: Any, y: Any) -> Any:
    z = x / scale
    squares = np.sum(z * z, axis=1)
    apart = squares[:, None] + squares[None, :] - 2 * z @ z.T
    kernel = np.exp(-0.5 * apart) + noise * np.eye(x.shape[0], dtype=x.dtype)
    factor = np.linalg.cholesky(kernel)
    solved = np.solve_triangular(factor, y[:, None], lower=True)
    return 0.5 * np.sum(solved * solved) + np.sum(np.log(np.diagonal(factor)))


@process.torch
def _(torch: Any, scale: Any, noise: Any, x: Any, y: Any) -> Any:
    z = x / scale
    squares = (z * z).sum(1)
    apart = squares[:, None] + squares[None, :] - 2 * z @ z.T
    kernel = torch.exp(-0.5 * apart) + noise * torch.eye(len(x), dtype=x.dtype)
    factor = torch.linalg.cholesky(kernel)
    solved = torch.linalg.solve_triangular(factor, y[:, None], upper=False)
    return 0.5 * (solved * solved).sum() + factor.diagonal().log().sum()


ridge = LEARNING.family("ridge regression", "small f64 200, large f64 10000")


@ridge.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 128), "y": draw.normal(n)}


@ridge.numpy
def _(np: Any, x: Any, y: Any) -> Any:
    return np.linalg.solve(x.T @ x + 0.1 * np.eye(x.shape[1], dtype=x.dtype), x.T @ y)


@ridge.torch
def _(torch: Any, x: Any, y: Any) -> Any:
    return torch.linalg.solve(x.T @ x + 0.1 * torch.eye(x.shape[1], dtype=x.dtype), x.T @ y)


forest = LEARNING.family("50 decision trees of depth 6", "small f32 10, large f32 5000")


@forest.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 30)}


@forest.weights
def _(draw: Draw, n: int) -> Arrays:
    return {
        "feature": draw.integers(30, 50, 63),
        "bound": draw.normal(50, 63),
        "leaf": draw.normal(50, 64),
    }


@forest.numpy
def _(np: Any, x: Any, feature: Any, bound: Any, leaf: Any) -> Any:
    trees, rows = np.arange(50)[None, :], np.arange(x.shape[0])[:, None]
    place = np.zeros((x.shape[0], 50), dtype="int32")
    for _ in range(6):
        right = x[rows, feature[trees, place]] > bound[trees, place]
        place = 2 * place + 1 + right.astype("int32")
    return np.sum(leaf[trees, place - 63], axis=1)


@forest.torch
def _(torch: Any, x: Any, feature: Any, bound: Any, leaf: Any) -> Any:
    trees, rows = torch.arange(50)[None, :], torch.arange(len(x))[:, None]
    place = torch.zeros((len(x), 50), dtype=torch.int64)
    for _ in range(6):
        right = x[rows, feature[trees, place].long()] > bound[trees, place]
        place = 2 * place + 1 + right
    return leaf[trees, place - 63].sum(1)


machine = LEARNING.family("RBF kernel machine", "small f64 50, medium f32 500, large f64 2000")


@machine.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 16)}


@machine.weights
def _(draw: Draw, n: int) -> Arrays:
    return {"support": draw.normal(n, 16), "alpha": draw.normal(n)}


@machine.numpy
def _(np: Any, x: Any, support: Any, alpha: Any) -> Any:
    apart = np.sum(x * x, axis=1)[:, None] + np.sum(support * support, axis=1) - 2 * x @ support.T
    return np.exp(-0.05 * apart) @ alpha


@machine.torch
def _(torch: Any, x: Any, support: Any, alpha: Any) -> Any:
    apart = (x * x).sum(1)[:, None] + (support * support).sum(1) - 2 * x @ support.T
    return torch.exp(-0.05 * apart) @ alpha


laplacian = LEARNING.family("Laplacian kernel sums, 8 features", "small f64 50, large f32 1500")


@laplacian.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 8), "known": draw.normal(n, 8), "alpha": draw.normal(n)}


@laplacian.numpy
def _(np: Any, x: Any, known: Any, alpha: Any) -> Any:
    apart = np.sum(np.abs(x[:, None, :] - known[None, :, :]), axis=-1)
    return np.sum(np.exp(-0.3 * apart) * alpha, axis=1)


@laplacian.torch
def _(torch: Any, x: Any, known: Any, alpha: Any) -> Any:
    apart = (x[:, None, :] - known[None, :, :]).abs().sum(-1)
    return (torch.exp(-0.3 * apart) * alpha).sum(1)


embedding = LEARNING.family(
    "t-SNE, divergence and slopes", "small f64 50, large f32 1000", slopes=("y",)
)


@embedding.data
def _(draw: Draw, n: int) -> Arrays:
    p = draw.uniform(n, n)
    return {"y": draw.normal(n, 2), "p": p / p.sum()}


@embedding.numpy
def _(np: Any, y: Any, p: Any) -> Any:
    apart = y[:, None, :] - y[None, :, :]
    near = 1.0 / (1.0 + np.sum(apart * apart, axis=-1))
    return np.sum(p * (np.log(p) - np.log(near))) + np.log(np.sum(near))


@embedding.torch
def _(torch: Any, y: Any, p: Any) -> Any:
    apart = y[:, None, :] - y[None, :, :]
    near = 1.0 / (1.0 + (apart * apart).sum(-1))
    return (p * (p.log() - near.log())).sum() + near.sum().log()


factors = LEARNING.family(
    "matrix factorisation, loss and slopes", "small f32 50, large f32 1000", slopes=("u", "v")
)


@factors.data
def _(draw: Draw, n: int) -> Arrays:
    known = draw.uniform(n, n) < 0.2
    return {
        "u": draw.normal(n, 32),
        "v": draw.normal(n, 32),
        "ratings": draw.normal(n, n),
        "known": known.astype(draw.dtype),
    }


@factors.numpy
def _(np: Any, u: Any, v: Any, ratings: Any, known: Any) -> Any:
    error = (u @ v.T - ratings) * known
    return np.sum(error * error) + 0.1 * (np.sum(u * u) + np.sum(v * v))


@factors.torch
def _(torch: Any, u: Any, v: Any, ratings: Any, known: Any) -> Any:
    error = (u @ v.T - ratings) * known
    return (error * error).sum() + 0.1 * ((u * u).sum() + (v * v).sum())


bayes = LEARNING.family("naive Bayes", "small f64 20, large f64 5000")


@bayes.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 40)}


@bayes.weights
def _(draw: Draw, n: int) -> Arrays:
    return {"mean": draw.normal(10, 40), "width": draw.uniform(10, 40, low=0.5, high=1.5)}


@bayes.numpy
def _(np: Any, x: Any, mean: Any, width: Any) -> Any:
    z = (x[:, None, :] - mean) / width
    scores = -0.5 * np.sum(z * z, axis=-1) - np.sum(np.log(width), axis=-1)
    return np.log_softmax(scores, axis=-1)


@bayes.torch
def _(torch: Any, x: Any, mean: Any, width: Any) -> Any:
    z = (x[:, None, :] - mean) / width
    scores = -0.5 * (z * z).sum(-1) - width.log().sum(-1)
    return torch.log_softmax(scores, -1)
