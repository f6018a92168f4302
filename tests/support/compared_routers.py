"""One LLM deployment whose requests say which router is to choose: Ray's two and ours, over the same replicas.

Each router keeps its own belief and hears of the same replicas and queue lengths; `user` in a request names it.
"""

from typing import Any

from ray.llm._internal.serve.routing_policies.prefix_aware.prefix_aware_router import PrefixCacheAffinityRouter
from ray.serve._private.replica_result import ReplicaResult
from ray.serve._private.request_router import PowerOfTwoChoicesRequestRouter
from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from serve_apps.router import AffinityRouter

ARMS: dict[str, type[RequestRouter]] = {
    "spill": AffinityRouter,
    "power-of-two": PowerOfTwoChoicesRequestRouter,
    "prefix-affinity": PrefixCacheAffinityRouter,
}


class ComparedRouter(RequestRouter):
    """Passes each request to the router that it names, and to all of them what Serve tells of replicas."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.arms = {name: router(*arguments, **options) for name, router in ARMS.items()}

    def initialize_state(self, **settings: Any) -> None:
        for name, router in self.arms.items():
            router.initialize_state(**(settings if name == "spill" else {}))

    async def _choose_replica_for_request(
        self, pending_request: PendingRequest, *, is_retry: bool = False
    ) -> RunningReplica:
        return await self._of(pending_request)._choose_replica_for_request(pending_request, is_retry=is_retry)

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        return await self.arms["power-of-two"].choose_replicas(candidate_replicas, pending_request)

    def _of(self, pending_request: PendingRequest) -> RequestRouter:
        return self.arms.get(getattr(pending_request.args[0], "user", None) or "", self.arms["power-of-two"])

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult) -> None:
        self._of(pending_request).on_request_routed(pending_request, replica_id, result)

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        super().update_replicas(replicas)
        for router in self.arms.values():
            router.update_replicas(replicas)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        super().on_replica_actor_died(replica_id)
        for router in self.arms.values():
            router.on_replica_actor_died(replica_id)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        for router in self.arms.values():
            router.on_request_completed(replica_id, internal_request_id)

    def on_new_queue_len_info(self, replica_id: ReplicaID, num_ongoing_requests: int) -> None:
        super().on_new_queue_len_info(replica_id, num_ongoing_requests)
        for router in self.arms.values():
            router.on_new_queue_len_info(replica_id, num_ongoing_requests)

    def on_send_request(self, replica_id: ReplicaID) -> None:
        super().on_send_request(replica_id)
        for router in self.arms.values():
            router.on_send_request(replica_id)

    def decrement_queue_len_cache(self, replica_id: ReplicaID) -> None:
        super().decrement_queue_len_cache(replica_id)
        for router in self.arms.values():
            router.decrement_queue_len_cache(replica_id)
