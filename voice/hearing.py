"""The hearing processor: received audio in; turns, guesses and words out.

Each 32 ms frame goes to listening.py. While the caller speaks the words so far are recognised now and then, so that at
the end only what is new is left to do (growing.py); at a hush they are recognised at once, and at a guess Smart Turn is
asked. It answers nothing: agent.py does.
"""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from loguru import logger
from pipecat.frames.frames import CancelFrame, EndFrame, Frame, InputAudioRawFrame
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from configs.voice import VoiceConfig
from telemetry.sound import Samples
from voice.asr import Audio, Recognizer, Urgency
from voice.frames import ConfirmedFrame, GuessFrame, TurnOpenedFrame, WithdrawnFrame, WordsFrame
from voice.growing import CUT_CLIP_MS, Growing
from voice.listening import Listening
from voice.resampler import MonoResampler
from voice.turns import Guessed, Hushed, Opened, TurnEvent, Withdrawn
from voice.unfinished import unfinished
from voice.utterance import PAST_MS, SAMPLE_RATE, Utterance
from voice.vad import FRAME_MS, FRAME_SAMPLES, SMART_TURN_S, TurnCompleteness

STAND_CLIP_MS, STAND_PAUSE_MS = 3_000, 300
"""A caller who goes on after such a pause behind so much sound: the words before it stand, and are not heard again."""

T = TypeVar("T")


