"""How many replicas there should be: today's demand, what it may grow by while a new one loads, and no fewer.

Demand is offered work in busy replicas (replica-seconds a second), the backlog to be cleared within `clear_s` on top.
The target utilisation leaves the headroom that the load time asks for (planning.headroom); replicas that are loading
are supply, and so are those lent to batch, which come back sooner than any new one. Going down is one replica at a
time, each first tried on paper: the busiest moment of the look-back must fit the rest.
"""

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field, model_validator

from configs.errors import InputError
from configs.schema import Frozen
from planning.clocks import waits_s
from planning.fleet import replicas_for
from planning.headroom import headroom_fraction, lag_steps, target_utilization
from planning.quantities import Ceiling, Count, Fraction, NonNegative, Positive


class GrowthConfig(Frozen):
    """What demand grows by while a replica loads, measured as planning.headroom does on the past `history_s`.

    Its means over `step_s`, which hide the noise of single arrivals; until there are `enough_s` of them, ScaleConfig's
    headroom_fraction holds.
    """

    load_time_s: NonNegative
    detect_s: NonNegative = 30.0
    quantile: Fraction = 0.95
    step_s: Positive = 300.0
    history_s: Positive = 86_400.0
    enough_s: Positive = 21_600.0


class ScaleConfig(Frozen):
    """Bounds and times.

    headroom_fraction is planning.headroom's for this fleet's load time and demand; with `growth` it is measured anew.
    smooth_s: time constant of the demand's average, which hides the noise of single arrivals. look_back_s: how long
    the busiest moment counts, at least the load time, so that a replica that was given up is not asked for again at
    once. hysteresis: share of the target utilisation that has to stay free after one replica less. max_wait_s: mean
    wait that n - 1 may cause, judged as M/G/m with service_time_s and service_cv. hold_s: without metrics for longer,
    the fleet goes back up to the most that it needed in the look-back.
    """

    min_replicas: Count = 1
    max_replicas: Count = 1000
    utilization_ceiling: Ceiling = 0.8
    headroom_fraction: NonNegative = 0.2
    growth: GrowthConfig | None = None
    clear_s: Positive = 30.0
    smooth_s: Positive = 30.0
    look_back_s: Positive = 600.0
    hysteresis: Annotated[float, Field(ge=0, lt=1)] = 0.1
    service_time_s: Positive = 1.0
    service_cv: NonNegative = 1.0
    max_wait_s: Positive = 1.0
    hold_s: Positive = 120.0

    @model_validator(mode="after")
    def _check(self) -> "ScaleConfig":
        if self.max_replicas < self.min_replicas:
            raise ValueError(f"max_replicas = {self.max_replicas} is under min_replicas = {self.min_replicas}")
        return self


@dataclass(frozen=True, slots=True)
class Observation:
    """The fleet since the last one. Only what was measured: a missing measurement is no Observation at all."""

    offered_replica_s: float  # work that arrived, in replica-seconds
    interval_s: float
    backlog_replica_s: float  # work that waits
    ready: int
    pending: int  # started and loading
    lent: int = 0  # of the ready ones, serving batch, to be had within reclaim_s


@dataclass(frozen=True, slots=True)
class Decision:
    """`replicas` is the number there should be, ready and pending together."""

    replicas: int
    reason: Literal["demand", "floor", "ceiling", "hold", "no metrics", "n-1 fits"]


