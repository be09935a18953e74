"""Rows of a table, chosen by integers."""

from __future__ import annotations

from typing import Any

from tawny import numpy as np
from tawny.array import Array
from tawny.errors import type_error
from tawny.nn.layers.sizes import as_size
from tawny.nn.module import Module
from tawny.nn.parameters import Parameter


class Embedding(Module):
    """A row of `weight`, (count, features), for each integer: (...) gives (..., features).

    - `count`: how many rows there are.
    - `features`: how many numbers a row has.
    - `init_weight`: how they start: an initialiser of `nn.init`, a function or a number;
      `glorot_uniform` when None.
    - `dtype`: of the weight.

    Negative integers count from the end; those that leave the table are refused, when they are
    known or else when the program runs.

        nn.Embedding(10, 4)(numpy.array([[1, 2, 9]])).shape   # -> (1, 3, 4)
    """

    weight: Array

    def __init__(
        self, count: int, features: int, *, init_weight: Any = None, dtype: Any = "float32"
    ) -> None:
        self.count = as_size(count, "Embedding", "count")
        self.features = as_size(features, "Embedding", "features")
        self.weight = Parameter((self.count, self.features), init_weight, dtype)

    def forward(self, x: Array) -> Array:
        self.check_array(x)
        if x.dtype.kind not in "iu":
            raise type_error(
                self.label, f"the input has dtype {x.dtype}; accepted: integers, the rows to take"
            )
        return np.take(self.weight, x, axis=0)

    def extra(self) -> str:
        return f"{self.count}, {self.features}"
