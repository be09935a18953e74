"""What the libraries with NumPy's names call the functions that NumPy lacks."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np


class Names:
    """The names of a module, and others beside them."""

    def __init__(self, module: ModuleType, **others: Callable[..., Any]) -> None:
        self._module = module
        vars(self).update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def numpy_names() -> Names:
    """NumPy's, and SciPy's where it is installed."""

    def softmax(x: Any, axis: int = -1) -> Any:
        shares = np.exp(x - x.max(axis, keepdims=True))
        return shares / shares.sum(axis, keepdims=True)

    def log_softmax(x: Any, axis: int = -1) -> Any:
        shifted = x - x.max(axis, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))

    def logsumexp(x: Any, axis: int = -1) -> Any:
        most = x.max(axis, keepdims=True)
        return np.log(np.exp(x - most).sum(axis)) + np.squeeze(most, axis)

    def top_k(x: Any, k: int) -> Any:
        return -np.sort(np.partition(-x, k - 1, axis=-1)[..., :k], axis=-1)

    def fori_loop(low: int, high: int, step: Callable[..., Any], carry: Any) -> Any:
        for i in range(low, high):
            carry = step(i, carry)
        return carry

    def scan(step: Callable[..., Any], carry: Any, rows: Any) -> Any:
        made = []
        for row in rows:
            carry, out = step(carry, row)
            made.append(out)
        return carry, np.stack(made)

    def erf(x: Any) -> Any:
        from scipy import special

        return special.erf(x)

    def gammaln(x: Any) -> Any:
        from scipy import special

        return special.gammaln(x)

    def solve_triangular(a: Any, b: Any, lower: bool = True) -> Any:
        from scipy import linalg

        return linalg.solve_triangular(a, b, lower=lower)

    return Names(
        np,
        sigmoid=lambda x: 1 / (1 + np.exp(-x)),
        relu=lambda x: np.maximum(x, 0),
        one_hot=lambda x, n, dtype: np.eye(n, dtype=dtype)[x],
        softmax=softmax,
        log_softmax=log_softmax,
        logsumexp=logsumexp,
        erf=erf,
        gammaln=gammaln,
        top_k=top_k,
        counted=lambda x, n: np.bincount(x, minlength=n),
        fori_loop=fori_loop,
        scan=scan,
        solve_triangular=solve_triangular,
    )


def jax_names() -> Names:
    """JAX's."""
    import jax
    import jax.numpy as jnp

    lax = jax.lax

    def conv(
        x: Any, kernel: Any, stride: int = 1, padding: Any = "SAME", dilation: int = 1, groups=1
    ) -> Any:
        axes = x.ndim - 2
        order = ("NHWC", "HWIO", "NHWC") if axes == 2 else ("NWC", "WIO", "NWC")
        return lax.conv_general_dilated(
            x,
            kernel,
            (stride,) * axes,
            padding,
            rhs_dilation=(dilation,) * axes,
            dimension_numbers=order,
            feature_group_count=groups,
        )

    def pool(x: Any, window: int, start: float, combine: Any) -> Any:
        sizes = (1, window, window, 1)
        return lax.reduce_window(x, start, combine, sizes, sizes, "VALID")

    return Names(
        jnp,
        sigmoid=jax.nn.sigmoid,
        relu=jax.nn.relu,
        one_hot=lambda x, n, dtype: jax.nn.one_hot(x, n, dtype=dtype),
        softmax=lambda x, axis=-1: jax.nn.softmax(x, axis),
        log_softmax=lambda x, axis=-1: jax.nn.log_softmax(x, axis),
        logsumexp=lambda x, axis=-1: jax.nn.logsumexp(x, axis),
        erf=lax.erf,
        gammaln=jax.scipy.special.gammaln,
        top_k=lambda x, k: lax.top_k(x, k)[0],
        counted=lambda x, n: jnp.bincount(x, length=n),
        fori_loop=lax.fori_loop,
        scan=lax.scan,
        solve_triangular=lambda a, b, lower=True: jax.scipy.linalg.solve_triangular(
            a, b, lower=lower
        ),
        conv=conv,
        max_pool=lambda x, window: pool(x, window, -jnp.inf, lax.max),
        avg_pool=lambda x, window: pool(x, window, 0.0, lax.add) / window**2,
    )


def tawny_names() -> Names:
    """Tawny's."""
    import tawny as tw
    import tawny.numpy as tnp

    def conv(
        x: Any, kernel: Any, stride: int = 1, padding: Any = "SAME", dilation: int = 1, groups=1
    ) -> Any:
        function = tnp.conv1d if len(x.shape) == 3 else tnp.conv2d
        return function(x, kernel, stride=stride, padding=padding, dilation=dilation, groups=groups)

    return Names(
        tnp,
        gammaln=tw.special.gammaln,
        top_k=lambda x, k: tnp.top_k(x, k)[0],
        counted=lambda x, n: tnp.bincount(x, length=n),
        fori_loop=tw.fori_loop,
        scan=tw.scan,
        solve_triangular=tnp.linalg.solve_triangular,
        conv=conv,
        max_pool=tnp.max_pool2d,
        avg_pool=tnp.avg_pool2d,
    )
