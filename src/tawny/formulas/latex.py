"""Formulas in LaTeX, as people write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tawny.array import lift
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import DType, kind_of
from tawny.formulas.form import ATOM, HIDDEN, Form, Text
from tawny.formulas.formula import Formula, write
from tawny.formulas.infix import (
    Special,
    attribute_texts,
    key_text,
    number_text,
    range_text,
    special_form,
)
from tawny.node import Constant, Node, Part, Variable, toposort
from tawny.op import Elementwise, Op
from tawny.ops.creation import Cast
from tawny.ops.einsum import Einsum
from tawny.ops.indexing import Gather, Slice
from tawny.ops.linalg import Matmul
from tawny.ops.movement import BroadcastTo, Copy, Transpose
from tawny.ops.reduction import Max, Mean, Min, Prod, Reduction, Sum
from tawny.ops.systems import Det, Inv, Solve
from tawny.shape import Shape, size

OR, AND, RELATION, SUM, UNARY, PRODUCT, POWER = range(1, 8)
"""How tightly signs bind."""

MOST_ELEMENTS: Final = 8
"""Elements of the largest constant that is written out."""


def _function(name: str, count: int) -> Form:
    """A function of operands between brackets that grow."""
    operands = r",\ ".join(f"#{i}" for i in range(count))
    return Form(rf"{name}\left({operands}\right)")


def _word(name: str) -> str:
    """A word in upright letters."""
    plain = name.replace("_", r"\_")
    return rf"\mathrm{{{plain}}}"


def _relation(sign: str) -> Form:
    return Form(f"#0 {sign} #1", RELATION, SUM)


_LETTERS: Final = ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp")
"""Functions that LaTeX has names for, by the same names."""

FORMS: Final[dict[str, Form]] = {
    **{name: _function(f"\\{name}", 1) for name in _LETTERS if name != "exp"},
    "add": Form("#0 + #1", SUM, (SUM, PRODUCT)),
    "subtract": Form("#0 - #1", SUM, (SUM, PRODUCT)),
    "multiply": Form(r"#0 \, #1", PRODUCT, PRODUCT),
    "divide": Form(r"\frac{#0}{#1}", PRODUCT),
    "floor_divide": Form(r"\left\lfloor \frac{#0}{#1} \right\rfloor"),
    "remainder": Form(r"#0 \ \mathrm{mod}\ #1", PRODUCT, (PRODUCT, POWER)),
    "pow": Form("{#0}^{#1}", POWER, (ATOM, 0)),
    "square": Form("{#0}^{2}", POWER, ATOM),
    "reciprocal": Form(r"\frac{1}{#0}", PRODUCT),
    "negative": Form("-#0", UNARY, PRODUCT),
    "positive": HIDDEN,
    "abs": Form(r"\left|#0\right|"),
    "sign": _function(_word("sgn"), 1),
    "fma": Form(r"#0 \, #1 + #2", SUM, (PRODUCT, PRODUCT, PRODUCT)),
    "adagrad_rate": Form(r"\frac{#1}{\sqrt{#0 + #2}}", PRODUCT, (SUM, 0, PRODUCT)),
    "quiet_multiply": Form(r"#0 \, #1", PRODUCT, PRODUCT),
    "quiet_divide": Form(r"\frac{#0}{#1}", PRODUCT),
    "sqrt": Form(r"\sqrt{#0}"),
    "distance": Form(r"\sqrt{#0}"),
    "cbrt": Form(r"\sqrt[3]{#0}"),
    "exp": Form("e^{#0}", POWER),
    "exp2": Form("2^{#0}", POWER),
    "expm1": Form("e^{#0} - 1", SUM),
    "log": _function(r"\log", 1),
    "log2": _function(r"\log_{2}", 1),
    "log10": _function(r"\log_{10}", 1),
    "log1p": Form(r"\log\left(1 + #0\right)", ATOM, PRODUCT),
    "logaddexp": Form(r"\log\left(e^{#0} + e^{#1}\right)"),
    "logaddexp2": Form(r"\log_{2}\left(2^{#0} + 2^{#1}\right)"),
    "asin": _function(r"\arcsin", 1),
    "acos": _function(r"\arccos", 1),
    "atan": _function(r"\arctan", 1),
    "atan2": _function(_word("atan2"), 2),
    "asinh": _function(_word("arsinh"), 1),
    "acosh": _function(_word("arcosh"), 1),
    "atanh": _function(_word("artanh"), 1),
    "hypot": Form(r"\sqrt{{#0}^{2} + {#1}^{2}}", ATOM, ATOM),
    "sigmoid": _function(r"\sigma", 1),
    "softplus": Form(r"\log\left(1 + e^{#0}\right)"),
    "floor": Form(r"\left\lfloor #0 \right\rfloor"),
    "ceil": Form(r"\left\lceil #0 \right\rceil"),
    "equal": _relation("="),
    "not_equal": _relation(r"\neq"),
    "less": _relation("<"),
    "less_equal": _relation(r"\leq"),
    "greater": _relation(">"),
    "greater_equal": _relation(r"\geq"),
    "maximum": _function(r"\max", 2),
    "minimum": _function(r"\min", 2),
    "logical_and": Form(r"#0 \wedge #1", AND, (AND, RELATION)),
    "logical_or": Form(r"#0 \vee #1", OR, (OR, AND)),
    "logical_xor": Form(r"#0 \oplus #1", OR, AND),
    "logical_not": Form(r"\neg #0", UNARY, POWER),
    "conj": Form(r"\overline{#0}"),
    "real": _function(r"\mathrm{Re}", 1),
    "imag": _function(r"\mathrm{Im}", 1),
}
"""Elementwise ops that have signs; all others are functions with their names."""

_OF_TRUTH: Final = {
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "bitwise_invert": "logical_not",
}
"""What bits of truth values are."""


def _reduction_name(name: str) -> Callable[[Any, Node], Form]:
    """A reduction as a function, with axes below."""

    def form(op: Reduction, node: Node) -> Form:
        return _function(name + _axes_below(op, node), 1)

    return form


def _large_sign(sign: str) -> Callable[[Any, Node], Form]:
    """A reduction as a large sign before what it reduces."""

    def form(op: Reduction, node: Node) -> Form:
        return Form(rf"{sign}{_axes_below(op, node)} #0", PRODUCT, POWER)

    return form


def _axes_below(op: Reduction, node: Node) -> str:
    if len(op.axes) == len(node.inputs[0].shape):
        return ""
    return f"_{{{','.join(map(str, op.axes))}}}"


def _transpose(op: Transpose, node: Node) -> Form:
    if op.axes == (1, 0):
        return Form(r"{#0}^{\top}", POWER, ATOM)
    return _function(rf"{_word('transpose')}_{{{','.join(map(str, op.axes))}}}", 1)


def _slice(op: Slice, node: Node) -> Form:
    pairs = zip(op.ranges, node.inputs[0].shape, strict=True)
    key = key_text([range_text(r, n) for r, n in pairs])
    return Form(rf"#0\left[{key}\right]", ATOM, ATOM)


def _gather(op: Gather, node: Node) -> Form:
    rank = len(node.inputs[0].shape)
    items = [f"#{1 + op.axes.index(a)}" if a in op.axes else ":" for a in range(rank)]
    return Form(rf"#0\left[{key_text(items)}\right]", ATOM, (ATOM, *[0] * len(op.axes)))


def _einsum(op: Einsum, node: Node) -> Form:
    said = op.subscripts.replace("->", r" \rightarrow ")
    return _function(rf"{_word('einsum')}_{{{said}}}", len(node.inputs))


SPECIAL: Final[Mapping[type[Op], Special]] = {
    Matmul: lambda op, node: Form(r"#0 \, #1", PRODUCT, (PRODUCT, POWER)),
    Part: lambda op, node: Form(rf"#0\left[{op.index}\right]", ATOM, ATOM),
    Sum: _large_sign(r"\sum"),
    Prod: _large_sign(r"\prod"),
    Mean: _reduction_name(_word("mean")),
    Max: _reduction_name(r"\max"),
    Min: _reduction_name(r"\min"),
    Inv: lambda op, node: Form("{#0}^{-1}", POWER, ATOM),
    Det: lambda op, node: _function(r"\det", 1),
    Solve: lambda op, node: Form(r"{#0}^{-1} \, #1", PRODUCT, (ATOM, POWER)),
    Transpose: _transpose,
    Slice: _slice,
    Gather: _gather,
    Einsum: _einsum,
    BroadcastTo: lambda op, node: HIDDEN,
    Cast: lambda op, node: HIDDEN,
    Copy: lambda op, node: HIDDEN,
}
"""Ops with signs of their own."""

_GREEK: Final = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "pi",
    "rho",
    "sigma",
    "tau",
    "upsilon",
    "phi",
    "chi",
    "psi",
    "omega",
    "Gamma",
    "Delta",
    "Theta",
    "Lambda",
    "Xi",
    "Pi",
    "Sigma",
    "Upsilon",
    "Phi",
    "Psi",
    "Omega",
]


def _letter(text: str) -> str:
    """One part of a name."""
    if text in _GREEK:
        return f"\\{text}"
    return text if len(text) == 1 or text.isdecimal() else _word(text)


class Latex:
    """LaTeX's mathematics, as far as matplotlib reads it too."""

    def __init__(self, result: Node) -> None:
        products = (Matmul, Einsum)
        self._has_products = any(isinstance(n.op, products) for n in toposort([result]))

    def form(self, node: Node) -> Form:
        """Signs where there are some, else a function of the op's name."""
        op = node.op
        if isinstance(op, Elementwise):
            name = op.info.name
            if name == "multiply":
                return self._product(*node.inputs)
            if node.dtype.kind == "b":
                name = _OF_TRUTH.get(name, name)
            return FORMS.get(name) or _function(_word(name), len(node.inputs))
        special = special_form(SPECIAL, node)
        if special is not None:
            return special
        options = [t for t in attribute_texts(op) if not t.startswith(("shape=", "dtype="))]
        below = rf"_{{{_options_text(options)}}}" if options else ""
        return _function(_word(op.facts().name) + below, len(node.inputs))

    def _product(self, left: Node, right: Node) -> Form:
        """A product, its number in front."""
        numbers = [isinstance(x.op, Constant) and not x.shape for x in (left, right)]
        if all(numbers):
            return Form(r"#0 \cdot #1", PRODUCT, PRODUCT)
        if numbers[1]:
            return Form(r"#1 \, #0", PRODUCT, PRODUCT)
        if self._has_products and left.shape and right.shape:
            return Form(r"#0 \odot #1", PRODUCT, PRODUCT)
        return FORMS["multiply"]

    def literal(self, node: Node, beside: Node | None) -> Text | None:
        """Numbers, and small vectors and matrices."""
        value = node.value
        if value is None or size(node.shape) > MOST_ELEMENTS:
            return None
        if not node.shape:
            return _number(value, node.dtype)
        return Text(_nested_brackets(value))

    def name(self, name: str) -> str:
        """Letters as they are, Greek ones by their names, words upright, numbers below."""
        base, *rest = [p for p in re.split(r"[^0-9a-zA-Z]+", name) if p] or ["v"]
        split = re.fullmatch(r"([a-zA-Z]+)(\d+)", base)
        if split is not None:
            base, rest = split[1], [split[2], *rest]
        below = ",".join(map(_letter, rest))
        return _letter(base) + (f"_{{{below}}}" if below else "")

    def parenthesise(self, text: str) -> str:
        """In round brackets that grow."""
        return rf"\left({text}\right)"


