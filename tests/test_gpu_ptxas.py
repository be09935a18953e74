"""Kernels of GPUs are assembled by NVIDIA's own assembler, and keep their numbers in registers."""

from __future__ import annotations

import pytest

from ptxas import ARCHITECTURES, assemble, codes_of, find_ptxas
from test_gpu_engine import CASES, graph_of

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="nvidia-cuda-nvcc is not installed")


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_are_assembled_and_spill_nothing(architecture: str) -> None:
    named = {code: case for case in CASES for code in codes_of(graph_of(case)[0].results)}
    usages = assemble(list(named), architecture)
    spilling = {named[c]: u for c, u in zip(named, usages, strict=True) if u.spilled}
    assert not spilling
