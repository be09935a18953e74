"""What the processor says of itself, without LLVM: all that LLVM's own answer depends on.

It is asked by the instructions that LLVM uses too, and not by files of the system: an emulator may
run other instructions than the system below it announces.
"""

from __future__ import annotations

import ctypes
import hashlib
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from tawny.codegen.loading import NoPagesError, load_plain
from tawny.codegen.objects import RefusedError

_CPUID: Final = bytes.fromhex(
    "53"  # push rbx
    "89f0 89d1"  # mov eax, esi; mov ecx, edx
    "0fa2"  # cpuid
    "8907 895f04 894f08 89570c"  # mov [rdi], eax; ... ebx, ecx, edx
    "5bc3"  # pop rbx; ret
)
_XGETBV: Final = bytes.fromhex(
    "31c9"  # xor ecx, ecx
    "0f01d0"  # xgetbv
    "8907 895704"  # mov [rdi], eax; mov [rdi+4], edx
    "c3"  # ret
)

_EAX, _EBX, _ECX, _EDX = range(4)
_ALL: Final = (_EAX, _EBX, _ECX, _EDX)
LEAVES: Final[dict[tuple[int, int], tuple[int, ...]]] = {
    (0, 0): _ALL,
    (1, 0): (_EAX, _ECX, _EDX),
    (7, 0): _ALL,
    (7, 1): _ALL,
    (7, 2): _ALL,
    (0xD, 0): (_EAX, _EDX),
    (0xD, 1): (_EAX,),
    (0x14, 0): _ALL,
    (0x19, 0): _ALL,
    (0x1E, 1): _ALL,
    (0x21, 0): _ALL,
    (0x24, 0): _ALL,
    (0x24, 1): _ALL,
    (0x29, 0): _ALL,
    (0x80000000, 0): _ALL,
    (0x80000001, 0): (_EAX, _ECX, _EDX),
    (0x80000002, 0): _ALL,
    (0x80000003, 0): _ALL,
    (0x80000004, 0): _ALL,
    (0x80000008, 0): (_EBX,),
    (0x80000021, 0): (_EAX,),
}
"""What is asked for, and which registers answer alike on all cores of a machine."""

_SAVES: Final = 1 << 27
"""In ECX of leaf 1: the system says which registers it saves."""


def announced() -> dict[tuple[int, int], tuple[int, ...]]:
    """The processor's answers, and which registers the system saves under (-1, 0)."""
    code = load_plain(_CPUID)
    ask = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)(
        code.addresses["begin"]
    )
    cells = (ctypes.c_uint32 * 4)()
    found: dict[tuple[int, int], tuple[int, ...]] = {}
    most = {0: 0, 0x80000000: 0x80000000}
    for (leaf, part), registers in LEAVES.items():
        block = leaf & 0x80000000
        if leaf > most[block]:
            continue
        ask(ctypes.addressof(cells), leaf, part)
        found[leaf, part] = tuple([cells[register] for register in registers])
        if leaf == block:
            most[block] = cells[_EAX]
    if found.get((1, 0), (0, 0))[1] & _SAVES:
        code = load_plain(_XGETBV)
        ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(code.addresses["begin"])(ctypes.addressof(cells))
        found[-1, 0] = (cells[_EAX], cells[_EBX])
    return found


def fingerprint() -> str | None:
    """A checksum of the processor and of the LLVM that is installed; None where it is not known."""
    try:
        answers = announced()
    except (RefusedError, NoPagesError):
        return None
    llvm = _installed()
    if llvm is None:
        return None
    return hashlib.sha256(repr((sorted(answers.items()), llvm)).encode()).hexdigest()


def _installed() -> tuple[object, ...] | None:
    """What tells one installation of LLVM's binding from another, which is not imported."""
    spec = PathFinder.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    try:
        state = (folder / "binding" / "libllvmlite.so").stat()
        version = (folder / "_version.py").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    return str(folder), state.st_size, state.st_mtime_ns, version
