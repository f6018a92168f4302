"""Whether words sound unfinished: what a caller who pauses to think leaves hanging. English.

The prosody of a pause inside a sentence is often that of its end; its last word is often not: nobody ends on 'the'.
"""

import re

# fmt: off
NEVER_LAST = frozenset((
    "a", "an", "the", "my", "your", "our", "their", "its", "every", "which", "whose", "very", "um", "uh", "er",
    "and", "or", "but", "nor", "because", "if", "unless", "although", "whether", "while", "than",
    "i", "i'm", "i'd", "i'll", "i've", "we're", "we'd", "you're", "they're", "he's", "she's", "it's", "there's",
))
LAST_IN_A_QUESTION = frozenset((
    "to", "of", "at", "for", "from", "with", "about", "into", "between", "during", "without", "until", "as",
))
# fmt: on
"""'Where are you from?' is whole, 'I come from' is not; the recognizer tells the two by its question mark."""


def unfinished(text: str) -> bool:
    """Whether `text`, as recognised, breaks off."""
    words = re.findall(r"[a-z']+", text.lower())
    if not words:
        return False
    text = text.rstrip()
    if text.endswith((",", "-", "—", "...", "…", ":")) or words[-1] in NEVER_LAST:
        return True
    return words[-1] in LAST_IN_A_QUESTION and not text.endswith("?")
