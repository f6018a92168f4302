"""The event loop: callbacks in the order of their times, ties in the order they were asked for.

It has no notion of requests or replicas; a callback that has become stale is for its owner to notice.
"""

import heapq
from collections.abc import Callable
from typing import Any


class Engine:
    """A virtual clock in seconds and the callbacks that wait on it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._order = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, time_s: float, callback: Callable[..., None], *arguments: Any) -> None:
        """Call `callback(*arguments)` at `time_s`, which is never before now."""
        self._order += 1
        heapq.heappush(self._heap, (time_s, self._order, callback, arguments))

    def run(self, until_s: float) -> bool:
        """Call everything due up to `until_s`, in order. True while something is left for later."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= until_s:
            time_s, _, callback, arguments = pop(heap)
            self.now_s = time_s
            callback(*arguments)
        return bool(heap)
