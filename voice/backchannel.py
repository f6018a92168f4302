"""Whether words said over the agent are meant to stop it."""

import re

from configs.voice import TurnTaking


def interrupts(text: str, turn: TurnTaking) -> bool:
    """False for no words and for words that only say 'I am listening' ('mhmm', 'yeah', repeated or not)."""
    words = re.sub(r"[^\w\s'-]", " ", text.lower()).split()
    if not words:
        return False
    known = [phrase.split() for phrase in turn.backchannels]
    while words:
        match = next((phrase for phrase in known if words[: len(phrase)] == phrase), None)
        if match is None:
            return True
        words = words[len(match) :]
    return False
