"""The loads that tell routers apart: what repeats, how often, and that every arm gets the same."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from loadtests.arrivals import due_times_s
from loadtests.routing import CASES, Arm, Case, Sizes, load_of, prompts, table
from loadtests.sample import LlmSample

SIZES = Sizes(prefix=30, suffix=5, turn=6)
BY_NAME = {case.name: case for case in CASES}


def firsts(case: Case, arm: str = "spill", seed: int = 1) -> list[str]:
    return [messages[0]["content"] for messages in prompts(case, SIZES, seed, arm)]


def test_the_hot_prefix_has_its_share_and_the_others_are_many() -> None:
    counted = Counter(firsts(BY_NAME["hot"]))
    (_, hot), *rest = counted.most_common()
    assert 0.5 < hot / 200 < 0.7
    assert 30 <= len(rest) <= 40 and rest[0][1] < 10


def test_shifting_prefixes_never_come_back() -> None:
    texts = firsts(BY_NAME["shifting"])
    parts = [set(texts[start : start + 20]) for start in range(0, 100, 20)]
    assert all(len(part) <= 8 for part in parts)
    assert sum(map(len, parts)) == len(set().union(*parts))


def test_conversations_take_their_past_along() -> None:
    asked = prompts(BY_NAME["conversations"], SIZES, 1, "spill")
    assert len(asked) == 100
    by_prefix: dict[str, list[list[dict[str, str]]]] = {}
    for messages in asked:
        by_prefix.setdefault(messages[0]["content"], []).append(messages)
    assert len(by_prefix) > 15
    for turns in by_prefix.values():
        assert len(turns) <= 5
        for before, after in pairwise(turns):
            assert after[: len(before)] == before and len(after) == len(before) + 2


def test_a_burst_is_due_at_once_and_alike(tmp_path: Path) -> None:
    load = load_of(BY_NAME["together"], SIZES, 1, "spill", "http://127.0.0.1:1", 2.0, tmp_path)
    due = due_times_s(load.arrivals, load.seed)
    assert Counter(due.tolist()) == {0.0: 20, 15.0: 20, 30.0: 20, 45.0: 20, 60.0: 20}
    assert len(set(firsts(BY_NAME["together"])[:20])) == 1


def test_every_arm_gets_the_same_at_the_same_moments_and_finds_nothing_of_the_others(tmp_path: Path) -> None:
    for case in CASES:
        mine, yours = (prompts(case, SIZES, 3, arm) for arm in ("spill", "power"))
        same = [[m["content"].replace("spill-", "power-") for m in messages] for messages in mine]
        assert same == [[m["content"] for m in messages] for messages in yours]
        assert not set(firsts(case, "spill", 3)) & set(firsts(case, "power", 3))
        loads = [load_of(case, SIZES, 3, arm, "http://127.0.0.1:1", 2.0, tmp_path) for arm in ("spill", "power")]
        due = due_times_s(loads[0].arrivals, 3)
        assert len(due) == case.requests and due.tolist() == due_times_s(loads[1].arrivals, 3).tolist()
        if case.share:
            assert case.requests / due[-1] == pytest.approx(2.0 * case.share, rel=0.3)
        assert [load.extra_body["user"] for load in loads] == ["spill", "power"]
        assert loads[0].prompts.dataset is not None
        rows = loads[0].prompts.dataset.read_text().splitlines()
        assert [json.loads(row)["messages"] for row in rows] == mine


def test_an_arm_pools_its_seeds_counts_failures_and_is_compared() -> None:
    arms = [Arm("spill"), Arm("other")]
    for arm, slower in zip(arms, (1, 3), strict=True):
        samples = [
            LlmSample(n, 0, due_s=n, first_token_s=n + slower * (0.1 + n / 1000), prompt_tokens=100, cached_tokens=80)
            for n in range(200)
        ]
        arm.add([*samples, LlmSample(200, 0, due_s=0.0, outcome="timeout")])
    assert arms[0].failed == 1 and arms[0].cached_share == pytest.approx(0.8)
    ratio = arms[0].ratio(arms[1])
    assert ratio.value == pytest.approx(1 / 3) and ratio.high is not None and ratio.high < 0.5
    shown = table(BY_NAME["hot"], arms)
    assert "| other | 200 | 1 |" in shown and "0.33 (" in shown
