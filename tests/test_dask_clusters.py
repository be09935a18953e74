"""Arrays in blocks on worker processes: NumPy's numbers, within a budget, whatever happens."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from clusters import kill, start_cluster, worker_processes

da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def program_count() -> int:
    """How many programs of blocks this process keeps."""
    from tawny.distributed.blocks.tasks import RUNNERS

    return len(RUNNERS._runners)


def test_workers_compute_blocks_by_programs_that_each_compiles_once(client: Any) -> None:
    value = numbers((400, 60))
    x = da.from_array(value, chunks=(40, 60))
    before = client.run(program_count)
    found = tw.jit(lambda x: (tnp.std(tnp.exp(x), axis=0), tnp.roll(x, 1, 0) * x, x.T @ x))(x)
    got = client.gather(client.compute(found))
    expected = np.std(np.exp(value), axis=0), np.roll(value, 1, 0) * value, value.T @ value
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    after = client.run(program_count)
    assert all(0 < after[w] - before[w] <= 12 for w in before)


def test_bits_are_those_of_one_process(client: Any) -> None:
    x = da.from_array(numbers((300, 70)), chunks=(40, 30))
    made = tw.jit(lambda x: tnp.var(x @ x.T) + tnp.sum(tnp.sin(x)))(x)
    here = made.compute(scheduler="threads")
    assert made.compute().tobytes() == here.tobytes()


def slowly(block: np.ndarray) -> np.ndarray:
    time.sleep(0.05)
    return block


def test_a_killed_worker_costs_no_result(client: Any) -> None:
    value = numbers((400, 50))
    x = da.from_array(value, chunks=(10, 50)).map_blocks(slowly, dtype="float64")
    future = client.compute(tw.jit(lambda x: tnp.sum(tnp.exp(x), axis=1) / tnp.mean(x))(x))
    victim = next(iter(worker_processes(client).values()))
    threading.Timer(0.5, lambda: kill(victim)).start()
    np.testing.assert_allclose(
        future.result(60), np.exp(value).sum(axis=1) / value.mean(), rtol=1e-9
    )


def reset_peak() -> None:
    """Forget the most memory that this process took so far."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def peak_bytes() -> int:
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def taken_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_workers_stay_within_the_budget() -> None:
    """An array of 320 MB, in blocks of 80 MB, is reduced within 40 MB beside what gives the blocks."""
    with start_cluster(1, memory_limit="2GB") as cluster, cluster.get_client() as client:
        x = da.ones((4, 10_000_000), chunks=(1, 10_000_000))
        function = tw.jit(
            lambda x: tnp.sum(tnp.sort(tnp.reshape(x, (-1, 100)), axis=1) * x[0, 0]), memory="40MB"
        )
        small = da.ones((4, 1000), chunks=(1, 1000))
        assert function(small).compute() == 4000
        before = client.run(taken_bytes)
        client.run(reset_peak)
        assert function(x).compute() == 40_000_000
        (most,) = client.run(peak_bytes).values()
        (taken,) = before.values()
        blocks = (
            3 * 80_000_000
        )  # at most: one that is made, one that is read, and what is cut of it
        assert most - taken < blocks + 40_000_000


def test_the_default_budget_is_that_of_the_workers() -> None:
    with start_cluster(1, memory_limit="400MB") as cluster, cluster.get_client():
        x = da.ones((8_000_000,), chunks=8_000_000)
        found = tw.jit(lambda x: tnp.exp(x) + 1)(x)
        assert 1 < found.numblocks[0] <= 4
        with pytest.raises(MemoryError, match="sort of operands"):
            tw.jit(lambda x: tnp.sort(x) + 1)(x)


def test_a_worker_of_another_version_is_refused(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = da.from_array(numbers((30, 4)), chunks=(10, 4))
    monkeypatch.setattr(tw, "__version__", "9.9")
    made = tw.jit(lambda x: x + 1.5)(x)
    with pytest.raises(RuntimeError, match=r"worker .* has Tawny .*; the client has 9.9"):
        made.compute()
