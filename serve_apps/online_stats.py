"""What the callers of an engine felt, for the harvest: looked at a few times a second."""

import time
from typing import Any

from serve_apps.gateway.meter import Meter
from telemetry.spans import covered_s


class OnlineTally:
    """What the callers of one engine felt since the last look. Batch's rows are none of them."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._counted: set[str] = set()
        self._looked_s = time.monotonic()

    def look(self) -> dict[str, Any]:
        """ttft_ms: of each first token; waiting: callers without one; busy_share: of the time, with a caller there;
        longest_step_ms: of the engine's, whoever it was for."""
        now_s = time.monotonic()
        live = [account for account in self._meter.live() if account.tenant_class != "batch"]
        ended = [account for account in self._meter.ended(self._looked_s) if account.tenant_class != "batch"]
        ttft_ms = [
            ms
            for account in (*live, *ended)
            if account.request_id not in self._counted and (ms := account.ttft_ms) is not None
        ]
        self._counted = {account.request_id for account in live if account.ttft_ms is not None}
        spans = [(max(account.begun_s, self._looked_s), account.ended_s or now_s) for account in (*live, *ended)]
        busy_s = covered_s(spans)
        share = min(1.0, busy_s / (now_s - self._looked_s)) if now_s > self._looked_s else 0.0
        self._looked_s = now_s
        return {
            "ttft_ms": ttft_ms,
            "waiting": sum(account.ttft_ms is None for account in live),
            "busy_share": share,
            "longest_step_ms": self._meter.take_longest_step_ms(),
        }
