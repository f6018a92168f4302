"""What the router is told by a deployment's configuration and the profile of its engine."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from configs.deployment import LlmConfig, load_deployment
from configs.routing import RoutingConfig
from configs.schema import load
from planning.profile import Profile
from serve_apps.autoscaling_config import autoscaling_config
from serve_apps.routing import CAUTIOUS, replica_rates, router_config


@pytest.fixture
def profile() -> Profile:
    return load(Profile, load_deployment().gateway.profile)


def test_rates_are_the_profiles(profile: Profile) -> None:
    rates = replica_rates(LlmConfig(), profile)
    assert rates.prefill_tokens_per_s == profile.prefill_tokens_per_s
    assert rates.kv_capacity_tokens == pytest.approx(profile.kv_capacity_bytes / profile.kv_bytes_per_token)
    assert (rates.itl_base_s, rates.max_sequences) == (0.025, 16)


@pytest.mark.parametrize("other", [None, "another-model"])
def test_without_its_own_profile_a_model_is_routed_by_cautious_rates_and_it_is_said(
    profile: Profile, other: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    rates = replica_rates(LlmConfig(), profile.model_copy(update={"model": other}) if other else None)
    assert rates.prefill_tokens_per_s == CAUTIOUS["cpu"].prefill_tokens_per_s < profile.prefill_tokens_per_s
    assert "cautious rates" in caplog.text and (other or "no profile") in caplog.text


def test_serve_can_pass_the_settings_on(profile: Profile) -> None:
    config = LlmConfig(routing=RoutingConfig(max_wait_ms={"interactive": 1000.0}))
    settings = router_config(config, Path("/model"), profile)["request_router_kwargs"]
    assert json.loads(json.dumps(settings)) == settings
    assert settings["max_wait_ms"] == {"10": 1000.0}, "by priority; voice and batch wait"


def test_the_load_time_of_the_profile_is_the_scalers(profile: Profile) -> None:
    from configs.scaling import ScalingConfig

    made = autoscaling_config(ScalingConfig(max_replicas=4), profile.model_copy(update={"load_time_s": 900.0}))
    scale = made["policy"]["policy_kwargs"]["scale"]
    assert scale["growth"]["load_time_s"] == 900 == scale["look_back_s"]
    assert (made["upscale_delay_s"], made["downscale_delay_s"]) == (0, 0), "Serve's delays would count twice"


def test_a_deadline_of_nothing_is_refused() -> None:
    with pytest.raises(ValidationError):
        RoutingConfig(max_wait_ms={"voice": 0.0})
