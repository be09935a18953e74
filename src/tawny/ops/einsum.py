"""Sums of products over labelled axes: Einstein's notation."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, Out, lift_each, store, wrap
from tawny.dtype import DType, as_dtype
from tawny.errors import type_error, value_error
from tawny.node import Node, make, scalar
from tawny.op import ELEMENTWISE, MOST_OPERANDS, BatchOperand, Gradient, Op, Type, dtype_mismatch
from tawny.operator import check_layout, public
from tawny.ops.creation import Eye, asarray, cast_node, cast_to_common
from tawny.ops.movement import broadcast_node, reshape_node
from tawny.shape import Shape, as_int, size

LETTERS: Final = string.ascii_letters
"""The labels of a normalised subscripts string, in order of appearance."""


class Einsum(Op, name="einsum", arity=None, oracle="numpy.einsum", gradient=Gradient.MULTILINEAR):
    """Sum of products over the labels that are not in the result.

    `subscripts` gives every operand's labels and the result's, as in "ab,bc->ac"; labels are
    letters in order of first appearance, and an axis of size 1 stretches to the others' size.
    """

    subscripts: str

    def infer_shape(self, *shapes: Shape) -> Shape:
        inputs, _, output = self.subscripts.partition("->")
        sizes: dict[str, int] = {}
        for position, (labels, shape) in enumerate(zip(inputs.split(","), shapes, strict=True)):
            own: dict[str, int] = {}
            for axis, (label, n) in enumerate(zip(labels, shape, strict=True)):
                if own.setdefault(label, n) != n:
                    raise value_error(
                        "einsum",
                        f"operand {position} has shape {shape}; its axis {axis} is {n} and must be "
                        f"{own[label]} to have the same label as an axis before it",
                    )
                if n != 1 and sizes.get(label, 1) not in (1, n):
                    raise value_error(
                        "einsum",
                        f"operand {position} has shape {shape}; its axis {axis} is {n} and must be "
                        f"{sizes[label]} or 1 to match the operands before it (shapes "
                        f"{' and '.join(map(str, shapes))})",
                    )
                if n != 1 or label not in sizes:
                    sizes[label] = n
        return tuple(sizes[label] for label in output)

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        """Every combination of indices once for each operand beyond the first."""
        sizes: dict[str, int] = {}
        for term, shape in zip(
            self.subscripts.partition("->")[0].split(","), operands, strict=True
        ):
            for label, n in zip(term, shape, strict=True):
                sizes[label] = max(n, sizes.get(label, 1))
        return size(tuple(sizes.values())) * (len(operands) - 1)

    def operand_counts(self) -> Sequence[int]:
        return range(1, MOST_OPERANDS)

    def mistake(self, types: Sequence[Type]) -> str | None:
        if not _is_contraction(self.subscripts):
            return (
                f"subscripts are {self.subscripts!r}; expected letters as they appear: 'ab,bc->ac'"
            )
        return dtype_mismatch(types)

    def pullback(self, cotangent: Array, result: Array, *factors: Array) -> list[Array]:
        inputs, _, output = self.subscripts.partition("->")
        terms = inputs.split(",")
        return [
            _factor_cotangent(i, cotangent, output, terms, factors) for i in range(len(factors))
        ]

    def batch(self, operands: Sequence[BatchOperand]) -> Node | None:
        """One more label, where there is one left."""
        inputs, _, output = self.subscripts.partition("->")
        free = next((label for label in reversed(LETTERS) if label not in inputs), None)
        if free is None:
            return None
        terms = [
            free + term if operand.batched else term
            for term, operand in zip(inputs.split(","), operands, strict=True)
        ]
        subscripts = relabel(f"{','.join(terms)}->{free}{output}")
        return make(Einsum(subscripts), tuple([x.node for x in operands]))


def relabel(subscripts: str) -> str:
    """Subscripts whose labels are letters in order of first appearance."""
    labels = "".join(dict.fromkeys(filter(str.isalpha, subscripts)))
    return subscripts.translate(str.maketrans(labels, LETTERS[: len(labels)]))


_CONTRACTION: Final = re.compile(r"[a-zA-Z]*(,[a-zA-Z]*)*->([a-zA-Z]*)")


def _is_contraction(subscripts: str) -> bool:
    """Whether these are labels of operands in order, and of a result that occur in it once."""
    if _CONTRACTION.fullmatch(subscripts) is None:
        return False
    inputs, _, output = subscripts.partition("->")
    labels = "".join(dict.fromkeys(inputs.replace(",", "")))
    in_order = LETTERS.startswith(labels)
    return in_order and len(set(output)) == len(output) and set(output) <= set(labels)


def _factor_cotangent(
    position: int, cotangent: Array, output: str, terms: Sequence[str], factors: Sequence[Array]
) -> Array:
    """The cotangent of one factor: a product by the labels of that factor.

    Its axes of size 1 were stretched, so they are summed over; labels that no other factor and
    not the result has were summed over, so the cotangent is the same all along them; a label that
    it has twice picks a diagonal, outside which the cotangent is zero.
    """
    term, x = terms[position], factors[position].node
    others = [(t, f) for i, (t, f) in enumerate(zip(terms, factors, strict=True)) if i != position]
    elsewhere = output + "".join(t for t, _ in others)
    labels = dict(zip(term, x.shape, strict=True))
    kept = "".join(label for label, n in labels.items() if n != 1 and label in elsewhere)
    product = cotangent
    if others or kept != output:
        subscripts = ",".join([output, *(t for t, _ in others)])
        product = einsum(f"{subscripts}->{kept}", cotangent, *(f for _, f in others))
    found = dict(zip(kept, product.shape, strict=True))
    shape = tuple(found.pop(label, 1) for label in term)
    spread = _on_diagonals(reshape_node(product.node, shape), term, x.shape)
    return wrap(broadcast_node(spread, x.shape))


def _on_diagonals(node: Node, term: str, shape: Shape) -> Node:
    """`node` where all axes of one label have the same index, and zero elsewhere."""
    mask: Node | None = None
    for axis, label in enumerate(term):
        first = term.index(label)
        if first == axis or shape[axis] == 1:
            continue
        n = shape[axis]
        sizes = tuple(n if a in (first, axis) else 1 for a in range(len(shape)))
        here = reshape_node(make(Eye(n, n, 0, dt.BOOL)), sizes)
        mask = here if mask is None else make(ELEMENTWISE["logical_and"], (mask, here))
    if mask is None:
        return node
    return make(ELEMENTWISE["where"], (mask, node, scalar(0, node.dtype, "einsum")))


# ---------------------------------------------------------------- contractions


def as_common_dtype(op: str, operands: Sequence[Any]) -> tuple[Node, ...]:
    """The operands as nodes of their common dtype."""
    return cast_to_common(lift_each(op, operands))


def contraction(name: str, operands: Sequence[Any], inputs: Sequence[str], output: str) -> Array:
    """An `Einsum` over any labels, which are renamed in order of appearance."""
    names: dict[str, str] = {}
    for label in "".join(inputs):
        if label not in names:
            if len(names) == len(LETTERS):
                raise value_error(name, f"more than {len(LETTERS)} different axes are involved")
            names[label] = LETTERS[len(names)]
    table = str.maketrans(names)
    subscripts = f"{','.join(inputs)}->{output}".translate(table)
    return wrap(make(Einsum(subscripts), as_common_dtype(name, operands)))


def stack_labels(ranks: Sequence[int]) -> list[str]:
    """Labels for leading axes of the given ranks that broadcast against each other."""
    most = max(ranks)
    labels = "".join(chr(i) for i in range(0x100, 0x100 + most))
    return [labels[most - rank :] for rank in ranks]


def _split_term(term: str, position: int, rank: int) -> tuple[str, int]:
    """A term's labels, with "." for its ellipsis, and the number of axes that stands for."""
    labels = term.replace("...", ".")
    dots = labels.count(".")
    if dots > 1 or not all(c in LETTERS or c == "." for c in labels):
        raise value_error(
            "einsum",
            f"operand {position} has subscripts {term!r}; accepted: letters and at most one '...'",
        )
    missing = rank - len(labels) + dots
    if missing < 0 or (missing > 0 and not dots):
        raise value_error(
            "einsum",
            f"operand {position} has {rank} axes and subscripts {term!r} for {len(labels) - dots}; "
            "give each axis a letter, or let '...' stand for the rest",
        )
    return labels, missing


