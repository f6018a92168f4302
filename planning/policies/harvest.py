"""How much batch work may run beside the callers: what they leave idle, as long as they do not feel it.

The idle share of the moment says how much of the fleet there is to be had; how much batch an idle fleet bears is
learned by AIMD (Chiu and Jain, 1989) on the online p95 TTFT and queue, as in llm-d's batch gateway: `add` more after a
good step, `factor` after a bad one or an error, no more often than every settle_s, as a change shows only after it. A
queue over reclaim_queue takes all back at once. Behind its deadline batch climbs faster, never past what callers bear.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from configs.schema import Frozen
from planning.quantities import NonNegative, Positive, round_up

Reason = Literal["more", "less", "reclaim", "hold", "no metrics"]


class HarvestConfig(Frozen):
    """target_ttft_ms: the online p95 that callers are to keep. Concurrency counts batch requests in flight.

    good_share: growth needs a p95 below this share of the target, so that it does not climb into the wall each time.
    queue_gate: growth needs an online queue (requests waiting for a first token, a replica) no longer than it.
    """

    target_ttft_ms: Positive
    start: NonNegative = 20.0
    floor: NonNegative = 5.0
    ceiling: Positive = 1000.0
    add: Positive = 1.0
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    good_share: Annotated[float, Field(gt=0, le=1)] = 0.9
    queue_gate: NonNegative = 1.0
    reclaim_queue: Positive = 4.0
    settle_s: Positive = 5.0
    max_climb: Positive = 8.0

    @model_validator(mode="after")
    def _check(self) -> "HarvestConfig":
        if not self.floor <= self.start <= self.ceiling:
            raise ValueError(
                f"floor = {self.floor:g}, start = {self.start:g} and ceiling = {self.ceiling:g} are not in order"
            )
        return self


@dataclass(frozen=True, slots=True)
class Online:
    """What callers felt since the last step. `p95_ttft_ms` is None where none got a first token.

    idle_share: of the replicas' time, that in which they had no caller's request at all.
    """

    p95_ttft_ms: float | None
    queue_per_replica: float
    idle_share: float = 1.0
    errors: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """The batch with the nearest deadline."""

    rows_left: int
    rows_per_s: float  # measured, at the concurrency that there was
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Harvest:
    """`concurrency` allowed now: `capacity`, which AIMD learns, times the idle share of the moment.

    `late_s` is by how much the job will miss its deadline at the present rate, or 0.
    """

    capacity: float
    concurrency: float
    reason: Reason = "hold"
    changed_s: float = float("-inf")
    late_s: float = 0.0


def start(config: HarvestConfig) -> Harvest:
    """Where a controller begins."""
    return Harvest(config.start, config.start)


def step(config: HarvestConfig, state: Harvest, online: Online | None, job: Job | None, now_s: float) -> Harvest:
    """The next state. How it fails: without metrics it goes down step by step to the floor, as if callers suffered.

    Concurrency 0 is only ever the floor's (floor = 0) or a reclaim's, which ends with the queue: capacity is halved
    as after any bad step, once.
    """
    late_s = _late_s(job, now_s)
    settled = now_s - state.changed_s >= config.settle_s
    if online is None or _suffer(config, online):
        capacity, changed_s = state.capacity, state.changed_s
        if settled:
            capacity, changed_s = max(config.floor, capacity * config.factor), now_s
        if online is None:
            return Harvest(capacity, min(state.concurrency, capacity), "no metrics", changed_s, late_s)
        if online.queue_per_replica > config.reclaim_queue:
            return Harvest(capacity, 0.0, "reclaim", changed_s, late_s)
        return _allowed(config, Harvest(capacity, 0.0, "less" if settled else "hold", changed_s, late_s), online)
    good = (online.p95_ttft_ms or 0.0) <= config.good_share * config.target_ttft_ms
    full = state.capacity >= config.ceiling
    if not good or full or online.queue_per_replica > config.queue_gate:
        return _allowed(config, replace(state, reason="hold", late_s=late_s), online)
    climb = config.add * (min(config.max_climb, _needed_factor(job, now_s)) if late_s else 1.0)
    capacity = min(config.ceiling, state.capacity + climb)
    return _allowed(config, replace(state, capacity=capacity, reason="more", late_s=late_s), online)


def lent_replicas(concurrency: float, rows_per_replica: float) -> int:
    """On how many replicas so many rows run, packed: the others stay free, and callers find them faster.

    What is lent counts as burst supply in planning.policies.scale: it is back as soon as its rows are done.
    """
    return round_up(concurrency / rows_per_replica)


def _suffer(config: HarvestConfig, online: Online) -> bool:
    return (
        online.errors > 0
        or online.queue_per_replica > config.reclaim_queue
        or (online.p95_ttft_ms or 0.0) > config.target_ttft_ms
    )


def _allowed(config: HarvestConfig, state: Harvest, online: Online) -> Harvest:
    return replace(state, concurrency=max(config.floor, state.capacity * online.idle_share))


def _late_s(job: Job | None, now_s: float) -> float:
    if job is None or not job.rows_left or job.rows_per_s <= 0:
        return 0.0
    return max(0.0, now_s + job.rows_left / job.rows_per_s - job.deadline_s)


def _needed_factor(job: Job | None, now_s: float) -> float:
    """How many times faster the job has to go to be done in time."""
    if job is None or job.deadline_s <= now_s:
        return float("inf")
    return job.rows_left / job.rows_per_s / (job.deadline_s - now_s)
