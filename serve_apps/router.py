"""Ray Serve's side of routing: planning.policies.route decides, and Serve's callbacks feed it.

A router is one handle's, on that handle's event loop, where everything here runs: a decision and its reservation are
one step without an await. It knows what it sent itself, and of others' requests the number that each replica says.
"""

import logging
import time
from typing import Any

from ray.serve._private.replica_result import ReplicaResult
from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica
from ray.util import metrics

from planning.policies.route import Overloaded, ReplicaRates, RouteConfig, Router, Ticket
from serve_apps.router_prompt import Prompt, Prompts
from serve_apps.router_replies import watch

logger = logging.getLogger("ray.serve")

PROBE_S = 0.5
"""A replica that had no room is asked again after it."""
FIRST_GUESS_TOKENS = 128.0
"""A reply's length before any was seen; afterwards the mean of about the last thousand."""
BUCKETS_MS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]


class AffinityRouter(RequestRouter):
    """Sends a request to the replica that has its prefix, until that is not worth the wait.

    `_choose_replica_for_request` is overridden, not only the public `choose_replicas`, as Ray's own capacity-queue
    router does: the base class would let routing tasks reorder requests, probe replicas before each choice, and tell
    nobody of a request that is cancelled between its choice and its sending, whose reservation would then leak.
    """

    def initialize_state(  # type: ignore[override]
        self,
        model: str,
        path: str | None,
        block_tokens: int,
        context_tokens: int,
        rates: dict[str, float],
        route: dict[str, float],
        max_wait_ms: dict[str, float],
        seed: int | None = None,
    ) -> None:
        """Serve calls this with request_router_kwargs: what serve_apps.routing made of the deployment's config.

        max_wait_ms is by priority (JSON's keys are strings).
        """
        self._prompts = Prompts(model, path, block_tokens, context_tokens)
        self._rates = ReplicaRates(**rates)  # type: ignore[arg-type]
        self._policy = Router(RouteConfig.model_validate(route), time.monotonic_ns() if seed is None else seed)
        self._max_wait_ms = {int(priority): ms for priority, ms in max_wait_ms.items()}
        self._tickets: dict[tuple[str, ReplicaID], list[Ticket]] = {}
        self._resets: dict[ReplicaID, float] = {}
        self._choice = False  # whether there ever was one; without, keys would cost time for nothing
        self._full: dict[ReplicaID, float] = {}  # no room when last heard of; when it is asked again
        self._output_tokens, self._replies = FIRST_GUESS_TOKENS, 0
        tags = {"application": self._deployment_id.app_name, "deployment": self._deployment_id.name}
        self._routed = metrics.Counter(
            "firstclause_routed_total", "Requests by how their replica was found.", (*tags, "reason")
        ).set_default_tags(tags)
        self._decision = metrics.Histogram(
            "firstclause_route_ms", "Choosing the replica, its prompt's keys included.", BUCKETS_MS, tuple(tags)
        ).set_default_tags(tags)

    # -- replicas ----------------------------------------------------------------------------------------------------

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """The controller's word on which replicas there are, and what each says of itself."""
        super().update_replicas(replicas)
        for replica_id in [r for r in self._policy.loads if r not in self._replicas]:
            self._forget(replica_id)  # type: ignore[arg-type]
        for replica_id, replica in self._replicas.items():
            resets = replica.routing_stats.get("cache_resets", 0)
            if replica_id not in self._policy.loads:
                self._policy.add(replica_id, self._rates_of(replica))
            elif resets != self._resets[replica_id]:
                self._policy.reset(replica_id)
            self._resets[replica_id] = resets
        if len(self._replicas) > 1 and not self._choice:
            self._choice = True
            self._prompts.load()

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """A request found it dead before the controller did. Its reservations go with it."""
        super().on_replica_actor_died(replica_id)
        self._forget(replica_id)

    def _forget(self, replica_id: ReplicaID) -> None:
        self._policy.remove(replica_id)
        self._resets.pop(replica_id, None)
        self._full.pop(replica_id, None)

    def _rates_of(self, replica: RunningReplica) -> ReplicaRates:
        """The deployment's rates, but for what the replica says of itself: a slower GPU, more KV memory."""
        own = {k: v for k, v in replica.replica_metadata.get("rates", {}).items() if k in ReplicaRates.__slots__}
        return ReplicaRates(**{k: own.get(k, getattr(self._rates, k)) for k in ReplicaRates.__slots__})

    # -- a request's way ---------------------------------------------------------------------------------------------

    async def _choose_replica_for_request(
        self, pending_request: PendingRequest, *, is_retry: bool = False
    ) -> RunningReplica:
        """The replica, with a reservation on it. Raises planning.policies.route.Overloaded."""
        attempt = 0
        while True:
            while not self._replicas:
                self._replicas_updated_event.clear()
                await self._replicas_updated_event.wait()
            if replica := await self._choose(pending_request):
                return replica
            await self._probe_queue_lens(self._replicas_list, attempt)
            self._full = {r.replica_id: self._until() for r in self._replicas_list if not self._has_room(r)}
            if len(self._full) == len(self._replicas):
                await self._backoff(attempt)
                attempt += 1

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """For a handle's `choose_replica`, which asks first and sends later."""
        if pending_request is None:
            return [candidate_replicas]
        pending_request.routing_context.should_backoff = True
        self._release(pending_request.metadata.internal_request_id)  # asked again: the last choice had no room
        replica = await self._choose(pending_request)
        return [[replica]] if replica else []

    async def _choose(self, pending_request: PendingRequest) -> RunningReplica | None:
        """Decide and reserve. None where no replica has room."""
        begun = time.perf_counter()
        metadata = pending_request.metadata
        prompt = await self._prompts.read(
            (*pending_request.args, *pending_request.kwargs.values()),
            metadata.multiplexed_model_id,
            keys=self._choice,
        )
        # From here on nothing is awaited: the next decision sees this one's reservation.
        now_s = time.monotonic()
        ticket = self._route(prompt, now_s)
        if ticket is None:
            return None
        replica_id: Any = ticket.replica
        self._tickets.setdefault((metadata.internal_request_id, replica_id), []).append(ticket)
        self._routed.inc(tags={"reason": ticket.reason})
        self._decision.observe((time.perf_counter() - begun) * 1000)
        return self._replicas[replica_id]

    def _route(self, prompt: Prompt, now_s: float) -> Ticket | None:
        among = None
        if self._full:
            self._full = {replica: until for replica, until in self._full.items() if until > now_s}
            among = [replica for replica in self._policy.loads if replica not in self._full]
        if not self._policy.loads or among == []:
            return None
        expected = self._output_tokens
        if prompt.output_limit is not None:
            expected = min(expected, prompt.output_limit)
        try:
            return self._policy.route(
                prompt.chain, prompt.tokens, expected, now_s, prompt.priority,
                self._max_wait_ms.get(prompt.priority, float("inf")), among,
            )  # fmt: skip
        except Overloaded:
            self._routed.inc(tags={"reason": "refused"})
            raise

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult) -> None:
        """The replica has taken it: from its reply come the first token, the hit and the length."""
        tickets = self._tickets.get((pending_request.metadata.internal_request_id, replica_id))
        if tickets:
            watch(result, self._event_loop, lambda: self._policy.first_token(tickets[-1]), self._usage(tickets[-1]))

    def _usage(self, ticket: Ticket) -> Any:
        def told(cached_tokens: int | None, output_tokens: int | None) -> None:
            if cached_tokens is not None:
                self._policy.hit(ticket, cached_tokens)
            if output_tokens is not None:
                self._replies = min(self._replies + 1, 1000)
                self._output_tokens += (output_tokens - self._output_tokens) / self._replies

        return told

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """It has ended, failed, or was refused or cancelled."""
        self._release(internal_request_id, replica_id)

    def _release(self, internal_request_id: str, replica_id: ReplicaID | None = None) -> None:
        """End the oldest reservation of the request, on this replica or on any."""
        keys = [(internal_request_id, replica_id)] if replica_id else [
            key for key in self._tickets if key[0] == internal_request_id
        ]  # fmt: skip
        for key in keys:
            tickets = self._tickets.get(key)
            if tickets:
                self._policy.end(tickets.pop(0))
                if not tickets:
                    del self._tickets[key]

    # -- what replicas say of their queues ---------------------------------------------------------------------------

    def on_new_queue_len_info(self, replica_id: ReplicaID, num_ongoing_requests: int) -> None:
        """With its answer to each request a replica says how many it has, from all routers."""
        super().on_new_queue_len_info(replica_id, num_ongoing_requests)
        self._policy.seen(replica_id, num_ongoing_requests, time.monotonic())
        replica = self._replicas.get(replica_id)
        if replica is not None and num_ongoing_requests >= replica.max_ongoing_requests:
            self._full[replica_id] = self._until()

    def decrement_queue_len_cache(self, replica_id: ReplicaID) -> None:
        """One of ours has ended there: there is room."""
        super().decrement_queue_len_cache(replica_id)
        self._full.pop(replica_id, None)

    def _has_room(self, replica: RunningReplica) -> bool:
        length = self._replica_queue_len_cache.get(replica.replica_id)
        return length is None or length < replica.max_ongoing_requests

    @staticmethod
    def _until() -> float:
        return time.monotonic() + PROBE_S
