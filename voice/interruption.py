"""What a caller who speaks over the agent means: to stop it, to go on with the turn it answers, or neither."""

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


def goes_on(pause_ms: float, heard_ms: float, turn: TurnTaking) -> bool:
    """Whether a caller who interrupts continues the turn that was being answered, and not reacts to the answer.

    `pause_ms` is from their last sound to their next one, `heard_ms` how much of the answer they had heard.
    """
    return pause_ms < turn.reopen_pause_ms or heard_ms < turn.reopen_heard_ms
