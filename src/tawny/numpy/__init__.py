"""NumPy's names over lazy arrays: the array API standard 2025.12 and NumPy's own beside it.

This is the one list of what is public here.  `tawny.eager` has the same functions, computed now.
"""

import math as _math
from typing import Any as _Any
from typing import Final as _Final

import numpy as _numpy

from tawny.dtype import bfloat16 as _bfloat16
from tawny.numpy import fft as fft
from tawny.numpy import linalg as linalg
from tawny.numpy import protocols as _protocols  # noqa: F401  # pyright: ignore[reportUnusedImport]
from tawny.numpy.absent import absence as _absence
from tawny.numpy.arrangement import apply_along_axis as apply_along_axis
from tawny.numpy.arrangement import apply_over_axes as apply_over_axes
from tawny.numpy.arrangement import block as block
from tawny.numpy.arrangement import resize as resize
from tawny.numpy.arrangement import sliding_window_view as sliding_window_view
from tawny.numpy.axis_functions import average as average
from tawny.numpy.axis_functions import count_nonzero as count_nonzero
from tawny.numpy.axis_functions import log_softmax as log_softmax
from tawny.numpy.axis_functions import ptp as ptp
from tawny.numpy.axis_functions import softmax as softmax
from tawny.numpy.calculus import corrcoef as corrcoef
from tawny.numpy.calculus import cov as cov
from tawny.numpy.calculus import ediff1d as ediff1d
from tawny.numpy.calculus import gradient as gradient
from tawny.numpy.calculus import interp as interp
from tawny.numpy.calculus import nancumprod as nancumprod
from tawny.numpy.calculus import nancumsum as nancumsum
from tawny.numpy.calculus import polyfit as polyfit
from tawny.numpy.calculus import trapezoid as trapezoid
from tawny.numpy.calculus import unwrap as unwrap
from tawny.numpy.composite import allclose as allclose
from tawny.numpy.composite import angle as angle
from tawny.numpy.composite import array_equal as array_equal
from tawny.numpy.composite import clip as clip
from tawny.numpy.composite import clip_by_norm as clip_by_norm
from tawny.numpy.composite import cumprod as cumprod
from tawny.numpy.composite import cumsum as cumsum
from tawny.numpy.composite import diff as diff
from tawny.numpy.composite import divmod as divmod
from tawny.numpy.composite import fabs as fabs
from tawny.numpy.composite import float_power as float_power
from tawny.numpy.composite import isclose as isclose
from tawny.numpy.composite import iscomplex as iscomplex
from tawny.numpy.composite import isneginf as isneginf
from tawny.numpy.composite import isposinf as isposinf
from tawny.numpy.composite import isreal as isreal
from tawny.numpy.composite import modf as modf
from tawny.numpy.composite import nan_to_num as nan_to_num
from tawny.numpy.composite import round as round
from tawny.numpy.composite import select as select
from tawny.numpy.composite import sinc as sinc
from tawny.numpy.composite import where as where
from tawny.numpy.digits import bitwise_count as bitwise_count
from tawny.numpy.digits import frexp as frexp
from tawny.numpy.digits import ldexp as ldexp
from tawny.numpy.digits import packbits as packbits
from tawny.numpy.digits import spacing as spacing
from tawny.numpy.digits import unpackbits as unpackbits
from tawny.numpy.files import array2string as array2string
from tawny.numpy.files import array_repr as array_repr
from tawny.numpy.files import array_str as array_str
from tawny.numpy.files import save as save
from tawny.numpy.files import savetxt as savetxt
from tawny.numpy.files import savez as savez
from tawny.numpy.files import savez_compressed as savez_compressed
from tawny.numpy.grids import diag_indices as diag_indices
from tawny.numpy.grids import diag_indices_from as diag_indices_from
from tawny.numpy.grids import fromfunction as fromfunction
from tawny.numpy.grids import geomspace as geomspace
from tawny.numpy.grids import indices as indices
from tawny.numpy.grids import ix_ as ix_
from tawny.numpy.grids import linspace as linspace
from tawny.numpy.grids import logspace as logspace
from tawny.numpy.grids import mask_indices as mask_indices
from tawny.numpy.grids import mgrid as mgrid
from tawny.numpy.grids import ogrid as ogrid
from tawny.numpy.grids import ravel_multi_index as ravel_multi_index
from tawny.numpy.grids import tril_indices as tril_indices
from tawny.numpy.grids import tril_indices_from as tril_indices_from
from tawny.numpy.grids import triu_indices as triu_indices
from tawny.numpy.grids import triu_indices_from as triu_indices_from
from tawny.numpy.grids import unravel_index as unravel_index
from tawny.numpy.histograms import histogram as histogram
from tawny.numpy.histograms import histogram2d as histogram2d
from tawny.numpy.histograms import histogram_bin_edges as histogram_bin_edges
from tawny.numpy.histograms import histogramdd as histogramdd
from tawny.numpy.missing import nanmax as nanmax
from tawny.numpy.missing import nanmean as nanmean
from tawny.numpy.missing import nanmin as nanmin
from tawny.numpy.missing import nanprod as nanprod
from tawny.numpy.missing import nanstd as nanstd
from tawny.numpy.missing import nansum as nansum
from tawny.numpy.missing import nanvar as nanvar
from tawny.numpy.mutation import copyto as copyto
from tawny.numpy.mutation import fill_diagonal as fill_diagonal
from tawny.numpy.mutation import place as place
from tawny.numpy.mutation import put as put
from tawny.numpy.mutation import put_along_axis as put_along_axis
from tawny.numpy.mutation import putmask as putmask
from tawny.numpy.padding import pad as pad
from tawny.numpy.polynomials import poly as poly
from tawny.numpy.polynomials import polyadd as polyadd
from tawny.numpy.polynomials import polyder as polyder
from tawny.numpy.polynomials import polydiv as polydiv
from tawny.numpy.polynomials import polyint as polyint
from tawny.numpy.polynomials import polymul as polymul
from tawny.numpy.polynomials import polysub as polysub
from tawny.numpy.polynomials import roots as roots
from tawny.numpy.queries import array_equiv as array_equiv
from tawny.numpy.queries import choose as choose
from tawny.numpy.queries import compress as compress
from tawny.numpy.queries import extract as extract
from tawny.numpy.queries import iscomplexobj as iscomplexobj
from tawny.numpy.queries import isrealobj as isrealobj
from tawny.numpy.queries import isscalar as isscalar
from tawny.numpy.queries import iterable as iterable
from tawny.numpy.queries import nanargmax as nanargmax
from tawny.numpy.queries import nanargmin as nanargmin
from tawny.numpy.queries import ndim as ndim
from tawny.numpy.queries import piecewise as piecewise
from tawny.numpy.queries import real_if_close as real_if_close
from tawny.numpy.queries import shape as shape
from tawny.numpy.queries import size as size
from tawny.numpy.queries import trim_zeros as trim_zeros
from tawny.numpy.sets import intersect1d as intersect1d
from tawny.numpy.sets import setdiff1d as setdiff1d
from tawny.numpy.sets import setxor1d as setxor1d
from tawny.numpy.sets import union1d as union1d
from tawny.numpy.sets import unique as unique
from tawny.numpy.sets import unique_all as unique_all
from tawny.numpy.sets import unique_counts as unique_counts
from tawny.numpy.sets import unique_inverse as unique_inverse
from tawny.numpy.sets import unique_values as unique_values
from tawny.numpy.statistics import median as median
from tawny.numpy.statistics import nanmedian as nanmedian
from tawny.numpy.statistics import nanpercentile as nanpercentile
from tawny.numpy.statistics import nanquantile as nanquantile
from tawny.numpy.statistics import percentile as percentile
from tawny.numpy.statistics import quantile as quantile
from tawny.numpy.types import __array_namespace_info__ as __array_namespace_info__
from tawny.numpy.types import can_cast as can_cast
from tawny.numpy.types import common_type as common_type
from tawny.numpy.types import finfo as finfo
from tawny.numpy.types import iinfo as iinfo
from tawny.numpy.types import isdtype as isdtype
from tawny.numpy.types import issubdtype as issubdtype
from tawny.numpy.types import min_scalar_type as min_scalar_type
from tawny.numpy.types import promote_types as promote_types
from tawny.numpy.types import result_type as result_type
from tawny.numpy.ufunc_methods import attach_methods as _attach_methods
from tawny.numpy.windows import bartlett as bartlett
from tawny.numpy.windows import blackman as blackman
from tawny.numpy.windows import hamming as hamming
from tawny.numpy.windows import hanning as hanning
from tawny.numpy.windows import i0 as i0
from tawny.numpy.windows import kaiser as kaiser
from tawny.ops.assignment import at as at
from tawny.ops.convolution import conv1d as conv1d
from tawny.ops.convolution import conv2d as conv2d
from tawny.ops.convolution import conv3d as conv3d
from tawny.ops.convolution import conv_input_gradient as conv_input_gradient
from tawny.ops.convolution import conv_kernel_gradient as conv_kernel_gradient
from tawny.ops.convolution import conv_transpose1d as conv_transpose1d
from tawny.ops.convolution import conv_transpose2d as conv_transpose2d
from tawny.ops.convolution import conv_transpose3d as conv_transpose3d
from tawny.ops.convolution import depthwise_conv1d as depthwise_conv1d
from tawny.ops.convolution import depthwise_conv2d as depthwise_conv2d
from tawny.ops.convolution import depthwise_conv3d as depthwise_conv3d
from tawny.ops.creation import arange as arange
from tawny.ops.creation import array as array
from tawny.ops.creation import asanyarray as asanyarray
from tawny.ops.creation import asarray as asarray
from tawny.ops.creation import ascontiguousarray as ascontiguousarray
from tawny.ops.creation import astype as astype
from tawny.ops.creation import copy as copy
from tawny.ops.creation import empty as empty
from tawny.ops.creation import empty_like as empty_like
from tawny.ops.creation import eye as eye
from tawny.ops.creation import from_dlpack as from_dlpack
from tawny.ops.creation import full as full
from tawny.ops.creation import full_like as full_like
from tawny.ops.creation import identity as identity
from tawny.ops.creation import ones as ones
from tawny.ops.creation import ones_like as ones_like
from tawny.ops.creation import zeros as zeros
from tawny.ops.creation import zeros_like as zeros_like
from tawny.ops.cumulative import cumulative_prod as cumulative_prod
from tawny.ops.cumulative import cumulative_sum as cumulative_sum
from tawny.ops.delay import delay as delay
from tawny.ops.delay import fold as fold
from tawny.ops.delay import lazy_print as lazy_print
from tawny.ops.delay import map_elements as map_elements
from tawny.ops.delay import scan as scan
from tawny.ops.diagonal import diag as diag
from tawny.ops.diagonal import diagflat as diagflat
from tawny.ops.diagonal import diagonal as diagonal
from tawny.ops.diagonal import trace as trace
from tawny.ops.diagonal import tri as tri
from tawny.ops.diagonal import tril as tril
from tawny.ops.diagonal import triu as triu
from tawny.ops.einsum import einsum as einsum
from tawny.ops.einsum import einsum_path as einsum_path
from tawny.ops.elementwise import abs as abs
from tawny.ops.elementwise import acos as acos
from tawny.ops.elementwise import acosh as acosh
from tawny.ops.elementwise import adagrad_rate as adagrad_rate
from tawny.ops.elementwise import add as add
from tawny.ops.elementwise import asin as asin
from tawny.ops.elementwise import asinh as asinh
from tawny.ops.elementwise import atan as atan
from tawny.ops.elementwise import atan2 as atan2
from tawny.ops.elementwise import atanh as atanh
from tawny.ops.elementwise import bitwise_and as bitwise_and
from tawny.ops.elementwise import bitwise_invert as bitwise_invert
from tawny.ops.elementwise import bitwise_left_shift as bitwise_left_shift
from tawny.ops.elementwise import bitwise_or as bitwise_or
from tawny.ops.elementwise import bitwise_right_shift as bitwise_right_shift
from tawny.ops.elementwise import bitwise_xor as bitwise_xor
from tawny.ops.elementwise import cbrt as cbrt
from tawny.ops.elementwise import ceil as ceil
from tawny.ops.elementwise import conj as conj
from tawny.ops.elementwise import copysign as copysign
from tawny.ops.elementwise import cos as cos
from tawny.ops.elementwise import cosh as cosh
from tawny.ops.elementwise import dawsn as dawsn
from tawny.ops.elementwise import deg2rad as deg2rad
from tawny.ops.elementwise import divide as divide
from tawny.ops.elementwise import equal as equal
from tawny.ops.elementwise import erf as erf
from tawny.ops.elementwise import erfc as erfc
from tawny.ops.elementwise import exp as exp
from tawny.ops.elementwise import exp2 as exp2
from tawny.ops.elementwise import expm1 as expm1
from tawny.ops.elementwise import floor as floor
from tawny.ops.elementwise import floor_divide as floor_divide
from tawny.ops.elementwise import fma as fma
from tawny.ops.elementwise import fmax as fmax
from tawny.ops.elementwise import fmin as fmin
from tawny.ops.elementwise import fmod as fmod
from tawny.ops.elementwise import gcd as gcd
from tawny.ops.elementwise import greater as greater
from tawny.ops.elementwise import greater_equal as greater_equal
from tawny.ops.elementwise import heaviside as heaviside
from tawny.ops.elementwise import hypot as hypot
from tawny.ops.elementwise import imag as imag
from tawny.ops.elementwise import isfinite as isfinite
from tawny.ops.elementwise import isinf as isinf
from tawny.ops.elementwise import isnan as isnan
from tawny.ops.elementwise import lcm as lcm
from tawny.ops.elementwise import less as less
from tawny.ops.elementwise import less_equal as less_equal
from tawny.ops.elementwise import log as log
from tawny.ops.elementwise import log1p as log1p
from tawny.ops.elementwise import log2 as log2
from tawny.ops.elementwise import log10 as log10
from tawny.ops.elementwise import logaddexp as logaddexp
from tawny.ops.elementwise import logaddexp2 as logaddexp2
from tawny.ops.elementwise import logical_and as logical_and
from tawny.ops.elementwise import logical_not as logical_not
from tawny.ops.elementwise import logical_or as logical_or
from tawny.ops.elementwise import logical_xor as logical_xor
from tawny.ops.elementwise import maximum as maximum
from tawny.ops.elementwise import minimum as minimum
from tawny.ops.elementwise import multiply as multiply
from tawny.ops.elementwise import negative as negative
from tawny.ops.elementwise import nextafter as nextafter
from tawny.ops.elementwise import not_equal as not_equal
from tawny.ops.elementwise import positive as positive
from tawny.ops.elementwise import pow as pow
from tawny.ops.elementwise import rad2deg as rad2deg
from tawny.ops.elementwise import real as real
from tawny.ops.elementwise import reciprocal as reciprocal
from tawny.ops.elementwise import relu as relu
from tawny.ops.elementwise import remainder as remainder
from tawny.ops.elementwise import rint as rint
from tawny.ops.elementwise import sigmoid as sigmoid
from tawny.ops.elementwise import sign as sign
from tawny.ops.elementwise import signbit as signbit
from tawny.ops.elementwise import sin as sin
from tawny.ops.elementwise import sinh as sinh
from tawny.ops.elementwise import softplus as softplus
from tawny.ops.elementwise import sqrt as sqrt
from tawny.ops.elementwise import square as square
from tawny.ops.elementwise import subtract as subtract
from tawny.ops.elementwise import tan as tan
from tawny.ops.elementwise import tanh as tanh
from tawny.ops.elementwise import trunc as trunc
from tawny.ops.joining import append as append
from tawny.ops.joining import array_split as array_split
from tawny.ops.joining import column_stack as column_stack
from tawny.ops.joining import concat as concat
from tawny.ops.joining import concatenate as concatenate
from tawny.ops.joining import delete as delete
from tawny.ops.joining import dsplit as dsplit
from tawny.ops.joining import dstack as dstack
from tawny.ops.joining import hsplit as hsplit
from tawny.ops.joining import hstack as hstack
from tawny.ops.joining import insert as insert
from tawny.ops.joining import meshgrid as meshgrid
from tawny.ops.joining import repeat as repeat
from tawny.ops.joining import split as split
from tawny.ops.joining import stack as stack
from tawny.ops.joining import tile as tile
from tawny.ops.joining import unstack as unstack
from tawny.ops.joining import vsplit as vsplit
from tawny.ops.joining import vstack as vstack
from tawny.ops.linalg import cross as cross
from tawny.ops.linalg import dot as dot
from tawny.ops.linalg import inner as inner
from tawny.ops.linalg import kron as kron
from tawny.ops.linalg import matmul as matmul
from tawny.ops.linalg import matvec as matvec
from tawny.ops.linalg import outer as outer
from tawny.ops.linalg import tensordot as tensordot
from tawny.ops.linalg import vdot as vdot
from tawny.ops.linalg import vecdot as vecdot
from tawny.ops.linalg import vecmat as vecmat
from tawny.ops.movement import atleast_1d as atleast_1d
from tawny.ops.movement import atleast_2d as atleast_2d
from tawny.ops.movement import atleast_3d as atleast_3d
from tawny.ops.movement import broadcast_arrays as broadcast_arrays
from tawny.ops.movement import broadcast_shapes as broadcast_shapes
from tawny.ops.movement import broadcast_to as broadcast_to
from tawny.ops.movement import expand_dims as expand_dims
from tawny.ops.movement import flip as flip
from tawny.ops.movement import fliplr as fliplr
from tawny.ops.movement import flipud as flipud
from tawny.ops.movement import matrix_transpose as matrix_transpose
from tawny.ops.movement import moveaxis as moveaxis
from tawny.ops.movement import permute_dims as permute_dims
from tawny.ops.movement import ravel as ravel
from tawny.ops.movement import reshape as reshape
from tawny.ops.movement import roll as roll
from tawny.ops.movement import rollaxis as rollaxis
from tawny.ops.movement import rot90 as rot90
from tawny.ops.movement import squeeze as squeeze
from tawny.ops.movement import swapaxes as swapaxes
from tawny.ops.movement import transpose as transpose
from tawny.ops.pooling import avg_pool1d as avg_pool1d
from tawny.ops.pooling import avg_pool2d as avg_pool2d
from tawny.ops.pooling import avg_pool3d as avg_pool3d
from tawny.ops.pooling import avg_pool_gradient as avg_pool_gradient
from tawny.ops.pooling import global_avg_pool as global_avg_pool
from tawny.ops.pooling import global_max_pool as global_max_pool
from tawny.ops.pooling import max_pool1d as max_pool1d
from tawny.ops.pooling import max_pool2d as max_pool2d
from tawny.ops.pooling import max_pool3d as max_pool3d
from tawny.ops.pooling import max_pool_gradient as max_pool_gradient
from tawny.ops.pooling import max_pool_select as max_pool_select
from tawny.ops.pooling import upsampling1d as upsampling1d
from tawny.ops.pooling import upsampling2d as upsampling2d
from tawny.ops.pooling import upsampling3d as upsampling3d
from tawny.ops.pooling import upsampling_gradient as upsampling_gradient
from tawny.ops.reduction import all as all
from tawny.ops.reduction import any as any
from tawny.ops.reduction import argmax as argmax
from tawny.ops.reduction import argmin as argmin
from tawny.ops.reduction import logsumexp as logsumexp
from tawny.ops.reduction import max as max
from tawny.ops.reduction import mean as mean
from tawny.ops.reduction import min as min
from tawny.ops.reduction import prod as prod
from tawny.ops.reduction import std as std
from tawny.ops.reduction import sum as sum
from tawny.ops.reduction import var as var
from tawny.ops.selection import argwhere as argwhere
from tawny.ops.selection import flatnonzero as flatnonzero
from tawny.ops.selection import nonzero as nonzero
from tawny.ops.selection import one_hot as one_hot
from tawny.ops.selection import take as take
from tawny.ops.selection import take_along_axis as take_along_axis
from tawny.ops.series import convolve as convolve
from tawny.ops.series import correlate as correlate
from tawny.ops.series import polyval as polyval
from tawny.ops.series import vander as vander
from tawny.ops.sorting import argpartition as argpartition
from tawny.ops.sorting import argsort as argsort
from tawny.ops.sorting import bincount as bincount
from tawny.ops.sorting import digitize as digitize
from tawny.ops.sorting import isin as isin
from tawny.ops.sorting import lexsort as lexsort
from tawny.ops.sorting import partition as partition
from tawny.ops.sorting import searchsorted as searchsorted
from tawny.ops.sorting import sort as sort
from tawny.ops.sorting import sort_complex as sort_complex
from tawny.ops.sorting import top_k as top_k
from tawny.public_names import export_imports as _export_imports
from tawny.scopes import name as name

