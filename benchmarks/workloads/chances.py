"""Statistics, probability and finance."""

from __future__ import annotations

from typing import Any

from workloads.family import Arrays, Chapter, Draw

STATISTICS = Chapter("statistics")

covariance = STATISTICS.family("correlation matrix", "small f64 100, large f64 20000")


@covariance.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 64)}


@covariance.numpy
def _(np: Any, x: Any) -> Any:
    x = (x - np.mean(x, axis=0)) / np.std(x, axis=0)
    return x.T @ x / x.shape[0]


@covariance.torch
def _(torch: Any, x: Any) -> Any:
    x = (x - x.mean(0)) / x.std(0, correction=0)
    return x.T @ x / len(x)


logistic = STATISTICS.family(
    "logistic regression, loss and slopes", "small f64 100, large f32 20000", slopes=("w",)
)


@logistic.data
def _(draw: Draw, n: int) -> Arrays:
    return {"w": draw.normal(100, scale=0.1), "x": draw.normal(n, 100), "y": draw.uniform(n)}


@logistic.numpy
def _(np: Any, w: Any, x: Any, y: Any) -> Any:
    z = x @ w
    return np.mean(np.logaddexp(0.0, z) - y * z) + 0.01 * np.sum(w * w)


@logistic.torch
def _(torch: Any, w: Any, x: Any, y: Any) -> Any:
    z = x @ w
    loss = torch.nn.functional.binary_cross_entropy_with_logits(z, y)
    return loss + 0.01 * (w * w).sum()


mixture = STATISTICS.family("mixture of Gaussians, shares", "small f64 100, large f64 20000")


@mixture.data
def _(draw: Draw, n: int) -> Arrays:
    return {
        "x": draw.normal(n, 8),
        "means": draw.normal(16, 8),
        "precisions": draw.uniform(16, 8, low=0.5, high=2),
        "logs": draw.normal(16),
    }


@mixture.numpy
def _(np: Any, x: Any, means: Any, precisions: Any, logs: Any) -> Any:
    apart = x[:, None, :] - means[None]
    z = logs - 0.5 * np.sum(apart * apart * precisions, axis=-1)
    return np.exp(z - np.logsumexp(z, axis=-1)[:, None])


@mixture.torch
def _(torch: Any, x: Any, means: Any, precisions: Any, logs: Any) -> Any:
    apart = x[:, None, :] - means[None]
    z = logs - 0.5 * (apart * apart * precisions).sum(-1)
    return torch.exp(z - torch.logsumexp(z, -1, keepdim=True))


density = STATISTICS.family("kernel density", "small f64 100, medium f32 1000, large f64 3000")


@density.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n), "grid": draw.normal(n)}


@density.numpy
def _(np: Any, x: Any, grid: Any) -> Any:
    z = (grid[:, None] - x[None, :]) * 5.0
    return np.mean(np.exp(-0.5 * z * z), axis=1) * 1.9947


@density.torch
def _(torch: Any, x: Any, grid: Any) -> Any:
    z = (grid[:, None] - x[None, :]) * 5.0
    return torch.exp(-0.5 * z * z).mean(1) * 1.9947


bootstrap = STATISTICS.family("bootstrap of a mean", "small f64 100, large f64 1500")


@bootstrap.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n), "places": draw.integers(n, n, n)}


@bootstrap.numpy
def _(np: Any, x: Any, places: Any) -> Any:
    means = np.mean(x[places], axis=1)
    return np.std(means), np.mean(means)


@bootstrap.torch
def _(torch: Any, x: Any, places: Any) -> Any:
    means = x[places].mean(1)
    return means.std(correction=0), means.mean()


quantiles = STATISTICS.family("quantiles of columns", "small f64 200, large f64 50000")


@quantiles.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 8)}


@quantiles.numpy
def _(np: Any, x: Any) -> Any:
    return np.quantile(x, np.asarray([0.05, 0.5, 0.95]), axis=0)


