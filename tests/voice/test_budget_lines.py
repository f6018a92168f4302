"""A stage that takes 100 ms longer is found in its own line, and in no other: through the whole pipeline, on fakes.

The models are faked so that each stage takes a known time; hearing, turn taking, gate, playout and the wire are real.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI

from configs.budgets import load_budget
from configs.deployment import load_deployment
from loadtests.call import dial
from loadtests.conversation import converse
from loadtests.wav import Clip
from serve_apps.voice_routes import routes
from telemetry.sound import Samples
from tests.support.net import free_port
from voice.asr import Audio, Transcript, Urgency
from voice.history import Message
from voice.llm import Piece
from voice.services import Services
from voice.switchboard import Switchboard

pytestmark = pytest.mark.system

BASE_S = 0.25
"""Each stage's time: together far more than the wait for the turn's end, so that the answer is the critical path."""


@dataclass
class Stages:
    """How long each stage takes, in seconds."""

    asr: float = BASE_S
    llm_first_token: float = BASE_S
    clause: float = BASE_S
    tts: float = BASE_S


class SlowRecognizer:
    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    async def transcribe(self, audio: Audio, urgency: Urgency, prefix: tuple[int, ...] = ()) -> Transcript:
        await asyncio.sleep(self._stages.asr)
        return Transcript("what is it")


class SlowChat:
    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    async def reply(self, messages: Sequence[Message], request_id: str) -> AsyncIterator[Piece]:
        await asyncio.sleep(self._stages.llm_first_token)
        yield Piece("It is")
        await asyncio.sleep(self._stages.clause)
        yield Piece(" this. ")


class SlowVoice:
    sample_rate = 24_000

    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    async def say(self, text: str, urgent: bool) -> AsyncIterator[Samples]:
        await asyncio.sleep(self._stages.tts)
        times = np.arange(self.sample_rate // 2) / self.sample_rate
        yield (8000 * np.sin(2 * np.pi * 440 * times)).astype(np.int16)


async def lines_ms(stages: Stages, question: Clip) -> dict[str, float]:
    """The median lines of three turns."""
    config = load_deployment().voice
    persona = config.persona.model_copy(update={"greeting": ""})
    recognizer: Any = SlowRecognizer(stages)
    voice: Any = SlowVoice(stages)
    completeness: Any = SimpleNamespace(thread=ThreadPoolExecutor(1), probability=lambda audio: 1.0)
    services = Services(recognizer, completeness, voice, SlowChat(stages), lambda text: len(text.split()), 2048)
    board = Switchboard(config.model_copy(update={"persona": persona}), services, load_budget().allocation_ms())
    api: FastAPI = routes(board)
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(api, host="127.0.0.1", port=port, log_level="critical"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.05)
    try:
        call = await dial(f"http://127.0.0.1:{port}")
        turns = [turn async for turn in converse(call, [question] * 3)]
        await call.hang_up()
    finally:
        server.should_exit = True
        await serving
    assert all(turn.response_ms is not None for turn in turns)
    for turn in turns:
        assert sum(turn.lines_ms.values()) == pytest.approx(turn.response_ms, abs=0.5)
    return {line: float(np.median([turn.lines_ms[line] for turn in turns])) for line in turns[0].lines_ms}


async def test_a_delay_is_found_in_its_line(say: Callable[[str], Clip]) -> None:
    question = say("How many legs does a spider have?")
    before = await lines_ms(Stages(), question)
    for stage in ("asr", "llm_first_token", "clause", "tts"):
        after = await lines_ms(Stages(**{stage: BASE_S + 0.1}), question)
        moved = {line: after[line] - before[line] for line in before}
        assert max(moved, key=lambda line: moved[line]) == stage
        assert moved[stage] == pytest.approx(100, abs=45)
