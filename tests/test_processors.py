"""What a process may use of its machine, as the files of the system say: made-up machines."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tawny import cgroups, cli
from tawny.cgroups import MemoryRoom, memory_rooms, processor_quota
from tawny.distributed.cluster import worker_sizes
from tawny.engine.cpu.threads import pool
from tawny.engine.cpu.threads.processors import Processors, find_processors, processors

V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/cpu,cpuacct"

QUOTAS: Mapping[str, tuple[dict[str, str], float]] = {
    "nothing is said": ({}, math.inf),
    "version 2, a container": (
        {"proc/self/cgroup": "0::/\n", f"{V2}/cpu.max": "150000 100000\n"},
        1.5,
    ),
    "version 2, no limit": (
        {"proc/self/cgroup": "0::/\n", f"{V2}/cpu.max": "max 100000\n"},
        math.inf,
    ),
    "version 2, nested, the tightest counts": (
        {
            "proc/self/cgroup": "0::/pod/inner\n",
            f"{V2}/pod/cpu.max": "200000 100000\n",
            f"{V2}/pod/inner/cpu.max": "400000 100000\n",
        },
        2.0,
    ),
    "version 2, the path is that of the host": (
        {"proc/self/cgroup": "0::/docker/0123\n", f"{V2}/cpu.max": "300000 100000\n"},
        3.0,
    ),
    "version 1": (
        {
            "proc/self/cgroup": "5:memory:/\n4:cpu,cpuacct:/slice\n",
            f"{V1}/slice/cpu.cfs_quota_us": "250000\n",
            f"{V1}/slice/cpu.cfs_period_us": "100000\n",
        },
        2.5,
    ),
    "version 1, no limit": (
        {
            "proc/self/cgroup": "4:cpu,cpuacct:/\n",
            f"{V1}/cpu.cfs_quota_us": "-1\n",
            f"{V1}/cpu.cfs_period_us": "100000\n",
        },
        math.inf,
    ),
    "version 1, by the name of one controller": (
        {
            "proc/self/cgroup": "4:cpu:/docker/0123\n0::/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        0.5,
    ),
    "both versions": (
        {
            "proc/self/cgroup": "4:memory:/\n0::/own\n",
            f"{V2}/unified/own/cpu.max": "700000 100000\n",
        },
        7.0,
    ),
    "nonsense": (
        {"proc/self/cgroup": "junk\n0::/\n::\n", f"{V2}/cpu.max": "some 0 words\n"},
        math.inf,
    ),
}


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize("name", QUOTAS)
def test_quotas_of_containers(name: str, tmp_path: Path) -> None:
    files, expected = QUOTAS[name]
    write(tmp_path, files)
    assert processor_quota(tmp_path) == expected
    assert 0 < processor_quota() <= math.inf


def test_memory_of_containers(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pod/inner\n6:memory:/slice\n",
            f"{V2}/pod/memory.max": "1000\n",
            f"{V2}/pod/memory.current": "700\n",
            f"{V2}/pod/memory.stat": "anon 100\ninactive_file 50\n",
            f"{V2}/pod/inner/memory.max": "max\n",
            f"{V2}/pod/inner/memory.current": "700\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "900\n",
            "sys/fs/cgroup/memory/slice/memory.limit_in_bytes": "2000\n",
            "sys/fs/cgroup/memory/slice/memory.usage_in_bytes": "2600\n",
        },
    )
    assert memory_rooms(tmp_path) == [MemoryRoom(1000, 350), MemoryRoom(2000, 0)]
    assert memory_rooms(tmp_path / "missing") == []


def machine(cores: int, threads: int, nodes: int = 1) -> dict[str, str]:
    """A machine whose processors 0, 1, ... are the first threads of its cores, as Linux counts."""
    found: dict[str, str] = {}
    for number in range(cores * threads):
        siblings = ",".join([str(number % cores + k * cores) for k in range(threads)])
        topology = f"sys/devices/system/cpu/cpu{number}/topology"
        found[f"{topology}/thread_siblings_list"] = f"{siblings}\n"
    each = cores // nodes
    for node in range(nodes):
        lists = [
            f"{k * cores + node * each}-{k * cores + (node + 1) * each - 1}" for k in range(threads)
        ]
        found[f"sys/devices/system/node/node{node}/cpulist"] = ",".join(lists) + "\n"
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="these are Linux's files")
@pytest.mark.parametrize(
    ("allowed", "cores", "threads", "nodes", "expected"),
    [
        (range(16), 16, 1, 1, (16, 16, 1)),
        (range(16), 8, 2, 1, (16, 8, 1)),
        (range(64), 32, 2, 2, (64, 32, 2)),
        ([0, 1, 8, 9], 8, 2, 1, (4, 2, 1)),
        ([0, 8], 8, 2, 1, (2, 1, 1)),
        ([3, 11, 5], 8, 2, 2, (3, 2, 2)),
        ([3], 8, 2, 2, (1, 1, 1)),
        (range(32), 8, 4, 2, (32, 8, 2)),
    ],
)
def test_cores_are_told_from_hyperthreads(
    allowed: list[int],
    cores: int,
    threads: int,
    nodes: int,
    expected: tuple[int, ...],
    tmp_path: Path,
) -> None:
    write(tmp_path, machine(cores, threads, nodes))
    found = find_processors(frozenset(allowed), tmp_path)
    assert found == (*expected, math.inf)
    assert (found.usable, found.usable_cores) == expected[:2]
    assert find_processors(frozenset(allowed), tmp_path / "missing")[:3] == (
        len(allowed),
        len(allowed),
        1,
    )


def test_threads_are_as_many_as_cores_and_quota_allow() -> None:
    table = [
        (Processors(16, 8, 1, math.inf), 16, 8, "16 processors on 8 cores"),
        (
            Processors(16, 8, 1, 12.0),
            12,
            8,
            "16 processors on 8 cores of which a container leaves the time of 12",
        ),
        (
            Processors(16, 8, 1, 4.5),
            5,
            5,
            "16 processors on 8 cores of which a container leaves the time of 4.5",
        ),
        (Processors(64, 32, 2, math.inf), 64, 32, "64 processors on 32 cores in 2 NUMA nodes"),
        (Processors(2, 1, 1, math.inf), 2, 1, "2 processors on 1 core"),
        (
            Processors(1, 1, 1, 0.25),
            1,
            1,
            "1 processor of which a container leaves the time of 0.25",
        ),
    ]
    for found, usable, cores, said in table:
        assert (found.usable, found.usable_cores, str(found)) == (usable, cores, said)


def test_this_machine_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = processors()
    assert 1 <= here.usable_cores <= here.usable <= here.logical <= (os.cpu_count() or 1)
    monkeypatch.delenv("TAWNY_THREADS", raising=False)
    for module in (pool, cli):
        monkeypatch.setattr(module, "processors", lambda: Processors(32, 16, 2, 12.0))
    assert pool.default_threads() == 12
    assert cli.main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "12 (one for each core to use; 32 processors on 16 cores in 2 NUMA nodes" in said
    assert worker_sizes(12, 3, None) == (3, 4)
    assert cgroups.processor_quota() > 0
