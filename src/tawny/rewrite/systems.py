"""The pass that lets solutions, inverses and determinants of one matrix share its factors.

All is computed with 64 bits, as NumPy does, whatever the precision of the matrix.  Matrices that
kernels hold on the stack are left alone, as are complex ones.
"""

from __future__ import annotations

from typing import Final

from tawny.array import Array, wrap
from tawny.dtype import FLOAT64, kind_of
from tawny.node import Node, Part, make, make_parts, source_scope
from tawny.ops import elementwise as e
from tawny.ops.creation import arange, cast_node, eye
from tawny.ops.diagonal import diagonal as view_diagonal
from tawny.ops.factorisation import Cholesky
from tawny.ops.factors import Eliminate, SolveFactored
from tawny.ops.movement import Transpose, broadcast_node, reshape_node
from tawny.ops.reduction import prod, sum
from tawny.ops.systems import Det, Inv, Slogdet, Solve
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, sources_of

SHARED_FACTORS: Final = RuleInfo(
    "shared_factors",
    Kind.CONTRACTING,
    "solve(a, b), inv(a), slogdet(a) = what follows from one elimination of a",
)

SMALL: Final = 64
"""Rows of the largest matrix that is left alone."""

WIDE_FACTOR: Final = RuleInfo(
    "wide_factor", Kind.EXACT, "cholesky(x) = float32(cholesky(float64(x))) for x of float32"
)

_OPS: Final = frozenset({Solve, Inv, Det, Slogdet, Cholesky})


def _run(flow: Flow, context: Context) -> Flow:
    replacements: dict[Node, Node] = {}
    for node in flow.order():
        source = node.inputs[0] if type(node.op) is Part else node
        if type(source.op) not in _OPS or source.known or not _is_shared(source):
            continue
        rule = WIDE_FACTOR if isinstance(source.op, Cholesky) else SHARED_FACTORS
        if not context.recorder.allows(rule):
            continue
        with source_scope(sources_of((source,))):
            made = _by_factors(source, node)
        if made is not None:
            made = cast_node(made, node.dtype)
            context.recorder.record(rule, (node,), (made,))
            replacements[node] = made
    return flow.replace_nodes(replacements)


share_factors: Final = Pass("share_factors", (SHARED_FACTORS, WIDE_FACTOR), _run, _OPS)


def _is_shared(node: Node) -> bool:
    """Whether the matrices of an op are large, real and read as they are."""
    matrix = node.inputs[0]
    if kind_of(matrix.dtype) != "f" or matrix.shape[-1] <= SMALL or 0 in matrix.shape:
        return False
    if isinstance(node.op, Inv):
        return node.op.strict
    if isinstance(node.op, Cholesky):
        return matrix.dtype != FLOAT64
    return not isinstance(node.op, Solve) or _columns(node) is not None


def _columns(node: Node) -> Node | None:
    """The right-hand sides of a system as matrices beside its own; None where they are repeated."""
    matrix, right = node.inputs
    if len(right.shape) == 1:
        return reshape_node(right, (*right.shape, 1)) if len(matrix.shape) == 2 else None
    return right if right.shape[:-1] == matrix.shape[:-1] else None


def _factors(matrix: Node) -> tuple[Node, Node, bool]:
    """Factors and exchanges of a matrix or of what it is the transpose of, and whether it is."""
    whole, rank = matrix, len(matrix.shape)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    transposed = isinstance(matrix.op, Transpose) and matrix.op.axes == swapped
    if transposed:
        (whole,) = matrix.inputs
    factors, exchanges = make_parts(Eliminate(), (cast_node(whole, FLOAT64),))
    return factors, exchanges, transposed


def _by_factors(source: Node, node: Node) -> Node | None:
    """A result of an op by the factors of its matrix, with 64 bits."""
    if isinstance(source.op, Cholesky):
        return make(source.op, (cast_node(source.inputs[0], FLOAT64),))
    factors, exchanges, transposed = _factors(source.inputs[0])
    match source.op:  # pyright: ignore[reportMatchNotExhaustive]
        case Solve():
            right = _columns(source)
            assert right is not None
            made = make(SolveFactored(transposed), (factors, exchanges, cast_node(right, FLOAT64)))
            return reshape_node(made, source.shape)
        case Inv():
            n = factors.shape[-1]
            ones = broadcast_node(eye(n, dtype=factors.dtype).node, factors.shape)
            return make(SolveFactored(transposed), (factors, exchanges, ones))
        case Det():
            sign, size = _determinant(wrap(factors), wrap(exchanges))
            return e.multiply(sign, e.exp(size)).node
        case Slogdet():
            if not isinstance(node.op, Part):
                return None
            return _determinant(wrap(factors), wrap(exchanges))[node.op.index].node
    return None


def _determinant(factors: Array, exchanges: Array) -> tuple[Array, Array]:
    """The sign and the logarithm of the size of determinants."""
    diagonal = view_diagonal(factors, axis1=-2, axis2=-1)
    moved = e.not_equal(exchanges, arange(exchanges.shape[-1], dtype=exchanges.dtype))
    one = e.sign(diagonal)
    signs = e.where(moved, e.negative(one), one)
    return prod(signs, axis=-1), sum(e.log(e.abs(diagonal)), axis=-1)
