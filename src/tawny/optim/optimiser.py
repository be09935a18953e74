"""Optimisers put together by hand."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Final, cast

from tawny.bad_calls import explain_bad_calls
from tawny.errors import type_error
from tawny.optim.composition import Parts, Rate, Steps
from tawny.optim.descent import Descent
from tawny.optim.directions import GD, Direction, Newton
from tawny.optim.parts import Clipping, Inertia, Momentum, Nesterov, Regularisation
from tawny.optim.rates import Adam, Constant, ScheduledRate

_RATE: Final = Adam()
_GRADIENT: Final = GD()


@dataclass(frozen=True)
class Optimiser(Steps):
    """A rate, a gradient method, and what else a step is made of.

    - `rate`: a learning rate, as `Adam()` or `Cosine(0.1, 1000)`; a number is a constant one.
    - `gradient`: the method that makes a direction of the slope; `GD()` is the slope itself.
    - `momentum`: `Momentum(0.9)` or `Nesterov(0.9)`; a number stands for the first, None for none.
    - `regularisation`: a price of parameters, added to the loss: `L1`, `L2`, `ElasticNet`.
    - `clipping`: a limit to slopes: `ClipNorm`, `ClipValue`.

    `start(parameters)` gives what is remembered at first; `step(function, parameters, state)`
    makes a step; `nn.train` and `optim.minimise` take it as it is.

        rule = optim.Optimiser(0.1, momentum=0.9, clipping=optim.ClipNorm(1.0))
        x = numpy.ones(2)
        value, x, state = rule.step(lambda x: np.sum(x * x), x, rule.start(x))
        float(value)                                  # -> 2.0
    """

    rate: Rate | float = _RATE
    gradient: Direction = _GRADIENT
    momentum: Inertia | float | None = None
    regularisation: Regularisation | None = None
    clipping: Clipping | None = None

    def __post_init__(self) -> None:
        if isinstance(self.rate, Real):
            object.__setattr__(self, "rate", Constant(cast("float", self.rate)))
        if isinstance(self.momentum, Real):
            object.__setattr__(self, "momentum", Momentum(cast("float", self.momentum)))
        for name, kind, optional in (
            ("rate", Rate, False),
            ("gradient", Direction, False),
            ("momentum", Inertia, True),
            ("regularisation", Regularisation, True),
            ("clipping", Clipping, True),
        ):
            given = getattr(self, name)
            if not isinstance(given, kind) and not (optional and given is None):
                raise type_error(
                    "Optimiser",
                    f"{name} is {given!r}; accepted: a {kind.__name__} of tawny.optim"
                    + (" or None" if optional else ""),
                )

    def parts(self) -> Parts:
        return Parts(
            cast("Rate", self.rate),
            self.gradient,
            cast("Inertia | None", self.momentum),
            self.regularisation,
            self.clipping,
        )


@explain_bad_calls
def SGD(  # noqa: N802  (reads as the other optimisers do)
    rate: float | ScheduledRate = 0.01,
    momentum: float | Inertia | None = None,
    nesterov: bool = False,
) -> Optimiser:
    """Plain gradient descent, with momentum if wanted.

    - `rate`: the learning rate: a number, or a rate by step such as `Cosine`.
    - `momentum`: None for none; a number stands for `Momentum`.
    - `nesterov`: look ahead, as `Nesterov` does; `momentum` is then a number.

    Gives an `Optimiser`.

        found = optim.minimise(lambda x: np.sum(x * x), [1.0], optim.SGD(0.1, momentum=0.5))
        found.converged                               # -> True
    """
    if nesterov:
        if not isinstance(momentum, Real):
            raise type_error("SGD", f"momentum is {momentum!r}; with nesterov it is a number")
        momentum = Nesterov(cast("float", momentum))
    return Optimiser(rate, momentum=momentum)


def as_optimiser(given: object, op: str) -> Steps:
    """`given` as an optimiser: one as it is, or Newton's method, which needs no rate."""
    if isinstance(given, Steps):
        return given
    if isinstance(given, Newton):
        return Optimiser(Constant(1.0), given)
    if isinstance(given, Descent):
        raise type_error(
            op,
            f"{type(given).__name__} looks at the function several times in a step, which a "
            "training step cannot; it is for optim.minimise",
        )
    if isinstance(given, Direction):
        raise type_error(
            op,
            f"{given!r} needs a rate: optim.Optimiser(rate=..., gradient={given!r})",
        )
    raise type_error(op, f"the optimiser is {given!r}; accepted: optimisers of tawny.optim")
