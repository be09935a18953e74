"""Contractions of several operands, two at a time: the same sums, fewer multiplications."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.engine.reference import run
from tawny.node import toposort
from tawny.ops.einsum import Einsum
from tawny.rewrite.contractions import LARGER
from tawny.rewrite.ledger import graph_cost
from tawny.rewrite.pipeline import SIMPLIFY, optimise

SIZES = dict(zip("abcdefg", (2, 3, 4, 5, 6, 7, 1), strict=True))


def drawn(seed: int) -> tuple[str, list[np.ndarray]]:
    """Subscripts of three to five operands, some with a diagonal or an axis of size 1."""
    rng, values = random.Random(seed), np.random.default_rng(seed)
    terms = ["".join(rng.choices("abcdefg", k=rng.randint(0, 3))) for _ in range(rng.randint(3, 5))]
    labels = sorted(set("".join(terms)))
    output = "".join(rng.sample(labels, rng.randint(0, len(labels))))
    arrays = []
    for term in terms:
        own = {c: 1 if rng.random() < 0.1 and term.count(c) == 1 else SIZES[c] for c in term}
        arrays.append(values.normal(size=[own[c] for c in term]))
    return f"{','.join(terms)}->{output}", arrays


@pytest.mark.parametrize("seed", range(60))
def test_pairs_give_the_same_sums(seed: int) -> None:
    subscripts, arrays = drawn(seed)
    given = [tw.var(f"x{i}", a.shape) for i, a in enumerate(arrays)]
    written = tnp.einsum(subscripts, *given).node
    (new,) = optimise([written], evaluate=run, pipeline=(SIMPLIFY,), check=True).outputs
    feeds = {v.node: a for v, a in zip(given, arrays, strict=True)}
    one, other = run([written], feeds)[0], run([new], feeds)[0]
    np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    if new is not written:
        pairs = [n for n in toposort([new]) if isinstance(n.op, Einsum)]
        assert all(len(n.inputs) == 2 for n in pairs)
        assert graph_cost(toposort([new])).operations < graph_cost(toposort([written])).operations


def test_what_would_be_much_larger_is_left() -> None:
    """All pairs of these have far more elements than the operands and the result together."""
    n = 40
    x = [tw.var(f"x{i}", (n, n)) for i in range(3)]
    y = tnp.einsum("ab,cd,abcd->", x[0], x[1], tw.var("t", (n, n, n, n)))
    (new,) = optimise([y.node], evaluate=run, pipeline=(SIMPLIFY,)).outputs
    made = [math.prod(m.shape) for m in toposort([new])]
    assert max(made) <= LARGER * (n**4 + 2 * n * n)
    outer = tnp.einsum("a,b,c->", *[tw.var(f"v{i}", (n,)) for i in range(3)])
    (new,) = optimise([outer.node], evaluate=run, pipeline=(SIMPLIFY,)).outputs
    assert all(m.shape in ((n,), ()) for m in toposort([new]))


def test_programs_use_them(engine: str) -> None:
    rng = np.random.default_rng(0)
    x, w, y = rng.normal(size=(8, 6)), rng.normal(size=(6, 5, 7)), rng.normal(size=(8, 7))
    given = [tw.var(n, v.shape) for n, v in (("x", x), ("w", w), ("y", y))]
    program = tw.Graph(given, tnp.einsum("bi,ijk,bk->bj", *given)).compile(engine=engine)
    expected = np.einsum("bi,ijk,bk->bj", x, w, y)
    np.testing.assert_allclose(program(x, w, y), expected, rtol=1e-12, atol=1e-12)
    assert program.rewrites.counts()["einsum_pairs"] == 1
