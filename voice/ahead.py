"""How much of a caller's turn the engine is given ahead, while the caller still speaks.

The engine keeps what it has taken in by blocks of tokens, so that at the guess only the turn's end is left. Each
request ahead computes its last, broken block and the template's end again: for every `STEP_TOKENS` of growth, with
blocks of 32, all of them compute at most twice the turn's tokens. A short question is never worth one.
"""

from dataclasses import dataclass

STEP_TOKENS = 64


@dataclass
class Ahead:
    """One turn's."""

    given_tokens: int = 0

    def grown(self, tokens: int) -> int:
        """The turn has so many tokens now: how many of them are worth giving, 0 for none yet. They count as given."""
        new = tokens - self.given_tokens
        if new < STEP_TOKENS:
            return 0
        self.given_tokens = tokens
        return new
