"""The record that a timed tier keeps of its rows."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from batch.engine import Answer, Broken, StubTier
from batch.timed import TimedTier


@dataclass(frozen=True)
class Slow:
    """A tier that never answers, or breaks."""

    breaks: bool

    def engine(self, tenant: str) -> "Slow":
        return self

    def models(self) -> set[str]:
        return {"m"}

    async def answer(self, endpoint: str, body: dict[str, Any]) -> Answer:
        if self.breaks:
            raise Broken("it fell over")
        await asyncio.sleep(60)
        raise AssertionError

    async def close(self) -> None:
        pass


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_every_question_leaves_a_line_however_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    engine = TimedTier(StubTier(), str(path)).engine("t")
    assert (await engine.answer("/v1/chat/completions", {"messages": []})).good
    with pytest.raises(Broken):
        await TimedTier(Slow(True), str(path)).engine("t").answer("/", {})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await TimedTier(Slow(False), str(path)).engine("t").answer("/", {})
    await engine.close()
    answered, broken, cancelled = lines(path)
    assert (answered["good"], answered["prompt_tokens"], answered["output_tokens"]) == (True, 1, 1)
    assert not broken["good"] and not cancelled["good"]
    assert cancelled["end_s"] - cancelled["begin_s"] >= 0.05


def test_it_knows_the_models_of_the_tier_that_it_times(tmp_path: Path) -> None:
    assert TimedTier(Slow(False), str(tmp_path / "rows")).models() == {"m"}
