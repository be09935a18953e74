"""Linear algebra and transforms: what a single case cannot say."""

from __future__ import annotations

import inspect

import array_api_strict
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings

import tawny.numpy as tp
from tawny.array import Array
from tawny.engine.reference import run
from tawny.methods import PUBLIC_FUNCTIONS
from tawny.node import toposort
from tawny.ops.creation import var
from tawny.ops.einsum import Einsum
from tawny.ops.linalg import Matmul

RNG = np.random.default_rng(7)
STRICT = {
    "linalg": [*array_api_strict.linalg.__all__, "eig", "eigvals"],
    "fft": array_api_strict.fft.__all__,
}


def v(*shape: int, dtype: str = "float64") -> Array:
    return var(shape=shape, dtype=dtype)


# ------------------------------------------------------------ names and signatures


@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in STRICT.items() for n in names])
def test_signature_is_the_standards(module: str, name: str) -> None:
    ours = inspect.signature(getattr(getattr(tp, module), name)).parameters
    standard = getattr(getattr(array_api_strict, module), name, None)
    if standard is None:
        assert list(ours) == ["x"]
        return
    for index, p in enumerate(inspect.signature(standard).parameters.values()):
        if p.kind is p.POSITIONAL_ONLY:
            assert list(ours.values())[index].kind in (p.kind, p.POSITIONAL_OR_KEYWORD)
        else:
            assert ours[p.name].kind in (p.kind, p.POSITIONAL_OR_KEYWORD)
            same = ours[p.name].default == p.default
            assert same or (p.name == "norm" and ours["norm"].default is None)


@pytest.mark.parametrize("module", ["linalg", "fft"])
def test_every_name_of_numpys_submodule_is_found_by_its_protocol(module: str) -> None:
    theirs = getattr(np, module)
    names = [n for n in theirs.__all__ if callable(getattr(theirs, n))]
    functions = [n for n in names if not isinstance(getattr(theirs, n), type)]
    assert [n for n in functions if f"{module}.{n}" not in PUBLIC_FUNCTIONS] == []


def test_linalg_names_do_not_pollute_the_top_level() -> None:
    assert not {"norm", "inv", "svd", "fft", "sylvester"} & PUBLIC_FUNCTIONS.keys()


@pytest.mark.parametrize("module", ["linalg", "fft"])
def test_submodule_lists_what_it_has(module: str) -> None:
    submodule = getattr(tp, module)
    assert sorted(set(submodule.__all__)) == sorted(submodule.__all__)
    assert all(hasattr(submodule, n) for n in submodule.__all__)


# ----------------------------------------------------------------------- products


def test_matmul_error_names_operand_axis_and_line() -> None:
    with pytest.raises(
        ValueError,
        match=r"matmul: operand 1 has shape \(3, 5\); its axis -2 must be 4 "
        r"to match operand 0 of shape \(2, 4\)  \[test_linalg.py:\d+\]",
    ):
        v(2, 4) @ v(3, 5)


def test_tensordot_of_matrices_is_a_matmul() -> None:
    assert isinstance(tp.tensordot(v(2, 3), v(3, 4), axes=1).node.op, Matmul)
    assert isinstance(tp.dot(v(2, 3), v(3)).node.op, Matmul)


def test_equal_contractions_are_one_node_whatever_the_letters() -> None:
    a, b = v(2, 3), v(3, 4)
    one, other = tp.einsum("ij,jk->ik", a, b), tp.einsum("xp, pA -> xA", a, b)
    assert one.node is other.node
    assert one.node.op == Einsum("ab,bc->ac")


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (4, 5)]),
        ("ii", [(2, 3)]),
        ("ij", [(2,)]),
        ("i->j", [(2,)]),
        ("i->ii", [(2,)]),
        ("...i->i", [(2, 3)]),
        ("i,j", [(2,)]),
        ("i1", [(2, 2)]),
        ("..i", [(2,)]),
        ("i->...i...", [(2,)]),
    ],
)
def test_einsum_refuses_what_numpy_refuses(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError):
        np.einsum(subscripts, *map(np.ones, shapes))
    with pytest.raises(ValueError, match="einsum: "):
        tp.einsum(subscripts, *(v(*s) for s in shapes))


