"""Every rule of tawny.optim in plain NumPy, over one flat vector, and a table of optimisers to try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tawny import optim


class Oracle:
    """Steps of an optimiser; told slopes (and Hessians where needed), it moves a vector."""

    def __init__(self, rule: Any, splits: tuple[int, ...] = ()) -> None:
        """`splits` are the places where one array of parameters ends and the next begins."""
        self.rule = rule if isinstance(rule, optim.Optimiser) else optim.Optimiser(rule)
        self.splits = splits
        self.count = 0
        self.memory: dict[str, np.ndarray] = {}

    def penalty(self, w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, slope and the diagonal of the Hessian of the regularisation."""
        kind = type(self.rule.regularisation).__name__
        r = self.rule.regularisation
        if kind == "L1":
            return r.weight * np.abs(w).sum(), r.weight * np.sign(w), 0 * w
        if kind == "L2":
            return r.weight * (w @ w), 2 * r.weight * w, 2 * r.weight + 0 * w
        if kind == "ElasticNet":
            value = r.l1 * np.abs(w).sum() + r.l2 * (w @ w)
            return value, r.l1 * np.sign(w) + 2 * r.l2 * w, 2 * r.l2 + 0 * w
        return 0.0, 0 * w, 0 * w

    def clipped(self, g: np.ndarray) -> np.ndarray:
        c = self.rule.clipping
        if isinstance(c, optim.ClipValue):
            low, high = (-c.low, c.low) if c.high is None else (c.low, c.high)
            return np.minimum(np.maximum(g, low), high)
        if isinstance(c, optim.ClipNorm):
            parts = np.split(g, self.splits) if c.each else [g]
            norms = [np.sqrt((p**2).sum()) for p in parts]
            return np.concatenate(
                [p * c.limit / n if n > c.limit else p for p, n in zip(parts, norms, strict=True)]
            )
        return g

    def direction(self, g: np.ndarray, curvature: Callable[[], np.ndarray]) -> np.ndarray:
        name = type(self.rule.gradient).__name__
        if name == "GD":
            return -g
        if name == "Newton":
            return -np.linalg.inv(curvature()) @ g
        before, p = self.memory.get("g"), self.memory.get("p")
        if p is None or before is None:
            b = 0.0
        elif name == "CG":
            b = g @ (g - before) / (p @ (g - before))
        elif name == "CD":
            b = g @ g / -(p @ before)
        elif name == "NonlinearCG":
            b = g @ g / (before @ before)
        elif name == "DaiYuanCG":
            b = g @ g / (p @ (g - before))
        else:
            assert name == "NewtonCG"
            hp = curvature() @ p
            b = (hp @ g) / (hp @ p)
        new = -g if p is None else -g + b * p
        self.memory["g"], self.memory["p"] = g, new
        return new

    def rate(self, rule: Any) -> float:
        i = self.count
        if isinstance(rule, optim.Constant):
            return rule.rate
        if isinstance(rule, optim.Decay):
            return rule.rate / (1 + rule.k * i)
        if isinstance(rule, optim.ExponentialDecay):
            return rule.rate * np.exp(-rule.k * i)
        if isinstance(rule, optim.Cosine):
            share = min(i, rule.steps) / rule.steps
            return rule.end + (rule.rate - rule.end) * (1 + np.cos(np.pi * share)) / 2
        if isinstance(rule, optim.WarmUp):
            return rule.rate * min((i + 1) / rule.steps, 1)
        if isinstance(rule, optim.Schedule):
            if callable(rule.rates):
                return 0.1 / (i + 1)  # what the table's function computes
            rates = list(rule.rates)
            return rates[i % len(rates)] if rule.cycle else rates[min(i, len(rates) - 1)]
        return rule if isinstance(rule, float) else self.rate(rule.rate)

    def change(self, w: np.ndarray, g: np.ndarray, p: np.ndarray) -> np.ndarray:
        rule, rate = self.rule.rate, self.rate(self.rule.rate)
        c = self.memory.get("c", np.zeros_like(w))
        if isinstance(rule, optim.AdaGrad):
            self.memory["c"] = c = c + g**2
            return p * rate / np.sqrt(c + rule.epsilon)
        if isinstance(rule, optim.RMSprop):
            self.memory["c"] = c = rule.decay * c + (1 - rule.decay) * g**2
            return p * rate / np.sqrt(c + rule.epsilon)
        if isinstance(rule, optim.Adam):
            t = self.count + 1
            m = self.memory.get("m", np.zeros_like(w))
            self.memory["m"] = m = rule.beta1 * m + (1 - rule.beta1) * p
            self.memory["c"] = c = rule.beta2 * c + (1 - rule.beta2) * g**2
            corrected, spread = m / (1 - rule.beta1**t), c / (1 - rule.beta2**t)
            out = rate * corrected / (np.sqrt(spread) + rule.epsilon)
            return out - rate * rule.decay * w if isinstance(rule, optim.AdamW) else out
        return p * rate

    def step(
        self, w: np.ndarray, slope: np.ndarray, curvature: Callable[[], np.ndarray] | None = None
    ) -> np.ndarray:
        """The vector after a step; slope and Hessian are those of the loss without penalty."""
        _, extra, bent = self.penalty(w)
        g = self.clipped(slope + extra)
        p = self.direction(g, lambda: curvature() + np.diag(bent))
        u = self.change(w, g, p)
        a = self.rule.momentum
        if a is not None:
            v = a.factor * self.memory.get("v", np.zeros_like(w)) + u
            self.memory["v"] = v
            u = a.factor * v + u if isinstance(a, optim.Nesterov) else v
        self.count += 1
        return w + u


