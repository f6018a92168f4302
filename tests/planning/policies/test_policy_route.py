"""Routing: affinity until it is not worth the wait, one step at a time."""

import random
from collections import Counter

import pytest

from planning.policies import route
from planning.policies.route import ReplicaRates, RouteConfig, Router

# 10,000 tokens/s: 1,000 cached tokens save 100 ms.
RATES = ReplicaRates(10_000, max_sequences=64, kv_capacity_tokens=1e6, itl_base_s=0.01, itl_per_sequence_s=0.0)
PREFIX = (("prefix", 1000),)


def router(replicas: int, rates: ReplicaRates = RATES, **config: float) -> Router:
    made = Router(RouteConfig(**config), seed=1)
    for number in range(replicas):
        made.add(number, rates)
    return made


def warm(made: Router) -> int:
    """Serve the prefix once; its home."""
    ticket = made.route(PREFIX, 1100, 10, 0.0)
    made.first_token(ticket)
    made.end(ticket)
    return ticket.replica


def test_a_prefix_stays_at_its_home() -> None:
    made = router(16)
    home = warm(made)
    for _ in range(50):
        ticket = made.route(PREFIX, 1100, 10, 0.0)
        assert (ticket.replica, ticket.reason, ticket.hit_tokens) == (home, "home", 1000)
        made.end(ticket)


def test_home_is_left_when_its_wait_passes_what_the_hit_saves_and_the_margin() -> None:
    # The hit saves 100 ms; with hysteresis 0.5 the others must be 150 ms better. A step of the running batch is 10 ms.
    for queued_tokens, stays in ((1390, True), (1410, False)):
        made = router(2, hysteresis=0.5)
        home = warm(made)
        made.loads[home].uncached_tokens[0] = queued_tokens
        made.loads[home].sequences = 1
        ticket = made.route(PREFIX, 1100, 10, 0.0)
        assert (ticket.replica == home) is stays
        assert ticket.reason == ("home" if stays else "spill")


def test_a_copy_that_exists_is_used_down_to_equal_waits_and_then_home_is_preferred() -> None:
    made = router(2)
    home = warm(made)
    other = 1 - home
    made.loads[home].uncached_tokens[0] = 3000
    spilled = made.route(PREFIX, 1100, 10, 0.0)
    assert (spilled.replica, spilled.reason) == (other, "spill")
    made.end(spilled)
    # Now both have it, and the copy served it last.
    made.loads[home].uncached_tokens[0] = 0
    assert made.route(PREFIX, 1100, 10, 0.0).replica == other
    # One more millisecond of wait there is enough to go back: nothing has to be computed again.
    assert made.route(PREFIX, 1100, 10, 0.0).replica == home


def test_the_threshold_is_the_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    made = router(2)
    home = warm(made)
    made.loads[home].uncached_tokens[0] = 500
    assert made.route(PREFIX, 1100, 10, 0.0).replica == home
    monkeypatch.setattr(route, "saved_ms", lambda hit_tokens, prefill_tokens_per_s: 0.0)
    made = router(2)
    home = warm(made)
    made.loads[home].uncached_tokens[0] = 500
    assert made.route(PREFIX, 1100, 10, 0.0).replica != home


def test_a_burst_of_equal_cold_prefixes_neither_herds_nor_scatters() -> None:
    # 200 at once on 200 replicas, 8,000 tokens alike and 100 of their own. A home takes the prefix (800 ms) and each
    # suffix is 10 ms; a copy is worth it past 1,200 ms of waiting, so a home takes 40 and five suffice.
    made = Router(RouteConfig(), seed=1)
    for number in range(200):
        made.add(number, ReplicaRates(10_000, 256, 1e7, 0.01, 0.0))
    homes = Counter(made.route((("cold", 8000),), 8100, 50, 0.0).replica for _ in range(200))
    assert len(homes) == 5
    assert max(homes.values()) <= 45


def test_a_burst_of_different_prompts_spreads() -> None:
    made = router(8)
    spread = Counter(made.route(((i, 1000),), 1100, 50, 0.0).replica for i in range(80))
    assert set(spread.values()) == {10}


def test_one_runaway_replica_does_not_end_affinity_for_the_rest() -> None:
    made = router(8)
    homes = {}
    for i in range(8):
        ticket = made.route(((i, 1000),), 1100, 10, 0.0)
        homes[i] = ticket.replica
    for replica in homes.values():
        made.loads[replica] = route.Load(RATES)
    runaway = homes[0]
    made.loads[runaway].uncached_tokens[0] = 1e9
    for i in range(1, 8):
        assert made.route(((i, 1000),), 1100, 10, 0.0).replica == homes[i]
    assert made.route(((0, 1000),), 1100, 10, 0.0).replica != runaway


def test_salt_and_adapter_are_in_the_key_so_others_prefixes_do_not_attract() -> None:
    from planning.policies.prefix import prefix_keys

    made = router(64)
    tokens = list(range(2000))
    mine = made.route(prefix_keys(b"mine", "base", tokens, 32), 2000, 10, 0.0)
    assert made.route(prefix_keys(b"mine", "base", tokens, 32), 2000, 10, 0.0).hit_tokens > 1700
    assert made.route(prefix_keys(b"yours", "base", tokens, 32), 2000, 10, 0.0).hit_tokens == 0
    assert made.route(prefix_keys(b"mine", "adapter", tokens, 32), 2000, 10, 0.0).hit_tokens == 0
    assert mine.hit_tokens == 0


