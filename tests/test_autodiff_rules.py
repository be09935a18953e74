"""What ops declare of their derivatives: enough, and nothing that follows from the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

import tawny as tw
import tawny.numpy as tnp
from cases import each
from tawny.array import wrap
from tawny.autodiff.forward import push_forward
from tawny.autodiff.reverse import pull_back
from tawny.node import Node, make
from tawny.op import CLASSES, ELEMENTWISE, FACTS, Facts, Gradient
from tawny.ops.joining import Concat
from tawny.ops.movement import Reshape
from tawny.ops.reduction import ArgMax
from tawny.scalar import is_locally_constant

DECLARED = {name: facts for name, facts in FACTS.items() if name != "part"}
"""Every op, but for one result of several, whose derivative is that of the op it is a result of."""


@each(DECLARED.values(), lambda facts: facts.name)
def test_an_op_declares_how_it_is_differentiated_once(facts: Facts) -> None:
    """By a scalar derivative, as linear with a rule of reverse mode, by a rule, or not at all."""
    rules = facts.has_pullback, facts.has_pushforward
    match facts.gradient:
        case Gradient.LINEAR | Gradient.MULTILINEAR:
            assert facts.has_pullback, "reverse mode needs a pullback"
        case Gradient.RULE:
            assert any(rules)
        case Gradient.DERIVED:
            assert facts.name not in CLASSES, "there is no scalar expression to derive it from"
            assert not any(rules)
        case _:
            assert not any(rules), "it has another derivative, or none"


def test_an_op_without_a_rule_has_none_to_call() -> None:
    x = tnp.asarray([1.0, 2.0])
    op = ArgMax(0, False)
    with pytest.raises(AssertionError, match=r"ArgMax\(.*\) has no rule of reverse mode"):
        op.pullback(x, x, x)
    with pytest.raises(AssertionError, match=r"ArgMax\(.*\) has no rule of forward mode"):
        op.pushforward(x, x, x)


def test_having_a_rule_is_no_fact_to_declare() -> None:
    assert Reshape.declaration.has_pullback
    assert not Reshape.declaration.has_pushforward
    assert CLASSES["max_pool"].declaration.gradient is Gradient.RULE
    assert FACTS["conj"].gradient is Gradient.RULE


def test_what_changes_by_jumps_alone_needs_no_declaration() -> None:
    """Its derivative is zero, by its scalar expression; bits and the next number have none."""
    jumps = {n for n, op in ELEMENTWISE.items() if is_locally_constant(op.scalar)}
    zero = {n for n, op in ELEMENTWISE.items() if op.info.gradient is Gradient.ZERO}
    assert {"floor", "equal", "isnan", "trunc"} <= zero <= jumps
    assert not is_locally_constant(ELEMENTWISE["where"].scalar)
    assert not is_locally_constant(ELEMENTWISE["clip"].scalar)


# -------------------------------------------------------------------- two rules

Call = tuple[Callable[..., tw.Array], Sequence[tw.Array]]


def var(*shape: int, dtype: Any = "f8") -> tw.Array:
    return tw.var(None, shape, dtype)


def joined(*arrays: tw.Array) -> tw.Array:
    """As a file may have it: the public function converts integers before it joins them."""
    return wrap(make(Concat(0), tuple([x.node for x in arrays])))


PAIRS: dict[str, list[Call]] = {
    "imag": [(tnp.imag, [var(3, dtype="c16")])],
    "astype": [
        (lambda x: tnp.astype(x, "f4"), [var(3)]),
        (lambda x: tnp.asarray(x, dtype="f8"), [var(3, dtype="c16")]),
    ],
    "linspace": [(lambda x: tnp.linspace(x, var(dtype="i8"), 5), [var()])],
    "concat": [(lambda x: joined(x, var(3, dtype="i8")), [var(3)])],
    "solve": [(tnp.linalg.solve, [var(3, 3), var(3, 2)])],
    "solve_triangular": [(tnp.linalg.solve_triangular, [var(3, 3), var(3, 2)])],
    "sylvester": [(tnp.linalg.sylvester, [var(3, 3), var(3, 3), var(3, 3)])],
    "checkpoint": [(tw.checkpoint(lambda x: tnp.sin(tnp.sin(x))), [var(3)])],
    "loop": [(lambda x: tw.fori_loop(0, 3, lambda i, c: tnp.sin(c), x), [var(3)])],
    "implicit": [(lambda a: tw.solve.root(lambda y: y**3 - a, 1.0).x, [var()])],
    "switch": [(lambda x: tw.cond(tw.var("p", (), "?"), tnp.sin, tnp.exp, x), [var(3)])],
}
"""For each op that has both rules, calls of which one shows that each is needed."""

REFUSED = {"while_loop"}
"""Ops whose pullback says why there is none."""


def test_every_op_with_two_rules_is_known() -> None:
    both = {n for n, f in FACTS.items() if f.has_pullback and f.has_pushforward}
    assert both == set(PAIRS) | REFUSED, "one rule is enough: the other mode is its transpose"


@pytest.mark.parametrize("rule", ["has_pullback", "has_pushforward"])
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.filterwarnings("ignore:converting complex128")
def test_of_two_rules_neither_follows_from_the_other(name: str, rule: str) -> None:
    """Without one of them its mode gets another graph: a longer one, a wrong one or none."""
    modes = [Mode(*call, rule) for call in PAIRS[name]]
    own = [mode() for mode in modes]
    with hidden(FACTS[name], rule):
        assert [mode.derived() for mode in modes] != own, "it is needless"


class Mode:
    """Derivatives of a call in the mode that a rule is for."""

    def __init__(self, call: Callable[..., tw.Array], x: Sequence[tw.Array], rule: str) -> None:
        self.arguments = [a.node for a in x]
        self.result = call(*x).node
        self.forward = rule == "has_pushforward"
        given = self.arguments if self.forward else [self.result]
        self.given = {n: var(*n.shape, dtype=n.dtype).node for n in given}

    def __call__(self) -> Sequence[Node | None]:
        if self.forward:
            return push_forward(self.given, [self.result])
        return [*map(pull_back(self.given, self.arguments).get, self.arguments)]

    def derived(self) -> Sequence[Node | None] | None:
        """The same where the rule may not follow from the other."""
        try:
            return self()
        except (RecursionError, AssertionError):
            return None


@contextmanager
def hidden(facts: Facts, rule: str) -> Iterator[None]:
    """An op without one of its rules."""
    object.__setattr__(facts, rule, False)
    try:
        yield
    finally:
        object.__setattr__(facts, rule, True)
