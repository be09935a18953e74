"""Graphs of loops and branches as tasks, planned before the step that computes them runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tawny.engine.lowering import (
    PROCESSOR,
    LoweredGraph,
    MachineModel,
    is_leaf,
    lower,
    result_of,
    with_constraints,
    with_scratch,
)
from tawny.engine.protocol import Task
from tawny.memory.plan import plan
from tawny.node import Node, make, source_scope, variable
from tawny.op import nbytes
from tawny.ops.loops import BodyOp, ScanLoop, WhileLoop
from tawny.ops.movement import Copy
from tawny.ops.subgraph import Subgraph


class BodyPlan(NamedTuple):
    """A body as a task."""

    task: Task
    """Variables are the arguments, then a home for each result."""
    in_place: frozenset[int]
    """The results that are computed where an argument lies that they take the place of."""


def carry_results(op: BodyOp) -> range:
    """The results of a body that take the place of its arguments, from the second on."""
    if isinstance(op, ScanLoop):
        return range(op.carries)
    return range(1, 1 + op.carries) if isinstance(op, WhileLoop) else range(0)


def plan_body(
    node: Node,
    body: Subgraph,
    carries: Mapping[int, Node],
    has_kernel: Callable[[Node], bool],
    scratch: Callable[[Node], int],
    threads: int = 1,
    machine: MachineModel = PROCESSOR,
) -> BodyPlan | None:
    """A body as a task; `carries` are the results that take the place of an argument.

    `scratch` gives the bytes that a step needs while it runs.  None where a step has no kernel.
    """
    with source_scope(node.sources):
        results = _separate(body.results)
    plain = lower(results, machine=machine)
    if not all(map(has_kernel, plain.steps)):
        return None
    plain = with_scratch(plain, scratch)
    in_place, after = _written_in_place(plain, {results[i]: x for i, x in carries.items()})
    lowered = with_constraints(plain, outside_arena=results, after=after)
    layout = plan(lowered.problem)
    homes = [variable(None, result.shape, result.dtype) for result in results]
    task = Task(
        lowered,
        layout,
        (*body.arguments, *homes),
        dict(zip(results, homes, strict=True)),
        threads=threads,
    )
    return BodyPlan(task, frozenset([i for i in carries if results[i] in in_place]))


def _separate(results: Sequence[Node]) -> list[Node]:
    """Results that have memory of their own, each another: others are copied."""
    out: list[Node] = []
    for node in results:
        maker, _ = result_of(node)
        shares = is_leaf(maker) or (maker is node and node.op.facts().view) or node in out
        own = make(Copy(), (node,)) if shares else node
        while own in out:
            own = make(Copy(), (own,))
        out.append(own)
    return out


def _written_in_place(
    plain: LoweredGraph, carries: Mapping[Node, Node]
) -> tuple[set[Node], dict[Node, list[Node]]]:
    """Results that are written over the carry they replace, and what must run before their steps.

    The largest come first, where not all can be.
    """
    problem, steps = plain.problem, plain.steps
    readers: dict[int, list[int]] = {}
    before: list[set[int]] = [set() for _ in steps]
    for s, step in enumerate(problem.steps):
        for value in dict.fromkeys(step.inputs):
            root = problem.roots[value]
            readers.setdefault(root, []).append(s)
            made_by = problem.makers[root]
            if made_by is not None:
                before[s].add(made_by)
    chosen: set[Node] = set()
    after: dict[Node, list[Node]] = {}
    for result, carry in sorted(carries.items(), key=lambda pair: -_bytes(pair[0])):
        maker, index = result_of(result)
        s = plain.step_of[maker]
        if (carry, 0) not in plain.values:  # nothing reads it
            chosen.add(result)
            continue
        value = plain.values[carry, 0]
        step = problem.steps[s]
        reads = [(p, v) for p, v in enumerate(step.inputs) if problem.roots[v] == value]
        if any(v != value or (p, index) not in step.overwrites for p, v in reads):
            continue
        others = [r for r in readers.get(value, ()) if r != s]
        if _reaches(before, others, s):
            continue
        before[s].update(others)
        chosen.add(result)
        if others:
            after.setdefault(maker, []).extend(steps[r] for r in others)
    return chosen, after


def _reaches(before: Sequence[set[int]], first: Sequence[int], last: int) -> bool:
    """Whether one of some steps comes after another one."""
    stack, met = list(first), set(first)
    while stack:
        s = stack.pop()
        if s == last:
            return True
        new = before[s] - met
        met |= new
        stack.extend(new)
    return False


def _bytes(node: Node) -> int:
    return nbytes((node.shape, node.dtype))
