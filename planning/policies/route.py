"""Which replica a request goes to: the one that has its prefix, until it would wait longer there than that is worth.

A request's first token on a replica is estimated as the wait there plus the prefill of what is not cached there.
The wait is what is ahead of it: uncached prompt tokens queued and running over the prefill rate, the step that the
running batch is in, and the delay of a full decode batch or full KV memory. The home is the replica that last served
the longest known beginning. It is left when its wait exceeds the best other's by more than the prefill that its hit
saves (planning.spill.saved_ms), and by `hysteresis` times that on top where the other does not have it yet and a copy
is made. Hysteresis works both ways: copies are made only past the threshold, and once there are used down to equal
waits, where the home is preferred and the copies grow cold. Choosing and reserving are one step: the next request of
a burst sees what the one before it added, and finds the prefix where that one went.
"""

import random
from bisect import bisect
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from itertools import accumulate
from itertools import chain as chain_of
from typing import Literal

from configs.schema import Frozen
from planning.policies.prefix import Belief, Chain
from planning.quantities import Count, NonNegative, Positive
from planning.spill import saved_ms


class Overloaded(Exception):
    """Every replica looked at would make the request wait longer than it may. Coming again after wait_ms may help."""

    def __init__(self, wait_ms: float) -> None:
        super().__init__(wait_ms)
        self.wait_ms = wait_ms

    def __str__(self) -> str:
        return f"the shortest wait is {self.wait_ms:.0f} ms"


class RouteConfig(Frozen):
    """The defaults suit 2 to 1,000 replicas.

    hysteresis: share of the prefill that a new copy repeats, to be gained on top of it: whoever comes behind it on the
    other replica pays for it, too. At 1 a hot prefix waits half as long again for its copies, and no more is cached;
    under 0.5 a full fleet copies until nobody keeps any.
    max_homes: replicas with the prefix that a decision looks at; candidates: others that it draws, by capacity weight.
    max_entries bounds the memory, about 200 bytes each. ticket_s: a reservation that nobody ended ends after it.
    others_s: how long a replica's word on what other routers sent it counts.
    """

    hysteresis: NonNegative = 0.5
    max_homes: Count = 8
    candidates: Count = 8
    max_entries: Count = 500_000
    ticket_s: Positive = 900.0
    others_s: Positive = 2.0


@dataclass(frozen=True, slots=True)
class ReplicaRates:
    """What the router needs to know of a replica, all its GPUs together; `weight` in capacity units."""

    prefill_tokens_per_s: float
    max_sequences: int
    kv_capacity_tokens: float
    itl_base_s: float  # a step of b sequences takes itl_base_s + b * itl_per_sequence_s
    itl_per_sequence_s: float
    weight: float = 1.0


@dataclass(slots=True)
class Load:
    """What is reserved on one replica, and what others are known to have sent there."""

    rates: ReplicaRates
    uncached_tokens: dict[int, float] = field(default_factory=dict)  # by priority; queued and running, to first token
    sequences: int = 0
    kv_tokens: float = 0.0
    output_tokens: float = 0.0
    others: int = 0  # other routers' requests there, taken to be like this one's
    others_until_s: float = 0.0

    def wait_ms(self, kv_tokens: float, priority: int = 0) -> float:
        """What a request that needs `kv_tokens` waits for here before its own prefill begins.

        Prompts of a lower class (a larger priority) are not ahead of it; running sequences are, of whatever class.
        """
        rates = self.rates
        sequences = self.sequences + self.others
        alike = sequences / self.sequences if self.others and self.sequences else 1.0
        ahead_tokens = alike * sum(t for p, t in self.uncached_tokens.items() if p <= priority)
        wait_s = ahead_tokens / rates.prefill_tokens_per_s
        if sequences:
            wait_s += rates.itl_base_s + sequences * rates.itl_per_sequence_s
        kv_share = (alike * self.kv_tokens + kv_tokens) / rates.kv_capacity_tokens
        over = max((sequences + 1) / rates.max_sequences, kv_share) - 1
        if over > 0 and self.sequences:
            # A full batch turns over once in the time of a mean reply; `over` is the share that has to leave first.
            wait_s += (
                over
                * self.output_tokens
                / self.sequences
                * (rates.itl_base_s + rates.max_sequences * rates.itl_per_sequence_s)
            )
        return wait_s * 1000


NOT_HELD = (0, 0.0)
"""Nothing of the prompt is cached there."""


@dataclass(slots=True)
class Ticket:
    """A routing decision and its reservation; give it back to `first_token` and `end`."""

    replica: Hashable
    reason: Literal["home", "copy", "spill", "cold"]  # copy: another that has the whole hit; spill: one that has not
    hit_tokens: int  # believed
    wait_ms: float  # estimated, before its own prefill
    load: Load
    priority: int
    uncached_tokens: float
    kv_tokens: float
    output_tokens: float
    passed_tokens: float
    expires_s: float
    prefilling: bool = True
    open: bool = True


