"""Owl's 199 operations and what one writes for each in Tawny.

`OPERATIONS` maps a constructor of Owl's type `op` to an expression over the names in `OPERANDS`;
array-scalar twins collapse into broadcasting.  Where NumPy cannot run the same expression, `WITNESS`
says what it must equal, or names the case table that judges the function.
"""

from __future__ import annotations

from typing import Any, Final

import numpy

_RNG: Final = numpy.random.default_rng(1)


def _image(*shape: int) -> numpy.ndarray:
    return _RNG.uniform(-1.0, 1.0, shape)


OPERANDS: Final[dict[str, Any]] = {
    "x": _RNG.uniform(0.1, 0.9, (3, 4)),
    "y": _RNG.uniform(0.1, 0.9, (3, 4)),
    "s": 0.5,
    "t": 2.5,
    "m": _RNG.uniform(0.1, 0.9, (4, 4)) + 4 * numpy.eye(4),
    "n": _RNG.uniform(0.1, 0.9, (4, 2)),
    "row": _RNG.uniform(0.1, 0.9, (4,)),
    "column": _RNG.uniform(0.1, 0.9, (3,)),
    "labels": numpy.array([2, 0, 1]),
    "a1": _image(2, 7, 3),
    "k1": _image(3, 3, 4),
    "g1": _image(2, 4, 4),
    "h1": _image(2, 14, 4),
    "d1": _image(2, 7, 4),
    "p1": _image(2, 4, 3),
    "a2": _image(2, 7, 6, 3),
    "k2": _image(3, 2, 3, 4),
    "g2": _image(2, 4, 3, 4),
    "h2": _image(2, 14, 12, 4),
    "d2": _image(2, 7, 6, 4),
    "p2": _image(2, 4, 3, 3),
    "a3": _image(1, 5, 4, 4, 2),
    "k3": _image(2, 2, 3, 2, 3),
    "g3": _image(1, 3, 2, 2, 3),
    "h3": _image(1, 10, 8, 8, 3),
    "d3": _image(1, 5, 4, 4, 3),
    "p3": _image(1, 3, 2, 2, 2),
}
"""Arrays (and two numbers) that stand for the operands; all others are of the shapes shown."""

_UNARY: Final = {
    "Abs": "abs",
    "Neg": "negative",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round",
    "Sqr": "square",
    "Sqrt": "sqrt",
    "Log": "log",
    "Log2": "log2",
    "Log10": "log10",
    "Exp": "exp",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Tanh": "tanh",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
    "Signum": "sign",
    "Sigmoid": "sigmoid",
    "Relu": "relu",
    "Dawsn": "dawsn",
}

_BINARY: Final = {
    "Add": "{0} + {1}",
    "Sub": "{0} - {1}",
    "Mul": "{0} * {1}",
    "Div": "{0} / {1}",
    "Pow": "{0} ** {1}",
    "Atan2": "np.atan2({0}, {1})",
}

_COMPARE: Final = {
    "EltEqual": "{0} == {1}",
    "EltNotEqual": "{0} != {1}",
    "EltLess": "{0} < {1}",
    "EltGreater": "{0} > {1}",
    "EltLessEqual": "{0} <= {1}",
    "EltGreaterEqual": "{0} >= {1}",
}


def _unary() -> dict[str, str]:
    rows = {
        owl: f"np.{name}(x + 1)" if owl == "Acosh" else f"np.{name}(x)"
        for owl, name in _UNARY.items()
    }
    scalar = {
        f"Scalar_{owl}": f"np.{name}({'t' if owl == 'Acosh' else 's'})"
        for owl, name in _UNARY.items()
    }
    return {**rows, **scalar}


def _binary() -> dict[str, str]:
    rows: dict[str, str] = {}
    for owl, form in _BINARY.items():
        rows[owl] = form.format("x", "y")
        rows[f"Scalar_{owl}"] = form.format("np.asarray(s)", "np.asarray(t)")
        right, left = form.format("x", "s"), form.format("s", "x")
        rows[f"{owl}Scalar"], rows[f"Scalar{owl}"] = right, left
    for owl, form in _COMPARE.items():
        rows[owl] = form.format("x", "y")
        rows[f"{owl}Scalar"] = form.format("x", "s")
    return rows


