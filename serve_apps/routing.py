"""The router's settings: what a deployment's configuration and the profile of its engine say. No Ray import."""

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

from configs.deployment import LlmConfig
from configs.errors import InputError
from configs.schema import parse, read_yaml
from planning.policies.route import ReplicaRates
from planning.profile import Profile

logger = logging.getLogger("ray.serve")

CAUTIOUS = {
    "cpu": ReplicaRates(500, 8, 20_000, 0.05, 0.01),
    "cuda": ReplicaRates(5_000, 64, 100_000, 0.03, 0.0005),
}
"""For an engine that was not measured: slower than any that is worth running, so that queues look long rather than
short. What a hit saves and what a queue costs scale alike, so affinity hardly changes; a deadline refuses early."""


def replica_rates(config: LlmConfig) -> ReplicaRates:
    """One replica's rates, from the profile that the configuration names.

    A profile that is missing, unreadable or another model's is said in the log, and cautious rates are used.
    """
    path = config.routing.profile
    if path is None:
        return _cautious(config, "no profile is configured (llm.routing.profile)")
    try:
        profile = read_profile(Path(path))
    except InputError as error:
        return _cautious(config, str(error))
    if profile.model != config.model:
        return _cautious(config, f"llm.routing.profile = {path} is of {profile.model}")
    return ReplicaRates(
        prefill_tokens_per_s=profile.prefill_tokens_per_s,
        max_sequences=config.max_num_seqs,
        kv_capacity_tokens=profile.kv_capacity_bytes / profile.kv_bytes_per_token,
        itl_base_s=(profile.inter_token_ms if profile.itl_base_ms is None else profile.itl_base_ms) / 1000,
        itl_per_sequence_s=(profile.itl_per_sequence_ms or 0.0) / 1000,
    )


def read_profile(path: Path) -> Profile:
    """What `firstclause profile` wrote. Raises InputError."""
    return parse(Profile, read_yaml(path), str(path))


def router_config(config: LlmConfig, model: Path) -> dict[str, Any]:
    """Serve's `request_router_config` of the LLM deployment."""
    routing = config.routing
    return {
        "request_router_class": "serve_apps.router:AffinityRouter",
        "request_router_kwargs": {
            "model": config.model,
            "path": str(model),
            "block_tokens": config.block_size,
            "context_tokens": config.context_tokens,
            "rates": asdict(replica_rates(config)),
            "route": {"hysteresis": routing.hysteresis, "max_entries": routing.max_entries},
            "max_wait_ms": routing.max_wait_ms,
        },
    }


def _cautious(config: LlmConfig, why: str) -> ReplicaRates:
    logger.warning("%s: %s; it is routed by cautious rates", config.model, why)
    cautious = CAUTIOUS[config.device]
    return ReplicaRates(**(asdict(cautious) | {"max_sequences": config.max_num_seqs}))
