"""OpenCL devices, by way of pyopencl."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np

from tawny.engine.gpu.driver import Bytes, DeviceFacts
from tawny.engine.gpu.launch import IR_TARGET, KernelCode
from tawny.engine.llvm.ir.builder import Module
from tawny.engine.opencl.source import opencl_source
from tawny.errors import value_error
from tawny.unique import Unique

MOST_FUNCTIONS: Final = 2048
"""Functions that are remembered: those that were asked for last."""


CAUTIOUS: Final = {"Portable Computing Language": ["-cl-opt-disable"]}
"""Options for the compilers of some platforms: PoCL's gives powers of negative numbers without
their sign where it optimises (3.1, LLVM 15), and takes longer."""

PROBE: Final = "__kernel void probe(__global double *x) { x[0] = fma(x[0], 2.0, 1.0); }"
"""A program that a device must be able to build: some have a compiler that does not know them."""


def open_device() -> OpenClDriver:
    """The first device that computes with float64 and builds programs.

    ValueError where there is none.
    """
    try:
        opencl = importlib.import_module("pyopencl")
    except ImportError:
        raise value_error(
            "compile", "engine 'opencl' needs pyopencl: pip install 'tawny[opencl]'"
        ) from None
    refused: list[str] = []
    for device in _devices(opencl):
        if not device.double_fp_config:
            refused.append(f"{device.name.strip()} (no float64)")
            continue
        driver = OpenClDriver(opencl, device)
        if driver.can_build:
            return driver
        refused.append(f"{device.name.strip()} (builds no programs)")
    said = f"; found: {', '.join(refused)}" if refused else ""
    raise value_error("compile", f"engine 'opencl' found no device that it can use{said}")


def _devices(opencl: Any) -> list[Any]:
    """All devices of all platforms."""
    try:
        platforms = opencl.get_platforms()
    except opencl.LogicError:
        return []
    return [device for platform in platforms for device in platform.get_devices()]


@final
class OpenClBuffer(Unique):
    """Some of a device's memory, which is freed with this object."""

    __slots__ = ("__weakref__", "memory")

    def __init__(self, memory: Any) -> None:
        self.memory = memory


@final
class OpenClDriver:
    """One device and its queue."""

    def __init__(self, opencl: Any, device: Any) -> None:
        self._opencl, self._device = opencl, device
        self._context = opencl.Context([device])
        self._queue = opencl.CommandQueue(self._context)
        self._options = CAUTIOUS.get(device.platform.name, [])
        self._functions: OrderedDict[KernelCode, Any] = OrderedDict()

    @property
    def can_build(self) -> bool:
        """Whether the device's compiler works."""
        try:
            self._opencl.Program(self._context, PROBE).build()
        except self._opencl.Error:
            return False
        return True

    def facts(self) -> DeviceFacts:
        """The device as it is now."""
        return DeviceFacts(self._device.name.strip(), self._device.global_mem_size, None)

    def allocate(self, nbytes: int) -> OpenClBuffer:
        """A buffer; MemoryError where there is none."""
        try:
            flags = self._opencl.mem_flags.READ_WRITE
            return OpenClBuffer(self._opencl.Buffer(self._context, flags, nbytes))
        except self._opencl.MemoryError as error:
            raise MemoryError(f"{self.facts().name} has no {nbytes:,} bytes free") from error

    def write(self, buffer: OpenClBuffer, offset: int, data: Bytes) -> None:
        """Copy bytes of the host to a buffer."""
        if data.size:
            self._opencl.enqueue_copy(self._queue, buffer.memory, data, dst_offset=offset)

    def read(self, buffer: OpenClBuffer, offset: int, nbytes: int) -> Bytes:
        """Bytes of a buffer, copied to the host."""
        data = np.empty(nbytes, np.uint8)
        if nbytes:
            self._opencl.enqueue_copy(self._queue, data, buffer.memory, src_offset=offset)
        return data

    def copy(
        self, source: OpenClBuffer, first: int, target: OpenClBuffer, offset: int, nbytes: int
    ) -> None:
        """Copy bytes from a buffer to one."""
        if nbytes:
            self._opencl.enqueue_copy(
                self._queue,
                target.memory,
                source.memory,
                src_offset=first,
                dst_offset=offset,
                byte_count=nbytes,
            )

    def load(self, codes: Sequence[KernelCode]) -> Sequence[Any]:
        """The functions of kernels; those that are new are built as one program."""
        new = [code for code in dict.fromkeys(codes) if code not in self._functions]
        if new:
            module = Module(IR_TARGET)
            for number, code in enumerate(new):
                code.write(module, f"kernel{number}", code.structure)
            program = self._opencl.Program(self._context, opencl_source(module.text()))
            program.build(self._options)
            for number, code in enumerate(new):
                self._functions[code] = self._opencl.Kernel(program, f"kernel{number}")
        found = [self._functions[code] for code in codes]
        for code in codes:
            self._functions.move_to_end(code)
        while len(self._functions) > MOST_FUNCTIONS:
            self._functions.popitem(last=False)
        return found

    def launch(
        self,
        function: Any,
        blocks: int,
        block: int,
        places: Sequence[tuple[OpenClBuffer, int]],
        numbers: Sequence[int],
    ) -> None:
        """Run a function with buffers, offsets into them, and numbers."""
        given = [part for buffer, offset in places for part in (buffer.memory, np.uint64(offset))]
        given += [np.uint64(n & _MASK) for n in numbers]
        function(self._queue, (blocks * block,), (block,), *given)

    def finish(self) -> None:
        """Wait for everything that was asked for."""
        self._queue.finish()


_MASK: Final = 2**64 - 1
