"""The rules that an arm names: ours from planning/policies/, fed with what a gateway would know, and the peers'."""

from typing import Protocol

from planning.capacity_units import routing_weights
from planning.policies.route import ReplicaRates, Router, Ticket
from planning.policies.scale import Scaler
from planning.simulator import peers
from planning.simulator.engine import Engine
from planning.simulator.peers import FleetView, RouteRule
from planning.simulator.rates import Rates
from planning.simulator.replica import Replica
from planning.simulator.request import Request
from planning.simulator.scenario import Arm, Route, Scenario


class Estimates:
    """What a gateway can know of a reply before it is there: the mean of its tenant's so far."""

    FIRST_GUESS = 128.0

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, float]] = {}

    def output_tokens(self, tenant: int) -> float:
        """Expected output tokens of the tenant's next request."""
        return self._seen.get(tenant, (0, self.FIRST_GUESS))[1]

    def learn(self, tenant: int, output_tokens: int) -> None:
        """A request of the tenant's has ended; the last thousand weigh most."""
        count, mean = self._seen.get(tenant, (0, 0.0))
        count = min(count + 1, 1000)
        self._seen[tenant] = (count, mean + (output_tokens - mean) / count)


class Spill(RouteRule):
    """Ours: planning.policies.route on its own account of the replicas, not on their true state."""

    def __init__(
        self, seed: int, route: Route, engine: Engine, weights: dict[int, float], estimates: Estimates
    ) -> None:
        super().__init__(seed)
        self.router = Router(route.spill, seed)
        self._max_wait_ms = float("inf") if route.max_wait_ms is None else route.max_wait_ms
        self._engine, self._weights, self._estimates = engine, weights, estimates
        self._by_number: dict[int, Replica] = {}
        self._reasons: dict[str, int] = {}

    def add(self, replica: Replica) -> None:
        super().add(replica)
        self._by_number[replica.number] = replica
        rates = replica.rates
        self.router.add(
            replica.number,
            ReplicaRates(
                rates.prefill_tokens_per_s,
                replica.max_sequences,
                rates.kv_capacity_tokens,
                rates.itl_base_s,
                rates.itl_per_sequence_s,
                self._weights[replica.kind],
            ),
        )

    def remove(self, replica: Replica) -> None:
        super().remove(replica)
        del self._by_number[replica.number]
        self.router.remove(replica.number)

    def choose(self, request: Request) -> Replica:
        output_tokens = self._estimates.output_tokens(request.tenant)
        ticket = self.router.route(
            request.prefix,
            request.prompt_tokens,
            output_tokens,
            self._engine.now_s,
            request.priority,
            self._max_wait_ms if request.tenant >= 0 else float("inf"),
            request.among,
        )
        request.ticket = ticket
        self._reasons[ticket.reason] = self._reasons.get(ticket.reason, 0) + 1
        assert isinstance(ticket.replica, int)
        return self._by_number[ticket.replica]

    def first_token(self, request: Request) -> None:
        assert isinstance(request.ticket, Ticket)
        self.router.first_token(request.ticket, request.cached_tokens)

    def end(self, request: Request) -> None:
        assert isinstance(request.ticket, Ticket)
        self.router.end(request.ticket)
        request.ticket = None

    def counts(self) -> dict[str, int]:
        return dict(self._reasons)


def route_rule(scenario: Scenario, arm: Arm, engine: Engine, estimates: Estimates, seed: int) -> RouteRule:
    """The arm's routing rule."""
    route, kinds = arm.route, list(scenario.fleet.values())
    if route.rule == "spill":
        return Spill(seed, route, engine, _weights(scenario), estimates)
    if route.rule == "llm-d-affinity":
        return peers.LlmdAffinityFilter(seed, route.max_ttft_penalty_ms)
    if route.rule == "count-weighted":
        return peers.CountWeighted(seed, {i: k.profile.gpus_per_replica for i, k in enumerate(kinds)})
    plain: dict[str, type[RouteRule]] = {
        "round-robin": peers.RoundRobin,
        "least-ongoing": peers.LeastOngoing,
        "power-of-two": peers.PowerOfTwo,
        "ray-prefix-affinity": peers.RayPrefixAffinity,
    }
    return plain[route.rule](seed)


class ScaleRule(Protocol):
    """A scaling rule: how many replicas there should be, ready and pending together."""

    def step(self, view: FleetView) -> int:
        """The number."""


class Headroom:
    """Ours: planning.policies.scale."""

    def __init__(self, scaler: Scaler) -> None:
        self.scaler = scaler

    def step(self, view: FleetView) -> int:
        return self.scaler.step(view.observation, view.ready + view.pending, view.now_s).replicas


def scale_rule(arm: Arm) -> ScaleRule | None:
    """The arm's scaling rule, or None where the fleet stays as it is."""
    scale = arm.scale
    low, high = scale.min_replicas, scale.max_replicas
    if scale.rule == "headroom":
        assert scale.headroom
        return Headroom(Scaler(scale.headroom))
    if scale.rule == "ray-serve":
        return peers.RayServeScaling(scale.target_ongoing_requests, low, high)
    if scale.rule == "gpu-utilisation":
        return peers.GpuUtilisationScaling(low, high, scale.target_utilisation)
    if scale.rule == "llm-d-saturation":
        return peers.LlmdSaturationScaling(low, high)
    return None


def _weights(scenario: Scenario) -> dict[int, float]:
    """Each kind's replica in capacity units: what it serves of this scenario's drawn requests."""
    kinds = list(scenario.fleet.values())
    goodput = {str(i): 1 / _mean_request_s(scenario, kind.rates) for i, kind in enumerate(kinds)}
    weights = routing_weights(goodput, {str(i): kind.replicas for i, kind in enumerate(kinds)})
    return {int(name): weight for name, weight in weights.items()}


def _mean_request_s(scenario: Scenario, rates: Rates) -> float:
    """Replica-seconds of a mean request, uncached; a trace's lengths are taken as a typical chat's."""
    prompts, outputs = [], []
    for stream in scenario.streams:
        shared = stream.shared.tokens if stream.shared else 0
        prompts.append(shared + (stream.suffix_tokens.mean if stream.suffix_tokens else 1000.0))
        outputs.append(stream.output_tokens.mean if stream.output_tokens else 200.0)
    prompt = sum(prompts) / len(prompts)
    return rates.prefill_s(0, int(prompt)) + sum(outputs) / len(outputs) / rates.decode_tokens_per_s
