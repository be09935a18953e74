"""Dask, as far as it is used here: an extra that is imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import Any, Final, Protocol

from tawny.lazy import LazyModule

dask: Final[Any] = LazyModule("dask")
dask_arrays: Final[Any] = LazyModule("dask.array")
dask_graphs: Final[Any] = LazyModule("dask.highlevelgraph")
task_spec: Final[Any] = LazyModule("dask._task_spec")
distributed: Final[Any] = LazyModule("distributed")


def require_dask(op: str) -> None:
    """Say what to install where Dask is missing."""
    if find_spec("distributed") is None:
        raise ImportError(f"{op} needs Dask: pip install 'tawny[dask]'")


class Future(Protocol):
    """The result of a task, which may not be there yet."""

    key: str
    status: str
    """One of "pending", "finished", "error", "cancelled" and "lost"."""

    def result(self, timeout: float | None = None) -> Any:
        """What the task gave, once it ended."""
        ...

    def release(self) -> None:
        """Let the scheduler forget it."""
        ...

    def exception(self) -> BaseException | None:
        """The error of a task that failed."""
        ...


class EndingTasks(Protocol):
    """Futures in the order in which they end: `distributed.as_completed`."""

    def add(self, future: Future) -> None:
        """Wait for one more."""
        ...

    def next_batch(self, block: bool = True) -> list[Future]:
        """Futures that have ended, at least one."""
        ...

    def clear(self) -> None:
        """Wait for none of them."""
        ...


class Client(Protocol):
    """A client of a scheduler: `distributed.Client`."""

    status: str
    asynchronous: bool

    def scheduler_info(self) -> Mapping[str, Any]:
        """What the scheduler knows: under `workers` all workers by their addresses."""
        ...

    def run(
        self,
        function: Callable[..., Any],
        *given: Any,
        workers: Iterable[str] | None = None,
        on_error: str = "raise",
    ) -> dict[str, Any]:
        """What a function gives on each worker, at once and beside all tasks."""
        ...

    def submit(self, function: Callable[..., Any], *given: Any, **options: Any) -> Future:
        """A task that calls a function."""
        ...

    def gather(self, futures: Iterable[Future]) -> list[Any]:
        """What tasks gave."""
        ...


def ending_tasks() -> EndingTasks:
    """Futures to wait for: none yet."""
    tasks: EndingTasks = distributed.as_completed([])
    return tasks
