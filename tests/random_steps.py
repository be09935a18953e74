"""The steps random graphs are made of: each adds an array made from those that are there.

A step raises an error of the op it tries where operands do not fit; the graph goes on without it.
"""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

import tawny as tw
import tawny.numpy as tnp
from tawny.array import Array
from tawny.node import Value
from tawny.op import ELEMENTWISE
from tawny.operator import emit
from tawny.ops.boxes import non_maximum_suppression, suppression_by_class

if TYPE_CHECKING:
    from random_graphs import Builder

SHAPES = (
    (),
    (1,),
    (3,),
    (4,),
    (1, 1),
    (1, 3),
    (4, 1),
    (4, 3),
    (2, 1, 3),
    (2, 4, 3),
    (1, 4, 3),
    (0, 3),
)


Step = Callable[["Builder"], Array]


def step_elementwise(b: Builder) -> Array:
    op = b.choice([n for n in ELEMENTWISE if n != "pow"])
    return _applied(b, op)


def _applied(b: Builder, name: str) -> Array:
    arity = ELEMENTWISE[name].info.arity
    x = b.pick()
    others = [b.fitting(x) for _ in range((arity or 1) - 1)]
    operands = [x, *others]
    b.random.shuffle(operands)
    return emit(ELEMENTWISE[name], *operands)


def step_arithmetic(b: Builder) -> Array:
    return _applied(b, b.choice(("add", "subtract", "multiply", "divide", "negative", "square")))


def step_power(b: Builder) -> Array:
    """Powers by a number; by an array NumPy's own rounding depends on its layout for some."""
    x = b.pick()
    exponent = b.choice((0, 1, 2, 3) if x.dtype.kind in "biu" else (0, 1, 2, 0.5, -1, 3))
    if exponent in (0, 1, 3) and b.random.random() < 0.5:
        return tnp.pow(x, tnp.full(x.shape, exponent))
    return x**exponent


def step_broadcast(b: Builder) -> Array:
    x = b.pick()
    shape = tuple(b.choice((2, 3, 4)) if n == 1 else n for n in x.shape)
    return tnp.broadcast_to(x, (2, *shape) if b.random.random() < 0.5 else shape)


def step_reshape(b: Builder) -> Array:
    x = b.pick()
    choice = b.below(5)
    if choice == 0:
        return tnp.ravel(x)
    if choice == 1:
        return tnp.expand_dims(x, axis=b.random.randint(0, x.ndim))
    if choice == 2:
        return tnp.squeeze(x)
    if choice == 3:
        return tnp.reshape(x, x.shape[::-1])
    return tnp.reshape(x, (1, *x.shape, 1))


def step_transpose(b: Builder) -> Array:
    x = b.pick()
    order = list(range(x.ndim))
    b.random.shuffle(order)
    return tnp.permute_dims(x, tuple(order))


def step_move(b: Builder) -> Array:
    x = b.pick()
    choice = b.below(5)
    if choice == 0:
        return tnp.flip(x, axis=b.axes(x))
    if choice == 1:
        return tnp.roll(x, b.random.randint(-2, 2), axis=b.axis(x))
    if choice == 2:
        return tnp.tile(x, b.choice((1, 2, (2, 1), (1, 3))))
    if choice == 3:
        return tnp.repeat(x, b.choice((1, 2, 3)), axis=b.axis(x))
    return tnp.pad(x, b.choice((0, 1, (0, 1))), constant_values=b.choice((0, 1)))


def step_cast(b: Builder) -> Array:
    x = b.pick()
    wider = [
        d
        for d in ("float32", "float64", "int64", "int16", "complex128", "bool", "int8")
        if d == "bool" or np.can_cast(x.dtype, d, "same_kind")
    ]
    return tnp.astype(x, b.choice(wider)) if b.random.random() < 0.8 else tnp.copy(x)


def step_slice(b: Builder) -> Array:
    x = b.pick()
    key: list[Any] = []
    for n in x.shape:
        choice = b.below(5)
        if choice == 0:
            key.append(slice(None, None, -1))
        elif choice == 1:
            key.append(slice(b.random.randint(0, n), None))
        elif choice == 2:
            key.append(slice(None, None, 2))
        elif choice == 3:
            key.append(slice(None, max(n - 1, 1)))
        else:
            key.append(slice(None))
    if key and b.random.random() < 0.2:
        key[0] = 0
    return x[tuple(key)]


