"""What a model is made of, as a table: layers, output shapes, parameters, multiply-adds.

The model is called on variables, so that nothing is drawn and nothing is computed.

As in published tables, a multiply and its add count as one, and products alone are counted: matrix
products, contractions, correlations, convolutions and their transposes.  What is done element by
element (activations, normalisation, pooling) is not.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tawny.array import Array, lift, wrap
from tawny.dtype import FLOAT32
from tawny.nn.module import Module, check_module
from tawny.nn.parameters import BINDING, Binding, Declaration, path_text
from tawny.node import Node, toposort, variable
from tawny.shape import Shape, as_shape
from tawny.tree import leaves, map_leaves

HEADINGS: Final = ("layer", "kind", "output", "parameters", "multiply-adds")


@dataclass(frozen=True)
class LayerRow:
    """A layer, and what it gave when it was called."""

    path: str
    kind: str
    outputs: tuple[Shape, ...]
    parameters: int
    flops: int

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        shapes = " ".join(str(s) for s in self.outputs) or "-"
        name = self.path or "(model)"
        return name, self.kind, shapes, f"{self.parameters:,}", f"{self.flops:,}"


@dataclass(frozen=True)
class Summary:
    """The layers of a model in the order they are called; printed, it is a table."""

    model: str
    rows: tuple[LayerRow, ...]
    parameters: int
    """Numbers that are trained."""
    state: int
    """Numbers that are kept but not trained."""
    flops: int
    """Multiply-adds of products; see `nn.flops`."""

    @property
    def total(self) -> str:
        """The sums, as a line."""
        return (
            f"{self.model}: {self.parameters:,} parameters, {self.state:,} numbers of state, "
            f"{self.flops:,} multiply-adds"
        )

    def __str__(self) -> str:
        table = [HEADINGS, *(row.cells for row in self.rows)]
        widths = [max(len(line[i]) for line in table) for i in range(len(HEADINGS))]
        lines = ["  ".join(_align(line, widths)).rstrip() for line in table]
        rule = "-" * max(map(len, lines))
        return "\n".join([lines[0], rule, *lines[1:], rule, self.total])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        head = "".join(f"<th>{html.escape(h)}</th>" for h in HEADINGS)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row.cells) + "</tr>"
            for row in self.rows
        )
        caption = html.escape(self.total)
        return f"<table><caption>{caption}</caption><tr>{head}</tr>{body}</table>"


def _align(line: tuple[str, ...], widths: list[int]) -> Iterator[str]:
    for index, (cell, width) in enumerate(zip(line, widths, strict=True)):
        yield cell.rjust(width) if index >= 3 else cell.ljust(width)


@dataclass
class _Observer:
    """Keeps a row for every layer called that has no layers of its own, or numbers.

    It is called after each layer, for inner layers first.  What a layer computed lies
    between its inputs and outputs; what leads to its inputs, its caller computed.
    """

    binding: Binding
    counted: set[Node]
    rows: list[LayerRow] = field(default_factory=list[LayerRow])
    named: set[Declaration] = field(default_factory=set[Declaration])
    between: list[tuple[Module, int]] = field(default_factory=list[tuple[Module, int]])
    """Layers whose caller has no row yet, and the multiply-adds it made to feed them."""

    def __call__(self, layer: Module, inputs: Any, outputs: Any) -> None:
        parts = [m for _, m in layer.walk() if m is not layer]
        inner = any(isinstance(m, Module) for m in parts)
        declared = [m for m in parts if isinstance(m, Declaration) and m not in self.named]
        fed = self._multiply_adds(_arrays(inputs))
        arrays = _arrays(outputs)
        flops = self._multiply_adds(arrays) + self._flops_between(layer, {*parts})
        if fed:
            self.between.append((layer, fed))
        self.named.update(declared)
        if inner and not declared and not flops:
            return
        self.rows.append(
            LayerRow(
                path_text(self.binding.paths.get(layer, ())),
                type(layer).__name__,
                tuple(x.shape for x in arrays),
                sum(d.size for d in declared if d.is_trained),
                flops,
            )
        )

    def _multiply_adds(self, arrays: list[Array]) -> int:
        """The products that lead to arrays and were not counted before."""
        known = self.counted
        reached = toposort([x.node for x in arrays], known.__contains__)
        new = [n for n in reached if n not in known]
        known.update(new)
        return multiply_adds(new)

    def _flops_between(self, layer: Module, parts: set[Module | Declaration]) -> int:
        """What a layer computed to feed its inner layers; the whole model, to feed any."""
        whole = self.binding.paths.get(layer) == ()
        own = [(inner, flops) for inner, flops in self.between if whole or inner in parts]
        self.between = [entry for entry in self.between if entry not in own]
        return sum(flops for _, flops in own)


def _arrays(structure: Any) -> list[Array]:
    return [x for x in leaves(structure) if isinstance(x, Array)]


def summary(model: Module, *inputs: Any) -> Summary:
    """A table of the layers of `model` when it is called with such `inputs`; nothing is computed.

    - `model`: an `nn.Module`.
    - `inputs`: for each argument a shape, batch included, that stands for a float32 array, or an
      array.

    Gives a `Summary`: printed, a table of output shapes, parameters and multiply-adds.

        print(nn.summary(nn.Sequential(nn.Linear(3, 8), nn.relu), (1, 3)))
    """
    check_module(model, "summary")
    declarations = [m for _, m in model.walk() if isinstance(m, Declaration)]
    binding = Binding(
        {d: wrap(variable(None, d.shape, d.dtype)) for d in declarations},
        {m: path for path, m in model.walk() if isinstance(m, Module)},
    )
    given = [_input(x) for x in inputs]
    observer = _Observer(binding, set(toposort([x.node for x in _arrays(given)])))
    binding.observe = observer
    token = BINDING.set(binding)
    try:
        model(*given)
    finally:
        BINDING.reset(token)
    return Summary(
        type(model).__name__,
        tuple(observer.rows),
        sum(d.size for d in declarations if d.is_trained),
        sum(d.size for d in declarations if not d.is_trained),
        sum(row.flops for row in observer.rows),
    )


def _input(given: Any) -> Any:
    """A variable for a shape; arrays, and structures of them, as they are."""
    if isinstance(given, (tuple, list)):
        items = cast("tuple[Any, ...]", given)
        if all(isinstance(n, int) for n in items):
            return wrap(variable(None, as_shape(items, "summary"), FLOAT32))
        return map_leaves(lambda x: wrap(lift(x, "summary")), items)
    return wrap(lift(given, "summary"))


# ---------------------------------------------------------------- multiply-adds


def multiply_adds(nodes: Iterable[Node]) -> int:
    """The multiply-adds of some nodes."""
    return sum(n.op.multiply_adds(n.shape, [i.shape for i in n.inputs]) for n in nodes)


def flops(outputs: Any) -> int:
    """The multiply-adds it takes to compute arrays, each shared product once.

    `outputs` is an array or a nested structure of arrays; of a model, what it gives:
    `nn.flops(model(x))`, or `model.summary(shape).flops`.
    """
    nodes = [x.node for x in leaves(outputs) if isinstance(x, Array)]
    return multiply_adds(toposort(nodes))
