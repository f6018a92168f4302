"""How many rows may be in flight, and whether to go on: between a job's driver and its inference actors.

The driver sets it; each actor asks several times a second and says how it fares. An actor's part is an equal one.
"""

import time
from dataclasses import dataclass, field

FORGET_AFTER_S = 5.0
"""An actor that has not asked for so long is gone."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What an actor is to do. `concurrency` 0: let go at once, rows in flight included."""

    concurrency: int
    stop: bool


@dataclass(frozen=True, slots=True)
class Fares:
    """What an actor says: rows in flight now, refusals and failures since it last asked, and the last one's words."""

    in_flight: int
    refusals: int = 0
    failures: int = 0
    trouble: str = ""


@dataclass
class Gate:
    """The state; one actor of Ray's holds it (batch.pipeline)."""

    concurrency: int = 0
    stop: bool = False
    refusals: int = 0
    failures: int = 0
    trouble: str = ""
    _seen: dict[str, tuple[float, Fares]] = field(default_factory=dict)

    def set(self, concurrency: int, stop: bool) -> Fares:
        """The driver's word; answers with all actors' state, and counts from nothing again."""
        self.concurrency, self.stop = concurrency, stop
        self._forget()
        total = Fares(
            sum(fares.in_flight for _, fares in self._seen.values()), self.refusals, self.failures, self.trouble
        )
        self.refusals = self.failures = 0
        self.trouble = ""
        return total

    def ask(self, actor: str, fares: Fares) -> Orders:
        """An actor's question."""
        self._seen[actor] = (time.monotonic(), fares)
        self._forget()
        self.refusals += fares.refusals
        self.failures += fares.failures
        self.trouble = fares.trouble or self.trouble
        actors = sorted(self._seen)
        share, rest = divmod(self.concurrency, len(actors))
        return Orders(share + (actors.index(actor) < rest), self.stop)

    def _forget(self) -> None:
        now_s = time.monotonic()
        for actor, (at_s, _) in list(self._seen.items()):
            if now_s - at_s > FORGET_AFTER_S:
                del self._seen[actor]
