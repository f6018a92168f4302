"""The highest load that holds: doubled until it fails, then bisected. The search is pure; a trial is a run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Trial:
    """A run at one rate, and whether it held. None: inconclusive."""

    rate_per_s: float
    holds: bool | None
    document: dict[str, Any]


@dataclass(frozen=True)
class Knee:
    """Between the highest rate that held and the lowest that did not; None where there was none."""

    holds_per_s: float | None
    fails_per_s: float | None
    trials: tuple[Trial, ...]
    stopped: str = ""
    """Why the search ended before its tolerance, or ''."""


def find_knee(
    trial: Callable[[float], Trial], start_per_s: float, highest_per_s: float, tolerance: float = 0.1, most: int = 14
) -> Knee:
    """Bisect, on a ratio scale, until the two ends are within `tolerance` of each other.

    From `start_per_s` the rate doubles while it holds and halves while it fails, up to `highest_per_s` and down to a
    64th of the start. An inconclusive trial ends the search: nothing can be built on it.
    """
    trials: list[Trial] = []
    low: float | None = None
    high: float | None = None
    rate = min(start_per_s, highest_per_s)
    while len(trials) < most:
        trials.append(trial(rate))
        if trials[-1].holds is None:
            return Knee(low, high, tuple(trials), "a trial was inconclusive")
        if trials[-1].holds:
            low = rate
        else:
            high = rate
        if low is not None and high is not None:
            if high / low <= 1 + tolerance:
                return Knee(low, high, tuple(trials))
            rate = (low * high) ** 0.5
        elif low is not None:
            if low >= highest_per_s:
                return Knee(low, None, tuple(trials), f"it still holds at the highest rate, {highest_per_s:g} a second")
            rate = min(low * 2, highest_per_s)
        else:
            assert high is not None
            if high <= start_per_s / 64:
                return Knee(None, high, tuple(trials), "not even the lowest rate holds")
            rate = high / 2
    return Knee(low, high, tuple(trials), f"{most} trials were not enough")
