"""What oneDNN offers: for an op class, a rule that gives a kernel for a number of threads."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from tawny.engine.cpu.kernel_table import Kernel
from tawny.engine.cpu.onednn.convolution import convolution, input_gradient, kernel_gradient
from tawny.engine.cpu.onednn.library import RefusedError, load
from tawny.engine.cpu.onednn.matmul import matmul
from tawny.engine.cpu.onednn.pooling import max_gradient, mean_gradient, pooling
from tawny.engine.layout import Memory
from tawny.node import Node
from tawny.op import Op
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
)
from tawny.ops.fusion import FusedConvolution, FusedMatmul
from tawny.ops.linalg import Matmul
from tawny.ops.pooling import AvgPool, AvgPoolGradient, MaxPool, MaxPoolGradient

Offer = Callable[[Node, Sequence[Memory], Sequence[Memory], int], Kernel | None]

OFFERS: Final[Mapping[type[Op], Offer]] = {
    Convolution: convolution,
    FusedConvolution: convolution,
    ConvolutionInputGradient: input_gradient,
    ConvolutionKernelGradient: kernel_gradient,
    Matmul: matmul,
    FusedMatmul: matmul,
    AvgPool: pooling,
    AvgPoolGradient: mean_gradient,
}
"""Ops that oneDNN computes as we do, special values among them."""

WITNESSES: Final[Mapping[type[Op], Offer]] = {
    **OFFERS,
    MaxPool: pooling,
    MaxPoolGradient: max_gradient,
}
"""Ops that oneDNN computes as we do where numbers are finite: its maxima pass over NaN and -inf."""

MOST: Final = 256
"""Kernels that are remembered."""

FLOAT: Final = np.dtype(np.float32)


def offer(
    node: Node, operands: tuple[Memory, ...], results: tuple[Memory, ...], threads: int
) -> Kernel | None:
    """The library's kernel of a node; None where it has none."""
    if type(node.op) not in WITNESSES or not _suits((*operands, *results)) or _is_scaled(node.op):
        return None
    question = node.op, operands, results, threads
    try:
        return _ANSWERS[question]
    except KeyError:
        answer = _ANSWERS[question] = _answer(node, operands, results, threads)
    while len(_ANSWERS) > MOST:
        _ANSWERS.popitem(last=False)
    return answer


def _suits(memory: Sequence[Memory]) -> bool:
    return all(m.dtype == FLOAT and 0 not in m.shape for m in memory)


def _is_scaled(op: Op) -> bool:
    """Whether a product is multiplied before its bias is added, for which there is no post-op."""
    return isinstance(op, (FusedConvolution, FusedMatmul)) and op.epilogue.scaled


Question = tuple[Op, tuple[Memory, ...], tuple[Memory, ...], int]

_ANSWERS: Final[OrderedDict[Question, Kernel | None]] = OrderedDict()


def _answer(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    library = load()
    if library is None:
        return None
    with library.threads(threads):
        try:
            return WITNESSES[type(node.op)](node, operands, results, threads)
        except RefusedError:
            return None
