"""Clusters of worker processes for tests: one that all tests share, and workers added by hand."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tawny as tw

WORKERS = 2
SOURCE = Path(tw.__file__).parents[1]


def start_cluster(workers: int = WORKERS, **options: Any) -> Any:
    """Worker processes that find Tawny where the tests found it."""
    dask = importlib.import_module("dask")
    # A worker that is killed while the one killed 15 s before begins anew would never come back.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    paths = [str(SOURCE), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    env = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    known = {"env": env, "preload": ["cluster_functions"], "dashboard_address": ":0"}
    return tw.cluster(workers, threads=1, **known, **options)


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[Any]:
    """Two workers, which are there as long as tests run."""
    with start_cluster() as cluster:
        yield cluster


@pytest.fixture
def client(shared_cluster: Any) -> Iterator[Any]:
    """A client of the shared cluster, whose workers are all there."""
    with shared_cluster.get_client() as client:
        client.wait_for_workers(WORKERS, timeout=60)
        yield client
        wait_until(lambda: len(client.scheduler_info()["workers"]) == WORKERS)


def wait_until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something that happens soon."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def worker_processes(client: Any) -> dict[str, int]:
    """The process of each worker, by its address."""
    return dict(client.run(os.getpid))


def kill(process: int) -> None:
    """End a process at once."""
    os.kill(process, signal.SIGKILL)


@contextmanager
def further_worker(
    client: Any, name: str, *options: str, path: Path | None = None
) -> Generator[int]:
    """One more worker, under that name; it finds Tawny in another folder, if that is given."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address]
    command += ["--no-nanny", "--nthreads", "1", "--name", name, "--no-dashboard", *options]
    paths = [str(path or SOURCE), str(Path(__file__).parent)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
    before = len(client.scheduler_info()["workers"])
    try:
        wait_until(lambda: len(client.scheduler_info()["workers"]) > before)
        yield process.pid
    finally:
        process.kill()
        process.wait()
        wait_until(lambda: len(client.scheduler_info()["workers"]) <= before)
