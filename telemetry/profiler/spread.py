"""A median and how far repeats lie apart."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    """The median of repeats and their quartiles, all in one unit."""

    median: float
    low: float
    high: float
    repeats: int

    @property
    def relative(self) -> float:
        """The interquartile range over the median."""
        return (self.high - self.low) / self.median if self.median else 0.0

    def scaled(self, factor: float) -> "Spread":
        """The same in another unit."""
        return Spread(self.median * factor, self.low * factor, self.high * factor, self.repeats)


def spread(values: Sequence[float]) -> Spread:
    """The spread of at least one value, by linear interpolation between order statistics. Raises ValueError."""
    if not values:
        raise ValueError("there is nothing to take a median of")
    low, median, high = np.quantile(np.asarray(values, dtype=np.float64), [0.25, 0.5, 0.75])
    return Spread(float(median), float(low), float(high), len(values))
