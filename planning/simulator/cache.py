"""A replica's KV memory: what running requests hold and, in the rest, the prefixes kept for later hits.

As in vLLM, finished KV stays until room is needed, the least recently used first; what a running request uses is
never evicted. Unlike vLLM, a request is admitted on its final size (prompt and reply), so that none is ever
preempted: at full memory the simulated batch is a little smaller than vLLM's. One entry is one key's own tokens.
"""

from collections import OrderedDict

from planning.simulator.request import Request


class KvMemory:
    """KV memory of `capacity_tokens`; a hit is a whole number of blocks of `block_tokens`."""

    def __init__(self, capacity_tokens: int, block_tokens: int) -> None:
        self.capacity_tokens, self.block_tokens = capacity_tokens, block_tokens
        self.private_tokens = 0
        self.kept_tokens = 0
        self.pinned_tokens = 0
        self._kept: OrderedDict[int, int] = OrderedDict()
        self._pins: dict[int, int] = {}

    def fits(self, request: Request) -> bool:
        """Whether the request would fit in empty memory."""
        return request.prompt_tokens + request.output_tokens <= self.capacity_tokens

    def admit(self, request: Request) -> int | None:
        """Take the request's memory; its cached prompt tokens, or None where it does not fit now."""
        kept, pins, chain = self._kept, self._pins, request.prefix
        hit = start = newly_pinned = 0
        matching = True
        for key, end in chain:
            own, have = end - start, kept.get(key, 0)
            if matching:
                hit += min(have, own)
                matching = have >= own
            newly_pinned += max(0, own - have) if key in pins else max(have, own)
            start = end
        private = request.prompt_tokens - start + request.output_tokens
        # What is pinned stays, and this request's chain joins it; all the rest can be evicted.
        if self.private_tokens + private + self.pinned_tokens + newly_pinned > self.capacity_tokens:
            return None
        start = 0
        for key, end in chain:
            own, have = end - start, kept.get(key, 0)
            if have < own or key not in kept:
                kept[key] = own
                self.kept_tokens += own - have
            pins[key] = pins.get(key, 0) + 1
            start = end
        for key, _ in reversed(chain):  # the root is touched last: the tail is evicted first
            kept.move_to_end(key)
        self.pinned_tokens += newly_pinned
        self.private_tokens += private
        self._evict()
        # At least the last prompt token is computed: its output is the first new token.
        hit = min(hit, request.prompt_tokens - 1)
        return hit - hit % self.block_tokens

    def release(self, request: Request) -> None:
        """The request has ended; its own tokens stay for later hits until they are evicted."""
        kept, pins, chain = self._kept, self._pins, request.prefix
        size = request.prompt_tokens + request.output_tokens
        self.private_tokens -= size - (chain[-1][1] if chain else 0)
        # A conversation's next turn finds them; others' are found by nobody, yet they age out like the rest.
        key, start = ~request.number, chain[-1][1] if chain else 0
        if request.grows:
            key, start = chain[-1][0], chain[-2][1] if len(chain) > 1 else 0
        more = max(0, size - start - kept.get(key, 0))
        kept[key] = kept.get(key, 0) + more
        kept.move_to_end(key)
        self.kept_tokens += more
        if key in pins:
            self.pinned_tokens += more
        for key, _ in reversed(chain):
            kept.move_to_end(key)
            if pins[key] > 1:
                pins[key] -= 1
            else:
                del pins[key]
                self.pinned_tokens -= kept[key]

    def _evict(self) -> None:
        kept, pins = self._kept, self._pins
        excess = self.private_tokens + self.kept_tokens - self.capacity_tokens
        while excess > 0:
            key, tokens = kept.popitem(last=False)
            if key in pins:
                kept[key] = tokens
                continue
            gone = min(tokens, excess)
            self.kept_tokens -= gone
            excess -= gone
            if gone < tokens:  # the entry's tail goes, its head stays
                kept[key] = tokens - gone
                kept.move_to_end(key, last=False)
