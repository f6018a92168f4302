"""Each clock's percentiles under a load, client over engine, and what plan clocks says of the same load.

A pure function of the run's samples. The client's clock counts from the moment a request was due.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any

import numpy as np

from configs.errors import InputError
from loadtests.sample import CLOCKS, LlmSample
from planning.clocks import ClocksScenario, plan_clocks
from planning.fleet import request_replica_s
from planning.profile import Profile

FAR_APART = 5.0
"""Client over engine from which on the engine's own clock says little of what a client waits."""


@dataclass(frozen=True)
class Spread:
    """In ms."""

    mean: float
    p50: float
    p95: float


def spread(values_ms: Sequence[float]) -> Spread:
    return Spread(fmean(values_ms), *(float(p) for p in np.percentile(values_ms, [50, 95])))


def clock_report(samples: Sequence[LlmSample], rate_per_s: float, replicas: int, profile: Profile) -> dict[str, Any]:
    """The whole report as one document. Raises InputError where no whole answer has all clocks."""
    good = [s for s in samples if s.good and s.first_token_s is not None and _told(s)]
    if not good:
        raise InputError("clocks", "samples", len(samples), "no answer came back with clocks: is this our gateway?")
    measured = {name: spread([_of(s, name) for s in good]) for name in CLOCKS}
    measured["client_ttft_ms"] = client = spread([_client_ms(s) for s in good])
    engine = measured["engine_ttft_ms"]
    ratios = {"mean": client.mean / engine.mean, "p50": client.p50 / engine.p50, "p95": client.p95 / engine.p95}
    holders = _parts_ms(good)
    holder = max(holders, key=lambda name: holders[name])
    return {
        "rate_per_s": rate_per_s,
        "requests": len(samples),
        "answered": len(good),
        "clocks": {name: vars(value) for name, value in measured.items()},
        "client_over_engine": ratios,
        "far_apart": ratios["p95"] >= FAR_APART,
        "wait_is_in": holder,
        "parts_mean_ms": holders,
        "plan": _plan(good, measured, rate_per_s, replicas, profile),
    }


def sentence(report: dict[str, Any]) -> str:
    """What the report comes to."""
    ratio, holder = report["client_over_engine"]["p95"], report["wait_is_in"]
    passes = "passes five" if report["far_apart"] else "is under five"
    said = (
        f"At {report['rate_per_s']:g} requests/s client over engine {passes}: {ratio:.1f} at p95; most of the "
        f"wait is in {holder}, {report['parts_mean_ms'][holder]:.0f} ms in the mean."
    )
    plan = report["plan"]
    if "over_capacity" in plan:
        return f"{said} plan clocks: {plan['over_capacity']}."
    return f"{said} plan clocks expected {plan['client_over_engine_p95']:.1f}."


def _parts_ms(samples: Sequence[LlmSample]) -> dict[str, float]:
    """The client's wait in parts that add up to it, in the mean."""
    mean = {name: fmean(_of(s, name) for s in samples) for name in CLOCKS}
    client_ms = fmean(_client_ms(s) for s in samples)
    inside = mean["gateway_queue_ms"] + mean["route_ms"] + mean["engine_ttft_ms"]
    return {
        "gateway_queue_ms": mean["gateway_queue_ms"],
        "route_ms": mean["route_ms"],
        "engine_queue_ms": mean["engine_queue_ms"],
        "engine_prefill_ms": mean["engine_ttft_ms"] - mean["engine_queue_ms"],
        "server's rest": mean["server_ttft_ms"] - inside,
        "before the server": client_ms - mean["server_ttft_ms"],
    }


def _plan(
    samples: Sequence[LlmSample], measured: dict[str, Spread], rate_per_s: float, replicas: int, profile: Profile
) -> dict[str, Any]:
    service_s = [
        request_replica_s(
            s.prompt_tokens or 1, (s.cached_tokens or 0) / (s.prompt_tokens or 1), s.output_tokens, profile
        )
        for s in samples
    ]
    prefill = measured["engine_prefill_ms"]
    connects_s = [s.connected_s - s.sent_s for s in samples if s.connected_s is not None]
    parts = _parts_ms(samples)
    scenario = ClocksScenario(
        requests_per_s=rate_per_s,
        replicas=replicas,
        service_time_s=fmean(service_s),
        service_cv=pstdev(service_s) / fmean(service_s),
        engine_ttft_s=prefill.mean / 1000,
        engine_ttft_p95_s=prefill.p95 / 1000,
        gateway_s=parts["route_ms"] / 1000,
        network_rtt_s=fmean(connects_s) if connects_s else 0.0,
        flush_s=max(0.0, parts["server's rest"]) / 1000,
    )
    try:
        return plan_clocks(scenario).model_dump()
    except InputError as error:
        return {"over_capacity": error.problem}


def _told(sample: LlmSample) -> bool:
    return all(isinstance(value := getattr(sample, name), float) and math.isfinite(value) for name in CLOCKS)


def _of(sample: LlmSample, name: str) -> float:
    return float(getattr(sample, name))


def _client_ms(sample: LlmSample) -> float:
    assert sample.first_token_s is not None
    return (sample.first_token_s - sample.due_s) * 1000
