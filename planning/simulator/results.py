"""What came out of a run: exact percentiles, and the check that nothing was lost or counted twice."""

from array import array
from typing import Any

import numpy as np

from planning.clocks import waits_s
from planning.simulator.draws import Floats
from planning.simulator.request import Request

PERCENTS = (50, 95, 99)


class LittlesLaw:
    """L = λ·W, the number in the system integrated over time against the sum of the times that requests spent in it.

    The two are counted apart, so that a request that is lost, doubled or timed wrongly shows at once.
    """

    def __init__(self) -> None:
        self.inside = 0
        self.area_s = 0.0  # the integral of `inside`
        self.spent_s = 0.0  # over requests
        self._since_s = 0.0

    def enter(self, now_s: float) -> None:
        """A request arrives."""
        self.area_s += self.inside * (now_s - self._since_s)
        self._since_s = now_s
        self.inside += 1

    def leave(self, arrival_s: float, now_s: float) -> None:
        """A request that arrived at arrival_s is done with."""
        self.area_s += self.inside * (now_s - self._since_s)
        self._since_s = now_s
        self.inside -= 1
        self.spent_s += now_s - arrival_s

    def error(self) -> float:
        """Relative difference of the two, once all have left."""
        return abs(self.area_s - self.spent_s) / self.spent_s if self.spent_s else 0.0


class Outcomes:
    """The finished requests of one tenant, as columns in seconds, in the order in which they finished."""

    def __init__(self) -> None:
        self.arrival_s, self.ttft_s, self.e2e_s, self.tpot_s = array("d"), array("d"), array("d"), array("d")
        self.queue_s = array("d")  # in front of the fleet
        self.prompt_tokens = self.cached_tokens = self.output_tokens = 0
        self.refused_s = array("d")  # when they came
        self.retried = 0

    def add(self, request: Request) -> None:
        self.arrival_s.append(request.arrival_s)
        self.queue_s.append(request.sent_s - request.arrival_s)
        self.ttft_s.append(request.first_token_s - request.arrival_s)
        self.e2e_s.append(request.finish_s - request.arrival_s)
        gaps = request.output_tokens - 1
        self.tpot_s.append((request.finish_s - request.first_token_s) / gaps if gaps > 0 else 0.0)
        self.prompt_tokens += request.prompt_tokens
        self.cached_tokens += request.cached_tokens
        self.output_tokens += request.output_tokens
        self.retried += request.retries > 0


class StepTimes:
    """The time between output tokens, by the step that made them: exact, and a pair of numbers a kind of step."""

    def __init__(self) -> None:
        self._tokens: dict[float, int] = {}

    def steps(self, step_s: float, tokens: int) -> None:
        """`tokens` output tokens came step_s after their predecessors."""
        self._tokens[step_s] = self._tokens.get(step_s, 0) + tokens

    def summary_ms(self) -> dict[str, float | None]:
        """Percentiles over tokens, in ms."""
        if not self._tokens:
            return dict.fromkeys([*(f"p{p}" for p in PERCENTS), "mean"])
        values = np.fromiter(self._tokens, np.float64)
        weights = np.fromiter(self._tokens.values(), np.float64)
        order = np.argsort(values)
        values, reached = values[order], np.cumsum(weights[order])
        places = np.searchsorted(reached, np.array(PERCENTS) / 100 * reached[-1])
        out: dict[str, float | None] = {f"p{p}": float(values[i]) * 1000 for p, i in zip(PERCENTS, places, strict=True)}
        out["mean"] = float(np.average(values, weights=weights[order])) * 1000
        return out


def summary_ms(seconds: Floats) -> dict[str, float | None]:
    """Mean and percentiles in ms, by linear interpolation between order statistics; None of nothing."""
    if not len(seconds):
        return dict.fromkeys([*(f"p{p}" for p in PERCENTS), "mean", "max"])
    out: dict[str, float | None] = {
        f"p{p}": float(v) * 1000 for p, v in zip(PERCENTS, np.percentile(seconds, PERCENTS), strict=True)
    }
    out["mean"], out["max"] = float(seconds.mean()) * 1000, float(seconds.max()) * 1000
    return out