class Router:
    """The state of one model's routing. Not thread-safe: a decision is one step without an await.

    How it fails: with rates that are too fast it spills late, with ones too slow early, never not at all. A replica
    that died loses its reservations with `remove`; a reservation that leaks ends after ticket_s of the clock that it is
    given, and a clock that steps back only delays that. Output estimates only matter where a batch or memory is full.
    """

    def __init__(self, config: RouteConfig, seed: int) -> None:
        self.config = config
        self.belief = Belief(config.max_entries)
        self.loads: dict[Hashable, Load] = {}
        self._random = random.Random(seed)
        self._tickets: dict[int, Ticket] = {}  # the open ones, in the order in which they were given
        self._names: list[Hashable] = []
        self._cumulative: list[float] = []

    def add(self, replica: Hashable, rates: ReplicaRates) -> None:
        """A replica is ready, or was reset: nothing is cached or reserved on it."""
        self.loads[replica] = Load(rates)
        self.belief.start(replica, rates.kv_capacity_tokens)
        self._weigh()

    def remove(self, replica: Hashable) -> None:
        """A replica is gone, or gets nothing more. Ending its reservations later does no harm."""
        if self.loads.pop(replica, None) is not None:
            self.belief.end(replica)
            self._weigh()

    def reset(self, replica: Hashable) -> None:
        """The replica's cache was emptied; what runs there goes on."""
        if replica in self.loads:
            self.belief.start(replica, self.loads[replica].rates.kv_capacity_tokens)

    def seen(self, replica: Hashable, requests: int, now_s: float) -> None:
        """The replica says that so many requests are on it, whoever sent them."""
        load = self.loads.get(replica)
        if load is not None:
            load.others = max(0, requests - load.sequences)
            load.others_until_s = now_s + self.config.others_s

    def route(
        self,
        chain: Chain,
        prompt_tokens: int,
        output_tokens: float,
        now_s: float,
        priority: int = 0,
        max_wait_ms: float = float("inf"),
        among: Collection[Hashable] | None = None,
    ) -> Ticket:
        """Choose a replica and reserve on it. `output_tokens` is an estimate; `among` limits the choice, not to none.

        Raises LookupError where there is no replica, and Overloaded, with nothing reserved, where the wait on the
        chosen one is over max_wait_ms: what a deadline leaves.
        """
        if not self.loads:
            raise LookupError("no replica is ready")
        self._give_up(now_s)
        held = self.belief.holders(chain, self.config.max_homes)
        if among is not None:
            held = {replica: hit for replica, hit in held.items() if replica in among}
        home, (home_hit, _) = next(iter(held.items()), (None, NOT_HELD))
        best = None
        best_ms = best_wait_ms = float("inf")
        for replica in chain_of(held, self._draw()) if among is None else among:
            load, (hit, _) = self.loads[replica], held.get(replica, NOT_HELD)
            if load.others and now_s > load.others_until_s:
                load.others = 0
            rate = load.rates.prefill_tokens_per_s
            wait_ms = load.wait_ms(prompt_tokens - hit + output_tokens, priority)
            # Between replicas alike: wait(home) > wait(other) + (1 + hysteresis) * saved_ms sends it to the other.
            first_token_ms = wait_ms + prompt_tokens / rate * 1000 - saved_ms(hit, rate)
            if hit < home_hit:
                first_token_ms += self.config.hysteresis * saved_ms(home_hit - hit, rate)
            if first_token_ms < best_ms or (
                # Nothing is cached and none waits less: to the emptier cache, so that no memory lies idle.
                first_token_ms == best_ms and home is None and self.belief.filled(replica) < self.belief.filled(best)
            ):
                best, best_ms, best_wait_ms = replica, first_token_ms, wait_ms
        if best_wait_ms > max_wait_ms:
            raise Overloaded(best_wait_ms)
        load, (hit, passed) = self.loads[best], held.get(best, NOT_HELD)
        uncached = prompt_tokens - hit
        ticket = Ticket(
            replica=best,
            reason="cold" if home is None else "home" if best == home else "copy" if hit >= home_hit else "spill",
            hit_tokens=hit,
            wait_ms=best_wait_ms,
            load=load,
            priority=priority,
            uncached_tokens=uncached,
            kv_tokens=uncached + output_tokens,
            output_tokens=output_tokens,
            passed_tokens=passed,
            expires_s=now_s + self.config.ticket_s,
        )
        load.uncached_tokens[priority] = load.uncached_tokens.get(priority, 0.0) + uncached
        load.sequences += 1
        load.kv_tokens += ticket.kv_tokens
        load.output_tokens += output_tokens
        self.belief.add(chain, best, ticket.kv_tokens)
        self._tickets[id(ticket)] = ticket
        return ticket

    def first_token(self, ticket: Ticket, cached_tokens: int | None = None) -> None:
        """The prefill is done; `cached_tokens` is the hit that the engine reported, if it did."""
        if ticket.prefilling:
            ticket.prefilling = False
            ticket.load.uncached_tokens[ticket.priority] -= ticket.uncached_tokens
            if cached_tokens is not None:
                self.hit(ticket, cached_tokens)

    def hit(self, ticket: Ticket, cached_tokens: int) -> None:
        """The engine's word on the hit, which may come with the reply's last chunk."""
        if self.loads.get(ticket.replica) is ticket.load:
            self.belief.reported(ticket.replica, ticket.hit_tokens, ticket.passed_tokens, cached_tokens)

    def end(self, ticket: Ticket) -> None:
        """The request is done, failed, or was abandoned, at any time. A second call does nothing."""
        if ticket.open:
            ticket.open = False
            self.first_token(ticket)
            del self._tickets[id(ticket)]
            load = ticket.load
            load.sequences -= 1
            load.kv_tokens -= ticket.kv_tokens
            load.output_tokens -= ticket.output_tokens

    def _give_up(self, now_s: float) -> None:
        while self._tickets:
            oldest = next(iter(self._tickets.values()))
            if oldest.expires_s > now_s:
                return
            self.end(oldest)

    def _draw(self) -> list[Hashable]:
        """Candidates by capacity weight; all replicas where there are no more than that."""
        names, cumulative = self._names, self._cumulative
        if len(names) <= self.config.candidates:
            return names
        total, draw = cumulative[-1], self._random.random
        return [names[bisect(cumulative, draw() * total)] for _ in range(self.config.candidates)]

    def _weigh(self) -> None:
        self._names = list(self.loads)
        self._cumulative = list(accumulate(load.rates.weight for load in self.loads.values()))