def test_a_reset_replica_is_not_preferred_and_its_reservations_are_gone() -> None:
    made = router(2)
    home = warm(made)
    held = made.route(PREFIX, 1100, 10, 0.0)
    made.add(home, RATES)
    assert made.loads[home].sequences == 0
    assert made.route(PREFIX, 1100, 10, 0.0).reason == "cold"
    made.end(held)  # of the engine that is no more
    assert all(load.sequences >= 0 and load.kv_tokens >= 0 for load in made.loads.values())


def test_a_dead_replica_gets_nothing_and_ending_its_requests_is_harmless() -> None:
    made = router(2)
    home = warm(made)
    held = made.route(PREFIX, 1100, 10, 0.0)
    made.remove(home)
    made.remove(home)
    made.first_token(held, 0)
    made.end(held)
    assert made.route(PREFIX, 1100, 10, 0.0).replica == 1 - home
    made.remove(1 - home)
    with pytest.raises(LookupError):
        made.route(PREFIX, 1100, 10, 0.0)


def test_reservations_balance_whatever_the_order_of_their_ends() -> None:
    made = router(4, ticket_s=5.0)
    rng = random.Random(3)
    open_tickets = []
    for step in range(3000):
        # The clock steps back now and then.
        now_s = step * 0.01 - (0.5 if step % 97 == 0 else 0.0)
        open_tickets.append(made.route(((rng.randrange(20), 500),), 600, 30, now_s, priority=rng.choice((0, 10))))
        if len(open_tickets) > 30:
            ticket = open_tickets.pop(rng.randrange(30))
            for _ in range(rng.randrange(3)):
                made.first_token(ticket, rng.choice((None, 0, 480)))
            if rng.random() < 0.8:  # the rest leak, and expire
                made.end(ticket)
    made.route((), 10, 1, 1e6)
    for load in made.loads.values():
        assert load.sequences in (0, 1) and abs(load.kv_tokens) <= 11 and abs(load.output_tokens) <= 1
        assert all(abs(tokens) <= 10 for tokens in load.uncached_tokens.values())


def test_ending_twice_counts_once() -> None:
    made = router(1)
    one, two = made.route((), 100, 10, 0.0), made.route((), 100, 10, 0.0)
    made.end(one)
    made.end(one)
    assert (made.loads[0].sequences, made.loads[0].uncached_tokens[0]) == (1, 100)
    made.end(two)
    assert (made.loads[0].sequences, made.loads[0].kv_tokens) == (0, 0)


def test_lower_classes_do_not_make_a_caller_wait() -> None:
    made = router(2)
    home = warm(made)
    made.loads[home].uncached_tokens[10] = 1e6  # batch
    assert made.route(PREFIX, 1100, 10, 0.0, priority=0).replica == home
    assert made.route(PREFIX, 1100, 10, 0.0, priority=10).replica != home


def test_a_full_batch_and_full_memory_make_wait() -> None:
    # 64 of 64 slots taken by replies of 100 tokens at 10 ms: one slot frees every 1,000 ms / 64, and a step is 10 ms.
    load = route.Load(RATES, sequences=64, kv_tokens=6400, output_tokens=6400)
    assert load.wait_ms(100) == pytest.approx(10 + 1000 / 64)
    # 1,000,000 tokens of memory hold 990,000: 100,000 more have to wait for 9 % of a turnover.
    load = route.Load(RATES, sequences=10, kv_tokens=990_000, output_tokens=1000)
    assert load.wait_ms(100_000) == pytest.approx(10 + 0.09 * 1000)
    assert route.Load(RATES).wait_ms(100) == 0


def test_candidates_are_drawn_by_capacity_weight_and_their_number_is_bounded() -> None:
    made = Router(RouteConfig(candidates=4), seed=1)
    for number in range(100):
        made.add(number, ReplicaRates(10_000, 64, 1e6, 0.01, 0.0, weight=3.0 if number < 50 else 1.0))
    drawn = Counter[bool]()
    for _ in range(2000):
        names = made._draw()
        assert len(names) == 4
        drawn.update(name < 50 for name in names)
    assert drawn[True] / drawn.total() == pytest.approx(0.75, abs=0.02)


def test_who_would_wait_past_the_deadline_is_told_before_anything_is_reserved() -> None:
    made = router(2)
    for load in made.loads.values():
        load.uncached_tokens[0] = 5000  # 500 ms
    with pytest.raises(route.Overloaded) as raised:
        made.route(PREFIX, 1100, 10, 0.0, max_wait_ms=499)
    assert raised.value.wait_ms == pytest.approx(500)
    assert [load.sequences for load in made.loads.values()] == [0, 0]
    assert made.route(PREFIX, 1100, 10, 0.0, max_wait_ms=501).reason == "cold"  # and nothing was believed of it


def test_a_choice_can_be_limited() -> None:
    made = router(16)
    home = warm(made)
    others = [number for number in range(16) if number != home][:3]
    tickets = [made.route(PREFIX, 1100, 10, 0.0, among=others) for _ in range(30)]
    assert {t.replica for t in tickets} <= set(others)
    assert made.route(PREFIX, 1100, 10, 0.0, among=[home]).hit_tokens == 1000


def test_faster_replicas_get_more_of_the_work() -> None:
    made = Router(RouteConfig(), seed=1)
    made.add("fast", ReplicaRates(30_000, 64, 1e6, 0.01, 0.0))
    made.add("slow", ReplicaRates(10_000, 64, 1e6, 0.01, 0.0))
    spread = Counter(made.route((), 1000, 10, 0.0).replica for _ in range(400))
    assert spread["fast"] / spread["slow"] == pytest.approx(3, rel=0.05)
