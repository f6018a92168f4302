"""Which request goes to the engines next: pure, without a clock, fed by the admission.

The engines' seats are kept free for those above: a class may fill the fleet only up to its share, so that voice never
waits for a seat, and interactive requests find one beside a batch. Behind full seats the order is the fair queue's
(planning.policies.fair); a tenant at its share of KV memory is parked outside of it, in its own order, and holds up
nobody else. A tenant's long prompts go one a replica until their first token: an engine continues what it has begun
before it begins anything, so that a few of them at once would fill every step.
"""

from collections import Counter, deque
from dataclasses import dataclass, field

from configs.tenants import PRIORITIES
from planning.policies.fair import FairQueue
from planning.policies.quota import Limit, fits_kv_share

SEAT_SHARES = {PRIORITIES["interactive"]: 7 / 8, PRIORITIES["batch"]: 1 / 2}
"""Of all seats, how many may be taken before a class has to wait. Voice has no bound: the engine's own is behind it."""


def seats_of(priority: int, seats: float) -> float:
    """How many of the seats a class may fill, at least one."""
    return max(1.0, SEAT_SHARES.get(priority, 1.0) * seats)


@dataclass(eq=False, slots=True)
class Waiter:
    """One request. `kv_tokens` is what it may come to hold."""

    tenant: str
    priority: int
    weight: float
    limit: Limit
    estimate_rt: float
    kv_tokens: float
    long: bool = False
    seated: bool = False
    prefilling: bool = False
    gone: bool = False
    charged_rt: float = field(default=0.0)


class Slots:
    """`seats`, `kv_tokens` and `lanes` (for long prompts): of all the replicas that this gateway may fill."""

    def __init__(self, seats: float, kv_tokens: float, lanes: float = 1) -> None:
        self._seats, self._kv_tokens, self._lanes = seats, kv_tokens, lanes
        self._prefilling: Counter[str] = Counter()
        self._queue: FairQueue[Waiter] = FairQueue()
        self._parked: dict[str, deque[Waiter]] = {}
        self._held_kv: dict[str, float] = {}
        self._taken = 0

    @property
    def taken(self) -> int:
        """Requests in the engines."""
        return self._taken

    @property
    def waiting(self) -> int:
        """Requests in the queue or parked. (Those that gave up count until their turn comes.)"""
        return len(self._queue) + sum(len(parked) for parked in self._parked.values())

    def served(self, tenant: str) -> float:
        """The tenant's virtual counter."""
        return self._queue.served(tenant)

    def resize(self, seats: float, kv_tokens: float, lanes: float) -> list[Waiter]:
        """Replicas came or went; those who are seated now."""
        self._seats, self._kv_tokens, self._lanes = seats, kv_tokens, lanes
        for tenant in list(self._parked):
            self._unpark(tenant)
        return self._seat()

    def enter(self, waiter: Waiter) -> list[Waiter]:
        """A request came; those who are seated now, itself perhaps among them."""
        if waiter.tenant in self._parked or not self._fits(waiter):
            self._parked.setdefault(waiter.tenant, deque()).append(waiter)
        else:
            self._line_up(waiter)
        return self._seat()

    def prefilled(self, waiter: Waiter) -> list[Waiter]:
        """Its first token came; those who are seated now."""
        if not waiter.prefilling:
            return []
        waiter.prefilling = False
        self._prefilling[waiter.tenant] -= 1
        return self._seat()

    def leave(self, waiter: Waiter, used_rt: float | None = None) -> list[Waiter]:
        """A request ended, or gave up waiting; those who are seated now. `used_rt` None: as estimated."""
        if waiter.gone:
            return []
        waiter.gone = True
        if waiter.seated:
            self._taken -= 1
            self._prefilling[waiter.tenant] -= waiter.prefilling
            if used_rt is not None:
                self._queue.charge(waiter.tenant, used_rt - waiter.charged_rt, waiter.weight)
        parked = self._parked.get(waiter.tenant)
        if parked and waiter in parked:
            parked.remove(waiter)
            if not parked:
                del self._parked[waiter.tenant]
        else:
            self._held_kv[waiter.tenant] -= waiter.kv_tokens
            if self._held_kv[waiter.tenant] <= 0:
                del self._held_kv[waiter.tenant]
        self._unpark(waiter.tenant)
        return self._seat()

    def _fits(self, waiter: Waiter) -> bool:
        held = self._held_kv.get(waiter.tenant, 0.0)
        return fits_kv_share(waiter.limit, held, waiter.kv_tokens, self._kv_tokens)

    def _line_up(self, waiter: Waiter) -> None:
        self._held_kv[waiter.tenant] = self._held_kv.get(waiter.tenant, 0.0) + waiter.kv_tokens
        self._queue.push(waiter.tenant, waiter.priority, waiter)

    def _unpark(self, tenant: str) -> None:
        parked = self._parked.get(tenant)
        while parked and self._fits(parked[0]):
            self._line_up(parked.popleft())
        if parked is not None and not parked:
            del self._parked[tenant]

    def _seat(self) -> list[Waiter]:
        seated: list[Waiter] = []
        while True:
            try:
                tenant, waiter = self._queue.pop(self._may)
            except IndexError:
                return seated
            if waiter.gone:
                continue
            self._queue.charge(tenant, waiter.estimate_rt, waiter.weight)
            waiter.charged_rt, waiter.seated = waiter.estimate_rt, True
            self._taken += 1
            if waiter.long and waiter.priority in SEAT_SHARES:
                waiter.prefilling = True
                self._prefilling[waiter.tenant] += 1
            seated.append(waiter)

    def _may(self, waiter: Waiter) -> bool:
        if waiter.gone or waiter.priority not in SEAT_SHARES:
            return True
        if waiter.long and self._prefilling[waiter.tenant] >= max(1, self._lanes):
            return False
        return self._taken < seats_of(waiter.priority, self._seats)
