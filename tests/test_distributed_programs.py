"""What a worker does with programs: compiled once, copied as threads and memory allow, bounded."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from random_graphs import assert_same_bits

pytest.importorskip("distributed")

from tawny.distributed import cluster, programs
from tawny.distributed.payloads import (
    CommonValues,
    MemoryRefusal,
    ProgramFile,
    Request,
    stack,
    unstack,
)
from tawny.distributed.programs import ProgramCache, WorkerFacts, run_rows
from tawny.graph.options import CompileOptions
from tawny.graph.saving import to_bytes

FACTS = WorkerFacts("one", tasks=1, threads=1, memory=None, taken=0)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets this process be a worker, with no programs yet; what it gives sets what is known of it."""

    def be(**facts: Any) -> ProgramCache:
        monkeypatch.setattr(programs, "worker_facts", lambda: FACTS._replace(**facts))
        monkeypatch.setattr(programs, "PROGRAMS", ProgramCache())
        return programs.PROGRAMS

    return be


def graph(number: float = 1.0, rows: int = 100) -> tw.Graph:
    x, k = tw.var("x", (rows, 10)), tw.var("k")
    return tw.Graph([x, k], tnp.sum(tnp.sort(tnp.tanh(x) + number, axis=0) * k, axis=1))


def as_file(given: tw.Graph, **options: Any) -> ProgramFile:
    data, chosen = to_bytes(given, "test"), CompileOptions(**options)
    return ProgramFile(f"{hash((data, chosen))}", np.frombuffer(data, np.uint8), chosen, "test")


def request(ks: Any, draw: int = 0) -> Request:
    return Request("sweep", tw.__version__, {"k": np.asarray(ks, float)}, len(ks), draw)


def common(value: float, rows: int = 100) -> CommonValues:
    x = np.linspace(-1, value, rows * 10).reshape(rows, 10)
    return CommonValues(str(value), {"x": x})


def expected(value: float, ks: Any, rows: int = 100) -> list[np.ndarray]:
    program = graph(rows=rows).compile()
    program.set(common(value, rows).values)
    return program.sweep(k=ks)


def test_a_program_is_compiled_once_and_takes_other_common_values(worker: Any) -> None:
    cache, file = worker(), as_file(graph())
    for value in (1.0, 2.0, 1.0):
        reply = run_rows(file, common(value), request([1.0, 2.0]))
        assert_same_bits(unstack(reply.outputs[0]), expected(value, [1.0, 2.0]))
    assert [p.nbytes > 0 for p in cache._programs.values()] == [True]


@pytest.mark.parametrize(
    ("tasks", "threads", "copies", "own"), [(1, 1, 1, 1), (3, 3, 3, 1), (1, 4, 1, 4), (2, 4, 2, 2), (4, 2, 2, 1)]
)  # fmt: skip
def test_each_task_has_a_copy_with_its_share_of_the_threads(
    worker: Any, tasks: int, threads: int, copies: int, own: int
) -> None:
    cache, file = worker(tasks=tasks, threads=threads), as_file(graph())
    program = cache.program_for(file, programs.worker_facts())
    together = threading.Barrier(copies, timeout=30)

    def run(number: int) -> Any:
        with program.borrow() as copy:
            together.wait()
            copy.adopt(common(1.0).values)
            return copy._program.plan.threads, copy.run({"k": float(number)}, 0)

    with ThreadPoolExecutor(copies) as pool:
        found = list(pool.map(run, range(copies)))
    assert [n for n, _ in found] == [own] * copies
    assert_same_bits([y for _, y in found], expected(1.0, range(copies)))
    assert (program._made, program._most) == (copies, copies)


def test_only_so_many_copies_are_made_as_fit_in_memory(worker: Any) -> None:
    bytes_of_one = graph(rows=1000).plan().peak_bytes + 8 * 10 * 1000 + 8
    cache = worker(tasks=4, threads=4, memory=int(2.5 * bytes_of_one))
    program = cache.program_for(as_file(graph(rows=1000)), programs.worker_facts())
    assert program._most in (1, 2)
    assert program._first.plan.threads == 4 // program._most


