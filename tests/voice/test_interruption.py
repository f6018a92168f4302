import pytest

from configs.voice import TurnTaking
from voice.interruption import goes_on, interrupts


@pytest.mark.parametrize("text", ["", "Mhmm.", "Mm-hmm", "Uh huh.", "Yeah, yeah.", "I see.", "Okay, mhm", "..."])
def test_listening_does_not_interrupt(text: str) -> None:
    assert not interrupts(text, TurnTaking())


@pytest.mark.parametrize("text", ["Stop.", "Yes.", "Yeah, but why?", "Okay, stop", "I see a problem", "No"])
def test_words_do(text: str) -> None:
    assert interrupts(text, TurnTaking())


@pytest.mark.parametrize(
    ("pause_ms", "heard_ms", "continues"),
    [(1300, 1250, True), (1499, 1400, True), (1500, 1000, False), (4000, 999, True), (4000, 1000, False)],
)
def test_who_goes_on_soon_or_before_the_answer_was_heard_continues(
    pause_ms: float, heard_ms: float, continues: bool
) -> None:
    assert goes_on(pause_ms, heard_ms, TurnTaking()) == continues
