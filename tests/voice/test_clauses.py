import pytest

from voice.clauses import MAX_WORDS, ends_sentence, split_all, split_first


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("The capital of France is Paris. It lies on the Seine.", ["The capital of France is Paris.", "It lies on the Seine."]),
        ("Yes. It is.", ["Yes.", "It is."]),
        ("Well, pi is 3.14 or so, roughly speaking. Fine.", ["Well, pi is 3.14 or so,", "roughly speaking.", "Fine."]),
        ("Ask Dr. Smith about it. He knows.", ["Ask Dr. Smith about it.", "He knows."]),
        ("Look at example.com for more. Bye.", ["Look at example.com for more.", "Bye."]),
        ("We meet at 6 p.m. on Monday. See you.", ["We meet at 6 p.m. on Monday.", "See you."]),
        ("We meet at 6 p.m. See you.", ["We meet at 6 p.m.", "See you."]),
        ("It began on Jan 1, 1980. It ended.", ["It began on Jan 1, 1980.", "It ended."]),
        ("He said (in passing, as it were) that it works. Good.", ["He said (in passing, as it were) that it works.", "Good."]),
        ('She said "Stop. Go back." and left. Then silence.', ['She said "Stop. Go back." and left.', "Then silence."]),
        ("It costs 1,000,000 dollars, more or less. Really.", ["It costs 1,000,000 dollars,", "more or less.", "Really."]),
        ("No, not at all, my friend. Sorry.", ["No, not at all,", "my friend.", "Sorry."]),
        ("1. Boil the water. 2. Add tea.", ["1. Boil the water.", "2. Add tea."]),
        ("What? Why! How…  Fine.", ["What?", "Why!", "How…", "Fine."]),
        ("J. R. Tolkien wrote it. Yes.", ["J. R. Tolkien wrote it.", "Yes."]),
        ("First line here\nsecond line", ["First line here", "second line"]),
        ("", []),
        ("   ", []),
    ],
)  # fmt: skip
def test_split_all(text: str, clauses: list[str]) -> None:
    assert split_all(text) == clauses


def test_nothing_is_lost_while_streaming() -> None:
    text = (
        "Well, Dr. Smith paid 3.14 dollars at 6 p.m. on Jan 1, 1980. Then he (quietly, slowly) left example.com. Yes."
    )
    for size in (1, 2, 3, 7):
        buffer, clauses = "", []
        for start in range(0, len(text), size):
            buffer += text[start : start + size]
            while True:
                clause, buffer = split_first(buffer)
                if not clause:
                    break
                clauses.append(clause)
        clauses += split_all(buffer)
        assert clauses == split_all(text)
        assert " ".join(clauses) == text


def test_a_clause_waits_for_what_follows_its_mark() -> None:
    assert split_first("It costs 3.") == ("", "It costs 3.")
    assert split_first("It costs 3.", final=True) == ("It costs 3.", "")


def test_a_reply_without_punctuation_still_starts_to_sound() -> None:
    text = "word " * (MAX_WORDS + 5)
    clause, rest = split_first(text)
    assert len(clause.split()) == MAX_WORDS
    assert len(rest.split()) == 5


def test_ends_sentence() -> None:
    assert ends_sentence('He said "no."')
    assert not ends_sentence("however,")


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("The capital of France is Paris.", "The capital of France"),
        ("A spider has eight legs.", ""),
        ("Dr. Smith of London was born", "Dr. Smith of London"),
        ("It is in the", ""),
        ("The sky looks blue because", ""),
        ("The sky looks blue because of", "The sky looks blue"),
        ('He said "to be or not to be', ""),
        ("Yes. It is.", "Yes."),
    ],
)
def test_the_opening_clause_also_ends_before_a_phrase(text: str, clause: str) -> None:
    assert split_first(text, opening=True)[0] == clause
