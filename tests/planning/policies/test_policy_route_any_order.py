"""Routing under any order of events: nothing stays reserved, memory stays bounded, the dead get nothing."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from planning.policies.route import Overloaded, ReplicaRates, RouteConfig, Router, Ticket

ENTRIES = 40


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.router = Router(RouteConfig(max_entries=ENTRIES, ticket_s=50.0), seed=1)
        self.now_s = 0.0
        self.born = 0
        self.open: list[Ticket] = []

    @rule(weight=st.floats(0.1, 10))
    def comes(self, weight: float) -> None:
        self.router.add(self.born, ReplicaRates(1000, 4, 5000, 0.01, 0.001, weight))
        self.born += 1

    @precondition(lambda self: self.router.loads)
    @rule(data=st.data())
    def goes(self, data: Any) -> None:
        self.router.remove(data.draw(st.sampled_from(list(self.router.loads))))

    @precondition(lambda self: self.router.loads)
    @rule(data=st.data())
    def forgets(self, data: Any) -> None:
        replica = data.draw(st.sampled_from(list(self.router.loads)))
        self.router.reset(replica)
        assert replica not in self.router.belief.holders(((0, 10), (1, 20)), 8)

    @rule(seconds=st.floats(-100, 100))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds  # a clock may be set back, too

    @rule(
        first=st.integers(0, 6),
        length=st.integers(0, 5),
        own=st.integers(1, 400),
        priority=st.sampled_from([0, 10, 20]),
        max_wait_ms=st.sampled_from([float("inf"), 300.0]),
    )
    def asks(self, first: int, length: int, own: int, priority: int, max_wait_ms: float) -> None:
        chain = tuple((first * 10 + n, 20 * (n + 1)) for n in range(length))
        before = {name: load.sequences for name, load in self.router.loads.items()}
        try:
            ticket = self.router.route(chain, 20 * length + own, 30, self.now_s, priority, max_wait_ms)
        except LookupError:
            assert not self.router.loads
        except Overloaded as error:
            assert error.wait_ms > 300
            assert all(load.sequences <= before[name] for name, load in self.router.loads.items())
        else:
            assert ticket.replica in self.router.loads, "only those that are there"
            assert 0 <= ticket.hit_tokens <= 20 * length
            self.open.append(ticket)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), cached=st.none() | st.integers(0, 200))
    def begins(self, data: Any, cached: int | None) -> None:
        self.router.first_token(data.draw(st.sampled_from(self.open)), cached)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), twice=st.booleans())
    def ends(self, data: Any, twice: bool) -> None:
        ticket = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        for _ in range(1 + twice):
            self.router.end(ticket)

    @precondition(lambda self: self.router.loads)
    @rule(data=st.data(), requests=st.integers(0, 20))
    def is_seen(self, data: Any, requests: int) -> None:
        self.router.seen(data.draw(st.sampled_from(list(self.router.loads))), requests, self.now_s)

    @invariant()
    def nothing_is_counted_twice(self) -> None:
        for load in self.router.loads.values():
            mine = [ticket for ticket in self.open if ticket.open and ticket.load is load]
            assert load.sequences == len(mine)
            assert abs(load.kv_tokens - sum(ticket.kv_tokens for ticket in mine)) < 1e-6
            queued = sum(ticket.uncached_tokens for ticket in mine if ticket.prefilling)
            assert abs(sum(load.uncached_tokens.values()) - queued) < 1e-6
            assert load.wait_ms(100) >= 0

    @invariant()
    def memory_is_bounded(self) -> None:
        assert len(self.router.belief) <= ENTRIES
        assert len(self.router.belief) == sum(len(held) for held in self.router.belief._keys.values())


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestAnyOrder = AnyOrder.TestCase
