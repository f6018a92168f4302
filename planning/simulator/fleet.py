"""One arm's run: requests arrive, wait at the gateway, are routed, computed and counted; replicas come, go and die."""

from collections import deque
from itertools import count

import numpy as np

from planning.policies import quota
from planning.policies.fair import FairQueue
from planning.policies.route import Overloaded
from planning.policies.scale import Observation
from planning.quotas import charge
from planning.simulator.engine import Engine
from planning.simulator.peers import FleetView
from planning.simulator.replica import Replica
from planning.simulator.request import Request
from planning.simulator.results import LittlesLaw, Outcomes, StepTimes
from planning.simulator.rules import Estimates, route_rule, scale_rule
from planning.simulator.scenario import Arm, Failure, Scenario
from planning.simulator.soak import BatchWork
from planning.simulator.workload import Workload


class Fleet:
    """The state of one run, and the callbacks that move it. The engine's clock is the only clock."""

    def __init__(self, scenario: Scenario, arm: Arm, workload: Workload, seed: int) -> None:
        self.scenario, self.arm, self.engine = scenario, arm, Engine()
        self.kinds = list(scenario.fleet.values())
        self.rates = [kind.rates for kind in self.kinds]
        self.random = np.random.default_rng([seed, 1])
        self.estimates = Estimates()
        self.rule = route_rule(scenario, arm, self.engine, self.estimates, seed)
        self.scaling = scale_rule(arm)
        self.replicas: list[Replica] = []  # all that ever were
        self.ready: dict[int, Replica] = {}
        self.pending: dict[int, Replica] = {}
        self._numbers = count()
        self.outcomes = [Outcomes() for _ in scenario.streams]
        self.batch = BatchWork(self, arm.soak, workload.batch_rows(), seed) if arm.soak else None
        self.token_times = StepTimes()
        self.law = LittlesLaw()
        self.fair: FairQueue[Request] = FairQueue()
        self.line: deque[Request] = deque()  # by arrival; also those that found no replica
        self.in_flight = 0
        self.arriving = True
        self._source = workload.requests(arm.without)
        self.buckets = {tenant: quota.full(limit, 0.0) for tenant, limit in arm.gateway.quotas.items()}
        self.reservations: dict[int, quota.Reservation] = {}
        self._offered_s = 0.0  # replica-seconds of what arrived since the last look
        self._looked_s = 0.0
        self.changes = 0  # of the number of replicas asked for
        self.target_reversals = 0
        self._last_change = 0
        self.peak_replicas = 0

    def start(self) -> None:
        """The fleet stands ready at 0, and the first request is due."""
        for number, kind in enumerate(self.kinds):
            for _ in range(kind.replicas):
                self._become_ready(self._new_replica(number, 0.0))
        for failure in self.scenario.failures:
            self.engine.at(failure.at_s, self._fail, failure)
        if self.scaling:
            self.engine.at(self.arm.scale.interval_s, self._scale)
        if self.batch:
            self.batch.start()
        self._next_arrival()

    @property
    def over(self) -> bool:
        """No request will come and none is left."""
        return not self.arriving and not self.law.inside and (self.batch is None or self.batch.over)

    # -- requests ----------------------------------------------------------------------------------------------------

    def _next_arrival(self) -> None:
        request = next(self._source, None)
        if request is None:
            self.arriving = False
        else:
            self.engine.at(request.arrival_s, self._arrive, request)

    def _arrive(self, request: Request) -> None:
        self.law.enter(self.engine.now_s)
        if not self._admitted(request):
            self._refuse(request)
        elif self.arm.gateway.order == "fair":
            self.fair.push(self.scenario.streams[request.tenant].tenant, request.priority, request)
            self.dispatch()
        else:
            self.line.append(request)
            self.dispatch()
        self._next_arrival()

    def _refuse(self, request: Request) -> None:
        self.outcomes[request.tenant].refused_s.append(self.engine.now_s)
        self.law.leave(request.arrival_s, self.engine.now_s)
        stream = self.scenario.streams[request.tenant]
        tenant, reservation = stream.tenant, self.reservations.pop(request.number, None)
        if request.charged_rt:
            self.fair.charge(tenant, -request.charged_rt, stream.weight)
        if reservation:
            limit = self.arm.gateway.quotas[tenant]
            self.buckets[tenant], _ = quota.settle(limit, self.buckets[tenant], reservation, 0.0, self.engine.now_s)

    def _admitted(self, request: Request) -> bool:
        """Whether it fits every replica, as any may get it, and its tenant's quota."""
        if any(request.prompt_tokens + request.output_tokens > rates.kv_capacity_tokens for rates in self.rates):
            return False
        tenant = self.scenario.streams[request.tenant].tenant
        limit = self.arm.gateway.quotas.get(tenant)
        if limit is None:
            return True
        estimate_rt = self._estimate_rt(request)
        self.buckets[tenant], reservation, verdict = quota.reserve(
            limit, self.buckets[tenant], None, estimate_rt, self.engine.now_s
        )
        if reservation:
            self.reservations[request.number] = reservation
        return verdict.admitted

    def _estimate_rt(self, request: Request) -> float:
        """Resource tokens of the first kind before the reply's length and the hit are known, within its memory."""
        expected = self.estimates.output_tokens(request.tenant)
        return self._charge_rt(request, min(expected, self.rates[0].kv_capacity_tokens - request.prompt_tokens))

    def _charge_rt(self, request: Request, output_tokens: float) -> float:
        cached = request.cached_tokens / request.prompt_tokens
        return charge(request.prompt_tokens, cached, output_tokens, self.kinds[0].profile).resource_tokens

    def dispatch(self) -> None:
        """Send on what waits at the gateway, as far as replicas have room."""
        limit = self.arm.gateway.max_ongoing
        room = float("inf") if limit is None else limit * len(self.ready)
        while self.ready and self.in_flight < room:
            if self.line:
                request = self.line.popleft()
            elif len(self.fair):
                tenant, request = self.fair.pop()
                request.charged_rt = self._estimate_rt(request)
                self.fair.charge(tenant, request.charged_rt, self.scenario.streams[request.tenant].weight)
            else:
                return
            self.send(request)

    def send(self, request: Request) -> None:
        """Route the request and queue it on its replica, or refuse it where it would wait too long."""
        request.sent_s = self.engine.now_s
        try:
            replica = self.rule.choose(request)
        except Overloaded:
            self._refuse(request)
            return
        self.in_flight += 1
        request.replica = replica
        if request.tenant != BatchWork.TENANT:
            rates = replica.rates
            self._offered_s += rates.prefill_s(0, request.prompt_tokens)
            self._offered_s += self.estimates.output_tokens(request.tenant) / rates.decode_tokens_per_s
            replica.caller(1)
        replica.submit(request)

    def _first_token(self, request: Request) -> None:
        self.rule.first_token(request)
        if request.tenant != BatchWork.TENANT:  # what was cached did not have to be computed after all
            self._offered_s -= request.replica.rates.prefill_s(0, request.cached_tokens)
        if self.batch:
            self.batch.first_token(request)

    def _finished(self, request: Request) -> None:
        now_s = self.engine.now_s
        self.in_flight -= 1
        self.rule.end(request)
        self.estimates.learn(request.tenant, request.output_tokens)
        if request.tenant == BatchWork.TENANT:
            assert self.batch
            self.batch.finished(request)
        else:
            request.replica.caller(-1)
            self.law.leave(request.arrival_s, now_s)
            self.outcomes[request.tenant].add(request)
            self._settle(request)
        replica = request.replica
        if replica.draining and not replica.ongoing:
            replica.ended_s = now_s
        self.dispatch()

    def _settle(self, request: Request) -> None:
        """What was used takes the place of what was estimated, in the fair order and in the bucket."""
        stream = self.scenario.streams[request.tenant]
        tenant, limit = stream.tenant, self.arm.gateway.quotas.get(stream.tenant)
        if limit is None and self.arm.gateway.order == "arrival":
            return
        used_rt = self._charge_rt(request, request.output_tokens)
        if self.arm.gateway.order == "fair":
            self.fair.charge(tenant, used_rt - request.charged_rt, stream.weight)
        if limit is not None:
            reservation = self.reservations.pop(request.number)
            self.buckets[tenant], _ = quota.settle(limit, self.buckets[tenant], reservation, used_rt, self.engine.now_s)

    # -- replicas ----------------------------------------------------------------------------------------------------

    def _new_replica(self, kind: int, started_s: float) -> Replica:
        settings = self.kinds[kind]
        replica = Replica(
            self.engine,
            next(self._numbers),
            kind,
            self.rates[kind],
            settings.max_sequences,
            settings.token_budget,
            settings.block_tokens,
            settings.adapter_slots,
            settings.adapter_load_s,
            self.token_times,
            self._first_token,
            self._finished,
        )
        replica.started_s = started_s
        self.replicas.append(replica)
        return replica

    def _become_ready(self, replica: Replica) -> None:
        if replica.ended_s is None:
            self.pending.pop(replica.number, None)
            self.ready[replica.number] = replica
            self.rule.add(replica)
            self.peak_replicas = max(self.peak_replicas, len(self.ready))
            self.dispatch()

    def _load(self, kind: int) -> None:
        replica = self._new_replica(kind, self.engine.now_s)
        self.pending[replica.number] = replica
        self.engine.at(self.engine.now_s + self.rates[kind].load_time_s, self._become_ready, replica)

    def _fail(self, failure: Failure) -> None:
        for _ in range(min(failure.replicas, len(self.ready))):
            replica = self.ready.pop(int(self.random.choice(list(self.ready))))
            self.rule.remove(replica)
            lost = replica.stop()
            replica.ended_s = self.engine.now_s
            for request in reversed(lost):
                self.rule.end(request)
                request.retries += 1
                request.cached_tokens = request.computed_tokens = 0
                self.in_flight -= 1
                self.line.appendleft(request)
            if failure.replace:
                self._load(replica.kind)
        self.dispatch()

    def _drain(self, replica: Replica) -> None:
        """Nothing new for it; it ends when its last request does, and no stream is cut."""
        del self.ready[replica.number]
        self.rule.remove(replica)
        replica.draining = True
        if not replica.ongoing:
            replica.ended_s = self.engine.now_s

    # -- scaling -----------------------------------------------------------------------------------------------------

    def _scale(self) -> None:
        assert self.scaling
        now_s, scale = self.engine.now_s, self.arm.scale
        outage = any(o.at_s <= now_s < o.at_s + o.duration_s for o in self.scenario.outages)
        view = self._view(outage)
        current = view.ready + view.pending
        # Others' rules have no word for missing metrics: they are not asked.
        wanted = current if outage and scale.rule != "headroom" else self.scaling.step(view)
        change = (wanted > current) - (wanted < current)
        if change:
            self.changes += 1
            self.target_reversals += change == -self._last_change
            self._last_change = change
        for _ in range(wanted - current):
            self._load(0)
        for _ in range(current - wanted):
            self._shrink()
        if not self.over:
            self.engine.at(now_s + scale.interval_s, self._scale)

    def _shrink(self) -> None:
        """Give up one replica of the first kind: the one that loads and was started last, or the idlest."""
        if self.pending:
            _, replica = self.pending.popitem()
            replica.ended_s = self.engine.now_s
            return
        mine = [r for r in self.ready.values() if r.kind == 0]
        if len(self.ready) > 1 and mine:
            self._drain(min(mine, key=lambda r: r.ongoing))

    def _view(self, outage: bool) -> FleetView:
        now_s = self.engine.now_s
        ready = list(self.ready.values())
        interval_s = now_s - self._looked_s
        busy_s = sum(r.busy_since_last_s() for r in ready)
        self._looked_s = now_s
        offered_s, self._offered_s = self._offered_s, 0.0
        # The line in front of the fleet is looked through: it is long only while there is no replica, or a limit.
        prompts = sum(r.queued_prompt_tokens for r in ready) + sum(request.prompt_tokens for request in self.line)
        outputs = sum(r.queued_output_tokens for r in ready) + sum(request.output_tokens for request in self.line)
        rates = self.rates[0]
        observation = None
        if not outage:
            backlog_s = rates.prefill_s(0, prompts) + outputs / rates.decode_tokens_per_s
            observation = Observation(max(0.0, offered_s), interval_s, backlog_s, len(ready), len(self.pending))
        return FleetView(
            now_s=now_s,
            ready=len(ready),
            pending=len(self.pending),
            interval_s=interval_s,
            ongoing=sum(r.ongoing for r in ready) + len(self.line) + len(self.fair),
            busy_share=min(1.0, busy_s / (interval_s * len(ready))) if ready else 0.0,
            kv_used_tokens=float(sum(r.memory.private_tokens + r.memory.pinned_tokens for r in ready)),
            queued_prompt_tokens=float(prompts),
            saturated_kv_tokens=[
                r.memory.private_tokens + r.memory.pinned_tokens for r in ready if len(r.waiting) >= 5
            ],
            kv_capacity_tokens=float(rates.kv_capacity_tokens),
            observation=observation,
        )
