"""Optimisers: rates, gradient methods, momentum, regularisation, clipping, stopping, batches.

    rule = optim.Optimiser(optim.AdaGrad(0.005), clipping=optim.ClipNorm(1.0))
    weights = numpy.ones(3)
    state = rule.start(weights)
    value, weights, state = rule.step(lambda w: np.sum(w * w), weights, state)

A step is a graph like any other: of known arrays, of traced arguments, or of variables that take
the new values by update edges.
"""

import sys as _sys
import typing as _typing

from tawny.optim.batches import Batches as Batches
from tawny.optim.batches import Full as Full
from tawny.optim.batches import Mini as Mini
from tawny.optim.batches import Sample as Sample
from tawny.optim.batches import Stochastic as Stochastic
from tawny.optim.batches import as_batches as as_batches
from tawny.optim.composition import Rate as Rate
from tawny.optim.composition import Step as Step
from tawny.optim.composition import Steps as Steps
from tawny.optim.descent import LBFGS as LBFGS
from tawny.optim.descent import Descent as Descent
from tawny.optim.directions import CD as CD
from tawny.optim.directions import CG as CG
from tawny.optim.directions import GD as GD
from tawny.optim.directions import DaiYuanCG as DaiYuanCG
from tawny.optim.directions import Direction as Direction
from tawny.optim.directions import Newton as Newton
from tawny.optim.directions import NewtonCG as NewtonCG
from tawny.optim.directions import NonlinearCG as NonlinearCG
from tawny.optim.line_search import StrongWolfe as StrongWolfe
from tawny.optim.minimisation import Result as Result
from tawny.optim.minimisation import minimise as minimise
from tawny.optim.optimiser import SGD as SGD
from tawny.optim.optimiser import Optimiser as Optimiser
from tawny.optim.optimiser import as_optimiser as as_optimiser
from tawny.optim.parts import L1 as L1
from tawny.optim.parts import L2 as L2
from tawny.optim.parts import ClipNorm as ClipNorm
from tawny.optim.parts import Clipping as Clipping
from tawny.optim.parts import ClipValue as ClipValue
from tawny.optim.parts import ElasticNet as ElasticNet
from tawny.optim.parts import Inertia as Inertia
from tawny.optim.parts import Momentum as Momentum
from tawny.optim.parts import Nesterov as Nesterov
from tawny.optim.parts import Regularisation as Regularisation
from tawny.optim.rates import AdaGrad as AdaGrad
from tawny.optim.rates import Adam as Adam
from tawny.optim.rates import AdamW as AdamW
from tawny.optim.rates import Constant as Constant
from tawny.optim.rates import Cosine as Cosine
from tawny.optim.rates import Decay as Decay
from tawny.optim.rates import ExponentialDecay as ExponentialDecay
from tawny.optim.rates import Plateau as Plateau
from tawny.optim.rates import RMSprop as RMSprop
from tawny.optim.rates import Schedule as Schedule
from tawny.optim.rates import WarmUp as WarmUp
from tawny.optim.stopping import Below as Below
from tawny.optim.stopping import Early as Early
from tawny.optim.stopping import Stopping as Stopping
from tawny.public_names import export_imports as _export_imports

_FOREIGN_NAMES = {
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


_export_imports(__name__)

if not _typing.TYPE_CHECKING:  # which would take every name for one of the module

    def __getattr__(name: str) -> object:
        said = f"; write {_FOREIGN_NAMES[name]}" if name in _FOREIGN_NAMES else ""
        message = f"module {__name__!r} has no attribute {name!r}{said}"
        raise AttributeError(message, name=name, obj=_sys.modules[__name__])
