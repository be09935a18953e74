"""Formulas as programs in NumPy's names, which compute what the graph does."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tawny import dtype as dt
from tawny import numpy as names
from tawny.array import lift
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import kind_of
from tawny.formulas.form import ATOM, HIDDEN, Form, Text, call, left_binary
from tawny.formulas.formula import Formula, write
from tawny.node import Node, Part
from tawny.op import Elementwise, Op
from tawny.ops.creation import Arange, Cast, Eye, Linspace
from tawny.ops.cumulative import Cumulative
from tawny.ops.delay import LazyPrint, UserFunction
from tawny.ops.einsum import Einsum
from tawny.ops.factorisation import SVD
from tawny.ops.fft import FFT
from tawny.ops.indexing import Gather, Pad, Range, Scatter, Slice
from tawny.ops.joining import Concat, Repeat, Tile
from tawny.ops.linalg import Matmul
from tawny.ops.movement import BroadcastTo, Flip, Reshape, Roll, Transpose
from tawny.ops.reduction import Accumulation, Reduction, Var
from tawny.ops.systems import Inv
from tawny.shape import Shape, size
from tawny.tree import items_of

COMPARISON, OR, XOR, AND, SHIFT, SUM, PRODUCT, UNARY, POWER = range(1, 10)
"""How tightly Python's operators bind."""

MOST_ELEMENTS: Final = 8
"""Elements of the largest constant that is written out."""


OPERATORS: Final[dict[str, Form]] = {
    "add": left_binary("+", SUM),
    "subtract": left_binary("-", SUM),
    "multiply": left_binary("*", PRODUCT),
    "divide": left_binary("/", PRODUCT),
    "floor_divide": left_binary("//", PRODUCT),
    "remainder": left_binary("%", PRODUCT),
    "pow": Form("#0 ** #1", POWER, (ATOM, UNARY)),
    "square": Form("#0 ** 2", POWER, ATOM),
    "negative": Form("-#0", UNARY, UNARY),
    "positive": Form("+#0", UNARY, UNARY),
    "bitwise_invert": Form("~#0", UNARY, UNARY),
    "bitwise_and": left_binary("&", AND),
    "bitwise_or": left_binary("|", OR),
    "bitwise_xor": left_binary("^", XOR),
    "bitwise_left_shift": left_binary("<<", SHIFT),
    "bitwise_right_shift": left_binary(">>", SHIFT),
    "equal": Form("#0 == #1", COMPARISON, OR),
    "not_equal": Form("#0 != #1", COMPARISON, OR),
    "less": Form("#0 < #1", COMPARISON, OR),
    "less_equal": Form("#0 <= #1", COMPARISON, OR),
    "greater": Form("#0 > #1", COMPARISON, OR),
    "greater_equal": Form("#0 >= #1", COMPARISON, OR),
    "fma": Form("#0 * #1 + #2", SUM, (PRODUCT, UNARY, PRODUCT)),
    "distance": call("sqrt", 1),
    "quiet_multiply": Form("where(#0 == 0, 0, #0 * #1)", ATOM, (ATOM, UNARY)),
    "quiet_divide": Form("where(#0 == 0, 0, #0 / #1)", ATOM, (ATOM, UNARY)),
}
"""Ops that are operators of Python, or made of some; all others are functions of their names."""

Special = Callable[[Any, Node], Form | None]
"""The form of an op with attributes; None where it is a function of its name like others."""


def _options(**options: object) -> list[str]:
    return [f"{name}={value}" for name, value in options.items()]


def _axes(axes: Sequence[int], rank: int) -> list[str]:
    """The axes of a reduction as an option; none where it is over all."""
    if len(axes) == rank:
        return []
    return _options(axis=axes[0] if len(axes) == 1 else tuple(axes))


def _reduction(op: Reduction, node: Node) -> Form:
    given = node.inputs[0]
    options = _axes(op.axes, len(given.shape))
    if op.keepdims:
        options += _options(keepdims=True)
    if isinstance(op, Accumulation) and op.dtype != given.dtype:
        options += _options(dtype=dtype_text(op.dtype))
    if isinstance(op, Var) and op.correction:
        options += _options(correction=op.correction)
    return call(op.facts().name, 1, *options)


def _cumulative(op: Cumulative, node: Node) -> Form:
    options = _options(axis=op.axis)
    if op.dtype != node.inputs[0].dtype:
        options += _options(dtype=dtype_text(op.dtype))
    if op.include_initial:
        options += _options(include_initial=True)
    return call(op.facts().name, 1, *options)


