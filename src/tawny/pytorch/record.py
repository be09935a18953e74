"""A graph of PyTorch's ops recorded as arrays, node by node."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy

import tawny.numpy as np
from tawny import scopes
from tawny.array import Array
from tawny.dtype import bfloat16
from tawny.ops.creation import var
from tawny.pytorch import (
    creation,
    elementwise,
    indexing,
    movement,
    normalisation,
    products,
    reductions,
    windows,
)
from tawny.pytorch.library import RANDOM, fake_tensor, fx, is_tensor, op_name, pytree, torch
from tawny.pytorch.table import LOWERINGS, Call, UnsupportedError, own_dtype
from tawny.shape import Shape

CHAPTERS: Final = (
    creation,
    elementwise,
    indexing,
    movement,
    normalisation,
    products,
    reductions,
    windows,
)
"""The modules that fill the table of ops."""

Missing = dict[Any, str]
"""Nodes that are not computed here, and why."""

CHECKS: Final = frozenset({"aten._assert_tensor_metadata.default"})
"""Ops that give nothing, and check what is known already."""

REFUSALS: Final = (UnsupportedError, ValueError, TypeError, IndexError, ArithmeticError)
"""What a function of the table raises for a call that it cannot compute."""


def size_hint(n: Any) -> Any:
    """A size, or another number; of one that may change, what it is in the example."""
    if isinstance(n, (int, float)):
        return n
    hint = n.node.hint
    if hint is None:
        raise UnsupportedError("a size that depends on data")
    return hint


def shape_hint(tensor: Any) -> Shape:
    """The shape of a stand-in; sizes that may change as they are in the example."""
    return tuple(map(size_hint, tensor.shape))


def example_input(value: Any, name: str | None = None) -> Any:
    """A variable for a tensor's stand-in; numbers as they are in the example."""
    if is_tensor(value):
        check_kind(value)
        return var(name, shape_hint(value), own_dtype(value.dtype))
    return value if value is None else size_hint(value)


def check_kind(tensor: Any) -> None:
    """Refuse tensors that are no plain arrays in the memory of the host."""
    if tensor.device.type != "cpu":
        raise UnsupportedError(f"a tensor on device {tensor.device.type!r}")
    if tensor.layout is not torch.strided:
        raise UnsupportedError(f"a tensor of layout {tensor.layout}")
    own_dtype(tensor.dtype)


def record(module: Any, inputs: Iterable[Any], missing: Missing | None = None) -> Mapping[Any, Any]:
    """The value of each node: arrays for tensors.  `inputs` are the placeholders' values.

    A node that cannot be computed raises `UnsupportedError`; if `missing` is given, it is entered
    there, and variables stand for its results.
    """
    values: dict[Any, Any] = {}
    given = iter(inputs)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
            continue
        try:
            with scopes.scope(_scope(node)):
                values[node] = _value(module, node, values)
        except REFUSALS as error:
            if missing is None:
                raise UnsupportedError(f"{node.target}: {error}") from error
            missing[node] = str(error)
            values[node] = _stand_in(node)
    return values


def _scope(node: Any) -> str:
    """The path of the module that a node comes from."""
    stack: list[Any] = [*(node.meta.get("nn_module_stack") or {}).values()]
    found = str(stack[-1][0]) if stack else ""
    return found.removeprefix("L['self'].").removeprefix("L['self']") or "torch"


def _value(module: Any, node: Any, values: Mapping[Any, Any]) -> Any:
    def known(x: Any) -> Any:
        return values[x]

    args = fx.node.map_arg(node.args, known)
    kwargs = fx.node.map_arg(node.kwargs, known)
    if node.op == "output":
        return args[0]
    if node.op == "get_attr":
        return _attribute(module, str(node.target))
    if node.op != "call_function":
        raise UnsupportedError(f"a call of {node.op}")
    name = op_name(node.target)
    if node.target is operator.getitem and not isinstance(args[0], Array):
        return args[0][args[1]]
    size = _SIZES.get(name)
    if size is not None:
        return size(*args)
    result = node.meta.get("val")
    if not any(map(is_tensor, leaves(result))) and not _holds_arrays((args, kwargs)):
        return node.target(*args, **kwargs)
    if name in CHECKS:
        return None
    lowering = LOWERINGS.get(name)
    if lowering is None:
        raise UnsupportedError("it draws random numbers" if name in RANDOM else "it is not known")
    for x in leaves([result, *[x.meta.get("val") for x in node.all_input_nodes]]):
        if is_tensor(x):
            check_kind(x)
    operands = fx.node.map_arg(node.args, _example_of)
    value = lowering(Call(name, result, operands), *args, **kwargs)
    _check(value, result)
    return value


def _example_of(node: Any) -> Any:
    return node.meta.get("val")


def _size(x: Array, dim: int) -> int:
    return x.shape[dim]


def _total(x: Array) -> int:
    return x.size


_SIZES: Final[dict[str, Callable[..., int]]] = {
    "aten.sym_size.int": _size,
    "aten.sym_numel.default": _total,
}
"""What is asked of a tensor's shape."""


def _attribute(module: Any, path: str) -> Any:
    """A tensor that is part of the graph itself, as a constant."""
    found = module
    for name in path.split("."):
        found = getattr(found, name)
    if not is_tensor(found):
        raise UnsupportedError(f"an attribute of type {type(found).__name__}")
    return constant_of(found)


def constant_of(tensor: Any) -> Array:
    """The value of a tensor as it is now."""
    check_kind(tensor)
    with fake_tensor.unset_fake_temporarily():
        plain = tensor.detach().resolve_conj().resolve_neg()
        if plain.dtype == torch.bfloat16:  # of which PyTorch makes no NumPy array
            return np.asarray(plain.view(torch.int16).numpy().view(bfloat16()))
        return np.asarray(numpy.array(plain.numpy()))


def _holds_arrays(x: Any) -> bool:
    return any(isinstance(leaf, Array) for leaf in leaves(x))


def leaves(x: Any) -> list[Any]:
    """What is in nested lists, tuples and dicts."""
    found: list[Any] = pytree.tree_leaves(x)
    return found


def _check(values: Any, results: Any) -> None:
    """Refuse what has another shape or dtype than PyTorch would give."""
    for value, result in zip(leaves(values), leaves(results), strict=False):
        if value is None or not is_tensor(result):
            continue
        if value.dtype != own_dtype(result.dtype):
            raise UnsupportedError(f"its dtype would be {value.dtype}, not {result.dtype}")
        known = all(isinstance(n, int) for n in result.shape)
        if known and value.shape != tuple(result.shape):
            raise UnsupportedError(f"its shape would be {value.shape}, not {tuple(result.shape)}")


def _stand_in(node: Any) -> Any:
    """Variables in place of what a node gives."""
    return pytree.tree_map(_example_or_none, node.meta.get("val"))


def _example_or_none(x: Any) -> Any:
    try:
        return example_input(x)
    except UnsupportedError:
        return None