def _output_term(written: str | None, terms: Sequence[str], most: int) -> str:
    """The result's labels with "." for the ellipsis; the implicit ones when none are written."""
    everything = "".join(terms).replace(".", "")
    if written is None:
        once = sorted(c for c in set(everything) if everything.count(c) == 1)
        return "." + "".join(once)
    output = written.replace("...", ".")
    letters = output.replace(".", "")
    unknown = [c for c in letters if c not in everything]
    if output.count(".") > 1 or unknown or len(set(letters)) != len(letters):
        raise value_error(
            "einsum",
            f"the result has subscripts {written!r}; accepted: distinct letters of the operands' "
            f"({''.join(sorted(set(everything)))!r}) and at most one '...'",
        )
    if most and "." not in output:
        raise value_error(
            "einsum",
            f"the result has subscripts {written!r}, but '...' stands for {most} axes; "
            "put '...' in the result, too",
        )
    return output


@public()
def einsum(
    *operands: Any,
    out: Out = None,
    optimize: Any = False,
    dtype: Any = None,
    order: str | None = "K",
    casting: str = "safe",
) -> Array:
    """Sum of products of `operands` as NumPy's subscripts notation says ("ij,jk->ik").

    The subscripts come first, or as a list of numbers behind each operand and behind them all.
    `optimize` changes nothing: the order of products is up to the optimiser.
    """
    check_layout(order, "einsum")
    if not isinstance(optimize, (bool, list, tuple)) and optimize not in ("greedy", "optimal"):
        raise value_error(
            "einsum",
            f"optimize is {optimize!r}; accepted: True, False, 'greedy', 'optimal', a path",
        )
    if not operands:
        raise value_error("einsum", "no subscripts and operands came; both are needed")
    subscripts, arrays = _subscripts_and_operands(operands)
    if not isinstance(subscripts, str):
        raise type_error(
            "einsum", f"operand 0 must be a string of subscripts, not {type(subscripts).__name__}"
        )
    nodes = lift_each("einsum", arrays)
    if dtype is not None:
        nodes = tuple([_as_dtype(n, as_dtype(dtype, "einsum"), casting) for n in nodes])
    inputs, arrow, written = "".join(subscripts.split()).partition("->")
    terms = inputs.split(",")
    if not nodes or len(terms) != len(nodes):
        raise value_error(
            "einsum", f"subscripts {subscripts!r} are for {len(terms)} operands, not {len(nodes)}"
        )
    split = [
        _split_term(t, i, len(n.shape)) for i, (t, n) in enumerate(zip(terms, nodes, strict=True))
    ]
    dotted = stack_labels([missing for _, missing in split])
    most = max(dotted, key=len)
    output = _output_term(written if arrow else None, [labels for labels, _ in split], len(most))
    full = [labels.replace(".", dots) for (labels, _), dots in zip(split, dotted, strict=True)]
    result = contraction("einsum", [wrap(n) for n in nodes], full, output.replace(".", most))
    return store(out, result, "einsum")


