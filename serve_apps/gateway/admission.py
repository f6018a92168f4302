"""Admission: a request waits for its turn, its estimate is reserved, and both are given back when it ends.

No HTTP here: the gateway and the voice application each have one, over the same books. What a request came to is
settled by the engine's own meter (serve_apps.gateway.meter), which knows it whether or not anybody read the reply;
`leave` settles only what never reached an engine.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from configs.tenants import Quota, Tenant
from planning.policies.quota import Limit
from planning.profile import Profile
from serve_apps.gateway.books import Books, Entry
from serve_apps.gateway.charges import Size, estimate_rt, limit_of
from serve_apps.gateway.errors import QuotaExceeded, Unavailable
from serve_apps.gateway.slots import Slots, Waiter

logger = logging.getLogger("ray.serve")

ACCOUNT_HEADER = "x-firstclause-account"
"""Between the gateway and the engine's meter, never a client's: the gateway passes on no header that a client sent."""


def account_header(tenant: str, tenant_class: str, quota: Quota | None = None, long: bool = False) -> dict[str, str]:
    """What the engine's meter is told of a request; `long`: its prompt takes more than a step."""
    limit = [quota.rate_rt_per_s, quota.burst_rt] if quota else None
    return {ACCOUNT_HEADER: json.dumps({"tenant": tenant, "class": tenant_class, "quota": limit, "long": long})}


@dataclass(slots=True)
class Admitted:
    """A request that may go to an engine. `sent`: an engine has it, and settles it."""

    request_id: str
    tenant: Tenant
    waiter: Waiter
    queue_ms: float
    sent: bool = field(default=False)

    def headers(self) -> dict[str, str]:
        """For the LLMServer's RawRequestInfo."""
        config = self.tenant.config
        return account_header(self.tenant.name, config.tenant_class, config.quota, self.waiter.prefilling)


class Admission:
    """One a process. `capacity` -> (seats, KV tokens, lanes for long prompts) that it may fill now, asked each time.

    `long_tokens`: from how many prompt tokens on a prompt is long; None: none is.
    """

    def __init__(
        self,
        books: Books,
        profile: Profile,
        capacity: Callable[[], tuple[float, float, float]],
        max_queue_s: float,
        long_tokens: float | None = None,
    ) -> None:
        self._long_tokens = float("inf") if long_tokens is None else long_tokens
        self._books, self._profile, self._max_queue_s = books, profile, max_queue_s
        self._capacity = capacity
        self._size = capacity()
        self._slots = Slots(*self._size)
        self._turns: dict[int, asyncio.Future[None]] = {}
        # Transactions wait for the disk: not on the event loop, where every stream would wait with them.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="books")

    @property
    def waiting(self) -> int:
        return self._slots.waiting

    @property
    def taken(self) -> int:
        return self._slots.taken

    async def enter(self, request_id: str, tenant: Tenant, size: Size) -> Admitted:
        """Wait for a turn. Raises QuotaExceeded or Unavailable; cancelling gives everything back."""
        begun = time.monotonic()
        limit, cost_rt = limit_of(tenant.config), estimate_rt(self._profile, size)
        if tenant.config.quota is not None:
            await self._reserve(request_id, tenant.name, limit, cost_rt)
        kv_tokens = size.sequences * size.output_tokens + size.prompt_tokens
        is_long = size.prompt_tokens > self._long_tokens
        waiter = Waiter(tenant.name, tenant.priority, tenant.config.weight, limit, cost_rt, kv_tokens, is_long)
        admitted = Admitted(request_id, tenant, waiter, 0.0)
        try:
            await self._turn(waiter)
        except BaseException:
            await self.leave(admitted)
            raise
        admitted.queue_ms = (time.monotonic() - begun) * 1000
        return admitted

    def prefilled(self, admitted: Admitted) -> None:
        """Its first token came."""
        self._seat(self._slots.prefilled(admitted.waiter))

    async def leave(self, admitted: Admitted, used_rt: float | None = None) -> None:
        """The request ended. `used_rt`: what it came to, where the engine told it. Not sent: its estimate goes back."""
        unsent = not admitted.sent
        self._seat(self._slots.leave(admitted.waiter, 0.0 if unsent else used_rt))
        if unsent and admitted.tenant.config.quota is not None:
            entry = Entry(admitted.request_id, admitted.tenant.name, "", admitted.waiter.limit, 0.0)
            settled = asyncio.get_running_loop().run_in_executor(self._thread, self._books.settle, [entry])
            with contextlib.suppress(asyncio.CancelledError):  # it runs on, whoever leaves
                await asyncio.shield(settled)

    async def _reserve(self, request_id: str, tenant: str, limit: Limit, cost_rt: float) -> None:
        reserved = asyncio.get_running_loop().run_in_executor(
            self._thread, self._books.reserve, request_id, tenant, limit, cost_rt
        )
        try:
            verdict = await asyncio.shield(reserved)
        except asyncio.CancelledError:
            # The client left while its reservation was written: give it back behind it.
            self._thread.submit(self._books.settle, [Entry(request_id, tenant, "", limit, 0.0)])
            raise
        if verdict.admitted:
            return
        needs = f"This request is reckoned at {cost_rt:,.0f} resource tokens"
        if verdict.retry_after_s is None:
            raise QuotaExceeded(f"{needs}; the quota of {tenant} holds {limit.burst_rt:,.0f} at most.", None)
        raise QuotaExceeded(
            f"{needs}, more than the quota of {tenant} has left now (it fills at {limit.rate_rt_per_s:,.0f} a second, "
            f"up to {limit.burst_rt:,.0f}); come again in {verdict.retry_after_s:.0f} s.",
            verdict.retry_after_s,
        )

    async def _turn(self, waiter: Waiter) -> None:
        size = self._capacity()
        if size != self._size:
            self._size = size
            self._seat(self._slots.resize(*size))
        self._seat(self._slots.enter(waiter))
        if waiter.seated:
            return
        turn = asyncio.get_running_loop().create_future()
        self._turns[id(waiter)] = turn
        try:
            async with asyncio.timeout(self._max_queue_s):
                await turn
        except TimeoutError:
            raise Unavailable(
                f"The request waited {self._max_queue_s:g} s for its turn; {self.waiting} others wait.",
                self._max_queue_s / 10, "overloaded",
            ) from None  # fmt: skip
        finally:
            del self._turns[id(waiter)]

    def _seat(self, seated: list[Waiter]) -> None:
        for waiter in seated:
            if (turn := self._turns.get(id(waiter))) is not None and not turn.done():
                turn.set_result(None)
