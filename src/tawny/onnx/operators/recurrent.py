"""Recurrent layers: RNN, GRU and LSTM, as loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import INT64
from tawny.loops.blocks import scan_in_blocks
from tawny.loops.functions import scan
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.elementwise import elu, hard_sigmoid, leaky_relu, select
from tawny.onnx.table import operator

Activation = Callable[[Array], Array]
State = tuple[Array, ...]
Step = Callable[[Array, State], State]
"""From what a step adds of its input, and the state, to the next state."""

Product = Callable[[Array], Array]
"""Rows times the weights of a direction."""

ACTIVATIONS: Final[dict[str, Callable[[Array, float, float], Array]]] = {
    "relu": lambda x, _a, _b: np.relu(x),
    "tanh": lambda x, _a, _b: np.tanh(x),
    "sigmoid": lambda x, _a, _b: np.sigmoid(x),
    "affine": lambda x, a, b: a * x + b,
    "leakyrelu": lambda x, a, _b: leaky_relu(x, a),
    "thresholdedrelu": lambda x, a, _b: select(x > a, x, np.zeros_like(x)),
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "hardsigmoid": hard_sigmoid,
    "elu": lambda x, a, _b: elu(x, a),
    "softsign": lambda x, _a, _b: x / (1 + np.abs(x)),
    "softplus": lambda x, _a, _b: np.softplus(x),
}
"""Functions by name, of an array and two parameters that some of them have."""

DEFAULTS: Final = {
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, 0.0),
    "thresholdedrelu": (1.0, 0.0),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, 0.0),
}
"""The parameters of activations that have some."""


class Recurrence:
    """Base of recurrent operators: directions, initial states, lengths, layout."""

    is_by_rows: ClassVar = True
    """Whether the product of inputs is that of each row, whatever the other rows are."""

    def __init__(self, call: NodeCall, functions: Sequence[str]) -> None:
        self.call = call
        self.direction = call.choice(
            "direction", "forward", ("forward", "reverse", "bidirectional")
        )
        self.directions = 2 if self.direction == "bidirectional" else 1
        self.is_batch_first = call.flag("layout")
        x = call.array(0)
        if x.ndim != 3:
            call.fail(f"operand 0 has shape {x.shape}; it must have 3 axes")
        self.x = np.swapaxes(x, 0, 1) if self.is_batch_first else x
        self.steps, self.batch, _ = self.x.shape
        if not self.steps:
            call.fail("a sequence without a step is not supported")
        self.kernels, self.recurrent = call.array(1), call.array(2)
        self.bias, self.lengths = call.optional(3), call.optional(4)
        self.size = self.state_size()
        self.functions = self._activations(functions)
        self.clip = call.number("clip") if call.has("clip") else None

    def state_size(self) -> int:
        """How many numbers a state has."""
        return self.recurrent.shape[-1]

    def _activations(self, defaults: Sequence[str]) -> list[Activation]:
        names = self.call.texts("activations", tuple(defaults) * self.directions)
        if len(names) != len(defaults) * self.directions:
            self.call.fail(f"{len(names)} activations came for {self.directions} directions")
        alphas = iter(self.call.floats("activation_alpha", ()))
        betas = iter(self.call.floats("activation_beta", ()))
        made: list[Activation] = []
        for name in names:
            function = ACTIVATIONS.get(name.lower())
            if function is None:
                self.call.fail(f"activation {name!r} is not supported")
            first, second = DEFAULTS.get(name.lower(), (0.0, 0.0))
            has_alpha, has_beta = name.lower() in DEFAULTS, name.lower() in _WITH_BETA
            alpha = next(alphas, first) if has_alpha else first
            beta = next(betas, second) if has_beta else second
            made.append(_with_parameters(function, alpha, beta))
        return made

    def initial(self, position: int, direction: int) -> Array:
        """The state before the first step."""
        given = self.call.optional(position)
        if given is None:
            return np.zeros((self.batch, self.size), self.x.dtype)
        return given[:, direction] if self.is_batch_first else given[direction]

    def clip_gates(self, x: Array) -> Array:
        """What goes into an activation."""
        return x if self.clip is None else np.minimum(np.maximum(x, -self.clip), self.clip)

    def biases(self, direction: int, gates: int) -> tuple[Array | None, Array | None]:
        """The biases of the input and of the state."""
        if self.bias is None:
            return None, None
        row, middle = self.bias[direction], gates * self.size
        return row[:middle], row[middle:]

    def input_product(self, direction: int) -> Product:
        """Inputs times their weights."""
        weights = self.kernels[direction].T
        return lambda x: np.matmul(x, weights)

    def state_product(self, direction: int) -> Product:
        """States times their weights."""
        weights = self.recurrent[direction].T
        return lambda h: np.matmul(h, weights)

    def run(
        self, make_step: Callable[[int], tuple[Step, Array | None]], initial: Sequence[int]
    ) -> tuple[Array, ...]:
        """All states of all directions, and the last ones.

        `make_step` gives the step of a direction, and the bias of its input.
        """
        columns: list[Array] = []
        ends: list[State] = []
        for direction in range(self.directions):
            step, bias = make_step(direction)
            state: State = tuple(self.initial(i, direction) for i in initial)
            column, state = self._steps(step, direction, bias, state)
            columns.append(column)
            ends.append(state)
        stacked = np.stack(columns, 1)
        last = [np.stack(list(part)) for part in zip(*ends, strict=True)]
        if self.is_batch_first:
            return np.permute_dims(stacked, (2, 0, 1, 3)), *(np.swapaxes(e, 0, 1) for e in last)
        return stacked, *last

    def _steps(
        self, step: Step, direction: int, bias: Array | None, state: State
    ) -> tuple[Array, State]:
        """The states after all steps, stacked, and the last one."""
        backward = self.direction == "reverse" or direction == 1
        product = self.input_product(direction)

        def rows_of(given: tuple[Array, Array]) -> tuple[Array, Array]:
            inputs = product(given[0])
            return inputs if bias is None else inputs + bias, given[1]

        def row(before: State, given: tuple[Array, Array]) -> tuple[State, Array]:
            return self._step(step, given[0], before, given[1])

        xs = self.x, np.arange(self.steps)
        if self.is_by_rows:
            last, stacked = scan_in_blocks(row, state, xs, rows_of, self.batch, backward)
        else:
            last, stacked = scan(row, state, rows_of(xs), reverse=backward)
        return stacked, last

    def _step(self, step: Step, x: Array, state: State, t: Array) -> tuple[State, Array]:
        """The next state and the output; sequences that are shorter keep theirs, and give zeros."""
        new = step(x, state)
        if self.lengths is None:
            return new, new[0]
        there = np.expand_dims(self.lengths.astype(INT64) > t, 1)
        kept = tuple(select(there, n, o) for n, o in zip(new, state, strict=True))
        return kept, select(there, new[0], np.zeros_like(new[0]))


_WITH_BETA: Final = frozenset({"affine", "scaledtanh", "hardsigmoid"})


def _with_parameters(
    function: Callable[[Array, float, float], Array], alpha: float, beta: float
) -> Activation:
    return lambda x: function(x, alpha, beta)


def _sum(*terms: Array | None) -> Array | None:
    there = [t for t in terms if t is not None]
    return sum(there[1:], start=there[0]) if there else None


@operator("RNN")
def rnn(call: NodeCall) -> tuple[Array, ...]:
    """A layer whose state is a function of its input and the state before."""
    layer = Recurrence(call, ("Tanh",))

    def make_step(direction: int) -> tuple[Step, Array | None]:
        product, function = layer.state_product(direction), layer.functions[direction]

        def step(x: Array, state: State) -> State:
            return (function(layer.clip_gates(x + product(state[0]))),)

        return step, _sum(*layer.biases(direction, 1))

    return layer.run(make_step, (5,))


@operator("GRU")
def gru(call: NodeCall) -> tuple[Array, ...]:
    """Gated recurrent units."""
    layer = Recurrence(call, ("Sigmoid", "Tanh"))
    size, after = layer.size, call.flag("linear_before_reset")

    def make_step(direction: int) -> tuple[Step, Array | None]:
        weights = layer.recurrent[direction].T
        gates, hidden = layer.functions[2 * direction : 2 * direction + 2]
        outer, inner = layer.biases(direction, 3)
        held = inner[2 * size :] if inner is not None else None

        def step(x: Array, state: State) -> State:
            h = state[0]
            both = np.matmul(h, weights[:, : 2 * size])
            if inner is not None:
                both = both + inner[: 2 * size]
            update, reset = (
                gates(
                    layer.clip_gates(
                        x[:, i * size : (i + 1) * size] + both[:, i * size : (i + 1) * size]
                    )
                )
                for i in range(2)
            )
            own = weights[:, 2 * size :]
            if after:
                part = np.matmul(h, own)
                part = reset * (part if held is None else part + held)
            else:
                part = np.matmul(reset * h, own)
                part = part if held is None else part + held
            new = hidden(layer.clip_gates(x[:, 2 * size :] + part))
            return ((1 - update) * new + update * h,)

        return step, outer

    return layer.run(make_step, (5,))


@operator("LSTM")
def lstm(call: NodeCall) -> tuple[Array, ...]:
    """Long short-term memory."""
    return run_lstm(Recurrence(call, LSTM_FUNCTIONS))


LSTM_FUNCTIONS: Final = ("Sigmoid", "Tanh", "Tanh")
"""What gates, cells and results go through, unless a node says other functions."""


def run_lstm(layer: Recurrence) -> tuple[Array, ...]:
    """All results of long short-term memory, the last one, and the last cells."""
    call = layer.call
    size, peepholes = layer.size, call.optional(7)
    coupled = call.flag("input_forget")

    def make_step(direction: int) -> tuple[Step, Array | None]:
        product = layer.state_product(direction)
        gate, cell, hidden = layer.functions[3 * direction : 3 * direction + 3]
        peep = None if peepholes is None else peepholes[direction]

        def seen(i: int, c: Array) -> Array | float:
            return 0.0 if peep is None else peep[i * size : (i + 1) * size] * c

        def step(x: Array, state: State) -> State:
            h, c = state
            whole = x + product(h)
            i, o, f, g = (whole[:, k * size : (k + 1) * size] for k in range(4))
            entry = gate(layer.clip_gates(i + seen(0, c)))
            forget = 1 - entry if coupled else gate(layer.clip_gates(f + seen(2, c)))
            new = forget * c + entry * cell(layer.clip_gates(g))
            output = gate(layer.clip_gates(o + seen(1, new)))
            return output * hidden(new), new

        return step, _sum(*layer.biases(direction, 4))

    return layer.run(make_step, (5, 6))
