"""What the hearing processor tells the agent, as pipecat frames: system frames, so that none waits behind audio."""

from dataclasses import dataclass

from pipecat.frames.frames import SystemFrame


@dataclass
class TurnOpenedFrame(SystemFrame):
    """The caller began to speak; `voice_start_at` is when the first of it had arrived, in monotonic seconds."""

    voice_start_at: float


@dataclass
class WordsFrame(SystemFrame):
    """The caller's words so far, while the caller speaks: to be shown, and to tell an interruption from a cough."""

    text: str


@dataclass
class GuessFrame(SystemFrame):
    """The caller may be done, and said `text` (empty: no words). Times are monotonic seconds."""

    guess: int
    text: str
    guessed_at: float
    transcribed_at: float


@dataclass
class WithdrawnFrame(SystemFrame):
    """The caller went on after `guess`."""

    guess: int


@dataclass
class ConfirmedFrame(SystemFrame):
    """The turn of `guess` is over. `voice_end_at` is when its last loud window had arrived."""

    guess: int
    voice_end_at: float
    confirmed_at: float
