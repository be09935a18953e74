"""Loops made runnable: the steps of a body, planned in the scratch memory of the step they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from tawny.engine.body_plan import BodyPlan, carry_results, plan_body
from tawny.engine.cpu import bands
from tawny.engine.cpu.kernel_table import kernel_alone
from tawny.engine.cpu.numpy_steps import numpy_workspace_bytes
from tawny.engine.cpu.stopping import PIECE_SECONDS
from tawny.engine.cpu.threads.pool import NOMINAL_THREADS
from tawny.engine.layout import Views
from tawny.engine.lowering import PROCESSOR, seconds, with_scratch
from tawny.memory.plan import replan
from tawny.node import Constant, Node
from tawny.op import nbytes
from tawny.ops.loops import BodyOp, WhileLoop
from tawny.ops.subgraph import Subgraph, substitute

OWN_BYTES: Final = PROCESSOR.alignment
"""What the place of a step takes, and whether there is another."""

FLAG_OFFSET: Final = 8
"""Where among these it is said whether there is another step."""


class NativeLoop(NamedTuple):
    """The plan of a loop or switch: scratch memory is an arena for its bodies, and what is listed.

    Each body has all of the arena: they run one after the other.
    """

    bodies: tuple[BodyPlan, ...]
    copied: tuple[int, ...]
    """Operands that do not lie as new arrays would: they are copied first."""
    settled: tuple[tuple[int, int], ...]
    """Such operands that are copied to where a result lies: carries that steps write over."""
    second: tuple[int, ...]
    """Carries that steps do not write over: they have a second place."""
    offsets: tuple[int, ...]
    """Where the place of the step, copied operands and second places begin."""
    scratch: int


_KNOWN: Final[WeakKeyDictionary[Node, dict[int, NativeLoop | None]]] = WeakKeyDictionary()


def loop_plan(node: Node, threads: int) -> NativeLoop | None:
    """How a loop or switch runs natively; None where some step of its bodies has no kernel."""
    known = _KNOWN.setdefault(node, {})
    if threads not in known:
        if threads == NOMINAL_THREADS:
            known[threads] = _plan_bodies(node)
        else:
            nominal = loop_plan(node, NOMINAL_THREADS)
            placed = nominal and tuple([_on_threads(body, threads) for body in nominal.bodies])
            known[threads] = None if placed is None else _place_bodies(node, placed)
    return known[threads]


def _plan_bodies(node: Node) -> NativeLoop | None:
    """The plan of a loop for the nominal number of threads."""
    op = node.op
    assert isinstance(op, BodyOp)
    bodies: list[BodyPlan] = []
    for body in _bodies_with_constants(node, op):
        carried = {result: body.arguments[1 + c] for c, result in enumerate(carry_results(op))}
        found = plan_body(node, body, carried, _has_kernel, scratch_of, NOMINAL_THREADS)
        if found is None:
            return None
        bodies.append(found)
    return _place_bodies(node, tuple(bodies))


def _bodies_with_constants(node: Node, op: BodyOp) -> Iterator[Subgraph]:
    """The bodies, with operands that are constants in place of their arguments.

    Kernels make constants ready before the first run.
    """
    fixed = {
        number: node.inputs[argument.operand]
        for number, argument in enumerate(op.arguments())
        if argument.operand is not None
        and argument.role in ("shared", "operand")
        and type(node.inputs[argument.operand].op) is Constant
    }
    for body in op.bodies():
        places = {body.arguments[number]: constant for number, constant in fixed.items()}
        made = substitute(body.order, places) if places else {}
        yield Subgraph(body.arguments, tuple([made.get(r, r) for r in body.results]))


def _place_bodies(node: Node, bodies: tuple[BodyPlan, ...]) -> NativeLoop:
    """The plan of a loop whose bodies are planned."""
    op, views = node.op, Views()
    assert isinstance(op, BodyOp)
    apart = [i for i, x in enumerate(node.inputs) if not views(x).memory.contiguous]
    carries = list(enumerate(carry_results(op)))
    second = [c for c, result in carries if result not in bodies[0].in_place]
    first = int(isinstance(op, WhileLoop))
    settled = {first + c: c for c, _ in carries if c not in second and first + c in apart}
    copied = [i for i in apart if i not in settled]
    operands, made = op.operand_types(), op.result_types()
    sizes = [OWN_BYTES, *[nbytes(operands[i]) for i in copied], *[nbytes(made[c]) for c in second]]
    offsets, end = list[int](), _round_up(max(body.task.layout.arena for body in bodies))
    for count in sizes:
        offsets.append(end)
        end += _round_up(count)
    return NativeLoop(
        bodies, tuple(copied), tuple(settled.items()), tuple(second), tuple(offsets), end
    )


def _has_kernel(node: Node) -> bool:
    """Whether compiled code computes a step."""
    if isinstance(node.op, BodyOp):
        return loop_plan(node, NOMINAL_THREADS) is not None
    return kernel_alone(node) is not None


def _on_threads(body: BodyPlan, threads: int) -> BodyPlan:
    """A body placed with the scratch memory of another number of threads."""
    task = body.task
    lowered = with_scratch(task.lowered, lambda n: scratch_of(n, threads))
    layout = replan(task.layout, lowered.problem)
    return body._replace(task=replace(task, lowered=lowered, layout=layout, threads=threads))


def scratch_of(node: Node, threads: int = NOMINAL_THREADS) -> int:
    """Bytes that a step needs while it runs."""
    if not isinstance(node.op, BodyOp):
        return bands.scratch_of(node, threads)
    found = loop_plan(node, threads)
    return numpy_workspace_bytes(node) if found is None else found.scratch


def is_endless(node: Node) -> bool:
    """Whether a step may never end by itself."""
    op = node.op
    if isinstance(op, WhileLoop):
        return True
    return isinstance(op, BodyOp) and any(is_endless(n) for b in op.bodies() for n in b.steps)


ENDLESS: Final = 2**62
"""The most steps of a loop that says itself when it ends."""


def steps_at_once(node: Node) -> int:
    """How many steps a loop may make until Python can be interrupted; ENDLESS for all."""
    op = node.op
    if not isinstance(op, WhileLoop) or any(map(is_endless, op.body.steps)):
        return ENDLESS
    return max(1, int(op.times() * PIECE_SECONDS / seconds(node)))


def steps_of(node: Node, threads: int) -> Iterator[Node]:
    """The steps that kernels compute for a step: those of bodies in its place, innermost too."""
    found = loop_plan(node, threads) if isinstance(node.op, BodyOp) else None
    if found is None:
        yield node
        return
    for body in found.bodies:
        for inner in body.task.lowered.steps:
            yield from steps_of(inner, threads)


def _round_up(count: int) -> int:
    return -(-count // PROCESSOR.alignment) * PROCESSOR.alignment
