"""The voice application's models, faked so that each stage takes a known time. The rest of the pipeline is real."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI

from configs.budgets import load_budget
from configs.deployment import load_deployment
from loadtests.ports import free_port
from serve_apps.voice_routes import routes
from telemetry.sound import Samples
from voice.asr import Audio, Transcript, Urgency
from voice.history import Message
from voice.llm import Piece
from voice.services import Services
from voice.switchboard import Switchboard

BASE_S = 0.25
"""Each stage's time: together far more than the wait for the turn's end, so that the answer is the critical path."""


@dataclass
class Stages:
    """How long each stage takes, in seconds; how long a clause sounds; what is heard in so many seconds of
    sound; what the LLM was asked."""

    asr: float = BASE_S
    interim: float = BASE_S
    llm_first_token: float = BASE_S
    clause: float = BASE_S
    tts: float = BASE_S
    sound: float = 0.5
    words: Callable[[float], str] = lambda duration_s: "what is it"
    asked: list[list[Message]] = field(default_factory=list)
    prefilled: list[list[Message]] = field(default_factory=list)


class SlowRecognizer:
    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    async def transcribe(self, audio: Audio, urgency: Urgency, timed: bool = False) -> Transcript:
        await asyncio.sleep(self._stages.asr if urgency is Urgency.FINAL else self._stages.interim)
        return Transcript(self._stages.words(len(audio) / 16_000))


class SlowChat:
    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    async def prefill(self, messages: Sequence[Message], request_id: str) -> None:
        self._stages.prefilled.append(list(messages))

    async def reply(self, messages: Sequence[Message], request_id: str) -> AsyncIterator[Piece]:
        self._stages.asked.append(list(messages))
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
        times = np.arange(int(self.sample_rate * self._stages.sound)) / self.sample_rate
        yield (8000 * np.sin(2 * np.pi * 440 * times)).astype(np.int16)


@asynccontextmanager
async def serving(stages: Stages) -> AsyncIterator[str]:
    """The URL of a voice application whose stages take that long."""
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
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task
