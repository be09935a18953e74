"""Programs that read and write PyTorch's tensors where they lie."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy

import tawny.numpy as np
from tawny.array import Array, wrap
from tawny.forking import fork_safe_lock
from tawny.graph.graph import Graph
from tawny.graph.program import Program
from tawny.node import Node, Value, toposort
from tawny.ops.creation import var
from tawny.pytorch.library import fx, is_tensor, torch
from tawny.pytorch.record import check_kind, record, shape_hint, size_hint
from tawny.pytorch.splitting import VIEWS
from tawny.pytorch.table import own_dtype
from tawny.shape import Shape

MAX_PROGRAMS: Final = 32
"""Programs that one graph keeps, for inputs of different shapes."""

Options = Mapping[str, Any]


class Layout(NamedTuple):
    """The layout of a tensor: shape, strides, and the axes from the slowest on."""

    shape: Shape
    strides: Shape
    order: tuple[int, ...] | None
    """None for a tensor with gaps or repetitions, or whose axes are in order."""
    dense: bool
    """Whether there are neither gaps nor repetitions."""

    @property
    def memory_shape(self) -> Shape:
        """The sizes of the axes from the slowest on."""
        return self.shape if self.order is None else tuple(self.shape[a] for a in self.order)

    @property
    def memory_axes(self) -> tuple[int, ...]:
        """Where each axis of the tensor is in memory."""
        assert self.order is not None
        return tuple(self.order.index(a) for a in range(len(self.order)))


def layout_of(shape: Shape, strides: Shape) -> Layout:
    """The layout of a tensor with this shape and these strides."""
    order = sorted(range(len(shape)), key=lambda a: (-strides[a], a))
    expected, dense = 1, True
    for axis in reversed(order):
        if shape[axis] != 1:
            dense = dense and strides[axis] == expected
            expected *= shape[axis]
    dense = dense or 0 in shape
    moved = [a for a in order if shape[a] != 1]
    in_order = moved == sorted(moved) or 0 in shape
    if not dense or in_order:
        return Layout(shape, strides, None, dense)
    return Layout(shape, strides, tuple(order), dense)


class TensorInput(NamedTuple):
    """A tensor that a program reads: which argument, which variable, how it must lie."""

    place: int
    name: str
    layout: Layout
    dtype: Any


class TensorOutput(NamedTuple):
    """A tensor that a program makes: the variable that is bound to it, and how it lies."""

    name: str
    layout: Layout
    dtype: Any


Source = Callable[[Sequence[Any], Sequence[Any]], Any]
"""What gives a result, of the arguments and the tensors that the program made."""


class BoundProgram:
    """A graph of PyTorch's compiled for inputs of certain shapes."""

    def __init__(self, module: Any, args: Sequence[Any], options: Options) -> None:
        self._inputs: list[TensorInput] = []
        self._outputs: list[TensorOutput] = []
        self._sources: list[Source] = []
        self._lock = fork_safe_lock()
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        variables: dict[Node, TensorInput] = {}
        values = record(module, self._enter_inputs(placeholders, args, variables))
        made = self._enter_outputs(module, values, {p: i for i, p in enumerate(placeholders)})
        reached = set(toposort([x.node for x in made.values()]))
        given = {n: x for n, x in variables.items() if n in reached}
        self._inputs = list(given.values())
        self._addresses = [-1] * len(self._inputs)
        """Where the tensors lie that the inputs are bound to."""
        graph = None
        if made:
            graph = Graph(map(wrap, given), updates=made, unused="ignore")
        self.program = None if graph is None else graph.compile(incremental=False, **options)

    # ---------------------------------------------------------------- building

    def _enter_inputs(
        self, placeholders: Sequence[Any], args: Sequence[Any], variables: dict[Node, TensorInput]
    ) -> list[Any]:
        """The values of placeholders; tensors are variables that lie as the tensors do."""
        values: list[Any] = []
        for place, (node, value) in enumerate(zip(placeholders, args, strict=True)):
            if not is_tensor(value):
                values.append(value)
                continue
            check_kind(value)
            layout = _dense(layout_of(shape_hint(value), _strides(value)))
            x = var(node.name, layout.memory_shape, own_dtype(value.dtype))
            variables[x.node] = TensorInput(place, node.name, layout, value.dtype)
            values.append(x if layout.order is None else np.permute_dims(x, layout.memory_axes))
        return values

    def _enter_outputs(
        self, module: Any, values: Mapping[Any, Any], places: Mapping[Any, int]
    ) -> dict[Array, Array]:
        """What the program's outputs are updated with; and how each result is found."""
        (output,) = [node for node in module.graph.nodes if node.op == "output"]
        made: dict[Array, Array] = {}
        numbers: dict[Any, int] = {}
        results = output.args[0]
        self._single = not isinstance(results, (tuple, list))
        wanted = [results] if self._single else list(results)
        direct = {x for x in wanted if isinstance(x, fx.Node)}
        for result in wanted:
            if not isinstance(result, fx.Node) or not isinstance(values[result], Array):
                fixed = values[result] if isinstance(result, fx.Node) else result
                self._sources.append(_constant(fixed))
                continue
            chain, base = _views_to(result, direct, places)
            if base in places:
                source = _argument(places[base])
            else:
                if base not in numbers:
                    numbers[base] = len(self._outputs)
                    target, value = self._enter_output(base, values[base])
                    made[target] = value
                source = _output(numbers[base])
            self._sources.append(_through(source, chain, values))
        return made

    def _enter_output(self, node: Any, value: Array) -> tuple[Array, Array]:
        """A variable to be bound to a new tensor, and what it becomes."""
        like = node.meta["val"]
        shape = value.shape
        strides = tuple(like.stride())
        if all(isinstance(n, int) for n in (*strides, *like.shape)) and tuple(like.shape) == shape:
            layout = layout_of(shape, strides)
        else:
            layout = _resize(layout_of(shape_hint(like), _strides(like)), shape)
        layout = _dense(layout)
        name = f"{node.name}_result"
        self._outputs.append(TensorOutput(name, layout, like.dtype))
        target = var(name, layout.memory_shape, value.dtype)
        if layout.order is not None:
            value = np.permute_dims(value, layout.order)
        return target, value

    # ----------------------------------------------------------------- running

    def __call__(self, args: Sequence[Any]) -> Any:
        """The results for these arguments."""
        made = [
            torch.empty_strided(o.layout.shape, o.layout.strides, dtype=o.dtype)
            for o in self._outputs
        ]
        if self.program is not None:
            with self._lock:
                self._run(self.program, args, made)
        results = [source(args, made) for source in self._sources]
        return results[0] if self._single else results

    def _run(self, program: Program, args: Sequence[Any], made: Sequence[Any]) -> None:
        """Bind what lies elsewhere than in the last call, and run."""
        addresses, arrays, copies = self._addresses, list[tuple[int, Value]](), list[Any]()
        for number, given in enumerate(self._inputs):
            tensor = args[given.place]
            if tensor.stride() != given.layout.strides or tensor.is_neg() or tensor.is_conj():
                tensor = _lay_out(tensor, given.layout)
                copies.append(tensor)
            address = tensor.data_ptr()
            if addresses[number] != address:
                addresses[number] = address
                arrays.append((number, array_at(address, given.layout, given.dtype)))
        for number, (output, tensor) in enumerate(
            zip(self._outputs, made, strict=True), len(self._inputs)
        ):
            arrays.append((number, array_at(tensor.data_ptr(), output.layout, output.dtype)))
        program._run_in(arrays)  # pyright: ignore[reportPrivateUsage]


