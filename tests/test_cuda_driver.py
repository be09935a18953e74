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
from tawny import random as draws
from tawny.engine.cuda import driver as cuda
from tawny.engine.gpu import executable, steps
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
        self.captures: dict[int, list[Any]] = {}
        """Launches and events on the streams that are captured, and those of graphs."""
        self.events: dict[int, float | None] = {}
        """When each event was recorded, if it was: each thing that is done takes a millisecond."""
        self.clock = 0.0
        self.modules: set[int] = set()
        self.functions: dict[int, int] = {}
        """For each function its module."""
        self.handles = 0
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        own = getattr(type(self), f"on_{name.removesuffix('_v2')}", None)

        def function(*arguments: Any) -> int:
            self.calls.append(name)
            return 0 if own is None else own(self, *arguments) or 0

        return function

    def handle(self, place: Any) -> int:
        """A new handle."""
        self.handles += 1
        place._obj.value = self.handles
        return self.handles

    def on_cuStreamCreate(self, stream: Any, flags: int) -> None:
        self.handle(stream)

    def on_cuStreamBeginCapture(self, stream: Any, mode: int) -> None:
        self.captures[stream.value] = []

    def on_cuStreamEndCapture(self, stream: Any, graph: Any) -> None:
        self.captures[self.handle(graph)] = self.captures.pop(stream.value)

    def on_cuGraphInstantiateWithFlags(self, made: Any, graph: Any, flags: Any) -> None:
        self.captures[self.handle(made)] = self.captures[graph.value]

    def on_cuGraphDestroy(self, graph: Any) -> None:
        del self.captures[graph.value]

    def on_cuGraphExecDestroy(self, graph: Any) -> None:
        del self.captures[graph.value]

    def on_cuGraphLaunch(self, graph: Any, stream: Any) -> None:
        for one in self.captures[graph.value]:
            self.do(one)

    def do(self, one: Any) -> None:
        """Run a launch, which takes a millisecond, or record an event."""
        if isinstance(one, int):
            self.events[one] = self.clock
        else:
            self.clock += 1.0
            self.launches.append(one)

    def on_cuEventCreate(self, event: Any, flags: Any) -> None:
        self.events[self.handle(event)] = None

    def on_cuEventRecordWithFlags(self, event: Any, stream: Any, flags: Any) -> None:
        assert event.value in self.events
        captured = self.captures.get(stream.value)
        assert flags.value == (cuda.EXTERNAL if captured is not None else 0)
        self.do(event.value) if captured is None else captured.append(event.value)

    def on_cuEventElapsedTime(self, milliseconds: Any, first: Any, second: Any) -> None:
        begin, end = self.events[first.value], self.events[second.value]
        assert begin is not None
        assert end is not None
        milliseconds._obj.value = end - begin

    def on_cuEventDestroy(self, event: Any) -> None:
        del self.events[event.value]

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
        self.modules.add(self.handle(module))

    def on_cuModuleGetFunction(self, function: Any, module: Any, name: Any) -> None:
        self.functions[self.handle(function)] = module.value

    def on_cuModuleUnload(self, module: Any) -> None:
        self.modules.remove(module.value)

    def on_cuLaunchKernel(self, function: Any, *rest: Any) -> None:
        assert self.functions[function.value] in self.modules
        across, _, _, block, *_ = rest
        stream, arguments = rest[-3:-1]
        cells = [ctypes.c_uint64.from_address(place).value for place in arguments]
        one = across, block, cells
        self.do(one) if stream.value not in self.captures else self.captures[stream.value].append(
            one
        )

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
    assert sorted(n for n in before if n > 16) == sorted([planned, x.nbytes, w.nbytes])
    program.run(3)
    assert library.sizes == before  # runs allocate nothing
    np.testing.assert_array_equal(program.get("x"), x)
    del program
    gc.collect()
    assert not library.buffers
    assert not library.captures


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


