"""Serve's autoscaling_config of the LLM deployment, from its configuration and its profile. No Ray import."""

from typing import Any

from configs.scaling import ScalingConfig
from planning.policies.scale import GrowthConfig, ScaleConfig
from planning.profile import Profile


def scale_config(scaling: ScalingConfig, load_time_s: float) -> ScaleConfig:
    """The policy's configuration: the headroom follows from the load time and the growth that is seen."""
    return ScaleConfig(
        min_replicas=scaling.min_replicas,
        max_replicas=scaling.max_replicas,
        utilization_ceiling=scaling.utilization_ceiling,
        headroom_fraction=scaling.headroom_fraction,
        growth=GrowthConfig(load_time_s=load_time_s),
        clear_s=scaling.burst_s,
        look_back_s=max(scaling.look_back_s, load_time_s),
    )


def autoscaling_config(scaling: ScalingConfig, profile: Profile) -> dict[str, Any]:
    """Serve's own delays are nought: the policy looks back and ahead itself."""
    return {
        "min_replicas": scaling.min_replicas,
        "max_replicas": scaling.max_replicas,
        "upscale_delay_s": 0.0,
        "downscale_delay_s": 0.0,
        "policy": {
            "policy_function": "serve_apps.autoscaling:HeadroomPolicy",
            "policy_kwargs": {
                "scale": scale_config(scaling, profile.load_time_s).model_dump(),
                "prefill_tokens_per_s": profile.prefill_tokens_per_s,
                "interval_s": scaling.interval_s,
            },
        },
    }
