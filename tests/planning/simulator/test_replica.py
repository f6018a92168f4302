"""The engine's steps, against schedules worked out by hand."""

import pytest

from planning.simulator.engine import Engine
from planning.simulator.rates import Rates
from planning.simulator.replica import Replica
from planning.simulator.request import Request
from planning.simulator.results import StepTimes

# 1,000 prompt tokens/s; a step of b sequences takes 10 + b ms.
RATES = Rates(((0.0, 0.0), (1000.0, 1.0)), 0.010, 0.001, 100_000, 500, 60, 2)


class Bench:
    """One replica and what it reported."""

    def __init__(self, rates: Rates = RATES, budget: int = 10_000, sequences: int = 8, slots: int = 1) -> None:
        self.engine = Engine()
        self.done: list[Request] = []
        self.log = StepTimes()
        self.replica = Replica(
            self.engine, 0, 0, rates, sequences, budget, 1, slots, 2.0, self.log, lambda r: None, self.done.append
        )
        self.number = 0

    def send(self, at_s: float, prompt: int, output: int, priority: int = 0, **more: object) -> Request:
        self.number += 1
        request = Request(self.number, 0, priority, at_s, prompt, output, **more)  # type: ignore[arg-type]
        self.engine.at(at_s, self.replica.submit, request)
        return request

    def run(self) -> None:
        self.engine.run(1e9)
        assert self.replica.ongoing == 0
        assert self.replica.memory.private_tokens == 0 and self.replica.memory.pinned_tokens == 0


def test_alone_it_takes_its_prefill_and_a_step_a_token() -> None:
    bench = Bench()
    request = bench.send(5.0, 200, 11)
    bench.run()
    assert request.first_token_s == pytest.approx(5.2)
    assert request.finish_s == pytest.approx(5.2 + 10 * 0.011)


def test_an_arrival_waits_for_the_step_and_slows_the_others_by_its_prefill() -> None:
    bench = Bench()
    first = bench.send(0.0, 100, 100)  # first token at 0.1, then a token every 11 ms
    second = bench.send(0.105, 200, 2)  # the step ends at 0.111; its own takes 200 ms and 1 ms for the other sequence
    bench.run()
    assert second.first_token_s == pytest.approx(0.111 + 0.201)
    # Then one step of two sequences, 12 ms, and the first goes on alone. It had its second token at 0.111, its third
    # with the other's prefill, its fourth with the step of two; 96 are left.
    assert second.finish_s == pytest.approx(0.312 + 0.012)
    assert first.finish_s == pytest.approx(0.324 + 96 * 0.011)


def test_a_short_prefill_is_hidden_by_the_reading_of_the_weights() -> None:
    bench = Bench()
    bench.send(0.0, 100, 100)
    second = bench.send(0.105, 4, 1)
    bench.run()
    assert second.first_token_s == pytest.approx(0.111 + 0.011)


def test_prompts_share_a_step_up_to_its_budget_and_a_long_one_is_cut() -> None:
    bench = Bench(budget=300)
    one, two, three = (bench.send(0.0, 200, 1) for _ in range(3))
    bench.run()
    # The first starts alone; then 200 + 100 tokens, then the last 100.
    assert [r.first_token_s for r in (one, two, three)] == pytest.approx([0.2, 0.5, 0.6])


def test_priority_goes_first_but_evicts_nothing() -> None:
    bench = Bench(sequences=1)
    bench.send(0.0, 100, 11)
    low, high = bench.send(0.01, 100, 1, priority=10), bench.send(0.02, 100, 1, priority=0)
    bench.run()
    assert high.first_token_s == pytest.approx(0.1 + 10 * 0.011 + 0.1)
    assert low.first_token_s == pytest.approx(high.first_token_s + 0.1)


def test_the_batch_is_bounded() -> None:
    bench = Bench(sequences=2)
    requests = [bench.send(0.0, 100, 101) for _ in range(3)]
    bench.run()
    assert requests[2].first_token_s >= min(r.finish_s for r in requests[:2])


def test_a_prefix_is_computed_once_and_reused() -> None:
    bench = Bench()
    one = bench.send(0.0, 1000, 1, prefix=((1, 900),))
    two = bench.send(10.0, 1000, 1, prefix=((1, 900),))
    bench.run()
    assert (one.cached_tokens, two.cached_tokens) == (0, 900)
    assert two.first_token_s == pytest.approx(10.1)


