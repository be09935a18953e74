"""Convolutions: each of the three ops is the transpose of the other two, with the same window."""

from __future__ import annotations

from tawny.array import Array
from tawny.autodiff.rules.registry import reverse
from tawny.operator import emit
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
    ConvolutionOp,
)
from tawny.shape import Shape

Pair = tuple[Array, Array]


def _convolution(op: ConvolutionOp) -> Convolution:
    return Convolution(op.strides, op.padding, op.dilation, op.groups)


def _to_input(op: ConvolutionOp, x: Shape) -> ConvolutionInputGradient:
    """From kernel and output to an input of shape `x`."""
    return ConvolutionInputGradient(op.strides, op.padding, op.dilation, op.groups, x[1:-1])


def _to_kernel(op: ConvolutionOp, kernel: Shape) -> ConvolutionKernelGradient:
    """From input and output to a kernel of shape `kernel`."""
    return ConvolutionKernelGradient(op.strides, op.padding, op.dilation, op.groups, kernel[:-2])


@reverse(Convolution)
def _(op: Convolution, cotangent: Array, y: Array, x: Array, kernel: Array) -> Pair:
    return (
        emit(_to_input(op, x.shape), kernel, cotangent),
        emit(_to_kernel(op, kernel.shape), x, cotangent),
    )


@reverse(ConvolutionInputGradient)
def _(
    op: ConvolutionInputGradient, cotangent: Array, y: Array, kernel: Array, output: Array
) -> Pair:
    return (
        emit(_to_kernel(op, kernel.shape), cotangent, output),
        emit(_convolution(op), cotangent, kernel),
    )


@reverse(ConvolutionKernelGradient)
def _(op: ConvolutionKernelGradient, cotangent: Array, y: Array, x: Array, output: Array) -> Pair:
    return (
        emit(_to_input(op, x.shape), cotangent, output),
        emit(_convolution(op), x, cotangent),
    )
