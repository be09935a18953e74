"""Streams between workers: what tasks of one group send each other while they run.

A task of each member opens a `Channel`.  Every two members share a stream of Dask's own kind, which
both read all the time, so that each knows at once when another is gone.  Nothing of it passes the
scheduler.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future as ThreadFuture
from time import monotonic
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, final
from weakref import WeakKeyDictionary

from tawny.distributed.dask import distributed
from tawny.forking import fork_safe_lock

MEETING_SECONDS: Final = 3.0
"""How long the first task of a group waits for the last one to begin."""

_OPERATION: Final = "tawny_stream"


class PeerLostError(Exception):
    """Another member is gone, or did not come."""


class WorkerGroup(NamedTuple):
    """Tasks that run at the same time, one on each of several workers."""

    key: str
    members: tuple[str, ...]
    """Addresses of the workers by rank."""


@final
class Lobby:
    """The channels of a worker, where streams of others find them."""

    def __init__(self) -> None:
        self._channels: dict[str, Channel] = {}
        self._lock = fork_safe_lock()

    def enter(self, channel: Channel) -> None:
        """Let others find a channel."""
        with self._lock:
            self._channels[channel.group.key] = channel

    def leave(self, channel: Channel) -> None:
        """Let nobody find it any longer."""
        with self._lock:
            self._channels.pop(channel.group.key, None)

    async def accept(self, comm: Any, key: str, rank: int) -> Any:
        """A stream that another member has opened."""
        deadline = monotonic() + MEETING_SECONDS
        while (channel := self._channels.get(key)) is None:
            if monotonic() > deadline:
                comm.abort()
                return distributed.Status.dont_reply
            await asyncio.sleep(0.005)
        await channel.attach(rank, comm)
        return distributed.Status.dont_reply


_LOBBIES: Final[WeakKeyDictionary[Any, Lobby]] = WeakKeyDictionary()
_lock: Final = fork_safe_lock()


def lobby_of(worker: Any) -> Lobby:
    """The lobby of a worker; from the first call on others can open streams to it."""
    with _lock:
        lobby = _LOBBIES.get(worker)
        if lobby is None:
            lobby = _LOBBIES[worker] = Lobby()
        known = lobby

    async def accept(comm: Any, key: str, rank: int) -> Any:
        return await known.accept(comm, key, rank)

    worker.handlers.setdefault(_OPERATION, accept)
    return lobby


@final
class Channel:
    """The streams of one member to all others, within a `with` block of its task."""

    def __init__(self, worker: Any, group: WorkerGroup, rank: int) -> None:
        self.group, self.rank = group, rank
        self.peers = tuple(r for r in range(len(group.members)) if r != rank)
        self._worker = worker
        self._loop: asyncio.AbstractEventLoop = worker.loop.asyncio_loop
        self._comms: dict[int, Any] = {}
        self._writing: dict[int, asyncio.Lock] = {}
        self._inbox: dict[str, dict[int, list[Any]]] = {}
        self._gone: set[int] = set()
        self._changed = threading.Condition()
        self._sent: list[ThreadFuture[None]] = []

    def __enter__(self) -> Self:
        """Open the streams; raises PeerLostError unless all members come."""
        lobby_of(self._worker).enter(self)
        for rank in self.peers:
            if rank > self.rank:
                self._start(self._connect(rank))
        try:
            with self._changed:
                met = self._changed.wait_for(
                    lambda: len(self._comms) == len(self.peers) or self._gone,
                    MEETING_SECONDS,
                )
                if not met or self._gone:
                    missing = [r for r in self.peers if r not in self._comms or r in self._gone]
                    raise self._peer_error(missing)
        except BaseException:
            self._close(abrupt=True)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close(abrupt=kind is not None)

    # ------------------------------------------------------------------ messages

    def send(self, key: str, contents: Mapping[int, Sequence[Any]]) -> None:
        """Send each of some members a list of arrays and numbers.

        Arrays must stay as they are until the receiver has said that it has them.
        """
        self._sent = [future for future in self._sent if not future.done()]
        self._sent += [self._start(self._write(r, key, list(c))) for r, c in contents.items()]

    def receive(self, key: str, ranks: Iterable[int] | None = None) -> dict[int, list[Any]]:
        """Wait for what members, all of them if none are named, have sent under this key."""
        wanted = self.peers if ranks is None else tuple(ranks)
        with self._changed:
            found = self._inbox.setdefault(key, {})

            def is_over() -> bool:
                missing = [r for r in wanted if r not in found]
                return not missing or not self._gone.isdisjoint(missing)

            self._changed.wait_for(is_over)
            missing = [r for r in wanted if r not in found]
            if missing:
                raise self._peer_error([r for r in missing if r in self._gone])
            del self._inbox[key]
            return found

    def _peer_error(self, ranks: Sequence[int]) -> PeerLostError:
        return PeerLostError(", ".join([self.group.members[rank] for rank in ranks]))

    # ----------------------------------------------------- on the worker's event loop

    def _start(self, work: Any) -> ThreadFuture[None]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _connect(self, rank: int) -> None:
        """Open the stream to a member of higher rank, and read it."""
        try:
            comm = await distributed.comm.connect(
                self.group.members[rank], timeout=MEETING_SECONDS, **self._worker.connection_args
            )
            await comm.write({"op": _OPERATION, "key": self.group.key, "rank": self.rank})
        except OSError:
            self._note_gone(rank)
            return
        await self.attach(rank, comm)

    async def attach(self, rank: int, comm: Any) -> None:
        """Read a stream until it ends."""
        with self._changed:
            self._comms[rank] = comm
            self._changed.notify_all()
        try:
            while True:
                message = await comm.read()
                with self._changed:
                    self._inbox.setdefault(message["key"], {})[rank] = message["contents"]
                    self._changed.notify_all()
        except OSError:  # of which a closed stream is one
            pass
        finally:
            self._note_gone(rank)

    def _note_gone(self, rank: int) -> None:
        with self._changed:
            self._gone.add(rank)
            self._changed.notify_all()

    async def _write(self, rank: int, key: str, contents: list[Any]) -> None:
        serialize = distributed.protocol.to_serialize
        wrapped = [x if isinstance(x, (int, float, str)) else serialize(x) for x in contents]
        async with self._writing.setdefault(rank, asyncio.Lock()):
            try:
                await self._comms[rank].write({"key": key, "contents": wrapped})
            except OSError:
                self._note_gone(rank)

    def _close(self, *, abrupt: bool) -> None:
        """Close all streams; unless abruptly, what was sent is on its way before."""
        lobby_of(self._worker).leave(self)
        if not abrupt:
            for future in self._sent:
                future.result()
        self._start(self._close_all(abrupt=abrupt))

    async def _close_all(self, *, abrupt: bool) -> None:
        for comm in self._comms.values():
            if abrupt:
                comm.abort()
            else:
                await comm.close()
