"""The reference job: two passes over customers' letters to forty departments, each with long instructions of its own.

First every letter is classified; those that are called a complaint are then summarised. All text is generated here from
a seed (the project's own, Apache-2.0). The letters come as they would: departments interleaved, a few sent twice. With
DEPARTMENTS · about 600 tokens the instructions alone are more than the KV memory of configs/local.yaml holds.
"""

import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

ENDPOINT = "/v1/chat/completions"
DEPARTMENTS = 40
RULES = 26
TWICE = 0.04
"""The share of letters that are sent twice."""
LABELS = ("complaint", "question", "praise")

_PLACES = ["Alder", "Birch", "Cedar", "Dover", "Elm", "Ferry", "Garden", "Harbour", "Island", "Junction"]
_TRADES = ["billing", "deliveries", "repairs", "returns"]
_SUBJECTS = (
    "a parcel that came late", "an invoice with a wrong sum", "a lamp that flickers", "a refund", "a missing key",
    "an order in two parts", "a torn cover", "a voucher", "a change of address", "a bicycle pump",
)  # fmt: skip
_ACTS = (
    "ask for the order number", "answer within two working days", "never promise a date", "offer a replacement first",
    "keep the letter for a year", "name the nearest branch", "write to the carrier", "check the guarantee",
    "pass it on to the night shift", "send the printed form",
)  # fmt: skip
_TONES = {
    "complaint": (
        "I am not at all content.",
        "This is the third time that I write.",
        "It must be put right this week.",
    ),
    "question": ("Could you tell me what to do next?", "Is there a form for it?", "Whom may I call about it?"),
    "praise": ("Everything was done well.", "Your colleague was most helpful.", "I shall gladly order again."),
}


def instructions(department: int, seed: int) -> str:
    """What a department's clerk has to know: the same text for each of its letters."""
    draw = random.Random(f"{seed} department {department}")
    name = f"{_PLACES[department % len(_PLACES)]} {_TRADES[department // len(_PLACES) % len(_TRADES)]}"
    rules = [
        f"{number}. Where a letter is about {draw.choice(_SUBJECTS)}, {draw.choice(_ACTS)} and {draw.choice(_ACTS)}."
        for number in range(1, RULES + 1)
    ]
    return f"You are the clerk of {name}. These are the rules of your department.\n" + "\n".join(rules)


def letters(count: int, seed: int) -> Iterator[tuple[int, str]]:
    """(department, letter), as they come in."""
    draw = random.Random(f"{seed} letters")
    sent: list[tuple[int, str]] = []
    for number in range(count):
        if sent and draw.random() < TWICE:
            yield draw.choice(sent)
            continue
        label = draw.choice(LABELS)
        first, last = draw.sample(_TONES[label], 2)
        about = f"{draw.choice(_SUBJECTS)}, bought on day {draw.randint(1, 365)}"
        one = (number % DEPARTMENTS, f"Letter {number}. {first} I write about {about}. {last}")
        sent = [*sent[-99:], one]
        yield one


def classify_rows(model: str, count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """The first pass."""
    task = f"Answer with one word: {', '.join(LABELS)}."
    for number, (department, letter) in enumerate(letters(count, seed)):
        yield _row(f"letter-{number}", model, instructions(department, seed), f"{letter}\n{task}", 4)


def summarise_rows(model: str, count: int, output: Iterable[bytes], seed: int = 0) -> Iterator[dict[str, Any]]:
    """The second pass, over the letters that the first pass's output lines call a complaint."""
    matching = {line["custom_id"] for line in map(json.loads, output) if _label(line) == LABELS[0]}
    for number, (department, letter) in enumerate(letters(count, seed)):
        if (custom_id := f"letter-{number}") in matching:
            text = f"{letter}\nSummarise this letter in one sentence for the file."
            yield _row(custom_id, model, instructions(department, seed), text, 24)


def _label(line: dict[str, Any]) -> str | None:
    """The first label that an answer names."""
    said = str(line["response"]["body"]["choices"][0]["message"]["content"]).lower()
    found = [(said.index(label), label) for label in LABELS if label in said]
    return min(found)[1] if found else None


def _row(custom_id: str, model: str, system: str, user: str, max_tokens: int) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    body = {"model": model, "messages": messages, "max_tokens": max_tokens, "temperature": 0}
    return {"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": body}
