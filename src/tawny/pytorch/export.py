"""A module of PyTorch as a graph, by way of `torch.export`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, cast

from tawny.array import Array
from tawny.bad_calls import explain_bad_calls
from tawny.errors import type_error, value_error
from tawny.graph.graph import Graph
from tawny.ops.creation import var
from tawny.pytorch.backend import decompositions
from tawny.pytorch.library import fx, is_tensor, pytree, torch
from tawny.pytorch.record import check_kind, constant_of, record
from tawny.pytorch.table import UnsupportedError, own_dtype


@explain_bad_calls
def from_torch(module: Any, /, *example_inputs: Any) -> Graph:
    """The graph of a module of PyTorch, for inputs of the shapes and dtypes of the examples.

    - `module`: a `torch.nn.Module`, or a function of tensors; call `module.eval()` first unless
      you want it as it is trained.
    - `example_inputs`: tensors, or what else it is called with; numbers and flags among them
      become part of the graph.

    `tw.from_torch(model.eval(), images)` gives a `Graph`.  Its inputs are called as the arguments
    of `forward`, its outputs have the structure of the module's; weights are copied into it as
    constants.  Buffers that a call changes, as running means are in training, are variables with
    an update, by the names that they have in the module.  Raises ValueError where a tensor's
    operation has no counterpart, with the line of your program, and TypeError for what is no
    module.
    """
    if find_spec("torch") is None:
        raise ModuleNotFoundError("from_torch: PyTorch is not installed; pip install torch")
    if not example_inputs:
        raise type_error(
            "from_torch", "there is no example input; give what forward is called with"
        )
    exported = torch.export.export(_as_module(module), example_inputs, strict=False)
    exported = exported.run_decompositions(dict(decompositions()))
    return _graph_of(exported, type(module).__name__)


def _as_module(module: Any) -> Any:
    """A module, also of a function."""
    if isinstance(module, torch.nn.Module):
        return module
    if isinstance(module, type) or not callable(module):
        kind = module.__name__ if isinstance(module, type) else type(module).__name__
        raise type_error(
            "from_torch", f"the module is {kind}; accepted: a torch.nn.Module, or a function"
        )

    class Function(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *args: Any) -> Any:
            return module(*args)

    return Function()


def _graph_of(exported: Any, name: str) -> Graph:
    """The graph of an exported program; buffers that it changes are variables with updates."""
    signature, module = exported.graph_signature, exported.graph_module
    changed: Mapping[str, str] = {**signature.buffers_to_mutate, **signature.user_inputs_to_mutate}
    states = {t: var(t, *_kind(exported, t)) for t in changed.values()}
    inputs: list[Array] = []
    values: list[Any] = []
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for spec, node in zip(signature.input_specs, placeholders, strict=True):
        if spec.target in states:
            values.append(states[spec.target])
        elif spec.kind.name == "USER_INPUT":
            values.append(_input(node))
            if isinstance(values[-1], Array):
                inputs.append(values[-1])
        else:
            values.append(constant_of(_tensor(exported, spec.target)))
    recorded = _record(module, values)
    (output,) = [node for node in module.graph.nodes if node.op == "output"]
    results = [recorded[x] if isinstance(x, fx.Node) else x for x in output.args[0]]
    updates: dict[Array, Array] = {}
    given: list[Any] = []
    for spec, result in zip(signature.output_specs, results, strict=True):
        target = changed.get(getattr(spec.arg, "name", ""))
        if spec.kind.name.endswith("MUTATION") and target is not None:
            updates[states[target]] = result
        else:
            given.append(result)
    return Graph(inputs, _structure(exported, given), updates, name=name, unused="ignore")


def _record(module: Any, values: Sequence[Any]) -> Mapping[Any, Any]:
    """What each node of a module gives for these inputs; refuses operations that are not known."""
    missing: dict[Any, str] = {}
    recorded = record(module, values, missing)
    for node, reason in missing.items():
        trace = str(node.meta.get("stack_trace") or "").strip().splitlines()
        place = next((line.strip() for line in reversed(trace) if "File" in line), "")
        where = f"; it is called at {place}" if place else ""
        way_out = "; call module.eval() first" if "random" in reason else ""
        raise value_error(
            "from_torch", f"{node.target} cannot be recorded: {reason}{where}{way_out}"
        )
    return recorded


def _kind(exported: Any, target: str) -> tuple[Any, Any]:
    """Shape and dtype of a parameter or buffer."""
    tensor = _tensor(exported, target)
    return tuple(tensor.shape), own_dtype(tensor.dtype)


def _tensor(exported: Any, target: str) -> Any:
    """A parameter, buffer or constant of an exported program."""
    known: Mapping[str, Any] = exported.state_dict
    return known[target] if target in known else exported.constants[target]


def _input(node: Any) -> Any:
    """The variable for an example tensor; any other example is itself."""
    value = node.meta["val"]
    if not is_tensor(value):
        return value
    try:
        check_kind(value)
    except UnsupportedError as error:
        raise value_error("from_torch", f"input {node.name!r} is {error}") from None
    return var(node.name, tuple(value.shape), own_dtype(value.dtype))


def _structure(exported: Any, results: Sequence[Any]) -> Any:
    """The results in the structure that the module gives them in."""
    for result in results:
        if not isinstance(result, Array):
            raise type_error(
                "from_torch", f"the module gives {result!r} among its results; accepted: tensors"
            )
    spec = exported.module_call_graph[0].signature.out_spec
    found: Any = pytree.tree_unflatten(list(results), spec)
    return {**cast("dict[str, Any]", found)} if isinstance(found, dict) else found
