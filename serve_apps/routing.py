"""The router's settings: what a deployment's configuration and the profile of its engine say. No Ray import."""

import logging
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from configs.deployment import LlmConfig
from configs.tenants import PRIORITIES
from planning.policies.route import ReplicaRates
from planning.profile import Profile

logger = logging.getLogger("ray.serve")

CAUTIOUS = {
    "cpu": ReplicaRates(500, 8, 20_000, 0.05, 0.01),
    "cuda": ReplicaRates(5_000, 64, 100_000, 0.03, 0.0005),
}
"""For an engine that was not measured: slower than any that is worth running, so that queues look long rather than
short. What a hit saves and what a queue costs scale alike, so affinity hardly changes; a deadline refuses early."""


def replica_rates(config: LlmConfig, profile: Profile | None) -> ReplicaRates:
    """One replica's rates. Without a profile, or with another model's, cautious ones, and the log says so."""
    if profile is None or profile.model != config.model:
        why = "there is no profile" if profile is None else f"the profile is {profile.model}'s"
        logger.warning("%s is routed by cautious rates: %s (gateway.profile)", config.model, why)
        return replace(CAUTIOUS[config.device], max_sequences=config.max_num_seqs)
    return ReplicaRates(
        prefill_tokens_per_s=profile.prefill_tokens_per_s,
        max_sequences=config.max_num_seqs,
        kv_capacity_tokens=profile.kv_capacity_bytes / profile.kv_bytes_per_token,
        itl_base_s=(profile.inter_token_ms if profile.itl_base_ms is None else profile.itl_base_ms) / 1000,
        itl_per_sequence_s=(profile.itl_per_sequence_ms or 0.0) / 1000,
    )


def router_config(config: LlmConfig, model: Path, profile: Profile | None) -> dict[str, Any]:
    """Serve's `request_router_config` of the LLM deployment."""
    routing = config.routing
    return {
        "request_router_class": "serve_apps.router:AffinityRouter",
        "request_router_kwargs": {
            "model": config.model,
            "path": str(model),
            "block_tokens": config.block_size,
            "context_tokens": config.context_tokens,
            "rates": asdict(replica_rates(config, profile)),
            "route": {"hysteresis": routing.hysteresis, "max_entries": routing.max_entries},
            "max_wait_ms": {str(PRIORITIES[name]): ms for name, ms in routing.max_wait_ms.items()},
        },
    }
