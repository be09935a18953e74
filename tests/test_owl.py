"""Every one of Owl's operations has a counterpart that runs, lazily and eagerly, to the same values."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.special

import tawny as tw
import tawny.eager
import tawny.numpy
from cases import parts
from tawny.array import Array

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
from owl_operations import OPERANDS, OPERATIONS, WITNESS

OWL = """
Noop Var Const Empty Zeros Ones Create Sequential Init OfArray Uniform Gaussian Bernoulli Get
Set GetSlice SetSlice GetFancy SetFancy Copy Reset Reshape Reverse Tile Repeat Pad Concatenate
Stack Split Transpose OneHot Draw Map Fold Scan Delay DelayArray LazyPrint Abs Neg Floor Ceil
Round Sqr Sqrt Log Log2 Log10 Exp Sin Cos Tan Sinh Cosh Tanh Asin Acos Atan Asinh Acosh Atanh
Signum Sigmoid Relu Dawsn Min Max Sum SumReduce LogSumExp Min' Max' Sum' LogSumExp' L1norm'
L2norm' L2NormSqr' ClipByValue ClipByL2norm Pow Atan2 Hypot Min2 Max2 Add Sub Mul Div FMA
ScalarPow PowScalar ScalarAtan2 Atan2Scalar AddScalar SubScalar MulScalar DivScalar ScalarAdd
ScalarSub ScalarMul ScalarDiv EltEqual EltNotEqual EltLess EltGreater EltLessEqual
EltGreaterEqual EltEqualScalar EltNotEqualScalar EltLessScalar EltGreaterScalar
EltLessEqualScalar EltGreaterEqualScalar Conv1d Conv2d Conv3d TransposeConv1d TransposeConv2d
TransposeConv3d DilatedConv1d DilatedConv2d DilatedConv3d MaxPool1d MaxPool2d MaxPool3d
AvgPool1d AvgPool2d AvgPool3d UpSampling2d Conv1dBackwardInput Conv1dBackwardKernel
Conv2dBackwardInput Conv2dBackwardKernel Conv3dBackwardInput Conv3dBackwardKernel
TransposeConv1dBackwardInput TransposeConv1dBackwardKernel TransposeConv2dBackwardInput
TransposeConv2dBackwardKernel TransposeConv3dBackwardInput TransposeConv3dBackwardKernel
DilatedConv1dBackwardInput DilatedConv1dBackwardKernel DilatedConv2dBackwardInput
DilatedConv2dBackwardKernel DilatedConv3dBackwardInput DilatedConv3dBackwardKernel
MaxPool1dBackward MaxPool2dBackward MaxPool3dBackward AvgPool1dBackward AvgPool2dBackward
AvgPool3dBackward UpSampling2dBackward RowNum ColNum Row Rows CopyRowTo CopyColTo Dot Inv Trace
ToRows OfRows Scalar_Add Scalar_Sub Scalar_Mul Scalar_Div Scalar_Pow Scalar_Atan2 Scalar_Abs
Scalar_Neg Scalar_Sqr Scalar_Sqrt Scalar_Exp Scalar_Log Scalar_Log2 Scalar_Log10 Scalar_Signum
Scalar_Floor Scalar_Ceil Scalar_Round Scalar_Sin Scalar_Cos Scalar_Tan Scalar_Sinh Scalar_Cosh
Scalar_Tanh Scalar_Asin Scalar_Acos Scalar_Atan Scalar_Asinh Scalar_Acosh Scalar_Atanh
Scalar_Relu Scalar_Dawsn Scalar_Sigmoid Fused_Adagrad
""".split()
"""The constructors of Owl's type `op`."""


def put(x: np.ndarray, where: object, value: object) -> np.ndarray:
    out = x.copy()
    out[where] = value
    return out


def names(np_like: object, operands: dict[str, object]) -> dict[str, object]:
    return {
        "np": np_like,
        "tw": tw,
        "numpy": np,
        "scipy": scipy,
        "put": put,
        "quiet": io.StringIO(),
        **operands,
    }


def lazy(expression: str) -> list[np.ndarray]:
    operands = {
        k: tawny.numpy.asarray(v) if isinstance(v, np.ndarray) else v for k, v in OPERANDS.items()
    }
    result = parts(eval(expression, names(tawny.numpy, operands)))
    return [a.numpy() if isinstance(a, Array) and a.node.known else a for a in result]


def test_the_table_is_owls() -> None:
    assert len(OWL) == 199
    assert set(OPERATIONS) == set(OWL)
    assert set(WITNESS) <= set(OWL)


@pytest.mark.parametrize("name", OWL)
def test_counterpart_runs_and_agrees(name: str) -> None:
    expression = OPERATIONS[name]
    got = lazy(expression)
    witness = WITNESS.get(name, expression)
    if witness == "no value to compare":
        assert all(a.shape in {(3, 4), (2, 4)} for a in got)
        return
    if witness.startswith("case tables"):
        expected = parts(eval(expression, names(tawny.eager, OPERANDS)))
    else:
        expected = parts(eval(witness, names(np, OPERANDS)))
    assert len(got) == len(expected)
    for g, w in zip(got, expected, strict=True):
        assert np.shape(g) == np.shape(w)
        np.testing.assert_allclose(g, w, rtol=1e-12)