@st.composite
def contractions(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    """Subscripts over few labels, with broadcasting, repeated labels, ellipses."""
    sizes = {c: draw(st.integers(0, 4)) for c in "abcd"}
    dots = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    terms: list[str] = []
    shapes: list[tuple[int, ...]] = []
    for _ in range(draw(st.integers(1, 3))):
        labels = draw(st.text("abcd", max_size=4))
        thin = {c for c in set(labels) if draw(st.integers(0, 9)) == 0}
        shape = [1 if c in thin else sizes[c] for c in labels]
        if draw(st.booleans()):
            place = draw(st.integers(0, len(labels)))
            under = dots[draw(st.integers(0, 2)) :]
            labels = labels[:place] + "..." + labels[place:]
            shape[place:place] = under
        terms.append(labels)
        shapes.append(tuple(shape))
    subscripts = ",".join(terms)
    if draw(st.booleans()):
        letters = sorted(set(subscripts) - {",", "."})
        chosen = draw(st.permutations(letters))[: draw(st.integers(0, len(letters)))]
        subscripts += "->" + ("..." if "..." in subscripts else "") + "".join(chosen)
    return subscripts, shapes


@settings(max_examples=300, deadline=None)
@given(contractions())
def test_einsum_is_numpys(case: tuple[str, list[tuple[int, ...]]]) -> None:
    subscripts, shapes = case
    operands = [RNG.integers(-3, 4, s) for s in shapes]
    expected = np.einsum(subscripts, *operands)
    result = tp.einsum(subscripts, *map(tp.asarray, operands))
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result.numpy(), expected)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_convolutions_are_numpys_for_all_lengths(data: st.DataObject) -> None:
    n, m = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    mode = data.draw(st.sampled_from(["full", "same", "valid"]))
    a, b = (RNG.integers(-3, 4, k) + 1j * RNG.integers(-3, 4, k) for k in (n, m))
    for name in ("convolve", "correlate"):
        ours, theirs = getattr(tp, name), getattr(np, name)
        np.testing.assert_array_equal(ours(tp.asarray(a), b, mode).numpy(), theirs(a, b, mode))


def test_multi_dot_multiplies_in_the_cheapest_order() -> None:
    x, y, z = v(100, 2), v(2, 100), v(100, 3)
    product = tp.linalg.multi_dot([x, y, z])
    shapes = [n.shape for n in toposort([product.node]) if isinstance(n.op, Matmul)]
    assert shapes == [(2, 3), (100, 3)]


# ------------------------------------------------------------------ factorisations


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
def test_factors_multiply_to_the_matrix(dtype: str, shape: tuple[int, ...]) -> None:
    x = RNG.uniform(-1, 1, shape) + (1j * RNG.uniform(-1, 1, shape) if "c" in dtype else 0)
    x = x.astype(dtype)
    lazy = tp.asarray(x)
    close = 1e-4 if x.dtype.itemsize // (1 + ("c" in dtype)) == 4 else 1e-12
    q, r = tp.linalg.qr(lazy)
    np.testing.assert_allclose((q @ r).numpy(), x, atol=close)
    lower, rows = tp.linalg.lq(lazy)
    np.testing.assert_allclose((lower @ rows).numpy(), x, atol=close)
    u, s, vh = tp.linalg.svd(lazy, full_matrices=False)
    np.testing.assert_allclose(((u * tp.expand_dims(s, axis=-2)) @ vh).numpy(), x, atol=close)
    if shape[-1] == shape[-2]:
        w, vectors = tp.linalg.eig(lazy)
        assert w.dtype == np.result_type(dtype, np.complex64)
        np.testing.assert_allclose((lazy @ vectors).numpy(), (vectors * w).numpy(), atol=close)


def test_results_have_the_standards_field_names() -> None:
    x = v(3, 3)
    assert tp.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert tp.linalg.eig(x)._fields == ("eigenvalues", "eigenvectors")
    assert tp.linalg.qr(x)._fields == ("Q", "R")
    assert tp.linalg.slogdet(x)._fields == ("sign", "logabsdet")
    assert tp.linalg.svd(x)._fields == ("U", "S", "Vh")


def test_parts_of_one_factorisation_share_its_node() -> None:
    x = v(3, 3)
    u, s, vh = tp.linalg.svd(x)
    assert u.node.inputs == s.node.inputs == vh.node.inputs
    assert tp.linalg.svd(x).S.node is s.node


@pytest.mark.parametrize("name", ["inv", "det", "eigh", "svd", "cholesky", "pinv", "matrix_rank"])
def test_float16_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=r"operand 0 has dtype float16.*float32"):
        getattr(tp.linalg, name)(v(2, 2, dtype="float16"))


@pytest.mark.parametrize("name", ["inv", "det", "eigh", "eigvals", "cholesky", "slogdet", "logdet"])
def test_matrices_that_are_not_square_are_refused_when_built(name: str) -> None:
    with pytest.raises(np.linalg.LinAlgError, match=rf"{name}: operand 0 has shape \(2, 3\)"):
        getattr(tp.linalg, name)(v(2, 3))
    with pytest.raises(np.linalg.LinAlgError, match=rf"{name}: operand 0 has shape \(3,\)"):
        getattr(tp.linalg, name)(v(3))


def test_a_singular_matrix_is_reported_with_op_and_line() -> None:
    x = v(2, 2)
    inverse = tp.linalg.inv(x)
    with pytest.raises(
        np.linalg.LinAlgError, match=r"inv: Singular matrix  \[test_linalg.py:\d+\]"
    ):
        run([inverse.node], {x.node: np.zeros((2, 2))})


