"""What a call is made of, without models: a voice that hums, a recognizer that always hears the same words."""

from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np

from telemetry.sound import Samples
from voice.asr import Audio, Transcript, Urgency
from voice.history import Message
from voice.llm import Piece
from voice.services import Services

HEARD = "what is the capital of France"
REPLY = "Paris."


class HummingVoice:
    """Every text is 0.4 s of a 440 Hz tone."""

    sample_rate = 22_050

    async def say(self, text: str, urgent: bool) -> AsyncIterator[Samples]:
        times = np.arange(self.sample_rate * 4 // 10) / self.sample_rate
        yield (8000 * np.sin(2 * np.pi * 440 * times)).astype(np.int16)


class Parrot:
    """Hears HEARD in everything."""

    async def transcribe(self, audio: Audio, urgency: Urgency, timed: bool = False) -> Transcript:
        return Transcript(HEARD)


class OneAnswer:
    async def prefill(self, messages: Sequence[Message], request_id: str) -> None:
        pass

    async def reply(self, messages: Sequence[Message], request_id: str) -> AsyncIterator[Piece]:
        yield Piece(REPLY)


def fake_services() -> Services:
    """Services for a switchboard whose calls are real but for the models."""
    completeness: Any = SimpleNamespace(thread=ThreadPoolExecutor(1), probability=lambda audio: 1.0)
    parrot: Any = Parrot()
    voice: Any = HummingVoice()
    return Services(parrot, completeness, voice, OneAnswer(), lambda text: len(text.split()), 2048)
