"""Derivatives checked by witnesses: small steps, and the agreement of both modes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, lift, value_of, wrap
from tawny.autodiff.functions import jvp, vjp
from tawny.dtype import kind_of
from tawny.errors import value_error
from tawny.node import Value
from tawny.tree import leaf_paths, leaves, map_leaves

MODES: Final = ("forward", "reverse")
SEED: Final = 2718


def check_grads(
    function: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    *,
    modes: Iterable[str] = MODES,
    step: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Fail unless derivatives of `function` at `args` agree with differences, up to `order`.

    - `function`: computes an array, or a structure of arrays.
    - `args`: its arguments: arrays of floating-point or complex numbers, or nested structures.
    - `order`: the highest derivative to check; higher orders check the derivatives' own
      derivatives, in every combination of modes.
    - `modes`: `"forward"` compares the change along a random direction with a central difference,
      `"reverse"` compares cotangents with forward mode by pairing them with the direction.
    - `step`: of the differences; None chooses by dtype.
    - `rtol`, `atol`: how far they may differ; None chooses by dtype.

    Raises AssertionError.

        tw.testing.check_grads(lambda a: np.sin(a) * a, (numpy.array([0.3, 2.0]),))
    """
    chosen = tuple(modes)
    if order < 1 or not chosen or not set(chosen) <= set(MODES):
        raise value_error(
            "check_grads", f"order is {order} and modes are {chosen}; accepted: 1 and up, {MODES}"
        )
    places = map_leaves(lambda x: value_of(_array(x), "check_grads"), tuple(args))
    rng = np.random.default_rng(SEED)
    _check(function, places, order, chosen, (step, rtol, atol), rng, "")


def _array(x: Any) -> Array:
    return wrap(lift(x, "check_grads"))


Tolerances = tuple[float | None, float | None, float | None]


def _check(
    function: Callable[..., Any],
    places: tuple[Any, ...],
    order: int,
    modes: Sequence[str],
    tolerances: Tolerances,
    rng: np.random.Generator,
    path: str,
) -> None:
    direction = map_leaves(lambda x: _random_direction(x, rng), places)
    value, tangent = jvp(function, places, direction)
    weights = map_leaves(lambda x: _random_direction(_value(x), rng), value)
    if "forward" in modes:
        _compare_difference(function, places, direction, tangent, tolerances, f"{path}forward")
    if "reverse" in modes:
        _, pullback = vjp(function, *places)
        _compare_pairing(tangent, weights, pullback(weights), direction, tolerances, path)
    if order == 1:
        return
    if "forward" in modes:
        _check(
            lambda *xs: jvp(function, xs, direction)[1],
            places, order - 1, modes, tolerances, rng, f"{path}forward, then ",
        )  # fmt: skip
    if "reverse" in modes:
        _check(
            lambda *xs: vjp(function, *xs)[1](weights),
            places, order - 1, modes, tolerances, rng, f"{path}reverse, then ",
        )  # fmt: skip


def _compare_difference(
    function: Callable[..., Any],
    places: tuple[Any, ...],
    direction: Any,
    tangent: Any,
    tolerances: Tolerances,
    path: str,
) -> None:
    """A central difference against the tangent, leaf by leaf."""
    kinds = [dt.real_dtype(np.asarray(x).dtype) for x in leaves(places)]
    digits = max((float(dt.finfo(k).eps) for k in kinds), default=1e-16)
    step, rtol, atol = tolerances
    width = digits ** (1 / 3) if step is None else step
    ahead = _results_beside(function, places, direction, width)
    behind = _results_beside(function, places, direction, -width)
    for (name, got), one, two in zip(leaf_paths(tangent), ahead, behind, strict=True):
        difference = (one - two) / (2 * width)
        exact = _value(got)
        close = 30 * digits ** (2 / 3)
        scale = float(np.max(np.abs(difference), initial=1.0))
        np.testing.assert_allclose(
            exact,
            difference,
            rtol=close if rtol is None else rtol,
            atol=close * scale if atol is None else atol,
            err_msg=f"{path} mode against a difference{f', {name}' if name else ''}",
        )


def _results_beside(
    function: Callable[..., Any], places: Any, direction: Any, by: float
) -> list[Value]:
    steps = iter(leaves(direction))
    moved = map_leaves(lambda x: _array(np.asarray(x + by * next(steps), x.dtype)), places)
    return [_value(x).astype(_wide_dtype(_value(x).dtype)) for x in leaves(function(*moved))]


def _compare_pairing(
    tangent: Any,
    weights: Any,
    cotangents: Any,
    direction: Any,
    tolerances: Tolerances,
    path: str,
) -> None:
    """Both modes are one linear map: what it does to a direction, seen from either side."""
    _, rtol, atol = tolerances
    forward = _inner_product(weights, tangent)
    reverse = _inner_product(cotangents, direction)
    kinds = [dt.real_dtype(_value(x).dtype) for x in (*leaves(tangent), *leaves(cotangents))]
    digits = max((float(dt.finfo(k).eps) for k in kinds), default=1e-16)
    np.testing.assert_allclose(
        reverse,
        forward,
        rtol=digits**0.5 if rtol is None else rtol,
        atol=digits**0.5 if atol is None else atol,
        err_msg=f"{path}reverse mode against forward mode",
    )


def _inner_product(first: Any, second: Any) -> float:
    total = 0.0
    for a, b in zip(leaves(first), leaves(second), strict=True):
        x, y = _value(a), _value(b)
        products: Value = x.astype(_wide_dtype(x.dtype)) * y.astype(_wide_dtype(y.dtype))
        total += complex(np.sum(products)).real
    return total


def _wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dt.COMPLEX128 if dtype.kind == "c" else dt.FLOAT64


def _value(x: Any) -> Value:
    return value_of(x, "check_grads") if isinstance(x, Array) else np.asarray(x)


def _random_direction(x: Value, rng: np.random.Generator) -> Value:
    """A direction for `x`; only what can change by a little moves."""
    if kind_of(x.dtype) not in "fc":
        return np.zeros(x.shape, dt.FLOAT64)
    drawn = rng.uniform(-1, 1, x.shape)
    if x.dtype.kind == "c":
        drawn = drawn + 1j * rng.uniform(-1, 1, x.shape)
    return np.asarray(drawn, x.dtype)
