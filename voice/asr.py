"""Speech recognition on faster-whisper's CTranslate2 model, for utterances as they grow.

Whisper pads every clip to 30 s; here the encoder's window follows the clip with a margin, which gives the same words
in a fraction of the time. One `Recognizer` serves all calls of a replica on one thread: what a caller waits for goes
before what is only shown. What it does not do: segmenting (hearing.py) and voice activity (vad.py): a voice has to
stand before it, since Whisper invents sentences for noise.
"""

import asyncio
import heapq
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from faster_whisper import WhisperModel

from configs.voice import Hearing

SAMPLE_RATE = 16_000
FRAMES_PER_S = 100
"""Mel frames."""
WHISPER_WINDOW_S = 30
LEAST_S = 0.02

TICK_MS = 20
"""A position of the encoder."""

MARGIN_FRAMES = 200
"""Silence behind the clip in the window: without it the last words are repeated or lost."""
LEAST_FRAMES = 500
WINDOW_STEP_FRAMES = 100
LEAST_TOKENS, TOKENS_PER_S = 8, 7
"""More than the fastest talker needs. A decode that gets there repeats itself: it is done again ..."""
RETRIES_FRAMES = (0, 100, 300)
"""... with so much more silence behind the clip, which ends it nearly always."""

NO_SPEECH_PROBABILITY = 0.6
LEAST_LOGPROB = -1.0
"""Whisper's own thresholds: both are passed only by sound that is no speech."""
Audio = npt.NDArray[np.float32]


class Urgency(IntEnum):
    """Who goes first on the recognizer's thread."""

    FINAL = 0
    INTERIM = 1


@dataclass(frozen=True)
class Word:
    """A word with its punctuation; `end_ms` from the clip's first sample, to a tenth of a second or so."""

    text: str
    end_ms: float


@dataclass(frozen=True)
class Transcript:
    """The words of a clip; empty if it held none. `words` are there where their times were asked for."""

    text: str
    words: tuple[Word, ...] = ()


