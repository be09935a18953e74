"""A cluster on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tawny.distributed.dask import distributed as dask_distributed
from tawny.distributed.dask import require_dask
from tawny.engine.cpu.threads.processors import processors
from tawny.errors import value_error
from tawny.shape import as_int

if TYPE_CHECKING:
    import distributed


def cluster(
    workers: int | None = None, *, threads: int | None = None, **options: Any
) -> distributed.LocalCluster:
    """Start worker processes on this machine, sized for it.

    - `workers`: how many; None makes one for each core, on larger machines fewer with
      several threads each.
    - `threads`: of each worker, for tasks and programs together; None divides the cores
      that this process may use among the workers.
    - `options`: further ones of `distributed.LocalCluster`, as `memory_limit="4GB"`.

    Gives a `distributed.LocalCluster`; `cluster.get_client()` gives the client that `sweep`,
    `tw.map` and `nn.train` take, and `cluster.dashboard_link` the page on which Dask shows what
    runs.  Close both, or use them in `with` blocks.  As with all that starts processes, a script
    does it inside `if __name__ == "__main__":`.

        def main():
            with tw.cluster(2) as cluster, cluster.get_client() as client:
                print(client)

        # if __name__ == "__main__": main()
    """
    require_dask("cluster")
    count, own = worker_sizes(processors().usable_cores, workers, threads)
    options["env"] = {"TAWNY_THREADS": str(own), **options.get("env", {})}
    started: distributed.LocalCluster = dask_distributed.LocalCluster(
        n_workers=count, threads_per_worker=own, processes=True, **options
    )
    return started


def worker_sizes(whole: int, workers: int | None, threads: int | None) -> tuple[int, int]:
    """How many workers a machine of `whole` cores has, and the threads of each."""
    for name, asked in (("workers", workers), ("threads", threads)):
        if asked is not None and as_int(asked, "cluster", name) < 1:
            raise value_error("cluster", f"{name} is {asked}; it must be at least 1")
    if workers is None and threads is None:
        count, own = dask_distributed.deploy.utils.nprocesses_nthreads(whole)
        return int(count), int(own)
    if workers is None:
        return max(1, whole // (threads or 1)), threads or 1
    return workers, threads or max(1, whole // workers)
