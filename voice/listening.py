"""A caller's sound, frame by frame, into turn events: voice activity, loudness and the turn machine together.

Synchronous, and its only clock is the position in the received audio.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from configs.voice import TurnTaking
from voice.loudness import Loudness
from voice.nearness import Nearness
from voice.turns import Confirmed, TurnEvent, Turns
from voice.vad import FRAME_MS, VoiceActivity


class Listening:
    """One caller's. `turns` may be told Smart Turn's verdicts at any time."""

    def __init__(self, turn_taking: TurnTaking) -> None:
        self.turns = Turns(turn_taking)
        self._voice = VoiceActivity()
        self._loudness = Loudness()
        self._nearness = Nearness()

    def own_sound(self, samples: npt.NDArray[np.int16]) -> None:
        """Take what is sent to the caller, at any rate: it may come back."""
        self._nearness.sent(samples)

    def frame(self, samples: npt.NDArray[np.int16], start_ms: float) -> Sequence[TurnEvent]:
        """Take 512 samples at 16 kHz that begin at a position."""
        self._loudness.frame(samples, start_ms, FRAME_MS)
        probability = self._voice.probability(samples)
        if not self._nearness.near(samples, probability):
            probability = 0.0
        events = self.turns.frame(probability, start_ms, start_ms + FRAME_MS, self._loudness.end_ms)
        if any(isinstance(event, Confirmed) for event in events):
            self._loudness.new_turn()
        return events
