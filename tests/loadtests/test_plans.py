"""Loads and their plans: what is drawn, and what bad input is told."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configs.errors import InputError
from loadtests import speech
from loadtests.draws import Distribution
from loadtests.llm_plan import conversations, read_dataset
from loadtests.load import LlmLoad, VoiceLoad, read_load
from loadtests.voice_plan import calls
from loadtests.wav import Clip, read_clip


def llm(**overrides: Any) -> LlmLoad:
    load = read_load("llm", None, overrides)
    assert isinstance(load, LlmLoad)
    return load


def test_conversations_are_the_seeds() -> None:
    due = np.arange(20.0)
    assert conversations(llm(), due, "m") == conversations(llm(), due, "m")
    assert conversations(llm(), due, "m") != conversations(llm(seed=2), due, "m")


def test_shared_prefixes_follow_zipf() -> None:
    load = llm(**{"prompts.shared_prefix": {"groups": 3, "tokens": {"mean": 40}, "zipf": 1.0}})
    plans = conversations(load, np.arange(1100.0), "m")
    texts = [plan["opening"][0]["content"] for plan in plans]
    shares = sorted((texts.count(text) / 1100 for text in set(texts)), reverse=True)
    assert shares == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.05)
    assert {len(text.split()) for text in texts} == {40}


def test_tenants_and_adapters_by_weight() -> None:
    tenants = [{"name": "a", "weight": 3}, {"name": "b", "weight": 1}]
    plans = conversations(llm(tenants=tenants, adapters={"x": 1, "y": 1}), np.arange(1000.0), "m")
    assert sum(plan["tenant"] == "a" for plan in plans) / 1000 == pytest.approx(0.75, abs=0.05)
    assert {plan["model"] for plan in plans} == {"x", "y"}


def test_lengths_are_as_asked() -> None:
    rng = np.random.default_rng(0)
    lognormal = Distribution(kind="lognormal", mean=100, cv=0.5)
    values = np.array([lognormal.draw(rng) for _ in range(20_000)])
    assert values.mean() == pytest.approx(100, rel=0.02)
    assert values.std() / values.mean() == pytest.approx(0.5, rel=0.05)
    cut = Distribution(kind="lognormal", mean=100, cv=2, low=50, high=150)
    assert all(50 <= cut.draw(rng) <= 150 for _ in range(500))
    assert Distribution(mean=0.2).draw_count(rng) == 1


def test_dataset_rows_in_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"prompt": "one"}, {"messages": [{"role": "user", "content": "two"}, {"role": "user", "content": "three"}]}]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", encoding="utf-8-sig")
    plans = conversations(llm(**{"prompts.dataset": str(path), "turns": 2}), np.arange(2.0), "m")
    said = [[m["content"] for m in turn["messages"]] for plan in plans for turn in plan["turns"]]
    assert said == [["one"], ["two", "three"], ["one"], ["two", "three"]]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "expected an object"),
        ('{"text": "x"}', "expected a text `prompt`"),
        ('{"prompt": "  "}', "expected a text `prompt`"),
        ('{"messages": []}', "expected a text `prompt`"),
        ('{"messages": [{"role": "user"}]}', "`content`"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: str, problem: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "fine"}\n' + row + "\n")
    with pytest.raises(InputError, match=f"line 2.*{problem}"):
        read_dataset(path)


def test_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_dataset(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InputError, match="holds no rows"):
        read_dataset(tmp_path / "empty.jsonl")


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1:8000", "http://example.com", "http://127.evil.example", "http://[2001:db8::1]:80"]
)
def test_another_machine_needs_a_flag(url: str) -> None:
    load = llm(url=url)
    with pytest.raises(InputError, match="--allow-remote"):
        load.require_loopback(allowed=False)
    load.require_loopback(allowed=True)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://localhost", "https://[::1]:8", "http://127.9.9.9"])
def test_this_machine_does_not(url: str) -> None:
    llm(url=url).require_loopback(allowed=False)


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"url": "ftp://127.0.0.1"}, "url"),
        ({"rate": 3}, "rate"),
        ({"arrivals.rate_per_s": -1}, "rate_per_s"),
        ({"turns": 0}, "turns"),
        ({"user": "voice"}, "this is no load of `loadtest llm`"),
        ({"think_s": {"kind": "uniform", "mean": 1}}, "uniform takes"),
        ({"output_tokens": {"kind": "lognormal", "mean": 1, "cv": 1, "low": 9, "high": 2}}, "low 9 is over high 2"),
        ({"arrivals.kind.x": 1}, "kind is no mapping"),
    ],
)
def test_bad_loads_are_told_what_is_wrong(overrides: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_load("llm", None, overrides)


def test_prompts_need_a_source() -> None:
    with pytest.raises(InputError, match="tokens"):
        conversations(llm(prompts={}), np.arange(1.0), "m")


def test_voice_needs_clips(tmp_path: Path) -> None:
    def plan(**overrides: Any) -> list[dict[str, Any]]:
        load = read_load("voice", None, overrides)
        assert isinstance(load, VoiceLoad)
        return calls(load, np.arange(1.0), None)

    with pytest.raises(InputError, match="is no folder"):
        plan(clips=str(tmp_path / "none"))
    with pytest.raises(InputError, match="holds no audio files"):
        plan(clips=str(tmp_path))
    (tmp_path / "noise.wav").write_bytes(b"RIFF")
    with pytest.raises(InputError, match=r"noise\.wav"):
        plan(clips=str(tmp_path))
    with pytest.raises(InputError, match="questions"):
        plan(questions=[])


def test_questions_are_spoken_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def speak(texts: Sequence[str]) -> list[Clip]:
        said.append(list(texts))
        return [Clip(np.full((1600, 1), len(text), np.int16), 16_000) for text in texts]

    said: list[list[str]] = []
    monkeypatch.setenv("FIRSTCLAUSE_CACHE", str(tmp_path))
    monkeypatch.setattr(speech, "prepared", lambda name: tmp_path / "voice-1")
    speech.spoken(["a", "bb"], speak)
    paths = speech.spoken(["bb", "ccc"], speak)
    assert said == [["a", "bb"], ["ccc"]]
    assert [int(read_clip(path).samples[0, 0]) for path in paths] == [2, 3]
