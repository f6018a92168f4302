"""The gate: which speculated answer may be heard, and when. Exactly one answer to a turn is ever spoken.

A pure state machine with no await in it: whoever runs answers feeds events in and carries the orders out.

    nothing --guess--> held --confirm--> spoken --end / interrupt--> nothing
                        |  ^
               withdraw |  | guess (a newer one supersedes: the held one is stopped)
                        v  |
                      nothing
"""

from dataclasses import dataclass
from enum import StrEnum


class Order(StrEnum):
    """What the driver does with the answer of that number."""

    MAKE = "make"
    SPEAK = "speak"
    DROP = "drop"
    """A held answer: it was never heard."""
    HUSH = "hush"
    """The spoken answer: it was heard in part."""


Orders = list[tuple[Order, int]]


@dataclass
class Gate:
    """At most one answer is held and at most one is spoken; numbers only grow."""

    held: int | None = None
    spoken: int | None = None
    newest: int = 0

    def guess(self, number: int) -> Orders:
        """A turn may be over: make an answer and hold it. A number seen before is void."""
        if number <= self.newest:
            return []
        self.newest = number
        orders = self._stop_held()
        self.held = number
        return [*orders, (Order.MAKE, number)]

    def withdraw(self, number: int) -> Orders:
        """The caller went on: what was held for that guess is never heard."""
        return self._stop_held() if number == self.held else []

    def confirm(self, number: int) -> Orders:
        """The turn is over: what was held for that guess is heard from now on; an older answer ends."""
        if number != self.held:
            return []
        orders = self.interrupt()
        self.held, self.spoken = None, number
        return [*orders, (Order.SPEAK, number)]

    def interrupt(self) -> Orders:
        """The caller interrupts: the spoken answer stops; what is held stays held."""
        spoken, self.spoken = self.spoken, None
        return [] if spoken is None else [(Order.HUSH, spoken)]

    def ended(self, number: int) -> None:
        """An answer was heard to its end."""
        if number == self.spoken:
            self.spoken = None

    def close(self) -> Orders:
        """The call is over."""
        return [*self._stop_held(), *self.interrupt()]

    def _stop_held(self) -> Orders:
        held, self.held = self.held, None
        return [] if held is None else [(Order.DROP, held)]
