"""Functions and graphs over dask arrays: they give dask arrays, computed block by block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, array_for, wrap
from tawny.distributed.blocks.boxes import Chunks, single, without_empty
from tawny.distributed.blocks.building import Builder, BuildRequest, TaskArray
from tawny.distributed.blocks.fitting import UnfitError
from tawny.distributed.blocks.stages import Staging, check_repeatable, is_given
from tawny.distributed.dask import (
    dask,
    dask_arrays,
    dask_graphs,
    distributed,
    require_dask,
    task_spec,
)
from tawny.errors import list_some, type_error, value_error
from tawny.foreign_attributes import is_in_blocks
from tawny.graph.graph import Graph
from tawny.graph.memory_limits import free_bytes
from tawny.graph.options import CompileOptions
from tawny.graph.saving import to_bytes
from tawny.graph.values import variable_value
from tawny.memory.budget import parse_bytes
from tawny.node import Node, Value, variable
from tawny.ops.differentiation import remove_markers
from tawny.tree import leaves, map_leaves

DEFAULT_SHARE: Final = 0.25
"""The part of a worker's memory for the blocks of the tasks that it runs, unless one is given."""


# ------------------------------------------------------------------- public function


def map_blocks(
    graph: Graph,
    arrays: Mapping[str, Any] | None = None,
    /,
    *,
    memory: str | float | None = None,
    **by_name: Any,
) -> Any:
    """The outputs of a graph over dask arrays, as dask arrays: nothing is computed yet.

    - `graph`: a graph without updates, whose variables have the shapes of the arrays.
    - `arrays`: a dict of values by the names of the variables: dask arrays, and any others.
    - `memory`: the bytes that the blocks of a worker's tasks may take, `"500MB"`; None takes a
      quarter of what workers, or this machine, have.
    - `by_name`: such values by name.

    Gives dask arrays in the structure of the outputs.  Each block is computed by a compiled program
    that fuses all the graph does between two reductions; reductions and products are computed in
    parts, which are merged.  Raises ValueError for arrays whose chunks have unknown sizes, and
    MemoryError where an operation cannot be computed in blocks that fit.

        x = tw.var("x", (1000, 1000))
        graph = tw.Graph([x], np.sum(np.exp(-x) * x, axis=0))
        import dask.array
        total = tw.map_blocks(graph, x=dask.array.ones((1000, 1000), chunks=(250, 1000)))
        total.compute().shape                         # -> (1000,)
    """
    require_dask("map_blocks")
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
        kind = type(graph).__name__
        raise type_error("map_blocks", f"graph is {kind}; accepted: a tw.Graph")
    if graph.update_nodes:
        name = graph.names[graph.update_nodes[0][0]]
        raise value_error(
            "map_blocks",
            f"updates change {name!r}, and dask arrays are values; take state as an input and "
            "give it as an output",
        )
    given = {**(arrays or {}), **by_name}
    values: dict[Node, Any] = {}
    for name, value in given.items():
        values[graph.variable(name, "map_blocks")] = value
    missing = [name for node, name in graph.names.items() if node not in values]
    if missing:
        listed = list_some([*map(repr, missing)])
        raise value_error("map_blocks", f"variables have no value: {listed}")
    for node, value in values.items():
        _check_operand(value, node, graph.names[node])
    made = compute_blocks(graph, values, CompileOptions(), memory, "map_blocks")
    return graph.unflatten(made)


def _check_operand(value: Any, node: Node, name: str) -> None:
    """Refuse a dask array that is not of its variable's shape and dtype."""
    if not is_in_blocks(value):
        return
    check_collection(value, name, "map_blocks")
    if value.shape != node.shape or value.dtype != node.dtype:
        raise value_error(
            "map_blocks",
            f"{name!r} is a dask array of {value.dtype}{list(value.shape)}; the variable is "
            f"{node.dtype}{list(node.shape)}: x.astype(...), or a graph for these arrays",
        )


