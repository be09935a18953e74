"""Who computes a node where there is a choice: kernels of our own, or oneDNN's.

`TAWNY_PROVIDER` names one: `own`; `onednn`, for all that it computes as we do; `auto`, the default,
which takes oneDNN where it is installed and was measured to be faster.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tawny.engine.cpu.kernels import Choice, Kernel, Memory, contiguous, kernel_for
from tawny.engine.cpu.pool import NOMINAL_THREADS
from tawny.engine.cpu.views import Views
from tawny.errors import value_error
from tawny.graph.lowering import types
from tawny.lazy import LazyModule
from tawny.node import Node
from tawny.ops.convolution import Convolution, ConvolutionInputGradient, Windowed
from tawny.ops.fusion import FusedConvolution
from tawny.settings import text

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
    "described",
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
    named = text(OPTION)
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
    """The kernel that computes a node on so many threads; None where NumPy does."""
    wanted = provider()
    if (wanted is Provider.ONEDNN and type(node.op) in offers.OFFERS) or (
        wanted is Provider.AUTO and faster(node, operands, results)
    ):
        found = offers.offered(node, operands, results, threads)
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


class Layer(NamedTuple):
    """A convolution as a product: what its time depends on."""

    places: int
    """Where the window is laid, in all images."""
    taps: int
    groups: int
    channels: int
    """Of a group."""
    outputs: int
    """Of all groups."""

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.places * self.taps * self.channels * self.outputs


class Rule(NamedTuple):
    """A class of layers that oneDNN computes faster."""

    says: str
    holds: Callable[[Layer], bool]
    least: int
    """For fewer operations changing to the threads of OpenMP and back, 20 us, costs the gain."""
    ratio: tuple[float, float]
    """How often as fast it was at least and at most, by `benchmarks/cpu_providers.py others`."""


def _small_groups(layer: Layer) -> bool:
    return layer.groups > 1 and 2 <= layer.channels <= 8 and layer.taps > 1


RULES: Final = (
    Rule(
        "groups of 2 to 8 channels, several taps",
        _small_groups,
        2_000_000,
        (1.2, 4.2),
    ),
)
"""For convolutions and the gradients of their inputs; a class is listed from 1.2 times on.

Elsewhere oneDNN is ahead by 0 to 0.25 (three axes, strided batches, the first layers of networks)
or not always (each channel for itself: 0.6 to 1.5 times as fast), or behind: on nine taps with
stride 1 it is 0.5 to 0.65 times as fast as Winograd's method, on small matrices 0.4 to 0.7 times.
Its gradients of kernels depend on the number of threads."""


def faster(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> bool:
    """Whether oneDNN's kernel is the faster one, as far as was measured.

    Kernels it is chosen for gave the same bits on any number of threads, wherever that was tried.
    """
    op = node.op
    if isinstance(op, (Convolution, FusedConvolution)):
        layer = _layer(op, operands[1], results[0])
    elif isinstance(op, ConvolutionInputGradient):
        layer = _layer(op, operands[0], operands[1])
    else:
        return False
    return any(layer.operations >= rule.least and rule.holds(layer) for rule in RULES)


def _layer(op: Windowed, kernel: Memory, result: Memory) -> Layer:
    *window, channels, outputs = kernel.shape
    return Layer(math.prod(result.shape[:-1]), math.prod(window), op.groups, channels, outputs)


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


def described() -> str:
    """Who computes products, convolutions and pooling here, in words."""
    wanted, library = provider(), onednn.loaded()
    if library is None:
        return f"our own kernels; no oneDNN: {onednn.missing()}"
    said = {
        Provider.OWN: "our own kernels, as {option} says; oneDNN {version} is there",
        Provider.ONEDNN: "oneDNN {version} for all it computes alike, as {option} says",
        Provider.AUTO: "our own kernels, and oneDNN {version} where it was measured to be faster",
    }
    return said[wanted].format(option=OPTION, version=library.version)
