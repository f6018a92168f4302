"""The words of a turn while they grow: what stands, and what is still heard again with each new second.

Only the end of a turn is open to change. Two transcripts of the same beginning that agree on its words settle them
(LocalAgreement-2, Macháček et al. 2023), and once the clip is long enough the settled part is cut off: its words stand,
and the next clip begins behind them. So the last transcript, which the caller waits for, has a short clip to do.

Pure: positions are milliseconds of received audio.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from voice.asr import Word

CUT_CLIP_MS = 4_500
"""A shorter clip is not cut: every joint is a chance to mishear."""
KEEP_MS = 1_500
"""Kept in front of the newest sound: words so near the end may still change."""


@dataclass
class Growing:
    """The words before `start_ms` stand as `said`; those behind it are in the clip that is transcribed next."""

    start_ms: float
    said: list[str] = field(default_factory=list)
    _before: tuple[str, ...] = ()

    @property
    def standing(self) -> str:
        """The words that stand."""
        return " ".join(text for text in self.said if text)

    def stand(self, text: str, until_ms: float) -> int:
        """The clip up to a position is transcribed for good; where `text` will be known later, by the index given."""
        self.said.append(text)
        self.start_ms, self._before = until_ms, ()
        return len(self.said) - 1

    def settle(self, words: Sequence[Word], heard_ms: float) -> bool:
        """Take a transcript of the clip up to `heard_ms`. True where its beginning was cut off."""
        plain = tuple(_plain(word.text) for word in words)
        agreed = _agreed(self._before, plain)
        self._before = plain
        if heard_ms - self.start_ms < CUT_CLIP_MS:
            return False
        ends = [self.start_ms + word.end_ms for word in words[:agreed]]
        count = sum(end_ms <= heard_ms - KEEP_MS for end_ms in ends)
        if not count:
            return False
        self.stand(" ".join(word.text for word in words[:count]), ends[count - 1])
        self._before = plain[count:]
        return True


def _agreed(before: Sequence[str], now: Sequence[str]) -> int:
    for count, (one, other) in enumerate(zip(before, now, strict=False)):
        if one != other:
            return count
    return min(len(before), len(now))


def _plain(word: str) -> str:
    return "".join(character for character in word.lower() if character.isalnum())
