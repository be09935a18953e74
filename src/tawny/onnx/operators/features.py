"""Operators that prepare columns of data for learners; strings are refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import FLOAT32, FLOAT64, INT64, DType, kind_of
from tawny.node import Value
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.elementwise import select
from tawny.onnx.table import MACHINE_LEARNING, operator


def float_list(call: NodeCall, name: str, default: Sequence[float] | None = None) -> Array:
    """An attribute of numbers as an array."""
    return np.asarray(numpy.array(call.floats(name, default), numpy.float32))


def rows_of(call: NodeCall) -> Array:
    """Operand 0 as rows of float32 numbers."""
    x = call.array(0)
    x = np.expand_dims(x, 0) if x.ndim == 1 else x
    if x.ndim != 2:
        call.fail(f"operand 0 has shape {x.shape}; it must have 1 or 2 axes")
    return x if x.dtype == FLOAT64 else x.astype(FLOAT32)


@operator("Scaler", domain=MACHINE_LEARNING)
def scaler(call: NodeCall) -> Array:
    """Numbers less an offset, times a scale."""
    x = call.array(0).astype(FLOAT32)
    return (x - float_list(call, "offset", (0.0,))) * float_list(call, "scale", (1.0,))


@operator("Binarizer", domain=MACHINE_LEARNING)
def binarizer(call: NodeCall) -> Array:
    """1 for numbers above a threshold, 0 for others."""
    x = call.array(0)
    return np.greater(x, call.number("threshold", 0.0)).astype(x.dtype)


@operator("Normalizer", domain=MACHINE_LEARNING)
def normalizer(call: NodeCall) -> Array:
    """Rows over their norm."""
    x = rows_of(call).astype(FLOAT32)
    match call.choice("norm", "MAX", ("MAX", "L1", "L2")):
        case "MAX":
            norm = np.max(x, axis=1, keepdims=True)
        case "L1":
            norm = np.sum(np.abs(x), axis=1, keepdims=True)
        case _:
            norm = np.sqrt(np.sum(x * x, axis=1, keepdims=True))
    whole = np.reshape(x / select(np.equal(norm, 0), np.ones_like(norm), norm), x.shape)
    return np.reshape(whole, call.array(0).shape)


@operator("Imputer", domain=MACHINE_LEARNING)
def imputer(call: NodeCall) -> Array:
    """Numbers, with others in place of one that stands for what is missing."""
    x = call.array(0)
    if kind_of(x.dtype) == "f":
        new, missing = call.floats("imputed_value_floats"), call.number("replaced_value_float", 0.0)
        absent = np.isnan(x) if numpy.isnan(missing) else np.equal(x, missing)
    else:
        new = call.ints("imputed_value_int64s")
        absent = np.equal(x, call.integer("replaced_value_int64", 0))
    value = np.asarray(numpy.array(new, x.dtype))
    return select(absent, value if len(new) > 1 else value[0], x)


@operator("OneHotEncoder", domain=MACHINE_LEARNING)
def one_hot_encoder(call: NodeCall) -> Array:
    """For each number 1 at the place of its category, 0 at all others."""
    categories = np.asarray(numpy.array(call.ints("cats_int64s"), numpy.int64))
    if not call.flag("zeros", True):
        call.fail("zeros=0 is not supported: categories that are not known are an error of a run")
    whole = np.expand_dims(call.array(0).astype(INT64), -1)
    return np.equal(whole, categories).astype(FLOAT32)


@operator("FeatureVectorizer", domain=MACHINE_LEARNING)
def feature_vectorizer(call: NodeCall) -> Array:
    """Columns of all operands side by side."""
    parts = [np.reshape(x, (x.shape[0], -1)).astype(FLOAT32) for x in call.arrays()]
    widths = call.ints("inputdimensions", tuple(p.shape[1] for p in parts))
    return np.concat([p[:, :n] for p, n in zip(parts, widths, strict=True)], axis=1)


@operator("LabelEncoder", domain=MACHINE_LEARNING)
def label_encoder(call: NodeCall) -> Array:
    """Numbers by a table, or a default."""
    x = call.array(0)
    keys, values = _table(call, "keys"), _table(call, "values")
    if len(keys) != len(values):
        call.fail(f"{len(keys)} keys came for {len(values)} values")
    order = numpy.argsort(keys, kind="stable")
    ordered, made = np.asarray(keys[order]), np.asarray(values[order])
    places = np.minimum(np.searchsorted(ordered, np.ravel(x.astype(keys.dtype))), len(keys) - 1)
    found = np.take(made, places)
    there = np.equal(np.take(ordered, places), np.ravel(x.astype(keys.dtype)))
    default = np.asarray(numpy.array(_default_value(call, values.dtype), values.dtype))
    return np.reshape(select(there, found, default), x.shape)


def _table(call: NodeCall, name: str) -> Value:
    """Keys or values of a table, which are numbers."""
    if call.has(f"{name}_tensor"):
        return call.tensor(f"{name}_tensor")
    if call.has(f"{name}_int64s"):
        return numpy.array(call.ints(f"{name}_int64s"), numpy.int64)
    if not call.has(f"{name}_floats"):
        call.fail(f"{name} are strings, which are not supported")
    return numpy.array(call.floats(f"{name}_floats"), numpy.float32)


def _default_value(call: NodeCall, dtype: DType) -> float:
    if call.has("default_tensor"):
        return float(call.tensor("default_tensor").reshape(-1)[0])
    if kind_of(dtype) == "f":
        return call.number("default_float", -0.0)
    return call.integer("default_int64", -1)
