"""The reference job's text: the same for a seed, interleaved, few doubles, many long instructions."""

import itertools
import json
from collections import Counter
from typing import Any

from batch.reference import DEPARTMENTS, classify_rows, summarise_rows


def prompt(row: dict[str, Any], role: int) -> str:
    return str(row["body"]["messages"][role]["content"])


def test_the_rows_are_what_the_figures_need() -> None:
    rows = list(classify_rows("m", 480))
    assert rows == list(classify_rows("m", 480)) and rows != list(classify_rows("m", 480, seed=1))
    assert len({row["custom_id"] for row in rows}) == 480
    systems = [prompt(row, 0) for row in rows]
    assert len(set(systems)) == DEPARTMENTS >= 40
    assert sum(one == other for one, other in itertools.pairwise(systems)) < 0.1 * 480, "interleaved"
    doubled = sum(count - 1 for count in Counter(prompt(row, 0) + prompt(row, 1) for row in rows).values())
    assert 0 < doubled <= 0.05 * 480


def test_the_second_pass_has_the_complaints() -> None:
    said = ["A complaint.", "question", "It is praise, no complaint", "nothing"]
    output = [
        json.dumps(
            {"custom_id": f"letter-{number}", "response": {"body": {"choices": [{"message": {"content": text}}]}}}
        ).encode()
        for number, text in enumerate(said)
    ]
    rows = list(summarise_rows("m", 4, output))
    assert [row["custom_id"] for row in rows] == ["letter-0"]
    assert "Summarise" in prompt(rows[0], 1)
