"""What requests have in common, as keys a router can compare, and the belief about who holds it.

A key stands for the first n blocks of a prompt, and for the tenant's salt and the model or adapter with them: the
same text under another salt or adapter is another key, as it is in the engine's cache.
"""

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from itertools import islice

Chain = Sequence[tuple[Hashable, int]]
"""(key, tokens from the prompt's start to the key's end), shortest first."""

_STEPS_PER_OCTAVE = 8


def anchors(blocks: int) -> list[int]:
    """The block counts, of those up to `blocks`, that get a key: all up to 16, then 8 an octave.

    They are the same for every prompt, so that equal beginnings meet; a hit is underestimated by less than an eighth.
    """
    found, step, at = [], 1, 0
    while at + step <= blocks:
        at += step
        found.append(at)
        if at == 2 * _STEPS_PER_OCTAVE * step:
            step *= 2
    return found


def prefix_keys(salt: bytes, model: str, tokens: Sequence[int], block_tokens: int) -> list[tuple[int, int]]:
    """The chain of a prompt given as token ids (each below 2³²), block_tokens the engine's block size.

    `model` names the adapter where there is one. A prompt shorter than a block has no key: nothing of it is cached.
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in (salt, model.encode()):
        digest.update(len(part).to_bytes(8, "big") + part)
    data = array("I", tokens).tobytes()
    width = len(data) // len(tokens) * block_tokens if tokens else 0
    chain, start = [], 0
    for blocks in anchors(len(tokens) // block_tokens):
        digest.update(data[start * width : blocks * width])
        start = blocks
        chain.append((int.from_bytes(digest.copy().digest(), "big"), blocks * block_tokens))
    return chain


class _Engine:
    """What the router believes of one engine's cache."""

    __slots__ = ("capacity_tokens", "epoch", "passed_tokens", "retained_tokens")

    def __init__(self, epoch: int, capacity_tokens: float) -> None:
        self.epoch = epoch
        self.capacity_tokens = capacity_tokens
        self.retained_tokens = capacity_tokens  # a key is held while fewer tokens than this passed since its last use
        self.passed_tokens = 0.0  # all that entered the cache so far


class Belief:
    """Which replicas hold which key, as far as the router knows: at most `max_entries` pairs of key and replica.

    Engines evict the least recently used without telling. So a key counts as held on a replica until as many tokens
    entered its cache as it retains: all its KV memory at first, less once a hit is reported that is shorter than
    believed (never under LEAST of it: a miss may also be a prefix that was still being computed), a little more with
    each that is not. A replica's epoch tells its entries from those of the engine that
    ran there before. Where memory is short, the key that was not asked for longest is forgotten.
    """

    RECOVERY = 1.01
    LEAST = 1 / 8

    def __init__(self, max_entries: int) -> None:
        self.max_entries = max_entries
        self._keys: OrderedDict[Hashable, dict[Hashable, tuple[int, int, float]]] = OrderedDict()
        self._entries = 0
        self._engines: dict[Hashable, _Engine] = {}
        self._epoch = 0

    def __len__(self) -> int:
        return self._entries

    def start(self, replica: Hashable, capacity_tokens: float) -> None:
        """The replica is new, or was reset: it holds nothing."""
        self._epoch += 1
        self._engines[replica] = _Engine(self._epoch, capacity_tokens)

    def end(self, replica: Hashable) -> None:
        """The replica is gone."""
        self._engines.pop(replica, None)

    def filled(self, replica: Hashable) -> float:
        """How often the replica's memory was filled so far, by what entered its cache."""
        engine = self._engines[replica]
        return engine.passed_tokens / engine.capacity_tokens

    def holders(self, chain: Chain, limit: int) -> dict[Hashable, tuple[int, float]]:
        """Replica -> (believed hit in tokens, tokens passed since), at most `limit` of them.

        Those of the longest key come first, and of a key's the last used, the home; then those used longest ago,
        which have had the most time to become free.
        """
        found: dict[Hashable, tuple[int, float]] = {}
        for key, end in reversed(chain):
            held = self._keys.get(key)
            if not held:
                continue
            stale = []
            for replica in (next(reversed(held)), *islice(held, limit)):
                if replica in found:
                    continue
                engine = self._engines.get(replica)
                epoch, tokens, stamp = held[replica]
                if not engine or engine.epoch != epoch or engine.passed_tokens - stamp > engine.retained_tokens:
                    stale.append(replica)
                    continue
                found[replica] = (min(tokens, end), engine.passed_tokens - stamp)
                if len(found) == limit:
                    return found
            self._drop(key, held, stale)
        return found

    def add(self, chain: Chain, replica: Hashable, new_tokens: float) -> None:
        """The replica computes this chain now; `new_tokens` of prompt and reply enter its cache."""
        engine = self._engines[replica]
        engine.passed_tokens += new_tokens
        for key, end in chain:
            held = self._keys.get(key)
            if held is None:
                held = self._keys[key] = {}
            else:
                self._keys.move_to_end(key)
                self._entries -= held.pop(replica, None) is not None
            held[replica] = (engine.epoch, end, engine.passed_tokens)
            self._entries += 1
        while self._entries > self.max_entries:
            self._entries -= len(self._keys.popitem(last=False)[1])

    def forget(self, replica: Hashable, keys: Sequence[Hashable]) -> None:
        """The engine said that it evicted these keys."""
        for key in keys:
            held = self._keys.get(key)
            if held is not None and replica in held:
                self._drop(key, held, [replica])

    def reported(self, replica: Hashable, believed_tokens: int, passed_tokens: float, hit_tokens: int) -> None:
        """The engine found `hit_tokens` in its cache where believed_tokens were thought to be retained."""
        engine = self._engines.get(replica)
        if engine is None or not believed_tokens:
            return
        if hit_tokens < believed_tokens / 2:
            least = max(passed_tokens, self.LEAST * engine.capacity_tokens)
            engine.retained_tokens = min(engine.retained_tokens, least)
        else:
            engine.retained_tokens = min(engine.retained_tokens * self.RECOVERY, engine.capacity_tokens)

    def _drop(self, key: Hashable, held: dict[Hashable, tuple[int, int, float]], replicas: Sequence[Hashable]) -> None:
        for replica in replicas:
            self._entries -= held.pop(replica, None) is not None
        if not held:
            del self._keys[key]
