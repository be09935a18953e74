"""Attention: every position looks at others, weighing them by how well they fit."""

from __future__ import annotations

import math
from typing import Any

from tawny import dtype as dt
from tawny import numpy as np
from tawny.array import Array
from tawny.errors import value_error
from tawny.nn.layers.dropout import Dropout
from tawny.nn.layers.linear import Linear
from tawny.nn.layers.sizes import as_size
from tawny.nn.module import Module
from tawny.ops.elementwise import where
from tawny.ops.precision import narrow, widen


class MultiHeadAttention(Module):
    """softmax(q k^T / sqrt(d)) v in each of several heads of d numbers.

    - `features`: the size of the last axis, before and after.
    - `heads`: how many heads there are.
    - `size`: d, the size of a head; features / heads when None.
    - `causal`: nobody looks ahead.
    - `dropout`: the share of the weights that is dropped in training.
    - `bias`: whether the four linear layers have one.
    - `init_weight`: how their weights start, as for `Linear`.
    - `dtype`: of the parameters.

    Called as `layer(q, k, v, mask=...)`.  q, k and v are (batch, time, features); k and v are q
    where they are not given.  `mask` is true where a position may look: (queries, keys) or
    anything that broadcasts to (batch, heads, queries, keys); a position that may look nowhere
    gives 0 to the output layer.

        layer = nn.MultiHeadAttention(8, heads=2, causal=True)
        layer(numpy.ones((1, 5, 8), "float32")).shape   # -> (1, 5, 8)
    """

    def __init__(
        self,
        features: int,
        heads: int,
        *,
        size: int | None = None,
        causal: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        init_weight: Any = None,
        dtype: Any = "float32",
    ) -> None:
        self.features = as_size(features, "MultiHeadAttention", "features")
        self.heads = as_size(heads, "MultiHeadAttention", "heads")
        if size is None and features % heads:
            raise value_error(
                "MultiHeadAttention",
                f"features is {features}; it must be a multiple of heads = {heads}, or size given",
            )
        self.size = as_size(
            features // heads if size is None else size, "MultiHeadAttention", "size"
        )
        self.causal = causal
        inner = self.heads * self.size
        self.query, self.key, self.value, self.output = (
            Linear(inputs, outputs, bias=bias, init_weight=init_weight, dtype=dtype)
            for inputs, outputs in (*[(self.features, inner)] * 3, (inner, self.features))
        )
        self.dropout = Dropout(dropout)

    def forward(self, q: Array, k: Any = None, v: Any = None, *, mask: Any = None) -> Array:
        self.check_array(q, "q")
        key = q if k is None else np.asarray(k)
        value = key if v is None else np.asarray(v)
        for name, x in (("q", q), ("k", key), ("v", value)):
            if x.ndim != 3 or x.shape[0] != q.shape[0] or x.shape[-1] != self.features:
                raise self.input_error(
                    f"{name} has shape {x.shape}; accepted: (batch, time, {self.features}), the "
                    "same batch for all"
                )
        if key.shape != value.shape:
            raise self.input_error(f"v has shape {value.shape}; it must be {key.shape}, as k")
        queries, keys, values = (
            widen(self._heads(layer(x)))
            for layer, x in ((self.query, q), (self.key, key), (self.value, value))
        )
        scale = 1 / math.sqrt(self.size)
        scores = (queries * scale) @ np.matrix_transpose(keys)
        weights = self.dropout(self._weights(scores, mask))
        mixed = np.permute_dims(weights @ values, (0, 2, 1, 3))
        joined = narrow(mixed, self.output.weight.dtype)
        projected: Array = self.output(joined.reshape((*q.shape[:-1], self.heads * self.size)))
        return projected

    def _heads(self, x: Array) -> Array:
        """(batch, time, heads * size) as (batch, heads, time, size)."""
        batch, time, _ = x.shape
        parts = x.reshape((batch, time, self.heads, self.size))
        return np.permute_dims(parts, (0, 2, 1, 3))

    def _weights(self, scores: Array, mask: Any) -> Array:
        """How much each position looks at each other one."""
        allowed = None if mask is None else self._check_mask(np.asarray(mask), scores.shape)
        if self.causal:
            ahead = np.tril(np.ones(scores.shape[-2:], dtype=bool))
            allowed = ahead if allowed is None else np.logical_and(allowed, ahead)
        if allowed is None:
            return np.softmax(scores, axis=-1)
        least = float(dt.finfo(scores.dtype).min)
        weights = np.softmax(where(allowed, scores, least), axis=-1)
        return weights if mask is None else where(allowed, weights, 0)

    def _check_mask(self, mask: Array, wanted: tuple[int, ...]) -> Array:
        if mask.dtype.kind != "b":
            raise self.input_error(
                f"mask has dtype {mask.dtype}; accepted: bool, true where to look"
            )
        padded = (1,) * (len(wanted) - mask.ndim) + mask.shape
        if len(padded) != len(wanted) or any(
            m not in (1, n) for m, n in zip(padded, wanted, strict=True)
        ):
            raise self.input_error(f"mask has shape {mask.shape}; it must broadcast to {wanted}")
        return mask

    def extra(self) -> str:
        return f"{self.features}, {self.heads}"