def test_condition_of_a_singular_matrix_in_a_stack_is_infinite() -> None:
    x = np.stack([np.eye(2), np.ones((2, 2))])
    np.testing.assert_array_equal(tp.linalg.cond(tp.asarray(x), 1).numpy(), [1, np.inf])
    x[0, 0, 0] = np.nan
    np.testing.assert_array_equal(tp.linalg.cond(tp.asarray(x), 1).numpy(), [np.nan, np.inf])


def test_lstsq_of_a_deficient_matrix_still_has_residuals() -> None:
    a, b = np.ones((4, 2)), np.arange(4.0)
    x, residuals, rank, _ = tp.linalg.lstsq(a, b)
    np.testing.assert_allclose(x.numpy(), np.linalg.lstsq(a, b)[0])
    np.testing.assert_allclose(residuals.numpy(), [np.sum((b - 1.5) ** 2)])
    assert rank.item() == 1


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 12])
def test_matrix_power_is_a_new_array(n: int) -> None:
    x = tp.asarray(np.eye(3))
    assert tp.linalg.matrix_power(x, n) is not x


# --------------------------------------------------------------- matrix equations


def jordan(n: int) -> np.ndarray:
    return np.eye(n) * 2 + np.eye(n, k=1)


@pytest.mark.parametrize(
    "b",
    [
        RNG.uniform(-1, 1, (60, 60)),
        jordan(40),
        scipy.linalg.block_diag(jordan(20), RNG.uniform(-1, 1, (30, 30))),
        np.eye(50),
        RNG.uniform(-1, 1, (40, 40)) + 1j * RNG.uniform(-1, 1, (40, 40)),
    ],
    ids=["random", "jordan", "mixed", "identity", "complex"],
)
def test_large_sylvester_equations_hold(b: np.ndarray) -> None:
    n = len(b)
    a = RNG.uniform(-1, 1, (n, n)) + 12 * np.eye(n)
    q = RNG.uniform(-1, 1, (n, n))
    x = tp.linalg.sylvester(a, b, q).numpy()
    np.testing.assert_allclose(a @ x + x @ b, q, atol=1e-11)


@pytest.mark.parametrize("n", [2, 5, 20])
def test_riccati_solutions_stabilise(n: int) -> None:
    a = RNG.uniform(-1, 1, (n, n))
    b = RNG.uniform(-1, 1, (n, 2))
    q, r = np.eye(n), np.eye(2)
    x = tp.linalg.care(a, b, q, r).numpy()
    np.testing.assert_allclose(
        a.T @ x + x @ a - x @ b @ b.T @ x + q, 0, atol=1e-7 * np.abs(x).max()
    )
    assert np.linalg.eigvals(a - b @ b.T @ x).real.max() < 0
    x = tp.linalg.dare(a, b, q, r).numpy()
    gain = np.linalg.solve(r + b.T @ x @ b, b.T @ x @ a)
    np.testing.assert_allclose(a.T @ x @ (a - b @ gain) - x + q, 0, atol=1e-7 * np.abs(x).max())
    assert np.abs(np.linalg.eigvals(a - b @ gain)).max() < 1


@pytest.mark.parametrize("name", ["care", "dare"])
def test_riccati_without_a_solution_says_so(name: str) -> None:
    one, zero = np.ones((1, 1)), np.zeros((1, 1))
    start = zero if name == "care" else one
    with pytest.raises(np.linalg.LinAlgError, match=f"{name}: "):
        getattr(tp.linalg, name)(start, zero, one, one).numpy()


# ---------------------------------------------------------------------- transforms


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_transforms_invert_each_other(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    norm = data.draw(st.sampled_from(["backward", "ortho", "forward"]))
    x = RNG.uniform(-1, 1, shape)
    lazy = tp.asarray(x)
    there = tp.fft.fftn(lazy, norm=norm)
    np.testing.assert_allclose(tp.fft.ifftn(there, norm=norm).numpy(), x, atol=1e-12)
    half = tp.fft.rfftn(lazy, norm=norm)
    back = tp.fft.irfftn(half, s=shape, axes=range(len(shape)), norm=norm)
    np.testing.assert_allclose(back.numpy(), x, atol=1e-12)


def test_transform_points_and_norm_are_checked_when_built() -> None:
    with pytest.raises(ValueError, match="fft: the transform would have 0 points"):
        tp.fft.fft(v(3), n=0)
    with pytest.raises(ValueError, match="hfft: norm is 'no'"):
        tp.fft.hfft(v(3), norm="no")
    with pytest.raises(TypeError, match="ihfft: operand 0 has dtype complex64"):
        tp.fft.ihfft(v(3, dtype="complex64"))
    with pytest.raises(ValueError, match="fftn: s is"):
        tp.fft.fftn(v(3), s=(2, 2))


def test_shifts_undo_each_other() -> None:
    x = tp.asarray(np.arange(35).reshape(5, 7))
    np.testing.assert_array_equal(tp.fft.ifftshift(tp.fft.fftshift(x)).numpy(), x.numpy())
    assert tp.fft.fftshift(x, axes=()) is not x
