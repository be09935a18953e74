"""Recurrent layers, loops over time: (batch, time, inputs) gives (batch, units).

With `sequences=True` they give the output of every step, (batch, time, units).  A layer called with
`start=` goes on from there; with `mask=` sequences have lengths of their own; `run` gives the state
at the end beside the outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, cast

import numpy

from tawny import numpy as np
from tawny.array import Array
from tawny.dtype import DType
from tawny.errors import type_error
from tawny.loops.blocks import scan_in_blocks
from tawny.nn import init
from tawny.nn.layers.activations import as_activation
from tawny.nn.layers.sizes import as_size
from tawny.nn.module import Module
from tawny.nn.parameters import Parameter
from tawny.node import Value
from tawny.optim.arguments import as_real
from tawny.shape import Shape

States = tuple[Array, ...]


def per_gate(rule: init.Initialiser, gates: int) -> init.Initialiser:
    """Each gate's columns drawn by `rule`, as if they were a matrix of their own."""
    return init.Initialiser(f"per_gate({rule}, {gates})", partial(_draw_per_gate, rule, gates))


def _draw_per_gate(
    rule: init.Initialiser,
    gates: int,
    rng: numpy.random.Generator,
    shape: Shape,
    dtype: DType,
) -> Value:
    own = (*shape[:-1], shape[-1] // gates)
    return numpy.concatenate([rule(rng, own, dtype) for _ in range(gates)], axis=-1)


def _forget_gate_bias(
    units: int, bias: float, rng: numpy.random.Generator, shape: Shape, dtype: DType
) -> Value:
    """Zeros, and `bias` for the second gate."""
    del rng
    value = numpy.zeros(shape, dtype)
    value[units : 2 * units] = bias
    return value


class Recurrent(Module, ABC):
    """Base of recurrent layers: a state for each sample, changed by every step.

    - `inputs`: the size of the last axis.
    - `units`: how many numbers the output has.
    - `sequences`: (batch, time, inputs) gives the last output, (batch, units); with
      `sequences=True` that of every step, (batch, time, units).
    - `bias`: whether something is added to the products.
    - `init_weight`, `init_recurrent`: how `weight` and `recurrent` start, each gate by itself: an
      initialiser of `nn.init`, a function or a number; `glorot_uniform` when None.
    - `dtype`: of the parameters.

    A cell of one's own says how many `gates` there are, the columns of `weight` and `recurrent` for
    each unit, its `zero_state` and a `step`, which is written once and runs as a loop.  What layers
    are called with besides x: `start`, a state to go on from; `mask`, (batch, time), which is False
    where a sequence has ended or not begun: there the state, and the output, stay as they are.

        class Light(nn.Recurrent):
            gates = 2

            def zero_state(self, x):
                return (np.zeros((x.shape[0], self.units), dtype=self.weight.dtype),)

            def step(self, projected, state):
                (h,) = state
                z, n = np.split(projected + h @ self.recurrent, 2, axis=-1)
                z = np.sigmoid(z)
                return (z * h + (1 - z) * np.tanh(n),)

        Light(3, 8)(numpy.ones((2, 5, 3), "float32")).shape   # -> (2, 8)
    """

    weight: Array
    recurrent: Array
    bias: Array | None

    gates: int
    """How many columns of `weight` there are for each unit."""

    def __init__(
        self,
        inputs: int,
        units: int,
        *,
        sequences: bool = False,
        bias: bool = True,
        init_weight: Any = None,
        init_recurrent: Any = None,
        dtype: Any = "float32",
    ) -> None:
        op = type(self).__name__
        self.inputs, self.units = as_size(inputs, op, "inputs"), as_size(units, op, "units")
        if not isinstance(sequences, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise type_error(op, f"sequences is {sequences!r}; accepted: True and False")
        self.sequences = sequences
        gates, glorot = type(self).gates, init.glorot_uniform()
        columns = gates * self.units
        first, again = (
            per_gate(glorot if given is None else init.as_initialiser(given, op), gates)
            for given in (init_weight, init_recurrent)
        )
        self.weight = Parameter((self.inputs, columns), first, dtype)
        self.recurrent = Parameter((self.units, columns), again, dtype)
        self.bias = Parameter((columns,), self.initial_bias(), dtype) if bias else None

    def initial_bias(self) -> init.Initialiser:
        """How the bias starts."""
        return init.zeros()

    @abstractmethod
    def zero_state(self, x: Array) -> States:
        """The state before the first step."""

    @abstractmethod
    def step(self, projected: Array, state: States) -> States:
        """The state after a step, whose first part is the output.

        `projected` is x @ weight + bias.
        """

    def run(self, x: Array, start: Any = None, mask: Any = None) -> tuple[Array, States]:
        """The output of every step, (batch, time, units), and the state after the last."""
        state, outputs = self._scan(x, start, mask, outputs=True)
        return np.swapaxes(outputs, 0, 1), state

    def forward(self, x: Array, start: Any = None, mask: Any = None) -> Array:
        if self.sequences:
            return self.run(x, start, mask)[0]
        state, _ = self._scan(x, start, mask, outputs=False)
        return state[0]

    def _scan(self, x: Array, start: Any, mask: Any, *, outputs: bool) -> tuple[States, Any]:
        """The state after the last step and, along axis 0, the outputs of all if asked for."""
        self.check_array(x)
        if x.ndim != 3 or x.shape[-1] != self.inputs or not x.shape[1]:
            raise self.input_error(
                f"the input has shape {x.shape}; accepted: (batch, time, {self.inputs}), "
                "with at least one step"
            )
        first = self._start_state(x, start)
        there = None if mask is None else self._mask(x, mask)
        x = np.swapaxes(self.match_dtype(x, self.weight), 0, 1)

        def project(rows: tuple[Array, Any]) -> tuple[Array, Any]:
            inputs, there = rows
            projected = inputs @ self.weight
            return projected if self.bias is None else projected + self.bias, there

        def step(state: States, row: tuple[Array, Any]) -> tuple[States, Any]:
            projected, there = row
            new = self.step(projected, state)
            if there is not None:
                new = tuple(np.where(there, n, s) for n, s in zip(new, state, strict=True))
            return new, new[0] if outputs else None

        return scan_in_blocks(step, first, (x, there), project, x.shape[1])

    def _mask(self, x: Array, mask: Any) -> Array:
        """Whether each step of each sequence counts, (time, batch, 1)."""
        there = np.asarray(mask)
        if there.shape != x.shape[:2] or there.dtype.kind != "b":
            raise self.input_error(
                f"mask is {there.dtype}{list(there.shape)}; accepted: bool{list(x.shape[:2])}, "
                "True where a step counts"
            )
        return np.expand_dims(np.swapaxes(there, 0, 1), -1)

    def _start_state(self, x: Array, start: Any) -> States:
        zero = self.zero_state(x)
        if start is None:
            return zero
        given = tuple(cast("list[Any]", start)) if isinstance(start, tuple) else (start,)
        state = tuple(self.match_dtype(np.asarray(part), self.weight) for part in given)
        if [s.shape for s in state] != [z.shape for z in zero]:
            raise self.input_error(
                f"start has shapes {[s.shape for s in state]}; accepted: {[z.shape for z in zero]}"
            )
        return state

    def extra(self) -> str:
        return f"{self.inputs}, {self.units}" + (", sequences=True" if self.sequences else "")


class RNN(Recurrent):
    """h <- activation(x @ weight + bias + h @ recurrent), from h = 0.

    - `inputs`: the size of the last axis.
    - `units`: how many numbers the output has.
    - `sequences`: (batch, time, inputs) gives the last output, (batch, units); with
      `sequences=True` that of every step, (batch, time, units).
    - `bias`: whether something is added to the products.
    - `activation`: a name such as `"relu"`, a function, or None for nothing.
    - `init_weight`, `init_recurrent`: how `weight` and `recurrent` start, each gate by itself: an
      initialiser of `nn.init`, a function or a number; `glorot_uniform` when None.
    - `dtype`: of the parameters.

    Called with `start=` it goes on from there, with `mask=`, (batch, time), it steps where that is
    True; `run` gives the state at the end too.

        layer = nn.RNN(3, 8, sequences=True)
        layer(numpy.ones((2, 5, 3), "float32")).shape   # -> (2, 5, 8)
    """

    gates = 1

    def __init__(
        self,
        inputs: int,
        units: int,
        *,
        sequences: bool = False,
        bias: bool = True,
        activation: Any = "tanh",
        init_weight: Any = None,
        init_recurrent: Any = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(
            inputs,
            units,
            sequences=sequences,
            bias=bias,
            init_weight=init_weight,
            init_recurrent=init_recurrent,
            dtype=dtype,
        )
        self.activation = as_activation(activation, "RNN")

    def zero_state(self, x: Array) -> States:
        return (np.zeros((x.shape[0], self.units), dtype=self.weight.dtype),)

    def step(self, projected: Array, state: States) -> States:
        (h,) = state
        return (self.activation(projected + h @ self.recurrent),)


class LSTM(Recurrent):
    """Long short-term memory.

    - `inputs`: the size of the last axis.
    - `units`: how many numbers the output has.
    - `sequences`: (batch, time, inputs) gives the last output, (batch, units); with
      `sequences=True` that of every step, (batch, time, units).
    - `bias`: whether something is added to the products.
    - `forget_bias`: how the bias of the forget gate f starts; the rest starts as 0.
    - `init_weight`, `init_recurrent`: how `weight` and `recurrent` start, each gate by itself: an
      initialiser of `nn.init`, a function or a number; `glorot_uniform` when None.
    - `dtype`: of the parameters.

    With i, f, g, o the quarters of x @ weight + bias + h @ recurrent, in this order:

    - `c <- sigmoid(f) * c + sigmoid(i) * tanh(g)`
    - `h <- sigmoid(o) * tanh(c)`

    from h = c = 0; h is the output, (h, c) the state.

        layer = nn.LSTM(3, 8, sequences=True)
        layer(numpy.ones((2, 5, 3), "float32")).shape   # -> (2, 5, 8)
    """

    gates = 4

    def __init__(
        self,
        inputs: int,
        units: int,
        *,
        sequences: bool = False,
        bias: bool = True,
        forget_bias: float = 1.0,
        init_weight: Any = None,
        init_recurrent: Any = None,
        dtype: Any = "float32",
    ) -> None:
        self.forget_bias = as_real(forget_bias, "LSTM", "forget_bias")
        super().__init__(
            inputs,
            units,
            sequences=sequences,
            bias=bias,
            init_weight=init_weight,
            init_recurrent=init_recurrent,
            dtype=dtype,
        )

    def initial_bias(self) -> init.Initialiser:
        given = self.units, self.forget_bias
        return init.Initialiser(
            f"forget_bias({self.forget_bias})", partial(_forget_gate_bias, *given)
        )

    def zero_state(self, x: Array) -> States:
        zero = np.zeros((x.shape[0], self.units), dtype=self.weight.dtype)
        return zero, zero

    def step(self, projected: Array, state: States) -> States:
        h, c = state
        i, f, g, o = np.split(projected + h @ self.recurrent, 4, axis=-1)
        c = np.sigmoid(f) * c + np.sigmoid(i) * np.tanh(g)
        return np.sigmoid(o) * np.tanh(c), c


class GRU(Recurrent):
    """Gated recurrent unit.

    - `inputs`: the size of the last axis.
    - `units`: how many numbers the output has.
    - `sequences`: (batch, time, inputs) gives the last output, (batch, units); with
      `sequences=True` that of every step, (batch, time, units).
    - `bias`: whether something is added to the products.
    - `reset_after`: whether h is reset after its product with `recurrent`, or before.
    - `init_weight`, `init_recurrent`: how `weight` and `recurrent` start, each gate by itself: an
      initialiser of `nn.init`, a function or a number; `glorot_uniform` when None.
    - `dtype`: of the parameters.

    With a = x @ weight + bias and b = h @ recurrent + recurrent_bias, each cut into three:

    - `r = sigmoid(a_r + b_r)`
    - `z = sigmoid(a_z + b_z)`
    - `n = tanh(a_n + r * b_n)`
    - `h <- (1 - z) * n + z * h`

    from h = 0, where the columns are those of r, then z, then n.  With `reset_after=False` there is
    no recurrent_bias: b_n is (r * h) @ recurrent_n, and n = tanh(a_n + b_n).

        layer = nn.GRU(3, 8, sequences=True)
        layer(numpy.ones((2, 5, 3), "float32")).shape   # -> (2, 5, 8)
    """

    gates = 3
    recurrent_bias: Array | None

    def __init__(
        self,
        inputs: int,
        units: int,
        *,
        sequences: bool = False,
        bias: bool = True,
        reset_after: bool = True,
        init_weight: Any = None,
        init_recurrent: Any = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(
            inputs,
            units,
            sequences=sequences,
            bias=bias,
            init_weight=init_weight,
            init_recurrent=init_recurrent,
            dtype=dtype,
        )
        self.reset_after = reset_after
        self.recurrent_bias = (
            Parameter((3 * self.units,), init.zeros(), dtype) if reset_after and bias else None
        )

    def zero_state(self, x: Array) -> States:
        return (np.zeros((x.shape[0], self.units), dtype=self.weight.dtype),)

    def step(self, projected: Array, state: States) -> States:
        (h,) = state
        r, z, n = np.split(projected, 3, axis=-1)
        if not self.reset_after:
            gates, new = self.recurrent[:, : 2 * self.units], self.recurrent[:, 2 * self.units :]
            hr, hz = np.split(h @ gates, 2, axis=-1)
            r, z = np.sigmoid(r + hr), np.sigmoid(z + hz)
            n = np.tanh(n + (r * h) @ new)
            return ((1 - z) * n + z * h,)
        again = h @ self.recurrent
        if self.recurrent_bias is not None:
            again = again + self.recurrent_bias
        hr, hz, hn = np.split(again, 3, axis=-1)
        r, z = np.sigmoid(r + hr), np.sigmoid(z + hz)
        n = np.tanh(n + r * hn)
        return ((1 - z) * n + z * h,)
