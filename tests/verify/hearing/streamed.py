"""The hearing processor on virtual time: a clip in the pipeline's chunks, every recognition awaited before the next."""

import asyncio
from dataclasses import dataclass, field

import numpy as np
from pipecat.frames.frames import Frame, InputAudioRawFrame
from pipecat.processors.frame_processor import FrameDirection

from configs.voice import VoiceConfig
from tests.verify.hearing.speakers import RATE, Audio, silence
from voice.asr import Recognizer
from voice.frames import ConfirmedFrame, GuessFrame
from voice.hearing import Hearing
from voice.vad import TurnCompleteness

CHUNK_SAMPLES = RATE * 20 // 1000
LEAD_S, TAIL_S = 0.3, 1.6


@dataclass
class Heard:
    """What came out of one clip: the words of each turn that was confirmed, and when it was guessed and confirmed."""

    turns: list[str] = field(default_factory=list)
    over_ms: list[tuple[float, float]] = field(default_factory=list)
    _guesses: dict[int, tuple[str, float]] = field(default_factory=dict)

    def take(self, frame: Frame, at_ms: float) -> None:
        if isinstance(frame, GuessFrame):
            self._guesses[frame.guess] = frame.text, at_ms
        elif isinstance(frame, ConfirmedFrame):
            text, guessed_ms = self._guesses[frame.guess]
            self.turns.append(text)
            self.over_ms.append((guessed_ms, at_ms))


class _Hearing(Hearing):
    heard: Heard

    async def push_frame(self, frame: Frame, direction: FrameDirection = FrameDirection.DOWNSTREAM) -> None:
        self.heard.take(frame, self._heard_ms)

    async def hear(self, chunk: Audio) -> None:
        await self._hear(InputAudioRawFrame(chunk.tobytes(), RATE, 1))
        while self._background:
            await asyncio.wait(self._background)


async def stream(audio: Audio, config: VoiceConfig, recognizer: Recognizer, completeness: TurnCompleteness) -> Heard:
    """Hear a clip and the silence behind it."""
    hearing = _Hearing(config, recognizer, completeness)
    hearing.heard = Heard()
    whole = np.concatenate([silence(LEAD_S), audio, silence(TAIL_S)])
    for start in range(0, len(whole), CHUNK_SAMPLES):
        await hearing.hear(whole[start : start + CHUNK_SAMPLES])
    return hearing.heard
