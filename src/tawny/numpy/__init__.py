"""NumPy's names over lazy arrays: the array API standard 2025.12 and NumPy's own beside it.

This is the one list of what is public here.  `tawny.eager` has the same functions, computed now.
"""

from __future__ import annotations

from typing import Final
from typing import Never as _Never

import numpy as _numpy

from tawny.numpy import fft as fft
from tawny.numpy import linalg as linalg
from tawny.numpy import protocols as _protocols  # noqa: F401  # pyright: ignore[reportUnusedImport]
from tawny.numpy.absent import absence as _absence
from tawny.numpy.files import array2string as array2string
from tawny.numpy.files import array_repr as array_repr
from tawny.numpy.files import array_str as array_str
from tawny.numpy.files import save as save
from tawny.numpy.files import savetxt as savetxt
from tawny.numpy.files import savez as savez
from tawny.numpy.files import savez_compressed as savez_compressed
from tawny.numpy.inspection import __array_namespace_info__ as __array_namespace_info__
from tawny.numpy.types import can_cast as can_cast
from tawny.numpy.types import common_type as common_type
from tawny.numpy.types import finfo as finfo
from tawny.numpy.types import iinfo as iinfo
from tawny.numpy.types import isdtype as isdtype
from tawny.numpy.types import issubdtype as issubdtype
from tawny.numpy.types import min_scalar_type as min_scalar_type
from tawny.numpy.types import promote_types as promote_types
from tawny.numpy.types import result_type as result_type
from tawny.ops.arrangement import apply_along_axis as apply_along_axis
from tawny.ops.arrangement import apply_over_axes as apply_over_axes
from tawny.ops.arrangement import block as block
from tawny.ops.arrangement import resize as resize
from tawny.ops.arrangement import sliding_window_view as sliding_window_view
from tawny.ops.bits import packbits as packbits
from tawny.ops.bits import unpackbits as unpackbits
from tawny.ops.calculus import corrcoef as corrcoef
from tawny.ops.calculus import cov as cov
from tawny.ops.calculus import ediff1d as ediff1d
from tawny.ops.calculus import gradient as gradient
from tawny.ops.calculus import interp as interp
from tawny.ops.calculus import nancumprod as nancumprod
from tawny.ops.calculus import nancumsum as nancumsum
from tawny.ops.calculus import polyfit as polyfit
from tawny.ops.calculus import trapezoid as trapezoid
from tawny.ops.calculus import unwrap as unwrap
from tawny.ops.composite import allclose as allclose
from tawny.ops.composite import angle as angle
from tawny.ops.composite import array_equal as array_equal
from tawny.ops.composite import clip as clip
from tawny.ops.composite import clip_by_norm as clip_by_norm
from tawny.ops.composite import cumprod as cumprod
from tawny.ops.composite import cumsum as cumsum
from tawny.ops.composite import diff as diff
from tawny.ops.composite import divmod as divmod
from tawny.ops.composite import fabs as fabs
from tawny.ops.composite import float_power as float_power
from tawny.ops.composite import isclose as isclose
from tawny.ops.composite import iscomplex as iscomplex
from tawny.ops.composite import isneginf as isneginf
from tawny.ops.composite import isposinf as isposinf
from tawny.ops.composite import isreal as isreal
from tawny.ops.composite import modf as modf
from tawny.ops.composite import nan_to_num as nan_to_num
from tawny.ops.composite import round as around
from tawny.ops.composite import round as round
from tawny.ops.composite import select as select
from tawny.ops.composite import sinc as sinc
from tawny.ops.composite import where as where
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
from tawny.ops.elementwise import abs as abs
from tawny.ops.elementwise import abs as absolute
from tawny.ops.elementwise import acos as acos
from tawny.ops.elementwise import acos as arccos
from tawny.ops.elementwise import acosh as acosh
from tawny.ops.elementwise import acosh as arccosh
from tawny.ops.elementwise import adagrad_rate as adagrad_rate
from tawny.ops.elementwise import add as add
from tawny.ops.elementwise import asin as arcsin
from tawny.ops.elementwise import asin as asin
from tawny.ops.elementwise import asinh as arcsinh
from tawny.ops.elementwise import asinh as asinh
from tawny.ops.elementwise import atan as arctan
from tawny.ops.elementwise import atan as atan
from tawny.ops.elementwise import atan2 as arctan2
from tawny.ops.elementwise import atan2 as atan2
from tawny.ops.elementwise import atanh as arctanh
from tawny.ops.elementwise import atanh as atanh
from tawny.ops.elementwise import bitwise_and as bitwise_and
from tawny.ops.elementwise import bitwise_invert as bitwise_invert
from tawny.ops.elementwise import bitwise_invert as bitwise_not
from tawny.ops.elementwise import bitwise_invert as invert
from tawny.ops.elementwise import bitwise_left_shift as bitwise_left_shift
from tawny.ops.elementwise import bitwise_left_shift as left_shift
from tawny.ops.elementwise import bitwise_or as bitwise_or
from tawny.ops.elementwise import bitwise_right_shift as bitwise_right_shift
from tawny.ops.elementwise import bitwise_right_shift as right_shift
from tawny.ops.elementwise import bitwise_xor as bitwise_xor
from tawny.ops.elementwise import cbrt as cbrt
from tawny.ops.elementwise import ceil as ceil
from tawny.ops.elementwise import conj as conj
from tawny.ops.elementwise import conj as conjugate
from tawny.ops.elementwise import copysign as copysign
from tawny.ops.elementwise import cos as cos
from tawny.ops.elementwise import cosh as cosh
from tawny.ops.elementwise import dawsn as dawsn
from tawny.ops.elementwise import deg2rad as deg2rad
from tawny.ops.elementwise import deg2rad as radians
from tawny.ops.elementwise import divide as divide
from tawny.ops.elementwise import divide as true_divide
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
from tawny.ops.elementwise import pow as power
from tawny.ops.elementwise import rad2deg as degrees
from tawny.ops.elementwise import rad2deg as rad2deg
from tawny.ops.elementwise import real as real
from tawny.ops.elementwise import reciprocal as reciprocal
from tawny.ops.elementwise import relu as relu
from tawny.ops.elementwise import remainder as mod
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
from tawny.ops.elementwise import trunc as fix
from tawny.ops.elementwise import trunc as trunc
from tawny.ops.grids import bartlett as bartlett
from tawny.ops.grids import blackman as blackman
from tawny.ops.grids import diag_indices as diag_indices
from tawny.ops.grids import diag_indices_from as diag_indices_from
from tawny.ops.grids import fromfunction as fromfunction
from tawny.ops.grids import geomspace as geomspace
from tawny.ops.grids import hamming as hamming
from tawny.ops.grids import hanning as hanning
from tawny.ops.grids import indices as indices
from tawny.ops.grids import ix_ as ix_
from tawny.ops.grids import kaiser as kaiser
from tawny.ops.grids import linspace as linspace
from tawny.ops.grids import logspace as logspace
from tawny.ops.grids import mask_indices as mask_indices
from tawny.ops.grids import mgrid as mgrid
from tawny.ops.grids import ogrid as ogrid
from tawny.ops.grids import ravel_multi_index as ravel_multi_index
from tawny.ops.grids import tril_indices as tril_indices
from tawny.ops.grids import tril_indices_from as tril_indices_from
from tawny.ops.grids import triu_indices as triu_indices
from tawny.ops.grids import triu_indices_from as triu_indices_from
from tawny.ops.grids import unravel_index as unravel_index
from tawny.ops.histograms import histogram2d as histogram2d
from tawny.ops.histograms import histogramdd as histogramdd
from tawny.ops.indexing import argwhere as argwhere
from tawny.ops.indexing import flatnonzero as flatnonzero
from tawny.ops.indexing import nonzero as nonzero
from tawny.ops.indexing import one_hot as one_hot
from tawny.ops.indexing import take as take
from tawny.ops.indexing import take_along_axis as take_along_axis
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
from tawny.ops.linalg import einsum as einsum
from tawny.ops.linalg import einsum_path as einsum_path
from tawny.ops.linalg import inner as inner
from tawny.ops.linalg import kron as kron
from tawny.ops.linalg import matmul as matmul
from tawny.ops.linalg import matvec as matvec
from tawny.ops.linalg import outer as outer
from tawny.ops.linalg import tensordot as tensordot
from tawny.ops.linalg import vdot as vdot
from tawny.ops.linalg import vecdot as vecdot
from tawny.ops.linalg import vecmat as vecmat
from tawny.ops.missing import nanmax as nanmax
from tawny.ops.missing import nanmean as nanmean
from tawny.ops.missing import nanmin as nanmin
from tawny.ops.missing import nanprod as nanprod
from tawny.ops.missing import nanstd as nanstd
from tawny.ops.missing import nansum as nansum
from tawny.ops.missing import nanvar as nanvar
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
from tawny.ops.mutation import copyto as copyto
from tawny.ops.mutation import fill_diagonal as fill_diagonal
from tawny.ops.mutation import place as place
from tawny.ops.mutation import put as put
from tawny.ops.mutation import put_along_axis as put_along_axis
from tawny.ops.mutation import putmask as putmask
from tawny.ops.padding import pad as pad
from tawny.ops.polynomials import poly as poly
from tawny.ops.polynomials import polyadd as polyadd
from tawny.ops.polynomials import polyder as polyder
from tawny.ops.polynomials import polydiv as polydiv
from tawny.ops.polynomials import polyint as polyint
from tawny.ops.polynomials import polymul as polymul
from tawny.ops.polynomials import polysub as polysub
from tawny.ops.polynomials import roots as roots
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
from tawny.ops.queries import array_equiv as array_equiv
from tawny.ops.queries import choose as choose
from tawny.ops.queries import compress as compress
from tawny.ops.queries import extract as extract
from tawny.ops.queries import iscomplexobj as iscomplexobj
from tawny.ops.queries import isrealobj as isrealobj
from tawny.ops.queries import isscalar as isscalar
from tawny.ops.queries import iterable as iterable
from tawny.ops.queries import nanargmax as nanargmax
from tawny.ops.queries import nanargmin as nanargmin
from tawny.ops.queries import ndim as ndim
from tawny.ops.queries import piecewise as piecewise
from tawny.ops.queries import real_if_close as real_if_close
from tawny.ops.queries import shape as shape
from tawny.ops.queries import size as size
from tawny.ops.queries import trim_zeros as trim_zeros
from tawny.ops.reduction import all as all
from tawny.ops.reduction import any as any
from tawny.ops.reduction import argmax as argmax
from tawny.ops.reduction import argmin as argmin
from tawny.ops.reduction import average as average
from tawny.ops.reduction import count_nonzero as count_nonzero
from tawny.ops.reduction import cumulative_prod as cumulative_prod
from tawny.ops.reduction import cumulative_sum as cumulative_sum
from tawny.ops.reduction import log_softmax as log_softmax
from tawny.ops.reduction import logsumexp as logsumexp
from tawny.ops.reduction import max as amax
from tawny.ops.reduction import max as max
from tawny.ops.reduction import mean as mean
from tawny.ops.reduction import min as amin
from tawny.ops.reduction import min as min
from tawny.ops.reduction import prod as prod
from tawny.ops.reduction import ptp as ptp
from tawny.ops.reduction import softmax as softmax
from tawny.ops.reduction import std as std
from tawny.ops.reduction import sum as sum
from tawny.ops.reduction import var as var
from tawny.ops.scatter import at as at
from tawny.ops.series import convolve as convolve
from tawny.ops.series import correlate as correlate
from tawny.ops.series import polyval as polyval
from tawny.ops.series import vander as vander
from tawny.ops.sets import intersect1d as intersect1d
from tawny.ops.sets import isin as isin
from tawny.ops.sets import setdiff1d as setdiff1d
from tawny.ops.sets import setxor1d as setxor1d
from tawny.ops.sets import union1d as union1d
from tawny.ops.sets import unique as unique
from tawny.ops.sets import unique_all as unique_all
from tawny.ops.sets import unique_counts as unique_counts
from tawny.ops.sets import unique_inverse as unique_inverse
from tawny.ops.sets import unique_values as unique_values
from tawny.ops.sorting import argpartition as argpartition
from tawny.ops.sorting import argsort as argsort
from tawny.ops.sorting import bincount as bincount
from tawny.ops.sorting import digitize as digitize
from tawny.ops.sorting import histogram as histogram
from tawny.ops.sorting import histogram_bin_edges as histogram_bin_edges
from tawny.ops.sorting import lexsort as lexsort
from tawny.ops.sorting import partition as partition
from tawny.ops.sorting import searchsorted as searchsorted
from tawny.ops.sorting import sort as sort
from tawny.ops.sorting import sort_complex as sort_complex
from tawny.ops.sorting import top_k as top_k
from tawny.ops.special import bitwise_count as bitwise_count
from tawny.ops.special import frexp as frexp
from tawny.ops.special import i0 as i0
from tawny.ops.special import ldexp as ldexp
from tawny.ops.special import spacing as spacing
from tawny.ops.statistics import median as median
from tawny.ops.statistics import nanmedian as nanmedian
from tawny.ops.statistics import nanpercentile as nanpercentile
from tawny.ops.statistics import nanquantile as nanquantile
from tawny.ops.statistics import percentile as percentile
from tawny.ops.statistics import quantile as quantile
from tawny.scopes import name as name

