"""Ray Serve's side of scaling: planning.policies.scale decides, on what the replicas say of their work.

Serve makes one instance and calls it ten times a second, in its controller. At deployment level the decision is the
deployment's; at application level the others follow the one whose replicas tell their work.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planning.policies.scale import Observation, ScaleConfig, Scaler
from planning.quantities import round_up

Series = Mapping[str, Mapping[Any, Any]]
"""Serve's raw metrics: name -> replica -> [a point with `timestamp` and `value`, …], the latest last."""


STALE_S = 60.0
"""A replica that has said nothing new for so long is not measured; they speak every ten seconds by default."""


@dataclass(slots=True)
class _Told:
    """What a replica said last: by its own clock, which is only compared with itself, and by ours."""

    its_s: float
    arrived_rt: float
    heard_s: float
    rt_per_s: float | None = None


class WorkReader:
    """Turns what replicas say into observations: the rate of each one's work, whenever it spoke."""

    def __init__(self, prefill_tokens_per_s: float, stale_s: float) -> None:
        self._rate, self._stale_s = prefill_tokens_per_s, stale_s  # the rate is in resource tokens of a replica
        self._told: dict[Any, _Told] = {}
        self._read_s: float | None = None

    def read(self, series: Series, running: Sequence[Any], target: int, now_s: float) -> Observation | None:
        """What came since the last reading. None where fewer than half of the replicas tell: that is no measurement.

        `target` replicas are asked for: those that do not run yet load, and those that run beyond it are leaving.
        """
        self._told = {replica: told for replica, told in self._told.items() if replica in running}
        for replica in running:
            points = series.get("arrived_rt", {}).get(replica)
            if points:
                self._hear(replica, float(points[-1].timestamp), float(points[-1].value), now_s)
        measured = [
            replica
            for replica, told in self._told.items()
            if told.rt_per_s is not None and now_s - told.heard_s <= self._stale_s
        ]
        interval_s = 0.0 if self._read_s is None else now_s - self._read_s
        self._read_s = now_s
        if not measured or 2 * len(measured) < len(running):
            return None
        # Those that are new, or silent, are taken to be like the others.
        busy = len(running) / len(measured) / self._rate
        return Observation(
            offered_replica_s=busy * interval_s * sum(self._told[replica].rt_per_s or 0.0 for replica in measured),
            interval_s=interval_s,
            backlog_replica_s=busy * _sum(series, "queued_rt", measured),
            ready=min(len(running), target),
            pending=max(0, target - len(running)),
            lent=int(_sum(series, "lent", measured)),
        )

    def _hear(self, replica: Any, its_s: float, arrived_rt: float, now_s: float) -> None:
        told = self._told.get(replica)
        if told is None or its_s < told.its_s:  # new, or its clock was set back: a new start
            self._told[replica] = _Told(its_s, arrived_rt, now_s)
        elif its_s > told.its_s:
            rt_per_s = max(0.0, arrived_rt - told.arrived_rt) / (its_s - told.its_s)
            self._told[replica] = _Told(its_s, arrived_rt, now_s, rt_per_s)


def _sum(series: Series, name: str, replicas: Sequence[Any]) -> float:
    values = series.get(name, {})
    return sum(float(values[replica][-1].value) for replica in replicas if values.get(replica))


class HeadroomPolicy:
    """An autoscaling policy of a deployment, or of an application whose other deployments follow it.

    scale: planning's ScaleConfig. followers: deployment -> its replicas for each of the leader's, at application level.
    A controller that starts anew takes what runs for what is needed, until it has looked back far enough.
    """

    def __init__(
        self,
        scale: dict[str, Any],
        prefill_tokens_per_s: float,
        interval_s: float,
        followers: dict[str, float] | None = None,
        stale_s: float = STALE_S,
    ) -> None:
        self._scaler = Scaler(ScaleConfig.model_validate(scale))
        self._reader = WorkReader(prefill_tokens_per_s, stale_s)
        self._interval_s, self._followers = interval_s, followers or {}
        self._next_s: float | None = None
        self._wanted = 0

    def __call__(self, context: Any) -> Any:
        """(replicas, state) of a deployment's context; ({deployment: replicas}, {}) of an application's contexts."""
        if not isinstance(context, dict):
            return self._decide(context, time.monotonic()), {}
        (leads,) = [key for key, c in context.items() if c.deployment_name not in self._followers]
        leader = self._decide(context[leads], time.monotonic())
        wanted = {leads: leader}
        for key, c in context.items():
            if key not in wanted:
                wanted[key] = round_up(leader * self._followers[c.deployment_name])
        return wanted, {}

    def _decide(self, context: Any, now_s: float) -> int:
        """How many, with `context` as Serve's AutoscalingContext; between decisions the last one holds."""
        current = context.target_num_replicas
        if self._next_s is None:
            self._scaler.assume(current, now_s)
            self._wanted = current
        elif now_s < self._next_s:
            return self._wanted
        self._next_s = now_s + self._interval_s
        observation = self._reader.read(context.raw_metrics or {}, context.running_replicas, current, now_s)
        self._wanted = self._scaler.step(observation, current, now_s).replicas
        return self._wanted
