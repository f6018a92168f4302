"""Others' published rules, at their published defaults, to compare ours with. Each names its source.

They see the replicas' true state at the moment of the decision, which is more than their originals have.
"""

import math
import random
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from planning.simulator.replica import Replica
from planning.simulator.request import Request


class RouteRule:
    """What a routing rule offers; without more it is one that keeps no account of its decisions."""

    def __init__(self, seed: int) -> None:
        self.replicas: list[Replica] = []
        self.random = random.Random(seed)

    def add(self, replica: Replica) -> None:
        """A replica is ready."""
        self.replicas.append(replica)

    def remove(self, replica: Replica) -> None:
        """A replica is gone, or gets nothing more."""
        self.replicas.remove(replica)

    def choose(self, request: Request) -> Replica:
        """The replica for this request; there is at least one."""
        raise NotImplementedError

    def first_token(self, request: Request) -> None:
        """The request's prefill is done."""

    def end(self, request: Request) -> None:
        """The request is done, or its replica died."""

    def counts(self) -> dict[str, int]:
        """How often it decided how, if it tells."""
        return {}


class RoundRobin(RouteRule):
    """Each replica in turn."""

    _next = 0

    def choose(self, request: Request) -> Replica:
        self._next = (self._next + 1) % len(self.replicas)
        return self.replicas[self._next]


class LeastOngoing(RouteRule):
    """The replica with the fewest requests; behind a queue in front of the fleet this is one queue with m servers."""

    def choose(self, request: Request) -> Replica:
        return min(self.replicas, key=lambda r: r.ongoing)


def shorter_of_two(rng: random.Random, replicas: list[Replica]) -> Replica:
    """Of two drawn at random, the one with fewer ongoing requests."""
    return min(rng.sample(replicas, min(2, len(replicas))), key=lambda r: r.ongoing)


class PowerOfTwo(RouteRule):
    """The less busy of two replicas drawn at random, by ongoing requests: Ray Serve's default router.

    Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, 2001; ray 2.60
    serve/_private/request_router/pow_2_router.py.
    """

    def choose(self, request: Request) -> Replica:
        return shorter_of_two(self.random, self.replicas)


class CountWeighted(RouteRule):
    """Each replica at random by its number of GPUs, whatever they are: weights counted in GPUs (or pods)."""

    def __init__(self, seed: int, gpus: dict[int, int]) -> None:
        super().__init__(seed)
        self.gpus = gpus  # by kind

    def choose(self, request: Request) -> Replica:
        return self.random.choices(self.replicas, [self.gpus[r.kind] for r in self.replicas])[0]


class RayPrefixAffinity(RouteRule):
    """Ray Serve LLM's PrefixCacheAffinityRouter at its defaults, ray 2.60.

    llm/_internal/serve/routing_policies/prefix_aware/prefix_aware_router.py: imbalanced_threshold is infinite, so that
    load never turns affinity off; under a match rate of 0.1 the replicas with the least text in the tree are taken;
    of several candidates the one with the shorter queue; no eviction (do_eviction is False). Its tree holds prompts
    alone, not replies. Here it compares tokens where the original compares characters.
    """

    MATCH_RATE = 0.1

    def __init__(self, seed: int, imbalanced_threshold: float = math.inf) -> None:
        super().__init__(seed)
        self.imbalanced_threshold = imbalanced_threshold
        self._held: dict[int, dict[Replica, int]] = {}
        self._text: dict[Replica, int] = {}

    def add(self, replica: Replica) -> None:
        super().add(replica)
        self._text[replica] = 0

    def remove(self, replica: Replica) -> None:
        super().remove(replica)
        del self._text[replica]
        for held in self._held.values():
            held.pop(replica, None)

    def choose(self, request: Request) -> Replica:
        if math.isfinite(self.imbalanced_threshold):
            queues = [r.ongoing for r in self.replicas]
            if max(queues) - min(queues) > self.imbalanced_threshold:
                return self._insert(request, shorter_of_two(self.random, self.replicas))
        matched: list[Replica] = []
        rate = 0.0
        for key, end in reversed(request.prefix):
            held = self._held.get(key)
            if held:
                longest = max(min(tokens, end) for tokens in held.values())
                matched = [r for r, tokens in held.items() if min(tokens, end) == longest]
                rate = longest / request.prompt_tokens
                break
        if rate < self.MATCH_RATE:
            least = min(self._text.values())
            matched = [r for r in self.replicas if self._text[r] == least]
        if len(matched) > 2:
            matched = self.random.sample(matched, len(matched))
        return self._insert(request, min(matched, key=lambda r: r.ongoing))

    def _insert(self, request: Request, replica: Replica) -> Replica:
        inserted = request.prompt_tokens
        for key, end in request.prefix:
            held = self._held.setdefault(key, {})
            inserted -= min(held.get(replica, 0), end) if key == request.prefix[-1][0] else 0
            held[replica] = max(held.get(replica, 0), end)
        if request.grows:
            self._held[request.prefix[-1][0]][replica] = request.prompt_tokens
        self._text[replica] += inserted
        return replica


