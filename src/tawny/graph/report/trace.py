"""A graph as a table of text, one line for each node in the order they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from tawny.node import Constant, Node, Variable
from tawny.op import Elementwise
from tawny.shape import size
from tawny.source import describe

if TYPE_CHECKING:
    from tawny.graph.graph import Graph


def listing(graph: Graph) -> tuple[Node, ...]:
    """Every node of a graph, variables first, inputs before what reads them.

    A node's place here is its number: in pictures, in traces and in files.
    """
    return tuple(dict.fromkeys((*graph.variables, *graph.order)))


def read_counts(graph: Graph) -> Counter[Node]:
    """How often each node is read: by nodes, as an output, by an update edge."""
    count = Counter(i for n in graph.order for i in n.inputs)
    count.update(graph.results)
    return count


def type_text(node: Node) -> str:
    """Dtype and shape, as in `float64[2, 3]`; of all results, if there are several."""
    types = node.parts or ((node.shape, node.dtype),)
    return " ".join(f"{dtype}{list(shape)}" for shape, dtype in types)


def source_text(node: Node) -> str:
    """The lines a node was written at, with their scopes."""
    return describe(node.sources)


def scope_of(node: Node) -> tuple[str, ...]:
    """The innermost scope that holds all of a node, as the names it consists of."""
    if isinstance(node.op, Variable):
        return ()
    scopes = [tuple(s.scope.split(".")) if s.scope else () for s in node.sources]
    return common_prefix(scopes)


def common_prefix(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The names with which all of the paths begin."""
    names = takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))
    return tuple([level[0] for level in names])


def small_value(node: Node) -> str | None:
    """The value of a constant of one element, as text."""
    if not isinstance(node.op, Constant) or node.value is None or size(node.shape) != 1:
        return None
    item = node.value.reshape(-1)[0]
    text = str(item)
    return text if len(text) <= 10 or item.dtype.kind in "iu" else f"{item:.6g}"


def printable(text: str) -> str:
    """`text` on one line, without characters that are none."""
    return "".join(c if c.isprintable() else "�" for c in text)


def attributes(node: Node) -> str:
    """What an op's attributes are, in few words; shape and dtype are seen anyway."""
    op = node.op
    if isinstance(op, (Elementwise, Variable, Constant)):
        return ""
    return ", ".join(
        f"{name}={_shorten(value)}"
        for name, value in op.attributes().items()
        if name not in ("shape", "dtype")
    )


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def trace(graph: Graph) -> str:
    """The nodes of a graph in the order they run, in columns.

    A line gives the node's number, what it is called if it is a variable, an output or the source
    of an update, its op, the numbers of its inputs, dtype and shape, the line that wrote it, and
    the op's attributes.
    """
    order = listing(graph)
    number = {node: i for i, node in enumerate(order)}
    names = roles(graph)
    rows = [("", "name", "op", "inputs", "type", "line", "attributes")]
    for node, i in number.items():
        inputs = " ".join(f"#{number[n]}" for n in node.inputs)
        name, op, details = names.get(node, ""), node.op.label, _details(node)
        rows.append((f"#{i}", name, op, inputs, type_text(node), source_text(node), details))
    return _columns(rows)


def roles(graph: Graph) -> dict[Node, str]:
    """What the nodes are to their graph: variables by name, outputs, sources of updates."""
    out: dict[Node, list[str]] = {n: [name] for n, name in graph.names.items()}
    single = len(graph.output_nodes) == 1
    for position, node in enumerate(graph.output_nodes):
        out.setdefault(node, []).append("output" if single else f"output {position}")
    for target, source in graph.update_nodes:
        out.setdefault(source, []).append(f"next {graph.names[target]}")
    return {node: ", ".join(words) for node, words in out.items()}


def _details(node: Node) -> str:
    value = small_value(node)
    return attributes(node) if value is None else f"value={value}"


def _columns(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(printable(line).rstrip() for line in lines)
