"""What speculation costs, counted: answers that were made on guesses, and those of them that were heard."""

from collections.abc import Callable

COUNTERS = {
    "llm_calls": "requests to the LLM that generate a reply, those for a tool's result included",
    "prefills": "requests to the LLM that only take in a long turn while its caller speaks",
    "tokens_prefilled": "tokens of callers' turns that were taken in so",
    "answers_made": "answers begun, most of them on a guess that the caller is done",
    "answers_kept": "answers that were heard, one a turn of a caller's",
    "answers_withdrawn": "answers stopped before they were heard, because the caller went on",
    "tokens_kept": "tokens generated for answers that were kept",
    "tokens_withdrawn": "tokens generated for answers that were withdrawn",
}

Tally = Callable[[str, float], None]
"""Takes a counter's name and what to add to it."""


def uncounted(name: str, number: float) -> None:
    """For whoever keeps no count."""
    assert name in COUNTERS
