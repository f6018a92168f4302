import pytest

from voice.unfinished import unfinished


@pytest.mark.parametrize(
    "text",
    [
        "Please tell me about the", "Please tell me about the.", "I come from", "I come from.", "I would like to",
        "The meeting was moved to", "I need to change my flight because", "Well,", "I was thinking...", "and",
        "What about", "I'd like a table for", "Um", "Do you know which",
    ],
)  # fmt: skip
def test_what_breaks_off(text: str) -> None:
    assert unfinished(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "Yes.", "Yes", "Where are you from?", "What is it about?", "Who is that?", "I would like to move it.",
        "What is the capital of France?", "Tell me a story", "Call me", "No.", "3.14", "What are you looking at?",
        "Yes, I do.", "Yes it is.", "I think so.", "Turn it on.", "I like that.",
    ],
)  # fmt: skip
def test_what_may_be_whole(text: str) -> None:
    assert not unfinished(text)
