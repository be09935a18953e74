"""Kernels of GPUs are assembled by NVIDIA's own assembler, and keep their numbers in registers."""

from __future__ import annotations

import pytest

import tawny as tw
import tawny.numpy as tnp
from ptxas import ARCHITECTURES, assemble, codes_of, find_ptxas
from tawny.engine.gpu import table
from tawny.engine.gpu.kernels import tiles
from tawny.engine.gpu.launch import KernelCode
from tawny.engine.gpu.target import KernelTarget
from tawny.engine.layout import Views
from test_gpu_engine import CASES, graph_of

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="nvidia-cuda-nvcc is not installed")

SHARED = {"sm_80": 163 << 10, "sm_90": 227 << 10}
"""Bytes of memory that a block of a device may have."""


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_are_assembled_and_spill_nothing(architecture: str) -> None:
    named = {code: case for case in CASES for code in codes_of(graph_of(case)[0].results)}
    usages = assemble(list(named), architecture)
    spilling = {named[c]: u for c, u in zip(named, usages, strict=True) if u.spilled}
    assert not spilling


def tensor_codes(monkeypatch: pytest.MonkeyPatch) -> dict[KernelCode, str]:
    """The kernels of a convolution by each tile, with factors split and rounded."""
    x, w = tw.var("x", (2, 30, 30, 64), "float32"), tw.var("w", (3, 3, 64, 64), "float32")
    node = tnp.conv2d(x, w, padding="SAME").node
    found: dict[KernelCode, str] = {}
    for precision in (None, "tf32"):
        for tile in tiles.TILES:
            if precision is None and not tile.split_rate:
                continue
            monkeypatch.setattr(tiles, "choose_tile", lambda *_, tile=tile: (tile, 1))
            table._kernel.cache_clear()
            kernel = table.kernel_of(node, Views(), KernelTarget(True, precision))
            assert kernel is not None
            found |= {launch.code: f"{tile} {precision}" for launch in kernel.launches}
    table._kernel.cache_clear()
    return found


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_products_on_tensor_cores_keep_their_sums_in_registers(
    monkeypatch: pytest.MonkeyPatch, architecture: str
) -> None:
    named = tensor_codes(monkeypatch)
    assert len(named) > len(tiles.TILES)
    usages = assemble(list(named), architecture)
    spilling = {named[c]: u for c, u in zip(named, usages, strict=True) if u.spilled}
    assert not spilling
    for code, usage in zip(named, usages, strict=True):
        assert 4 * 32 * usage.registers <= 1 << 16
        assert code.shared <= SHARED[architecture]
