"""PyTorch, which is loaded when something of it is first used."""

from __future__ import annotations

from typing import Any, Final

from tawny.lazy import LazyModule

torch: Any = LazyModule("torch")
backends: Any = LazyModule("torch._dynamo.backends.common")
decomp: Any = LazyModule("torch._decomp")
fake_tensor: Any = LazyModule("torch._subclasses.fake_tensor")
fx: Any = LazyModule("torch.fx")
operator_support: Any = LazyModule("torch.fx.passes.operator_support")
partitioner: Any = LazyModule("torch.fx.passes.infra.partitioner")
partitioners: Any = LazyModule("torch._functorch.partitioners")
pytree: Any = LazyModule("torch.utils._pytree")
prims: Any = LazyModule("torch._prims_common")

RANDOM: Final = frozenset(
    {
        "aten.bernoulli.default",
        "aten.bernoulli.p",
        "aten.multinomial.default",
        "aten.native_dropout.default",
        "aten.normal.Tensor_Tensor",
        "aten.normal.Tensor_float",
        "aten.normal.float_Tensor",
        "aten.poisson.default",
        "aten.rand.default",
        "aten.rand_like.default",
        "aten.randint.default",
        "aten.randint.low",
        "aten.randint_like.default",
        "aten.randint_like.low_dtype",
        "aten.randn.default",
        "aten.randn_like.default",
        "aten.randperm.default",
    }
)
"""Ops that draw from PyTorch's generator, and so stay with it."""


def is_tensor(x: object) -> bool:
    """Whether `x` is a tensor, or stands for one while a program is recorded."""
    return isinstance(x, torch.Tensor)


def draw_mask(shape: tuple[int, ...], strides: tuple[int, ...], share: float) -> Any:
    """Which elements dropout keeps, drawn by PyTorch's generator in the order they lie."""
    return torch.empty_strided(shape, strides, dtype=torch.bool).bernoulli_(1 - share)


def op_name(target: Any) -> str:
    """The name of an op, with its overload."""
    return "aten.native_dropout.default" if target is draw_mask else str(target)