class LlmdAffinityFilter(RouteRule):
    """llm-d's prefix-cache-affinity-filter, then its token-load-scorer and max-score-picker.

    llm-d-router, pkg/epp/framework/plugins/scheduling/filter/prefixcacheaffinity/README.md: replicas that hold at
    least 0.80 of the prompt are kept, unless the best of them is estimated to give its first token
    maxTTFTPenaltyMs (18,000 by default, 5,000 in its example) later than the best of the others; the estimate is a
    replica's uncached tokens in flight over the peak prefill rate. Of what is kept, the one with the fewest uncached
    tokens in flight and of this request. Its index of a server's prefixes is a least-recently-used one, here of
    the server's KV memory.
    """

    THRESHOLD = 0.80

    def __init__(self, seed: int, max_ttft_penalty_ms: float = 18_000.0) -> None:
        super().__init__(seed)
        self.max_ttft_penalty_ms = max_ttft_penalty_ms
        self._held: dict[int, dict[Replica, int]] = {}
        self._order: dict[Replica, OrderedDict[int, int]] = {}  # a server's keys, their own tokens, oldest use first
        self._size: dict[Replica, int] = {}
        self._in_flight: dict[Replica, int] = {}
        self._broken = 0

    def add(self, replica: Replica) -> None:
        super().add(replica)
        self._order[replica], self._size[replica], self._in_flight[replica] = OrderedDict(), 0, 0

    def remove(self, replica: Replica) -> None:
        super().remove(replica)
        for key in self._order.pop(replica):
            del self._held[key][replica]
        del self._size[replica], self._in_flight[replica]

    def choose(self, request: Request) -> Replica:
        hits: dict[Replica, int] = {}
        for key, end in reversed(request.prefix):
            for replica, tokens in self._held.get(key, {}).items():
                hits.setdefault(replica, min(tokens, end))
        sticky = [r for r, hit in hits.items() if hit >= self.THRESHOLD * request.prompt_tokens]
        kept = self.replicas
        if sticky and len(sticky) < len(self.replicas):
            others = set(sticky)
            best_other = min(self._estimate_ms(r) for r in self.replicas if r not in others)
            if min(map(self._estimate_ms, sticky)) - best_other <= self.max_ttft_penalty_ms:
                kept = sticky
            else:
                self._broken += 1
        elif sticky:
            kept = sticky
        load = self._in_flight
        least = min(load[r] - hits.get(r, 0) for r in kept)
        chosen = self.random.choice([r for r in kept if load[r] - hits.get(r, 0) == least])
        uncached = request.prompt_tokens - hits.get(chosen, 0)
        self._in_flight[chosen] += uncached
        request.ticket = uncached
        self._insert(request, chosen)
        return chosen

    def first_token(self, request: Request) -> None:
        if request.replica in self._in_flight:
            self._in_flight[request.replica] -= request.ticket
        request.ticket = 0

    def end(self, request: Request) -> None:
        self.first_token(request)

    def counts(self) -> dict[str, int]:
        return {"spill": self._broken}

    def _estimate_ms(self, replica: Replica) -> float:
        return self._in_flight[replica] / replica.rates.prefill_tokens_per_s * 1000

    def _insert(self, request: Request, replica: Replica) -> None:
        order, start = self._order[replica], 0
        for key, end in request.prefix:
            last = key == request.prefix[-1][0]
            held_to = request.prompt_tokens if last and request.grows else end
            self._size[replica] += held_to - start - order.get(key, 0)
            order[key] = held_to - start
            order.move_to_end(key)
            self._held.setdefault(key, {})[replica] = held_to
            start = end
        while self._size[replica] > replica.rates.kv_capacity_tokens:
            key, tokens = order.popitem(last=False)
            self._size[replica] -= tokens
            del self._held[key][replica]


@dataclass(frozen=True, slots=True)
class FleetView:
    """What a scaling rule may see, since its last look. Tokens and requests are over the ready replicas."""

    now_s: float
    ready: int
    pending: int
    interval_s: float
    ongoing: int
    busy_share: float  # of the time a replica had any work: what a GPU-utilisation counter shows
    kv_used_tokens: float
    queued_prompt_tokens: float
    saturated_kv_tokens: list[int]  # in use on each replica whose queue is at least 5 long
    kv_capacity_tokens: float  # a replica's
    observation: Any = None  # ours: planning.policies.scale.Observation, or None in a metrics outage