def test_a_conversation_finds_its_last_turn_and_reply() -> None:
    bench = Bench()
    bench.send(0.0, 100, 50, prefix=((1, 0),), grows=True)
    two = bench.send(10.0, 250, 1, prefix=((1, 150),), grows=True)
    bench.run()
    assert two.cached_tokens == 150


def test_the_same_prompt_again_still_computes_its_last_token() -> None:
    bench = Bench()
    bench.send(0.0, 100, 1, prefix=((1, 100),))
    again = bench.send(10.0, 100, 1, prefix=((1, 100),))
    bench.run()
    assert again.cached_tokens == 99


def test_memory_admits_what_fits_and_evicts_the_least_recently_used() -> None:
    rates = Rates(RATES.prefill_curve, 0.01, 0.001, 1000, 500, 60, 2)
    bench = Bench(rates)
    bench.send(0.0, 400, 1, prefix=((1, 390),))
    bench.send(10.0, 400, 1, prefix=((2, 390),))
    bench.send(20.0, 100, 1, prefix=((1, 90),))  # the first is used again
    bench.send(30.0, 400, 1, prefix=((3, 390),))  # the second has to go
    first, second = bench.send(40.0, 400, 1, prefix=((1, 390),)), bench.send(50.0, 400, 1, prefix=((2, 390),))
    bench.run()
    assert first.cached_tokens == 390
    assert second.cached_tokens < 390


def test_a_request_waits_for_memory_and_nobody_overtakes_it() -> None:
    rates = Rates(RATES.prefill_curve, 0.01, 0.001, 1000, 500, 60, 2)
    bench = Bench(rates)
    first = bench.send(0.0, 500, 100)
    big, small = bench.send(0.1, 600, 1), bench.send(0.2, 10, 1)
    bench.run()
    assert big.first_token_s == pytest.approx(first.finish_s + 0.610)
    assert small.first_token_s >= first.finish_s


def test_an_adapter_is_loaded_once_and_the_oldest_makes_room() -> None:
    bench = Bench(slots=1)
    one, again = bench.send(0.0, 100, 1, adapter=1), bench.send(10.0, 100, 1, adapter=1)
    bench.send(20.0, 100, 1, adapter=2)
    back, base = bench.send(30.0, 100, 1, adapter=1), bench.send(40.0, 100, 1)
    bench.run()
    waits = [r.first_token_s - r.arrival_s for r in (one, again, back, base)]
    assert waits == pytest.approx([2.1, 0.1, 2.1, 0.1])


def test_a_measured_curve_gives_each_length_its_time() -> None:
    curve = ((0.0, 0.0), (100.0, 0.2), (1000.0, 1.1))
    rates = Rates(curve, 0.01, 0.0, 100_000, 500, 60, 2)
    bench = Bench(rates)
    sent = [bench.send(10.0 * i, tokens, 1) for i, tokens in enumerate((50, 100, 550, 2000))]
    cached = bench.send(100.0, 550, 1, prefix=((1, 100),))
    warm = bench.send(110.0, 550, 1, prefix=((1, 100),))
    bench.run()
    assert [r.first_token_s - r.arrival_s for r in sent] == pytest.approx([0.1, 0.2, 0.65, 2.1])
    assert (cached.first_token_s, warm.first_token_s) == pytest.approx((100.65, 110.45))
    assert rates.prefill_tokens_per_s == pytest.approx(1000)


def test_a_stopped_replica_gives_back_what_it_had() -> None:
    bench = Bench(sequences=1)
    sent = [bench.send(0.0, 100, 100) for _ in range(3)]
    bench.engine.run(0.5)
    assert bench.replica.stop() == sent
    bench.engine.run(1e9)
    assert bench.done == [] and bench.replica.ongoing == 0


def test_token_times_are_exact_over_tokens() -> None:
    log = StepTimes()
    log.steps(0.010, 94)
    log.steps(0.050, 5)
    log.steps(0.200, 1)
    summary = log.summary_ms()
    assert (summary["p50"], summary["p95"], summary["p99"]) == pytest.approx((10, 50, 50))
    assert summary["mean"] == pytest.approx(13.9)
