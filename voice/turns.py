"""Turn taking: when a caller's turn opens, is guessed to be over, goes on after all, or is over.

A pure state machine over 32 ms voice-activity frames and two witnesses' verdicts: Smart Turn, which hears the voice,
and the words. Positions are milliseconds of received audio, so a test runs it without a clock. What it does not do:
transcripts, audio, answers.

    idle --voice--> speaking --silence--> guessed --more silence--> idle (confirmed)
                       ^---------voice-------'  (withdrawn)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from configs.voice import TurnTaking

VOICE_LAG_MS = 160
"""Voice activity marks the end of a voice at most so late."""


@dataclass(frozen=True)
class Opened:
    """The caller began to speak at `start_ms`."""

    start_ms: float


@dataclass(frozen=True)
class Hushed:
    """The caller has just fallen silent: most often for a breath, so nothing is decided yet."""


@dataclass(frozen=True)
class Guessed:
    """The caller may be done: voice ended at `voice_end_ms`; `guess` numbers the guesses of a call from 1."""

    guess: int
    voice_end_ms: float


@dataclass(frozen=True)
class Withdrawn:
    """The caller went on after `silence_ms`: `guess` was wrong."""

    guess: int
    silence_ms: float


@dataclass(frozen=True)
class Confirmed:
    """The turn is over; `silence_ms` is how long that took from the last voiced frame."""

    guess: int
    silence_ms: float


TurnEvent = Opened | Hushed | Guessed | Withdrawn | Confirmed


def required_silence_ms(complete: float | None, unfinished: bool | None, turn: TurnTaking) -> float:
    """Silence after which a turn counts as over.

    `complete` is Smart Turn's probability that the utterance is complete, `unfinished` whether its words break off;
    None while they are not known: then the wait is that of doubt, so a slow witness costs time and cuts nobody off.
    """
    if unfinished:
        return turn.unfinished_silence_ms
    if unfinished is None or complete is None or complete < turn.complete_probability:
        return turn.doubt_silence_ms
    return turn.confirm_silence_ms


@dataclass
class Turns:
    """The state of one caller. Feed every frame in order; feed verdicts whenever they come."""

    turn: TurnTaking
    _speaking: bool = False
    _hushed: bool = False
    _guessed: bool = False
    _guess: int = 0
    _complete: float | None = None
    _unfinished: bool | None = None
    _voiced: bool = False
    _run_ms: float = 0.0
    _run_start_ms: float = 0.0
    _voice_end_ms: float = field(default=0.0)

    @property
    def speaking(self) -> bool:
        """Whether a turn is open, guessed or not."""
        return self._speaking

    @property
    def voiced(self) -> bool:
        """Whether the last frame held a voice in an open turn that is not guessed to be over."""
        return self._voiced and self._speaking and not self._guessed

    def frame(
        self, probability: float, start_ms: float, end_ms: float, loud_end_ms: float = float("inf")
    ) -> Sequence[TurnEvent]:
        """Take one voice-activity frame [start_ms, end_ms).

        `loud_end_ms` is where the caller's last loud sound ended: silence counts from there where that is earlier than
        the end of the last voiced frame.
        """
        # Hysteresis: a voice that has begun is lost only well below the threshold that began it.
        threshold = self.turn.voice_probability - (self.turn.voice_hysteresis if self._voiced else 0.0)
        self._voiced = probability >= threshold
        if self._voiced:
            if self._run_ms == 0.0:
                self._run_start_ms = start_ms
            self._run_ms += end_ms - start_ms
            return self._on_voice(end_ms, loud_end_ms)
        self._run_ms = 0.0
        self._voice_end_ms = self._sound_end_ms(loud_end_ms)
        return self._on_silence(end_ms)

    def judged(self, guess: int, complete: float) -> None:
        """Take Smart Turn's verdict on `guess`; a verdict on an older guess is void."""
        if self._guessed and guess == self._guess:
            self._complete = complete

    def worded(self, guess: int, unfinished: bool) -> None:
        """Take whether the words up to `guess` break off."""
        if self._guessed and guess == self._guess:
            self._unfinished = unfinished

    def _on_voice(self, end_ms: float, loud_end_ms: float) -> Sequence[TurnEvent]:
        needed_ms = self.turn.resume_voice_ms if self._guessed else self.turn.open_voice_ms
        if self._speaking and not self._guessed:
            self._voice_end_ms = end_ms
            # Voice activity marks the end two or three frames late; the words can be recognised meanwhile.
            return self._on_quiet(end_ms - self._sound_end_ms(loud_end_ms))
        if self._run_ms < needed_ms:
            return []
        silence_ms, self._voice_end_ms = self._run_start_ms - self._voice_end_ms, end_ms
        if self._guessed:
            self._guessed = self._hushed = False
            return [Withdrawn(self._guess, silence_ms)]
        self._speaking = True
        return [Opened(self._run_start_ms)]

    def _on_silence(self, end_ms: float) -> Sequence[TurnEvent]:
        if not self._speaking:
            return []
        silence_ms = end_ms - self._voice_end_ms
        if not self._guessed:
            events = self._on_quiet(silence_ms)
            if silence_ms >= self.turn.guess_silence_ms:
                self._guessed, self._complete, self._unfinished = True, None, None
                self._guess += 1
                events.append(Guessed(self._guess, self._voice_end_ms))
            return events
        if silence_ms < required_silence_ms(self._complete, self._unfinished, self.turn):
            return []
        self._speaking = self._guessed = self._hushed = False
        return [Confirmed(self._guess, silence_ms)]

    def _sound_end_ms(self, loud_end_ms: float) -> float:
        """The end of the voice, by its loudness where that ended a little earlier; later speech may just be soft."""
        return loud_end_ms if 0 <= self._voice_end_ms - loud_end_ms <= VOICE_LAG_MS else self._voice_end_ms

    def _on_quiet(self, quiet_ms: float) -> list[TurnEvent]:
        was_hushed, self._hushed = self._hushed, quiet_ms >= self.turn.hush_silence_ms
        return [Hushed()] if self._hushed and not was_hushed else []
