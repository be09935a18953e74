"""What kernels are chosen for: a kind of device, and how far products may be rounded."""

from __future__ import annotations

from typing import Final, NamedTuple


class KernelTarget(NamedTuple):
    """A kind of device and a permission."""

    has_tensor_cores: bool = False
    """Whether warps multiply tiles of matrices by one instruction, as NVIDIA's do since sm_80."""
    precision: str | None = None
    """What factors of products of float32 are rounded to; None rounds nothing."""


PLAIN: Final = KernelTarget()
"""Any device, every product as float32."""
