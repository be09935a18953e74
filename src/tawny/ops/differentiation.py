"""Ops that say something about derivatives and compute next to nothing themselves."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from tawny.array import Array, ArrayLike, lift, wrap
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import DType, kind_of
from tawny.dtype_rules import floating, inexact
from tawny.node import Node, Part, make, remake, toposort
from tawny.op import BatchOperand, Domain, Gradient, Op, Overwrites, Trait, Type, ViewStrides
from tawny.operator import emit, scalar_op
from tawny.ops import elementwise as e
from tawny.ops.loops import BodyOp, with_bodies
from tawny.ops.movement import batch_size, repeat_in_batch
from tawny.ops.subgraph import Subgraph
from tawny.scalar import Prim, Scalar, call, select
from tawny.shape import Shape


class Argument(
    Op,
    name="argument",
    traits=Trait.IMPURE | Trait.TRACED,
    gradient=Gradient.LINEAR,
):
    """Operand 0 under a name of its own, while a function of it is differentiated or mapped.

    Two arguments are never the same node, so the function's own use of an equal array stays a
    constant; and asking for values that depend on one does not cut them off from it.
    """

    def view(self, shape: Shape, strides: Sequence[int]) -> ViewStrides:
        return ViewStrides(0, tuple(strides))

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        return cotangent

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """Whoever looked at it has finished."""
        return operands[0].node


class StopGradient(Op, name="stop_gradient", gradient=Gradient.ZERO):
    """Operand 0, taken for a constant by every derivative."""

    def view(self, shape: Shape, strides: Sequence[int]) -> ViewStrides:
        return ViewStrides(0, tuple(strides))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return make(self, (operands[0].node,))


@explain_bad_calls
def stop_gradient(x: ArrayLike, /) -> Array:
    """`x`, taken for a constant by every derivative.

    - `x`: an array or a number.

    Gives an array of the same value, without copying it.

        float(tw.grad(lambda a: a * tw.stop_gradient(a))(3.0))   # -> 3.0
    """
    node = lift(x, "stop_gradient")
    return wrap(make(StopGradient(), (node,)) if kind_of(node.dtype) in "fc" else node)


@scalar_op(
    dtype=inexact,
    gradient=(
        lambda arith, g, y, a, b: arith.times(g, b),
        lambda arith, g, y, a, b: arith.times(g, a),
    ),
)
def quiet_multiply(x: Scalar, y: Scalar) -> Scalar:
    """`x * y`, and 0 where `x` is 0, whatever `y` is: a cotangent of zero stays zero."""
    return select(call(Prim.EQ, x, 0.0), 0.0, x * y)


@scalar_op(
    dtype=inexact,
    gradient=(
        lambda arith, g, z, a, b: arith.divide(g, b),
        lambda arith, g, z, a, b: -arith.divide(arith.times(g, z), b),
    ),
)
def quiet_divide(x: Scalar, y: Scalar) -> Scalar:
    """`x / y`, and 0 where `x` is 0, whatever `y` is: a cotangent of zero stays zero."""
    return select(call(Prim.EQ, x, 0.0), 0.0, x / y)


_ZERO_SAFE: Final = ContextVar("zero_safe", default=False)


@contextmanager
def keep_zeros(masked: bool) -> Generator[None]:
    """Pullbacks inside keep cotangents of zero, if these are `masked` by `where`.

    What a pullback multiplies a cotangent with may be infinite or NaN behind the branch that was
    not taken.
    """
    token = _ZERO_SAFE.set(masked)
    try:
        yield
    finally:
        _ZERO_SAFE.reset(token)


def keeps_zeros() -> bool:
    """Whether cotangents of zero are kept: whether these are masked by `where`."""
    return _ZERO_SAFE.get()


def scale_cotangent(cotangent: Array, factor: Array) -> Array:
    """A cotangent times a factor: in a pullback what `multiply` is elsewhere; see `keep_zeros`."""
    if _ZERO_SAFE.get():
        return emit(quiet_multiply, cotangent, factor)
    return e.multiply(cotangent, factor)


@scalar_op(
    dtype=floating,
    domain=Domain(0.0, 8.0),
    gradient=(
        lambda arith, g, y, x: arith.divide(
            g * 0.5, arith.choose(arith.apply(Prim.EQ, y, 0.0), math.inf, y)
        ),
    ),
)
def distance(x: Scalar) -> Scalar:
    """The square root of a squared distance; zero is taken for its derivative at 0."""
    return call(Prim.SQRT, x)


Derivative = Array | None
"""A cotangent or a tangent; None is zero."""


class GivenRule:
    """A derivative that is a Python object, which equals no other.

    It gives cotangents from cotangents, or tangents from tangents.
    """

    def pullback(
        self, cotangents: Sequence[Derivative], results: Sequence[Array], operands: Sequence[Array]
    ) -> Sequence[Derivative]:
        """Cotangents of the operands."""
        raise NotImplementedError

    def pushforward(
        self, tangents: Sequence[Derivative], results: Sequence[Array], operands: Sequence[Array]
    ) -> Sequence[Derivative]:
        """Tangents of the results."""
        raise NotImplementedError

    def batch(self, batched: Sequence[bool]) -> GivenRule:
        """The rule of a batch of calls; which operands are batched, as all results are."""
        raise NotImplementedError


class DerivativeMarker(Op, saved=False):
    """Results whose derivative is not that of the ops that made them.

    Operands are the results, `results` of them, and then what the derivative is in or made from.
    The value is the first operands, unchanged.
    """

    results: int
    rule: GivenRule

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        return types[: self.results]

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        size = batch_size(operands)
        results = [repeat_in_batch(x, size) for x in operands[: self.results]]
        given = operands[self.results :]
        batched = [*[True] * self.results, *[x.batched for x in given]]
        op = self.with_attributes(rule=self.rule.batch(batched))
        return make(op, (*results, *[x.node for x in given]))


def remove_markers(nodes: Sequence[Node]) -> list[Node]:
    """`nodes`, computed from such results as they are."""
    new: dict[Node, Node] = {}
    for node in toposort(nodes):
        if isinstance(node.op, Part) and isinstance(node.inputs[0].op, DerivativeMarker):
            new[node] = new[node.inputs[0].inputs[node.op.index]]
        else:
            inputs = tuple([new[x] for x in node.inputs])
            plain = _without_markers_inside(node) if isinstance(node.op, BodyOp) else node
            new[node] = plain if inputs == plain.inputs else remake(plain, inputs)
    return [new[n] for n in nodes]


def _without_markers_inside(node: Node) -> Node:
    """A node whose bodies compute such results as they are."""
    assert isinstance(node.op, BodyOp)
    bodies = node.op.bodies()
    made = [Subgraph(b.arguments, tuple(remove_markers(b.results))) for b in bodies]
    return node if tuple(made) == bodies else with_bodies(node, made)


class CustomReverse(DerivativeMarker, name="custom_vjp", arity=None):
    """Results with a derivative in reverse mode that the user gives."""

    def pullback(
        self, cotangents: Sequence[Derivative], results: Sequence[Array], *operands: Array
    ) -> Sequence[Derivative]:
        return self.rule.pullback(cotangents, results, operands)


class CustomForward(DerivativeMarker, name="custom_jvp", arity=None):
    """Results with a derivative in forward mode that the user gives."""

    def pushforward(
        self, tangents: Sequence[Derivative], results: Sequence[Array], *operands: Array
    ) -> Sequence[Derivative]:
        return self.rule.pushforward(tangents, results, operands)


class GivenBothWays(DerivativeMarker):
    """Results with a derivative that is given in both modes."""

    def pullback(
        self, cotangents: Sequence[Derivative], results: Sequence[Array], *operands: Array
    ) -> Sequence[Derivative]:
        return self.rule.pullback(cotangents, results, operands)

    def pushforward(
        self, tangents: Sequence[Derivative], results: Sequence[Array], *operands: Array
    ) -> Sequence[Derivative]:
        return self.rule.pushforward(tangents, results, operands)


class Checkpoint(GivenBothWays, name="checkpoint", arity=None):
    """Results that the derivative computes again instead of keeping what they are made from."""


class Implicit(GivenBothWays, name="implicit", arity=None):
    """Results whose derivative follows from an equation that they satisfy."""


class Again(Op, name="again", arity=2, overwrites=Overwrites.FIRST, gradient=Gradient.LINEAR):
    """Operand 0, not before operand 1 is there: what is made of it is computed a second time."""

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dtypes[0]

    def pullback(
        self, cotangent: Array, result: Array, x: Array, after: Array
    ) -> tuple[Array, None]:
        return cotangent, None

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        x, after = operands
        return make(self, (repeat_in_batch(x, batch_size(operands)), after.node))
