"""Lazy arrays among arrays of other libraries."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import tawny as tw
import tawny.numpy as tnp

M = np.arange(9.0).reshape(3, 3)


@pytest.mark.parametrize("ask", [np.may_share_memory, np.shares_memory])
def test_lazy_arrays_share_the_memory_of_their_values(ask) -> None:
    x = tnp.asarray(M)
    assert ask(x, x.numpy())
    assert not ask(x, M)
    assert not ask(M, tw.var("v", shape=(3, 3)))
    assert not ask(tnp.sin(x), x)


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_products_with_sparse_matrices(kind) -> None:
    sparse = kind(np.diag([1.0, 2.0, 3.0]))
    x = tnp.asarray(M)
    np.testing.assert_array_equal(np.asarray(x @ sparse), M @ sparse)
    np.testing.assert_array_equal(np.asarray(sparse @ x), sparse @ M)
    with pytest.raises(TypeError, match=r"depends on variable 'v'"):
        tw.var("v", shape=(3, 3)) @ sparse
    with pytest.raises(TypeError, match=r"operand 1 is csr_.*accepted.*x.toarray\(\)"):
        x + sparse


def test_numpys_arrays_are_changed_by_lazy_ones() -> None:
    a = np.ones((3, 3))
    kept = a
    a += tnp.asarray(M)
    a *= tnp.asarray(2.0)
    assert kept is a
    np.testing.assert_array_equal(a, 2 * (1 + M))
    whole = np.ones((3, 3), int)
    with pytest.raises(TypeError, match="Cannot cast"):
        whole += tnp.asarray(M)
    with pytest.raises(TypeError, match="depends on variable 'v'"):
        a += tw.var("v", shape=(3, 3))
    np.testing.assert_array_equal(a, 2 * (1 + M))

    def changed(x):
        total = np.ones(3)
        total += x
        return tnp.sum(total)

    with pytest.raises(ValueError, match="being differentiated"):
        tw.grad(changed)(np.ones(3))


def test_means_in_another_dtype() -> None:
    x = tnp.asarray(np.where(M == 4, np.nan, M))
    got = np.nanmean(x, axis=0, dtype="float32")
    assert got.dtype == np.float32
    np.testing.assert_allclose(got.numpy(), [3, 4, 5])


def test_einops_by_the_standard() -> None:
    einops = pytest.importorskip("einops.array_api")
    x = tw.var("x", shape=(4, 3))
    y = einops.rearrange(x, "(a b) c -> b a c", a=2)
    assert einops.reduce(y, "b a c -> b", "mean").shape == (2,)
    assert einops.repeat(x, "a b -> a b c", c=2).shape == (4, 3, 2)
    given = np.arange(12.0).reshape(4, 3)
    got = tw.Graph([x], y).compile()(given)
    np.testing.assert_array_equal(got, given.reshape(2, 2, 3).swapaxes(0, 1))