def range_text(extent: Range, n: int) -> str:
    """A range along an axis of `n` elements, as Python slices it."""
    start, length, step = extent
    if extent == (0, n, 1):
        return ":"
    stop = start + length * step
    if not length:
        return "0:0"
    if step < 0:
        first = "" if start == n - 1 else str(start)
        return f"{first}:{'' if stop < 0 else stop}:{step}"
    end = "" if stop >= n else str(stop)
    return f"{start or ''}:{end}" + (f":{step}" if step != 1 else "")


def key_text(items: Sequence[str]) -> str:
    """A key of an index, without what takes all of the last axes."""
    kept = list(items)
    while len(kept) > 1 and kept[-1] == ":":
        kept.pop()
    return ", ".join(kept)


def _slice(op: Slice, node: Node) -> Form:
    pairs = zip(op.ranges, node.inputs[0].shape, strict=True)
    return Form(f"#0[{key_text([range_text(r, n) for r, n in pairs])}]", ATOM, ATOM)


def _picks(axes: Sequence[int], place: int, rank: int, first: int) -> str | None:
    """The key of index arrays along axes side by side; None where it would say another order."""
    if not axes or list(axes) != list(range(axes[0], axes[0] + len(axes))) or place != axes[0]:
        return None
    items = [f"#{first + a - axes[0]}" if a in axes else ":" for a in range(rank)]
    return key_text(items)


def _gather(op: Gather, node: Node) -> Form | None:
    key = _picks(op.axes, op.place, len(node.inputs[0].shape), 1)
    return None if key is None else Form(f"#0[{key}]", ATOM, (ATOM, *[0] * len(op.axes)))


def _scatter(op: Scatter, node: Node) -> Form | None:
    shape = node.inputs[0].shape
    if not op.axes:
        key = key_text([range_text(r, n) for r, n in zip(op.ranges, shape, strict=True)])
    elif all(r == (0, n, 1) for r, n in zip(op.ranges, shape, strict=True)):
        found = _picks(op.axes, op.place, len(shape), 2)
        if found is None:
            return None
        key = found
    else:
        return None
    return Form(f"at(#0)[{key or '...'}].{op.mode}(#1)")


def _transpose(op: Transpose, node: Node) -> Form:
    if op.axes == (1, 0):
        return Form("#0.T", ATOM, ATOM)
    return call("permute_dims", 1, str(op.axes))


def _roll(op: Roll, node: Node) -> Form:
    moved = {a: s for a, s in enumerate(op.shifts) if s}
    if len(moved) == 1:
        ((axis, shift),) = moved.items()
        return call("roll", 1, str(shift), f"axis={axis}")
    return call("roll", 1, str(tuple(moved.values())), f"axis={tuple(moved)}")


def _arange(op: Arange, node: Node) -> Form:
    first, step = op.start, op.step
    stop = first + op.length * step
    bounds = f"{stop}" if (first, step) == (0, 1) else f"{first}, {stop}, {step}"
    return Form(f"arange({bounds}, dtype={dtype_text(op.dtype)})")


def _linspace(op: Linspace, node: Node) -> Form:
    options = [str(op.length), *([] if op.endpoint else ["endpoint=False"])]
    return call("linspace", 2, *options, f"dtype={dtype_text(op.dtype)}")


def _pad(op: Pad, node: Node) -> Form:
    if not op.widths:
        return HIDDEN
    return Form(f"pad(#0, {op.widths}, constant_values=#1)")


def _eye(op: Eye, node: Node) -> Form:
    options = [f"k={op.offset}"] if op.offset else []
    return Form(f"eye({', '.join([str(op.rows), str(op.columns), *options])})")


def _flip(op: Flip, node: Node) -> Form:
    axes = op.axes[0] if len(op.axes) == 1 else op.axes
    return call("flip", 1, f"axis={axes}")


def _user_function(op: UserFunction, node: Node) -> Form:
    name = getattr(op.function.it, "__name__", "function")
    return call(name if name.isidentifier() else "function", len(node.inputs))


def _concat(op: Concat, node: Node) -> Form:
    operands = ", ".join(f"#{i}" for i in range(len(node.inputs)))
    return Form(f"concat([{operands}], axis={op.axis})")