@dataclass
class RayServeScaling:
    """Ray Serve's default autoscaling policy, ray 2.60 (serve/autoscaling_policy.py, serve/config.py).

    Ongoing requests, averaged over look_back_s, over target_ongoing_requests; the wish has to last upscale_delay_s or
    downscale_delay_s. Ray's default target is 2, and 10⁹ for LLM deployments, which never scales: it is given here.
    Replicas that load are not counted as supply; the target that was already asked for is.
    """

    target_ongoing_requests: float
    min_replicas: int
    max_replicas: int
    upscale_delay_s: float = 30.0
    downscale_delay_s: float = 600.0
    look_back_s: float = 30.0
    _seen: deque[tuple[float, int]] = field(default_factory=deque)
    _since: tuple[int, float] = (0, 0.0)  # the direction wished for, and since when

    def step(self, view: FleetView) -> int:
        self._seen.append((view.now_s, view.ongoing))
        while self._seen[0][0] < view.now_s - self.look_back_s:
            self._seen.popleft()
        mean = sum(n for _, n in self._seen) / len(self._seen)
        target = view.ready + view.pending
        wish = min(self.max_replicas, max(self.min_replicas, 1, math.ceil(mean / self.target_ongoing_requests - 1e-9)))
        direction = (wish > target) - (wish < target)
        if direction != self._since[0]:
            self._since = (direction, view.now_s)
        delay_s = self.upscale_delay_s if direction > 0 else self.downscale_delay_s
        if direction and view.now_s - self._since[1] + 1e-6 >= delay_s:
            self._since = (0, view.now_s)
            return wish
        return target


@dataclass
class GpuUtilisationScaling:
    """Kubernetes' horizontal pod autoscaler on GPU utilisation.

    kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale: ⌈replicas · utilisation / target⌉, no change
    within a tolerance of 0.1; up at most to twice or by 4 each 15 s; down to the highest wish of the last 300 s. A GPU
    counts as used whenever any kernel runs (NVML's utilization.gpu), so that a lightly loaded engine reads as full.
    """

    min_replicas: int
    max_replicas: int
    target: float = 0.8
    tolerance: float = 0.1
    stabilization_s: float = 300.0
    _wishes: deque[tuple[float, int]] = field(default_factory=deque)
    _grown_s: float = -math.inf

    def step(self, view: FleetView) -> int:
        current = view.ready + view.pending
        ratio = view.busy_share / self.target
        wish = current
        if abs(ratio - 1) > self.tolerance:
            # Pods that are not ready yet count as using nothing when the fleet is to grow.
            wish = math.ceil((view.ready * ratio if ratio < 1 else max(current, view.ready * ratio)) - 1e-9)
        wish = min(self.max_replicas, max(self.min_replicas, wish))
        self._wishes.append((view.now_s, wish))
        while self._wishes[0][0] < view.now_s - self.stabilization_s:
            self._wishes.popleft()
        if wish > current:
            if view.now_s - self._grown_s < 15:
                return current
            self._grown_s = view.now_s
            return min(wish, max(2 * current, current + 4))
        return min(current, max(n for _, n in self._wishes))


@dataclass
class LlmdSaturationScaling:
    """llm-d's workload variant autoscaler, its token saturation analyser (V2, the default since v0.9.0).

    docs/developer-guide/saturation-scaling-config.md and internal/engines/analyzers/saturation_v2/analyzer.go:
    demand is KV tokens in use and queued prompts; a replica's capacity the lesser of 0.80 of its KV memory and the
    rolling mean of what was in use where 5 or more requests queued; up by (demand / 0.85 - supply with pending ones)
    and down by (supply - demand / 0.70), in whole replicas. It looks every 30 s.
    """

    min_replicas: int
    max_replicas: int
    kv_cache_threshold: float = 0.80
    scale_up_threshold: float = 0.85
    scale_down_boundary: float = 0.70
    interval_s: float = 30.0
    _observed: deque[float] = field(default_factory=lambda: deque(maxlen=10))
    _looked_s: float = -math.inf

    def step(self, view: FleetView) -> int:
        current = view.ready + view.pending
        if view.now_s - self._looked_s < self.interval_s - 1e-6:
            return current
        self._looked_s = view.now_s
        self._observed.extend(view.saturated_kv_tokens)
        capacity = self.kv_cache_threshold * view.kv_capacity_tokens
        if self._observed:
            capacity = min(capacity, sum(self._observed) / len(self._observed))
        demand = view.kv_used_tokens + view.queued_prompt_tokens
        missing = demand / self.scale_up_threshold - current * capacity
        spare = view.ready * capacity - demand / self.scale_down_boundary
        if missing > 0:
            current += math.ceil(missing / capacity)
        elif spare > 0 and not view.pending:
            current -= int(spare // capacity)
        return min(self.max_replicas, max(self.min_replicas, current))
