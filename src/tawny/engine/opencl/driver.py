"""OpenCL devices, by way of pyopencl."""

from __future__ import annotations

import importlib
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np

from tawny.engine.gpu.driver import Bytes
from tawny.engine.gpu.launch import IR_TARGET, KernelCode
from tawny.engine.llvm.ir.builder import Module
from tawny.engine.opencl.source import opencl_source
from tawny.engine.protocol import Device
from tawny.errors import value_error
from tawny.forking import fork_safe_lock
from tawny.unique import Unique

MOST_FUNCTIONS: Final = 2048
"""Functions that are remembered: those that were asked for last."""


CAUTIOUS: Final = {"Portable Computing Language": ["-cl-opt-disable"]}
"""Options for the compilers of some platforms, but for kernels that run long: PoCL's gives powers
of negative numbers without their sign where it optimises (3.1, LLVM 15), and takes longer."""

QUIET: Final = "-w"
"""The option for no warnings: pyopencl shows users a compiler's remarks on generated code."""

ADDRESS_GAP: Final = 4096
"""Addresses of buffers are multiples of this, which is one at which any value may begin."""

PROBE: Final = "__kernel void probe(__global double *x) { x[0] = fma(x[0], 2.0, 1.0); }"
"""A program that a device must be able to build: some have a compiler that does not know them."""


def open_device(number: int = 0) -> OpenClDriver:
    """A device that computes with float64 and builds programs; ValueError where there is none."""
    try:
        opencl = importlib.import_module("pyopencl")
    except ImportError:
        raise value_error(
            "compile", "engine 'opencl' needs pyopencl: pip install 'tawny[opencl]'"
        ) from None
    refused: list[str] = []
    usable = 0
    for device in _devices(opencl):
        if not device.double_fp_config:
            refused.append(f"{device.name.strip()} (no float64)")
            continue
        driver = OpenClDriver(opencl, device, usable)
        if not driver.can_build:
            refused.append(f"{device.name.strip()} (builds no programs)")
        elif usable == number:
            return driver
        else:
            usable += 1
    if usable:
        found = ", ".join([f"'opencl:{i}'" for i in range(usable)])
        raise value_error("compile", f"there is no OpenCL device {number}; accepted: {found}")
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

    __slots__ = ("__weakref__", "address", "memory")

    def __init__(self, memory: Any, address: int) -> None:
        self.memory, self.address = memory, address


@final
class MarkerMarks:
    """Markers in a queue, which note when the device gets to them."""

    def __init__(self, driver: OpenClDriver, count: int) -> None:
        self._driver, self._markers = driver, list[Any]([None] * count)

    def note(self, place: int) -> None:
        """Note the time when the device gets here."""
        self._markers[place] = self._driver.enqueue_marker()

    def seconds(self) -> list[float]:
        """When the device got to each marker, from the first on."""
        ends = [marker.profile.end for marker in self._markers]
        return [(end - ends[0]) * 1e-9 for end in ends]


@final
class OpenClDriver:
    """One device and its queue."""

    def __init__(self, opencl: Any, device: Any, number: int) -> None:
        self._opencl, self._device, self._number = opencl, device, number
        self._context = opencl.Context([device])
        timed = opencl.command_queue_properties.PROFILING_ENABLE
        self._own_queue = opencl.CommandQueue(self._context, properties=timed)
        self._process = os.getpid()
        self._options = CAUTIOUS.get(device.platform.name, [])
        self._functions: OrderedDict[KernelCode, Any] = OrderedDict()
        self._lock = fork_safe_lock()
        self._next_address = ADDRESS_GAP

    @property
    def _queue(self) -> Any:
        """The queue, for the process that opened the device."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "opencl: a forked process cannot use its parent's device: start a new process"
            )
        return self._own_queue

    @property
    def label(self) -> str:
        """What users call the device."""
        return f"opencl:{self._number}"

    @property
    def can_build(self) -> bool:
        """Whether the device's compiler works."""
        try:
            self._opencl.Program(self._context, PROBE).build()
        except self._opencl.Error:
            return False
        return True

    @property
    def has_tensor_cores(self) -> bool:
        """No: OpenCL knows none."""
        return False

    def facts(self) -> Device:
        """The device as it is now."""
        device = self._device
        whole, largest = device.global_mem_size, device.max_mem_alloc_size
        return Device(self.label, device.name.strip(), whole, None, largest)

    def allocate(self, nbytes: int) -> OpenClBuffer:
        """A buffer; MemoryError where there is none."""
        try:
            flags = self._opencl.mem_flags.READ_WRITE
            memory = self._opencl.Buffer(self._context, flags, nbytes)
        except self._opencl.MemoryError as error:
            raise MemoryError(f"{self.facts().name} has no {nbytes:,} bytes free") from error
        with self._lock:
            address = self._next_address
            self._next_address += (-(-nbytes // ADDRESS_GAP) + 1) * ADDRESS_GAP
        return OpenClBuffer(memory, address)

    def address(self, buffer: OpenClBuffer) -> int:
        """A number for a buffer's first byte: devices do not tell their own."""
        return buffer.address

    def cuda_address(self, buffer: OpenClBuffer) -> None:
        """None: NVIDIA's libraries do not read OpenCL's buffers."""
        del buffer

    def adopt(self, array: object) -> None:
        """None: other libraries' arrays are not in this context."""
        del array

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
        with self._lock:
            new = [code for code in dict.fromkeys(codes) if code not in self._functions]
            self._build([code for code in new if not code.long], self._options)
            for code in new:
                if code.long:
                    self._build([code], [])
            found = [self._functions[code] for code in codes]
            for code in codes:
                self._functions.move_to_end(code)
            while len(self._functions) > MOST_FUNCTIONS:
                self._functions.popitem(last=False)
            return found

    def _build(self, codes: Sequence[KernelCode], options: list[str]) -> None:
        """Build a program of kernels."""
        if not codes:
            return
        module = Module(IR_TARGET)
        for number, code in enumerate(codes):
            code.write(module, f"kernel{number}", code.structure)
        program = self._opencl.Program(self._context, opencl_source(module.text()))
        program.build([QUIET, *options])
        for number, code in enumerate(codes):
            self._functions[code] = self._opencl.Kernel(program, f"kernel{number}")

    def launch(
        self,
        function: Any,
        blocks: int,
        block: int,
        places: Sequence[tuple[OpenClBuffer, int]],
        numbers: Sequence[int],
    ) -> None:
        """Run a function with buffers, offsets into them, and numbers.

        Programs share functions, and a function holds its arguments until it is asked for: no other
        thread may give it others meanwhile.
        """
        given = [part for buffer, offset in places for part in (buffer.memory, np.uint64(offset))]
        given += [np.uint64(n & _MASK) for n in numbers]
        with self._lock:
            function(self._queue, (blocks * block,), (block,), *given)

    @property
    def keeps_records(self) -> bool:
        """No: launches are asked for one by one."""
        return False

    def record(self, ask: Callable[[], None]) -> Callable[[], None]:
        """What asks for each launch anew: OpenCL keeps none."""
        return ask

    def marks(self, count: int) -> MarkerMarks:
        """Markers in the queue."""
        return MarkerMarks(self, count)

    def enqueue_marker(self) -> Any:
        """An event that has the time when the device gets here."""
        return self._opencl.enqueue_marker(self._queue)

    def finish(self) -> None:
        """Wait for everything that was asked for."""
        self._queue.finish()


_MASK: Final = 2**64 - 1
