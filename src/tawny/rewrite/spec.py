"""What a legal graph is.  Checked after each pass in tests and in debug mode.

1.  Inputs come before what reads them: the graph has no cycle.
2.  A node has as many inputs as its op declares, and the shape and dtype its op infers for them.
3.  A constant has a value of its shape and dtype.
4.  Pure nodes are interned: no two have the same op and inputs.
5.  A pass keeps the types of the outputs, makes no variable, and no second node of an impure one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tawny.node import Constant, Node, Part, Variable
from tawny.op import Op
from tawny.ops.loops import BodyOp
from tawny.rewrite.flow import Flow, is_impure


class IllegalGraphError(AssertionError):
    """A pass broke a rule of the spec: a defect of the library."""


def check(flow: Flow, name: str, before: Flow | None = None) -> None:
    """Refuse a graph that is not legal, naming the pass that made it."""
    order = flow.order()
    for problem in _problems(order):
        raise IllegalGraphError(f"after {name}: {problem}")
    if before is not None:
        for problem in _changes(before, flow, order):
            raise IllegalGraphError(f"after {name}: {problem}")


def _problems(order: list[Node]) -> Iterable[str]:
    seen: set[Node] = set()
    interned: dict[tuple[object, ...], Node] = {}
    for node in order:
        if any(i not in seen for i in node.inputs):
            yield f"{node} depends on itself"
        seen.add(node)
        yield from _wrong_type(node)
        if not is_impure(node) and node.inputs:
            twin = interned.setdefault((node.op, *map(id, node.inputs)), node)
            if twin is not node:
                yield f"{node} is there twice"


def _wrong_type(node: Node) -> Iterable[str]:
    op, arity = node.op, node.op.facts().arity
    if arity is not None and len(node.inputs) != arity:
        yield f"{node} has {len(node.inputs)} inputs, not {arity}"
        return
    if isinstance(op, Variable):
        return
    if isinstance(op, Constant):
        value = node.value
        if value is None or (value.shape, value.dtype) != (node.shape, node.dtype):
            yield f"{node} has another value"
        return
    if isinstance(op, Part):
        shape, dtype = node.inputs[0].parts[op.index]
    else:
        types = [(i.shape, i.dtype) for i in node.inputs]
        parts = op.infer_parts(*types)
        if parts != node.parts:
            yield f"{node} has other results than its op infers"
        shape, dtype = (
            parts[0]
            if parts
            else (
                op.infer_shape(*(s for s, _ in types)),
                op.infer_dtype(*(d for _, d in types)),
            )
        )
    if (shape, dtype) != (node.shape, node.dtype):
        yield f"{node} should be {dtype}{list(shape)}"


def _changes(before: Flow, after: Flow, order: list[Node]) -> Iterable[str]:
    if len(before.outputs) != len(after.outputs):
        yield f"{len(before.outputs)} outputs became {len(after.outputs)}"
    for old, new in zip(before.outputs, after.outputs, strict=False):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            yield f"output {old} became {new}"
    there = before.order()
    variables = {n for n in there if isinstance(n.op, Variable)}
    for node in order:
        if isinstance(node.op, Variable) and node not in variables:
            yield f"{node} is a new variable"
    made = Counter(op for n in order for op in _impure_ops(n))
    made.subtract(op for n in there for op in _impure_ops(n))
    for op, count in made.items():
        if count > 0:
            yield f"{op} was made {count} times more"


def _impure_ops(node: Node) -> Iterator[Op]:
    """The ops of what keeps its identity: a node's own, or those in its bodies."""
    if isinstance(node.op, BodyOp):
        for body in node.op.bodies():
            for inner in body.impure:
                yield from _impure_ops(inner)
    elif is_impure(node):
        yield node.op
