"""NVIDIA's GPUs, by way of the driver's own library: no toolkit is needed.

Kernels are compiled to PTX by LLVM, and by the driver to the device's own code.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, Final, NamedTuple, cast, final

import numpy as np

from tawny.engine.gpu.array import GpuArray
from tawny.engine.gpu.driver import Bytes
from tawny.engine.gpu.launch import IR_TARGET, KernelCode
from tawny.engine.layout import contiguous
from tawny.engine.llvm.ir.builder import Module
from tawny.engine.llvm.runtime.compiler import assembly
from tawny.engine.llvm.targets import nvptx
from tawny.engine.protocol import Device
from tawny.errors import value_error
from tawny.forking import fork_safe_lock
from tawny.unique import Unique

MOST_FUNCTIONS: Final = 4096
"""Functions that are remembered: those that were asked for last."""

LEAST_KERNELS: Final = 2
"""Kernels for which a thread is worth starting, and the most threads that compile at a time."""
MOST_THREADS: Final = 16

OUT_OF_MEMORY: Final = 2
"""The driver's number for an allocation that failed."""

RELAXED: Final = 2
"""The driver's number for a capture beside which threads may call whatever they like."""

EXTERNAL: Final = 1
"""An event is recorded by the graph that is captured, at each of its launches."""

GRANTED_SHARED: Final = 48 << 10
"""Bytes of memory of a block that need not be asked for."""

MOST_SHARED: Final = 8
"""The driver's number for the most bytes of memory of a block that a function is launched with."""

NEWEST_PTX: Final = {(9, 0): "sm_90", (10, 0): "sm_100", (12, 0): "sm_120"}
"""The architecture that code for a newer device is made for, by the least version."""


def open_device(number: int = 0) -> CudaDriver:
    """A device by its number; ValueError where there is none."""
    name = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError:
        raise value_error(
            "compile", "engine 'cuda' needs NVIDIA's driver, which this machine does not have"
        ) from None
    driver = _DriverLibrary(library)
    status = library.cuInit(0)
    if status:
        raise value_error("compile", f"engine 'cuda' found no device: {driver.words(status)}")
    count = c_int()
    driver.call("cuDeviceGetCount", byref(count))
    if not count.value:
        raise value_error("compile", "engine 'cuda' found no device")
    if number >= count.value:
        found = ", ".join([f"'cuda:{i}'" for i in range(count.value)])
        raise value_error("compile", f"there is no GPU {number}; accepted: {found}")
    return CudaDriver(driver, number)


class CudaError(RuntimeError):
    """NVIDIA's driver refused to do something."""


@final
class _DriverLibrary:
    """The driver's functions, whose failures are errors."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def words(self, status: int) -> str:
        """What a status means."""
        text = c_char_p()
        self.library.cuGetErrorString(status, byref(text))
        return (text.value or b"unknown error").decode()

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function."""
        status = getattr(self.library, name)(*arguments)
        if status == OUT_OF_MEMORY:
            raise MemoryError(f"{name}: {self.words(status)}")
        if status:
            raise CudaError(f"{name}: {self.words(status)}")


@final
class DeviceBuffer(Unique):
    """Some of a device's memory, which is freed with this object."""

    def __init__(self, driver: CudaDriver, nbytes: int) -> None:
        self._driver, self.nbytes = driver, nbytes
        self.address = 0
        place = c_uint64()
        driver.enter()
        try:
            driver.library.call("cuMemAlloc_v2", byref(place), c_size_t(nbytes))
        except MemoryError:
            free = driver.facts().free_bytes
            raise MemoryError(
                f"{driver.label} has no {nbytes:,} bytes in one piece; {free:,} are free in all"
            ) from None
        self.address = place.value

    def __del__(self) -> None:
        if self.address and self._driver.is_usable:
            self._driver.enter()
            self._driver.library.library.cuMemFree_v2(c_uint64(self.address))


@final
class ForeignBuffer(Unique):
    """Memory that another library's array holds."""

    def __init__(self, address: int, owner: object) -> None:
        self.address, self.owner = address, owner


