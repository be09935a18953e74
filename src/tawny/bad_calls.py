"""Calls that Python cannot bind, answered with what the function takes."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from types import FrameType
from typing import Any, Final, ParamSpec, TypeVar, cast

from tawny.errors import BlockedOperandError, type_error

P = ParamSpec("P")
R = TypeVar("R")


Answer = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""What a call gives that Python could not bind; NotImplemented where it is wrong altogether."""


def explain_bad_calls(
    function: Callable[P, R], answer: Answer | None = None, over_blocks: bool = False
) -> Callable[P, R]:
    """`function`, saying which arguments it takes when it is called with others.

    `answer` knows further arguments: it is asked after a call that Python could not bind, so that
    they cost nothing where they are not given.  A function `over_blocks` that a user calls with
    dask arrays gives dask arrays.
    """
    name = function.__name__
    if name == "__init__":
        name = function.__qualname__.split(".")[-2]

    @functools.wraps(function)
    def boundary(*args: P.args, **kwargs: P.kwargs) -> R:
        misuse: TypeError | None = None
        try:
            return function(*args, **kwargs)
        except BlockedOperandError:
            if not over_blocks or _is_ours(sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
                raise
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            misuse = error
        if misuse is None:
            return _on_blocks(boundary, args, kwargs)
        result = NotImplemented if answer is None else answer(function, args, kwargs)
        if result is NotImplemented:
            raise _misuse(boundary, name, args, kwargs, misuse)
        return cast("R", result)

    return boundary


BLOCKS: Final = "tawny.distributed.blocks.arrays"
"""The module that makes functions of dask arrays; it stands above this one."""


def _is_ours(frame: FrameType) -> bool:
    """Whether a function is called from inside the library."""
    return str(frame.f_globals.get("__name__", "")).startswith("tawny.")


def _on_blocks(function: Callable[P, R], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> R:
    """What a public function gives for dask arrays."""
    result: R = importlib.import_module(BLOCKS).call_on_blocks(function, args, kwargs)
    return result


def renaming_answer(names: Mapping[str, str]) -> Answer:
    """An answer to calls with other names of arguments."""

    def answer(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        named = {names.get(k, k): v for k, v in kwargs.items()}
        known = inspect.signature(function).parameters
        if named.keys() == kwargs.keys() or len(named) < len(kwargs) or named.keys() - known.keys():
            return NotImplemented
        return function(*args, **named)

    return answer


def _misuse(
    function: Callable[..., Any],
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    error: TypeError,
) -> TypeError:
    """What was wrong with the arguments of a call that Python could not bind."""
    parameters = inspect.signature(function).parameters
    unknown = [k for k in kwargs if k not in parameters]
    left = [*parameters.values()][len(args) if unknown else 0 :]
    accepted = ", ".join(
        f"{p.name} (keyword only)" if p.kind is p.KEYWORD_ONLY else p.name
        for p in left
        if p.name != "self"
    )
    if unknown:
        detail = f"unknown argument {unknown[0]!r}{_name_here(unknown[0], parameters)}"
    else:
        detail = str(error).partition("() ")[2] or f"cannot take {len(args)} positional arguments"
    return type_error(name, f"{detail}; accepted: {accepted}")


ELSEWHERE: Final[dict[str, tuple[str, ...]]] = {
    "lr": ("rate",),
    "learning_rate": ("rate",),
    "betas": ("beta1", "beta2"),
    "beta_1": ("beta1",),
    "beta_2": ("beta2",),
    "alpha": ("decay",),
    "rho": ("decay",),
    "eps": ("epsilon",),
    "weight_decay": ("decay",),
    "in_features": ("inputs",),
    "in_channels": ("inputs",),
    "input_size": ("inputs",),
    "input_dim": ("inputs", "count"),
    "out_features": ("outputs",),
    "out_channels": ("outputs",),
    "output_dim": ("features",),
    "filters": ("outputs",),
    "units": ("outputs",),
    "hidden_size": ("units",),
    "kernel_size": ("window",),
    "pool_size": ("window",),
    "strides": ("stride",),
    "dilation_rate": ("dilation",),
    "num_features": ("features",),
    "num_channels": ("features",),
    "embed_dim": ("features",),
    "embedding_dim": ("features",),
    "num_embeddings": ("count",),
    "num_groups": ("groups",),
    "num_heads": ("heads",),
    "key_dim": ("size",),
    "head_dim": ("size",),
    "normalized_shape": ("shape",),
    "elementwise_affine": ("affine",),
    "momentum": ("decay",),
    "use_bias": ("bias",),
    "center": ("shift",),
    "kernel_initializer": ("init_weight",),
    "recurrent_initializer": ("init_recurrent",),
    "bias_initializer": ("init_bias",),
    "return_sequences": ("sequences",),
    "p": ("rate",),
    "stddev": ("std",),
    "dim": ("axis",),
    "keepdim": ("keepdims",),
    "batch_size": ("batch",),
    "num_epochs": ("epochs",),
    "x": ("data",),
    "max_iter": ("steps",),
    "maxiter": ("steps",),
    "tol": ("tolerance",),
    "method": ("optimiser",),
    "optimize": ("optimise",),
    "device": ("engine",),
    "backend": ("engine",),
    "num_threads": ("threads",),
    "argnum": ("argnums",),
    "size": ("shape",),
    "optimizer": ("optimiser",),
}
"""What other libraries call arguments, and what they are called here."""


def _name_here(word: str, accepted: Collection[str]) -> str:
    """What an argument of another library is called here, if it is known."""
    ours = [name for name in ELSEWHERE.get(word, ()) if name in accepted]
    note = NOTES.get((word, *ours), "")
    return f", which is called {' and '.join(ours)} here{note}" if ours else ""


NOTES: Final[dict[tuple[str, ...], str]] = {
    ("momentum", "decay"): " (as in Keras; 1 - momentum of PyTorch)",
    ("alpha", "decay"): " (of RMSprop)",
}


def check_words(cls: type[Any], words: Collection[str]) -> None:
    """Refuse keyword arguments that a class does not take, naming its own."""
    accepted = _words_of(cls) if words else None
    if accepted is None:
        return
    for word in words:
        if word not in accepted:
            said = f"unknown argument {word!r}{_name_here(word, accepted)}"
            raise type_error(cls.__name__, f"{said}; accepted: {', '.join(accepted) or 'none'}")


def _words_of(cls: type[Any]) -> tuple[str, ...] | None:
    """The arguments that a class takes by keyword; None if it takes any."""
    parameters = inspect.signature(cls).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return tuple(
        [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    )