SPECIAL: Final[Mapping[type[Op], Special]] = {
    Matmul: lambda op, node: left_binary("@", PRODUCT),
    Part: lambda op, node: Form(f"#0[{op.index}]", ATOM, ATOM),
    Reduction: _reduction,
    Cumulative: _cumulative,
    Slice: _slice,
    Gather: _gather,
    Scatter: _scatter,
    Transpose: _transpose,
    Roll: _roll,
    Flip: _flip,
    Arange: _arange,
    Eye: _eye,
    Concat: _concat,
    Reshape: lambda op, node: call("reshape", 1, str(op.shape)),
    BroadcastTo: lambda op, node: call("broadcast_to", 1, str(op.shape)),
    Cast: lambda op, node: call("astype", 1, dtype_text(op.dtype)),
    Einsum: lambda op, node: Form(
        f"einsum('{op.subscripts}', {', '.join(f'#{i}' for i in range(len(node.inputs)))})"
    ),
    Linspace: _linspace,
    Pad: _pad,
    Tile: lambda op, node: call("tile", 1, str(op.repetitions)),
    Repeat: lambda op, node: call("repeat", 1, str(op.repeats), f"axis={op.axis}"),
    FFT: lambda op, node: call(
        f"fft.{'i' * op.inverse}fftn", 1, f"s={op.sizes}, axes={op.axes}, norm='{op.norm}'"
    ),
    UserFunction: _user_function,
    LazyPrint: lambda op, node: call("lazy_print", 1),
    Inv: lambda op, node: call("linalg.inv", 1),
    SVD: lambda op, node: call("linalg.svd", 1, f"full_matrices={op.full}"),
}
"""Ops that are not functions of their names, or families of them."""


def special_form(table: Mapping[type[Op], Special], node: Node) -> Form | None:
    """What a table says of an op, or of its family."""
    for kind in type(node.op).__mro__:
        if kind in table:
            return table[kind](node.op, node)
    return None


def dtype_text(dtype: dt.DType) -> str:
    """A dtype by NumPy's name."""
    return "bool" if dtype == dt.BOOL else dtype.name


_HIDDEN_ATTRIBUTES: Final = frozenset({"seed", "stream"})


def attribute_texts(op: Op) -> list[str]:
    """What can be written of an op's attributes, as options of a function."""
    return [
        f"{name}={dtype_text(value) if name == 'dtype' else _literal_text(value)}"
        for name, value in op.attributes().items()
        if name not in _HIDDEN_ATTRIBUTES and (name == "dtype" or _is_plain(value))
    ]


def _is_plain(value: Any) -> bool:
    """Whether an attribute is a number, a text, or made of these; not a function or a graph."""
    if isinstance(value, tuple):
        return all(map(_is_plain, items_of(value)))
    return value is None or isinstance(value, (bool, int, float, complex, str))


def _literal_text(value: object) -> str:
    """An attribute's value; what stands for operands in forms cannot be in it."""
    return repr(value).replace("#", r"\x23")


def number_text(value: Any, dtype: dt.DType) -> Text:
    """A number in as few digits as give it again."""
    if dtype.kind == "b":
        return Text(str(bool(value)))
    if dtype.kind in "iu":
        return Text(str(int(value)), ATOM if value >= 0 else UNARY)
    if dtype.kind == "c":
        whole = complex(value)
        plain = np.isfinite(whole) and not (np.signbit(whole.real) and not whole.real)
        return Text(repr(whole) if plain else f"complex({whole.real}, {whole.imag})")
    if not np.isfinite(value):
        sign = np.signbit(value) and not np.isnan(value)
        return Text("-inf" if sign else str(abs(value)), UNARY if sign else ATOM)
    text = repr(float(value)) if dtype == dt.FLOAT64 else str(dtype.type(value))
    return Text(text, UNARY if np.signbit(value) else ATOM)