class Hearing(FrameProcessor):
    """One caller's ears. Consumes input audio; pushes the frames of frames.py downstream."""

    def __init__(self, config: VoiceConfig, recognizer: Recognizer, completeness: TurnCompleteness) -> None:
        super().__init__()
        self._config = config
        self._recognizer, self._completeness = recognizer, completeness
        self._resampler = MonoResampler(SAMPLE_RATE)
        self._listening = Listening(config.turn_taking)
        self._turns = self._listening.turns
        self._utterance = Utterance()
        self._heard_ms = 0.0
        self._words = Growing(0.0)
        self._long: list[asyncio.Task[None]] = []
        self._transcript: asyncio.Task[str] | None = None
        self._hushed_ms = 0.0
        self._settled = 0
        self._interim: asyncio.Task[None] | None = None
        self._interim_ms = 0.0
        self._guess: asyncio.Task[None] | None = None
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

    def own_sound(self, samples: Samples) -> None:
        """Take what the agent sends to the caller: it may come back."""
        self._listening.own_sound(samples)

    async def _hear(self, frame: InputAudioRawFrame) -> None:
        samples = self._resampler.mono(frame.audio, frame.sample_rate, frame.num_channels)
        self._utterance.append(samples, time.monotonic())
        while self._utterance.end_ms - self._heard_ms >= FRAME_MS:
            start_ms = self._heard_ms
            self._heard_ms += FRAME_MS
            for event in self._listening.frame(self._utterance.window(start_ms, FRAME_SAMPLES), start_ms):
                await self._on_event(event)
            if self._turns.voiced:
                self._while_speaking()
        if not self._turns.speaking:
            self._utterance.forget_before(self._heard_ms - PAST_MS)

    async def _on_event(self, event: TurnEvent) -> None:
        if isinstance(event, Opened):
            self._words = Growing(max(self._utterance.start_ms, event.start_ms - PAST_MS))
            self._interim_ms = event.start_ms
            self._long = []
            await self.push_frame(TurnOpenedFrame(self._utterance.arrived_at(event.start_ms)))
        elif isinstance(event, Hushed):
            if not self._long_clip():
                self._cancel(self._interim)
            self._cancel(self._transcript)
            self._hushed_ms, self._settled = self._heard_ms, len(self._words.said)
            self._transcript = self._start(self._transcribe(self._heard_ms))
        elif isinstance(event, Guessed):
            assert self._transcript is not None, "a hush comes before a guess"
            said = self._words.said, self._settled
            self._guess = self._start(self._tell(event, *said, self._transcript, time.monotonic()))
            self._verdict = self._start(self._judge(event.guess))
        elif isinstance(event, Withdrawn):
            self._withdraw(event)
            await self.push_frame(WithdrawnFrame(event.guess))
        else:
            voice_end_ms = self._utterance.last_loud_ms(self._heard_ms - event.silence_ms)
            at = self._utterance.arrived_at(voice_end_ms)
            self._cancel(self._interim)
            self._transcript = None  # the turn's words may still be on their way: the next turn leaves them alone
            await self.push_frame(ConfirmedFrame(event.guess, at, time.monotonic()))

    async def _tell(
        self, guess: Guessed, said: list[str], settled: int, transcript: "asyncio.Task[str]", guessed_at: float
    ) -> None:
        """Tell what was said in the turn so far: what had settled at the hush, and its transcript of the rest."""
        if self._long:
            await asyncio.wait(self._long)  # which a withdrawal does not cancel
        last = await transcript
        text = " ".join(words for words in (*said[:settled], last) if words)
        self._turns.worded(guess.guess, unfinished(text))
        await self.push_frame(GuessFrame(guess.guess, text, guessed_at, time.monotonic()))

    def _transcribe(self, to_ms: float) -> Coroutine[Any, Any, str]:
        """Recognise what has not settled yet, up to a position. The sound is taken now: it may be forgotten at once."""
        return self._recognise(self._utterance.audio(self._words.start_ms, to_ms))

    async def _recognise(self, audio: Audio) -> str:
        try:
            return (await self._recognizer.transcribe(audio, Urgency.FINAL)).text
        except Exception as error:  # noqa: BLE001 - the turn is lost, the call goes on
            logger.error("recognition failed: {}", error)
            return ""

    def _withdraw(self, withdrawn: Withdrawn) -> None:
        """The caller went on. What is transcribed up to a real pause stands; else it is heard again with the rest."""
        self._cancel(self._verdict)
        self._cancel(self._guess)
        transcript = self._transcript
        if transcript is None:
            return
        paused = withdrawn.silence_ms >= STAND_PAUSE_MS and self._hushed_ms - self._words.start_ms >= STAND_CLIP_MS
        same_clip = self._settled == len(self._words.said)
        if paused and same_clip and transcript.done() and not transcript.cancelled() and transcript.result():
            self._words.stand(transcript.result(), self._hushed_ms)
            self._forget()
        else:
            transcript.cancel()

    def _long_clip(self) -> bool:
        """Whether recognising the words so far will shorten what is left to do, so that even a hush lets it finish."""
        return self._heard_ms - self._words.start_ms >= CUT_CLIP_MS

    def _forget(self) -> None:
        """Keep what will be transcribed, and what Smart Turn looks at."""
        self._utterance.forget_before(min(self._words.start_ms, self._heard_ms - SMART_TURN_S * 1000))

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
        """Recognise the words so far now and then; cut an utterance that outgrows Whisper's window all the same."""
        if self._heard_ms - self._words.start_ms >= self._config.turn_taking.max_segment_s * 1000:
            cut_ms = self._utterance.quietest_ms(self._heard_ms - 5000, self._heard_ms)
            transcript = self._transcribe(cut_ms)
            self._long.append(self._start(self._fill(self._words, self._words.stand("", cut_ms), transcript)))
            self._forget()
        elif self._heard_ms - self._interim_ms >= self._config.hearing.interim_every_ms and _done(self._interim):
            self._interim_ms = self._heard_ms
            audio = self._utterance.audio(self._words.start_ms)
            self._interim = self._start(self._show(self._words, audio, self._words.start_ms, self._heard_ms))

    async def _fill(self, words: Growing, index: int, transcript: Coroutine[Any, Any, str]) -> None:
        words.said[index] = await transcript

    async def _show(self, words: Growing, audio: Audio, from_ms: float, to_ms: float) -> None:
        """The words so far, to the one who shows them; and what has settled of them is cut off."""
        before, timed = words.standing, to_ms - from_ms >= CUT_CLIP_MS / 2
        urgency = Urgency.FINAL if to_ms - from_ms >= CUT_CLIP_MS else Urgency.INTERIM
        transcript = await self._recognizer.transcribe(audio, urgency, timed)
        text = f"{before} {transcript.text}".strip()
        if words is self._words and words.start_ms == from_ms and words.settle(transcript.words, to_ms):
            self._forget()
        if text and words is self._words:
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
