import heapq
import random

import pytest

from configs.errors import InputError
from planning.clocks import erlang_c, waits_s

CASE = {
    "requests_per_s": 0.5,
    "replicas": 1,
    "service_time_s": 1,
    "service_cv": 1,
    "engine_ttft_s": 0.2,
    "engine_ttft_p95_s": 0.4,
    "gateway_s": 0.01,
    "network_rtt_s": 0.05,
    "flush_s": 0.04,
}


def test_by_hand_one_server(answer):
    # M/M/1 at half load: the mean wait is one service time; P(wait > t) = 0.5 · e^(-t/2) is 0.05 at 4.605 s.
    out = answer("clocks", **CASE)
    assert out.wait_mean_s == pytest.approx(1.0)
    assert out.wait_p95_s == pytest.approx(4.60517, abs=1e-5)
    assert out.client_ttft_mean_s == pytest.approx(1.3)
    assert out.client_ttft_p95_s == pytest.approx(5.10517, abs=1e-5)
    assert out.client_over_engine_mean == pytest.approx(6.5)
    assert out.client_over_engine_p95 == pytest.approx(12.7629, abs=1e-4)


@pytest.mark.parametrize(
    ("servers", "load", "waiting"),
    [(1, 0.5, 0.5), (2, 1, 1 / 3), (3, 2, 4 / 9), (5, 4, 0.5541), (10, 8, 0.4092), (20, 16, 0.2561)],
)
def test_erlang_c_as_in_textbooks(servers, load, waiting):
    assert erlang_c(servers, load) == pytest.approx(waiting, abs=6e-5)


def test_steady_service_waits_half_as_long():
    # Pollaczek and Khinchine: M/D/1 waits half of M/M/1.
    assert waits_s(0.8, 1, 1, 0)[0] == pytest.approx(2.0)
    assert waits_s(0.8, 1, 1, 1)[0] == pytest.approx(4.0)


def test_no_load_no_wait(answer):
    out = answer("clocks", **{**CASE, "requests_per_s": 0})
    assert (out.wait_mean_s, out.wait_p95_s) == (0, 0)


def test_the_wait_grows_without_bound_towards_capacity():
    assert waits_s(0.999999, 1, 1, 1)[0] > 1e5


@pytest.mark.parametrize("rate", [1, 1.5])
def test_at_or_over_capacity_is_an_error_that_says_so(answer, rate):
    with pytest.raises(InputError, match=rf"requests_per_s = {rate}.*at or over capacity"):
        answer("clocks", **{**CASE, "requests_per_s": rate})


def test_a_simulated_queue_waits_as_planned():
    """M/M/4 at 70 % load, first come first served, 400,000 arrivals."""
    seed = random.Random(11)
    free, now, waits = [0.0] * 4, 0.0, []
    for _ in range(400_000):
        now += seed.expovariate(2.8)
        start = max(now, heapq.heappop(free))
        waits.append(start - now)
        heapq.heappush(free, start + seed.expovariate(1.0))
    mean_s, p95_s = waits_s(2.8, 4, 1.0, 1.0)
    assert sum(waits) / len(waits) == pytest.approx(mean_s, rel=0.05)
    assert sorted(waits)[int(0.95 * len(waits))] == pytest.approx(p95_s, rel=0.05)


def test_more_replicas_never_wait_longer():
    # Also at the same load each: pools wait less as they grow.
    for growing in (
        [waits_s(7, m, 1, 1)[0] for m in range(8, 40)],
        [waits_s(0.85 * m, m, 1, 1)[0] for m in (8, 32, 128)],
    ):
        assert growing == sorted(growing, reverse=True)


def test_finding_the_client_waits_five_times_the_engines_clock(of_reference):
    out, sentence = of_reference("clocks")
    assert out.client_over_engine_mean == pytest.approx(5, abs=0.5)
    assert "5.1 times as long" in sentence