def check_collection(x: Any, name: str, op: str) -> None:
    """Refuse collections of Dask that are no arrays of known chunks."""
    if not isinstance(x, dask_arrays.Array):
        raise type_error(
            op, f"{name} is {type(x).__name__} of Dask; accepted: dask arrays: x.to_dask_array(...)"
        )
    if any(np.isnan(n) for sizes in x.chunks for n in sizes):
        raise value_error(
            op,
            f"{name} has chunks of unknown sizes; x.compute_chunk_sizes() finds out what they are",
        )
    if not isinstance(x._meta, np.ndarray):
        kind = type(x._meta).__name__
        raise type_error(
            op, f"{name} has blocks of {kind}; accepted: blocks that are NumPy's arrays"
        )


# ---------------------------------------------------------------------- functions


def call_on_blocks(function: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
    """What a public function gives for dask arrays: dask arrays, and what depends on shapes."""
    op: str = function.__name__
    require_dask(op)
    values: dict[Node, Any] = {}

    def put(x: Any) -> Any:
        if isinstance(x, Array) and not x.node.known:
            raise type_error(
                op,
                "a dask array stands beside a lazy array; give both to a function made by tw.jit, "
                "or to tw.map_blocks(graph, ...)",
            )
        if not is_in_blocks(x):
            return x
        check_collection(x, f"operand {len(values)}", op)
        node = next((n for n, known in values.items() if known is x), None)
        if node is None:
            node = variable(f"x{len(values)}", x.shape, dt.own_dtype(x.dtype, op))
            values[node] = x
        return wrap(node)

    result = function(*map_leaves(put, tuple(args)), **map_leaves(put, dict(kwargs)))
    arrays = [x for x in leaves(result) if isinstance(x, Array)]
    if not arrays:
        return result
    graph = Graph([wrap(n) for n in values], arrays, name=op, unused="ignore")
    made = iter(compute_blocks(graph, values, CompileOptions(incremental=False), None, op))
    return map_leaves(lambda x: next(made) if isinstance(x, Array) else x, result)


def is_collection(x: Any, op: str) -> bool:
    """Whether an argument of a traced function is a dask array; other collections are refused."""
    if not is_in_blocks(x):
        return False
    require_dask(op)
    check_collection(x, "an argument", op)
    return True


def results_on_blocks(
    name: str, inputs: Sequence[Node], result: Any, values: Sequence[Any], given: dict[str, Any]
) -> Any:
    """What a traced function gives: its structure of results, with dask arrays in it."""
    memory = given.pop("memory", None)
    given.pop("often", None)  # nothing is kept from block to block
    for rules in given.keys() & {"disable", "enable"}:
        listed = given[rules]
        given[rules] = (listed,) if isinstance(listed, str) else tuple(listed)
    arrays = [x for x in leaves(result) if x is not None]
    graph = Graph([wrap(x) for x in inputs], arrays, name=name, unused="ignore")
    options = CompileOptions(**given)
    pairs = dict(zip(inputs, values, strict=True))
    made = iter(compute_blocks(graph, pairs, options, memory, name))
    return map_leaves(lambda x: None if x is None else next(made), result)


def compute_blocks(
    graph: Graph,
    values: Mapping[Node, Any],
    options: CompileOptions,
    memory: str | float | None,
    op: str,
) -> list[Any]:
    """The outputs of a graph, in order, as dask arrays."""
    check_repeatable(graph, op)
    names = [graph.names[node] for node in graph.input_nodes]
    given = {name: values[node] for name, node in zip(names, graph.input_nodes, strict=True)}
    graph = _plain(graph)
    nodes = dict(zip(graph.input_nodes, given.items(), strict=True))
    layers: dict[str, Any] = {}
    reads: dict[str, set[str]] = {}
    sources: dict[Node, TaskArray] = {}
    chunks: dict[Node, Chunks] = {}
    for node, (name, value) in nodes.items():
        if is_in_blocks(value):
            layers |= value.dask.layers
            reads |= value.dask.dependencies
            sources[node] = in_blocks(value.name, value.chunks)
        else:
            sources[node] = _add_value(variable_value(node, name, value), layers, reads)
        chunks[node] = sources[node].chunks
    for node in [n for n in graph.order if is_given(n) and n not in nodes]:
        assert node.value is not None
        sources[node] = _add_value(node.value, layers, reads)
        chunks[node] = sources[node].chunks
    token = dask.tokenize.tokenize(
        [s.name for s in sources.values()], to_bytes(graph, op), options, memory
    )
    settings = options._replace(incremental=False, memory=None, often=())
    share = task_share(memory)
    builder = _build(graph, chunks, BuildRequest(sources, settings, token, share, op))
    for name, layer in builder.layers.items():
        layers[name] = layer.tasks
        reads[name] = layer.reads
    return [_dask_array(builder, node, layers, reads, token) for node in graph.output_nodes]


def _build(graph: Graph, chunks: Mapping[Node, Chunks], request: BuildRequest) -> Builder:
    """The tasks of a graph: in as few stages as its blocks fit in."""
    apart: frozenset[Node] = frozenset()
    while True:
        staging = Staging(graph, chunks, apart)
        try:
            return Builder(graph, staging, request)
        except UnfitError as error:
            if error.refusal is not None and error.inner <= apart:
                raise error.refusal from None
            apart |= error.inner


def _plain(graph: Graph) -> Graph:
    """The graph with the results of functions that have their own derivative as they are."""
    made = remove_markers(list(graph.output_nodes))
    if made == list(graph.output_nodes):
        return graph
    inputs = [array_for(n) for n in graph.input_nodes]
    return Graph(inputs, list(map(array_for, made)), name=graph.name, unused="ignore")


def in_blocks(name: str, chunks: Chunks) -> TaskArray:
    """A dask array as it is read: its chunks without elements are left out."""
    places = tuple([tuple([i for i, n in enumerate(c) if n]) or (0,) for c in chunks])
    return TaskArray(name, tuple([without_empty(tuple(map(int, c))) for c in chunks]), places)


def _add_value(value: Value, layers: dict[str, Any], reads: dict[str, set[str]]) -> TaskArray:
    """A value as a task that gives it."""
    name = f"value-{dask.tokenize.tokenize(value)}"
    key = (name, *[0] * value.ndim)
    layers[name], reads[name] = {key: task_spec.DataNode(key, value)}, set()
    return TaskArray(name, single(value.shape))


def _dask_array(
    builder: Builder, node: Node, layers: dict[str, Any], reads: dict[str, set[str]], token: str
) -> Any:
    """A stored node as a dask array, with the layers it needs."""
    stored = builder.stored[node]
    if stored.places is not None or stored.name.startswith("value-"):
        name = f"{builder.label}-{dask.tokenize.tokenize(stored.name, token)}"
        builder.add_copies(name, stored)
        layers, reads = layers | {name: builder.layers[name].tasks}, reads | {name: {stored.name}}
        stored = TaskArray(name, stored.chunks)
    needed: dict[str, Any] = {}
    waiting = [stored.name]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed[name] = layers[name]
            waiting += reads[name]
    graph = dask_graphs.HighLevelGraph(needed, {name: set(reads[name]) for name in needed})
    return dask_arrays.Array(graph, stored.name, stored.chunks, dtype=node.dtype)


# -------------------------------------------------------------------------- budget


def task_share(memory: str | float | None) -> int:
    """The bytes that the blocks of one task may take."""
    tasks, limit = _machine()
    whole = limit * DEFAULT_SHARE if memory is None else parse_bytes(memory)
    return max(1, int(whole) // tasks)


def _machine() -> tuple[int, int]:
    """How many tasks are run at a time where blocks are computed, and the memory for them."""
    try:
        client = distributed.default_client()
    except ValueError:  # Dask's own: there is none
        asked = dask.config.get("num_workers", None)
        return int(asked or dask.system.CPU_COUNT), free_bytes()
    workers = list(client.scheduler_info()["workers"].values())
    limits = [w["memory_limit"] for w in workers if w.get("memory_limit")]
    tasks = max([int(w["nthreads"]) for w in workers], default=1)
    return tasks, min(limits, default=free_bytes())
