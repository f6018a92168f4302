"""What the clocks of a load come to."""

import pytest

from configs.deployment import load_deployment
from configs.errors import InputError
from configs.schema import load
from loadtests.clocks import clock_report, sentence
from loadtests.sample import LlmSample
from planning.profile import Profile
from telemetry.clocks import NAMES


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load(Profile, load_deployment().gateway.profile)


def sample(queue_ms: float, rest_ms: float = 10.0, outcome: str = "ok") -> LlmSample:
    server_ms = queue_ms + 2 + 50 + 5
    return LlmSample(
        0, 0, due_s=1.0, sent_s=1.0, connected_s=1.001, first_token_s=1.0 + (server_ms + rest_ms) / 1000,
        outcome=outcome, prompt_tokens=100, cached_tokens=0, output_tokens=10, engine_ttft_ms=50.0,
        engine_queue_ms=1.0, engine_prefill_ms=45.0, gateway_queue_ms=queue_ms, route_ms=2.0, server_ttft_ms=server_ms,
    )  # fmt: skip


def test_at_rest_client_and_engine_are_close(profile: Profile) -> None:
    report = clock_report([sample(0.0)] * 20, 0.5, 1, profile)
    assert report["client_over_engine"]["p95"] == pytest.approx(67 / 50)
    assert not report["far_apart"] and report["wait_is_in"] == "engine_prefill_ms"
    assert sum(report["parts_mean_ms"].values()) == pytest.approx(67)
    assert report["plan"]["client_over_engine_p95"] > 1
    assert set(report["clocks"]) == {*NAMES, "client_ttft_ms"}


def test_where_the_ratio_passes_five_it_says_so_and_which_clock_holds_the_wait(profile: Profile) -> None:
    report = clock_report([sample(float(queue)) for queue in range(0, 2000, 20)], 2.0, 1, profile)
    assert report["far_apart"] and report["wait_is_in"] == "gateway_queue_ms"
    assert "passes five" in sentence(report) and "gateway_queue_ms" in sentence(report)


def test_a_load_over_capacity_is_said(profile: Profile) -> None:
    assert "at or over capacity" in sentence(clock_report([sample(0.0)] * 5, 1000.0, 1, profile))


def test_failed_requests_have_no_clocks(profile: Profile) -> None:
    assert clock_report([sample(0.0), sample(9999.0, outcome="dropped")], 1.0, 1, profile)["answered"] == 1
    with pytest.raises(InputError, match="clocks"):
        clock_report([sample(0.0, outcome="dropped")], 1.0, 1, profile)