@quantiles.torch
def _(torch: Any, x: Any) -> Any:
    return x.quantile(torch.tensor([0.05, 0.5, 0.95], dtype=x.dtype), 0)


student = STATISTICS.family(
    "likelihood of Student's t, with slopes", "small f64 100, large f64 100000",
    slopes=("freedom", "scale"),
)  # fmt: skip


@student.data
def _(draw: Draw, n: int) -> Arrays:
    x = draw.normal(n)
    return {"x": x, "freedom": 1 + draw.uniform(n, high=5), "scale": 1 + draw.uniform(n)}


@student.numpy
def _(np: Any, x: Any, freedom: Any, scale: Any) -> Any:
    z = x / scale
    half = (freedom + 1) / 2
    norm = np.gammaln(half) - np.gammaln(freedom / 2) - 0.5 * np.log(3.14159265 * freedom)
    return np.sum(norm - np.log(scale) - half * np.log1p(z * z / freedom))


@student.torch
def _(torch: Any, x: Any, freedom: Any, scale: Any) -> Any:
    return torch.distributions.StudentT(freedom, 0.0, scale, validate_args=False).log_prob(x).sum()


moving = STATISTICS.family("moving mean and deviation", "small f64 1000, large f64 1000000")


@moving.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n)}


@moving.numpy
def _(np: Any, x: Any) -> Any:
    sums, squares = np.cumsum(x), np.cumsum(x * x)
    mean = (sums[50:] - sums[:-50]) / 50
    return mean, np.sqrt((squares[50:] - squares[:-50]) / 50 - mean * mean)


@moving.torch
def _(torch: Any, x: Any) -> Any:
    sums, squares = x.cumsum(0), (x * x).cumsum(0)
    mean = (sums[50:] - sums[:-50]) / 50
    return mean, torch.sqrt((squares[50:] - squares[:-50]) / 50 - mean * mean)


standardise = STATISTICS.family(
    "columns without NaN, standardised", "small f32 100, large f32 50000"
)


@standardise.data
def _(draw: Draw, n: int) -> Arrays:
    x = draw.normal(n, 20)
    x[draw.rng.random(x.shape) < 0.1] = float("nan")
    return {"x": x}


@standardise.numpy
def _(np: Any, x: Any) -> Any:
    mean = np.nanmean(x, axis=0)
    return np.where(np.isnan(x), 0.0, (x - mean) / np.nanstd(x, axis=0)).astype(x.dtype)


@standardise.torch
def _(torch: Any, x: Any) -> Any:
    there = ~x.isnan()
    count = there.sum(0)
    mean = x.nansum(0) / count
    apart = torch.where(there, x - mean, 0.0)
    return apart / ((apart * apart).sum(0) / count).sqrt()


FINANCE = Chapter("finance")

options = FINANCE.family("Black-Scholes", "small f64 100, medium f32 10000, large f64 1000000")


@options.data
def _(draw: Draw, n: int) -> Arrays:
    return {
        "spot": draw.uniform(n, low=50, high=150),
        "strike": draw.uniform(n, low=50, high=150),
        "years": draw.uniform(n, low=0.1, high=2),
    }


def _black_scholes(
    log: Any, exp: Any, sqrt: Any, erf: Any, spot: Any, strike: Any, years: Any
) -> Any:
    width = 0.2 * sqrt(years)
    d1 = (log(spot / strike) + 0.05 * years) / width
    d2 = d1 - width
    present = strike * exp(-0.03 * years)
    call = spot * (0.5 + 0.5 * erf(d1 * 0.70710678)) - present * (0.5 + 0.5 * erf(d2 * 0.70710678))
    return call, call - spot + present


@options.numpy
def _(np: Any, **given: Any) -> Any:
    return _black_scholes(np.log, np.exp, np.sqrt, np.erf, **given)


@options.torch
def _(torch: Any, **given: Any) -> Any:
    return _black_scholes(torch.log, torch.exp, torch.sqrt, torch.erf, **given)


greeks = FINANCE.family(
    "option prices and their slopes", "small f64 100, large f64 200000",
    slopes=("spot", "strike", "years"),
)  # fmt: skip


