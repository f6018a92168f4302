"""spill: when a request leaves the replica that has its prefix cached, and what that affinity saves.

The threshold is what the cached prefix is worth: the ms of prefill it saves. Waits are the run time's.
"""

from typing import Annotated

from pydantic import ValidationInfo, field_validator

from planning.fleet import replicas_for, request_replica_s
from planning.profile import Profile
from planning.quantities import Ceiling, Fraction, NonNegative, Outputs, Positive, Scenario
from planning.topic import Picture, Row, Topic, between, sweep


class SpillScenario(Scenario):
    prompt_tokens: Positive
    hit_tokens: NonNegative
    prefix_share: Fraction
    requests_per_s: NonNegative
    output_tokens: Positive
    utilization_ceiling: Ceiling
    profile: Profile

    @field_validator("hit_tokens")
    @classmethod
    def _inside_the_prompt(cls, hit_tokens: float, info: ValidationInfo) -> float:
        if hit_tokens > info.data.get("prompt_tokens", hit_tokens):
            raise ValueError(f"more than prompt_tokens = {info.data['prompt_tokens']:g}")
        return hit_tokens


class SpillOutputs(Outputs):
    saved_ms: Annotated[float, Row("hit_tokens / prefill_tokens_per_s · 1000", "ms")]
    replicas_cold: Annotated[int, Row("the fleet with nothing cached", "replicas")]
    replicas_warm: Annotated[int, Row("the fleet with hit_tokens cached", "replicas")]
    popular_requests_per_s: Annotated[
        float,
        Row("utilization_ceiling / ((prompt − hit) / prefill_tokens_per_s + output / decode at length)", "requests/s"),
    ]
    home_replicas: Annotated[int, Row("⌈requests_per_s · prefix_share / popular_requests_per_s⌉", "replicas")]


def saved_ms(hit_tokens: float, prefill_tokens_per_s: float) -> float:
    """What a cached prefix of `hit_tokens` is worth: the prefill time (ms) that it saves."""
    return hit_tokens / prefill_tokens_per_s * 1000


def leaves_home(home_wait_ms: float, best_other_wait_ms: float, hit_tokens: float, prefill_tokens_per_s: float) -> bool:
    """Whether a request leaves its home: it would wait longer there, by more than its prefix saves."""
    return home_wait_ms - best_other_wait_ms > saved_ms(hit_tokens, prefill_tokens_per_s)


def plan_spill(s: SpillScenario) -> SpillOutputs:
    """The threshold, the fleets with and without affinity, and what one home holds."""
    cold_s = request_replica_s(s.prompt_tokens, 0, s.output_tokens, s.profile)
    warm_s = request_replica_s(s.prompt_tokens, s.hit_tokens / s.prompt_tokens, s.output_tokens, s.profile)
    return SpillOutputs(
        saved_ms=saved_ms(s.hit_tokens, s.profile.prefill_tokens_per_s),
        replicas_cold=replicas_for(s.requests_per_s * cold_s, s.utilization_ceiling),
        replicas_warm=replicas_for(s.requests_per_s * warm_s, s.utilization_ceiling),
        popular_requests_per_s=s.utilization_ceiling / warm_s,
        home_replicas=replicas_for(s.requests_per_s * s.prefix_share * warm_s, s.utilization_ceiling),
    )


def finding(s: SpillScenario, o: SpillOutputs) -> str:
    popular = s.requests_per_s * s.prefix_share
    return (
        f"Affinity takes the fleet from {o.replicas_cold} to {o.replicas_warm} replicas, until one prefix gets "
        f"popular: a home holds {o.popular_requests_per_s:.1f} requests/s and the most popular prefix brings "
        f"{popular:.1f}, so it needs {o.home_replicas} homes; a request leaves its home when it would wait "
        f"{o.saved_ms:.1f} ms longer there than at the best other."
    )


def picture(s: SpillScenario, o: SpillOutputs) -> Picture:
    shares = between(0, 1, 21)
    return Picture(
        "prefix_share: share of the requests that carry the most popular prefix",
        "replicas",
        shares,
        {
            "homes of the most popular prefix": sweep(
                plan_spill, s, "prefix_share", shares, lambda out: out.home_replicas
            ),
            "fleet, with affinity": [o.replicas_warm] * len(shares),
            "fleet, without": [o.replicas_cold] * len(shares),
        },
    )


TOPIC = Topic(
    "How long may a request wait for its cached prefix before it goes elsewhere, and what does affinity save?",
    SpillScenario,
    plan_spill,
    finding,
    picture,
)
