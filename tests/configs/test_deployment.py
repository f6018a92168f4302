"""What a deployment's file may not say: each refused with its key and value."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from configs.budgets import RESPONSE_MS, load_budget
from configs.deployment import DEFAULT_CONFIG, load_deployment
from configs.errors import InputError
from configs.schema import read_yaml
from tests.support.cli import run_firstclause


def changed(tmp_path: Path, key: str, value: object) -> Path:
    data: dict[str, Any] = read_yaml(DEFAULT_CONFIG)
    *folders, last = key.split(".")
    inner = data
    for folder in folders:
        inner = inner.setdefault(folder, {})
    inner[last] = value
    path = tmp_path / "changed.yaml"
    with path.open("w") as file:
        YAML(typ="safe").dump(data, file)
    return path


def test_the_default_is_valid() -> None:
    assert load_deployment().voice.calls_per_replica >= 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("http.port", 0),
        ("http.port", 70_000),
        ("http.port", "8000"),
        ("http.prot", 8000),
        ("llm.device", "tpu"),
        ("llm.context_tokens", 3),
        ("llm.replicas", -1),
        ("voice.calls_per_replica", 0),
        ("voice.calls_per_replica", 1.5),
        ("voice.persona.language", "de"),
        ("voice.persona.temperature", float("nan")),
        ("voice.persona.system_prompt", ""),
        ("voice.turn_taking.voice_probability", 1.5),
        ("voice.turn_taking.guess_silence_ms", -1),
        ("voice.hearing.threads", True),
        ("voice.nonsense", {"a": 1}),
        ("nonsense", 1),
    ],
)
def test_a_bad_value_is_refused_by_its_key(tmp_path: Path, key: str, value: object) -> None:
    with pytest.raises(InputError) as refused:
        load_deployment(changed(tmp_path, key, value))
    assert key in str(refused.value) or key.split(".")[-1] in str(refused.value)


def test_waits_must_be_in_order(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="guess_silence_ms <= confirm_silence_ms"):
        load_deployment(changed(tmp_path, "voice.turn_taking.confirm_silence_ms", 32))


@pytest.mark.parametrize("text", ["", "- a list", "a: [", "a: 1\na: 2", "\x00"])
def test_a_file_that_is_no_mapping(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"odd\.yaml"):
        load_deployment(path)


def test_up_says_what_is_wrong_and_starts_nothing(tmp_path: Path) -> None:
    answer = run_firstclause("up", "--config", str(changed(tmp_path, "http.port", 0)))
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert "http.port = 0" in answer.stderr


def test_up_without_its_models_says_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTCLAUSE_CACHE", str(tmp_path))
    answer = run_firstclause("up")
    assert answer.returncode == 2
    assert "firstclause models prepare" in answer.stderr


def test_the_budget_adds_up_and_each_line_has_its_reason(tmp_path: Path) -> None:
    budget = load_budget()
    assert sum(budget.allocation_ms().values()) == RESPONSE_MS
    text = (DEFAULT_CONFIG.parent / "budgets.yaml").read_text().replace("allocation_ms: 200", "allocation_ms: 190")
    path = tmp_path / "budgets.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match="add up to 290"):
        load_budget(path)
