"""The hearing processor: received audio in; turns, guesses and words out.

It runs voice activity on every 32 ms frame, feeds the turn machine (turns.py), and on its guesses asks the recognizer
and Smart Turn at once. It answers nothing: agent.py does.
"""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from loguru import logger
from pipecat.frames.frames import CancelFrame, EndFrame, Frame, InputAudioRawFrame
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from configs.voice import VoiceConfig
from voice.asr import Audio, Recognizer, Urgency
from voice.frames import ConfirmedFrame, GuessFrame, TurnOpenedFrame, WithdrawnFrame, WordsFrame
from voice.loudness import Loudness
from voice.resampler import MonoResampler
from voice.turns import Guessed, Hushed, Opened, TurnEvent, Turns, Withdrawn
from voice.utterance import PAST_MS, SAMPLE_RATE, Utterance
from voice.vad import FRAME_MS, FRAME_SAMPLES, SMART_TURN_S, TurnCompleteness, VoiceActivity

COMMIT_MS = 10_000
"""A guess that is withdrawn behind this much audio ends a segment: its words stand, and are not heard again."""

T = TypeVar("T")


class Hearing(FrameProcessor):
    """One caller's ears. Consumes input audio; pushes the frames of frames.py downstream."""

    def __init__(self, config: VoiceConfig, recognizer: Recognizer, completeness: TurnCompleteness) -> None:
        super().__init__()
        self._config = config
        self._recognizer, self._completeness = recognizer, completeness
        self._resampler = MonoResampler(SAMPLE_RATE)
        self._voice = VoiceActivity()
        self._loudness = Loudness()
        self._turns = Turns(config.turn_taking)
        self._utterance = Utterance()
        self._heard_ms = 0.0
        self._segment_ms = 0.0
        self._segments: list[asyncio.Task[str]] = []
        self._transcript: asyncio.Task[str] | None = None
        self._guessed_ms = 0.0
        self._interim: asyncio.Task[None] | None = None
        self._interim_ms = 0.0
        self._verdict: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[Any]] = set()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Take audio; pass everything else on."""
        await super().process_frame(frame, direction)
        if isinstance(frame, InputAudioRawFrame):
            await self._hear(frame)
            return
        if isinstance(frame, (EndFrame, CancelFrame)):
            await self._cancel_all()
        await self.push_frame(frame, direction)

    async def cleanup(self) -> None:
        """Stop what runs for this caller."""
        await self._cancel_all()
        await super().cleanup()  # type: ignore[no-untyped-call]

    async def _hear(self, frame: InputAudioRawFrame) -> None:
        samples = self._resampler.mono(frame.audio, frame.sample_rate, frame.num_channels)
        self._utterance.append(samples, time.monotonic())
        while self._utterance.end_ms - self._heard_ms >= FRAME_MS:
            start_ms = self._heard_ms
            self._heard_ms += FRAME_MS
            window = self._utterance.window(start_ms, FRAME_SAMPLES)
            self._loudness.frame(window, start_ms, FRAME_MS)
            probability = self._voice.probability(window)
            for event in self._turns.frame(probability, start_ms, self._heard_ms, self._loudness.end_ms):
                await self._on_event(event)
            if self._turns.voiced:
                self._while_speaking()
        if not self._turns.speaking:
            self._utterance.forget_before(self._heard_ms - PAST_MS)

    async def _on_event(self, event: TurnEvent) -> None:
        if isinstance(event, Opened):
            self._segment_ms = max(self._utterance.start_ms, event.start_ms - PAST_MS)
            self._interim_ms = event.start_ms
            self._segments = []
            await self.push_frame(TurnOpenedFrame())
        elif isinstance(event, Hushed):
            self._cancel(self._interim)
            self._cancel(self._transcript)
            self._guessed_ms = self._heard_ms
            self._transcript = self._start(self._transcribe(self._utterance.audio(self._segment_ms)))
        elif isinstance(event, Guessed):
            assert self._transcript is not None, "a hush comes before a guess"
            self._start(self._guess(event, self._transcript, time.monotonic()))
            self._verdict = self._start(self._judge(event.guess))
        elif isinstance(event, Withdrawn):
            self._withdraw()
            await self.push_frame(WithdrawnFrame(event.guess))
        else:
            voice_end_ms = self._utterance.last_loud_ms(self._heard_ms - event.silence_ms)
            at = self._utterance.arrived_at(voice_end_ms)
            self._loudness.new_turn()
            self._transcript = None  # the turn's words may still be on their way: the next turn leaves them alone
            await self.push_frame(ConfirmedFrame(event.guess, at, time.monotonic()))

    async def _guess(self, guess: Guessed, transcript: "asyncio.Task[str]", guessed_at: float) -> None:
        """Tell what was said in the turn so far. A withdrawn guess's transcript is cancelled, and this with it."""
        words = [await segment for segment in (*self._segments, transcript)]
        await self.push_frame(GuessFrame(guess.guess, " ".join(words).strip(), guessed_at, time.monotonic()))

    async def _transcribe(self, audio: Audio) -> str:
        try:
            return (await self._recognizer.transcribe(audio, Urgency.FINAL)).text
        except Exception as error:  # noqa: BLE001 - the turn is lost, the call goes on
            logger.error("recognition failed: {}", error)
            return ""

    def _withdraw(self) -> None:
        """The caller went on. A long segment that is transcribed stands; else it is heard again with the rest."""
        self._cancel(self._verdict)
        transcript, end_ms = self._transcript, self._guessed_ms
        if transcript is None:
            return
        if transcript.done() and not transcript.cancelled() and end_ms - self._segment_ms >= COMMIT_MS:
            self._close_segment(transcript, end_ms)
        else:
            transcript.cancel()

    def _close_segment(self, transcript: "asyncio.Task[str]", end_ms: float) -> None:
        self._segments.append(transcript)
        self._segment_ms = end_ms
        self._utterance.forget_before(end_ms)

    async def _judge(self, guess: int) -> None:
        audio = self._utterance.audio(self._heard_ms - SMART_TURN_S * 1000)
        loop = asyncio.get_running_loop()
        try:
            complete = await loop.run_in_executor(self._completeness.thread, self._completeness.probability, audio)
        except Exception as error:  # noqa: BLE001 - without a verdict the wait is that of doubt
            logger.error("Smart Turn failed: {}", error)
            return
        self._turns.judged(guess, complete)

    def _while_speaking(self) -> None:
        """Show the words so far now and then; cut an utterance that outgrows Whisper's window."""
        if self._heard_ms - self._segment_ms >= self._config.turn_taking.max_segment_s * 1000:
            cut_ms = self._utterance.quietest_ms(self._heard_ms - 5000, self._heard_ms)
            audio = self._utterance.audio(self._segment_ms, cut_ms)
            self._close_segment(self._start(self._transcribe(audio)), cut_ms)
        elif self._heard_ms - self._interim_ms >= self._config.hearing.interim_every_ms and _done(self._interim):
            self._interim_ms = self._heard_ms
            self._interim = self._start(self._show())

    async def _show(self) -> None:
        transcript = await self._recognizer.transcribe(self._utterance.audio(self._segment_ms), Urgency.INTERIM)
        earlier = [segment.result() for segment in self._segments if _done(segment)]
        text = " ".join([*earlier, transcript.text]).strip()
        if text:
            await self.push_frame(WordsFrame(text))

    def _start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    @staticmethod
    def _cancel(task: "asyncio.Task[Any] | None") -> None:
        if task is not None:
            task.cancel()

    async def _cancel_all(self) -> None:
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _done(task: "asyncio.Task[Any] | None") -> bool:
    return task is None or task.done()