def step_gather(b: Builder) -> Array:
    x = b.pick()
    axis = b.axis(x)
    indices = [b.below(x.shape[axis]) for _ in range(3)]
    kind = b.random.random()
    if kind < 0.05:
        return tnp.choose(tnp.astype(x != 0, "int64"), [x, x])
    if kind < 0.3:
        return x.at[indices[0]].add(1)
    return tnp.take(x, tnp.asarray(indices), axis=axis)


def step_join(b: Builder) -> Array:
    x = b.pick()
    same = [a for a in b.pool if a.shape == x.shape]
    arrays = [x, *(b.choice(same) for _ in range(b.random.randint(0, 2)))]
    if x.ndim and b.random.random() < 0.7:
        return tnp.concat(arrays, axis=b.axis(x))
    return tnp.stack(arrays)


def step_reduce(b: Builder) -> Array:
    x = b.pick()
    names = ["sum", "prod", "mean", "max", "min", "var", "std"]
    if not b.smooth:
        names += ["all", "any", "argmax", "argmin", "logsumexp", "count_nonzero"]
    function = getattr(tnp, b.choice(names))
    keepdims = b.random.random() < 0.5
    axis: Any = b.choice((None, b.axis(x) if x.ndim else None))
    if function.__name__ not in ("argmax", "argmin") and b.random.random() < 0.4:
        axis = b.axes(x)
    return function(x, axis=axis, keepdims=keepdims)


def step_scan(b: Builder) -> Array:
    x = b.pick()
    return b.choice((tnp.cumulative_sum, tnp.cumulative_prod))(x, axis=b.axis(x))


def step_sort(b: Builder) -> Array:
    x = b.pick()
    return b.choice((tnp.sort, tnp.argsort))(x, axis=b.axis(x))


