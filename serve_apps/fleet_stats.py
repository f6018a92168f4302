"""What an LLM server tells Serve of itself, for its router and its autoscaler: a part of MeteredLLMServer."""

from typing import Any

from ray.llm._internal.serve.core.server.llm_server import LLMServer

from serve_apps.autoscaling_stats import WorkTally


class FleetStats(LLMServer):
    """Serve calls the `record_` methods: the metadata once, routing and scaling figures again and again."""

    _work: WorkTally
    _cache_resets = 0

    async def reset_prefix_cache(self) -> None:
        """Forget all cached prefixes; the routers hear of it."""
        await super().reset_prefix_cache()
        self._cache_resets += 1

    async def record_routing_stats(self) -> dict[str, Any]:
        stats: dict[str, Any] = await super().record_routing_stats()
        return stats | {"cache_resets": self._cache_resets}

    def record_replica_metadata(self) -> dict[str, Any]:
        """`rates` as in planning.policies.route.ReplicaRates, as far as this engine knows better than its profile."""
        cache = self.engine._engine_client.vllm_config.cache_config  # type: ignore[union-attr]
        blocks = cache.num_gpu_blocks
        return {"rates": {"kv_capacity_tokens": float(blocks * cache.block_size)}} if blocks else {}

    def record_autoscaling_stats(self) -> dict[str, float]:
        return self._work.stats()
