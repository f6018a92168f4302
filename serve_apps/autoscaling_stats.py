"""What an LLM replica tells the autoscaler: work in resource tokens, not requests, for one may cost a thousand others.

Work counts when it arrives, at its estimate, and is put right when it ends. Batch is no demand: it fills what others
leave, and a replica with nothing but batch is supply that a burst can have.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Any


class WorkTally:
    """One replica's work so far. `estimate_rt` -> resource tokens of a request's body."""

    def __init__(self, estimate_rt: Callable[[Any], float]) -> None:
        self._estimate_rt = estimate_rt
        self.arrived_rt = 0.0  # all that ever came, batch's not
        self.queued_rt = 0.0  # of it, what has no first token yet
        self._callers = self._batches = 0

    def stats(self) -> dict[str, float]:
        """For `record_autoscaling_stats`; planning's Observation is made of it in serve_apps.autoscaling."""
        return {
            "arrived_rt": self.arrived_rt,
            "queued_rt": max(0.0, self.queued_rt),
            "lent": float(self._batches > 0 and not self._callers),
        }

    async def follow(self, replies: AsyncGenerator[Any, None], request: Any, batch: bool) -> AsyncGenerator[Any, None]:
        """The same replies, counted. A last item with `used_rt` says what the request came to."""
        if batch:
            self._batches += 1
            try:
                async for reply in replies:
                    yield reply
            finally:
                self._batches -= 1
                await replies.aclose()
            return
        estimate_rt = used_rt = self._estimate_rt(request)
        self.arrived_rt += estimate_rt
        self.queued_rt += estimate_rt
        self._callers += 1
        waiting = True
        try:
            async for reply in replies:
                if waiting:
                    waiting = False
                    self.queued_rt -= estimate_rt
                used_rt = getattr(reply, "used_rt", used_rt)
                yield reply
        finally:
            self.arrived_rt += used_rt - estimate_rt
            self.queued_rt -= estimate_rt * waiting
            self._callers -= 1
            await replies.aclose()
