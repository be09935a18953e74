"""All kernels of the op tables assembled by NVIDIA's `ptxas`, without a GPU: registers and spills.

Run by hand: `python tests/ptxas.py [sm_80 ...]` prints what spills or takes many registers.  It
needs `ptxas`, on the path or from a package: `pip install nvidia-cuda-nvcc`.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import tawny as tw
import tawny.numpy as tnp
from tawny.array import Array
from tawny.engine.gpu.engine import GpuEngine
from tawny.engine.gpu.launch import IR_TARGET, KernelCode
from tawny.engine.gpu.loops import launches_of
from tawny.engine.layout import Views
from tawny.engine.llvm.ir.builder import Module
from tawny.engine.llvm.runtime.compiler import assembly
from tawny.engine.llvm.targets import nvptx
from tawny.engine.lowering import lower
from tawny.node import Node

assert GpuEngine  # its module knows all rules

ARCHITECTURES = ("sm_80", "sm_90")

MANY_REGISTERS = 128
"""With more, fewer than two blocks of 256 threads fit on a multiprocessor."""


class Usage(NamedTuple):
    """What a kernel takes of a multiprocessor."""

    registers: int
    spilled: int
    """Bytes stored to and loaded from memory for want of registers."""
    stack: int


def find_ptxas() -> Path | None:
    """The assembler; None where it is not installed."""
    on_path = shutil.which("ptxas")
    if on_path is not None:
        return Path(on_path)
    found = importlib.util.find_spec("nvidia")
    homes = [] if found is None else found.submodule_search_locations or []
    programs = [p for home in homes for p in sorted(Path(home).glob("*/bin/ptxas"))]
    return programs[-1] if programs else None


def assemble(codes: Sequence[KernelCode], architecture: str) -> list[Usage]:
    """What each kernel takes; raises where the assembler refuses one."""
    module = Module(IR_TARGET)
    for number, code in enumerate(codes):
        code.write(module, f"kernel{number}", code.structure)
    ptx = assembly(module.text(), nvptx(architecture))
    program = find_ptxas()
    assert program is not None
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_text(ptx)
        command = [program, "-v", f"-arch={architecture}", source, "-o", cubin]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    found: dict[int, Usage] = {}
    for entry in re.split(r"Compiling entry function '", done.stderr)[1:]:
        name = entry.partition("'")[0]
        stack, stores, loads = (
            int(_number(rf"(\d+) bytes {what}", entry))
            for what in ("stack frame", "spill stores", "spill loads")
        )
        registers = int(_number(r"Used (\d+) registers", entry))
        found[int(name.removeprefix("kernel"))] = Usage(registers, stores + loads, stack)
    return [found[number] for number in range(len(codes))]


def _number(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, text
    return found[1]


def codes_of(nodes: Sequence[Node]) -> Iterator[KernelCode]:
    """The kernels of the steps of nodes that have one."""
    views = Views()
    for step in lower(nodes).steps:
        yield from [launch.code for launch in launches_of(step, views)]


def table_codes() -> dict[KernelCode, str]:
    """The kernels of all cases of the op tables, and a function that each is for."""
    cases = importlib.import_module("cases")
    tables = importlib.import_module("case_tables")
    found: dict[KernelCode, str] = {}
    for module in pkgutil.iter_modules(tables.__path__):
        for case in importlib.import_module(f"case_tables.{module.name}").CASES:
            for dtype in () if case.needs_values else case.dtypes:
                inputs = [tw.var(shape=x.shape, dtype=x.dtype) for x in case.operands(dtype)]
                outputs = [a for a in cases.parts(case.call(tnp, *inputs)) if isinstance(a, Array)]
                for code in codes_of([a.node for a in outputs]):
                    found.setdefault(code, f"{case.name} {dtype}")
    return found


def main(architectures: Sequence[str]) -> None:
    """Print what stands out for each architecture."""
    named = table_codes()
    codes = list(named)
    print(f"{len(codes)} kernels of the op tables")
    for architecture in architectures or ARCHITECTURES:
        usages = [
            usage
            for first in range(0, len(codes), 64)
            for usage in assemble(codes[first : first + 64], architecture)
        ]
        spilling = [(u, named[c]) for u, c in zip(usages, codes, strict=True) if u.spilled]
        large = [u for u in usages if u.registers > MANY_REGISTERS]
        print(
            f"{architecture}: all assembled; {len(spilling)} spill, {len(large)} take more than "
            f"{MANY_REGISTERS} registers; at most {max(u.registers for u in usages)}"
        )
        for usage, name in sorted(spilling, reverse=True):
            print(f"  {name}: {usage}")


if __name__ == "__main__":
    main(sys.argv[1:])
