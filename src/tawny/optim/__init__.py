"""Optimisers: rates, gradient methods, momentum, regularisation, clipping, stopping, batches.

    rule = optim.Optimiser(optim.AdaGrad(0.005), clipping=optim.ClipNorm(1.0))
    weights = numpy.ones(3)
    state = rule.start(weights)
    value, weights, state = rule.step(lambda w: np.sum(w * w), weights, state)

A step is a graph like any other: of known arrays, of traced arguments, or of variables that take
the new values by update edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tawny.optim.batches import Batches, Full, Mini, Sample, Stochastic, as_batches
from tawny.optim.clipping import ClipNorm, Clipping, ClipValue
from tawny.optim.composition import Step, Steps
from tawny.optim.descending import LBFGS, Descent
from tawny.optim.directions import CD, CG, GD, DaiYuanCG, Direction, Newton, NewtonCG, NonlinearCG
from tawny.optim.minimising import Result, minimise
from tawny.optim.momentum import Inertia, Momentum, Nesterov
from tawny.optim.optimiser import SGD, Optimiser, as_optimiser
from tawny.optim.rates import (
    AdaGrad,
    Adam,
    AdamW,
    Constant,
    Cosine,
    Decay,
    ExponentialDecay,
    Plateau,
    Rate,
    RMSprop,
    Schedule,
    WarmUp,
)
from tawny.optim.regularisation import L1, L2, ElasticNet, Regularisation
from tawny.optim.searching import StrongWolfe
from tawny.optim.stopping import Below, Early, Stopping

__all__ = [
    "AdaGrad",
    "Adam",
    "AdamW",
    "Batches",
    "Below",
    "CD",
    "CG",
    "ClipNorm",
    "ClipValue",
    "Clipping",
    "Constant",
    "Cosine",
    "DaiYuanCG",
    "Decay",
    "Descent",
    "Direction",
    "Early",
    "ElasticNet",
    "ExponentialDecay",
    "Full",
    "GD",
    "Inertia",
    "L1",
    "L2",
    "LBFGS",
    "Mini",
    "Momentum",
    "Nesterov",
    "Newton",
    "NewtonCG",
    "NonlinearCG",
    "Optimiser",
    "Plateau",
    "RMSprop",
    "Rate",
    "Regularisation",
    "Result",
    "SGD",
    "Sample",
    "Schedule",
    "Step",
    "Steps",
    "Stochastic",
    "Stopping",
    "StrongWolfe",
    "WarmUp",
    "as_batches",
    "as_optimiser",
    "minimise",
]


def __dir__() -> list[str]:
    return list(__all__)


_ELSEWHERE = {
    "Adagrad": "optim.AdaGrad",
    "CosineAnnealingLR": "optim.Cosine",
    "CosineDecay": "optim.Cosine",
    "L_BFGS": "optim.LBFGS",
    "LinearLR": "optim.WarmUp",
    "RMSProp": "optim.RMSprop",
    "ReduceLROnPlateau": "optim.Plateau",
    "lr_scheduler": "a rate in place of a number: optim.Adam(optim.Cosine(0.001, steps))",
    "minimize": "optim.minimise",
    "schedules": "a rate in place of a number: optim.Adam(optim.Cosine(0.001, steps))",
}


if not TYPE_CHECKING:  # which would take every name for one of the module

    def __getattr__(name: str) -> object:
        said = f"; write {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
        raise AttributeError(f"module 'tawny.optim' has no attribute {name!r}{said}", name=name)
