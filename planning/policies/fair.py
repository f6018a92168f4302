"""Whose request goes next: of the highest class, the tenant that was served least for its weight.

The virtual token counter (Sheng et al., Fairness in Serving Large Language Models, OSDI 2024), in resource tokens: a
tenant's counter grows by what it was served over its weight. One that comes back starts at the least counter of those
that wait, so that idleness earns no credit; one that leaves early has what it was not served given back.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Waiting requests of any type `T`. A smaller priority goes first, and always: classes are strict, as in vLLM.

    How it fails: with estimates instead of measured charges it is fair in estimates until `charge` corrects them; a
    tenant of a low class can starve, and its own caller's deadline says when to give up. Memory: one number a tenant.
    """

    def __init__(self) -> None:
        self._queues: dict[int, dict[Hashable, deque[T]]] = {}  # by priority, then tenant; none is empty
        self._served: dict[Hashable, float] = {}
        self._last = 0.0  # the counter of the tenant that was served last
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def push(self, tenant: Hashable, priority: int, item: T) -> None:
        """Queue the item behind its tenant's others of the same class."""
        if not self._waits(tenant):
            waiting = [self._served[t] for tenants in self._queues.values() for t in tenants]
            self._served[tenant] = max(self._served.get(tenant, 0.0), min(waiting, default=self._last))
        self._queues.setdefault(priority, {}).setdefault(tenant, deque()).append(item)
        self._size += 1

    def pop(self, may: Callable[[T], bool] = lambda item: True) -> tuple[Hashable, T]:
        """The next (tenant, item) that may go; charge the tenant for it. Raises IndexError when none may.

        A tenant's own order stands: behind its first that may not go, none of its class does.
        """
        for priority in sorted(self._queues):
            ready = [tenant for tenant, items in self._queues[priority].items() if may(items[0])]
            if ready:
                # the first to have come, where counters are equal
                return self._take(priority, min(ready, key=lambda t: self._served[t]))
        raise IndexError("nothing waits that may go")

    def _take(self, priority: int, tenant: Hashable) -> tuple[Hashable, T]:
        tenants = self._queues[priority]
        item = tenants[tenant].popleft()
        if not tenants[tenant]:
            del tenants[tenant]
        if not tenants:
            del self._queues[priority]
        self._size -= 1
        self._last = self._served[tenant]
        return tenant, item

    def charge(self, tenant: Hashable, resource_tokens: float, weight: float = 1.0) -> None:
        """The tenant was served so many; negative gives back what an estimate took too much."""
        self._served[tenant] = self._served.get(tenant, 0.0) + resource_tokens / weight

    def served(self, tenant: Hashable) -> float:
        """The tenant's counter, in resource tokens over its weight."""
        return self._served.get(tenant, 0.0)

    def forget(self, tenant: Hashable) -> None:
        """The tenant is no more."""
        if not self._waits(tenant):
            self._served.pop(tenant, None)

    def _waits(self, tenant: Hashable) -> bool:
        return any(tenant in tenants for tenants in self._queues.values())
