"""clocks: what the client waits beside what the engine reports.

Requests wait in front of the engine as M/G/m: Erlang C (A. K. Erlang, 1917) with Allen and Cunneen's factor
(A. O. Allen, Probability, Statistics and Queueing Theory, 1990) for the spread of service times. A fluid
approximation: a batching replica is taken as one server of replica-seconds, off by up to half at a high service_cv,
and the p95 is a conservative sum: fine to explain, not to steer by.
"""

import math
from typing import Annotated

from pydantic import Field

from configs.errors import InputError
from planning.quantities import Count, NonNegative, Outputs, Positive, Scenario
from planning.topic import Picture, Row, Topic, between, sweep


class ClocksScenario(Scenario):
    requests_per_s: NonNegative
    replicas: Annotated[Count, Field(le=1_000_000)]
    service_time_s: Positive
    service_cv: NonNegative
    engine_ttft_s: Positive
    engine_ttft_p95_s: Positive
    gateway_s: NonNegative
    network_rtt_s: NonNegative
    flush_s: NonNegative


class ClocksOutputs(Outputs):
    offered_load: Annotated[float, Row("requests_per_s · service_time_s", "replicas")]
    probability_of_waiting: Annotated[float, Row("Erlang C(replicas, offered_load)")]
    wait_mean_s: Annotated[float, Row("C / (replicas / service_time_s − requests_per_s) · (1 + service_cv²) / 2", "s")]
    wait_p95_s: Annotated[
        float, Row("ln(C / 0.05) / (replicas / service_time_s − requests_per_s) · (1 + service_cv²) / 2, or 0", "s")
    ]
    client_ttft_mean_s: Annotated[float, Row("network_rtt + gateway + wait_mean + engine_ttft + flush", "s")]
    client_ttft_p95_s: Annotated[float, Row("network_rtt + gateway + wait_p95 + engine_ttft_p95 + flush", "s")]
    client_over_engine_mean: Annotated[float, Row("client_ttft_mean_s / engine_ttft_s")]
    client_over_engine_p95: Annotated[float, Row("client_ttft_p95_s / engine_ttft_p95_s")]


def erlang_c(servers: int, offered_load: float) -> float:
    """The probability that a request waits in M/M/servers, offered_load < servers (by Erlang B's recursion)."""
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = offered_load * blocked / (n + offered_load * blocked)
    return blocked / (1 - offered_load / servers * (1 - blocked))


def waits_s(requests_per_s: float, replicas: int, service_time_s: float, service_cv: float) -> tuple[float, float]:
    """Mean and 95th percentile (s) of the wait in front of the engine. Raises InputError at or over capacity."""
    spare_per_s = replicas / service_time_s - requests_per_s
    if requests_per_s * service_time_s >= replicas or spare_per_s <= 0:
        problem = (
            f"at or over capacity: {replicas} replicas of {service_time_s:g} s a request serve fewer than "
            f"{replicas / service_time_s:g} requests/s; add replicas or lower the load"
        )
        raise InputError("clocks", "requests_per_s", requests_per_s, problem)
    waiting = erlang_c(replicas, requests_per_s * service_time_s)
    spread = (1 + service_cv**2) / 2
    mean_s = waiting / spare_per_s * spread
    p95_s = 0.0 if waiting <= 0.05 else math.log(waiting / 0.05) / spare_per_s * spread
    return mean_s, p95_s


def plan_clocks(s: ClocksScenario) -> ClocksOutputs:
    """The client's clock from the engine's. Raises InputError at or over capacity."""
    wait_mean_s, wait_p95_s = waits_s(s.requests_per_s, s.replicas, s.service_time_s, s.service_cv)
    around_s = s.network_rtt_s + s.gateway_s + s.flush_s
    mean_s = around_s + wait_mean_s + s.engine_ttft_s
    p95_s = around_s + wait_p95_s + s.engine_ttft_p95_s
    offered_load = s.requests_per_s * s.service_time_s
    return ClocksOutputs(
        offered_load=offered_load,
        probability_of_waiting=erlang_c(s.replicas, offered_load),
        wait_mean_s=wait_mean_s,
        wait_p95_s=wait_p95_s,
        client_ttft_mean_s=mean_s,
        client_ttft_p95_s=p95_s,
        client_over_engine_mean=mean_s / s.engine_ttft_s,
        client_over_engine_p95=p95_s / s.engine_ttft_p95_s,
    )


def finding(s: ClocksScenario, o: ClocksOutputs) -> str:
    return (
        f"At {o.offered_load / s.replicas:.0%} load the client waits {o.client_ttft_mean_s * 1000:.0f} ms for its "
        f"first token where the engine reports {s.engine_ttft_s * 1000:.0f} ms: {o.client_over_engine_mean:.1f} times "
        f"as long (p95: {o.client_over_engine_p95:.1f} times); {o.wait_mean_s * 1000:.0f} ms of it pass in front of "
        f"the engine."
    )


def picture(s: ClocksScenario, o: ClocksOutputs) -> Picture:
    capacity = s.replicas / s.service_time_s
    loads = between(0.5, 0.99, 50)
    rates = [load * capacity for load in loads]
    return Picture(
        "load",
        "first token (ms)",
        loads,
        {
            "client, mean": sweep(plan_clocks, s, "requests_per_s", rates, lambda out: out.client_ttft_mean_s * 1000),
            "client, p95": sweep(plan_clocks, s, "requests_per_s", rates, lambda out: out.client_ttft_p95_s * 1000),
            "engine, mean": [s.engine_ttft_s * 1000] * len(loads),
        },
    )


TOPIC = Topic(
    "How much longer does the client wait than the engine's own clock says?",
    ClocksScenario,
    plan_clocks,
    finding,
    picture,
)
