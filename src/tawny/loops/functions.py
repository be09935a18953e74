"""Loops that users write: functions of a step, traced once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import DType, kind_of
from tawny.errors import type_error, value_error
from tawny.loops.building import (
    Inside,
    LoopStep,
    build_loop,
    build_switch,
    build_while,
    place_variable,
    step_variable,
)
from tawny.loops.structures import (
    fill,
    in_order_of,
    is_number,
    key_of,
    lift_leaves,
    paths_and_leaves,
    structure_text,
)
from tawny.node import Node, make, next_serial, scalar
from tawny.op import ELEMENTWISE
from tawny.ops.creation import convert_node
from tawny.ops.random import Draw, MakeDraw, draws_made_by, outer_draws
from tawny.shape import as_int
from tawny.source import describe

Function = Callable[..., Any]

_ADD = ELEMENTWISE["add"]


@explain_bad_calls
def scan(
    f: Function, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """A function applied to one row after another, with a carry from each to the next.

    - `f`: `carry, y = f(carry, x)`, from arrays by operators and functions of `tawny.numpy`.  It is
      called once, on arrays that stand for those of all steps.
    - `init`: the first carry: an array, or a nested structure of arrays.  What `f` gives for the
      next has the same structure, shapes and dtypes.
    - `xs`: an array, or a nested structure of arrays, whose rows along axis 0 the steps are given;
      None gives them None.
    - `length`: the number of steps, needed where there are no `xs`.
    - `reverse`: go from the last row to the first; what the steps give stays at their places.

    Gives a pair: the last carry, and the structure of what the steps give, stacked along axis 0.
    The loop is one op: it is built and compiled as fast for a million steps as for one.
    Raises ValueError where the carry changes its type or the numbers of rows differ.

        total, sums = tw.scan(lambda s, x: (s + x, s + x), 0.0, numpy.arange(4.0))
        float(total), sums.numpy().tolist()           # -> (6.0, [0.0, 1.0, 3.0, 6.0])
    """
    _check_function("scan", f)
    first, rows = lift_leaves("scan", "init", init), lift_leaves("scan", "xs", xs)
    count = _row_count(rows, [path for path, _ in paths_and_leaves(xs)], length)
    given = [step_variable("a row", (row.shape[1:], row.dtype)) for row in rows]
    traced = _trace_carries(
        "scan",
        init,
        first,
        lambda carry: _pair(f(carry, fill(xs, given))),
        rows,
    )
    step = LoopStep(place_variable(), traced.carries, tuple(given), traced.new, tuple(traced.rest))
    made = build_loop(
        step, traced.first, rows, count, reverse=bool(reverse), inside=Inside(traced.since)
    )
    return fill(init, made.carries), fill(traced.structure, made.rows)


@explain_bad_calls
def fori_loop(low: ArrayLike, high: ArrayLike, f: Function, init: Any) -> Any:
    """A function applied again and again, for each integer from `low` up to but without `high`.

    - `low`, `high`: integers; if they depend on variables, the loop is a `tw.while_loop`.
    - `f`: `carry = f(i, carry)`, from arrays; `i` is an int64 number.  It is called once.
    - `init`: the first carry, as for `tw.scan`.

    Gives the last carry, which is `init` where `high` is not above `low`.

        int(tw.fori_loop(1, 6, lambda i, product: product * i, 1))   # -> 120
    """
    op = "fori_loop"
    _check_function(op, f)
    if any(isinstance(x, Array) and not x.node.known for x in (low, high)):
        return _loop_between(_integer(low, op, "low"), _integer(high, op, "high"), f, init)
    start, stop = as_int(low, op, "low"), as_int(high, op, "high")
    for word, number in (("low", start), ("high", stop)):
        if not dt.fits(number, dt.INT64):
            raise value_error(op, f"{word} is {number}; accepted: 64-bit integers")
    place = place_variable()
    index = make(_ADD, (place, scalar(start, dt.INT64, op))) if start else place
    traced = _trace_carries(
        op, init, lift_leaves(op, "init", init), lambda carry: (f(wrap(index), carry), None)
    )
    step = LoopStep(place, traced.carries, (), traced.new, ())
    made = build_loop(
        step, traced.first, (), max(0, stop - start), reverse=False, inside=Inside(traced.since)
    )
    return fill(init, made.carries)


def _loop_between(low: Array, high: Array, f: Function, init: Any) -> Any:
    """`fori_loop` between bounds that are known when the program runs."""

    def step(state: Any) -> Any:
        i, carry = state
        return i + 1, f(i, carry)

    def goes_on(state: Any) -> Any:
        return state[0] < high

    return _while("fori_loop", goes_on, step, (low, init))[1]


def _integer(x: Any, op: str, word: str) -> Array:
    """A bound as an int64 number."""
    node = lift(x, op)
    if node.shape or node.dtype.kind not in "iu":
        raise type_error(op, f"{word} is {node.dtype}{list(node.shape)}; accepted: one integer")
    return wrap(convert_node(node, dt.INT64))


@explain_bad_calls
def while_loop(cond: Function, body: Function, init: Any) -> Any:
    """A function applied again and again, as long as another one says so.

    - `cond`: gives one truth value for a carry; it is asked before each step.
    - `body`: `carry = body(carry)`, from arrays.  Both functions are called once, on arrays that
      stand for those of all steps.
    - `init`: the first carry: an array, or a nested structure of arrays.  What `body` gives has
      the same structure, shapes and dtypes.

    Gives the carry for which `cond` no longer holds.  A loop that never ends is stopped by
    Control-C.  There is a derivative in forward mode only, since how many steps reverse mode would
    have to keep is not known.

        root = tw.while_loop(lambda x: abs(x * x - 2) > 1e-12, lambda x: (x + 2 / x) / 2, 1.0)
        round(float(root), 6)                         # -> 1.414214
    """
    return _while("while_loop", cond, body, init)


def _while(op: str, cond: Function, body: Function, init: Any) -> Any:
    _check_function(op, cond)
    _check_function(op, body)
    place = place_variable()
    traced = _trace_carries(
        op, init, lift_leaves(op, "init", init), lambda carry: (body(carry), None)
    )
    with draws_made_by(_draws_of_step(op)):
        goes_on = _truth(op, cond(fill(init, traced.new)))
    first = _truth(op, cond(fill(init, traced.first)))
    step = LoopStep(place, traced.carries, (), traced.new, (goes_on,))
    made = build_while(step, first, traced.first, inside=Inside(traced.since))
    return fill(init, made)


def _truth(op: str, x: Any) -> Node:
    """What a condition gives, as one truth value."""
    node = lift(x, op)
    if node.shape or node.dtype.kind != "b":
        raise type_error(
            op,
            f"the condition gives {node.dtype}{list(node.shape)}; it must give one truth value: "
            "compare, and join with np.any or np.all",
        )
    return node


@explain_bad_calls
def cond(pred: ArrayLike, if_true: Function, if_false: Function, *operands: Any) -> Any:
    """What one of two functions gives: only the one that is chosen is computed.

    - `pred`: one truth value.
    - `if_true`, `if_false`: functions of the operands, which give the same structure, shapes and
      dtypes.  Both are called once, when the graph is built.
    - `operands`: arrays, or nested structures of arrays.

    Gives what the function that was chosen gives.  Where both are cheap, `np.where` is faster.

        x = tw.var("x")
        y = tw.cond(x > 0, np.sqrt, lambda a: a * 0 - 1, x)
        program = tw.Graph([x], y).compile()
        float(program(9.0)), float(program(-9.0))     # -> (3.0, -1.0)
    """
    index = convert_node(_truth("cond", pred), dt.INT64)
    return _switch("cond", index, ("if_false", "if_true"), (if_false, if_true), operands)


@explain_bad_calls
def switch(index: ArrayLike, branches: Sequence[Function], *operands: Any) -> Any:
    """What one of several functions gives: only the one that is chosen is computed.

    - `index`: one integer; below 0 it stands for 0, and above the last branch for that.
    - `branches`: functions of the operands, which give the same structure, shapes and dtypes.
      Each is called once, when the graph is built.
    - `operands`: arrays, or nested structures of arrays.

    Gives what the function that was chosen gives.

        n = tw.var("n", dtype="int64")
        y = tw.switch(n, [np.sin, np.cos, np.tan], 0.0)
        program = tw.Graph([n], y).compile()
        [float(program(i)) for i in range(3)]         # -> [0.0, 1.0, 0.0]
    """
    functions = tuple(branches)
    if not functions:
        raise value_error("switch", "there are no branches; give at least one function")
    names = [f"branch {i}" for i in range(len(functions))]
    return _switch("switch", _integer(index, "switch", "index").node, names, functions, operands)


def _switch(
    op: str, index: Node, names: Sequence[str], functions: Sequence[Function], operands: Any
) -> Any:
    since = next_serial()
    results: list[Any] = []
    for name, function in zip(names, functions, strict=True):
        if not callable(function):
            raise type_error(op, f"{name} is {type(function).__name__}; accepted: a function")
        with draws_made_by(_draws_of_step(op)):
            results.append(function(*operands))
    results = [in_order_of(result, results[0]) for result in results]
    first, last = results[0], results[-1]
    for name, result in zip(names, results, strict=True):
        if key_of(result) != key_of(first):
            raise type_error(
                op,
                f"{names[0]} gives {structure_text(first)} and {name} {structure_text(result)}; "
                "give the same structure",
            )
    rows = _of_one_type(op, names, results)
    if not rows[0]:
        return last
    return fill(first, build_switch(index, rows, inside=Inside(since)))


def _of_one_type(op: str, names: Sequence[str], results: Sequence[Any]) -> list[list[Node]]:
    """What branches give, of the same types; Python numbers have those of the other branches."""
    leaves = [paths_and_leaves(result) for result in results]
    rows = [lift_leaves(op, f"what {n} gives", r) for n, r in zip(names, results, strict=True)]
    for place, (path, _) in enumerate(leaves[0]):
        strong = [
            row[place].dtype
            for row, given in zip(rows, leaves, strict=True)
            if not is_number(given[place][1])
        ]
        for row, given in zip(rows, leaves, strict=True):
            x = given[place][1]
            if is_number(x) and strong:
                row[place] = _number(x, strong[0])
        wanted = rows[0][place]
        for name, row in zip(names, rows, strict=True):
            made = row[place]
            if (made.shape, made.dtype) != (wanted.shape, wanted.dtype):
                where = f", {path}," if path else ""
                at = describe(made.sources)
                raise value_error(
                    op,
                    f"what {names[0]} gives{where} is {wanted.dtype}{list(wanted.shape)}, and "
                    f"{made.dtype}{list(made.shape)} in {name}"
                    + (f" (made at {at})" if at else "")
                    + "; give the same shape and dtype: np.broadcast_to, np.astype",
                )
    return rows


# --------------------------------------------------------------------- tracing


class _TracedStep(NamedTuple):
    """A step of a loop as it was traced."""

    first: list[Node]
    """The first carries, of the dtypes that the steps give."""
    carries: tuple[Node, ...]
    new: tuple[Node, ...]
    rest: list[Node]
    structure: Any
    """What the step gives besides."""
    since: int
    """What was made later is part of the step."""


def _trace_carries(
    op: str,
    init: Any,
    first: list[Node],
    call: Callable[[Any], tuple[Any, Any]],
    rows: Sequence[Node] = (),
) -> _TracedStep:
    """What a step makes of variables that stand for its carries.

    A Python number at the start takes the dtype that the step gives it; `rows` are arrays that it
    may meet.
    """
    numbers = [is_number(x) for _, x in paths_and_leaves(init)]
    beside = [n.dtype for n, number in zip(first, numbers, strict=True) if not number]
    beside += [row.dtype for row in rows]
    own_draws = _draws_of_step(op)
    while True:
        since = next_serial()
        carries = tuple([step_variable("a carry", (n.shape, n.dtype)) for n in first])
        with draws_made_by(own_draws):
            carry, rest = call(fill(init, carries))
        carry = in_order_of(carry, init)
        if key_of(carry) != key_of(init):
            raise type_error(
                op,
                f"the carry is {structure_text(init)} before a step and "
                f"{structure_text(carry)} after it; give it the same structure",
            )
        new = _convert_numbers(carry, carries, lift_leaves(op, "the carry", carry))
        wider = _wider_numbers(first, new, numbers, beside)
        if wider == first:
            break
        first = wider
    for (path, _), old, made in zip(paths_and_leaves(init), carries, new, strict=True):
        if (old.shape, old.dtype) != (made.shape, made.dtype):
            raise _carry_error(op, path, old, made)
    return _TracedStep(first, carries, tuple(new), lift_leaves(op, "a row", rest), rest, since)


def _draws_of_step(op: str) -> MakeDraw:
    """What makes the draws of a step; where functions are mapped over a batch, none can be made."""
    if outer_draws() is make:
        return make

    def refuse(draw: Draw, operands: tuple[Node, ...]) -> Node:
        del draw, operands
        raise value_error(
            op,
            "a random array in a step of a loop cannot be drawn for each example of tw.vmap; draw "
            "those of all steps before the loop, and take their rows as xs",
        )

    return refuse


def _convert_numbers(carry: Any, old: Sequence[Node], new: list[Node]) -> list[Node]:
    """New carries, of which Python numbers have the dtypes that carries had before."""
    given = [x for _, x in paths_and_leaves(carry)]
    return [
        _number(x, before.dtype) if is_number(x) else node
        for x, before, node in zip(given, old, new, strict=True)
    ]


def _number(x: Any, beside: DType) -> Node:
    """A Python number of the dtype that it takes beside arrays of another."""
    number = cast("dt.Number", x)
    return scalar(number, dt.weak_dtype(type(number), beside), "carry")


def _wider_numbers(
    first: list[Node], new: Sequence[Node], numbers: Sequence[bool], beside: Sequence[DType]
) -> list[Node]:
    """The first carries; numbers that the step makes others of with the dtype of those.

    Before that they are tried with the common dtype of the arrays there are, if that holds them.
    """
    out: list[Node] = []
    for node, made, number in zip(first, new, numbers, strict=True):
        wanted = node.dtype
        if number and not made.shape and _is_wider(made, node):
            common = dt.promote(*beside) if beside else made.dtype
            is_tried = common == node.dtype or kind_of(common) not in "fc"
            wanted = made.dtype if is_tried or kind_of(made.dtype) not in "fc" else common
        out.append(convert_node(node, wanted))
    return out


def _is_wider(made: Node, node: Node) -> bool:
    """Whether a step gives numbers of a kind that holds those it began with."""
    kinds = "biufc"
    return made.dtype != node.dtype and kinds.index(kind_of(made.dtype)) >= kinds.index(
        kind_of(node.dtype)
    )


def _carry_error(op: str, path: str, old: Node, made: Node) -> ValueError:
    """The error of a carry that is another after a step than before."""
    where = f", {path}," if path else ""
    ways: list[str] = []
    if old.dtype != made.dtype:
        ways.append(f"convert what the step gives with np.astype(x, {str(old.dtype)!r}), or init")
    if old.shape != made.shape:
        ways.append(f"give init the shape {made.shape}, or the step the shape {old.shape}")
    place = describe(made.sources)
    at = f" (made at {place})" if place else ""
    return value_error(
        op,
        f"the carry{where} is {old.dtype}{list(old.shape)} before a step and "
        f"{made.dtype}{list(made.shape)} after it{at}; " + "; ".join(ways),
    )


def _pair(result: Any) -> tuple[Any, Any]:
    pair = cast("tuple[Any, ...]", result)
    if not isinstance(result, tuple) or len(pair) != 2:
        said = f"{len(pair)} results" if isinstance(result, tuple) else type(result).__name__
        raise type_error(
            "scan", f"the function gives {said}; it must give a pair: the next carry and a row"
        )
    return pair[0], pair[1]


def _row_count(rows: Sequence[Node], paths: Sequence[str], length: object) -> int:
    """How many steps there are."""
    counts: list[int] = []
    for path, row in zip(paths, rows, strict=True):
        where = f"xs, {path}," if path else "xs"
        if not row.shape:
            raise value_error("scan", f"{where} has no axis to take rows along; close over it")
        counts.append(row.shape[0])
        if counts[-1] != counts[0]:
            raise value_error(
                "scan",
                f"{where} has {counts[-1]} rows and {paths[0] or 'the first'} has {counts[0]}; "
                "all must have as many",
            )
    if length is None:
        if not counts:
            raise value_error(
                "scan",
                "there are no xs to count the steps by; give length=, or for the running fold "
                "of a Python function np.scan(f, x)",
            )
        return counts[0]
    wanted = as_int(length, "scan", "length")
    if wanted < 0:
        raise value_error("scan", f"length is {wanted}; it must be at least 0")
    if counts and counts[0] != wanted:
        raise value_error("scan", f"length is {wanted}, but xs have {counts[0]} rows")
    return wanted


def _check_function(op: str, f: object) -> None:
    if not callable(f):
        raise type_error(op, f"the function is {type(f).__name__}; accepted: a function of arrays")
