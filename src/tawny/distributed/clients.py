"""Clients of Dask: what is asked of them before work is handed over, and what travels once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import tawny
from tawny.distributed.dask import Client, Future, dask, distributed, require_dask
from tawny.errors import type_error, with_location
from tawny.forking import fork_safe_lock

MOST_SENT: Final = 8
"""Payloads that a client keeps on its cluster, so that they need not travel again."""

_lock: Final = fork_safe_lock()


def as_client(given: object, op: str) -> Client:
    """A client that can be given work, whose workers have this version of Tawny."""
    require_dask(op)
    if not isinstance(given, distributed.Client):
        kind = type(given).__name__
        raise type_error(
            op, f"client is {kind}; accepted: a distributed.Client, as tw.cluster().get_client()"
        )
    client = cast("Client", given)
    if client.asynchronous:
        raise type_error(op, "client is asynchronous; accepted: one that waits for its results")
    if client.status != "running":
        raise ConnectionError(with_location(f"{op}: client is {client.status}"))
    workers_of(client, op)
    return client


# ------------------------------------------------------------------------- workers

_CHECKED: Final[WeakKeyDictionary[Client, set[str]]] = WeakKeyDictionary()
"""Addresses of the workers of each client that have this version."""


def workers_of(client: Client, op: str) -> dict[str, int]:
    """How many tasks each worker runs at a time, by its address.

    Workers with another version of Tawny, or none, are refused; each is asked once.
    """
    workers = client.scheduler_info()["workers"]
    for address, version in versions_of(client, workers).items():
        check_version(version, tawny.__version__, f"{workers[address]['name']} at {address}", op)
    return {address: int(worker["nthreads"]) for address, worker in workers.items()}


def versions_of(client: Client, addresses: Collection[str]) -> dict[str, str | None]:
    """The version of Tawny that workers have, None without any; the right ones are asked once.

    Workers that are gone meanwhile are left out.
    """
    with _lock:
        known = _CHECKED.setdefault(client, set())
    new = [address for address in addresses if address not in known]
    versions: dict[str, str | None] = {a: tawny.__version__ for a in addresses if a in known}
    if new:

        def version() -> str | None:  # travels as code: a worker may lack this very module
            try:
                import tawny as there  # noqa: PLC0415
            except ImportError:
                return None
            return there.__version__

        found = client.run(version, workers=new, on_error="return")
        versions |= {a: v for a, v in found.items() if v is None or isinstance(v, str)}
        known |= {a for a, v in versions.items() if v == tawny.__version__}
    return versions


def check_version(theirs: str | None, ours: str, worker: str, op: str) -> None:
    """Refuse a worker whose version is not that of the client."""
    if theirs != ours:
        has = "has no Tawny" if theirs is None else f"has Tawny {theirs}"
        raise RuntimeError(
            f"{op}: worker {worker} {has}; the client has {ours}: install the same everywhere"
        )


# ---------------------------------------------------------------------------- tasks


def killed_workers(error: Any) -> str:
    """What Dask says of a task whose workers died, in words: of a `distributed.KilledWorker`."""
    count, last = error.allowed_failures + 1, error.last_worker.address
    return (
        f"{count} worker{'s' * (count > 1)}, the last at {last}: the system ends processes that "
        "take too much memory (compile(memory=...) takes less), or a function of yours ended them"
    )


_SENT: Final[WeakKeyDictionary[Client, OrderedDict[str, Future]]] = WeakKeyDictionary()
"""For each client what it has sent, by name; what was used last stands last."""


def submit(
    client: Client, key: str, function: Callable[..., Any], *given: Any, **options: Any
) -> Future:
    """A task of this name, which may carry data of any size."""
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PiB"}):
        return client.submit(function, *given, key=key, pure=False, **options)


def send(client: Client, name: str, make: Callable[[], Any]) -> Future:
    """A future of what `make` gives, which is called `name`: it travels once to each worker.

    It is a task like any other, and no data of a worker: if all workers that have it are gone, the
    scheduler gives it to the next.
    """
    with _lock:
        sent = _SENT.setdefault(client, OrderedDict())
        future = sent.pop(name, None)
        if future is None or future.status in ("cancelled", "lost", "error"):
            future = submit(client, name, deliver, make())
        sent[name] = future
        while len(sent) > MOST_SENT:
            sent.popitem(last=False)
        return future


def deliver(payload: Any) -> Any:
    """What was sent, on a worker."""
    return payload