class Recognizer:
    """One Whisper model and the thread that runs it."""

    def __init__(self, path: Path, config: Hearing) -> None:
        self._model = WhisperModel(
            str(path), device=config.device, compute_type=config.compute_type, cpu_threads=config.threads,
            num_workers=1, local_files_only=True,
        )  # fmt: skip
        tokenizer = self._model.hf_tokenizer
        # With timestamps on: they tell the model where the clip ends in a short window. Without them it fills the
        # window, and repeats 'Yes.' seven times (word error rate on 72 short clips 31 % without, 3 % with).
        names = ("<|startoftranscript|>", "<|en|>", "<|transcribe|>")
        self._prompt = [_token_id(tokenizer, name) for name in names]
        self._end = _token_id(tokenizer, "<|endoftext|>")
        self._tokenizer = tokenizer
        self._jobs: list[tuple[int, int, Audio, bool, asyncio.Future[Transcript]]] = []
        self._order = itertools.count()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None

    async def transcribe(self, audio: Audio, urgency: Urgency, timed: bool = False) -> Transcript:
        """The words in mono float `audio` at 16 kHz, at most 30 s; `timed`: with where each one ends.

        Cancelling drops a job that has not begun, and what is left of one between its encoder and its decoder.
        """
        future: asyncio.Future[Transcript] = asyncio.get_running_loop().create_future()
        with self._wake:
            heapq.heappush(self._jobs, (urgency, next(self._order), audio, timed, future))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="asr", daemon=True)
                self._thread.start()
            self._wake.notify()
        return await future

    def transcribe_now(self, audio: Audio) -> Transcript:
        """The words alone, on the calling thread."""
        transcript = self._transcribe(audio, False, lambda: False)
        assert transcript is not None, "nobody cancels it"
        return transcript

    def _transcribe(self, audio: Audio, timed: bool, cancelled: Callable[[], bool]) -> Transcript | None:
        seconds = len(audio) / SAMPLE_RATE
        if seconds < LEAST_S:
            return Transcript("")
        most = LEAST_TOKENS + int(TOKENS_PER_S * seconds)
        for more_frames in RETRIES_FRAMES:
            encoded = self._model.encode(self._features(audio, more_frames))
            if cancelled():
                return None
            # The library takes the smaller of half of max_length and what the prompt leaves of it.
            [result] = self._model.model.generate(
                encoded, [self._prompt], beam_size=1, max_length=min(448, 2 * most),
                return_scores=True, return_no_speech_prob=True, suppress_tokens=[-1],
            )  # fmt: skip
            if len(result.sequences_ids[0]) < most:
                break
        tokens = [token for token in result.sequences_ids[0] if token < self._end]
        text = self._tokenizer.decode(tokens).strip()
        if _invented(text, result.scores[0], result.no_speech_prob):
            return Transcript("")
        return Transcript(text, self._words(encoded, tokens, seconds) if timed and tokens else ())

    def _words(self, encoded: Any, tokens: list[int], seconds: float) -> tuple[Word, ...]:
        """Words and their ends, from the decoder's attention to the sound."""
        [aligned] = self._model.model.align(encoded, self._prompt, [tokens], int(seconds * FRAMES_PER_S))
        pieces = [self._tokenizer.decode([token]) for token in tokens]
        begins = [i for i, piece in enumerate(pieces) if i == 0 or piece.startswith(" ")]
        first_tick: dict[int, int] = {}
        for token, tick in aligned.alignments:
            first_tick.setdefault(token, tick)
        words = []
        for begin, end in zip(begins, [*begins[1:], len(tokens)], strict=True):
            end_ms = first_tick.get(end, seconds * 1000 / TICK_MS) * TICK_MS
            words.append(Word(self._tokenizer.decode(tokens[begin:end]).strip(), float(end_ms)))
        return tuple(words)

    def _features(self, audio: Audio, more_frames: int = 0) -> npt.NDArray[np.float32]:
        """Log-mel features, shape (80, frames): the clip, a margin of silence, rounded up to whole seconds."""
        clip = len(audio) * FRAMES_PER_S // SAMPLE_RATE
        frames = max(LEAST_FRAMES, -(-(clip + MARGIN_FRAMES) // WINDOW_STEP_FRAMES) * WINDOW_STEP_FRAMES)
        frames = min(frames + more_frames, WHISPER_WINDOW_S * FRAMES_PER_S)
        samples = frames * SAMPLE_RATE // FRAMES_PER_S
        padded = np.zeros(samples, dtype=np.float32)
        padded[: min(len(audio), samples)] = audio[:samples]
        features: npt.NDArray[np.float32] = self._model.feature_extractor(padded, padding=0)[:, :frames]
        return features

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._jobs:
                    self._wake.wait()
                _, _, audio, timed, future = heapq.heappop(self._jobs)
            if future.cancelled():
                continue
            try:
                outcome: Transcript | BaseException | None = self._transcribe(audio, timed, future.cancelled)
            except Exception as error:  # noqa: BLE001 - handed to the one who awaits it
                outcome = error
            loop = future.get_loop()
            if outcome is not None and not loop.is_closed():
                loop.call_soon_threadsafe(_settle, future, outcome)


def _settle(future: "asyncio.Future[Transcript]", outcome: Transcript | BaseException) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _token_id(tokenizer: Any, token: str) -> int:
    number = tokenizer.token_to_id(token)
    if number is None:
        raise ValueError(f"the speech model's tokenizer has no {token}: not a multilingual Whisper model")
    return int(number)


def _invented(text: str, logprob: float, no_speech: float) -> bool:
    if no_speech > NO_SPEECH_PROBABILITY and logprob < LEAST_LOGPROB:
        return True
    if not any(character.isalnum() for character in text):
        return True
    # '[BLANK_AUDIO]', '(coughs)': a caption of a sound
    return text.startswith(("[", "(")) and text.endswith(("]", ")"))
