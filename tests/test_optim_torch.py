"""Optimisers beside PyTorch's, where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawny.numpy as tnp
from tawny import optim

torch = pytest.importorskip("torch")

START = np.array([0.9, -1.2, 0.4])
SCALE = np.array([3.0, 0.5, 1.0])

PAIRS: dict[str, tuple[Any, Any]] = {
    "sgd": (optim.SGD(0.05), lambda p: torch.optim.SGD(p, 0.05)),
    "momentum": (optim.SGD(0.05, 0.8), lambda p: torch.optim.SGD(p, 0.05, momentum=0.8)),
    "nesterov": (
        optim.SGD(0.05, 0.8, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.8, nesterov=True),
    ),
    "adagrad": (optim.AdaGrad(0.1), lambda p: torch.optim.Adagrad(p, 0.1, eps=0)),
    "rmsprop": (optim.RMSprop(0.02, 0.8), lambda p: torch.optim.RMSprop(p, 0.02, alpha=0.8, eps=0)),
    "adam": (optim.Adam(0.05), lambda p: torch.optim.Adam(p, 0.05)),
    "adam_betas": (
        optim.Adam(0.05, 0.7, 0.8, 1e-3),
        lambda p: torch.optim.Adam(p, 0.05, (0.7, 0.8), 1e-3),
    ),
    "adamw": (optim.AdamW(0.05, decay=0.2), lambda p: torch.optim.AdamW(p, 0.05, weight_decay=0.2)),
    "l2": (
        optim.Optimiser(0.05, regularisation=optim.L2(0.1)),
        lambda p: torch.optim.SGD(p, 0.05, weight_decay=0.2),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_steps_are_those_of_torch(name: str) -> None:
    rule, make = PAIRS[name]
    w, state = START, rule.start(START)
    theirs = torch.tensor(START, requires_grad=True)
    scale, other = torch.tensor(SCALE), make([theirs])
    for _ in range(6):
        _, w, state = rule.step(lambda p: tnp.sum(SCALE * p**2 + p**4), w, state)
        other.zero_grad()
        (scale * theirs**2 + theirs**4).sum().backward()
        other.step()
        np.testing.assert_allclose(w.numpy(), theirs.detach().numpy(), rtol=1e-9)
