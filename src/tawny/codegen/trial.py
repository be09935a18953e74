"""Machine code tried in a process of its own, where its death is nobody else's.

On Linux that process is the code itself, as a program of a few hundred bytes that lies in memory
alone.  Elsewhere, or where such a program may not be run, it is Python, which takes ten times as
long to start.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tawny.later import Later

if TYPE_CHECKING:
    import signal
    import subprocess
else:
    signal, subprocess = Later("signal"), Later("subprocess")


def survived(code: bytes) -> bool:
    """Whether a process that calls a function of 64 bytes' address does not die of its code.

    True where no process can be started.
    """
    try:
        ended = _ended(_program(code))
    except (OSError, AttributeError):
        ended = _python_ended(code)
    return ended not in {-signal.SIGILL, -signal.SIGSEGV, -signal.SIGBUS}


# ------------------------------------------------------------ a program of its own

_BASE: Final = 0x400000
"""Where the program lies in memory."""

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_READ_RUN, _READ_WRITE = 5, 6
_LOADED, _STACK = 1, 0x6474E551

_START: Final = bytes.fromhex(
    "4883e4c0"  # and rsp, -64
    "4883ec40"  # sub rsp, 64
    "4889e7"  # mov rdi, rsp
    "e809000000"  # call the code, which follows
    "31ff"  # xor edi, edi
    "b83c000000"  # mov eax, 60: exit
    "0f05"  # syscall
)


def _program(code: bytes) -> bytes:
    """An ELF file for x86-64 that calls the code with the address of 64 bytes, and exits."""
    before = _HEADER.size + 2 * _SEGMENT.size
    size = before + len(_START) + len(code)
    kind, machine, version = 2, 62, 1
    header = _HEADER.pack(
        b"\x7fELF\x02\x01\x01".ljust(16, b"\0"),
        kind,
        machine,
        version,
        _BASE + before,
        _HEADER.size,
        0,
        0,
        _HEADER.size,
        _SEGMENT.size,
        2,
        0,
        0,
        0,
    )
    loaded = _SEGMENT.pack(_LOADED, _READ_RUN, 0, _BASE, _BASE, size, size, 4096)
    stack = _SEGMENT.pack(_STACK, _READ_WRITE, 0, 0, 0, 0, 0, 16)
    return header + loaded + stack + _START + code


def _ended(program: bytes) -> int:
    """How a program of a file's bytes ended; raises where the system does not run it."""
    if sys.platform != "linux":
        raise OSError("programs lie in files here")
    file = os.memfd_create("trial")
    try:
        os.write(file, program)
        child = os.posix_spawn(f"/proc/self/fd/{file}", ["trial"], {})
    finally:
        os.close(file)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# -------------------------------------------------------------------------- Python

_CHILD: Final = """
import ctypes, mmap, sys
code = bytes.fromhex(sys.argv[1])
page = mmap.mmap(-1, len(code), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(code)
function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
    ctypes.addressof(ctypes.c_char.from_buffer(page)))
function(ctypes.create_string_buffer(64))
"""


def _python_ended(code: bytes) -> int:
    """How an interpreter of Python that calls the code ended; 0 where none can be started."""
    interpreter = Path(sys.executable or "")
    if os.name != "posix" or not interpreter.name.startswith("python"):
        return 0
    try:
        child = subprocess.run(
            [interpreter, "-I", "-S", "-c", _CHILD, code.hex()],
            capture_output=True,
            check=False,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return child.returncode
