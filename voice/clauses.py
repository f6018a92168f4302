"""Splits a streamed reply into clauses: the shortest beginnings that can be spoken as they are.

A clause ends behind punctuation that is followed by white space, once it has three words or the sentence is
over. What looks like an end and is none stays whole: '3.14', 'Dr. Smith', 'example.com', '6 p.m.', 'Jan 1, 1980.',
an open bracket or quotation.
"""

import re

MIN_WORDS = 3
MAX_WORDS = 14
"""A clause without punctuation is cut behind this many words, so that a rambling reply still starts to sound."""

_ABBREVIATIONS = frozenset(
    (  # noqa: SIM905 - a list of them is four times as long
        "mr mrs ms dr prof sr jr st vs etc inc ltd co no vol fig dept est approx e.g i.e a.m p.m u.s u.k ph.d "
        "jan feb mar apr jun jul aug sep sept oct nov dec mt ave blvd gen col lt capt rev"
    ).split()
)
_PHRASE_OPENERS = frozenset(
    (  # noqa: SIM905 - likewise
        "is are was were has have had can could will would should may might must do does did "
        "and or but because so that which who when where while if than "
        "in on at by for from with to into about between during through over under"
    ).split()
)
_END = re.compile(r"""[.!?…]+["')\]”’]*(?=\s)|[,;:](?=\s)|\s[–—-](?=\s)|\n+""")
_OPEN_TO_CLOSE = {"(": ")", "[": "]", "{": "}", "“": "”"}
_MONTH_DAY = re.compile(r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+\d{1,2}$", re.I)


def split_first(text: str, final: bool = False, opening: bool = False) -> tuple[str, str]:
    """`text` -> (the first clause, the rest). The clause is empty while more text is needed.

    `final` says that nothing follows: then what is left is a clause, however short. `opening` says that the caller
    waits for this clause: from three words on it then also ends before a word that opens a phrase.
    """
    for match in _END.finditer(text):
        head, rest = text[: match.end()], text[match.end() :]
        if _ends_clause(head, match.group(), rest):
            return head.strip(), rest.lstrip()
    if opening and (cut := _phrase_break(text)):
        return text[:cut].strip(), text[cut:].lstrip()
    words = list(re.finditer(r"\S+\s", text))
    if len(words) > MAX_WORDS and _balanced(text[: words[MAX_WORDS - 1].end()]):
        cut = words[MAX_WORDS - 1].end()
        return text[:cut].strip(), text[cut:].lstrip()
    return (text.strip(), "") if final else ("", text)


def _phrase_break(text: str) -> int:
    """Where a phrase opens behind at least three words, or 0. The word that opens it must be whole."""
    words = list(re.finditer(r"\S+(?=\s)", text))
    for word in words[MIN_WORDS:]:
        if word.group().lower() in _PHRASE_OPENERS and _balanced(text[: word.start()]):
            return word.start()
    return 0


def split_all(text: str) -> list[str]:
    """Every clause of a finished text, in order."""
    clauses = []
    while text.strip():
        clause, text = split_first(text, final=True)
        clauses.append(clause)
    return clauses


def ends_sentence(clause: str) -> bool:
    """Whether a clause ends its sentence: a cut-off reply is spoken up to the last one that does."""
    return bool(re.search(r"""[.!?…]["')\]”’]*$""", clause.rstrip()))


def _ends_clause(head: str, mark: str, rest: str) -> bool:
    words = head.split()
    if not words or not _balanced(head):
        return False
    if mark.isspace():
        return True
    if mark[-1] in "\"'”’" and not rest.lstrip()[:1].isupper():
        return False  # 'she said "stop." and left': a quotation's end is a sentence's only before a capital
    body = head.rstrip().rstrip(".!?…,;:–—-\"')]”’").rstrip()
    if mark[0] == ".":
        last = body.split()[-1].lower().lstrip("(\"'[“‘") if body.split() else ""
        if last in _ABBREVIATIONS and not _sentence_follows(last, rest):
            return False
        # an initial, or the number of a list's item
        return not (re.fullmatch(r"[a-z]", last) or (last.isdigit() and len(words) == 1))
    if mark[0] in "!?…":
        return True
    if mark[0] == "," and (_MONTH_DAY.search(body) or (body[-1:].isdigit() and rest.lstrip()[:1].isdigit())):
        return False
    return len(words) >= MIN_WORDS


def _sentence_follows(abbreviation: str, rest: str) -> bool:
    """'at 6 p.m. We ...' ends a sentence; 'Dr. Smith' and 'Jan. 1' do not."""
    return abbreviation in {"a.m", "p.m", "etc", "inc", "ltd", "u.s", "u.k", "ph.d"} and rest.lstrip()[:1].isupper()


def _balanced(text: str) -> bool:
    if text.count('"') % 2:
        return False
    return all(text.count(opening) <= text.count(closing) for opening, closing in _OPEN_TO_CLOSE.items())