@final
class LoadedModule(Unique):
    """Code on a device, which goes with the last of its functions."""

    def __init__(self, driver: CudaDriver, ptx: str) -> None:
        self._driver, self._handle = driver, c_void_p()
        driver.library.call("cuModuleLoadData", byref(self._handle), c_char_p(ptx.encode()))

    def function(self, name: str, shared: int) -> ModuleFunction:
        """One of its functions, launched with `shared` bytes of memory of a block."""
        found, library = c_void_p(), self._driver.library
        given = byref(found), self._handle, c_char_p(name.encode())
        library.call("cuModuleGetFunction", *given)
        if shared > GRANTED_SHARED:
            library.call("cuFuncSetAttribute", found, MOST_SHARED, c_int(shared))
        return ModuleFunction(found, self, shared)

    def __del__(self) -> None:
        if self._handle and self._driver.is_usable:
            self._driver.enter()
            self._driver.library.library.cuModuleUnload(self._handle)


class ModuleFunction(NamedTuple):
    """A function that can be launched while its module is there."""

    handle: c_void_p
    module: LoadedModule
    shared: int
    """Bytes of memory of a block that it is launched with."""


@final
class CapturedGraph(Unique):
    """Launches and copies that one call asks for."""

    def __init__(self, driver: CudaDriver, ask: Callable[[], None]) -> None:
        self._driver, self._graph = driver, c_void_p()
        with driver.capturing() as captured:
            ask()
        library = driver.library
        try:
            library.call("cuGraphInstantiateWithFlags", byref(self._graph), captured, c_uint64(0))
        finally:
            library.call("cuGraphDestroy", captured)

    def launch(self) -> None:
        """Ask for all of it."""
        self._driver.launch_graph(self._graph)

    def __del__(self) -> None:
        if self._graph and self._driver.is_usable:
            self._driver.enter()
            self._driver.library.library.cuGraphExecDestroy(self._graph)


@final
class EventMarks(Unique):
    """Events of a device, which note when it gets to them."""

    def __init__(self, driver: CudaDriver, count: int) -> None:
        self._driver, self._events = driver, list[c_void_p]()
        driver.enter()
        for _ in range(count):
            event = c_void_p()
            driver.library.call("cuEventCreate", byref(event), c_uint(0))
            self._events.append(event)

    def note(self, place: int) -> None:
        """Note the time when the device gets here; in a graph that is captured, at each launch."""
        self._driver.record_event(self._events[place])

    def seconds(self) -> list[float]:
        """When the device got to each event, from the first on."""
        self._driver.enter()
        found, milliseconds = list[float](), c_float()
        for event in self._events:
            given = byref(milliseconds), self._events[0], event
            self._driver.library.call("cuEventElapsedTime", *given)
            found.append(milliseconds.value * 1e-3)
        return found

    def __del__(self) -> None:
        if self._driver.is_usable:
            for event in self._events:
                self._driver.enter()
                self._driver.library.library.cuEventDestroy_v2(event)


def adopt_interface(
    driver: CudaDriver, array: object, interface: dict[str, Any]
) -> GpuArray | None:
    """An array described by the CUDA array interface; None where it is on another device.

    What was asked of the array's stream is waited for.
    """
    address, is_readonly = interface["data"]
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    if address:
        owner = c_int()
        driver.enter()
        # 9: the number of the device that the memory is on
        driver.library.call("cuPointerGetAttribute", byref(owner), 9, c_uint64(address))
        if owner.value != driver.number:
            return None
        stream = interface.get("stream")
        if stream is not None:
            driver.library.call("cuStreamSynchronize", c_void_p(int(stream)))
    strides = interface.get("strides")
    memory = contiguous(shape, dtype)
    if strides is not None:
        memory = memory.with_strides(tuple(strides))
    buffer = ForeignBuffer(address, array)
    return GpuArray(driver, buffer, 0, memory, writeable=not is_readonly)


