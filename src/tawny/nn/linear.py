"""Layers that multiply by a matrix."""

from __future__ import annotations

from typing import Any

from tawny.array import Array
from tawny.nn.sizes import positive
from tawny.nn.weighted import Weighted
from tawny.shape import size


class Linear(Weighted):
    """x @ weight + bias, over the last axis: (..., inputs) gives (..., outputs).

    `weight` is (inputs, outputs), `bias` is (outputs,).
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        bias: bool = True,
        activation: Any = None,
        init_weight: Any = None,
        init_bias: Any = 0.0,
        dtype: Any = "float32",
    ) -> None:
        self.inputs = positive(inputs, "Linear", "inputs")
        self.outputs = positive(outputs, "Linear", "outputs")
        shape = self.inputs, self.outputs
        super().__init__(shape, bias, activation, init_weight, init_bias, dtype)

    def forward(self, x: Array) -> Array:
        self.check_last_axis(x, self.inputs)
        return self.finished(self.fitted(x, self.weight) @ self.weight)

    def extra(self) -> str:
        return f"{self.inputs}, {self.outputs}"


class FullyConnected(Linear):
    """`Linear` over all of a sample: (batch, ...) gives (batch, outputs)."""

    def forward(self, x: Array) -> Array:
        self.check_array(x)
        if x.ndim < 2 or size(x.shape[1:]) != self.inputs:
            raise self.wrong(
                f"the input has shape {x.shape}, so {size(x.shape[1:])} numbers a sample; "
                f"accepted: (batch, ...) with {self.inputs} of them"
            )
        return super().forward(x.reshape((x.shape[0], self.inputs)))