def test_code_goes_with_the_last_that_may_need_it(
    library: RecordingLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that compiles for every shape keeps the code of its last programs alone."""
    monkeypatch.setattr(cuda, "MOST_FUNCTIONS", 8)

    def compiled(size: int) -> tw.Program:
        x = tw.var("x", (size, 3))
        return tw.Graph([x], tnp.exp(x) @ x.T).compile(engine="cuda")

    first = compiled(2)
    for size in range(3, 30):
        compiled(size)(np.ones((size, 3)))
    gc.collect()
    assert len(library.modules) <= 9
    first(np.ones((2, 3)))
    assert library.launches


def test_too_little_memory_is_told_before_anything_is_allocated(library: RecordingLibrary) -> None:
    library.free = 5000
    with pytest.raises(MemoryError, match=r"cuda:0 .* has 0.0 MB free"):
        graph().compile(engine="cuda").run()
    assert not library.buffers


def test_a_variable_without_room_is_told_when_it_is_set(library: RecordingLibrary) -> None:
    x = tw.var("x", (1000,))
    program = tw.Graph([x], tnp.sum(x)).compile(engine="cuda")
    library.free = 5000
    with pytest.raises(MemoryError, match="cuda:0 has no 8,000 bytes in one piece; 5,000 are free"):
        program.set(x=np.zeros(1000))
    assert not program.state
    library.free = TOTAL
    program.set(x=np.zeros(1000))
    program.run()


def test_arrays_of_other_libraries_are_bound_on_their_own_device(library: RecordingLibrary) -> None:
    driver = ENGINES["cuda"].driver
    state = ENGINES["cuda"].place(np.arange(4.0, dtype="float32"))
    interface = state.__cuda_array_interface__
    assert interface["shape"] == (4,)
    assert interface["data"] == (state.buffer.address, False)
    v = tw.var("v", (4,), "float32")
    running = tw.Graph([v], v * 2).compile(engine="cuda")
    running.set(v=np.zeros(4, "float32"))
    view = running.run(views=True)
    assert not view.writeable
    assert view.__cuda_array_interface__["data"][1] is False  # else PyTorch does not read it

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


def counts(library: RecordingLibrary, name: str) -> int:
    return library.calls.count(name)


def test_a_run_is_one_launch_of_a_captured_graph(library: RecordingLibrary) -> None:
    """One for each set of changed inputs, made when first used; updates are in it."""
    program = graph().compile(engine="cuda")
    program.set(x=np.ones((30, 40), "float32"), w=np.ones((40, 50), "float32"))
    program.run()
    assert counts(library, "cuGraphLaunch") == 1
    launched = library.launches[:]
    library.launches.clear()
    library.calls.clear()
    program.run(100)
    assert counts(library, "cuGraphInstantiateWithFlags") == 1  # without what w does not change
    assert counts(library, "cuGraphLaunch") == 100
    assert counts(library, "cuStreamSynchronize") < 10
    assert len(library.launches) % 100 == 0
    once = library.launches[: len(library.launches) // 100]
    assert once == launched[-len(once) :]
    library.calls.clear()
    program.run(100)
    program.set(x=np.zeros((30, 40), "float32"))
    program.run()
    assert counts(library, "cuGraphInstantiateWithFlags") == 1


def test_runs_that_were_asked_for_when_control_c_came_are_counted(
    library: RecordingLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the device: whether a launch was asked for that was interrupted, nobody else knows."""
    program = graph().compile(engine="cuda")
    program.set(x=np.ones((30, 40), "float32"), w=np.ones((40, 50), "float32"))
    driver, cells = ENGINES["cuda"].driver, program._compiled.executable._cells
    ask, left = driver.launch_graph, [5]

    def launch_graph(self: Any, captured: Any) -> None:
        ask(captured)
        place = ctypes.c_uint64.from_address(cells.address + 8)
        place.value += 1  # the last kernel of a run does it
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(cuda.CudaDriver, "launch_graph", launch_graph)
    with pytest.raises(KeyboardInterrupt):
        program.run(100)
    assert program.draw == 5
    program.run(2)
    assert program.draw == 7


def test_what_is_bound_elsewhere_is_captured_anew(library: RecordingLibrary) -> None:
    x = tw.var("x", (4,), "float32")
    program = tw.Graph([x], x + 1).compile(engine="cuda")
    places = [ENGINES["cuda"].place(np.zeros(4, "float32")) for _ in range(2)]
    for place in (*places, places[0]):
        program.set(x=place, bind=True)
        library.launches.clear()
        program.run()
        ((_, _, cells),) = library.launches
        assert cells[0] == place.buffer.address


def test_a_capture_that_fails_leaves_the_program_usable(
    library: RecordingLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = tw.var("x", (4,), "float32")
    program = tw.Graph([x], x + 1).compile(engine="cuda")
    program.set(x=np.zeros(4, "float32"))
    monkeypatch.setattr(RecordingLibrary, "on_cuLaunchKernel", lambda *_: 719)
    with pytest.raises(cuda.CudaError, match="cuLaunchKernel"):
        program.run()
    assert not library.captures
    monkeypatch.undo()


def test_steps_of_the_host_lie_between_graphs(library: RecordingLibrary) -> None:
    x = tw.var("x", (8,))
    doubled = tw.delay(lambda a: a * 2, tnp.exp(x), shape=(8,), dtype="float64")
    program = tw.Graph([x], tnp.sum(doubled), updates={x: x + 1}).compile(engine="cuda")
    program.set(x=np.ones(8))
    program.run(3)
    assert counts(library, "cuGraphInstantiateWithFlags") in (2, 4)
    assert counts(library, "cuGraphLaunch") == 6


def running(length: int) -> tw.Graph:
    x, w = tw.var("x", (length, 8), "float32"), tw.var("w", (8, 8), "float32")
    carry, rows = tw.scan(lambda c, a: (tnp.tanh(c @ w + a), c), x[0] * 0, x)
    return tw.Graph([x, w], [carry, rows])


def test_steps_of_a_loop_are_in_the_captured_graph(library: RecordingLibrary) -> None:
    """Each with its own rows; nothing is copied to or from the host."""
    program = running(10).compile(engine="cuda", incremental=False)
    program.set(x=np.ones((10, 8), "float32"), w=np.ones((8, 8), "float32"))
    program.run(views=True)
    library.calls.clear()
    library.launches.clear()
    program.run(views=True)
    assert counts(library, "cuGraphLaunch") == 1
    assert not counts(library, "cuMemcpyDtoHAsync_v2") + counts(library, "cuMemcpyHtoDAsync_v2")
    assert len({tuple(cells) for _, _, cells in library.launches}) >= 10


def test_a_loop_of_very_many_launches_is_not_captured(
    library: RecordingLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "MOST_RECORDED", 9)
    program = running(10).compile(engine="cuda")
    program.set(x=np.ones((10, 8), "float32"), w=np.ones((8, 8), "float32"))
    program.run(views=True)
    assert not any(len(graph) >= 10 for graph in library.captures.values())


def test_the_device_is_waited_for_after_so_many_launches(
    library: RecordingLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that Control-C is heard where a run launches much."""
    program = running(10).compile(engine="cuda", incremental=False)
    program.set(x=np.ones((10, 8), "float32"), w=np.ones((8, 8), "float32"))
    program.run()
    monkeypatch.setattr(executable, "MOST_ASKED", 30)
    program = running(10).compile(engine="cuda", incremental=False)
    program.set(x=np.ones((10, 8), "float32"), w=np.ones((8, 8), "float32"))
    library.calls.clear()
    program.run(100)
    assert counts(library, "cuStreamSynchronize") >= 30


def test_draws_take_the_number_of_the_run_from_the_device(library: RecordingLibrary) -> None:
    """The host writes it where it does not follow from the run before."""
    program = tw.Graph([], draws.uniform(shape=(8,))).compile(engine="cuda")
    program.run(50)
    copied = counts(library, "cuMemcpyHtoDAsync_v2")
    assert counts(library, "cuGraphLaunch") == 50
    program.run(50)
    assert counts(library, "cuMemcpyHtoDAsync_v2") == copied


def test_steps_are_timed_by_events_in_the_graph(library: RecordingLibrary) -> None:
    """A measured run is launched as others are: no step waits for Python."""
    program = graph().compile(engine="cuda", incremental=False)
    program.set(x=np.ones((30, 40), "float32"), w=np.ones((40, 50), "float32"))
    executable = program._compiled.executable
    positions = range(len(program.plan.steps))
    program.run()
    before = program.draw
    for _ in range(3):
        library.calls.clear()
        library.launches.clear()
        measurement = executable.measure(positions, before)
        assert counts(library, "cuGraphLaunch") == 1
        assert counts(library, "cuStreamSynchronize") <= 3
        took = [*measurement.step_seconds, measurement.update_seconds]
        assert sum(took) == pytest.approx(len(library.launches) * 1e-3)
        assert min(took[:-1]) >= 1e-3  # every step launches something
        spans = measurement.find_spans()
        assert [span.position for span in spans[:-1]] == [*positions]
        assert [span.stop - span.start for span in spans] == pytest.approx(took)
    assert counts(library, "cuGraphInstantiateWithFlags") == 0  # the graph of the first is kept
    program.set(w=np.zeros((40, 50), "float32"))
    del program, executable, measurement
    gc.collect()
    assert not library.events
    assert not library.captures


def test_steps_of_the_host_are_timed_between_events(library: RecordingLibrary) -> None:
    x = tw.var("x", (8,))
    doubled = tw.delay(lambda a: a * 2, tnp.exp(x), shape=(8,), dtype="float64")
    program = tw.Graph([x], tnp.sum(doubled)).compile(engine="cuda")
    program.set(x=np.ones(8))
    program.run()
    measurement = program._compiled.executable.measure(range(len(program.plan.steps)), 1)
    names = [step.array.node.name for step in program.plan.steps]
    took = dict(zip(names, measurement.step_seconds, strict=True))
    assert took.pop("delay") == 0  # by the clock here, on which only launches take time
    assert min(took.values()) >= 1e-3