@final
class CudaDriver(Unique):
    """One device and its stream."""

    def __init__(self, library: _DriverLibrary, number: int) -> None:
        self.library, self._process, self.number = library, os.getpid(), number
        self._device = c_int()
        library.call("cuDeviceGet", byref(self._device), number)
        self._context = c_void_p()
        library.call("cuDevicePrimaryCtxRetain", byref(self._context), self._device)
        self._threads = threading.local()
        self.enter()
        self._stream = c_void_p()
        library.call("cuStreamCreate", byref(self._stream), 1)
        self.capability = self._attribute(75), self._attribute(76)
        known = [name for least, name in NEWEST_PTX.items() if self.capability >= least]
        self.target = nvptx(known[-1] if known else "sm_{}{}".format(*self.capability))
        self._functions: OrderedDict[KernelCode, ModuleFunction] = OrderedDict()
        self._lock = fork_safe_lock()

    @property
    def is_usable(self) -> bool:
        """Whether this process opened the device: a forked one must not use it."""
        return os.getpid() == self._process

    def enter(self) -> None:
        """Let this thread use the device."""
        if not self.is_usable:
            raise CudaError("a forked process cannot use its parent's GPU: start a new process")
        if not getattr(self._threads, "entered", False):
            self.library.call("cuCtxSetCurrent", self._context)
            self._threads.entered = True

    def _attribute(self, number: int) -> int:
        value = c_int()
        self.library.call("cuDeviceGetAttribute", byref(value), number, self._device)
        return value.value

    @property
    def label(self) -> str:
        """What users call the device."""
        return f"cuda:{self.number}"

    @property
    def has_tensor_cores(self) -> bool:
        """Whether the device is of Ampere's kind or a later one."""
        return self.capability >= (8, 0)

    def address(self, buffer: DeviceBuffer) -> int:
        """Where a buffer begins."""
        return buffer.address

    def cuda_address(self, buffer: DeviceBuffer) -> int:
        """Where a buffer begins, for NVIDIA's libraries too."""
        return buffer.address

    def adopt(self, array: object) -> GpuArray | None:
        """An array of PyTorch, CuPy or JAX on this device, by the interface they all have."""
        found = getattr(array, "__cuda_array_interface__", None)
        if not isinstance(found, dict):
            return None
        return adopt_interface(self, array, cast("dict[str, Any]", found))

    def facts(self) -> Device:
        """The device as it is now."""
        self.enter()
        name = ctypes.create_string_buffer(256)
        self.library.call("cuDeviceGetName", name, 256, self._device)
        free, total = c_size_t(), c_size_t()
        self.library.call("cuMemGetInfo_v2", byref(free), byref(total))
        return Device(self.label, name.value.decode(), total.value, free.value, total.value)

    def allocate(self, nbytes: int) -> DeviceBuffer:
        """A buffer; MemoryError where there is none."""
        return DeviceBuffer(self, nbytes)

    def write(self, buffer: DeviceBuffer, offset: int, data: Bytes) -> None:
        """Copy bytes of the host to a buffer."""
        self.enter()
        if data.size:
            where = c_uint64(buffer.address + offset)
            args = where, c_void_p(data.ctypes.data), c_size_t(data.size), self._stream
            self.library.call("cuMemcpyHtoDAsync_v2", *args)
            self.finish()

    def read(self, buffer: DeviceBuffer, offset: int, nbytes: int) -> Bytes:
        """Bytes of a buffer, copied to the host."""
        self.enter()
        data = np.empty(nbytes, np.uint8)
        if nbytes:
            where = c_uint64(buffer.address + offset)
            args = c_void_p(data.ctypes.data), where, c_size_t(nbytes), self._stream
            self.library.call("cuMemcpyDtoHAsync_v2", *args)
            self.finish()
        return data

    def copy(
        self, source: DeviceBuffer, first: int, target: DeviceBuffer, offset: int, nbytes: int
    ) -> None:
        """Copy bytes from a buffer to one."""
        self.enter()
        if nbytes:
            places = c_uint64(target.address + offset), c_uint64(source.address + first)
            self.library.call(
                "cuMemcpyDtoDAsync_v2", *places, c_size_t(nbytes), self._current_stream
            )

    def load(self, codes: Sequence[KernelCode]) -> Sequence[ModuleFunction]:
        """The functions of kernels; those that are new are compiled."""
        self.enter()
        with self._lock:
            new = [code for code in dict.fromkeys(codes) if code not in self._functions]
            for made in self._build(new):
                self._functions |= made
            found = [self._functions[code] for code in codes]
            for code in codes:
                self._functions.move_to_end(code)
            while len(self._functions) > MOST_FUNCTIONS:
                self._functions.popitem(last=False)
            return found

    def _build(self, codes: Sequence[KernelCode]) -> list[dict[KernelCode, ModuleFunction]]:
        """The functions of kernels, a module for each thread that compiles some."""
        count = min(len(codes) // LEAST_KERNELS, os.cpu_count() or 1, MOST_THREADS)
        if count < 2:
            return [self._build_module(codes)] if codes else []
        shares = [codes[i::count] for i in range(count)]
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(self._build_module, shares))

    def _build_module(self, codes: Sequence[KernelCode]) -> dict[KernelCode, ModuleFunction]:
        """The functions of kernels, compiled as one module."""
        self.enter()
        module = Module(IR_TARGET)
        for number, code in enumerate(codes):
            code.write(module, f"kernel{number}", code.structure)
        loaded = LoadedModule(self, assembly(module.text(), self.target))
        return {
            code: loaded.function(f"kernel{number}", code.shared)
            for number, code in enumerate(codes)
        }

    def launch(
        self,
        function: ModuleFunction,
        blocks: int,
        block: int,
        places: Sequence[tuple[DeviceBuffer, int]],
        numbers: Sequence[int],
    ) -> None:
        """Run a function with buffers, offsets into them, and numbers."""
        self.enter()
        given = [part for buffer, offset in places for part in (buffer.address, offset)]
        cells = np.array([n & _MASK for n in (*given, *numbers)], np.uint64)
        first = cells.ctypes.data
        arguments = (c_void_p * len(cells))(*range(first, first + 8 * len(cells), 8))
        sizes = blocks, 1, 1, block, 1, 1, function.shared
        self.library.call(
            "cuLaunchKernel",
            function.handle,
            *sizes,
            self._current_stream,
            arguments,
            POINTER(c_void_p)(),
        )

    @property
    def keeps_records(self) -> bool:
        """Yes: as graphs."""
        return True

    def record(self, ask: Callable[[], None]) -> Callable[[], None]:
        """One launch of a captured graph."""
        return CapturedGraph(self, ask).launch

    @contextmanager
    def capturing(self) -> Generator[c_void_p]:
        """Keep what this thread asks for, instead of doing it: in the graph that is given."""
        self.enter()
        stream, graph = c_void_p(), c_void_p()
        self.library.call("cuStreamCreate", byref(stream), 1)
        try:
            self.library.call("cuStreamBeginCapture_v2", stream, RELAXED)
            self._threads.stream = stream
            try:
                yield graph
            finally:
                del self._threads.stream
                self.library.call("cuStreamEndCapture", stream, byref(graph))
        except BaseException:
            if graph:
                self.library.call("cuGraphDestroy", graph)
            raise
        finally:
            self.library.call("cuStreamDestroy_v2", stream)

    @property
    def _current_stream(self) -> c_void_p:
        """Where this thread's launches go: those of a capture do not run."""
        return cast("c_void_p", getattr(self._threads, "stream", self._stream))

    def launch_graph(self, graph: c_void_p) -> None:
        """Ask for everything in a graph."""
        self.enter()
        self.library.call("cuGraphLaunch", graph, self._stream)

    def marks(self, count: int) -> EventMarks:
        """Events, which graphs may have too."""
        return EventMarks(self, count)

    def record_event(self, event: c_void_p) -> None:
        """Ask the device to note the time; `EXTERNAL` lets a capture keep that as a step."""
        self.enter()
        stream = self._current_stream
        flags = 0 if stream is self._stream else EXTERNAL
        self.library.call("cuEventRecordWithFlags", event, stream, c_uint(flags))

    def finish(self) -> None:
        """Wait for everything that was asked for."""
        self.enter()
        self.library.call("cuStreamSynchronize", self._stream)


_MASK: Final = 2**64 - 1