def test_too_little_memory_is_refused_after_others_were_forgotten(worker: Any) -> None:
    cache = worker(memory=10_000_000)
    run_rows(as_file(graph()), common(1.0), request([1.0]))
    file = as_file(graph(rows=200_000))
    reply = run_rows(file, common(1.0, 200_000), request([1.0]))
    assert isinstance(reply, MemoryRefusal)
    assert reply.reason.startswith("the plan takes ")
    assert "; worker one has 0.0 MB for it; " in reply.reason
    assert "no smaller plan fits" in reply.reason
    assert not cache._programs
    assert not isinstance(run_rows(as_file(graph()), common(1.0), request([1.0])), MemoryRefusal)


def test_programs_are_bounded_by_number_and_bytes(worker: Any) -> None:
    cache = worker()
    for number in range(programs.MOST_PROGRAMS + 3):
        run_rows(as_file(graph(number)), common(1.0), request([1.0]))
    assert len(cache._programs) == programs.MOST_PROGRAMS
    cache = worker(memory=1_000_000)
    for number in range(6):
        run_rows(as_file(graph(number, 1000)), common(1.0, 1000), request([1.0]))
    assert len(cache._programs) < 4
    assert sum(p.nbytes for p in cache._programs.values()) < 600_000


def test_another_version_of_the_client_is_refused(worker: Any) -> None:
    worker()
    asked = request([1.0])._replace(version="0.0.3")
    with pytest.raises(
        RuntimeError, match=r"sweep: worker one has Tawny .*; the client has 0\.0\.3"
    ):
        run_rows(as_file(graph()), common(1.0), asked)


def test_values_that_lie_at_any_byte_are_read(worker: Any) -> None:
    worker()
    x = common(1.0).values["x"]
    room = np.empty(x.nbytes + 1, np.uint8)
    odd = room[1:].view(x.dtype).reshape(x.shape)
    odd[...] = x
    assert not odd.flags.aligned
    reply = run_rows(as_file(graph()), CommonValues("odd", {"x": odd}), request([3.0]))
    assert_same_bits(unstack(reply.outputs[0]), expected(1.0, [3.0]))


def test_stacks_come_apart_again() -> None:
    values = [np.full((2, 3), k) for k in range(3)]
    assert_same_bits(unstack(stack(values)), values)
    whole = stack(values[:1])
    (one,) = unstack(whole)
    assert np.shares_memory(one, whole)
    whole.flags.writeable = False
    assert unstack(whole)[0].flags.writeable


@pytest.mark.parametrize(
    ("asked", "sizes"),
    [
        ((2, None, None), (2, 1)), ((16, None, None), (4, 4)), ((16, 2, None), (2, 8)),
        ((16, None, 3), (5, 3)), ((1, None, None), (1, 1)), ((2, 4, None), (4, 1)), ((2, None, 8), (1, 8)),
    ],
)  # fmt: skip
def test_a_cluster_is_as_large_as_the_machine(asked: Any, sizes: tuple[int, int]) -> None:
    assert cluster.worker_sizes(*asked) == sizes


@pytest.mark.parametrize("name", ["workers", "threads"])
def test_a_cluster_without_workers_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"cluster: {name} is 0; it must be at least 1"):
        tw.cluster(**{name: 0})


def test_without_dask_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tawny.distributed.dask.find_spec", lambda name: None)
    x = tw.var("x")
    program = tw.Graph([x], x + 1).compile()
    said = r"{} needs Dask: pip install 'tawny\[dask\]'"
    with pytest.raises(ImportError, match=said.format("cluster")):
        tw.cluster()
    with pytest.raises(ImportError, match=said.format("sweep")):
        program.sweep(x=[1.0], client="tcp://127.0.0.1:1")
    with pytest.raises(ImportError, match=said.format("map")):
        tw.map(program.graph, "tcp://127.0.0.1:1", x=[1.0])
