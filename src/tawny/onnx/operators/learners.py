"""Operators of classical learners: linear ones and machines of kernels.

Labels that are strings are refused.
"""

from __future__ import annotations

from typing import Final

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import FLOAT32, INT64
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.elementwise import select
from tawny.onnx.operators.features import float_list, rows_of
from tawny.onnx.table import MACHINE_LEARNING, operator

KINDS: Final = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
"""What may be made of scores in the end."""


def transform(call: NodeCall, scores: Array, kind: str | None = None) -> Array:
    """What is made of the scores of a row's classes in the end."""
    match kind or call.choice("post_transform", "NONE", KINDS):
        case "PROBIT":
            call.fail("post_transform=PROBIT is not supported")
        case "LOGISTIC":
            return np.sigmoid(scores)
        case "SOFTMAX":
            return np.softmax(scores, axis=-1)
        case "SOFTMAX_ZERO":
            there = np.not_equal(scores, 0)
            shares = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
            shares = select(there, shares, np.zeros_like(shares))
            return shares / np.sum(shares, axis=-1, keepdims=True)
        case _:
            pass
    return scores


def class_labels(call: NodeCall) -> Array:
    """The numbers of the classes."""
    names = [name for name in ("classlabels_int64s", "classlabels_ints") if call.has(name)]
    if not names:
        call.fail("labels are strings, which are not supported")
    return np.asarray(numpy.array(call.ints(names[0]), numpy.int64))


@operator("LinearRegressor", domain=MACHINE_LEARNING)
def linear_regressor(call: NodeCall) -> Array:
    """Weighted sums of columns."""
    return transform(call, _linear(call, call.integer("targets", 1)))


def _linear(call: NodeCall, targets: int) -> Array:
    weights = np.reshape(float_list(call, "coefficients"), (targets, -1))
    made = np.matmul(rows_of(call).astype(FLOAT32), weights.T)
    return made + float_list(call, "intercepts") if call.has("intercepts") else made


@operator("LinearClassifier", domain=MACHINE_LEARNING)
def linear_classifier(call: NodeCall) -> tuple[Array, Array]:
    """The class with the greatest weighted sum of columns, and the scores of all."""
    labels = class_labels(call)
    width = rows_of(call).shape[1]
    targets = len(call.floats("coefficients")) // max(width, 1)
    scores = _linear(call, targets)
    if targets == 1 and labels.shape[0] == 2:
        kind = call.text("post_transform", "NONE")
        limit = 0.5 if kind in {"LOGISTIC", "SOFTMAX"} else 0.0
        made = transform(call, scores) if kind == "LOGISTIC" else scores
        scores = np.concat([1 - made if kind == "LOGISTIC" else -made, made], axis=1)
        if kind in {"SOFTMAX", "SOFTMAX_ZERO"}:
            scores = transform(call, scores)
        best = np.greater(made[:, 0], limit if kind == "LOGISTIC" else 0.0).astype(INT64)
        return np.take(labels, best), scores
    return np.take(labels, np.argmax(scores, axis=1)), transform(call, scores)


@operator("SVMRegressor", domain=MACHINE_LEARNING)
def svm_regressor(call: NodeCall) -> Array:
    """A weighted sum of kernels between a row and the support vectors."""
    x, count = rows_of(call).astype(FLOAT32), call.integer("n_supports", 0)
    weights = float_list(call, "coefficients")
    if count:
        vectors = np.reshape(float_list(call, "support_vectors"), (count, -1))
        made = np.matmul(_kernel(call, x, vectors), np.reshape(weights, (-1, 1)))
    else:
        made = np.matmul(x, np.reshape(weights, (-1, 1)))
    made = made + float_list(call, "rho")[0]
    one_class = call.flag("one_class")
    return select(made > 0, np.ones_like(made), -np.ones_like(made)) if one_class else made


def _kernel(call: NodeCall, x: Array, vectors: Array) -> Array:
    """The kernel between rows and support vectors."""
    gamma, shift, degree = (*call.floats("kernel_params", (0.0, 0.0, 0.0)), 0.0, 0.0, 0.0)[:3]
    products = np.matmul(x, vectors.T)
    match call.choice("kernel_type", "LINEAR", ("LINEAR", "POLY", "RBF", "SIGMOID")):
        case "LINEAR":
            return products
        case "POLY":
            return (gamma * products + shift) ** degree
        case "SIGMOID":
            return np.tanh(gamma * products + shift)
        case _:
            apart = np.expand_dims(x, 1) - vectors
            return np.exp(-gamma * np.sum(apart * apart, axis=-1))
