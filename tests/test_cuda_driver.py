"""The engine of NVIDIA's GPUs on a driver that records what it is asked for and runs no kernel.

Memory is the host's, so copies are real; kernels are compiled to PTX and never run.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.engine.cuda import driver as cuda
from tawny.engine.gpu.engine import GpuEngine
from tawny.engine.protocol import ENGINES

TOTAL = 1 << 20


class RecordingLibrary:
    """NVIDIA's driver as far as it is called: every function gives 0 unless it is to fail."""

    def __init__(self, free: int = TOTAL) -> None:
        self.free = free
        self.buffers: dict[int, Any] = {}
        self.sizes: list[int] = []
        self.launches: list[tuple[int, int, list[int]]] = []
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        own = getattr(type(self), f"on_{name.removesuffix('_v2')}", None)

        def function(*arguments: Any) -> int:
            self.calls.append(name)
            return 0 if own is None else own(self, *arguments) or 0

        return function

    def on_cuDeviceGetAttribute(self, value: Any, number: int, device: Any) -> None:
        value._obj.value = {75: 9, 76: 0}[number]

    def on_cuPointerGetAttribute(self, value: Any, number: int, address: Any) -> None:
        value._obj.value = 1 if address.value % 2 else 0

    def on_cuMemGetInfo(self, free: Any, total: Any) -> None:
        free._obj.value, total._obj.value = self.free, TOTAL

    def on_cuMemAlloc(self, place: Any, size: Any) -> int:
        if sum(self.sizes) + size.value > self.free:
            return cuda.OUT_OF_MEMORY
        buffer = ctypes.create_string_buffer(size.value + 255)
        address = (ctypes.addressof(buffer) + 255) // 256 * 256
        self.buffers[address] = buffer, size.value
        self.sizes.append(size.value)
        place._obj.value = address
        return 0

    def on_cuMemFree(self, address: Any) -> None:
        del self.buffers[address.value]

    def on_cuMemcpyHtoDAsync(self, target: Any, source: Any, size: Any, stream: Any) -> None:
        self.check(target.value, size.value)
        ctypes.memmove(target.value, source.value, size.value)

    def on_cuMemcpyDtoHAsync(self, target: Any, source: Any, size: Any, stream: Any) -> None:
        self.check(source.value, size.value)
        ctypes.memmove(target.value, source.value, size.value)

    def on_cuModuleLoadData(self, module: Any, ptx: Any) -> None:
        assert b".visible .entry kernel0(" in ptx.value

    def on_cuLaunchKernel(self, function: Any, *rest: Any) -> None:
        across, _, _, block, *_ = rest
        arguments = rest[-2]
        cells = [ctypes.c_uint64.from_address(place).value for place in arguments]
        self.launches.append((across, block, cells))

    def check(self, address: int, size: int) -> None:
        """Refuse a copy that is not inside one buffer."""
        assert any(a <= address and address + size <= a + n for a, (_, n) in self.buffers.items())


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> RecordingLibrary:
    made = RecordingLibrary()
    engine = GpuEngine("cuda", lambda: cuda.CudaDriver(cuda._DriverLibrary(made), 0))
    monkeypatch.setitem(ENGINES, "cuda", engine)
    return made


def graph() -> tw.Graph:
    x, w = tw.var("x", (30, 40), "float32"), tw.var("w", (40, 50), "float32")
    y = tnp.sort(tnp.exp(x) @ w, axis=1)
    return tw.Graph([x], [y, tnp.sum(y, 0)], updates={w: w * 0.5})


def test_one_arena_of_the_planned_bytes_and_nothing_left_afterwards(
    library: RecordingLibrary,
) -> None:
    program = graph().compile(engine="cuda")
    planned = program.plan.peak_bytes
    x, w = np.ones((30, 40), "float32"), np.ones((40, 50), "float32")
    program.set(x=x, w=w)
    before = list(library.sizes)
    assert sorted(n for n in before if n > 8) == sorted([planned, x.nbytes, w.nbytes])
    program.run(3)
    assert library.sizes == before  # runs allocate nothing
    np.testing.assert_array_equal(program.get("x"), x)
    del program
    gc.collect()
    assert not library.buffers


def test_launches_stay_inside_the_memory_and_repeat_the_same_way(
    library: RecordingLibrary,
) -> None:
    program = graph().compile(engine="cuda")
    program.set(x=np.ones((30, 40), "float32"), w=np.ones((40, 50), "float32"))
    program.run()
    first = list(library.launches)
    library.launches.clear()
    program.run()
    assert [launch for launch in library.launches if launch not in first] == []
    assert len(first) >= len(library.launches) > 0  # what did not change is not computed again
    for blocks, block, cells in first:
        assert 0 < blocks < 1 << 31
        assert 0 < block <= 1024
        assert cells[0] in library.buffers
        assert cells[1] < library.buffers[cells[0]][1]
    assert library.calls[-1] == "cuMemcpyDtoHAsync_v2" or "cuStreamSynchronize" in library.calls


def test_too_little_memory_is_told_before_anything_is_allocated(library: RecordingLibrary) -> None:
    library.free = 5000
    with pytest.raises(MemoryError, match=r"cuda:0 .* has 0.0 MB free"):
        graph().compile(engine="cuda").run()
    assert not library.buffers


def test_arrays_of_other_libraries_are_bound_on_their_own_device(library: RecordingLibrary) -> None:
    driver = ENGINES["cuda"].driver
    state = ENGINES["cuda"].place(np.arange(4.0, dtype="float32"))
    interface = state.__cuda_array_interface__
    assert interface["shape"] == (4,)
    assert interface["data"] == (state.buffer.address, False)

    class Foreign:
        def __init__(self, shift: int, stream: int | None = None) -> None:
            place = state.buffer.address + shift
            self.__cuda_array_interface__ = {**interface, "data": (place, False), "stream": stream}

    x = tw.var("x", (4,), "float32")
    program = tw.Graph([x], x + 1).compile(engine="cuda")
    program.set(x=Foreign(0, stream=7), bind=True)
    assert program.get("x").tolist() == [0.0, 1.0, 2.0, 3.0]
    for wrong in (Foreign(1), np.zeros(4, "float32")):  # the library says odd places are elsewhere
        with pytest.raises(ValueError, match="in the memory of engine 'cuda'"):
            program.set(x=wrong, bind=True)
    assert driver.label == "cuda:0"
