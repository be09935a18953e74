"""Mathematical functions of vectors, written on the builder.

Each function takes the function being written and values of float32 or float64, scalar or with any
number of lanes, and gives NumPy's special values: signed zeros, infinities, NaN, denormals.  The
error stays below 2 units in the last place for float32 and 4 for float64, over the whole range.
"""

from tawny.engine.llvm.vectormath.error import erf, erfc
from tawny.engine.llvm.vectormath.exponential import exp, exp2, expm1
from tawny.engine.llvm.vectormath.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from tawny.engine.llvm.vectormath.inverse import acos, asin, atan, atan2
from tawny.engine.llvm.vectormath.logarithm import log, log1p, log2, log10
from tawny.engine.llvm.vectormath.powers import cbrt, hypot, pow
from tawny.engine.llvm.vectormath.remainder import fmod
from tawny.engine.llvm.vectormath.trigonometric import cos, sin, tan

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "fmod",
    "hypot",
    "log",
    "log10",
    "log1p",
    "log2",
    "pow",
    "sin",
    "sinh",
    "tan",
    "tanh",
]
