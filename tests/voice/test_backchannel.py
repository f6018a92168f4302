import pytest

from configs.voice import TurnTaking
from voice.backchannel import interrupts


@pytest.mark.parametrize("text", ["", "Mhmm.", "Mm-hmm", "Uh huh.", "Yeah, yeah.", "I see.", "Okay, mhm", "..."])
def test_listening_does_not_interrupt(text: str) -> None:
    assert not interrupts(text, TurnTaking())


@pytest.mark.parametrize("text", ["Stop.", "Yes.", "Yeah, but why?", "Okay, stop", "I see a problem", "No"])
def test_words_do(text: str) -> None:
    assert interrupts(text, TurnTaking())
