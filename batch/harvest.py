"""The harvest: how many rows may be in flight beside the callers, by planning.policies.harvest, several times a second.

One controller a worker, for all its jobs: they have equal parts of what there is. What it gave and what that cost is in
/metrics and in `batch status`.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from batch.gate import Fares
from planning.policies import harvest
from planning.policies.harvest import HarvestConfig, Online

log = logging.getLogger("firstclause.batch")
WINDOW_S = 15.0
"""The online p95 is over the first tokens of so long."""
FEW = 3
"""Fewer first tokens than this are no percentile: the highest stands for it."""


@dataclass(frozen=True)
class Reading:
    """What the callers of one replica felt since the last reading."""

    ttft_ms: list[float]
    waiting: int
    busy_share: float
    longest_step_ms: float = 0.0
    """Of the engine: a caller waits for the end of the one that it comes into."""


class Callers(Protocol):
    """Asks the tier; is sent to the worker."""

    def read(self) -> list[Reading] | None:
        """One of each replica, or None where they cannot be read."""
        ...


@dataclass(frozen=True)
class HarvestShare:
    """What a worker makes its controller of."""

    config: HarvestConfig
    interval_s: float
    callers: Callers

    def start(self) -> "Controller":
        return Controller(self)


@dataclass
class _JobState:
    rows_left: int
    deadline_s: float
    at_s: float
    rows_per_s: float = 0.0
    in_flight: int = 0


@dataclass
class Ledger:
    """What the harvest gave and cost. Replica-seconds are the tier's; TTFTs the callers'."""

    idle_replica_s: float = 0.0
    replica_s: float = 0.0
    reclaims_s: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    """From when callers wanted it back (a reading's interval before it was seen) to no row in flight."""
    beside_ms: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    alone_ms: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    longest_step_ms: float = 0.0

    def add(self, readings: list[Reading], elapsed_s: float, in_flight: int) -> None:
        self.replica_s += len(readings) * elapsed_s
        self.idle_replica_s += sum((1 - reading.busy_share) * elapsed_s for reading in readings)
        self.longest_step_ms = max([self.longest_step_ms, *(reading.longest_step_ms for reading in readings)])
        for reading in readings:
            (self.beside_ms if in_flight else self.alone_ms).extend(reading.ttft_ms)

    def document(self) -> dict[str, Any]:
        return {
            "idle_replica_hours": self.idle_replica_s / 3600,
            "reclaim_p95_s": p95(self.reclaims_s),
            "online_p95_ttft_ms": {"beside_batch": p95(self.beside_ms), "alone": p95(self.alone_ms)},
            "longest_step_ms": self.longest_step_ms,
        }


class Controller:
    """batch.share.Share by AIMD on what callers feel; `clock` as deadlines are given in."""

    def __init__(self, share: HarvestShare, clock: Callable[[], float] = time.time) -> None:
        self._config, self._interval_s, self._callers = share.config, share.interval_s, share.callers
        self._clock = clock
        self._state = harvest.start(share.config)
        self._recent: deque[tuple[float, float]] = deque()
        self._jobs: dict[str, _JobState] = {}
        self._errors = 0
        self._reclaiming_since_s: float | None = None
        self.ledger = Ledger()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def allowed(self, job: str, rows_left: int, deadline_s: float, fares: Fares) -> int:
        now_s = self._clock()
        with self._lock:
            state = self._jobs.get(job)
            if state is None:
                state = self._jobs[job] = _JobState(rows_left, deadline_s, now_s)
            elif now_s - state.at_s >= 5:  # long enough to see rows end
                state.rows_per_s = max(0, state.rows_left - rows_left) / (now_s - state.at_s)
                state.rows_left, state.at_s = rows_left, now_s
            state.in_flight = fares.in_flight
            self._reclaimed(now_s)
            self._errors += fares.refusals
            whole = math.floor(self._state.concurrency + 1e-9)
            place = sorted(self._jobs, key=lambda name: self._jobs[name].deadline_s).index(job)
            share, rest = divmod(whole, len(self._jobs))
            return share + (place < rest)

    def leave(self, job: str) -> None:
        with self._lock:
            self._jobs.pop(job, None)

    def report(self, job: str) -> dict[str, Any]:
        with self._lock:
            state = self._state
            document = {"concurrency": state.concurrency, "reason": state.reason, "late_s": state.late_s}
            return document | self.ledger.document()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def step(self, readings: list[Reading] | None, elapsed_s: float) -> None:
        """One decision."""
        now_s = self._clock()
        with self._lock:
            online = self._online(readings, now_s)
            self._errors = 0
            self._state = harvest.step(self._config, self._state, online, self._nearest(), now_s)
            if self._state.concurrency < 1 and self._in_flight() and self._reclaiming_since_s is None:
                self._reclaiming_since_s = now_s - elapsed_s
            if readings is not None:
                self.ledger.add(readings, elapsed_s, self._in_flight())

    def _in_flight(self) -> int:
        return sum(job.in_flight for job in self._jobs.values())

    def _reclaimed(self, now_s: float) -> None:
        if self._reclaiming_since_s is not None and not self._in_flight():
            self.ledger.reclaims_s.append(now_s - self._reclaiming_since_s)
            self._reclaiming_since_s = None

    def _online(self, readings: list[Reading] | None, now_s: float) -> Online | None:
        if not readings:
            return None
        self._recent.extend((now_s, ms) for reading in readings for ms in reading.ttft_ms)
        while self._recent and self._recent[0][0] < now_s - WINDOW_S:
            self._recent.popleft()
        busy = sum(reading.busy_share for reading in readings) / len(readings)
        waiting = sum(reading.waiting for reading in readings) / len(readings)
        return Online(p95([ms for _, ms in self._recent]), waiting, 1 - busy, self._errors)

    def _nearest(self) -> harvest.Job | None:
        if not self._jobs:
            return None
        job = min(self._jobs.values(), key=lambda job: job.deadline_s)
        return harvest.Job(job.rows_left, job.rows_per_s, job.deadline_s)

    def _run(self) -> None:
        gauges = _Gauges()
        before_s = time.monotonic()
        while not self._over.wait(self._interval_s):
            now_s = time.monotonic()
            self.step(self._callers.read(), now_s - before_s)
            gauges.set(self._state, self.ledger)
            before_s = now_s


class _Gauges:
    """In /metrics."""

    def __init__(self) -> None:
        from ray.util.metrics import Gauge

        self._concurrency = Gauge("firstclause_batch_concurrency", "Rows that the harvest allows in flight.")
        self._late = Gauge("firstclause_batch_late_seconds", "By how much the nearest deadline will be missed.")
        self._idle = Gauge(
            "firstclause_batch_idle_replica_hours", "Replica-hours without a caller, since the worker began."
        )
        self._ttft = Gauge("firstclause_batch_online_ttft_p95_ms", "Callers' p95 TTFT.", ("beside",))

    def set(self, state: harvest.Harvest, ledger: Ledger) -> None:
        self._concurrency.set(state.concurrency)
        self._late.set(state.late_s)
        self._idle.set(ledger.idle_replica_s / 3600)
        for beside, samples in (("batch", ledger.beside_ms), ("nobody", ledger.alone_ms)):
            if (found := p95(samples)) is not None:
                self._ttft.set(found, {"beside": beside})


def p95(samples: "deque[float] | list[float]") -> float | None:
    """None without samples."""
    if not samples:
        return None
    return float(max(samples) if len(samples) < FEW else np.percentile(list(samples), 95))
