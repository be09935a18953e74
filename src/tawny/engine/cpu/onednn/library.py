"""oneDNN's C library, if it is installed: found, loaded, and asked through ctypes.

The wheel `onednn-cpu-gomp` brings it for Linux on x86-64; it needs the system's libgomp.  It is
loaded when it is first asked for, never by an import.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Generator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from tawny.engine.llvm.runtime.host import host
from tawny.forking import fork_safe_lock

PACKAGE: Final = "onednn-cpu-gomp"
LIBRARY: Final = "libdnnl.so.3"
OPENMP: Final = "libgomp.so.1"

CPU_ENGINE: Final = 1
IN_ORDER: Final = 1
ISA: Final = {64: 0x27, 32: 0x7}
"""oneDNN's numbers of AVX-512 and AVX2, by the bytes of our vectors; else SSE4.1.

It is held to what this process has tried: some machines announce more than they can do."""
SSE41: Final = 0x1

UNIMPLEMENTED: Final = 3
SOFT_PAUSE: Final = 1

_FUNCTIONS: Final = (
    "engine_create",
    "stream_create",
    "set_max_cpu_isa",
    "memory_desc_create_with_strides",
    "memory_desc_create_with_tag",
    "memory_desc_clone",
    "memory_desc_destroy",
    "memory_desc_equal",
    "primitive_attr_create",
    "primitive_attr_destroy",
    "primitive_attr_set_post_ops",
    "primitive_attr_set_scratchpad_mode",
    "post_ops_create",
    "post_ops_destroy",
    "post_ops_append_sum",
    "primitive_desc_query",
    "primitive_desc_destroy",
    "primitive_create",
    "primitive_destroy",
    "primitive_execute",
    "memory_create",
    "memory_destroy",
)


class RefusedError(Exception):
    """The library cannot do what it was asked for."""

    def __init__(self, what: str, status: int) -> None:
        reason = "not implemented" if status == UNIMPLEMENTED else f"status {status}"
        super().__init__(f"oneDNN: {what}: {reason}")


class _Version(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("patch", ctypes.c_int),
        ("hash", ctypes.c_char_p),
        ("cpu_runtime", ctypes.c_uint),
        ("gpu_runtime", ctypes.c_uint),
    )


class OneDnn:
    """The loaded library, with an engine and a stream of the processor."""

    def __init__(self, path: Path) -> None:
        self.openmp = _openmp()
        self.c: Any = ctypes.CDLL(str(path))
        for name in _FUNCTIONS:
            getattr(self.c, f"dnnl_{name}").restype = ctypes.c_int
        self.c.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
        self.c.dnnl_memory_desc_get_size.argtypes = [ctypes.c_void_p]
        self.c.dnnl_primitive_desc_query_md.restype = ctypes.c_void_p
        self.c.dnnl_primitive_desc_query_md.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
        self.c.dnnl_version.restype = ctypes.POINTER(_Version)
        found = self.c.dnnl_version().contents
        self.version = f"{found.major}.{found.minor}.{found.patch}"
        self.call("set_max_cpu_isa", ctypes.c_int(ISA.get(host().vector_bytes, SSE41)))
        self.engine = self.create("engine_create", ctypes.c_int(CPU_ENGINE), ctypes.c_size_t(0))
        self.stream = self.create("stream_create", address(self.engine), ctypes.c_uint(IN_ORDER))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; raises `RefusedError` where it fails."""
        status = getattr(self.c, f"dnnl_{name}")(*arguments)
        if status:
            raise RefusedError(name, status)

    def create(self, name: str, *arguments: Any) -> int:
        """What a function makes: its first argument is the place for it."""
        place = ctypes.c_void_p()
        self.call(name, ctypes.byref(place), *arguments)
        assert place.value is not None
        return place.value

    def place(self, name: str) -> int:
        """The address of a function."""
        return _place(getattr(self.c, f"dnnl_{name}"))

    @contextlib.contextmanager
    def threads(self, count: int) -> Generator[None]:
        """Primitives created inside work on `count` threads."""
        before = self.openmp.omp_get_max_threads()
        self.openmp.omp_set_num_threads(count)
        try:
            yield
        finally:
            self.openmp.omp_set_num_threads(before)

    def openmp_place(self, name: str) -> int:
        """The address of a function of OpenMP."""
        return _place(getattr(self.openmp, name))


def address(value: int | None) -> ctypes.c_void_p:
    """A handle as ctypes passes it."""
    return ctypes.c_void_p(value)


def longs(values: Sequence[int]) -> Any:
    """Sizes or steps as the library reads them."""
    return (ctypes.c_int64 * max(1, len(values)))(*values)


def _place(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _openmp() -> Any:
    """OpenMP, whose threads the library works on."""
    found = ctypes.CDLL(OPENMP, mode=ctypes.RTLD_GLOBAL)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lambda: _dismiss(found))
    return found


def _dismiss(openmp: Any) -> None:
    """End the threads of this thread's OpenMP: a forked process would wait for them for ever."""
    with contextlib.suppress(AttributeError):
        openmp.omp_pause_resource_all(SOFT_PAUSE)


def find_library() -> Path | None:
    """Where the wheel put the library; None where there is no wheel."""
    import importlib.metadata  # noqa: PLC0415  (it takes longer to import than all of this package)

    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [Path(str(file.locate())) for file in files if file.name == LIBRARY]
    return next((path.resolve() for path in found if path.is_file()), None)


_lock: Final = fork_safe_lock()


@cache
def _load() -> OneDnn | str:
    """The library, or why there is none."""
    path = find_library()
    if path is None:
        known = sys.platform == "linux" and os.uname().machine == "x86_64"
        return f"{PACKAGE} is not installed" if known else "there is no wheel for this platform"
    try:
        return OneDnn(path)
    except (OSError, AttributeError, RefusedError) as error:
        return f"{type(error).__name__}: {error}"


def load() -> OneDnn | None:
    """The library; None where it cannot be used."""
    with _lock:
        found = _load()
    return found if isinstance(found, OneDnn) else None


def missing() -> str | None:
    """Why the library cannot be used; None where it can."""
    with _lock:
        found = _load()
    return found if isinstance(found, str) else None