class Infix:
    """Python's operators and NumPy's functions."""

    def form(self, node: Node) -> Form:
        """Operators, what the table of ops says, or a function of the op's name."""
        op = node.op
        if isinstance(op, Elementwise):
            known = OPERATORS.get(op.info.name)
            return call(op.info.name, len(node.inputs)) if known is None else known
        found = special_form(SPECIAL, node)
        if found is not None:
            return found
        name = op.facts().name
        home = "linalg." if name in dir(names.linalg) and name not in dir(names) else ""
        return call(f"{home}{name}", len(node.inputs), *attribute_texts(op))

    def literal(self, node: Node, beside: Node | None) -> Text | None:
        """Numbers and small arrays; their dtype is said where it would be another."""
        value = node.value
        if value is None or size(node.shape) > MOST_ELEMENTS:
            return None
        if not node.shape:
            return _scalar_literal(node, beside)
        if not value.size:
            return Text(f"zeros({node.shape}, dtype={dtype_text(node.dtype)})")
        kind = "" if node.dtype in _DEFAULTS else f", dtype={dtype_text(node.dtype)}"
        return Text(f"array({_nested_lists(value)}{kind})")

    def name(self, name: str) -> str:
        """A name that Python takes and no function has."""
        plain = re.sub(r"\W", "_", name)
        if not plain.isidentifier():
            plain = f"_{plain}"
        return f"{plain}_" if keyword.iskeyword(plain) or plain in dir(names) else plain

    def parenthesise(self, text: str) -> str:
        """In round brackets."""
        return f"({text})"


_DEFAULTS: Final = (dt.BOOL, dt.INT64, dt.FLOAT64, dt.COMPLEX128)
"""What Python's numbers are by themselves."""


def _scalar_literal(node: Node, beside: Node | None) -> Text:
    """A number, with its dtype where a Python number in its place would have another."""
    assert node.value is not None
    value = node.value.item() if kind_of(node.dtype) != "f" else node.value[()]
    number = number_text(value, node.dtype)
    others: list[dt.DType] = []
    if beside is not None and isinstance(beside.op, Elementwise):
        rest = beside.inputs[beside.op.info.dtype.ignores :]
        others = [x.dtype for x in rest if x.value is None or x.shape]
    if not others:
        implied = node.dtype in _DEFAULTS
    else:
        kinds: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
        common = dt.promote(*others)
        implied = dt.weak_dtype(kinds[kind_of(node.dtype)], common) == node.dtype
        if implied and common == node.dtype and kind_of(node.dtype) == "f":
            number = _short_number(value, number)
    return number if implied else Text(f"{dtype_text(node.dtype)}({number.text})")


def _short_number(value: Any, number: Text) -> Text:
    """A whole number without its fraction."""
    whole = np.isfinite(value) and value == int(value) and abs(value) < _LARGE
    return (
        number._replace(text=str(int(value)))
        if whole and (value or not np.signbit(value))
        else number
    )


_LARGE: Final = 1e6
"""Whole numbers from here on are written as floating-point numbers are."""


def _nested_lists(value: Any) -> str:
    """An array as nested lists of numbers."""
    if not value.shape:
        item = value.item() if kind_of(value.dtype) != "f" else value[()]
        return number_text(item, value.dtype).text
    return f"[{', '.join(_nested_lists(np.asarray(x)) for x in value)}]"


def shape_text(shape: Shape, dtype: dt.DType) -> str:
    """Dtype and sizes, as in `float64[2, 3]`."""
    return f"{dtype_text(dtype)}{list(shape)}"


@explain_bad_calls
def infix(array: Any, *, shapes: bool = False) -> str:
    """The formula of an array as a program in NumPy's names.

    - `array`: a lazy array.
    - `shapes`: whether to say dtype and shape of every name in comments.

    Gives a text: an assignment on each line for a part that is read more than once or has a name
    (`np.name`), then the result.  Nothing is expanded.  Evaluated where the variables are NumPy
    arrays and the names those of `tawny.eager` (or of NumPy), it computes what the graph does.

        x = tw.var("x", (3,))
        h = np.sin(x) + 1
        print(tw.infix(h * h - x / 2))
        # h_1 = sin(x) + 1
        # h_1 * h_1 - x / 2
    """
    formula = write(lift(array, "infix"), Infix())
    lines = [f"{s.name} = {s.text}" for s in formula.statements]
    if not shapes:
        return "\n".join([*lines, formula.result])
    return "\n".join(_with_types(formula, lines))


def _with_types(formula: Formula, lines: Sequence[str]) -> list[str]:
    """The lines with what their values are behind them."""
    given = [f"# {name}: {shape_text(x.shape, x.dtype)}" for name, x in formula.inputs]
    nodes = [*[s.node for s in formula.statements], formula.node]
    pairs = zip([*lines, formula.result], nodes, strict=True)
    return [*given, *[f"{line}  # {shape_text(n.shape, n.dtype)}" for line, n in pairs]]
