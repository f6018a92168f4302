"""The received audio of one caller: what is kept, where in it things are, and when they arrived.

Positions are milliseconds of received audio at 16 kHz. Between turns only a short past is kept.
"""

from collections import deque

import numpy as np
import numpy.typing as npt

from telemetry.sound import WINDOW_MS, loud_windows

SAMPLE_RATE = 16_000
SAMPLES_PER_MS = SAMPLE_RATE // 1000
PAST_MS = 500
"""Kept before a turn opens: the onset that voice activity noticed late."""
ARRIVALS = 1024


class Utterance:
    """A growing buffer of int16 samples with a movable start."""

    def __init__(self) -> None:
        self._samples = np.zeros(SAMPLE_RATE * 8, dtype=np.int16)
        self._count = 0
        self._start_ms = 0.0
        self._arrivals: deque[tuple[float, float]] = deque(maxlen=ARRIVALS)

    @property
    def end_ms(self) -> float:
        return self._start_ms + self._count / SAMPLES_PER_MS

    @property
    def start_ms(self) -> float:
        return self._start_ms

    def append(self, samples: npt.NDArray[np.int16], arrived_at: float) -> None:
        """Take samples that arrived at a moment (monotonic seconds)."""
        needed = self._count + len(samples)
        if needed > len(self._samples):
            grown = np.zeros(2 * needed, dtype=np.int16)
            grown[: self._count] = self._samples[: self._count]
            self._samples = grown
        self._samples[self._count : needed] = samples
        self._count = needed
        self._arrivals.append((self.end_ms, arrived_at))

    def forget_before(self, position_ms: float) -> None:
        """Drop what lies before a position."""
        drop = min(self._count, max(0, int((position_ms - self._start_ms) * SAMPLES_PER_MS)))
        if drop:
            self._samples[: self._count - drop] = self._samples[drop : self._count].copy()
            self._count -= drop
            self._start_ms += drop / SAMPLES_PER_MS

    def audio(self, from_ms: float = 0.0, to_ms: float = float("inf")) -> npt.NDArray[np.float32]:
        """A copy of what is kept between two positions, as float in [-1, 1]."""
        return self._slice(from_ms, to_ms).astype(np.float32) / 32768.0

    def window(self, from_ms: float, count: int) -> npt.NDArray[np.int16]:
        """`count` samples from a position on, as received."""
        first = round((from_ms - self._start_ms) * SAMPLES_PER_MS)
        return self._samples[first : first + count]

    def arrived_at(self, position_ms: float) -> float:
        """When the sample at a position had arrived: the arrival of the first message that reaches it."""
        for end_ms, at in self._arrivals:
            if end_ms >= position_ms:
                return at
        return self._arrivals[-1][1] if self._arrivals else 0.0

    def last_loud_ms(self, voice_end_ms: float, hangover_ms: float = 160) -> float:
        """Where the caller's last loud 10 ms window ends.

        Voice activity marks a turn's end to within a few frames; loudness marks it to 10 ms. Sound that stays loud
        beyond the hangover is not the caller's voice, and then voice activity's mark stands.
        """
        from_ms = max(self._start_ms, voice_end_ms - 2000)
        from_ms -= from_ms % WINDOW_MS
        loud = np.flatnonzero(loud_windows(self._slice(from_ms, float("inf")), SAMPLE_RATE))
        if not len(loud):
            return voice_end_ms
        end_ms = from_ms + (loud[-1] + 1) * WINDOW_MS
        return float(end_ms) if end_ms <= voice_end_ms + hangover_ms else voice_end_ms

    def quietest_ms(self, from_ms: float, to_ms: float) -> float:
        """The middle of the quietest 100 ms between two positions: where a long utterance is best cut."""
        window = 100 * SAMPLES_PER_MS
        samples = self._slice(from_ms, to_ms).astype(np.float64)
        count = len(samples) // window
        if not count:
            return to_ms
        power = np.mean(samples[: count * window].reshape(count, window) ** 2, axis=1)
        return max(from_ms, self._start_ms) + (int(np.argmin(power)) + 0.5) * 100

    def _slice(self, from_ms: float, to_ms: float) -> npt.NDArray[np.int16]:
        first = max(0, int((from_ms - self._start_ms) * SAMPLES_PER_MS))
        last = self._count if to_ms == float("inf") else int((to_ms - self._start_ms) * SAMPLES_PER_MS)
        return self._samples[first : min(self._count, max(first, last))]
