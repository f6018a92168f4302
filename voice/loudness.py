"""Where a caller's sound ends, to 8 ms: voice activity alone marks it two or three frames late.

A window counts as loud at -45 dBFS or more and within 30 dB of the turn's loudest. In a noise that is louder than that
the end never comes, and voice activity's mark stands.
"""

import numpy as np
import numpy.typing as npt

LEAST_DBFS = -45.0
BELOW_PEAK_DB = 30.0
WINDOWS_PER_FRAME = 4


class Loudness:
    """The loudness of one caller, frame by frame."""

    def __init__(self) -> None:
        self._peak_dbfs = LEAST_DBFS
        self.end_ms = 0.0
        """Where the last loud window ended, in ms of received audio."""

    def frame(self, samples: npt.NDArray[np.int16], start_ms: float, frame_ms: float) -> None:
        """Take a frame of mono samples, shape (n,), n a multiple of 4."""
        windows = samples.astype(np.float64).reshape(WINDOWS_PER_FRAME, -1)
        square = np.mean(windows * windows, axis=1) / 32767.0**2
        dbfs = 10 * np.log10(np.maximum(square, 1e-12))
        self._peak_dbfs = max(self._peak_dbfs, float(dbfs.max()))
        loud = np.flatnonzero(dbfs >= max(LEAST_DBFS, self._peak_dbfs - BELOW_PEAK_DB))
        if len(loud):
            self.end_ms = start_ms + float(loud[-1] + 1) * frame_ms / WINDOWS_PER_FRAME

    def new_turn(self) -> None:
        """The next caller's turn may be softer."""
        self._peak_dbfs = LEAST_DBFS
