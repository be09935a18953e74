"""What generators of GPU kernels take and give.

A kernel is a function of a grid of threads.  Its arguments are a buffer and an offset in bytes for
each place it reads or writes, then numbers.  Code depends on the structure of what is computed;
sizes and strides are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tawny.engine.layout import Memory
from tawny.engine.llvm.ir.builder import I32, I64, VOID, Function, Module, Type, Value, pointer
from tawny.engine.llvm.targets import nvptx

MOST_TEXTS: Final = 1024
"""Texts of kernels that are remembered: those that were asked for last."""

BLOCK: Final = 256
"""Threads of a block, where nothing else asks for another number."""

IR_TARGET: Final = nvptx("sm_80")
"""The dialect that kernels are written in; drivers compile it for their own device."""


@dataclass(frozen=True, slots=True)
class DeviceArray(Memory):
    """The layout of an array in a device's memory."""

    aligned: bool = True
    """Whether it begins at a multiple of `VECTOR_BYTES`."""


VECTOR_BYTES: Final = 16
"""Bytes that one thread loads at once, at most."""


@dataclass(frozen=True, slots=True)
class KernelCode:
    """The code of a kernel: a function that writes it, and all that the text depends on."""

    write: Callable[[Module, str, Any], None]
    """Writes a kernel of a name into a module, given the structure."""
    structure: Hashable
    long: bool = False
    """Whether it runs long enough to be optimised where a device's compiler takes long for that."""
    shared: int = 0
    """Bytes of memory of a block that are given when it is launched."""

    def ir(self) -> str:
        """The IR of a module with this kernel alone, called `SYMBOL`."""
        return _text(self)


STATUS: Final = -1
"""The place of 8 bytes that are 0 unless a check has found something wrong."""

DRAW: Final = -2
"""The place of the number of the run, in 8 bytes: random draws depend on it."""

SYMBOL: Final = "kernel"
"""The name of every kernel in its module."""


@lru_cache(MOST_TEXTS)
def _text(code: KernelCode) -> str:
    module = Module(IR_TARGET)
    code.write(module, SYMBOL, code.structure)
    return module.text()


class Launch(NamedTuple):
    """One launch of a kernel."""

    code: KernelCode
    places: tuple[int, ...]
    """What each buffer is: operands by their numbers, then results, then scratch memory."""
    numbers: tuple[int, ...]
    """The numbers after the buffers."""
    blocks: int
    block: int = BLOCK
    """Threads of a block."""


class GpuKernel(NamedTuple):
    """The launches that compute a node, one after the other."""

    launches: tuple[Launch, ...]
    scratch: int = 0
    """Bytes they need while they run."""
    checks: tuple[Launch, ...] = ()
    """Launches before all others, which write 1 to `STATUS` where the operands are wrong: then the
    host says why, and nothing else is launched."""
    verified: bool = False
    """Whether the launches write 1 to `STATUS` where there is no result: then the host says why."""


def blocks_for(threads: int, block: int = BLOCK) -> int:
    """Blocks with at least this many threads."""
    return max(-(-threads // block), 1)


# ------------------------------------------------------------------------ writing


GLOBAL: Final = pointer(IR_TARGET.global_space)
"""The type of addresses in the device's memory."""


class ThreadGrid:
    """A kernel being written: its places, its numbers, and which thread it is."""

    def __init__(self, f: Function, places: int) -> None:
        self.f = f
        given = f.arguments
        self.places = [f.offset(given[2 * i], given[2 * i + 1]) for i in range(places)]
        """The address of each place."""
        self.numbers = list(given[2 * places :])

    def register(self, name: str) -> Value:
        """A number of 32 bits that says where the thread is."""
        return self.f.intrinsic(f"nvvm.read.ptx.sreg.{name}.x", I32, overload=())

    @property
    def thread(self) -> Value:
        """The number of this thread in its block."""
        return self.widen(self.register("tid"))

    @property
    def block(self) -> Value:
        """The number of this block."""
        return self.widen(self.register("ctaid"))

    @property
    def block_size(self) -> Value:
        """How many threads the block has."""
        return self.widen(self.register("ntid"))

    @property
    def number(self) -> Value:
        """The number of this thread among all."""
        return self.block * self.block_size + self.thread

    def widen(self, number: Value) -> Value:
        """A number of 32 bits as one of 64."""
        return self.f.convert("zext", number, I64)

    def barrier(self) -> None:
        """Wait for all threads of the block, whose writes are seen afterwards."""
        self.f.intrinsic("nvvm.barrier0", VOID, overload=())


@contextmanager
def grid_kernel(module: Module, name: str, places: int, numbers: int) -> Generator[ThreadGrid]:
    """A kernel whose body the `with` block writes."""
    arguments: dict[str, Type] = {}
    for i in range(places):
        arguments |= {f"p{i}": GLOBAL, f"o{i}": I64}
    arguments |= {f"n{i}": I64 for i in range(numbers)}
    with module.function(name, arguments, kernel=True) as f:
        yield ThreadGrid(f, places)