def array_at(address: int, layout: Layout, dtype: Any) -> Value:
    """A tensor's memory as an array, its axes as they lie; the array keeps no tensor alive."""
    shape, kind = layout.memory_shape, own_dtype(dtype)
    nbytes = math.prod(shape) * kind.itemsize
    if not nbytes:
        return numpy.empty(shape, kind)
    memory: Any = (ctypes.c_char * nbytes).from_address(address)
    return numpy.ndarray(shape, kind, memory)


def _lay_out(tensor: Any, layout: Layout) -> Any:
    """A copy of a tensor that lies as the program expects it."""
    copy = torch.empty_strided(layout.shape, layout.strides, dtype=tensor.dtype)
    return copy.copy_(tensor.detach())


def _strides(tensor: Any) -> Shape:
    return tuple(map(size_hint, tensor.stride()))


def _dense(layout: Layout) -> Layout:
    """The layout of a copy without gaps and repetitions."""
    return layout if layout.dense else _resize(layout._replace(order=None), layout.shape)


def _resize(layout: Layout, shape: Shape) -> Layout:
    """A layout with its order of axes, for another shape."""
    order = layout.order or tuple(range(len(shape)))
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return Layout(shape, tuple(strides), layout.order, True)


def _constant(value: Any) -> Source:
    return lambda _, __: value