@greeks.data
def _(draw: Draw, n: int) -> Arrays:
    found: Arrays = options.parts["data"](draw, n)
    return found


@greeks.numpy
def _(np: Any, **given: Any) -> Any:
    return np.sum(_black_scholes(np.log, np.exp, np.sqrt, np.erf, **given)[0])


@greeks.torch
def _(torch: Any, **given: Any) -> Any:
    return _black_scholes(torch.log, torch.exp, torch.sqrt, torch.erf, **given)[0].sum()


asian = FINANCE.family("Asian option, Monte Carlo", "medium f64 1000, large f32 20000")


@asian.data
def _(draw: Draw, n: int) -> Arrays:
    return {"normals": draw.normal(n, 128)}


@asian.numpy
def _(np: Any, normals: Any) -> Any:
    paths = 100.0 * np.exp(np.cumsum(0.0125 * normals + 0.0001, axis=1))
    gain = np.maximum(np.mean(paths, axis=1) - 100.0, 0.0)
    return np.mean(gain), np.std(gain)


@asian.torch
def _(torch: Any, normals: Any) -> Any:
    paths = 100.0 * torch.exp((0.0125 * normals + 0.0001).cumsum(1))
    gain = (paths.mean(1) - 100.0).clamp(min=0.0)
    return gain.mean(), gain.std(correction=0)


tree = FINANCE.family(
    "American put, binomial tree, 100 steps", "small f64 10, large f64 1000",
    without={"torch.compile": "compiled in minutes"},
)  # fmt: skip


@tree.data
def _(draw: Draw, n: int) -> Arrays:
    return {"spot": draw.uniform(n, low=80, high=120)}


def _tree(maximum: Any, steps: Any, spot: Any) -> Any:
    up = 1.02
    share, discount = 0.51, 0.9995
    gain = maximum(100.0 - spot[:, None] * up ** (2.0 * steps - 100), 0.0)
    for i in range(99, -1, -1):
        kept = discount * (share * gain[:, 1:] + (1 - share) * gain[:, :-1])
        now = 100.0 - spot[:, None] * up ** (2.0 * steps[: i + 1] - i)
        gain = maximum(kept, now)
    return gain[:, 0]


@tree.numpy
def _(np: Any, spot: Any) -> Any:
    return _tree(np.maximum, np.arange(101, dtype=spot.dtype), spot)


@tree.torch
def _(torch: Any, spot: Any) -> Any:
    def maximum(x: Any, y: Any) -> Any:
        return x.clamp(min=y) if isinstance(y, float) else torch.maximum(x, y)

    return _tree(maximum, torch.arange(101, dtype=spot.dtype), spot)


portfolio = FINANCE.family(
    "risk of a portfolio, with slopes", "small f64 20, large f64 1000", slopes=("shares",)
)


@portfolio.data
def _(draw: Draw, n: int) -> Arrays:
    return {"shares": draw.uniform(n), "returns": draw.normal(500, n)}


@portfolio.numpy
def _(np: Any, shares: Any, returns: Any) -> Any:
    shares = np.softmax(shares, axis=-1)
    gains = returns @ shares
    return np.std(gains) / (np.mean(gains) + 2.0)


@portfolio.torch
def _(torch: Any, shares: Any, returns: Any) -> Any:
    gains = returns @ torch.softmax(shares, -1)
    return gains.std(correction=0) / (gains.mean() + 2.0)


losses = FINANCE.family("value at risk, sorted losses", "small f64 1000, large f64 500000")


@losses.data
def _(draw: Draw, n: int) -> Arrays:
    return {"gains": draw.normal(n)}


@losses.numpy
def _(np: Any, gains: Any) -> Any:
    worst = np.sort(gains)[: gains.shape[0] // 100]
    return worst[-1], np.mean(worst)


@losses.torch
def _(torch: Any, gains: Any) -> Any:
    worst = torch.sort(gains).values[: len(gains) // 100]
    return worst[-1], worst.mean()