__array_api_version__: _Final = "2025.12"

e: _Final = _math.e
inf: _Final = _numpy.inf
nan: _Final = _numpy.nan
newaxis: _Final = None
euler_gamma: _Final = _numpy.euler_gamma
little_endian: _Final = _numpy.little_endian
pi: _Final = _numpy.pi

bool = _numpy.bool
bool_ = _numpy.bool_
int8 = _numpy.int8
int16 = _numpy.int16
int32 = _numpy.int32
int64 = _numpy.int64
uint8 = _numpy.uint8
uint16 = _numpy.uint16
uint32 = _numpy.uint32
uint64 = _numpy.uint64
float16 = _numpy.float16
float32 = _numpy.float32
float64 = _numpy.float64
complex64 = _numpy.complex64
complex128 = _numpy.complex128

# NumPy's other names of these functions
absolute = abs
amax = max
amin = min
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
around = round
bitwise_not = bitwise_invert
conjugate = conj
degrees = rad2deg
fix = trunc
invert = bitwise_invert
left_shift = bitwise_left_shift
mod = remainder
power = pow
radians = deg2rad
right_shift = bitwise_right_shift
true_divide = divide

# NumPy's other names of these types, its kinds of types, and what knows nothing of arrays
byte = _numpy.byte
ubyte = _numpy.ubyte
short = _numpy.short
ushort = _numpy.ushort
intc = _numpy.intc
uintc = _numpy.uintc
int_ = _numpy.int_
uint = _numpy.uint
long = _numpy.long
ulong = _numpy.ulong
longlong = _numpy.longlong
ulonglong = _numpy.ulonglong
intp = _numpy.intp
uintp = _numpy.uintp
half = _numpy.half
single = _numpy.single
double = _numpy.double
csingle = _numpy.csingle
cdouble = _numpy.cdouble
generic = _numpy.generic
number = _numpy.number
integer = _numpy.integer
signedinteger = _numpy.signedinteger
unsignedinteger = _numpy.unsignedinteger
inexact = _numpy.inexact
floating = _numpy.floating
complexfloating = _numpy.complexfloating
dtype = _numpy.dtype
True_ = _numpy.True_
False_ = _numpy.False_
errstate = _numpy.errstate
ndindex = _numpy.ndindex
s_ = _numpy.s_
index_exp = _numpy.index_exp
exceptions = _numpy.exceptions

_attach_methods()
_export_imports(__name__, "fft", "linalg")


def __getattr__(name: str) -> _Any:
    if name == "bfloat16":
        return _bfloat16().type
    raise _absence("tawny.numpy", name)
