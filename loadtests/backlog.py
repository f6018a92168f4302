"""Does the queue only grow? Above capacity an open loop has no end: the run can stop as soon as that is plain."""

from collections.abc import Sequence

import numpy as np

WINDOW_S = 20
MIN_BACKLOG = 12
GROWTH = 1.5


def only_grows(in_flight: Sequence[int], window: int = WINDOW_S) -> bool:
    """Whether what is in flight, looked at once a second, rose through each quarter of the last `window` looks, by half
    and to at least MIN_BACKLOG in all."""
    if len(in_flight) < window:
        return False
    quarters = np.array(in_flight[-window:], dtype=float)[: window // 4 * 4].reshape(4, -1).mean(axis=1)
    rising = bool(np.all(np.diff(quarters) > 0))
    return rising and quarters[-1] >= MIN_BACKLOG and quarters[-1] >= GROWTH * max(quarters[0], 1.0)
