"""What the scripted voice application does in each turn: so that what an analyser must find is known."""

from typing import Annotated

from pydantic import Field

from configs.schema import Frozen

Every = Annotated[int, Field(ge=1)] | None


class VoiceScript(Frozen):
    """Faults hit the turns of a call whose number (from 1) `…_every` divides."""

    response_ms: tuple[float, ...] = (400,)
    """From the caller's last sound to the answer's first, turn by turn, over and over. Over `quiet_ms`."""
    quiet_ms: float = 150
    """Silence after which the caller has finished."""
    answer_ms: tuple[tuple[float, float], ...] = ((800, 0),)
    """The answer: (sound, silence after it), piece by piece."""
    silent_holes: bool = True
    """The silences are sent as samples; else nothing is sent meanwhile."""
    unanswered_every: Every = None
    double_every: Every = None
    """A second answer 400 ms after the first."""
    cut_off_every: Every = None
    """The agent talks for 300 ms, from 100 ms into the first pause of at least that inside the caller's clip."""
    hang_up_every: Every = None
    stop_ms: float = 200
    """How long the answer goes on once the caller talks over it."""
    echo_ms: float | None = None
    """Send every audio frame back after this, and do nothing else."""
    busy: bool = False
    """Take no call: 503."""

    def hits(self, fault: str, turn: int) -> bool:
        every = getattr(self, f"{fault}_every")
        return every is not None and turn % every == 0
