"""The parts of a graph as users give them: inputs, outputs and updates, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from tawny.array import Array, former_variable
from tawny.errors import list_accepted, list_some, type_error, value_error
from tawny.loops.building import is_of_step
from tawny.node import Node, Variable, toposort
from tawny.source import describe
from tawny.tree import leaves


def _place(node: Node) -> str:
    return describe(node.sources) or "unknown place"


def _variable_label(variable: Node) -> str:
    """A variable by its name and place."""
    name = variable.name
    return f"{name!r} ({_place(variable)})" if _is_named(variable) else name


def _is_named(node: Node) -> bool:
    return isinstance(node.op, Variable) and bool(node.op.name)


def as_inputs(inputs: Iterable[Array]) -> tuple[Node, ...]:
    """The variables that a graph is given as inputs, each once."""
    if isinstance(inputs, Array):
        raise type_error("Graph", "inputs must be a list of variables, not one array")
    if not isinstance(inputs, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise type_error(
            "Graph", f"inputs must be a list of variables, not {type(inputs).__name__}"
        )
    nodes: dict[Node, int] = {}
    for position, x in enumerate(inputs):
        node = as_variable(x, f"input {position}")
        if node in nodes:
            raise value_error(
                "Graph", f"input {position} is {node.name!r}, as is input {nodes[node]}"
            )
        nodes[node] = position
    return tuple(nodes)


def as_variable(x: object, what: str) -> Node:
    """The node of a variable; errors call what was given `what`."""
    if not isinstance(x, Array):
        raise type_error("Graph", f"{what} is {type(x).__name__}; accepted: variables of tw.var")
    if not isinstance(x.node.op, Variable):
        former = former_variable(x)
        if former is not None:
            raise value_error(
                "Graph",
                f"{what} was variable {former.name!r} until it was assigned to ({_place(x.node)}): "
                "the name stands for the result since. Give results names of their own, as "
                "y = x.at[i].set(v) or y = x + 1; a variable's value is set on the program",
            )
        raise value_error(
            "Graph",
            f"{what} is {x.node.name} ({_place(x.node)}), not a variable; "
            "accepted: arrays of tw.var",
        )
    return x.node


def as_outputs(outputs: Any) -> tuple[Node, ...]:
    """The nodes of all arrays in a structure of outputs."""
    nodes: list[Node] = []
    for position, x in enumerate(leaves(outputs)):
        if not isinstance(x, Array):
            raise type_error(
                "Graph", f"output {position} is {type(x).__name__}; accepted: arrays of tawny.numpy"
            )
        nodes.append(x.node)
    return tuple(nodes)


def as_updates(updates: Any, known: Sequence[Node]) -> tuple[tuple[Node, Node], ...]:
    """Targets and sources; targets are named among the variables that `known` depend on, too."""
    if updates is None:
        return ()
    if not isinstance(updates, Mapping):
        raise type_error(
            "Graph",
            f"updates is {type(updates).__name__}; accepted: a dict from variables, or their "
            "names, to the arrays they become",
        )
    pairs: dict[Node, Node] = {}
    given = cast("Mapping[Array | str, Array]", updates)
    reached = [*known, *[x.node for x in given.values() if isinstance(x, Array)]]  # pyright: ignore[reportUnnecessaryIsInstance]
    for target, source in given.items():
        if isinstance(target, str):
            variable = _variable_named(target, reached)
        else:
            variable = as_variable(target, "the target of an update")
        if not isinstance(source, Array):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise type_error(
                "Graph", f"the update of {variable.name!r} is {type(source).__name__}, not an array"
            )
        if (source.shape, source.dtype) != (variable.shape, variable.dtype):
            raise value_error(
                "Graph",
                f"the update of {variable.name!r} is {source.dtype}{list(source.shape)}; "
                f"it must be {variable.dtype}{list(variable.shape)}",
            )
        if variable in pairs:
            raise value_error("Graph", f"variable {variable.name!r} is updated twice")
        pairs[variable] = source.node
    return tuple(pairs.items())


def _variable_named(name: str, nodes: Sequence[Node]) -> Node:
    """The variable of that name among those that `nodes` depend on."""
    variables = [n for n in toposort(nodes) if isinstance(n.op, Variable)]
    found = [n for n in variables if n.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        places = " and ".join(map(_place, found))
        raise value_error("Graph", f"updates: two variables are called {name!r} ({places})")
    accepted = list_accepted([n.name for n in variables if _is_named(n)], name)
    raise value_error("Graph", f"updates: no variable is called {name!r}; accepted: {accepted}")


def check_names(variables: Sequence[Node]) -> None:
    """Refuse variables of which two have one name."""
    seen: dict[str, Node] = {}
    for node in variables:
        if _is_named(node) and node.name in seen:
            raise value_error(
                "Graph",
                f"two variables are called {node.name!r} ({_place(seen[node.name])} and "
                f"{_place(node)}); names must be unique",
            )
        seen[node.name] = node


def check_reached(order: Sequence[Node], variables: Sequence[Node]) -> None:
    """Refuse a graph, all of whose nodes are `order`, that needs other variables than these."""
    known = set(variables)
    missing = [n for n in order if isinstance(n.op, Variable) and n not in known]
    if missing:
        listed = list_some([*map(_variable_label, missing)])
        within = any(map(is_of_step, missing))
        said = "; what a step computes is known in it alone: let it return that" * within
        raise value_error(
            "Graph", f"the outputs depend on variables that are not inputs: {listed}{said}"
        )