@public()
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    """The order of products that NumPy would choose for `einsum` of these arguments, and its cost.

    It may be given to NumPy; here the order is up to the optimiser.
    """
    shown = [_outline(x) for x in operands]
    path: Any = np.einsum_path
    return path(*shown, optimize=optimize, einsum_call=einsum_call)


def _outline(x: Any) -> Any:
    """Something with the shape of an operand, which takes no memory; subscripts as they are."""
    if isinstance(x, (str, list, tuple)):
        return cast("Any", x)
    return np.broadcast_to(np.zeros(()), asarray(x).shape)


def _subscripts_and_operands(operands: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """The subscripts as a string, and the operands, from either way of giving them."""
    if isinstance(operands[0], str) or len(operands) < 2:
        return operands[0], operands[1:]
    if not isinstance(operands[1], (list, tuple)):
        return operands[0], operands[1:]
    arrays = operands[: len(operands) // 2 * 2 : 2]
    terms = ",".join([_term(t) for t in operands[1 : 2 * len(arrays) : 2]])
    return f"{terms}->{_term(operands[-1])}" if len(operands) % 2 else terms, arrays


def _term(labels: Sequence[Any]) -> str:
    """Numbers of axes as letters."""
    return "".join(
        ["..." if x is Ellipsis else LETTERS[as_int(x, "einsum", "a label")] for x in labels]
    )


def _as_dtype(node: Node, dtype: DType, casting: str) -> Node:
    if not dt.can_cast(node.dtype, dtype, casting):
        raise type_error(
            "einsum", f"dtype is {dtype}; {node.dtype} does not cast to it by {casting!r}"
        )
    return cast_node(node, dtype)
