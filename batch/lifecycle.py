"""A batch's life: which status may follow which. Pure.

validating ── in_progress ── finalizing ── completed
    │              │  └────────────┴──── expired
    ├── failed ────┘(its input is gone, or no worker survives it)
    └── cancelling (from validating, in_progress) ── cancelled
"""

from typing import Literal

Status = Literal[
    "validating", "in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled"
]  # fmt: skip

NEXT: dict[Status, frozenset[Status]] = {
    "validating": frozenset({"in_progress", "failed", "expired", "cancelling"}),
    "in_progress": frozenset({"finalizing", "failed", "expired", "cancelling"}),
    "finalizing": frozenset({"completed", "failed", "expired"}),
    "cancelling": frozenset({"cancelled", "failed"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "expired": frozenset(),
    "cancelled": frozenset(),
}
LIVE: tuple[Status, ...] = tuple(status for status, following in NEXT.items() if following)
"""In these a batch has work to be done."""


class WrongStatus(Exception):
    """No such step."""


def check(before: Status, after: Status) -> None:
    """Raises WrongStatus where `after` may not follow `before`."""
    if after not in NEXT[before]:
        raise WrongStatus(f"a batch that is {before} cannot become {after}")


def cancelled(before: Status) -> Status:
    """The status after a cancel request: too late once all rows are done. Raises WrongStatus after another end."""
    if before in ("cancelling", "cancelled", "finalizing"):
        return before
    check(before, "cancelling")
    return "cancelling"


_UNITS_S = {"m": 60, "h": 3600, "d": 86_400}
MAX_WINDOW_S = 14 * 86_400


def window_s(text: str) -> int:
    """Seconds of a completion window: '24h', and also minutes and days ('90m', '2d'). Raises ValueError."""
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit() and unit in _UNITS_S and len(number) <= 6):
        raise ValueError("completion_window is a whole number and a unit: 24h, 90m, 2d")
    seconds = int(number) * _UNITS_S[unit]
    if not 0 < seconds <= MAX_WINDOW_S:
        raise ValueError("completion_window is at least 1m and at most 14d")
    return seconds
