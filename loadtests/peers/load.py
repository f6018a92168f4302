"""What the pipelines of a comparison are asked, and in which order: the same questions to each, in blocks by turns."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from configs.errors import InputError
from configs.schema import Frozen, load
from loadtests.draws import Distribution
from loadtests.load import LOADS, VoiceSlo
from loadtests.wav import Clip

LEAST_S, MOST_S = 1.0, 8.0


class Question(Frozen):
    """Something to ask; with a `rest`, the caller pauses for `pause_s` before it."""

    text: Annotated[str, Field(min_length=1)]
    rest: str | None = None
    pause_s: Annotated[float, Field(gt=0, le=5)] | None = None

    @model_validator(mode="after")
    def _whole(self) -> "Question":
        if (self.rest is None) != (self.pause_s is None):
            raise ValueError("rest and pause_s go together")
        return self

    @property
    def parts(self) -> tuple[str, ...]:
        """What is spoken, either side of the pause."""
        return (self.text,) if self.rest is None else (self.text, self.rest)

    def clip(self, spoken: list[Clip]) -> Clip:
        """The question as one clip, from its parts as spoken. Raises InputError unless it lasts 1 to 8 s."""
        rate = spoken[0].rate
        silence = np.zeros((round((self.pause_s or 0) * rate), 1), dtype=np.int16)
        pieces = [piece for part in spoken for piece in (silence, part.samples)][1:]
        clip = Clip(np.concatenate(pieces), rate)
        if not LEAST_S <= clip.duration_s <= MOST_S:
            raise InputError("questions", self.text, f"{clip.duration_s:.1f} s", "a question lasts 1 to 8 s")
        return clip


class PeerLoad(Frozen):
    """The file configs/loads/peers.yaml."""

    questions: Annotated[tuple[Question, ...], Field(min_length=1)]
    turns_a_call: Annotated[int, Field(ge=1, le=100)] = 5
    think_s: Distribution = Distribution(kind="uniform", low=0.4, high=1.2)
    """From an answer's last sound to the caller's next question."""
    reply_timeout_s: Annotated[float, Field(gt=0, le=600)] = 15
    """A turn that is not answered by then is unanswered, and counts as this long."""
    seed: int = 1
    slo: VoiceSlo = VoiceSlo()


def read_peer_load(path: Path | None = None) -> PeerLoad:
    """The load in a file (default: configs/loads/peers.yaml). Raises InputError."""
    return load(PeerLoad, path or LOADS / "peers.yaml")


@dataclass(frozen=True)
class PlannedCall:
    """One call of a block: dialled `after_s` behind the block's begin; a question's number and the caller's thought
    before it for each turn."""

    after_s: float
    turns: tuple[tuple[int, float], ...]

    def document(self, index: int, clips: list[Path], begun: float) -> dict[str, Any]:
        """As the callers' process takes it."""
        turns = [{"clip": str(clips[n]), "think_s": think_s, "barge_in_after_s": None} for n, think_s in self.turns]
        return {"index": index, "due_s": self.after_s, "begun": begun, "turns": turns}


def blocks(load: PeerLoad, turns: int, callers: int) -> list[list[PlannedCall]]:
    """`turns` turns as blocks of `callers` calls at a time, which begin within a second of one another.

    The questions go round, so that every block has other ones and every pipeline is asked the same.
    """
    rng = np.random.default_rng([load.seed, callers])
    made: list[list[PlannedCall]] = []
    first = 0
    while first < turns:
        count = min(turns - first, callers * load.turns_a_call)
        shares = [len(share) for share in np.array_split(np.arange(count), callers) if len(share)]
        block: list[PlannedCall] = []
        for share in shares:
            numbers = range(first, first + share)
            asked = tuple((number % len(load.questions), load.think_s.draw(rng)) for number in numbers)
            block.append(PlannedCall(float(rng.uniform(0, 1)) if block else 0.0, asked))
            first += share
        made.append(block)
    return made
