"""Where sound begins and ends, by the one rule that both ends of a call use.

10 ms windows, a window is loud at -45 dBFS or more (root mean square, full scale = a square wave of 32,767).
Pure functions of int16 samples; nothing here knows a clock.
"""

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.int16]

WINDOW_MS = 10
LOUD_DBFS = -45.0
_LOUD_SQUARE = (32767.0 * 10 ** (LOUD_DBFS / 20)) ** 2


def loud_windows(samples: Samples, sample_rate: int) -> npt.NDArray[np.bool_]:
    """One flag per whole 10 ms window of mono `samples`, shape (n,) -> (n // window,)."""
    window = sample_rate * WINDOW_MS // 1000
    count = len(samples) // window
    frames = samples[: count * window].astype(np.float64).reshape(count, window)
    flags: npt.NDArray[np.bool_] = np.mean(frames * frames, axis=1) >= _LOUD_SQUARE
    return flags


def last_loud_end_ms(samples: Samples, sample_rate: int) -> float | None:
    """End of the last loud window, in ms from the first sample: `turn_end` of a caller's clean source."""
    loud = np.flatnonzero(loud_windows(samples, sample_rate))
    return float((loud[-1] + 1) * WINDOW_MS) if len(loud) else None


def first_loud_start_ms(samples: Samples, sample_rate: int, from_ms: float = 0.0) -> float | None:
    """Start of the first loud window that begins at `from_ms` or later: `first_audible` of a reply."""
    loud = np.flatnonzero(loud_windows(samples, sample_rate))
    late = loud[loud * WINDOW_MS >= from_ms]
    return float(late[0] * WINDOW_MS) if len(late) else None


def holes_ms(samples: Samples, sample_rate: int, at_least_ms: float, from_ms: float = 0.0) -> list[tuple[float, float]]:
    """Silences of `at_least_ms` or more between loud windows from `from_ms` on, as (start, length) in ms.

    A window with a little sound in it is loud as a whole: a hole's edge is looked for inside it, to a millisecond.
    """
    loud = np.flatnonzero(loud_windows(samples, sample_rate))
    loud = loud[loud * WINDOW_MS >= from_ms]
    found = []
    for before, after in zip(loud[:-1].tolist(), loud[1:].tolist(), strict=True):
        if (after - before + 1) * WINDOW_MS >= at_least_ms:
            start = before * WINDOW_MS + _sound_ms(samples, sample_rate, before)[1]
            length = after * WINDOW_MS + _sound_ms(samples, sample_rate, after)[0] - start
            if length >= at_least_ms:
                found.append((float(start), float(length)))
    return found


def _sound_ms(samples: Samples, sample_rate: int, window: int) -> tuple[int, int]:
    """Where a loud window's sound begins and ends, in whole ms from the window's start."""
    size, part = sample_rate * WINDOW_MS // 1000, sample_rate // 1000
    parts = samples[window * size :][: WINDOW_MS * part].astype(np.float64).reshape(WINDOW_MS, part)
    loud = np.flatnonzero(np.mean(parts * parts, axis=1) >= _LOUD_SQUARE)
    return (int(loud[0]), int(loud[-1]) + 1) if len(loud) else (0, WINDOW_MS)
