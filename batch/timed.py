"""A tier that keeps a record: when each row was with the engine, and what it came to. What load tests look at."""

import json
import os
import time
from dataclasses import dataclass
from typing import Any

from batch.engine import Answer, Engine, Tier, tokens


@dataclass(frozen=True)
class TimedTier:
    """`tier`, with a JSON line in the file `path` for each question at its end, however it ended.

    Times are this machine's monotonic clock, which all its processes share.
    """

    tier: Tier
    path: str

    def engine(self, tenant: str) -> Engine:
        return TimedEngine(self.tier.engine(tenant), self.path)

    def models(self) -> set[str] | None:
        return self.tier.models()


class TimedEngine:
    """One line is one write, so that several processes may append."""

    def __init__(self, engine: Engine, path: str) -> None:
        self._engine = engine
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def answer(self, endpoint: str, body: dict[str, Any]) -> Answer:
        begin_s = time.monotonic()
        good, counts = False, (0, 0, 0)
        try:
            answer = await self._engine.answer(endpoint, body)
            good, counts = answer.good, tokens(answer)
            return answer
        finally:
            line: dict[str, Any] = dict(zip(("prompt_tokens", "cached_tokens", "output_tokens"), counts, strict=True))
            line |= {"begin_s": begin_s, "end_s": time.monotonic(), "good": good}
            os.write(self._file, json.dumps(line).encode() + b"\n")

    async def close(self) -> None:
        await self._engine.close()
        os.close(self._file)