def step_search(b: Builder) -> Array:
    x = b.pick()
    edges = tnp.asarray(np.array([-1.0, 0.0, 2.0]))
    choice = b.below(5)
    if choice == 0:
        return tnp.searchsorted(edges, tnp.astype(x, "float64"))
    if choice == 1:
        return tnp.digitize(x, edges)
    if choice == 2 or x.size < 8 or x.dtype.kind not in "fi":
        return tnp.isin(x, edges)
    boxes = tnp.reshape(tnp.reshape(x, (-1,))[: x.size // 4 * 4], (-1, 4))
    if choice == 3:
        return non_maximum_suppression(boxes, boxes[:, 2], 3, 0.5)
    return suppression_by_class(boxes, boxes[:, 2], tnp.arange(x.size // 4) % 3, 3, 0.5)


def step_product(b: Builder) -> Array:
    x, y = b.matrix(), b.matrix()
    left = tnp.matrix_transpose(x) if b.random.random() < 0.5 else x
    if b.random.random() < 0.3:
        return tnp.matmul(left, tnp.matrix_transpose(left))
    right = tnp.matrix_transpose(y) if b.random.random() < 0.5 else y
    return tnp.matmul(left, right)


def step_einsum(b: Builder) -> Array:
    """Axes of size 1 stretch."""
    x = b.choice([a for a in b.pool if a.ndim == 2])
    subscripts = b.choice(("ij->ji", "ij->i", "ij,ij->", "ij,ij->ij", "ij,kj->ik", "ij,ik->jk"))
    operands = x, b.choice((x, x[:1], x[:, :1]))
    return tnp.einsum(subscripts, *operands[: subscripts.count(",") + 1])


def step_solve(b: Builder) -> Array:
    """What is worked out of a symmetric positive definite matrix."""
    x = b.choice([a for a in b.pool if a.ndim == 2 and a.size and a.dtype.kind in "if"])
    safe = tnp.tanh(tnp.astype(x, "float64"))
    finite = tnp.where(tnp.isnan(safe), 0.5, safe)
    matrix = finite @ finite.T + 3.0 * tnp.eye(finite.shape[0])
    return b.choice(SOLVERS)(matrix, finite)


SOLVERS: tuple[Callable[[Array, Array], Array], ...] = (
    lambda a, b: tnp.linalg.inv(a),
    lambda a, b: tnp.linalg.pinv(a),
    lambda a, b: tnp.linalg.cholesky(a),
    lambda a, b: tnp.linalg.det(a),
    lambda a, b: tnp.linalg.qr(a)[1],
    lambda a, b: tnp.linalg.svd(a)[1],
    lambda a, b: tnp.linalg.svdvals(a),
    lambda a, b: tnp.linalg.slogdet(a)[1],
    lambda a, b: tnp.linalg.eigh(a)[0],
    lambda a, b: tnp.linalg.eigvalsh(a),
    lambda a, b: tnp.abs(tnp.linalg.eig(a)[0]),
    lambda a, b: tnp.abs(tnp.linalg.eigvals(a)),
    lambda a, b: tnp.linalg.solve(a, b),
    lambda a, b: tnp.diagonal(a),
    lambda a, b: tnp.linalg.solve_triangular(a, b, lower=True),
    lambda a, b: tnp.linalg.sylvester(a, a, a @ a),
    lambda a, b: tnp.linalg.care(a, a, a, a),
    lambda a, b: tnp.linalg.dare(a / 10, a, a, a),
)


def step_fourier(b: Builder) -> Array:
    x = tnp.astype(b.pick(), "float64")
    return (
        tnp.abs(tnp.fft.fft(x))
        if b.random.random() < 0.5
        else tnp.fft.irfft(tnp.fft.rfft(x), n=x.shape[-1])
    )


def step_window(b: Builder) -> Array:
    x = b.choice([a for a in b.pool if a.ndim == 3 and a.size and a.dtype.kind == "f"])
    return b.choice(WINDOWS)(x)


def _kernel(x: Array) -> Array:
    return tnp.full((2, x.shape[-1], 2), 0.5, dtype=x.dtype)


def _own_kernel(x: Array) -> Array:
    """A kernel of the input's own numbers, special ones among them."""
    taps = tnp.expand_dims(x[0, :2], axis=-1)
    return tnp.broadcast_to(taps, (*taps.shape[:-1], 2))


WINDOWS: tuple[Callable[[Array], Array], ...] = (
    lambda x: tnp.max_pool1d(x, 2),
    lambda x: tnp.avg_pool1d(x, 2),
    lambda x: tnp.upsampling1d(x, 2),
    lambda x: tnp.upsampling_gradient(tnp.upsampling1d(x, 2), 2),
    lambda x: tnp.conv1d(x, _kernel(x), padding="SAME"),
    lambda x: tnp.conv_transpose1d(
        x, tnp.full((2, x.shape[-1], x.shape[-1]), 0.5, dtype=x.dtype), padding="SAME"
    ),
    lambda x: tnp.conv1d(x, _own_kernel(x), padding="SAME"),
    lambda x: tnp.conv1d(x, _own_kernel(x), padding=((1, 2),), stride=2),
    lambda x: tnp.conv_transpose1d(x, _own_kernel(x), padding="SAME"),
    lambda x: tnp.max_pool1d(x, 2, stride=1, padding="SAME"),
    lambda x: tnp.avg_pool1d(x, 2, stride=1, padding="SAME"),
    lambda x: tnp.max_pool_gradient(x, tnp.max_pool1d(x, 2), 2),
    lambda x: tnp.max_pool_select(x, x, 2),
    lambda x: tnp.avg_pool_gradient(tnp.avg_pool1d(x, 2), 2, input_shape=x.shape),
    lambda x: tnp.conv_kernel_gradient(
        x, tnp.conv1d(x, _kernel(x), padding="SAME"), kernel_shape=_kernel(x).shape, padding="SAME"
    ),
    lambda x: tnp.correlate(tnp.ravel(x), tnp.asarray([1.0, 0.5], dtype=x.dtype)),
)


def step_count(b: Builder) -> Array:
    x = tnp.astype(tnp.ravel(b.pick()) != 0, "int64")
    return tnp.bincount(x, length=3)


def step_create(b: Builder) -> Array:
    choice = b.below(6)
    if choice == 0:
        return tnp.arange(b.random.randint(1, 5))
    if choice == 1:
        return tnp.eye(b.random.randint(1, 4))
    if choice == 2:
        return tnp.linspace(0.0, 1.0, b.random.randint(1, 5))
    if choice == 3:
        return tnp.asarray(b.value((4, 3), np.dtype("float64")))
    return b.filled(b.pick())


def step_variable(b: Builder) -> Array:
    return b.variable()


def step_smooth(b: Builder) -> Array:
    """Elementwise ops that stay finite and continuous on moderate numbers."""
    name = b.choice(
        (
            "add",
            "subtract",
            "multiply",
            "negative",
            "abs",
            "tanh",
            "sin",
            "cos",
            "maximum",
            "minimum",
            "sigmoid",
            "relu",
            "positive",
            "where",
            "divide",
            "sqrt",
            "pow",
            "adagrad",
            "fma",
        )
    )
    x = b.pick()
    if name == "where":
        return tnp.where(b.random.random() < 0.5, x, b.fitting(x))
    if name == "divide":
        return x / (2 + tnp.abs(b.fitting(x)))
    if name == "sqrt":
        return tnp.sqrt(1 + tnp.square(x))
    if name == "pow":
        return (1.0 + tnp.square(x)) ** b.choice((0, 1, 2, 0.5, -1))
    if name == "adagrad":
        return 0.1 / tnp.sqrt(tnp.square(x) + 0.25)
    if name == "fma":
        return tnp.tanh(x) * b.fitting(x) + b.fitting(x)
    if name in ("add", "subtract", "multiply", "maximum", "minimum"):
        return (
            tnp.tanh(getattr(tnp, name)(x, b.fitting(x)))
            if b.random.random() < 0.3
            else getattr(tnp, name)(x, b.fitting(x))
        )
    return getattr(tnp, name)(x)


def step_draw(b: Builder) -> Array:
    shape = b.choice(SHAPES)
    choice = b.below(5)
    if choice == 0:
        return tw.random.uniform(shape=shape)
    if choice == 1:
        return tw.random.normal(shape=shape)
    if choice == 2:
        return tw.random.integers(0, 5, shape=shape)
    if choice == 3:
        return tw.random.permutation(b.pick())
    return tw.random.bernoulli(0.5, shape=shape)


def step_delay(b: Builder) -> Array:
    x, pure = b.pick(), b.random.random() < 0.5
    choice = b.below(5)
    if choice == 0:
        return tw.map_elements(_same, x, pure=pure)
    if choice == 3:
        return tw.lazy_print(x, file=_UNREAD)
    if choice == 1:
        return tw.fold(_later, x, axis=b.axis(x), pure=pure)
    if choice == 2:
        return tnp.scan(_later, x, axis=b.axis(x), pure=pure)
    return tw.delay(_doubled, x, pure=pure)


_UNREAD = StringIO()


def _same(x: Any) -> Any:
    return x


def _later(x: Any, y: Any) -> Any:
    return y


def _doubled(x: Value) -> Value:
    return np.array(np.logical_not(x) if x.dtype.kind == "b" else x + x)


def step_whole(b: Builder) -> Array:
    """Functions of whole numbers."""
    x = b.pick()
    whole = (
        tnp.astype(tnp.trunc(tnp.clip(tnp.real(x), -9, 9)), "int64") if x.dtype.kind in "fc" else x
    )
    small = tnp.astype(whole, "int64") % 5
    choice = b.below(3)
    if choice == 0:
        return tnp.gcd(small * 6, small + 4)
    if choice == 1:
        return tnp.lcm(small + 1, small * 2)
    return tnp.unravel_index(small, (5, 2))[0]


def step_derivative(b: Builder) -> Array:
    """Functions that say something about their derivative, and derivatives of such."""
    x = b.choice([a for a in b.pool if a.dtype.kind == "f"])
    return b.choice(DERIVATIVES)(x)


@tw.custom_vjp
def _own_slope(x: Array) -> Array:
    return tnp.sin(x)


_own_slope.defvjp(lambda x: (tnp.sin(x), x), lambda x, s: (s * tnp.cos(x),))


@tw.custom_jvp
def _own_tangent(x: Array) -> Array:
    return tnp.tanh(x)


@_own_tangent.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return _own_tangent(*primals), tangents[0] * 0.5


_again = tw.checkpoint(lambda x: tnp.exp(-tnp.abs(x)) * 0.5)

DERIVATIVES: tuple[Callable[[Array], Array], ...] = (
    tw.stop_gradient,
    _own_slope,
    _own_tangent,
    _again,
    tw.grad(lambda x: tnp.sum(_own_slope(x) * 2)),
    tw.grad(lambda x: tnp.sum(_again(_own_tangent(x)) * x)),
)

STEPS: tuple[Step, ...] = (
    *(step_arithmetic,) * 4,
    *(step_elementwise,) * 4,
    step_power,
    *(step_broadcast,) * 2,
    *(step_reshape,) * 2,
    *(step_transpose,) * 2,
    *(step_move,) * 2,
    step_cast,
    *(step_slice,) * 2,
    step_gather,
    step_join,
    *(step_reduce,) * 2,
    step_scan,
    step_sort,
    step_search,
    step_product,
    step_einsum,
    step_solve,
    step_fourier,
    step_window,
    step_derivative,
    step_count,
    step_whole,
    step_create,
    step_variable,
)
SMOOTH: tuple[Step, ...] = (
    *(step_smooth,) * 8,
    *(step_broadcast,) * 2,
    step_reshape,
    step_transpose,
    step_move,
    step_slice,
    step_join,
    step_reduce,
    step_product,
    step_create,
    step_variable,
)
IMPURE: tuple[Step, ...] = (step_draw, step_delay)
