"""What an LLM server tells the harvest of its callers: a part of MeteredLLMServer."""

from typing import Any

from ray.llm._internal.serve.core.server.llm_server import LLMServer

from serve_apps.gateway.meter import Meter
from serve_apps.online_stats import OnlineTally


class OnlineStats(LLMServer):
    """`online`, for the batch worker."""

    _meter: Meter
    _tally: OnlineTally | None = None

    async def online(self) -> dict[str, Any]:
        """See OnlineTally.look; for one who looks."""
        if self._tally is None:
            self._tally = OnlineTally(self._meter)
        return self._tally.look()