def _windows() -> dict[str, str]:
    """Convolution and pooling, forward and backward, in 1, 2 and 3 dimensions."""
    rows: dict[str, str] = {}
    for d in (1, 2, 3):
        a, k, g, h, e, p = (f"{letter}{d}" for letter in "akghdp")
        swap = "np.swapaxes({}, -1, -2)"
        rows |= {
            f"Conv{d}d": f"np.conv{d}d({a}, {k}, stride=2, padding='SAME')",
            f"Conv{d}dBackwardInput": f"np.conv_input_gradient({k}, {g}, input_shape={a}.shape, stride=2, padding='SAME')",
            f"Conv{d}dBackwardKernel": f"np.conv_kernel_gradient({a}, {g}, kernel_shape={k}.shape, stride=2, padding='SAME')",
            f"TransposeConv{d}d": f"np.conv_transpose{d}d({a}, {k}, stride=2, padding='SAME')",
            f"TransposeConv{d}dBackwardInput": f"np.conv{d}d({h}, {swap.format(k)}, stride=2, padding='SAME')",
            f"TransposeConv{d}dBackwardKernel": swap.format(
                f"np.conv_kernel_gradient({h}, {a}, kernel_shape={swap.format(k)}.shape, stride=2, padding='SAME')"
            ),
            f"DilatedConv{d}d": f"np.conv{d}d({a}, {k}, dilation=2, padding='SAME')",
            f"DilatedConv{d}dBackwardInput": (
                f"np.conv_input_gradient({k}, {e}, input_shape={a}.shape, dilation=2, padding='SAME')"
            ),
            f"DilatedConv{d}dBackwardKernel": (
                f"np.conv_kernel_gradient({a}, {e}, kernel_shape={k}.shape, dilation=2, padding='SAME')"
            ),
            f"MaxPool{d}d": f'np.max_pool{d}d({a}, 2, padding="SAME")',
            f"AvgPool{d}d": f'np.avg_pool{d}d({a}, 2, padding="SAME")',
            f"MaxPool{d}dBackward": f'np.max_pool_gradient({a}, {p}, 2, padding="SAME")',
            f"AvgPool{d}dBackward": f'np.avg_pool_gradient({p}, 2, input_shape={a}.shape, padding="SAME")',
        }
    return rows


_REST: Final[dict[str, str]] = {
    "Noop": "np.positive(x)",
    "Var": 'tw.var("x", shape=(3, 4))',
    "Const": "np.asarray(x)",
    "Empty": "np.empty((3, 4))",
    "Zeros": "np.zeros((3, 4))",
    "Ones": "np.ones((3, 4))",
    "Create": "np.full((3, 4), s)",
    "Sequential": "np.arange(12.0)",
    "Init": "tw.map_elements(lambda i: i * i, np.arange(12.0))",
    "OfArray": "np.reshape(np.asarray([0.0, 1.0, 2.0, 3.0]), (2, 2))",
    "Uniform": "tw.random.uniform(0.0, 1.0, shape=(3, 4))",
    "Gaussian": "tw.random.normal(0.0, 1.0, shape=(3, 4))",
    "Bernoulli": "tw.random.bernoulli(0.5, shape=(3, 4))",
    "Get": "x[1, 2]",
    "Set": "x.at[1, 2].set(s)",
    "GetSlice": "x[::-1, 1:3]",
    "SetSlice": "x.at[::2, 1:3].set(s)",
    "GetFancy": "x[[2, 0], [1, 3]]",
    "SetFancy": "x.at[[2, 0], [1, 3]].set(s)",
    "Copy": "np.copy(x)",
    "Reset": "np.zeros_like(x)",
    "Reshape": "np.reshape(x, (4, 3))",
    "Reverse": "np.flip(x)",
    "Tile": "np.tile(x, (2, 1))",
    "Repeat": "np.repeat(x, 2, axis=1)",
    "Pad": "np.pad(x, ((1, 0), (0, 2)), constant_values=s)",
    "Concatenate": "np.concat([x, y], axis=1)",
    "Stack": "np.stack([x, y], axis=0)",
    "Split": "np.split(x, [1, 3], axis=1)",
    "Transpose": "np.permute_dims(x, (1, 0))",
    "OneHot": "np.one_hot(labels, 3)",
    "Draw": "tw.random.choice(x, 2, axis=0)",
    "Map": "tw.map_elements(lambda v: v + 1, x)",
    "Fold": "tw.fold(lambda total, v: total + v, x, axis=0, initial=0.0)",
    "Scan": "np.scan(lambda total, v: total + v, x, axis=1)",
    "Delay": "tw.delay(numpy.cbrt, x)",
    "DelayArray": "tw.delay(numpy.dot, x, n, shape=(3, 2))",
    "LazyPrint": "tw.lazy_print(x, file=quiet)",
    "Min": "np.min(x, axis=0, keepdims=True)",
    "Max": "np.max(x, axis=0, keepdims=True)",
    "Sum": "np.sum(x, axis=0, keepdims=True)",
    "SumReduce": "np.sum(x, axis=(0, 1), keepdims=True)",
    "LogSumExp": "np.logsumexp(x, axis=0, keepdims=True)",
    "Min'": "np.min(x)",
    "Max'": "np.max(x)",
    "Sum'": "np.sum(x)",
    "LogSumExp'": "np.logsumexp(x)",
    "L1norm'": "np.linalg.vector_norm(x, ord=1)",
    "L2norm'": "np.linalg.vector_norm(x)",
    "L2NormSqr'": "np.sum(np.square(x))",
    "ClipByValue": "np.clip(x, 0.3, 0.7)",
    "ClipByL2norm": "np.clip_by_norm(x, s)",
    "Hypot": "np.hypot(x, y)",
    "Min2": "np.minimum(x, y)",
    "Max2": "np.maximum(x, y)",
    "FMA": "np.fma(x, y, row)",
    "UpSampling2d": "np.upsampling2d(a2, (2, 3))",
    "UpSampling2dBackward": "np.upsampling_gradient(h2, (2, 3))",
    "RowNum": "x.shape[0]",
    "ColNum": "x.shape[1]",
    "Row": "x[1]",
    "Rows": "x[[2, 0]]",
    "CopyRowTo": "x.at[1].set(row)",
    "CopyColTo": "x.at[:, 2].set(column)",
    "Dot": "x @ n",
    "Inv": "np.linalg.inv(m)",
    "Trace": "np.trace(m)",
    "ToRows": "np.unstack(x)",
    "OfRows": "np.stack([row, row])",
    "Fused_Adagrad": "np.adagrad_rate(x, 0.01, 1e-32)",
}

