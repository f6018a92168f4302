"""What all calls of a replica share: the loaded and warmed models."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from configs.deployment import Deployment
from voice.asr import SAMPLE_RATE, Recognizer
from voice.llm import ChatModel
from voice.tally import Tally, uncounted
from voice.tools import Tools
from voice.tts.piper import Voice
from voice.vad import TurnCompleteness, turn_completeness


@dataclass(frozen=True)
class Services:
    """The models that a replica's calls share."""

    recognizer: Recognizer
    completeness: TurnCompleteness
    voice: Voice
    chat: ChatModel
    count_tokens: Callable[[str], int]
    context_tokens: int
    tools: Tools = field(default_factory=Tools)
    tally: Tally = uncounted


async def load_services(
    deployment: Deployment, models: dict[str, Path], chat: ChatModel, tools: Tools, tally: Tally = uncounted
) -> Services:
    """Load and warm what the calls share: the first call is to be as fast as the tenth."""
    config = deployment.voice
    recognizer = Recognizer(models["asr"], config.hearing)
    completeness = turn_completeness()
    voice = Voice(models["tts"], config.speaking)
    await voice.start()
    for seconds in (1, 5):
        await asyncio.to_thread(recognizer.transcribe_now, np.zeros(seconds * SAMPLE_RATE, dtype=np.float32))
    await asyncio.to_thread(completeness.probability, np.zeros(8 * SAMPLE_RATE, dtype=np.float32))
    tokenizer = Tokenizer.from_file(str(models["llm"] / "tokenizer.json"))
    return Services(
        recognizer, completeness, voice, chat, lambda text: len(tokenizer.encode(text)), deployment.llm.context_tokens,
        tools, tally,
    )  # fmt: skip