def _options_text(options: Sequence[str]) -> str:
    text = r",\,".join(options)
    return re.sub(r"([_#%&${}])", lambda m: "\\" + m[1], text).replace("\\,\\", ",\\")


def _number(value: Any, dtype: DType) -> Text:
    """A number; a power of ten as such."""
    if dtype.kind == "b":
        return Text(_word(str(bool(value)).lower()))
    if dtype.kind == "c":
        whole = complex(value)
        real = _number(np.asarray(whole.real), np.dtype("f8")).text
        sign = "-" if np.signbit(whole.imag) else "+"
        modulus = abs(whole.imag)
        imag = "" if modulus == 1 else _number(np.asarray(modulus), np.dtype("f8")).text + " "
        if whole.real:
            return Text(rf"{real} {sign} {imag}i", SUM)
        return Text(f"-{imag}i", UNARY) if sign == "-" else Text(f"{imag}i", PRODUCT)
    if kind_of(dtype) == "f" and not np.isfinite(value):
        text = _word("nan") if np.isnan(value) else r"\infty"
        return Text(f"-{text}", UNARY) if value < 0 else Text(text)
    plain = number_text(value[()] if kind_of(dtype) == "f" else value.item(), dtype)
    text = re.sub(r"\.0(?=e|$)", "", plain.text)
    level = UNARY if text.startswith("-") else ATOM
    mantissa, mark, exponent = text.partition("e")
    if mark:
        ten = f"10^{{{int(exponent)}}}"
        sign = "-" if mantissa == "-1" else ""
        whole_text = f"{sign}{ten}" if mantissa in ("1", "-1") else rf"{mantissa} \times {ten}"
        return Text(whole_text, UNARY if text.startswith("-") else PRODUCT)
    return Text(text, level)


