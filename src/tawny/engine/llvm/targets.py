"""Targets: what code is generated for, in facts that need no LLVM."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A kind of processor as LLVM knows it, and what generators of code ask of it."""

    triple: str
    cpu: str
    features: str = ""
    """Instructions beside those of the CPU, each name after `+` or `-`."""
    attributes: str
    """Attributes of every function."""
    vector_bytes: int
    """Bytes of the widest vector that one instruction loads."""
    has_fma: bool = True
    """Whether it multiplies and adds with one rounding; the math functions rely on it."""
    links: bool = True
    """Whether code is linked with shared libraries; else a module holds all that it calls."""
    kernel_convention: str = ""
    """The calling convention of functions that are launched from outside."""
    global_space: int = 0
    """The address space of what kernels are given."""
    shared_space: int = 0
    """The address space of memory that the threads of a block share."""

    @property
    def avx512(self) -> bool:
        """Whether AVX-512's own instructions may be used."""
        return self.cpu == "x86-64-v4"

    @property
    def multiplies_bytes(self) -> bool:
        """Whether it has an instruction that multiplies bytes and adds the products."""
        return "vnni" in self.features

    @property
    def multiplies_halves(self) -> bool:
        """Whether it has an instruction that multiplies bfloat16 and adds to float32."""
        return "avx512bf16" in self.features

    @property
    def converts_halves(self) -> bool:
        """Whether it has instructions that widen and narrow float16."""
        return not self.triple.startswith("x86_64") or self.vector_bytes >= 32


def nvptx(cpu: str) -> Target:
    """NVIDIA's GPUs from one on, such as `sm_80`; code for them is PTX, which is text."""
    return Target(
        triple="nvptx64-nvidia-cuda",
        cpu=cpu,
        attributes="nounwind",
        vector_bytes=16,
        links=False,
        kernel_convention="ptx_kernel",
        global_space=1,
        shared_space=3,
    )