def _argument(place: int) -> Source:
    return lambda args, _: args[place]


def _output(number: int) -> Source:
    return lambda _, made: made[number]


def _views_to(node: Any, direct: set[Any], places: Mapping[Any, int]) -> tuple[list[Any], Any]:
    """The views that lead to a node, the last first, and what they are views of.

    They lead from an argument, or from another result; otherwise the node stands for itself.
    """
    chain: list[Any] = []
    base = node
    while base.op == "call_function" and str(base.target) in VIEWS:
        chain.append(base)
        base = base.args[0]
        if base in places or (base in direct and str(base.target) not in VIEWS):
            return chain, base
    return ([], node) if base not in places else (chain, base)


def _through(source: Source, chain: Sequence[Any], values: Mapping[Any, Any]) -> Source:
    """The result of views, the last first."""
    if not chain:
        return source
    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def known_value(x: Any) -> Any:
        return values[x]

    for node in reversed(chain):
        known = fx.node.map_arg(node.args[1:], known_value)
        view = torch.ops.aten.reshape.default if "view" in str(node.target) else node.target
        calls.append((view, known, dict(node.kwargs)))

    def look(args: Sequence[Any], made: Sequence[Any]) -> Any:
        tensor = source(args, made)
        for view, rest, options in calls:
            tensor = view(tensor, *rest, **options)
        return tensor

    return look


class CompiledGraph:
    """A graph of PyTorch's, with a program for each combination of sizes that came."""

    def __init__(self, module: Any, options: Options) -> None:
        self._module, self._options = module, options
        self._lock = fork_safe_lock()
        self.programs: dict[tuple[Any, ...], BoundProgram] = {}
        placeholders = [n.meta.get("val") for n in module.graph.nodes if n.op == "placeholder"]
        self._changing = [i for i, value in enumerate(placeholders) if _may_change(value)]
        if not self._changing:
            self._program_for(placeholders)

    def __call__(self, args: list[Any]) -> Any:
        program = self._program_for(args)
        return program(args)

    def _program_for(self, args: Sequence[Any]) -> BoundProgram:
        """The program for arguments of these sizes."""
        key = tuple(_size_key(args[i]) for i in self._changing)
        program = self.programs.get(key)
        if program is None:
            with self._lock:
                program = self.programs.get(key)
                if program is None:
                    program = BoundProgram(self._module, args, self._options)
                    self.programs[key] = program
                    if len(self.programs) > MAX_PROGRAMS:
                        self.programs.pop(next(iter(self.programs)))
        return program


def _may_change(value: Any) -> bool:
    """Whether an argument may have another size in another call."""
    if is_tensor(value):
        return not all(isinstance(n, int) for n in (*value.shape, *value.stride()))
    return value is not None


def _size_key(x: Any) -> Any:
    return (tuple(x.shape), tuple(x.stride())) if is_tensor(x) else x
