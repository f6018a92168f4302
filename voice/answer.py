"""One answer in the making: LLM pieces -> clauses -> sound, the next clause generated while one is synthesised.

It runs from the guess on and fills a script; whether the script is heard is the gate's decision, not its own.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from loguru import logger

from telemetry.sound import WINDOW_MS, Samples, loud_windows
from voice.clauses import ends_sentence, split_first
from voice.history import Message
from voice.llm import LlmError, ReplyModel
from voice.playout import Script
from voice.resampler import MonoResampler
from voice.tts.piper import SpeechError, Voice

PAUSE_MS, JOIN_MS = 180, 40
"""Silence behind a clause that ends with a mark, and behind one that was cut from its sentence."""


@dataclass
class Answer:
    """An answer to `messages`. The times are monotonic seconds, 0 until they happen."""

    number: int
    messages: Sequence[Message]
    chat: ReplyModel
    voice: Voice
    rate: int
    apology: str
    request_id: str
    script: Script = field(default_factory=Script)
    first_token_at: float = 0.0
    first_clause_at: float = 0.0
    first_audio_at: float = 0.0
    failed: bool = False
    generated: str = ""
    """All that the LLM said."""

    async def run(self) -> None:
        """Make the whole answer. Cancel to withdraw it: the engine stops, and the voice too."""
        clauses: asyncio.Queue[tuple[str, bool] | None] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._generate(clauses))
            group.create_task(self._synthesise(clauses))

    async def _generate(self, clauses: "asyncio.Queue[tuple[str, bool] | None]") -> None:
        text, cut, sentence_said = "", False, False
        try:
            async for piece in self.chat.reply(self.messages, self.request_id):
                self.first_token_at = self.first_token_at or time.monotonic()
                self.generated += piece.text
                text += piece.text
                cut = piece.cut
                while True:
                    clause, text = split_first(text, opening=not self.first_clause_at)
                    if not clause:
                        break
                    sentence_said |= ends_sentence(clause)
                    self._say(clauses, clause)
            # A reply that ran into its limit ends with its last whole sentence, if it has one.
            if text.strip() and not (cut and sentence_said):
                self._say(clauses, text.strip())
        except LlmError as error:
            logger.error("no answer from the LLM: {}", error)
            self.failed = True
        if self.failed or not self.first_clause_at:
            self.first_token_at = self.first_token_at or time.monotonic()
            self.first_clause_at = self.first_clause_at or time.monotonic()
            clauses.put_nowait((self.apology, True))
        clauses.put_nowait(None)

    def _say(self, clauses: "asyncio.Queue[tuple[str, bool] | None]", clause: str) -> None:
        self.first_clause_at = self.first_clause_at or time.monotonic()
        clauses.put_nowait((clause, False))

    async def _synthesise(self, clauses: "asyncio.Queue[tuple[str, bool] | None]") -> None:
        first = True
        while (said := await clauses.get()) is not None:
            await speak_into(self.script, self.voice, self.rate, *said, urgent=first, on_audio=self._on_audio)
            first = False
        self.script.finish()

    def _on_audio(self) -> None:
        self.first_audio_at = self.first_audio_at or time.monotonic()


async def speak_into(
    script: Script,
    voice: Voice,
    rate: int,
    text: str,
    aside: bool,
    urgent: bool,
    on_audio: Callable[[], None] = lambda: None,
) -> None:
    """Synthesise `text` as the script's next clause, without the silence around it but for a pause behind it.

    A voice that fails costs the clause, not the call.
    """
    clause = script.begin(text, aside)
    resampler = MonoResampler(rate)
    leading, quiet = True, np.zeros(0, dtype=np.int16)
    try:
        sounds = voice.say(text, urgent)
        try:
            async for sound in sounds:
                samples = resampler.mono(sound.tobytes(), voice.sample_rate, 1)
                if leading:
                    samples = _from_first_sound(samples, rate)
                    leading = not len(samples)
                if len(samples):
                    on_audio()
                    samples = np.concatenate([quiet, samples])
                    end = _sound_end(samples, rate)
                    samples, quiet = samples[:end], samples[end:]
                    script.add(clause, samples)
        finally:
            await sounds.aclose()  # type: ignore[attr-defined]  # an async generator: cancels what is not said yet
    except SpeechError as error:
        logger.error("could not say a clause: {}", error)
    pause_ms = PAUSE_MS if text[-1:] in ".!?:;," else JOIN_MS
    script.add(clause, quiet[: rate * pause_ms // 1000])
    script.close(clause)


def _sound_end(samples: Samples, rate: int) -> int:
    """Where the last loud window ends, in samples."""
    loud = loud_windows(samples, rate).nonzero()[0]
    return int(loud[-1] + 1) * rate * WINDOW_MS // 1000 if len(loud) else 0


def _from_first_sound(samples: Samples, rate: int) -> Samples:
    loud = loud_windows(samples, rate).nonzero()[0]
    return samples[max(0, loud[0] - 1) * rate * WINDOW_MS // 1000 :] if len(loud) else samples[:0]
