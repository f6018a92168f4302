"""Whose voice it is, by level alone: the caller's, or one that is heard far below it.

A second talker in the room and the agent's own sound that comes back from a loudspeaker are voices too. They are told
by their loudness: the caller's level is the median of the loudest frame around each voiced one of the last seconds, and
a stretch of sound that stays well below it is not the caller's. Before the caller has spoken, what is well below the
agent's own sound of the last second is an echo of it. A caller who suddenly speaks much more softly is heard again
after a few seconds.
"""

from collections import deque

import numpy as np
import numpy.typing as npt

STRETCH_FRAMES = 13
"""About 0.4 s: every syllable of a speaker's own has a vowel as loud as the others within it."""
MEMORY_FRAMES = 64
"""Voiced frames that the caller's level is taken from: about two seconds of speech."""
FORGET_FRAMES = 250
"""Eight seconds without the caller's voice, and any voice may be the caller's."""
OWN_FRAMES = 31
"""A second: as long as a sound of ours may take to come back."""
BELOW_CALLER_DB, BELOW_OWN_DB = 12.0, 14.0
VOICED = 0.5
SILENCE_DBFS = -90.0


class Nearness:
    """One call's. Feed every 32 ms frame in order, and what is sent to the caller as it is sent."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=STRETCH_FRAMES)
        self._caller: deque[float] = deque(maxlen=MEMORY_FRAMES)
        self._unheard = 0
        self._own: deque[float] = deque([SILENCE_DBFS], maxlen=OWN_FRAMES)

    def near(self, samples: npt.NDArray[np.int16], voice: float) -> bool:
        """Whether a frame of mono samples, shape (n,), may be the caller's; `voice` is its probability of a voice."""
        self._recent.append(_dbfs(samples))
        self._own.append(SILENCE_DBFS)
        near = max(self._recent) >= self._least_dbfs()
        if near and voice >= VOICED:
            self._caller.append(max(self._recent))
            self._unheard = 0
        elif max(self._own) == SILENCE_DBFS:
            # While the agent speaks, a caller who listens is not forgotten.
            self._unheard += 1
            if self._unheard == FORGET_FRAMES:
                self._caller.clear()
        return near

    def sent(self, samples: npt.NDArray[np.int16]) -> None:
        """Take a chunk of the agent's own sound."""
        self._own[-1] = max(self._own[-1], _dbfs(samples))

    def _least_dbfs(self) -> float:
        if len(self._caller) >= STRETCH_FRAMES:
            return float(np.median(self._caller)) - BELOW_CALLER_DB
        return max(self._own) - BELOW_OWN_DB


def _dbfs(samples: npt.NDArray[np.int16]) -> float:
    """RMS level; SILENCE_DBFS at the least."""
    scaled = samples.astype(np.float64) / 32767
    return max(SILENCE_DBFS, float(10 * np.log10(np.mean(scaled * scaled) + 1e-12)))
