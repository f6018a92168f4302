"""Playing an answer in real time: paced, able to pause and to say what was heard.

Sound is handed to the transport just ahead of time, so that a pause or an interruption takes effect within the lead.
What was heard is then known to the sample: what was handed on, less what still lies in the lead.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np

from telemetry.sound import Samples

CHUNK_MS = 20
LEAD_MS = 40
"""Handed on ahead of time: a client's buffer rides out a late wake-up of ours, and an interruption costs this much."""


@dataclass
class Clause:
    """A clause of an answer and its sound so far, mono int16 at the output rate. An aside is not remembered."""

    text: str
    aside: bool = False
    sound: list[Samples] = field(default_factory=list)
    complete: bool = False

    @property
    def samples(self) -> int:
        return sum(len(chunk) for chunk in self.sound)


class Script:
    """An answer's clauses, growing while it is played."""

    def __init__(self) -> None:
        self.clauses: list[Clause] = []
        self.complete = False
        self.changed = asyncio.Event()

    def begin(self, text: str, aside: bool = False) -> Clause:
        """Open the next clause."""
        clause = Clause(text, aside)
        self.clauses.append(clause)
        return clause

    def add(self, clause: Clause, sound: Samples) -> None:
        """Append sound to a clause."""
        clause.sound.append(sound)
        self.changed.set()

    def close(self, clause: Clause) -> None:
        """A clause has all its sound."""
        clause.complete = True
        self.changed.set()

    def finish(self) -> None:
        """Nothing follows."""
        self.complete = True
        self.changed.set()


def heard_text(clauses: list[tuple[Clause, int]]) -> str:
    """The words of clauses of which so many samples were heard; of a clause cut short, its words in proportion."""
    words: list[str] = []
    for clause, samples in clauses:
        if clause.aside or not samples:
            continue
        if clause.complete and samples >= clause.samples:
            words.append(clause.text)
            continue
        # A clause still in the making is as long as its text suggests: about 15 characters a second.
        total = clause.samples if clause.complete else max(clause.samples, samples + 1)
        spoken = clause.text.split()
        words.extend(spoken[: int(len(spoken) * samples / total)])
    return " ".join(words)


class Playout:
    """Plays one script at a time. `send` takes int16 chunks; `on_clause` is told when a clause begins to sound."""

    def __init__(
        self, rate: int, send: Callable[[Samples], Awaitable[None]], on_clause: Callable[[Clause], Awaitable[None]]
    ) -> None:
        self._rate, self._send, self._on_clause = rate, send, on_clause
        self._chunk = rate * CHUNK_MS // 1000
        self._playing = asyncio.Event()
        self._playing.set()
        self._sent: list[tuple[Clause, int]] = []

    @property
    def heard_ms(self) -> float:
        """How much of the script was handed on."""
        return sum(samples for _, samples in self._sent) * 1000 / self._rate

    @property
    def paused(self) -> bool:
        return not self._playing.is_set()

    def pause(self) -> None:
        """Stop handing sound on; `resume` goes on where it stopped."""
        self._playing.clear()

    def resume(self) -> None:
        self._playing.set()

    def heard(self) -> str:
        """What the listener has heard of the script: what was handed on, less the lead if it was cut off now."""
        unheard = 0 if self.paused else self._rate * LEAD_MS // 1000
        counted = list(self._sent)
        while counted and unheard:
            clause, samples = counted.pop()
            if samples > unheard:
                counted.append((clause, samples - unheard))
                break
            unheard -= samples
        return heard_text(counted)

    def all_text(self) -> str:
        """The whole of what was played to its end."""
        return " ".join(clause.text for clause, _ in self._sent if not clause.aside)

    async def play(self, script: Script) -> None:
        """Play to the end. Cancel to stop; `heard` stays readable until the next `play`."""
        self._sent = []
        due = time.monotonic()
        index = 0
        while True:
            if index == len(script.clauses):
                if script.complete:
                    break
                script.changed.clear()
                await script.changed.wait()
                continue
            clause = script.clauses[index]
            due = await self._play_clause(script, clause, due)
            index += 1
        await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _play_clause(self, script: Script, clause: Clause, due: float) -> float:
        begun, sent, pending, taken = False, 0, np.zeros(0, dtype=np.int16), 0
        while True:
            if self.paused:
                await self._playing.wait()
                due = time.monotonic()
            while len(pending) < self._chunk and taken < len(clause.sound):
                pending = np.concatenate([pending, clause.sound[taken]])
                taken += 1
            if len(pending) < self._chunk and not (clause.complete and taken == len(clause.sound)):
                script.changed.clear()
                await script.changed.wait()
                continue
            if not len(pending):
                return due
            chunk, pending = pending[: self._chunk], pending[self._chunk :]
            if not begun:
                begun = True
                await self._on_clause(clause)
                self._sent.append((clause, 0))
            now = time.monotonic()
            due = max(due, now - CHUNK_MS / 1000)
            if due - now > LEAD_MS / 1000:
                await asyncio.sleep(due - now - LEAD_MS / 1000)
                if self.paused:
                    pending = np.concatenate([chunk, pending])
                    continue
            await self._send(chunk)
            sent += len(chunk)
            self._sent[-1] = (clause, sent)
            due += len(chunk) / self._rate