@dataclass(slots=True)
class Scaler:
    """The state of one fleet's scaling.

    How it fails: without metrics it keeps what there is, never less, and after hold_s goes back to the look-back's
    most; no traffic and no metrics both end at min_replicas or above. A burst faster than the load time is not caught
    by any scaler: planning.headroom says what absorbs it. A clock that steps back counts as no time.
    """

    config: ScaleConfig
    demand: float | None = None  # busy replicas, smoothed
    measured_s: float | None = None
    headroom_fraction: float = field(init=False)
    _history: deque[float] = field(init=False)  # the demand's means, one a step of the growth
    _step: list[float] = field(default_factory=list)  # demand within the step under way
    _step_s: float | None = None  # when it began
    _needs: deque[tuple[float, float]] = field(default_factory=deque)  # (time, busy replicas needed), falling

    def __post_init__(self) -> None:
        growth = self.config.growth
        self.headroom_fraction = self.config.headroom_fraction
        self._history = deque(maxlen=int(growth.history_s / growth.step_s) if growth else 0)

    @property
    def target_utilization(self) -> float:
        """How busy replicas may be so that growth during a load stays under the ceiling."""
        return target_utilization(self.config.utilization_ceiling, self.headroom_fraction)

    def assume(self, replicas: int, now_s: float) -> None:
        """So many were needed until now: for one that begins, or begins anew, in the middle of a day."""
        self._remember(replicas * self.target_utilization * (1 - self.config.hysteresis), now_s)

    def step(self, observation: Observation | None, current: int, now_s: float) -> Decision:
        """What to do at `now_s` with `current` replicas (ready and pending) that there are."""
        config = self.config
        if observation is None or observation.interval_s <= 0:
            return self._without_metrics(current, now_s)
        self.measured_s = now_s
        offered = observation.offered_replica_s / observation.interval_s
        share = min(1.0, observation.interval_s / config.smooth_s)
        self.demand = offered if self.demand is None else self.demand + share * (offered - self.demand)
        self._grow(self.demand, now_s)
        needed = self.demand + observation.backlog_replica_s / config.clear_s
        self._remember(needed, now_s)
        wanted = replicas_for(needed, self.target_utilization)
        supply = observation.ready + observation.pending
        if wanted > supply:
            return self._bounded(wanted, "demand")
        if supply > config.min_replicas and self._fits(self._needs[0][1], supply - 1, observation.lent):
            return self._bounded(supply - 1, "n-1 fits")
        return self._bounded(supply, "hold")

    def _fits(self, busiest: float, replicas: int, lent: int) -> bool:
        """Whether the look-back's busiest moment would have been served well by so many."""
        config = self.config
        if replicas < 1 or busiest > replicas * self.target_utilization * (1 - config.hysteresis):
            return False
        if replicas - lent < busiest:
            return False  # batch replicas are for bursts, not for the load of every day
        return (
            waits_s(busiest / config.service_time_s, replicas, config.service_time_s, config.service_cv)[0]
            <= config.max_wait_s
        )

    def _grow(self, demand: float, now_s: float) -> None:
        """Keep the demand's history and, once there is enough of it, work the headroom out again."""
        growth = self.config.growth
        if growth is None:
            return
        self._step.append(demand)
        if self._step_s is None:
            self._step_s = now_s
        if now_s - self._step_s < growth.step_s:
            return
        self._history.append(sum(self._step) / len(self._step))
        self._step, self._step_s = [], now_s
        if len(self._history) * growth.step_s >= growth.enough_s:
            lag = lag_steps(growth.load_time_s, growth.detect_s, growth.step_s)
            with suppress(InputError):  # no busy step is long enough ago: the last fraction holds
                self.headroom_fraction = headroom_fraction(list(self._history), lag, growth.quantile)

    def _remember(self, needed: float, now_s: float) -> None:
        """Keep the look-back's needs that no later one exceeds: the first is the most."""
        needs = self._needs
        while needs and needs[-1][1] <= needed:
            needs.pop()
        needs.append((now_s, needed))
        while needs[0][0] < now_s - self.config.look_back_s:
            needs.popleft()

    def _without_metrics(self, current: int, now_s: float) -> Decision:
        least = current
        if self._needs and self.measured_s is not None and now_s - self.measured_s > self.config.hold_s:
            least = max(current, replicas_for(self._needs[0][1], self.target_utilization))
        return self._bounded(least, "no metrics")

    def _bounded(self, replicas: int, reason: Literal["demand", "hold", "no metrics", "n-1 fits"]) -> Decision:
        if replicas < self.config.min_replicas:
            return Decision(self.config.min_replicas, "floor")
        if replicas > self.config.max_replicas:
            return Decision(self.config.max_replicas, "ceiling")
        return Decision(replicas, reason)