def falling(step: Any) -> Any:
    """A schedule as a function."""
    return 0.1 / (step + 1)


RATES: dict[str, Any] = {
    "constant": optim.Constant(0.05),
    "decay": optim.Decay(0.1, 0.3),
    "exponential_decay": optim.ExponentialDecay(0.1, 0.2),
    "cosine": optim.Cosine(0.1, 3, end=0.01),
    "warm_up": optim.WarmUp(0.1, 3),
    "plateau": optim.Plateau(0.05, patience=1000),
    "schedule": optim.Schedule([0.1, 0.05, 0.02]),
    "schedule_cycle": optim.Schedule([0.1, 0.02], cycle=True),
    "schedule_function": optim.Schedule(falling),
    "adagrad": optim.AdaGrad(0.1),
    "rmsprop": optim.RMSprop(0.02, decay=0.8),
    "adagrad_epsilon": optim.AdaGrad(0.1, epsilon=0.3),
    "rmsprop_epsilon": optim.RMSprop(0.02, epsilon=0.3),
    "adam": optim.Adam(0.05, beta1=0.8, beta2=0.9),
    "adam_epsilon": optim.Adam(0.05, epsilon=0.3),
    "adamw": optim.AdamW(0.05, decay=0.1),
    "adam_decaying": optim.Adam(optim.Decay(0.1, 0.5)),
    "adagrad_schedule": optim.AdaGrad(optim.Schedule([0.2, 0.1])),
}

DIRECTIONS: dict[str, Any] = {
    kind.__name__: kind()
    for kind in (
        optim.GD,
        optim.CG,
        optim.CD,
        optim.NonlinearCG,
        optim.DaiYuanCG,
        optim.NewtonCG,
        optim.Newton,
    )
}

OPTIMISERS: dict[str, Any] = {
    **RATES,
    **{f"with_{n}": optim.Optimiser(optim.Constant(0.02), d) for n, d in DIRECTIONS.items()},
    **{f"adagrad_{n}": optim.Optimiser(optim.AdaGrad(0.02), d) for n, d in DIRECTIONS.items()},
    "adam_cg": optim.Optimiser(optim.Adam(0.02), optim.CG()),
    "momentum": optim.SGD(0.02, momentum=0.9),
    "nesterov": optim.SGD(0.02, momentum=0.8, nesterov=True),
    "momentum_decay": optim.Optimiser(optim.Decay(0.05, 0.2), momentum=optim.Nesterov(0.7)),
    "momentum_cd": optim.Optimiser(optim.Constant(0.01), optim.CD(), momentum=0.5),
    "l1": optim.Optimiser(0.05, regularisation=optim.L1(0.1)),
    "l2": optim.Optimiser(0.05, regularisation=optim.L2(0.1)),
    "elastic_net": optim.Optimiser(optim.Adam(0.05), regularisation=optim.ElasticNet(0.1, 0.05)),
    "newton_l2": optim.Optimiser(0.5, optim.Newton(), regularisation=optim.L2(0.3)),
    "newton_cg_l2": optim.Optimiser(0.01, optim.NewtonCG(), regularisation=optim.L2(0.3)),
    "clip_value": optim.Optimiser(0.05, clipping=optim.ClipValue(0.5)),
    "clip_between": optim.Optimiser(0.05, clipping=optim.ClipValue(-0.2, 0.7)),
    "clip_norm": optim.Optimiser(0.05, clipping=optim.ClipNorm(0.8)),
    "clip_each": optim.Optimiser(0.05, clipping=optim.ClipNorm(0.5, each=True)),
    "all_at_once": optim.Optimiser(
        optim.AdamW(optim.Decay(0.05, 0.1)),
        optim.DaiYuanCG(),
        optim.Nesterov(0.6),
        optim.ElasticNet(0.01, 0.02),
        optim.ClipNorm(2.0),
    ),
}
"""Every choice alone, and some together."""
