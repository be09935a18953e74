"""Arrays in the memory of devices: bound, shared by programs, read where they lie."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from engines import DEVICE, has_device, needs_device
from tawny import nn, optim
from tawny.engine.gpu.array import GpuArray
from tawny.engine.protocol import Device, engine_named
from tawny.graph.memory_limits import check_fits_device

pytestmark = pytest.mark.filterwarnings("ignore:compile. it took")

RNG = np.random.default_rng(0)


class Exporter:
    """An array that has nothing but DLPack, as another library's."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def counting() -> tw.Graph:
    n, step = tw.var("n", (5,)), tw.var("step", (5,))
    return tw.Graph([step], n * 2, updates={n: n + step})


# ----------------------------------------------------------------------- the host


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_arrays_of_other_libraries_are_bound_by_dlpack(name: str) -> None:
    mine, step = np.zeros(5), np.ones(5)
    program = counting().compile(engine=name)
    program.set(n=Exporter(mine), step=Exporter(step), bind=True)
    program.run(3)
    assert mine.tolist() == [3.0] * 5
    step[:] = 2.0
    program.touch("step")
    program.run()
    assert mine.tolist() == [5.0] * 5


def test_what_cannot_be_bound_is_refused() -> None:
    program = counting().compile()
    locked = np.zeros(5)
    locked.flags.writeable = False
    for value in ([0.0] * 5, Exporter(np.zeros(5, "float32")), Exporter(np.zeros(10)[::2])):
        with pytest.raises(ValueError, match="'n' can be bound only to a contiguous float64"):
            program.set(n=value, bind=True)
    with pytest.raises(ValueError, match="read-only"):
        program.set(n=locked, bind=True)
    assert not program.state


# --------------------------------------------------------------------- a device


@needs_device
def test_outputs_are_read_where_they_lie_and_bound_by_other_programs() -> None:
    x, y = tw.var("x", (4, 6), "float32"), tw.var("y", (4, 6), "float32")
    first = tw.Graph([x], [tnp.exp(x), tnp.exp(x).T[1:]]).compile(engine=DEVICE)
    second = tw.Graph([y], tnp.sum(y, 0)).compile(engine=DEVICE)
    value = RNG.standard_normal((4, 6)).astype("float32")
    first.set(x=value)
    whole, part = first.run(views=True)
    assert isinstance(whole, GpuArray)
    assert (whole.shape, whole.dtype, whole.device) == ((4, 6), np.float32, f"{DEVICE}:0")
    np.testing.assert_allclose(np.asarray(part), np.exp(value).T[1:], rtol=1e-6)
    np.testing.assert_array_equal(whole.to_device("cpu"), whole.numpy())
    second.set(y=whole, bind=True)
    np.testing.assert_allclose(second.run(), np.exp(value).sum(0), rtol=1e-6)
    first.set(x=value + 1)
    first.run()
    second.touch("y")
    np.testing.assert_allclose(second.run(), np.exp(value + 1).sum(0), rtol=1e-6)
    second.set(y=value)  # what was bound is left as it is
    np.testing.assert_allclose(whole, np.exp(value + 1), rtol=1e-6)
    for views in (whole, part):
        with pytest.raises(ValueError, match="read-only"):
            views[...] = 0.0


@needs_device
def test_programs_share_a_variable_of_the_device() -> None:
    place = engine_named(DEVICE).place
    state, step = place(np.zeros(5)), place(np.ones(5))
    programs = [counting().compile(engine=DEVICE) for _ in range(2)]
    for program in programs:
        program.set(n=state, step=step, bind=True)
    for program in (*programs, programs[0]):
        program.run(2)
    assert state.numpy().tolist() == [6.0] * 5
    state[...] = np.arange(5)
    programs[1].touch("n")
    programs[1].run()
    assert state.numpy().tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


@needs_device
def test_what_lies_elsewhere_cannot_be_bound_to_a_device() -> None:
    place = engine_named(DEVICE).place
    program = counting().compile(engine=DEVICE)
    v = tw.var("v", (10,))
    other = tw.Graph([v], (v + 1)[::2]).compile(engine=DEVICE)
    other.set(v=np.zeros(10))
    view = other.run(views=True)
    for value in (np.zeros(5), place(np.zeros(5, "float32")), place(np.zeros(4)), view):
        with pytest.raises(ValueError, match=f"in the memory of engine '{DEVICE}'"):
            program.set(n=value, bind=True)
    with pytest.raises(ValueError, match="cannot share memory"):
        program.set(n=(same := place(np.zeros(5))), step=same, bind=True)
    program.set(n=np.zeros(5), step=np.zeros(5))
    doubled = program.run(views=True)
    with pytest.raises(ValueError, match="read-only"):
        program.set(n=doubled, bind=True)
    with pytest.raises(ValueError, match="each run overwrites"):
        program.set(step=doubled, bind=True)
    cpu = counting().compile()
    with pytest.raises(ValueError, match="in the memory of engine 'cpu'"):
        cpu.set(n=place(np.zeros(5)), bind=True)


@needs_device
def test_training_on_a_device_gives_what_the_processor_gives(tmp_path: Any) -> None:
    x = RNG.standard_normal((50, 12, 12, 1)).astype("float32")
    y = RNG.integers(0, 3, 50)
    data, held_out = (x[:40], y[:40]), (x[40:], y[40:])
    found: dict[str, Any] = {}
    for engine in ("cpu", DEVICE):
        tw.random.seed(1)
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3, activation="relu"), nn.BatchNorm(4), nn.MaxPool2d(2), nn.Flatten(),
            nn.Dropout(0.9), nn.Linear(100, 3),
        )  # fmt: skip
        options: dict[str, Any] = {
            "batch": 16, "validation": held_out, "engine": engine, "seed": 3,
            "checkpoint": tmp_path / f"{engine}.safetensors",
        }  # fmt: skip
        nn.train(model, nn.cross_entropy, data, optim.Adam(1e-2), epochs=2, **options)
        resumed = {**options, "resume": options["checkpoint"]}
        history = nn.train(model, nn.cross_entropy, data, optim.Adam(1e-2), epochs=3, **resumed)
        found[engine] = history.batch_loss, history.validation["loss"], model.parameters
        assert "by the host" not in repr(history.program.explain())
    for one, other in zip(*map(_leaves, found.values()), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-5)


