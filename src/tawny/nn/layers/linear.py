"""Layers that multiply by a matrix."""

from __future__ import annotations

from typing import Any, Final

from tawny.array import Array
from tawny.nn.layers.activations import as_activation
from tawny.nn.layers.sizes import as_size
from tawny.nn.module import Module
from tawny.nn.parameters import Parameter
from tawny.shape import size

AFFINE: Final = """- `bias`: whether something is added to the product.
    - `activation`: what is applied last: a name such as `"relu"`, a function, or None for nothing.
    - `init_weight`: how the weight starts: an initialiser of `nn.init`, a function or a number;
      `glorot_uniform` when None.
    - `init_bias`: how the bias starts, likewise.
    - `dtype`: of the parameters."""
"""What is said of the options of every such layer."""


class AffineLayer(Module):
    """A layer with a weight whose last axis is the outputs, a bias or none, and an activation."""

    weight: Array
    bias: Array | None

    def __init__(
        self,
        shape: tuple[int, ...],
        bias: bool,
        activation: Any,
        init_weight: Any,
        init_bias: Any,
        dtype: Any,
    ) -> None:
        self.activation = as_activation(activation, type(self).__name__)
        self.weight = Parameter(shape, init_weight, dtype)
        self.bias = Parameter(shape[-1:], init_bias, dtype) if bias else None

    def finish(self, product: Array) -> Array:
        """What the layer gives, from the product with its weight."""
        return self.activation(product if self.bias is None else product + self.bias)


class Linear(AffineLayer):
    """x @ weight + bias, over the last axis: (..., inputs) gives (..., outputs).

    - `inputs`, `outputs`: the size of the last axis before and after.
    - `bias`: whether something is added to the product.
    - `activation`: what is applied last: a name such as `"relu"`, a function, or None for nothing.
    - `init_weight`: how the weight starts: an initialiser of `nn.init`, a function or a number;
      `glorot_uniform` when None.
    - `init_bias`: how the bias starts, likewise.
    - `dtype`: of the parameters.

    The parameters are `weight`, (inputs, outputs), and `bias`, (outputs,).

        nn.Linear(3, 2, activation="relu")(numpy.ones((5, 3), "float32")).shape   # -> (5, 2)
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
        self.inputs = as_size(inputs, "Linear", "inputs")
        self.outputs = as_size(outputs, "Linear", "outputs")
        shape = self.inputs, self.outputs
        super().__init__(shape, bias, activation, init_weight, init_bias, dtype)

    def forward(self, x: Array) -> Array:
        self.check_last_axis(x, self.inputs)
        return self.finish(self.match_dtype(x, self.weight) @ self.weight)

    def extra(self) -> str:
        return f"{self.inputs}, {self.outputs}"


class FullyConnected(Linear):
    """`Linear` over all of a sample: (batch, ...) gives (batch, outputs).

    - `inputs`: how many numbers a sample has.
    - `outputs`: how many it has after.
    - `bias`: whether something is added to the product.
    - `activation`: what is applied last: a name such as `"relu"`, a function, or None for nothing.
    - `init_weight`: how the weight starts: an initialiser of `nn.init`, a function or a number;
      `glorot_uniform` when None.
    - `init_bias`: how the bias starts, likewise.
    - `dtype`: of the parameters.

    The parameters are those of `Linear`.

        nn.FullyConnected(12, 2)(numpy.ones((5, 3, 4), "float32")).shape   # -> (5, 2)
    """

    def forward(self, x: Array) -> Array:
        self.check_array(x)
        if x.ndim < 2 or size(x.shape[1:]) != self.inputs:
            raise self.input_error(
                f"the input has shape {x.shape}, so {size(x.shape[1:])} numbers a sample; "
                f"accepted: (batch, ...) with {self.inputs} of them"
            )
        return super().forward(x.reshape((x.shape[0], self.inputs)))
