"""Sums of products over labelled axes against NumPy's `einsum` in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from codegen_harness import poisoned
from product_harness import computed, judge, layouts
from tawny.engine.cpu.products import contraction
from tawny.engine.cpu.products.contraction import contraction_kernel


def contract(subscripts: str, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """The contraction by a kernel, compared with NumPy's; None where there is no kernel."""
    shape = np.einsum(subscripts, a, b).shape
    result = poisoned(shape, a.dtype)
    code = contraction_kernel(subscripts, *layouts(a, b, result), workers=3)
    if code is None:
        return None
    got = computed(code, [a, b], shape, a.dtype)
    length = a.size * b.size // max(got.size, 1) + 1
    judge(got, lambda x, y: np.einsum(subscripts, x, y), (a, b), length)
    return got


def drawn(labels: str, sizes: dict[str, int], seed: int = 0) -> np.ndarray:
    shape = tuple(sizes[label] for label in labels)
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(autouse=True)
def even_small_ones(monkeypatch):
    monkeypatch.setattr(contraction, "LEAST_PRODUCT", 0)


PRODUCTS = [
    "ij,jk->ik",
    "ij,jk->ki",
    "ij,kj->ik",
    "ji,jk->ik",
    "bij,bjk->bik",
    "bhqd,bhkd->bhqk",
    "bqhd,bkhd->bhqk",
    "bhqk,bkhd->bqhd",
    "ij,j->i",
    "i,ij->j",
    "bi,bi->b",
    "i,i->",
    "i,j->ij",
    "i,j->ji",
    "abc,bcd->ad",
    "abc,cd->abd",
    "bi,bij->bj",
    "iij,jk->ik",
    "ab,cb->bac",
]


@pytest.mark.parametrize("subscripts", PRODUCTS)
def test_products_of_matrices(subscripts):
    sizes = dict(zip("abcdhijkq", (3, 4, 5, 6, 2, 7, 20, 9, 8), strict=True))
    left, right = subscripts.split("->")[0].split(",")
    a, b = drawn(left, sizes, 1), drawn(right, sizes, 2)
    assert contract(subscripts, a, b) is not None
    assert contract(subscripts, np.asfortranarray(a), b[..., ::-1]) is not None or a.ndim > 2


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_subscripts(data):
    labels = "abcde"
    left, right = (
        "".join(data.draw(st.lists(st.sampled_from(labels), min_size=1, max_size=4, unique=True)))
        for _ in range(2)
    )
    both = sorted(set(left + right))
    output = "".join(data.draw(st.permutations(both)))[: data.draw(st.integers(0, len(both)))]
    sizes = {label: data.draw(st.integers(1, 9)) for label in labels}
    a, b = drawn(left, sizes, 3), drawn(right, sizes, 4)
    stretched = [label for label in left if data.draw(st.integers(0, 5)) == 0]
    for label in stretched:
        a = a.take([0], axis=left.index(label))
    assume(contract(f"{left},{right}->{output}", a, b) is not None)


@pytest.mark.parametrize(
    "subscripts",
    [
        "ij,jk->k",  # i is summed over by itself
        "ab,ba->",  # two axes that do not follow each other alike
    ],
)
def test_what_is_left_to_numpy(subscripts):
    sizes = dict.fromkeys("abijk", 5)
    left, right = subscripts.split("->")[0].split(",")
    assert contract(subscripts, drawn(left, sizes), drawn(right, sizes)) is None


def test_stacks_of_tiny_products_are_left_to_numpy(monkeypatch):
    monkeypatch.undo()
    a = np.ones((1000, 3), np.float32)
    assert contract("bi,bi->b", a, a) is None
    wide = np.ones((10, 300), np.float32)
    assert contract("bi,bi->b", wide, wide) is not None


@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_empty_axes(sizes):
    rows, depth, columns = sizes
    a, b = np.ones((rows, depth), np.float32), np.ones((depth, columns), np.float32)
    assert contract("ij,jk->ik", a, b) is not None
