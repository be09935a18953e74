"""Loops and branches on a device: plans of their bodies, in the scratch memory of their step.

A loop launches the kernels of its body once for each of its steps, over places that move from step
to step: nothing is copied but rows that no kernel may read where they lie.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from tawny.engine.body_plan import BodyPlan, carry_results, plan_body
from tawny.engine.gpu.driver import GPU
from tawny.engine.gpu.kernels.random import NUMBER_DRAWS, NUMBER_SEGMENTS, NUMBER_STEP
from tawny.engine.gpu.launch import DRAW, VECTOR_BYTES, Launch
from tawny.engine.gpu.rules import copy_kernel
from tawny.engine.gpu.table import array_of, kernel_of, new_array
from tawny.engine.gpu.target import PLAIN, KernelTarget
from tawny.engine.layout import StridedView, Views
from tawny.node import Node
from tawny.op import Op, nbytes
from tawny.ops.loops import BodyOp, DrawNumbering, ScanLoop

OWN_BYTES: Final = GPU.alignment
"""What a loop has for itself: the place of its step, the number that draws are made by, and whether
there is another step."""

DRAW_OFFSET: Final = 8
FLAG_OFFSET: Final = VECTOR_BYTES


class DeviceLoop(NamedTuple):
    """The plan of a loop or a branch: scratch memory is an arena for its bodies and the rest.

    Each body has all of the arena: they run one after the other.  Listed are places in it.
    """

    bodies: tuple[BodyPlan, ...]
    own: int
    """Where what it has for itself begins."""
    copied: Mapping[int, int]
    """Operands that no kernel may read as new arrays: they are copied first."""
    second: Mapping[int, int]
    """Carries that steps do not write over: they have a second place."""
    rows: Mapping[int, int]
    """Variables of the body whose rows do not begin where kernels expect it: each has a place."""
    scratch: int
    """All bytes."""


_KNOWN: Final[WeakKeyDictionary[Node, dict[KernelTarget, DeviceLoop | None]]] = WeakKeyDictionary()


def device_loop(node: Node, target: KernelTarget = PLAIN) -> DeviceLoop | None:
    """How a loop or a branch runs on a device; None where some step of its bodies does not."""
    known = _KNOWN.setdefault(node, {})
    if target not in known:
        known[target] = _plan_loop(node, target)
    return known[target]


def runs_on_device(node: Node, views: Views, target: KernelTarget = PLAIN) -> bool:
    """Whether a step runs on the device."""
    if isinstance(node.op, BodyOp):
        return device_loop(node, target) is not None
    return kernel_of(node, views, target) is not None


def scratch_of(node: Node, target: KernelTarget = PLAIN) -> int:
    """Bytes that the launches of a step need."""
    if isinstance(node.op, BodyOp):
        loop = device_loop(node, target)
        return 0 if loop is None else loop.scratch
    kernel = kernel_of(node, Views(), target)
    return 0 if kernel is None else kernel.scratch


def launches_of(node: Node, views: Views, target: KernelTarget = PLAIN) -> Iterator[Launch]:
    """What is launched for a step, checks first; each of a loop's once."""
    if not isinstance(node.op, BodyOp):
        kernel = kernel_of(node, views, target)
        if kernel is not None:
            yield from (*kernel.checks, *kernel.launches)
        return
    loop = device_loop(node, target)
    if loop is None:
        return
    for operand in loop.copied:
        yield from copy_launches_of(views(node.inputs[operand]))
    for body in loop.bodies:
        if reads_place(body):
            yield NUMBER_STEP
        if draws(body):
            yield draw_launch(node.op)
        inner = Views()
        for step in body.task.lowered.steps:
            yield from launches_of(step, inner, target)


def copy_launches_of(seen: StridedView) -> tuple[Launch, ...]:
    """What copies a value to where a new array begins."""
    memory = seen.memory
    return copy_kernel(array_of(seen), new_array(memory.shape, memory.dtype)).launches


def numbering_of(op: Op) -> DrawNumbering:
    """How the steps of a loop that draw are numbered."""
    return op.numbering if isinstance(op, ScanLoop) else DrawNumbering()


def draw_launch(op: Op) -> Launch:
    """The launch that says by which number a step of a loop draws."""
    return NUMBER_SEGMENTS if numbering_of(op).segment else NUMBER_DRAWS


def reads_place(body: BodyPlan) -> bool:
    """Whether a body reads its first variable."""
    return (body.task.variables[0], 0) in body.task.lowered.values


def draws(body: BodyPlan) -> bool:
    """Whether a body draws random numbers."""
    views = Views()
    steps = body.task.lowered.steps
    return any(DRAW in launch.places for step in steps for launch in launches_of(step, views))


def _plan_loop(node: Node, target: KernelTarget) -> DeviceLoop | None:
    op, views, inner = node.op, Views(), Views()
    assert isinstance(op, BodyOp)
    bodies: list[BodyPlan] = []

    def has_kernel(n: Node) -> bool:
        return runs_on_device(n, inner, target)

    def scratch(n: Node) -> int:
        return scratch_of(n, target)

    for body in op.bodies():
        carried = {result: body.arguments[1 + c] for c, result in enumerate(carry_results(op))}
        found = plan_body(node, body, carried, has_kernel, scratch, machine=GPU)
        if found is None:
            return None
        bodies.append(found)
    places = _ScratchPlaces(max(body.task.layout.arena for body in bodies))
    own, operands, results = places.add(OWN_BYTES), op.operand_types(), op.result_types()
    copied = {
        i: places.add(nbytes(operands[i]))
        for i, x in enumerate(node.inputs)
        if not _is_as_new(views(x))
    }
    second = {
        c: places.add(nbytes(results[c]))
        for c, result in enumerate(carry_results(op))
        if result not in bodies[0].in_place
    }
    rows: dict[int, int] = {}
    if isinstance(op, ScanLoop):
        given, made = op.body.types, op.body.result_types
        sizes = {1 + i: nbytes(given[1 + i]) for i in range(op.carries, op.first_shared)}
        sizes |= {len(given) + r: nbytes(made[r]) for r in range(op.carries, len(made))}
        rows = {v: places.add(count) for v, count in sizes.items() if count % VECTOR_BYTES}
    return DeviceLoop(tuple(bodies), own, copied, second, rows, places.end)


def _is_as_new(seen: StridedView) -> bool:
    """Whether a value lies as a new array does."""
    return seen.memory.contiguous and not seen.offset % VECTOR_BYTES


class _ScratchPlaces:
    """Places one after the other."""

    def __init__(self, end: int) -> None:
        self.end = _round_up(end)

    def add(self, count: int) -> int:
        """Where as many bytes begin."""
        begin, self.end = self.end, self.end + _round_up(count)
        return begin


def _round_up(count: int) -> int:
    return -(-count // GPU.alignment) * GPU.alignment
