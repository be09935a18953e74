"""Ops applied to a batch at once, against each of the batch by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.array import wrap
from tawny.autodiff.batching import batch
from tawny.node import toposort, variable
from tawny.ops.convolution import Convolution, ConvolutionInputGradient
from tawny.ops.creation import Cast
from tawny.ops.cumulative import CumulativeSum
from tawny.ops.diagonal import Diagonal
from tawny.ops.differentiation import StopGradient
from tawny.ops.einsum import Einsum
from tawny.ops.factorisation import Cholesky, Svdvals
from tawny.ops.fft import FFT
from tawny.ops.indexing import ArgSort, Gather, Pad, Scatter, Slice
from tawny.ops.joining import Concat, Repeat, Tile
from tawny.ops.linalg import Matmul
from tawny.ops.movement import BroadcastTo, Copy, Flip, Reshape, Roll, Transpose
from tawny.ops.pooling import AvgPool, MaxPool, MaxPoolGradient, Upsampling, UpsamplingGradient
from tawny.ops.reduction import ArgMax, Max, Sum, Var
from tawny.ops.sorting import Sort
from tawny.ops.systems import Inv, Pinv, Slogdet, Solve

RNG = np.random.default_rng(3)
X = RNG.uniform(0.2, 1.0, (3,))
M = RNG.uniform(-1, 1, (3, 3))

_KERNEL = np.ones((3, 1, 2))
_REGULAR = np.array([[4.0, 1.0], [0.5, 3.0]])


def positive(x: tw.Array) -> tw.Array:
    """A positive definite matrix made of any."""
    return x @ x.T + 3 * tnp.eye(2)


BATCHES: list[Any] = [
    (Cast, (3,), lambda x: tnp.astype(x, np.float32)),
    (Copy, (3,), tnp.copy),
    (Diagonal, (3, 3), tnp.linalg.diagonal),
    (StopGradient, (3,), tw.stop_gradient),
    (Sum, (2, 3), lambda x: tnp.sum(x, axis=1)),
    (Sum, (2, 3), lambda x: tnp.sum(x, axis=0, keepdims=True)),
    (Var, (2, 3), lambda x: tnp.var(x, axis=0)),
    (Max, (2, 3), lambda x: tnp.max(x, axis=(0, 1))),
    (ArgMax, (2, 3), lambda x: tnp.argmax(x, axis=1)),
    (ArgMax, (2, 3), tnp.argmax),
    (CumulativeSum, (2, 3), lambda x: tnp.cumulative_sum(x, axis=0, include_initial=True)),
    (Reshape, (2, 3), lambda x: tnp.reshape(x, (3, 2))),
    (BroadcastTo, (3,), lambda x: tnp.broadcast_to(x, (2, 3))),
    (BroadcastTo, (2, 1), lambda x: tnp.broadcast_to(x, (4, 2, 3))),
    (Transpose, (2, 3), lambda x: x.T),
    (Flip, (2, 3), lambda x: tnp.flip(x, axis=1)),
    (Roll, (2, 3), lambda x: tnp.roll(x, 1, axis=1)),
    (Repeat, (2, 3), lambda x: tnp.repeat(x, 2, axis=0)),
    (Tile, (2, 3), lambda x: tnp.tile(x, (2, 1))),
    (Pad, (2, 3), lambda x: tnp.pad(x, ((1, 0), (0, 2)))),
    (Pad, (), lambda x: tnp.pad(tnp.asarray(M), 1, constant_values=x)),
    (Concat, (2, 3), lambda x: tnp.concat([x, tnp.asarray(np.ones((1, 3)))])),
    (Slice, (4, 3), lambda x: x[3:0:-2, 1:]),
    (Gather, (4, 3), lambda x: x[np.array([[0, 2], [1, 1]])]),
    (Gather, (4, 3), lambda x: x[:, np.array([0, 2])]),
    (Scatter, (2,), lambda x: tnp.asarray(M).at[0, :2].set(x)),
    (Scatter, (3, 3), lambda x: x.at[np.array([0, 0])].add(1.0)),
    (Scatter, (), lambda x: tnp.asarray(M).at[1:].add(x)),
    (Scatter, (3,), lambda x: tnp.asarray(M).at[np.array([0, 2])].add(x)),
    (Sort, (2, 3), lambda x: tnp.sort(x, axis=0)),
    (ArgSort, (2, 3), lambda x: tnp.argsort(x, axis=1)),
    (Matmul, (3, 3), lambda x: x @ M),
    (Matmul, (3, 3), lambda x: M @ x),
    (Matmul, (2, 3, 3), lambda x: x @ M),
    (Matmul, (3,), lambda x: M @ x),
    (Matmul, (3,), lambda x: x @ M),
    (Matmul, (3,), lambda x: x @ X),
    (Matmul, (3,), lambda x: x @ x),
    (Matmul, (3, 3), lambda x: tnp.asarray(np.ones((2, 4, 3))) @ x),
    (Matmul, (3, 3), lambda x: x @ X),
    (Einsum, (2, 3), lambda x: tnp.einsum("ab,cb,b->ca", x, M, X)),
    (Einsum, (3, 3), lambda x: tnp.einsum("aa->a", x)),
    (FFT, (2, 5), lambda x: tnp.fft.fftn(x, s=(4,), axes=(1,))),
    (Inv, (2, 2), lambda x: tnp.linalg.inv(positive(x))),
    (Slogdet, (2, 2), lambda x: tuple(tnp.linalg.slogdet(positive(x)))),
    (Cholesky, (2, 2), lambda x: tnp.linalg.cholesky(positive(x))),
    (Svdvals, (4, 2, 3), tnp.linalg.svdvals),
    (Pinv, (2, 3), tnp.linalg.pinv),
    (Solve, (2,), lambda x: tnp.linalg.solve(_REGULAR, x)),
    (Solve, (2, 3), lambda x: tnp.linalg.solve(_REGULAR, x)),
    (Solve, (2, 2), lambda x: tnp.linalg.solve(positive(x), np.ones(2))),
    (Solve, (2, 2), lambda x: tnp.linalg.solve(positive(x), x)),
    (Convolution, (2, 5, 1), lambda x: tnp.conv1d(x, _KERNEL, padding="SAME")),
    (Convolution, (3, 1, 2), lambda k: tnp.conv1d(np.ones((2, 5, 1)), k)),
    (ConvolutionInputGradient, (2, 5, 2), lambda x: tnp.conv_transpose1d(x, np.ones((3, 2, 1)))),
    (AvgPool, (2, 6, 1), lambda x: tnp.avg_pool1d(x, 2)),
    (MaxPool, (2, 6, 1), lambda x: tnp.max_pool1d(x, 2)),
    (MaxPoolGradient, (2, 6, 1), tw.grad(lambda x: tnp.sum(tnp.max_pool1d(x, 3, stride=1)))),
    (Upsampling, (2, 3, 1), lambda x: tnp.upsampling1d(x, 2)),
    (UpsamplingGradient, (2, 3, 1), tw.grad(lambda x: tnp.sum(tnp.upsampling1d(x, 2) ** 2))),
]


@pytest.mark.parametrize("case", BATCHES, ids=lambda case: case[0].__name__)
def test_every_op_applied_to_a_batch_is_right(case: Any) -> None:
    """Against the op applied to each of the batch by itself, in one node but where that is said."""
    op, shape, function, *looped = case
    holder = variable(None, shape, np.dtype("f8"))
    made = function(wrap(holder))
    results = list(made) if isinstance(made, tuple) else [made]
    assert any(type(n.op) is op for n in toposort([r.node for r in results]))
    given = tnp.asarray(RNG.uniform(-1, 1, (3, *shape)))
    got = batch([r.node for r in results], {holder: given.node})
    assert (len([n for n in toposort(got) if type(n.op) is op]) > 1) == bool(looped)
    one = tw.Graph([wrap(holder)], results).compile()
    expected = [one(d) for d in given.numpy()]
    for i, value in enumerate(got):
        np.testing.assert_allclose(wrap(value).numpy(), [e[i] for e in expected], atol=1e-12)


def test_what_is_in_no_batch_is_the_same_for_all() -> None:
    x, y = variable(None, (2,), np.dtype("f8")), variable(None, (2,), np.dtype("f8"))
    both = batch([wrap(x).node, y], {x: tnp.asarray(np.ones((3, 2))).node})
    assert [n.shape for n in both] == [(3, 2), (3, 2)]
    assert both[1].inputs == (y,)


def test_several_operands_in_batches() -> None:
    x, y = (variable(None, s, np.dtype("f8")) for s in [(2, 3), (3,)])
    given = [RNG.uniform(-1, 1, s) for s in [(4, 2, 3), (4, 3)]]
    product = wrap(x) @ wrap(y) + tnp.einsum("ab,b->a", wrap(x), wrap(y))
    batches = {h: tnp.asarray(g).node for h, g in zip((x, y), given, strict=True)}
    (got,) = batch([product.node], batches)
    np.testing.assert_allclose(wrap(got).numpy(), 2 * np.einsum("nab,nb->na", *given))


def test_a_batch_of_none() -> None:
    """The Jacobian with respect to an empty array."""
    found = tw.jacobian(lambda x: tnp.sin(x) @ np.ones((0, 3)))(np.ones(0))
    assert found.shape == (3, 0)
    assert found.numpy().shape == (3, 0)
