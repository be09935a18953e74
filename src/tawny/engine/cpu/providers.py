"""Who computes a node where there is a choice: kernels of our own, or oneDNN's.

`TAWNY_PROVIDER` names one: `own`; `onednn`, for all that it computes as we do; `auto`, the default,
which takes oneDNN where it is installed and was measured to be faster.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tawny.engine.cpu.kernel_table import Choice, Kernel, kernel_for
from tawny.engine.cpu.products.choice import is_faster_by_onednn
from tawny.engine.cpu.threads.pool import NOMINAL_THREADS
from tawny.engine.layout import Memory, Views, contiguous
from tawny.engine.lowering import types
from tawny.errors import value_error
from tawny.lazy import LazyModule
from tawny.node import Node
from tawny.ops.convolution import ConvolutionInputGradient
from tawny.settings import read_setting

if TYPE_CHECKING:
    from tawny.engine.cpu.onednn import library as onednn
    from tawny.engine.cpu.onednn import offers
else:
    onednn = LazyModule("tawny.engine.cpu.onednn.library")
    offers = LazyModule("tawny.engine.cpu.onednn.offers")

__all__ = [
    "OPTION",
    "Provider",
    "account",
    "choose",
    "describe_provider",
    "kernel_alone",
    "kernel_of",
    "provider",
]

OPTION: Final = "TAWNY_PROVIDER"
"""The environment variable that names the provider."""


class Provider(enum.Enum):
    """Whose kernels are taken."""

    OWN = "own"
    ONEDNN = "onednn"
    AUTO = "auto"


def provider() -> Provider:
    """What the environment asks for."""
    named = read_setting(OPTION)
    if not named:
        return Provider.AUTO
    try:
        return Provider(named)
    except ValueError:
        accepted = ", ".join(p.value for p in Provider)
        raise value_error(OPTION, f"{named!r} is no provider; accepted: {accepted}") from None


def kernel_of(
    node: Node,
    operands: tuple[Memory, ...],
    results: tuple[Memory, ...],
    threads: int,
) -> Kernel | None:
    """The kernel that computes a node on a number of threads; None where NumPy does."""
    wanted = provider()
    if (wanted is Provider.ONEDNN and type(node.op) in offers.OFFERS) or (
        wanted is Provider.AUTO and faster(node, operands)
    ):
        found = offers.offer(node, operands, results, threads)
        if found is not None:
            return found
    return kernel_for(node, operands, results, threads)


def kernel_alone(node: Node, threads: int = NOMINAL_THREADS) -> Kernel | None:
    """The kernel that computes a node whose results lie as new arrays would."""
    choice = choose(node, threads)
    return None if choice is None else choice.kernel


def choose(node: Node, threads: int, views: Views | None = None) -> Choice | None:
    """The kernel that computes a node whose results lie as new arrays would, and what it is for."""
    views = Views() if views is None else views
    operands = tuple([views(source).memory for source in node.inputs])
    results = tuple([contiguous(*kind) for kind in types(node)])
    kernel = kernel_of(node, operands, results, threads)
    return None if kernel is None else Choice(node, operands, results, kernel)


# ----------------------------------------------------------------------- rules


def faster(node: Node, operands: Sequence[Memory]) -> bool:
    """Whether oneDNN's kernel is the faster one, as far as was measured."""
    if not isinstance(node.op, ConvolutionInputGradient):
        return False
    return is_faster_by_onednn(node.op, operands[0].shape, operands[1].shape)


# -------------------------------------------------------------------- in words


def account(kernels: Iterable[tuple[Node, Kernel | None]]) -> str:
    """Which steps another library computes, in words; nothing where it computes none."""
    served = Counter(node.name for node, kernel in kernels if kernel and kernel.provider)
    listed = ", ".join(f"{name} {n}" if n > 1 else name for name, n in served.items())
    if served:
        return f"; by oneDNN: {listed}"
    asked = provider() is Provider.ONEDNN
    reason = onednn.missing() if asked else None
    return f"; {OPTION} asks for oneDNN, but {reason}" if reason else ""


def describe_provider() -> str:
    """Who computes products, convolutions and pooling here, in words."""
    wanted, library = provider(), onednn.load()
    if library is None:
        return f"our own kernels; no oneDNN: {onednn.missing()}"
    said = {
        Provider.OWN: "our own kernels, as {option} says; oneDNN {version} is there",
        Provider.ONEDNN: "oneDNN {version} for all it computes alike, as {option} says",
        Provider.AUTO: "our own kernels, and oneDNN {version} where it was measured to be faster",
    }
    return said[wanted].format(option=OPTION, version=library.version)