__array_api_version__: Final = "2025.12"

e: Final = _numpy.e
inf: Final = _numpy.inf
nan: Final = _numpy.nan
newaxis: Final = None
euler_gamma: Final = _numpy.euler_gamma
little_endian: Final = _numpy.little_endian
pi: Final = _numpy.pi

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

__all__ = [
    "False_",
    "True_",
    "__array_api_version__",
    "__array_namespace_info__",
    "abs",
    "absolute",
    "acos",
    "acosh",
    "adagrad_rate",
    "add",
    "all",
    "allclose",
    "amax",
    "amin",
    "angle",
    "any",
    "append",
    "apply_along_axis",
    "apply_over_axes",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "argwhere",
    "around",
    "array",
    "array2string",
    "array_equal",
    "array_equiv",
    "array_repr",
    "array_split",
    "array_str",
    "asanyarray",
    "asarray",
    "ascontiguousarray",
    "asin",
    "asinh",
    "astype",
    "at",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "average",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "avg_pool_gradient",
    "bartlett",
    "bincount",
    "bitwise_and",
    "bitwise_count",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "blackman",
    "block",
    "bool",
    "bool_",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "byte",
    "can_cast",
    "cbrt",
    "cdouble",
    "ceil",
    "choose",
    "clip",
    "clip_by_norm",
    "column_stack",
    "common_type",
    "complex128",
    "complex64",
    "complexfloating",
    "compress",
    "concat",
    "concatenate",
    "conj",
    "conjugate",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_input_gradient",
    "conv_kernel_gradient",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolve",
    "copy",
    "copysign",
    "copyto",
    "corrcoef",
    "correlate",
    "cos",
    "cosh",
    "count_nonzero",
    "cov",
    "cross",
    "csingle",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "dawsn",
    "deg2rad",
    "degrees",
    "delay",
    "delete",
    "depthwise_conv1d",
    "depthwise_conv2d",
    "depthwise_conv3d",
    "diag",
    "diag_indices",
    "diag_indices_from",
    "diagflat",
    "diagonal",
    "diff",
    "digitize",
    "divide",
    "divmod",
    "dot",
    "double",
    "dsplit",
    "dstack",
    "dtype",
    "e",
    "ediff1d",
    "einsum",
    "einsum_path",
    "empty",
    "empty_like",
    "equal",
    "erf",
    "erfc",
    "errstate",
    "euler_gamma",
    "exceptions",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "extract",
    "eye",
    "fabs",
    "fft",
    "fill_diagonal",
    "finfo",
    "fix",
    "flatnonzero",
    "flip",
    "fliplr",
    "flipud",
    "float16",
    "float32",
    "float64",
    "float_power",
    "floating",
    "floor",
    "floor_divide",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "fold",
    "frexp",
    "from_dlpack",
    "fromfunction",
    "full",
    "full_like",
    "gcd",
    "generic",
    "geomspace",
    "global_avg_pool",
    "global_max_pool",
    "gradient",
    "greater",
    "greater_equal",
    "half",
    "hamming",
    "hanning",
    "heaviside",
    "histogram",
    "histogram2d",
    "histogram_bin_edges",
    "histogramdd",
    "hsplit",
    "hstack",
    "hypot",
    "i0",
    "identity",
    "iinfo",
    "imag",
    "index_exp",
    "indices",
    "inexact",
    "inf",
    "inner",
    "insert",
    "int16",
    "int32",
    "int64",
    "int8",
    "int_",
    "intc",
    "integer",
    "interp",
    "intersect1d",
    "intp",
    "invert",
    "isclose",
    "iscomplex",
    "iscomplexobj",
    "isdtype",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "isrealobj",
    "isscalar",
    "issubdtype",
    "iterable",
    "ix_",
    "kaiser",
    "kron",
    "lazy_print",
    "lcm",
    "ldexp",
    "left_shift",
    "less",
    "less_equal",
    "lexsort",
    "linalg",
    "linspace",
    "little_endian",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logspace",
    "logsumexp",
    "long",
    "longlong",
    "map_elements",
    "mask_indices",
    "matmul",
    "matrix_transpose",
    "matvec",
    "max",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool_gradient",
    "max_pool_select",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "mgrid",
    "min",
    "min_scalar_type",
    "minimum",
    "mod",
    "modf",
    "moveaxis",
    "multiply",
    "name",
    "nan",
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmedian",
    "nanmin",
    "nanpercentile",
    "nanprod",
    "nanquantile",
    "nanstd",
    "nansum",
    "nanvar",
    "ndim",
    "ndindex",
    "negative",
    "newaxis",
    "nextafter",
    "nonzero",
    "not_equal",
    "number",
    "ogrid",
    "one_hot",
    "ones",
    "ones_like",
    "outer",
    "packbits",
    "pad",
    "partition",
    "percentile",
    "permute_dims",
    "pi",
    "piecewise",
    "place",
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "positive",
    "pow",
    "power",
    "prod",
    "promote_types",
    "ptp",
    "put",
    "put_along_axis",
    "putmask",
    "quantile",
    "rad2deg",
    "radians",
    "ravel",
    "ravel_multi_index",
    "real",
    "real_if_close",
    "reciprocal",
    "relu",
    "remainder",
    "repeat",
    "reshape",
    "resize",
    "result_type",
    "right_shift",
    "rint",
    "roll",
    "rollaxis",
    "roots",
    "rot90",
    "round",
    "s_",
    "save",
    "savetxt",
    "savez",
    "savez_compressed",
    "scan",
    "searchsorted",
    "select",
    "setdiff1d",
    "setxor1d",
    "shape",
    "short",
    "sigmoid",
    "sign",
    "signbit",
    "signedinteger",
    "sin",
    "sinc",
    "single",
    "sinh",
    "size",
    "sliding_window_view",
    "softmax",
    "softplus",
    "sort",
    "sort_complex",
    "spacing",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "swapaxes",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "top_k",
    "trace",
    "transpose",
    "trapezoid",
    "tri",
    "tril",
    "tril_indices",
    "tril_indices_from",
    "trim_zeros",
    "triu",
    "triu_indices",
    "triu_indices_from",
    "true_divide",
    "trunc",
    "ubyte",
    "uint",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "uintc",
    "uintp",
    "ulong",
    "ulonglong",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unpackbits",
    "unravel_index",
    "unsignedinteger",
    "unstack",
    "unwrap",
    "upsampling1d",
    "upsampling2d",
    "upsampling3d",
    "upsampling_gradient",
    "ushort",
    "vander",
    "var",
    "vdot",
    "vecdot",
    "vecmat",
    "vsplit",
    "vstack",
    "where",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> _Never:
    raise _absence("tawny.numpy", name)


def __dir__() -> list[str]:
    return list(__all__)
