"""Derivatives of products, norms and the matrix functions built from factorisations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from gradient_cases import Row
from gradient_rows import (
    Function,
    both,
    check,
    drawn,
    joined,
    named,
    of_regular,
    regular,
    rows,
    unchecked,
)
from tawny.node import toposort
from tawny.ops.einsum import Einsum
from tawny.ops.linalg import Matmul
from tawny.ops.reduction import Sum
from tawny.testing import check_grads

la = tnp.linalg

# ----------------------------------------------------------------------- products

MATMUL = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((6, 5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((3,), (6, 5, 3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((2, 3), (6, 5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((1, 2, 3), (6, 3, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((0, 2, 3), (3, 2)),
]

EINSUM = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij->ji", (2, 3)),
    ("ijk->j", (2, 3, 4)),
    ("ii->i", (3, 3)),
    ("ii->", (3, 3)),
    ("iii->i", (3, 3, 3)),
    ("iij->j", (2, 2, 3)),
    ("iijj->", (2, 2, 3, 3)),
    ("iij,jj->i", (2, 2, 3), (3, 3)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("i,j->ij", (2,), (3,)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("ij,j,jk->k", (2, 3), (3,), (3, 4)),
    ("ab,bc,cd,de->ae", (2, 3), (3, 4), (4, 2), (2, 3)),
    ("ij,k->", (2, 3), (4,)),
    ("...i,...i->...", (4, 3), (1, 3)),
    ("...ij,j...->...i", (2, 3, 4), (4, 1)),
    ("ij,jk->ik", (2, 1), (3, 4)),
    ("ij,j->", (2, 3), (1,)),
    ("ij,j->i", (2, 1), (1,)),
    ("ii,i->", (1, 1), (3,)),
    ("ii,i->i", (3, 3), (1,)),
    ("->", ()),
    (",i->i", (), (3,)),
    ("i->", (0,)),
    ("ij,jk->k", (0, 3), (3, 2)),
]

PRODUCTS = [
    ("dot", (2, 3), (3,)),
    ("dot", (2, 3), (4, 3, 2)),
    ("dot", (), (2,)),
    ("vdot", (2, 3), (6,)),
    ("inner", (2, 3), (4, 3)),
    ("inner", (3,), ()),
    ("outer", (2, 2), (3,)),
    ("kron", (2, 3), (2, 2)),
    ("kron", (3,), (2, 2)),
    ("cross", (2, 3), (3,)),
    ("vecdot", (2, 3), (4, 1, 3)),
    ("matvec", (2, 3, 4), (4,)),
    ("vecmat", (5, 1, 3), (2, 3, 4)),
    ("tensordot", (2, 3, 4), (3, 4, 2)),
    ("linalg.matmul", (2, 3), (3, 2)),
    ("linalg.outer", (2,), (3,)),
    ("linalg.cross", (2, 3), (3,)),
    ("linalg.vecdot", (3, 2), (3, 2)),
    ("linalg.tensordot", (2, 3, 4), (3, 4)),
]

MIXED = (drawn(2, 2, 3), drawn(3, 2, dtype="complex128"))


PRODUCT_ROWS = joined(
    *(both("matmul", tnp.matmul, a, b) for a, b in MATMUL),
    *(both(f"einsum {s}", lambda *x, s=s: tnp.einsum(s, *x), *a) for s, *a in EINSUM),
    *(both(name, named(name), *shapes) for name, *shapes in PRODUCTS),
    both(
        "tensordot over lists",
        lambda a, b: tnp.tensordot(a, b, axes=((0, 2), (1, 0))),
        (2, 3, 4),
        (4, 2),
    ),
    both("vecdot along 0", lambda a, b: tnp.vecdot(a, b, axis=0), (3, 2), (3, 2)),
    both("cross", lambda a, b: tnp.cross(a, b, axisa=0, axisb=1, axisc=0), (3, 2), (2, 3)),
    both("multi_dot", lambda *a: la.multi_dot(a), (3,), (3, 4), (4, 2), (2,)),
    both("matmul with itself", lambda a: a @ a, (3, 3)),
    both("matmul of strides", lambda a, b: a[::2, 1:] @ b[:, ::-1].T, (5, 4), (2, 3)),
    [Row("matmul of real and complex", tnp.matmul, MIXED)],
    [Row("einsum of real and complex", lambda a, b: tnp.einsum("iij,jk->ik", a, b), MIXED)],
)


@rows(PRODUCT_ROWS)
def test_products(function: Function, args: tuple[Any, ...]) -> None:
    check(function, args)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_products_in_single_precision(dtype: str) -> None:
    a, b = drawn(2, 3, dtype=dtype), drawn(4, 3, 2, dtype=dtype)
    check_grads(tnp.matmul, (a, b), order=1)
    check_grads(lambda x, y: tnp.einsum("ij,kjl->kil", x, y), (a, b), order=1)
    assert tw.grad(lambda x: tnp.sum(tnp.abs(x @ b)))(a).dtype == np.dtype(dtype)


def test_each_operand_has_a_slope_of_its_own_dtype() -> None:
    a, b = drawn(2, 3, dtype="float32"), drawn(3, 2)
    first, second = tw.grad(lambda x, y: tnp.sum(x @ y), argnums=(0, 1))(a, b)
    assert (first.dtype, second.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(first.numpy(), np.tile(b.sum(1), (2, 1)), rtol=1e-6)
    counts = np.arange(6).reshape(2, 3)
    only = tw.grad(lambda y: tnp.sum(counts @ y))(b)
    np.testing.assert_allclose(only.numpy(), np.tile(counts.sum(0), (2, 1)).T)


@pytest.mark.parametrize(
    ("a", "b"),
    [((7, 2, 3), (3, 4)), ((2, 3), (7, 3, 4)), ((7, 2, 3), (3,)), ((3,), (7, 3, 4))],
)
def test_the_slope_of_a_shared_factor_is_summed_inside_the_product(
    a: tuple[int, ...], b: tuple[int, ...]
) -> None:
    """There is no stack of its slopes to be summed afterwards."""
    x, y = tw.var(shape=a), tw.var(shape=b)
    slopes = tw.gradients(tnp.sum(tnp.square(x @ y)), [x, y])
    nodes = toposort([s.node for s in slopes])
    assert not [n for n in nodes if isinstance(n.op, Sum)]
    assert len([n for n in nodes if isinstance(n.op, (Matmul, Einsum))]) <= 3


def test_einsum_of_one_operand_makes_no_product_without_need() -> None:
    x = tw.var(shape=(3, 4))
    (slope,) = tw.gradients(tnp.sum(tnp.sin(tnp.einsum("ij->i", x))), [x])
    assert not [n for n in toposort([slope.node]) if isinstance(n.op, Einsum) and len(n.shape) == 2]


# ------------------------------------------------------------------ matrix functions

ORDERS: tuple[Any, ...] = (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
LEAST_SQUARES = [((4, 2), (4,)), ((4, 2), (4, 3)), ((2, 4), (2, 3)), ((3, 3), (3,))]
POWERS = (2, 1, -1, 3, 0.5, np.inf, -np.inf)


def solution(a: Any, b: Any) -> tuple[Any, ...]:
    """What of a least-squares solution changes smoothly: not the rank."""
    x, residuals, _, values = la.lstsq(a, b)
    return x, residuals, values


MATRIX_ROWS = joined(
    *(of_regular(f"cond {p}", lambda x, p=p: la.cond(x, p), (2, 3, 3)) for p in ORDERS),
    *(
        of_regular(
            f"matrix_norm {p}",
            lambda x, p=p: la.matrix_norm(x, ord=p, keepdims=True),
            (2, 3, 4),
        )
        for p in ORDERS
    ),
    *(
        of_regular(f"norm {p}", lambda x, p=p: la.norm(x, ord=p, axis=(0, 2)), (2, 3, 4))
        for p in ORDERS
    ),
    *(
        both(f"vector_norm {p}", lambda x, p=p: la.vector_norm(x, ord=p, axis=1), (2, 3, 2))
        for p in POWERS
    ),
    *(
        both(f"norm {p}", lambda x, p=p: la.norm(x, ord=p, axis=0, keepdims=True), (3, 2))
        for p in POWERS
    ),
    both("norm", la.norm, (2, 3)),
    *(
        of_regular(f"matrix_power {n}", lambda x, n=n: la.matrix_power(x, n), (2, 3, 3))
        for n in (-2, -1, 1, 2, 5)
    ),
    *(of_regular("pinv", la.pinv, s) for s in ((3, 3), (4, 2), (2, 4), (2, 4, 3), (3, 0))),
    of_regular("pinv of rank 2", lambda a, b: la.pinv(a @ b, rtol=1e-8), (4, 2), (2, 3)),
    *(of_regular("lstsq", solution, a, b) for a, b in LEAST_SQUARES),
    of_regular("tensorsolve", lambda a, b: la.tensorsolve(a.reshape(2, 3, 6), b), (6, 6), (2, 3)),
    of_regular(
        "tensorsolve over axes",
        lambda a, b: la.tensorsolve(a.reshape(6, 2, 3), b, axes=(0,)),
        (6, 6),
        (2, 3),
    ),
    of_regular("tensorinv", lambda a: la.tensorinv(a.reshape(6, 2, 3), ind=1), (6, 6)),
    both("trace", lambda x: la.trace(x, offset=1), (2, 3, 4)),
    both("diagonal", lambda x: la.diagonal(x, offset=-1), (2, 3, 4)),
    both("matrix_transpose", la.matrix_transpose, (2, 3, 4)),
)


@rows(MATRIX_ROWS)
def test_matrix_functions(function: Function, args: tuple[Any, ...]) -> None:
    check(function, args)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_pseudo_inverses_of_matrices_with_equal_singular_values(dtype: str) -> None:
    """No singular vector is unique there, and the pseudo-inverse is smooth all the same."""
    check(la.pinv, (np.eye(4, 3, dtype=dtype),))
    check(lambda a, b: la.lstsq(a, b).x, (2 * np.eye(4, 3, dtype=dtype), drawn(4, dtype=dtype)))


def test_where_a_pseudo_inverse_is_cut_off_has_no_slope() -> None:
    x, rtol = regular(3, 2), np.array(1e-3)
    first, second = tw.grad(lambda a, t: tnp.sum(la.pinv(a, rtol=t)), argnums=(0, 1))(x, rtol)
    expected = tw.grad(lambda a: tnp.sum(la.pinv(a)))(x)
    np.testing.assert_allclose(first.numpy(), expected.numpy())
    assert second.numpy() == 0
    _, tangent = tw.jvp(lambda t: la.pinv(x, rtol=t), [rtol], [np.array(1.0)])
    np.testing.assert_array_equal(tangent.numpy(), np.zeros((2, 3)))


def test_what_counts_has_no_slope() -> None:
    x = regular(3, 3)
    np.testing.assert_array_equal(
        tw.grad(lambda a: tnp.sum(a) * la.matrix_rank(a))(x).numpy(), np.full((3, 3), 3.0)
    )
    slope = tw.grad(lambda a: tnp.sum(la.matrix_power(a, 0)))(x)
    np.testing.assert_array_equal(slope.numpy(), np.zeros((3, 3)))


def test_every_public_function_is_checked() -> None:
    """But for the rank, which is a whole number."""
    left = ["einsum_path", "linalg.matrix_rank"]  # a plan and a count
    assert unchecked(PRODUCT_ROWS + MATRIX_ROWS, "einsum", "linalg", "matrix_functions") == left
