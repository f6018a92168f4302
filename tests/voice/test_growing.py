"""What stands of a growing turn, on scripted transcripts."""

from voice.asr import Word
from voice.growing import CUT_CLIP_MS, KEEP_MS, Growing

SENTENCE = ["Please", "tell", "me", "about", "the", "long", "and", "very", "old", "history", "of", "this", "town"]


def heard(until_ms: float, text: list[str] = SENTENCE) -> list[Word]:
    """A word each 500 ms, as far as it was heard."""
    return [Word(word, (i + 1) * 500.0) for i, word in enumerate(text) if (i + 1) * 500 <= until_ms]


def test_a_short_clip_is_heard_whole_each_time() -> None:
    growing = Growing(0)
    for until_ms in (1000, 2000, 3000, 4000):
        assert not growing.settle(heard(until_ms), until_ms)
    assert (growing.start_ms, growing.standing) == (0, "")


def test_words_that_two_transcripts_agree_on_stand_but_for_the_newest() -> None:
    growing = Growing(0)
    growing.settle(heard(4000), 4000)
    assert growing.settle(heard(5000), 5000)
    assert growing.start_ms == 5000 - KEEP_MS
    assert growing.standing == "Please tell me about the long and"


def test_one_transcript_settles_nothing() -> None:
    growing = Growing(0)
    assert not growing.settle(heard(6000), 6000)


def test_words_behind_a_disagreement_stay_open() -> None:
    growing = Growing(0)
    growing.settle(heard(5000, ["Please", "sell", *SENTENCE[2:]]), 5000)
    assert growing.settle(heard(6000), 6000)
    assert growing.standing == "Please"


def test_case_and_punctuation_are_no_disagreement() -> None:
    growing = Growing(0)
    growing.settle(heard(5000, ["please,", *SENTENCE[1:]]), 5000)
    assert growing.settle(heard(6000), 6000)
    assert growing.standing.startswith("Please tell me")


def test_agreement_goes_on_behind_a_cut() -> None:
    growing = Growing(0)
    growing.settle(heard(4000), 4000)
    assert growing.settle(heard(5000), 5000)
    cut_ms = growing.start_ms
    later = [Word(word.text, word.end_ms - cut_ms) for word in heard(cut_ms + CUT_CLIP_MS) if word.end_ms > cut_ms]
    assert growing.settle(later, cut_ms + CUT_CLIP_MS)
    assert growing.said == ["Please tell me about the long and", "very old history"]


def test_what_stood_in_a_pause_stands() -> None:
    growing = Growing(500)
    growing.stand("Please tell me", 2500)
    assert (growing.start_ms, growing.standing) == (2500, "Please tell me")


def test_a_text_that_is_known_later_keeps_its_place() -> None:
    growing = Growing(0)
    index = growing.stand("", 20_000)
    growing.stand("and more", 25_000)
    growing.said[index] = "A long one"
    assert growing.standing == "A long one and more"
