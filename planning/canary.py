"""canary: how many requests a verdict needs, and so how long each stage lasts.

One-sided tests with equal arms, Bonferroni's share of alpha for each stage and metric, each stage's verdict taken once,
at its end. Error rates: the two-proportion z test, pooled under H0 (Fleiss, Statistical Methods for Rates and
Proportions). p95: the asymptotic variance of a sample quantile, q(1 − q)/f² (Mosteller, 1946), f the density at p95 of
the lognormal through p50 and p95, and that variance in the slower arm scaled with its p95. Requests of one conversation
are alike by `icc` (Kish's design effect, 1965).
"""

from math import ceil, log, sqrt
from statistics import NormalDist
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from planning.quantities import Count, Fraction, InnerFraction, Outputs, Positive, Scenario, round_up
from planning.topic import Picture, Row, Topic, between, sweep

QUANTILE = 0.95
NORMAL = NormalDist()


class CanaryScenario(Scenario):
    baseline_error_rate: Annotated[float, Field(ge=0, lt=1)]
    detectable_error_rate: Annotated[InnerFraction, Field(description="absolute")]
    alpha: Annotated[float, Field(gt=0, le=0.5)]
    power: Annotated[float, Field(ge=0.5, lt=1)]
    metrics: Count
    p50_ms: Positive
    p95_ms: Positive
    detectable_p95_increase: Annotated[Positive, Field(description="relative")]
    requests_per_conversation: Annotated[float, Field(ge=1)]
    icc: Fraction
    requests_per_s: Positive
    stages: Annotated[tuple[InnerFraction, ...], Field(min_length=1)]

    @field_validator("detectable_error_rate")
    @classmethod
    def _is_worse(cls, rate: float, info: ValidationInfo) -> float:
        if rate <= info.data.get("baseline_error_rate", -1):
            raise ValueError(f"not over baseline_error_rate = {info.data['baseline_error_rate']:g}")
        return rate

    @field_validator("p95_ms")
    @classmethod
    def _is_over_the_median(cls, p95_ms: float, info: ValidationInfo) -> float:
        if p95_ms <= info.data.get("p50_ms", 0):
            raise ValueError(f"not over p50_ms = {info.data['p50_ms']:g}")
        return p95_ms


class CanaryOutputs(Outputs):
    alpha_per_test: Annotated[float, Row("alpha / (stages · metrics)")]
    requests_errors: Annotated[
        float, Row("(z_α √(2 p̄(1 − p̄)) + z_β √(p₀(1 − p₀) + p₁(1 − p₁)))² / (p₁ − p₀)²", "requests an arm")
    ]
    requests_latency: Annotated[
        float, Row("(z_α + z_β)² · (σ₀² + (σ₀ (1 + increase))²) / (increase · p95)²", "requests an arm")
    ]
    design_effect: Annotated[float, Row("1 + (requests_per_conversation − 1) · icc")]
    requests_per_arm: Annotated[int, Row("⌈the larger · design_effect⌉", "requests")]
    stage_s: Annotated[list[float], Row("requests_per_arm / (requests_per_s · min(share, 1 − share))", "s")]


def z_sum(alpha: float, power: float) -> tuple[float, float]:
    """z of a one-sided test at alpha, and of its power."""
    return NORMAL.inv_cdf(1 - alpha), NORMAL.inv_cdf(power)


def requests_for_errors(baseline: float, detectable: float, alpha: float, power: float) -> float:
    """Requests an arm that tell two error rates apart."""
    z_alpha, z_beta = z_sum(alpha, power)
    pooled = (baseline + detectable) / 2
    spread = baseline * (1 - baseline) + detectable * (1 - detectable)
    return float(
        (z_alpha * sqrt(2 * pooled * (1 - pooled)) + z_beta * sqrt(spread)) ** 2 / (detectable - baseline) ** 2
    )


def p95_deviation_ms(p50_ms: float, p95_ms: float) -> float:
    """σ₀: √n times the standard error (ms) of a sample's p95, the latencies lognormal through p50 and p95."""
    z = NORMAL.inv_cdf(QUANTILE)
    density = NORMAL.pdf(z) / (p95_ms * log(p95_ms / p50_ms) / z)
    return sqrt(QUANTILE * (1 - QUANTILE)) / density


def requests_for_latency(p50_ms: float, p95_ms: float, increase: float, alpha: float, power: float) -> float:
    """Requests an arm that show a p95 higher by `increase`, relative."""
    deviation = p95_deviation_ms(p50_ms, p95_ms)
    variance = deviation**2 + (deviation * (1 + increase)) ** 2
    return float(sum(z_sum(alpha, power)) ** 2 * variance / (increase * p95_ms) ** 2)


def plan_canary(s: CanaryScenario) -> CanaryOutputs:
    """Requests a verdict needs, and each stage's length."""
    alpha = s.alpha / (len(s.stages) * s.metrics)
    errors = requests_for_errors(s.baseline_error_rate, s.detectable_error_rate, alpha, s.power)
    latency = requests_for_latency(s.p50_ms, s.p95_ms, s.detectable_p95_increase, alpha, s.power)
    design_effect = 1 + (s.requests_per_conversation - 1) * s.icc
    per_arm = round_up(max(errors, latency) * design_effect)
    return CanaryOutputs(
        alpha_per_test=alpha,
        requests_errors=errors,
        requests_latency=latency,
        design_effect=design_effect,
        requests_per_arm=per_arm,
        stage_s=[per_arm / (s.requests_per_s * min(share, 1 - share)) for share in s.stages],
    )


def finding(s: CanaryScenario, o: CanaryOutputs) -> str:
    judged = "the error rate" if o.requests_errors >= o.requests_latency else "p95"
    stages = ", ".join(f"{share:.0%} for {length / 60:.1f}" for share, length in zip(s.stages, o.stage_s, strict=True))
    return (
        f"A verdict needs {o.requests_per_arm:,} requests an arm, as many as {judged} asks for (conversations make it "
        f"{o.design_effect:.2f} times as many): stages of {stages} minutes, {sum(o.stage_s) / 3600:.1f} h in all at "
        f"{s.requests_per_s:g} requests/s."
    )


def picture(s: CanaryScenario, o: CanaryOutputs) -> Picture:
    increases = between(0.02, 0.5, 25)
    series: dict[str, list[float | None]] = {
        "p95": sweep(plan_canary, s, "detectable_p95_increase", increases, lambda out: ceil(out.requests_latency)),
        "errors, as given": [float(ceil(o.requests_errors))] * len(increases),
    }
    return Picture("detectable_p95_increase", "requests an arm", increases, series)


TOPIC = Topic(
    "How many requests does a canary's verdict need, and how long does each stage last?",
    CanaryScenario,
    plan_canary,
    finding,
    picture,
)
