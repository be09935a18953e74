"""Operators that run graphs: conditions, loops, and functions of each item of a sequence.

Loops whose number of steps is known are written out, step after step, within a bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import tawny.numpy as np
from tawny.array import Array
from tawny.files.reading import GraphFileError
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.elementwise import select
from tawny.onnx.operators.movement import known_array
from tawny.onnx.records import GraphRecord
from tawny.onnx.table import operator
from tawny.onnx.values import FlowValue, SequenceValue


@operator("If")
def if_else(call: NodeCall) -> tuple[FlowValue, ...]:
    """The results of one graph or the other, by a condition.

    Where the condition is not known, both are computed, and must give arrays of the same shapes.
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
    found: list[FlowValue] = []
    for i, (a, b) in enumerate(zip(*both, strict=True)):
        if not isinstance(a, Array) or not isinstance(b, Array) or _type(a) != _type(b):
            call.known_operand(0)  # it must be known, and the error says so
            call.fail(f"both graphs must give an array of the same shape and dtype for output {i}")
        found.append(select(condition, a, b))
    return tuple(found)


def _type(x: Array) -> object:
    return x.shape, x.dtype


@operator("Loop")
def loop(call: NodeCall) -> tuple[FlowValue, ...]:
    """A graph run again and again on what it carries, its other results stacked."""
    body = call.graph("body")
    most = call.known_int(0) if call.optional(0) is not None else 2**62
    goes_on = call.optional(1)
    carried = [call.value(i) for i in range(2, len(call.operands))]
    count = len(body.outputs) - 1 - len(carried)
    if count < 0 or len(body.inputs) != 2 + len(carried):
        call.fail(f"the graph has {len(body.inputs)} inputs for {len(carried)} carried values")
    stacks: list[list[Array]] = [[] for _ in range(count)]
    going: Array = np.asarray(True) if goes_on is None else goes_on
    for step in range(most):
        if not _is_true(call, going):
            break
        call.check_steps(step, "a loop")
        made = call.run(body, (np.reshape(known_array([step]), ()), going, *carried))
        going = call.as_array(made[0], 1)
        carried = list(made[1 : 1 + len(carried)])
        for stack, value in zip(stacks, made[1 + len(carried) :], strict=True):
            stack.append(call.as_array(value, 0))
    if count and not stacks[0]:
        call.fail("a loop without a step has no shapes for the results it stacks")
    return (*carried, *(np.stack(s) for s in stacks))


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
    call.check_steps(steps, "a scan")
    state, rows = list(carried), list[list[Array]]()
    for step in range(steps):
        made = [call.as_array(v, 0) for v in call.run(body, (*state, *(x[step] for x in xs)))]
        state = made[: len(state)]
        rows.append(made[len(state) :])
    if not rows:
        call.fail("a scan without a step has no shapes for its results")
    return state, [np.stack(column) for column in zip(*rows, strict=True)]


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
