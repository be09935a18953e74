"""The processor: what tells it from others, without asking LLVM, and which code it survives."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tawny.lazy import LazyModule

if TYPE_CHECKING:
    import signal
    import subprocess
else:
    signal, subprocess = LazyModule("signal"), LazyModule("subprocess")

CPUINFO: Final = Path("/proc/cpuinfo")

LASTING: Final = frozenset(
    {"vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features"}
    | {"CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"}
)
"""What the system says of a processor that is the same at all times and on all its cores."""


def description() -> tuple[tuple[str, str], ...]:
    """What the system and NumPy say of the processor; empty where neither knows anything.

    NumPy asks the processor itself, so an emulator is told from the system below it.
    """
    return (*_of_system(), *_of_numpy())


def _of_system() -> list[tuple[str, str]]:
    """What `/proc/cpuinfo` says of the first core."""
    try:
        first = CPUINFO.read_text(errors="replace").partition("\n\n")[0]
    except OSError:
        return []
    lines = [line.partition(":") for line in first.splitlines()]
    said = {name.strip(): value.strip() for name, _, value in lines}
    return [(name, said[name]) for name in sorted(LASTING & said.keys())]


def _of_numpy() -> list[tuple[str, str]]:
    """The instructions that NumPy has found, and the kind of machine."""
    core: Any = getattr(np, "_core", None)
    features: dict[str, bool] = getattr(
        getattr(core, "_multiarray_umath", None), "__cpu_features__", {}
    )
    found = " ".join(sorted(name for name, has in features.items() if has))
    return [("machine", platform.machine()), ("NumPy", found)] if found else []


def fingerprint() -> str | None:
    """A checksum of the processor and of the LLVM that is installed; None where it is not known."""
    said, llvm = description(), _installation()
    if not said or llvm is None:
        return None
    return hashlib.sha256(repr((said, llvm)).encode()).hexdigest()


def _installation() -> tuple[object, ...] | None:
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


_CHILD: Final = """
import ctypes, mmap, sys
code = bytes.fromhex(sys.argv[1])
page = mmap.mmap(-1, len(code), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(code)
function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
    ctypes.addressof(ctypes.c_char.from_buffer(page)))
function(ctypes.create_string_buffer(64))
"""


def survives(code: bytes) -> bool:
    """Whether a Python process that calls a function of 64 bytes' address does not die of it.

    True where no such process can be started.
    """
    interpreter = Path(sys.executable or "")
    if os.name != "posix" or not interpreter.name.startswith("python"):
        return True
    try:
        child = subprocess.run(
            [interpreter, "-I", "-S", "-c", _CHILD, code.hex()],
            capture_output=True,
            check=False,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    return child.returncode not in {-signal.SIGILL, -signal.SIGSEGV, -signal.SIGBUS}