def tenant_summary(
    outcomes: list[Outcomes], from_s: float, to_s: float, ttft_ms: float | None, inter_token_ms: float | None
) -> dict[str, Any]:
    """One tenant's figures, or several tenants' together, of the requests that arrived in [from_s, to_s)."""
    arrival = np.concatenate([np.asarray(o.arrival_s) for o in outcomes])
    counted = (arrival >= from_s) & (arrival < to_s)
    ttft, e2e, tpot, queue = (
        np.concatenate([np.asarray(getattr(o, name)) for o in outcomes])[counted]
        for name in ("ttft_s", "e2e_s", "tpot_s", "queue_s")
    )
    arrival = arrival[counted]
    good = np.ones(len(ttft), bool)
    if ttft_ms is not None:
        good &= ttft * 1000 <= ttft_ms
    if inter_token_ms is not None:
        good &= tpot * 1000 <= inter_token_ms
    refused_s = np.concatenate([np.asarray(o.refused_s) for o in outcomes])
    refused = int(((refused_s >= from_s) & (refused_s < to_s)).sum())
    prompt_tokens = sum(o.prompt_tokens for o in outcomes)
    return {
        "requests": len(ttft),
        "refused": refused,
        "retried": sum(o.retried for o in outcomes),
        "ttft_ms": summary_ms(ttft),
        "inter_token_ms": summary_ms(tpot),
        "gateway_queue_ms": summary_ms(queue),
        "e2e_ms": summary_ms(e2e),
        "goodput_requests_per_s": float(good.sum()) / (to_s - from_s),
        "good_share": float(good.sum()) / max(1, len(good) + refused),
        "cached_share": sum(o.cached_tokens for o in outcomes) / prompt_tokens if prompt_tokens else 0.0,
        "output_tokens": sum(o.output_tokens for o in outcomes),
        "slo_missing_minutes": _missing_minutes(arrival, ttft, ttft_ms),
    }


def against_theory(outcomes: list[Outcomes], servers: int, from_s: float, to_s: float) -> dict[str, float]:
    """The mean wait in front of `servers` that serve one request at a time, beside M/G/m's (planning.clocks).

    Rate and service times are the run's own. M/M/m and M/G/1 are exact, M/G/m is Allen and Cunneen's approximation:
    `error` is its relative error. Raises InputError where the run was at or over capacity.
    """
    columns = [
        np.concatenate([np.asarray(getattr(o, name)) for o in outcomes]) for name in ("arrival_s", "e2e_s", "queue_s")
    ]
    counted = (columns[0] >= from_s) & (columns[0] < to_s)
    _, e2e, queue = (column[counted] for column in columns)
    service = e2e - queue
    mean_s = float(service.mean())
    cv = float(service.std()) / mean_s
    predicted_s = waits_s(len(service) / (to_s - from_s), servers, mean_s, cv)[0]
    waited_s = float(queue.mean())
    return {
        "service_ms": mean_s * 1000,
        "service_cv": cv,
        "wait_ms": waited_s * 1000,
        "m_g_m_wait_ms": predicted_s * 1000,
        "error": predicted_s / waited_s - 1 if waited_s else 0.0,
    }


def _missing_minutes(arrival_s: Floats, ttft_s: Floats, ttft_ms: float | None) -> int | None:
    """Minutes whose arrivals' p95 TTFT is over the objective."""
    if ttft_ms is None:
        return None
    minutes = (arrival_s // 60).astype(np.int64)
    order = np.argsort(minutes, kind="stable")
    minutes, ttft_s = minutes[order], ttft_s[order]
    edges = np.flatnonzero(np.diff(minutes)) + 1
    return sum(float(np.percentile(part, 95)) * 1000 > ttft_ms for part in np.split(ttft_s, edges) if len(part))
