"""Batch rows beside the callers: as many in flight as a fixed number, or planning.policies.harvest, allows."""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from planning.policies import harvest
from planning.simulator.request import Request
from planning.simulator.results import Outcomes
from planning.simulator.scenario import Soak

if TYPE_CHECKING:
    from planning.simulator.fleet import Fleet


class BatchWork:
    """One batch job of a run; it counts what it gets done until the callers' time is over."""

    TENANT = -1

    def __init__(self, fleet: "Fleet", soak: Soak, rows: Iterator[Request], seed: int) -> None:
        self.fleet, self.soak = fleet, soak
        self._rows = rows
        self._next: Request | None = next(rows, None)
        self.in_flight = 0
        self.outcomes = Outcomes()
        self.done_in_time = 0  # rows by the end of the callers' arrivals
        self.tokens_in_time = 0
        self.state = (
            harvest.start(soak.aimd) if soak.aimd else harvest.Harvest(soak.concurrency or 0.0, soak.concurrency or 0.0)
        )
        self.concurrency_s = 0.0  # the integral of what was allowed
        self._ttft_s: deque[float] = deque(maxlen=soak.window)  # of the callers
        self._rows_left = fleet.scenario.batch.rows if fleet.scenario.batch else 0
        self._done_before = 0

    def start(self) -> None:
        """Rows begin at 0."""
        self._fill()
        self.fleet.engine.at(self.soak.interval_s, self._look)

    @property
    def over(self) -> bool:
        """None is in flight, and none will be."""
        return not self.in_flight and (self._next is None or self._late)

    @property
    def _late(self) -> bool:
        return self.fleet.engine.now_s >= self.fleet.scenario.duration_s

    def first_token(self, request: Request) -> None:
        """Of any request: the callers' are what harvest looks at."""
        if request.tenant != self.TENANT:
            self._ttft_s.append(request.first_token_s - request.arrival_s)

    def finished(self, request: Request) -> None:
        """A row is done."""
        self.in_flight -= 1
        self._rows_left -= 1
        self.outcomes.add(request)
        if not self._late:
            self.done_in_time += 1
            self.tokens_in_time += request.prompt_tokens + request.output_tokens
        self._fill()

    def _fill(self) -> None:
        while self._next is not None and not self._late and self.in_flight + 1 <= self.state.concurrency:
            if not self.fleet.ready:
                return
            request, self._next = self._next, next(self._rows, None)
            request.tenant, request.priority = self.TENANT, self.soak.priority
            request.arrival_s = self.fleet.engine.now_s
            if self.soak.rows_per_replica:
                lent = harvest.lent_replicas(self.state.concurrency, self.soak.rows_per_replica)
                request.among = list(self.fleet.ready)[:lent]
            self.in_flight += 1
            self.fleet.send(request)

    def _look(self) -> None:
        fleet, soak = self.fleet, self.soak
        now_s = fleet.engine.now_s
        self.concurrency_s += self.state.concurrency * soak.interval_s
        if soak.aimd:
            outage = any(o.at_s <= now_s < o.at_s + o.duration_s for o in fleet.scenario.outages)
            waiting = [w for r in fleet.ready.values() for w in r.waiting if w[-1].tenant != self.TENANT]
            queue = (len(waiting) + len(fleet.line) + len(fleet.fair)) / max(1, len(fleet.ready))
            p95_ms = float(np.percentile(self._ttft_s, 95)) * 1000 if self._ttft_s else None
            online = None if outage else harvest.Online(p95_ms, queue, self._idle_share())
            self.state = harvest.step(soak.aimd, self.state, online, self._job(), now_s)
        self._fill()
        if not self.over:
            fleet.engine.at(now_s + soak.interval_s, self._look)

    def _idle_share(self) -> float:
        """Share of the ready replicas' time without a caller's request, since the last look."""
        ready = self.fleet.ready.values()
        taken_s = sum(replica.callers_since_last_s() for replica in ready)
        return max(0.0, 1 - taken_s / (len(ready) * self.soak.interval_s)) if ready else 0.0

    def _job(self) -> harvest.Job | None:
        batch = self.fleet.scenario.batch
        if batch is None or batch.deadline_s is None:
            return None
        done = batch.rows - self._rows_left
        rows_per_s, self._done_before = (done - self._done_before) / self.soak.interval_s, done
        return harvest.Job(self._rows_left, rows_per_s, batch.deadline_s)

    def summary(self) -> dict[str, float]:
        """What batch got done while callers came, and what was allowed."""
        duration_s = self.fleet.scenario.duration_s
        return {
            "rows_done": self.done_in_time,
            "rows_per_s": self.done_in_time / duration_s,
            "tokens_per_s": self.tokens_in_time / duration_s,
            "mean_concurrency": self.concurrency_s / duration_s,
            "late_s": self.state.late_s,
        }
