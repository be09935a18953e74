"""A bounded cache of results: the least recently used goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tawny.forking import fork_safe_lock

T = TypeVar("T")


class LRUCache(Generic[T]):
    """Results by key that weigh no more than `capacity` together; safe to share between threads."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._results: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._weight = 0
        self._lock = fork_safe_lock()

    def get(self, key: Hashable) -> T | None:
        """The result under a key, if it is still there."""
        with self._lock:
            found = self._results.get(key)
            if found is None:
                return None
            self._results.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, result: T, weight: int) -> None:
        """Remember a result unless it weighs too much alone; forget old ones to make room."""
        with self._lock:
            _, before = self._results.pop(key, (None, 0))
            self._weight -= before
            if weight > self.capacity:
                return
            self._results[key] = result, weight
            self._weight += weight
            while self._weight > self.capacity:
                _, (_, oldest) = self._results.popitem(last=False)
                self._weight -= oldest

    def get_or_make(self, key: Hashable, make: Callable[[], T], weight: int) -> T:
        """The result under a key, made and remembered if it is not there."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found, weight)
        return found

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._results.clear()
            self._weight = 0

    def __len__(self) -> int:
        return len(self._results)