WITNESS: Final[dict[str, str]] = {
    "Empty": "np.zeros((3, 4))",
    "Init": "np.arange(12.0) ** 2",
    "Set": "put(x, (1, 2), s)",
    "SetSlice": "put(x, (slice(None, None, 2), slice(1, 3)), s)",
    "SetFancy": "put(x, ([2, 0], [1, 3]), s)",
    "CopyRowTo": "put(x, 1, row)",
    "CopyColTo": "put(x, (slice(None), 2), column)",
    "OneHot": "np.eye(3)[labels]",
    "Map": "x + 1",
    "Fold": "np.sum(x, axis=0)",
    "Scan": "np.cumsum(x, axis=1)",
    "Delay": "np.cbrt(x)",
    "DelayArray": "x @ n",
    "LazyPrint": "x",
    "LogSumExp": "np.log(np.sum(np.exp(x), axis=0, keepdims=True))",
    "LogSumExp'": "np.log(np.sum(np.exp(x)))",
    "ClipByL2norm": "x * (s / np.linalg.norm(x))",
    "FMA": "x * y + row",
    "Sigmoid": "1 / (1 + np.exp(-x))",
    "Relu": "np.maximum(x, 0)",
    "Scalar_Sigmoid": "1 / (1 + np.exp(-s))",
    "Scalar_Relu": "np.maximum(s, 0)",
    "Dawsn": "scipy.special.dawsn(x)",
    "Scalar_Dawsn": "scipy.special.dawsn(s)",
    "Fused_Adagrad": "0.01 / np.sqrt(x + 1e-32)",
    "UpSampling2d": "np.repeat(np.repeat(a2, 2, axis=1), 3, axis=2)",
    "UpSampling2dBackward": "np.sum(np.reshape(h2, (2, 7, 2, 4, 3, 4)), axis=(2, 4))",
    **dict.fromkeys(_windows(), "case tables: convolution, pooling"),
    **dict.fromkeys(("Var", "Uniform", "Gaussian", "Bernoulli", "Draw"), "no value to compare"),
}
"""What an expression must equal where NumPy cannot run it as it stands."""

OPERATIONS: Final[dict[str, str]] = {**_REST, **_unary(), **_binary(), **_windows()}
"""Owl's constructor, and what one writes here."""
