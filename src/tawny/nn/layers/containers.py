"""Layers one after the other, and functions as layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast, overload

from tawny.array import Array
from tawny.errors import index_error, type_error, value_error
from tawny.nn.module import Module
from tawny.shape import as_int

Layer = Callable[..., Any]


def check_layer(given: Any, op: str, word: str) -> None:
    """Refuse what cannot be called on arrays; a class of modules gives a module, not a result."""
    if isinstance(given, type) and issubclass(cast("type[object]", given), Module):
        name = given.__name__
        raise type_error(op, f"{word} is the class {name}; accepted: an instance, {name}(...)")
    if not callable(given):
        raise type_error(op, f"{word} is {type(given).__name__}; accepted: modules and functions")


class Lambda(Module):
    """A function as a layer."""

    def __init__(self, function: Layer) -> None:
        check_layer(function, type(self).__name__, "the function")
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)

    def extra(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


class LambdaArray(Lambda):
    """A function of a list of arrays as a layer."""

    def forward(self, *inputs: Any) -> Any:
        return self.function(list(inputs))


class Input(Module):
    """The input of a model, checked: `shape` is that of one sample, None standing for any size."""

    def __init__(self, *shape: int | None) -> None:
        self.shape = tuple(None if n is None else as_int(n, "Input", "shape") for n in shape)
        for n in self.shape:
            if n is not None and n < 0:
                raise value_error(
                    "Input", f"shape has {n}; accepted: sizes from 0, and None for any"
                )

    def forward(self, x: Array) -> Array:
        self.check_array(x)
        fits = x.ndim == len(self.shape) + 1 and all(
            wanted is None or n == wanted for n, wanted in zip(x.shape[1:], self.shape, strict=True)
        )
        if not fits:
            sizes = ", ".join(["batch", *("any" if n is None else str(n) for n in self.shape)])
            raise self.input_error(f"the input has shape {x.shape}; accepted: ({sizes})")
        return x

    def extra(self) -> str:
        return ", ".join(map(str, self.shape))


class Sequential(Module):
    """Layers, each fed with what the one before gives.

    - `layers`: modules, or plain functions of arrays.

    They are found by their numbers: `model[0]`, and `0` in paths.

        model = nn.Sequential(nn.Linear(3, 8), nn.relu, nn.Linear(8, 2))
        model(numpy.ones((4, 3), "float32")).shape    # -> (4, 2)
    """

    def __init__(self, *layers: Layer) -> None:
        for index, layer in enumerate(layers):
            check_layer(layer, "Sequential", f"layer {index}")
            self.adopt(index, layer if isinstance(layer, Module) else Lambda(layer))

    @property
    def layers(self) -> tuple[Module, ...]:
        """The layers in order."""
        return tuple(m for key, m in self._members.items() if isinstance(key, int))

    def forward(self, *inputs: Any) -> Any:
        layers = self.layers
        if not layers:
            return inputs[0] if len(inputs) == 1 else inputs
        outputs = layers[0](*inputs)
        for layer in layers[1:]:
            outputs = layer(outputs)
        return outputs

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.layers)

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...

    def __getitem__(self, index: int | slice) -> Module:
        """A layer, or a model of some of the layers, which it shares with this one."""
        if isinstance(index, slice):
            return Sequential(*self.layers[index])
        try:
            return self.layers[index]
        except IndexError:
            raise index_error(
                "Sequential", f"there is no layer {index}; it has {len(self)} of them"
            ) from None