def _nested_brackets(value: Any) -> str:
    """A small array by its elements."""
    if not value.shape:
        return _number(value, value.dtype).text
    elements = r",\ ".join(_nested_brackets(np.asarray(x)) for x in value)
    return rf"\left[{elements}\right]"


_SETS: Final = {"b": r"\mathbb{B}", "i": r"\mathbb{Z}", "u": r"\mathbb{N}", "f": r"\mathbb{R}"}


def _set_text(shape: Shape, dtype: DType) -> str:
    """The set that arrays of a dtype and shape are elements of."""
    base = _SETS.get(kind_of(dtype), r"\mathbb{C}")
    sizes = r" \times ".join(map(str, shape))
    return f"{base}^{{{sizes}}}" if shape else base


def latex_lines(formula: Formula, shapes: bool) -> list[tuple[str, str]]:
    """Lines of a formula: what stands before and after the sign between, which is = mostly."""
    lines: list[tuple[str, str]] = []
    if shapes:
        lines += [(name, rf"\in {_set_text(x.shape, x.dtype)}") for name, x in formula.inputs]
    named = [(s.name, s.text, s.node) for s in formula.statements]
    for name, text, node in [*named, ("", formula.result, formula.node)]:
        last = rf" \ \in {_set_text(node.shape, node.dtype)}" if shapes else ""
        lines.append((name, f"{'= ' if name else ''}{text}{last}"))
    return lines