def _leaves(structure: Any) -> list[Any]:
    if isinstance(structure, dict):
        return [leaf for item in structure.values() for leaf in _leaves(item)]
    if isinstance(structure, tuple):
        return [leaf for item in structure for leaf in _leaves(item)]
    return [np.asarray(structure)]


@needs_device
@pytest.mark.parametrize("memory", [None, 70_000])
def test_what_is_allocated_is_what_was_planned(
    monkeypatch: pytest.MonkeyPatch, memory: int | None
) -> None:
    """One arena of exactly the planned bytes, and a buffer for each variable and constant."""
    driver = engine_named(DEVICE).driver
    allocate, sizes = driver.allocate, list[int]()
    monkeypatch.setattr(driver, "allocate", lambda n: (sizes.append(n), allocate(n))[1])
    x = tw.var("x", (40, 50))
    table = tnp.asarray(RNG.standard_normal((50, 60)))
    y = tnp.sort(tnp.exp(x) @ table, axis=1)
    for _ in range(4):
        y = tnp.cumsum(tnp.sort(y * 2, axis=1), axis=0) * 0.1
    program = tw.Graph([x], [y, tnp.sum(y)], updates={x: x * 0.5}).compile(
        engine=DEVICE, memory=memory
    )
    planned = program.plan.peak_bytes
    assert memory is None or planned <= memory
    program.set(x=RNG.standard_normal((40, 50)))
    program.run(3, views=True)
    single = 16  # what checks write to, the number of the run, and constants of one number
    assert sorted([n for n in sizes if n > single]) == sorted([planned, 40 * 50 * 8, 50 * 60 * 8])


CHUNK = 2 << 20
"""Bytes that NVIDIA's driver gives large arrays multiples of."""


@pytest.mark.skipif(DEVICE != "cuda" or not has_device(), reason="only NVIDIA's driver says that")
def test_the_device_has_as_many_bytes_less_as_were_planned() -> None:
    x = tw.var("x", (5000, 7000))
    graph = tw.Graph([x], tnp.cumsum(tnp.exp(x), 1))
    programs = [graph.compile(engine=DEVICE)]  # its code stays on the device
    device = engine_named(DEVICE).device
    before = device().free_bytes
    programs.append(graph.compile(engine=DEVICE))
    programs[-1].set(x=np.zeros((5000, 7000)))
    programs[-1].run(views=True)
    after, plan = device().free_bytes, programs[-1].plan
    assert before is not None
    assert after is not None
    assert 0 <= before - after - plan.peak_bytes - plan.resident_bytes <= 3 * CHUNK


@needs_device
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_is_told_that_the_device_is_its_parent_s() -> None:
    program = counting().compile(engine=DEVICE)
    program.set(n=np.zeros(5), step=np.ones(5))
    program.run()
    child = os.fork()
    if not child:
        told = False
        try:
            program.run()
        except RuntimeError as error:
            told = "start a new process" in str(error)
        os._exit(0 if told else 1)
    assert os.waitpid(child, 0)[1] == 0
    program.run()
    assert program.state["n"].tolist() == [2.0] * 5


# ----------------------------------------------------------------------- devices


def test_devices_have_memory_and_their_labels_are_engines() -> None:
    host, *others = tw.devices()
    assert host.label == "cpu"
    assert 0 < host.largest_bytes <= host.total_bytes
    x = tw.var("x")
    for device in others:
        assert 0 < device.largest_bytes <= device.total_bytes
        assert float(tw.Graph([x], x + 1).compile(engine=device.label)(1.0)) == 2.0
    assert has_device() == any(d.label == f"{DEVICE}:0" for d in others)


@needs_device
def test_devices_that_are_not_there_are_refused() -> None:
    x = tw.var("x")
    for name, said in (
        (f"{DEVICE}:99", f"there is no .* 99; accepted: '{DEVICE}:0'"),
        (f"{DEVICE}:one", f"engine '{DEVICE}:one' is not known"),
        ("cpu:1", "engine 'cpu:1' is not known"),
    ):
        with pytest.raises(ValueError, match=said):
            tw.Graph([x], x + 1).compile(engine=name)


def test_a_plan_above_a_device_s_memory_is_refused() -> None:
    device = Device("cuda:0", "a GPU", 1000, 900, 500)
    check_fits_device(device, 500, 400, lambda: 0)
    for arena, outside, least, said in (
        (600, 0, 500, r"compile\(memory=500\)"),
        (400, 501, 399, r"compile\(memory=399\)"),
        (400, 501, 400, "no smaller plan fits"),
    ):
        with pytest.raises(MemoryError, match=said):
            check_fits_device(device, arena, outside, lambda least=least: least)


@needs_device
def test_a_graph_above_the_device_s_largest_buffer_is_refused_before_it_is_allocated() -> None:
    n = engine_named(DEVICE).device().largest_bytes // 8 + 1
    x = tw.var("x")
    big = tnp.cumsum(tnp.broadcast_to(x, (n,)))
    with pytest.raises(MemoryError, match="in one piece"):
        tw.Graph([x], big).compile(engine=DEVICE)
