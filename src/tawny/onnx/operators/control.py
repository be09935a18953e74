"""Operators that run graphs: conditions, loops, and functions of each item of a sequence.

They become conditions and loops of the program; loops of few steps, and those that carry what has
another shape after each step, are written out step after step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Final

import tawny.numpy as np
from tawny.array import Array
from tawny.files.reading import GraphFileError
from tawny.loops.functions import cond, while_loop
from tawny.loops.functions import scan as tw_scan
from tawny.onnx.call import NodeCall, UnknownValueError
from tawny.onnx.operators.elementwise import select
from tawny.onnx.operators.movement import known_array
from tawny.onnx.records import GraphRecord
from tawny.onnx.table import operator
from tawny.onnx.values import FlowValue, SequenceValue

MOST_WRITTEN_OUT: Final = 32
"""Loops of more steps become one op, where they can, which is as soon built for any length."""

MOST_IN_BOTH: Final = 6
"""Nodes of two branches, at most, that are both computed: a choice takes longer."""

MOST_TURNS: Final = 2**62
"""What loops have in place of a number of steps that is not said."""


@operator("If")
def if_else(call: NodeCall) -> tuple[FlowValue, ...]:
    """The results of one graph or the other, by a condition.

    Where the condition is not known, both must give arrays of the same shapes; only one of them
    is computed in a run, unless both are short.
    """
    condition = np.reshape(call.array(0), ())
    yes, no = call.graph("then_branch"), call.graph("else_branch")
    if call.is_known(0):
        return call.run(yes if bool(call.known_operand(0).reshape(())) else no, ())
    try:
        both = call.run(yes, ()), call.run(no, ())
    except GraphFileError:  # one of them may be for other shapes, and never run for these
        call.known_operand(0)
        raise
    found: list[tuple[Array, Array]] = []
    for i, (a, b) in enumerate(zip(*both, strict=True)):
        if not isinstance(a, Array) or not isinstance(b, Array) or _type(a) != _type(b):
            call.known_operand(0)  # it must be known, and the error says so
            call.fail(f"both graphs must give an array of the same shape and dtype for output {i}")
        found.append((a, b))
    if len(yes.nodes) + len(no.nodes) <= MOST_IN_BOTH:
        return tuple(select(condition, a, b) for a, b in found)
    made: list[Array] = cond(
        condition, lambda: _run_for_arrays(call, yes), lambda: _run_for_arrays(call, no)
    )
    return tuple(made)


def _run_for_arrays(call: NodeCall, graph: GraphRecord) -> list[Array]:
    return [call.as_array(x, 0) for x in call.run(graph, ())]


def _type(x: Array) -> object:
    return x.shape, x.dtype


class _WriteOutError(Exception):
    """A loop that cannot be one op: its condition changes, or what it carries does."""


@operator("Loop")
def loop(call: NodeCall) -> tuple[FlowValue, ...]:
    """A graph run again and again on what it carries, its other results stacked.

    One whose condition only a run knows is a loop of the program, as is one of many steps.
    """
    body = call.graph("body")
    has_most, goes_on = call.optional(0) is not None, call.optional(1)
    carried = [call.value(i) for i in range(2, len(call.operands))]
    count = len(body.outputs) - 1 - len(carried)
    if count < 0 or len(body.inputs) != 2 + len(carried):
        call.fail(f"the graph has {len(body.inputs)} inputs for {len(carried)} carried values")
    going: Array = np.asarray(True) if goes_on is None else np.reshape(goes_on, ())
    is_open = (has_most and not call.is_known(0)) or not going.node.known
    if is_open and not count and _are_arrays(carried):
        return _loop_until(call, body, going, carried)
    most = call.known_int(0) if has_most else MOST_TURNS
    if MOST_WRITTEN_OUT < most < MOST_TURNS and _is_true(call, going):
        with contextlib.suppress(_WriteOutError, UnknownValueError, GraphFileError):
            return _loop_of_steps(call, body, most, carried)
    return _write_out(call, body, most, going, carried)


def _write_out(
    call: NodeCall, body: GraphRecord, most: int, going: Array, carried: Sequence[FlowValue]
) -> tuple[FlowValue, ...]:
    """A loop step after step, as long as its condition is known to hold."""
    count = len(body.outputs) - 1 - len(carried)
    stacks: list[list[Array]] = [[] for _ in range(count)]
    state, step = tuple(carried), 0
    while step < most:
        if not going.node.known and not count and _are_arrays(state):
            return _loop_until(call, body, going, state, step)
        if not _is_true(call, going):
            break
        call.check_steps(step, "a loop")
        made = call.run(body, (np.reshape(known_array([step]), ()), going, *state))
        going = np.reshape(call.as_array(made[0], 1), ())
        state = made[1 : 1 + len(state)]
        for stack, value in zip(stacks, made[1 + len(state) :], strict=True):
            stack.append(call.as_array(value, 0))
        step += 1
    if count and not stacks[0]:
        call.fail("a loop without a step has no shapes for the results it stacks")
    return (*state, *(np.stack(s) for s in stacks))


def _loop_of_steps(
    call: NodeCall, body: GraphRecord, steps: int, carried: Sequence[FlowValue]
) -> tuple[Array, ...]:
    """A loop of a known number of steps as one op."""
    first = _carried_arrays(carried)
    true = np.asarray(True)

    def step(state: tuple[Array, ...], place: Array) -> tuple[tuple[Array, ...], list[Array]]:
        made = [call.as_array(v, 0) for v in call.run(body, (place, true, *state))]
        if not made[0].node.known or not _is_true(call, np.reshape(made[0], ())):
            raise _WriteOutError
        return _same_types(made[1 : 1 + len(state)], state), made[1 + len(state) :]

    state, stacks = tw_scan(step, first, np.arange(steps))
    return (*state, *stacks)


def _loop_until(
    call: NodeCall,
    body: GraphRecord,
    going: Array,
    carried: Sequence[FlowValue],
    start: int = 0,
) -> tuple[Array, ...]:
    """A loop whose number of steps only a run knows."""
    most = np.reshape(call.array(0), ()) if call.optional(0) is not None else None

    def goes_on(state: tuple[Array, Array, tuple[Array, ...]]) -> Array:
        place, holds, _ = state
        return holds if most is None else np.logical_and(holds, np.less(place, most))

    def step(state: tuple[Array, Array, tuple[Array, ...]]) -> Any:
        place, holds, values = state
        made = [call.as_array(v, 0) for v in call.run(body, (place, holds, *values))]
        return place + 1, np.reshape(made[0], ()), _same_types(made[1:], values)

    first = np.reshape(known_array([start]), ()), going, _carried_arrays(carried)
    try:
        return tuple(while_loop(goes_on, step, first)[2])
    except _WriteOutError:
        call.fail("a loop whose length only a run knows carries values of changing shapes")


def _are_arrays(values: Sequence[FlowValue]) -> bool:
    """Whether what a loop carries is arrays alone, which one op can."""
    return all(isinstance(x, Array) for x in values)


def _carried_arrays(values: Sequence[FlowValue]) -> tuple[Array, ...]:
    if not _are_arrays(values):
        raise _WriteOutError
    return tuple(x for x in values if isinstance(x, Array))


def _same_types(after: Sequence[Array], before: Sequence[Array]) -> tuple[Array, ...]:
    """What a step carries on, which must have the shapes and dtypes of what it was given."""
    if [_type(x) for x in after] != [_type(x) for x in before]:
        raise _WriteOutError
    return tuple(after)


def _is_true(call: NodeCall, going: Array) -> bool:
    return bool(call.known_value(going, "how long the loop goes on").reshape(()))


@operator("Scan")
def scan(call: NodeCall) -> tuple[Array, ...]:
    """A graph run over slices of some operands, its results stacked."""
    if call.opset < 9:
        return _batched_scan(call)
    body, count = call.graph("body"), call.integer("num_scan_inputs")
    carried = [call.array(i) for i in range(len(call.operands) - count)]
    xs = [call.array(i) for i in range(len(carried), len(call.operands))]
    outputs = len(body.outputs) - len(carried)
    in_axes, out_axes = (
        call.ints("scan_input_axes", (0,) * count),
        call.ints("scan_output_axes", (0,) * outputs),
    )
    backward = call.ints("scan_input_directions", (0,) * count)
    moved = [np.moveaxis(x, call.axis(a, x.ndim), 0) for x, a in zip(xs, in_axes, strict=True)]
    moved = [np.flip(x, 0) if back else x for x, back in zip(moved, backward, strict=True)]
    state, stacks = iterate(call, body, carried, moved)
    turned = call.ints("scan_output_directions", (0,) * outputs)
    made: list[Array] = []
    for stack, axis, back in zip(stacks, out_axes, turned, strict=True):
        whole = np.flip(stack, 0) if back else stack
        made.append(np.moveaxis(whole, 0, call.axis(axis, whole.ndim)))
    return (*state, *made)


def iterate(
    call: NodeCall, body: GraphRecord, carried: Sequence[Array], xs: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    """What is carried after a graph has run over rows of `xs`, and its other results stacked."""
    lengths = {x.shape[0] for x in xs}
    if len(lengths) != 1:
        call.fail(f"what is scanned has lengths {sorted(lengths)}; expected one length")
    (steps,) = lengths
    if steps > MOST_WRITTEN_OUT:
        with contextlib.suppress(_WriteOutError, UnknownValueError, GraphFileError):
            return _scan_rows(call, body, carried, xs)
    call.check_steps(steps, "a scan")
    state, rows = list(carried), list[list[Array]]()
    for step in range(steps):
        made = [call.as_array(v, 0) for v in call.run(body, (*state, *(x[step] for x in xs)))]
        state = made[: len(state)]
        rows.append(made[len(state) :])
    if not rows:
        call.fail("a scan without a step has no shapes for its results")
    return state, [np.stack(column) for column in zip(*rows, strict=True)]


def _scan_rows(
    call: NodeCall, body: GraphRecord, carried: Sequence[Array], xs: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    """A scan as one op."""

    def step(state: tuple[Array, ...], rows: list[Array]) -> tuple[tuple[Array, ...], list[Array]]:
        made = [call.as_array(v, 0) for v in call.run(body, (*state, *rows))]
        return _same_types(made[: len(state)], state), made[len(state) :]

    state, stacks = tw_scan(step, tuple(carried), list(xs))
    return list(state), list(stacks)


def _batched_scan(call: NodeCall) -> tuple[Array, ...]:
    """The scan of version 8: each operand with a batch in front, and lengths that are not used."""
    if call.optional(0) is not None:
        call.fail("sequence_lens are not supported")
    body, count = call.graph("body"), call.integer("num_scan_inputs")
    arrays = [call.array(i) for i in range(1, len(call.operands))]
    carried, xs = arrays[: len(arrays) - count], arrays[len(arrays) - count :]
    backward = call.ints("directions", (0,) * count)
    xs = [np.flip(x, 1) if back else x for x, back in zip(xs, backward, strict=True)]
    call.check_steps(xs[0].shape[0] * xs[0].shape[1], "a scan")
    rows = [
        iterate(call, body, [c[i] for c in carried], [x[i] for x in xs])
        for i in range(xs[0].shape[0])
    ]
    columns = zip(*([*state, *stacks] for state, stacks in rows), strict=True)
    return tuple(np.stack(column) for column in columns)


@operator("SequenceMap")
def sequence_map(call: NodeCall) -> tuple[SequenceValue, ...]:
    """A graph run on each item of a sequence."""
    body, first = call.graph("body"), call.sequence(0)
    rows: list[tuple[FlowValue, ...]] = []
    for i in range(len(first)):
        given: list[FlowValue] = []
        for j in range(len(call.operands)):
            value = call.value(j)
            if isinstance(value, SequenceValue):
                if len(value.items) != len(first):
                    call.fail(f"operand {j} has {len(value.items)} items; operand 0 {len(first)}")
                value = value.items[i]
            given.append(value)
        rows.append(call.run(body, given))
    count = len(body.outputs)
    return tuple(SequenceValue(tuple(row[j] for row in rows)) for j in range(count))