@explain_bad_calls
def latex(array: Any, *, shapes: bool = False) -> str:
    r"""The formula of an array in LaTeX, for a place where mathematics is expected.

    - `array`: a lazy array.
    - `shapes`: whether to say the set that every name is an element of.

    Gives a text without dollar signs.  Parts that are read more than once, or have a name
    (`np.name`), stand on lines of their own before the result, in an `aligned` environment.
    Nothing is expanded.  What only repeats or converts elements is not written.

        x = tw.var("x", (3,))
        print(tw.latex(x / np.sqrt(np.sum(x**2))))    # prints \frac{x}{\sqrt{\sum {x}^{2}}}
    """
    return _latex(lift(array, "latex"), shapes)


def _latex(node: Node, shapes: bool) -> str:
    lines = latex_lines(write(node, Latex(node)), shapes)
    if len(lines) == 1:
        return lines[0][1]
    return (
        r"\begin{aligned} "
        + r" \\ ".join(f"{name} & {text}" for name, text in lines)
        + r" \end{aligned}"
    )


MOST_SHOWN: Final = 60
"""Operations of the largest graph that a notebook shows as a formula."""


def notebook_latex(node: Node) -> str | None:
    """What a notebook shows of an array: the formula of a small graph; None of all others."""
    if isinstance(node.op, (Constant, Variable)) or not _is_small(node):
        return None
    return rf"$\displaystyle {_latex(node, shapes=False)}$"


def _is_small(node: Node) -> bool:
    """Whether a graph has few nodes; no more of it are looked at."""
    met: set[Node] = set()
    stack = [node]
    while stack and len(met) <= MOST_SHOWN:
        found = stack.pop()
        if found not in met:
            met.add(found)
            stack.extend(found.inputs)
    return len(met) <= MOST_SHOWN
