"""price: list prices of input, cached input and output tokens, and which assumption moves them most.

Input and output are priced by the replica time they take. A cached token is priced by the time to restore its KV and by
the memory it holds meanwhile: an opportunity price, as if KV memory were full.
"""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from planning.profile import Profile
from planning.quantities import Ceiling, Fraction, NonNegative, Outputs, Positive, Scenario
from planning.topic import Picture, Row, Topic

Assumption = Literal[
    "usd_per_gpu_hour",
    "utilization_ceiling",
    "prefill_tokens_per_s",
    "decode_tokens_per_s",
    "cached_prompt_fraction",
    "hold_s",
]
DIVISORS = {"utilization_ceiling", "prefill_tokens_per_s", "decode_tokens_per_s"}
FRACTIONS = {"utilization_ceiling", "cached_prompt_fraction"}


class PriceScenario(Scenario):
    prompt_tokens: Positive
    cached_prompt_fraction: Fraction
    output_tokens: Positive
    utilization_ceiling: Ceiling
    margin: NonNegative
    restore_bytes_per_s: Positive
    hold_s: NonNegative
    ranges: Annotated[dict[Assumption, tuple[NonNegative, Positive]], Field(min_length=1)]
    profile: Profile

    @field_validator("ranges")
    @classmethod
    def _ordered(cls, ranges: dict[Assumption, tuple[float, float]]) -> dict[Assumption, tuple[float, float]]:
        for key, (low, high) in ranges.items():
            if low > high:
                raise ValueError(f"{key}: the low factor {low:g} is over the high one {high:g}")
            if low == 0 and key in DIVISORS:
                raise ValueError(f"{key}: nothing can be divided by 0 times itself")
        return ranges


class PriceList(Outputs):
    """USD a million tokens."""

    input_usd_per_million_tokens: Annotated[
        float, Row("usd a replica-second / (prefill_tokens_per_s · utilization_ceiling) · (1 + margin) · 10⁶", "USD")
    ]
    cached_usd_per_million_tokens: Annotated[
        float,
        Row(
            "usd a replica-second · (kv_bytes_per_token / restore_bytes_per_s + kv_bytes_per_token · hold_s / "
            "kv_capacity_bytes) / utilization_ceiling · (1 + margin) · 10⁶",
            "USD",
        ),
    ]
    output_usd_per_million_tokens: Annotated[
        float, Row("usd a replica-second / (decode at length · utilization_ceiling) · (1 + margin) · 10⁶", "USD")
    ]

    def usd(self, prompt_tokens: float, cached_prompt_fraction: float, output_tokens: float) -> float:
        """What a request costs."""
        cached = prompt_tokens * cached_prompt_fraction
        return (
            (prompt_tokens - cached) * self.input_usd_per_million_tokens
            + cached * self.cached_usd_per_million_tokens
            + output_tokens * self.output_usd_per_million_tokens
        ) / 1e6


class PriceOutputs(PriceList):
    break_even_hold_s: Annotated[
        float,
        Row("(1/prefill_tokens_per_s − kv bytes/restore_bytes_per_s) · kv_capacity_bytes / kv_bytes_per_token", "s"),
    ]
    blended_usd_per_request: Annotated[
        float, Row("(uncached · input + cached · cached + output · output) / 10⁶", "USD")
    ]
    sensitivity: Annotated[dict[str, float], Row("|blended(high) − blended(low)| / blended, largest first")]
    most_sensitive: Annotated[str, Row("the first of them")]


def price_list(s: PriceScenario) -> PriceList:
    """List prices at this scenario's lengths."""
    usd_per_s = s.profile.usd_per_replica_s / s.utilization_ceiling * (1 + s.margin)
    kv = s.profile.kv_bytes_per_token
    cached_s = kv / s.restore_bytes_per_s + kv * s.hold_s / s.profile.kv_capacity_bytes
    decode = s.profile.decode_tokens_per_s_at(s.prompt_tokens, s.output_tokens)
    return PriceList(
        input_usd_per_million_tokens=usd_per_s / s.profile.prefill_tokens_per_s * 1e6,
        cached_usd_per_million_tokens=usd_per_s * cached_s * 1e6,
        output_usd_per_million_tokens=usd_per_s / decode * 1e6,
    )


def blended_usd(s: PriceScenario) -> float:
    """What the scenario's request costs."""
    return price_list(s).usd(s.prompt_tokens, s.cached_prompt_fraction, s.output_tokens)


def scaled(s: PriceScenario, key: Assumption, factor: float) -> PriceScenario:
    """The scenario with one assumption times a factor, fractions held to 1."""
    owner = s if key in PriceScenario.model_fields else s.profile
    value = getattr(owner, key) * factor
    changed: dict[str, float] = {key: min(1.0, value) if key in FRACTIONS else value}
    if owner is s:
        return s.model_copy(update=changed)
    return s.model_copy(update={"profile": s.profile.model_copy(update=changed)})


def plan_price(s: PriceScenario) -> PriceOutputs:
    """The price list, and how far each assumption's range moves the blended price."""
    prices = price_list(s)
    blended = blended_usd(s)
    swings = {
        key: abs(blended_usd(scaled(s, key, high)) - blended_usd(scaled(s, key, low))) / blended if blended else 0.0
        for key, (low, high) in s.ranges.items()
    }
    sensitivity: dict[str, float] = dict(sorted(swings.items(), key=lambda item: -item[1]))
    kv = s.profile.kv_bytes_per_token
    saved_s = 1 / s.profile.prefill_tokens_per_s - kv / s.restore_bytes_per_s
    return PriceOutputs(
        **prices.model_dump(),
        break_even_hold_s=saved_s * s.profile.kv_capacity_bytes / kv,
        blended_usd_per_request=blended,
        sensitivity=sensitivity,
        most_sensitive=next(iter(sensitivity)),
    )


def finding(s: PriceScenario, o: PriceOutputs) -> str:
    return (
        f"A million tokens of input list at {o.input_usd_per_million_tokens:.3f} USD, cached "
        f"{o.cached_usd_per_million_tokens:.3f}, of output {o.output_usd_per_million_tokens:.3f}; {o.most_sensitive} "
        f"moves the blended price most, by {o.sensitivity[o.most_sensitive]:.0%} over its range. Keeping a prefix is "
        f"cheaper than prefilling it again for up to {o.break_even_hold_s:.0f} s."
    )


def picture(s: PriceScenario, o: PriceOutputs) -> Picture:
    keys = sorted(s.ranges, key=lambda key: -o.sensitivity[key])
    ends: dict[str, list[float | None]] = {
        end: [blended_usd(scaled(s, key, s.ranges[key][i])) * 1000 for key in keys]
        for i, end in enumerate(("low end of its range", "high end"))
    }
    return Picture("assumption", "blended USD per 1,000 requests", [str(key) for key in keys], ends, bars=True)


TOPIC = Topic(
    "What do input, cached input and output tokens cost, and which assumption moves that most?",
    PriceScenario,
    plan_price,
    finding,
    picture,
)
