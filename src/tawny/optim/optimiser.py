"""Optimisers put together by hand."""

from __future__ import annotations

from dataclasses import field
from numbers import Real
from typing import cast

from tawny.calling import guarded
from tawny.errors import type_error
from tawny.optim.clipping import Clipping
from tawny.optim.composition import Parts, Steps
from tawny.optim.descending import Descent
from tawny.optim.directions import GD, Direction, Newton
from tawny.optim.momentum import Inertia, Momentum, Nesterov
from tawny.optim.rates import Adam, Constant, Rate, Scheduled
from tawny.optim.regularisation import Regularisation
from tawny.record import record


@record
class Optimiser(Steps):
    """A rate, a gradient method, and what else a step is made of.

    A number stands for a constant rate, or for standard momentum.
    """

    rate: Rate | float = field(default_factory=Adam)
    gradient: Direction = field(default_factory=GD)
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


@guarded
def SGD(  # noqa: N802  (reads as the other optimisers do)
    rate: float | Scheduled = 0.01, momentum: float | Inertia | None = None, nesterov: bool = False
) -> Optimiser:
    """Plain gradient descent, with momentum if wanted."""
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
