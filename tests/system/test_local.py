"""The local deployment's commands, on the real thing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from loadtests.wav import Clip
from tests.support.cli import run_firstclause

pytestmark = pytest.mark.system


def test_status(deployment: str) -> None:
    answer = run_firstclause("status", "--json")
    assert answer.returncode == 0
    document = json.loads(answer.stdout)
    assert document["url"] == deployment
    assert {app["name"]: app["status"] for app in document["applications"]} == {"llm": "RUNNING", "voice": "RUNNING"}
    assert all(app["replicas"] >= 1 and app["models"] for app in document["applications"])


def test_a_second_up_is_refused(deployment: str, config_file: Path) -> None:
    answer = run_firstclause("up", "--config", str(config_file))
    assert answer.returncode != 0
    assert "already up" in answer.stderr and "firstclause down" in answer.stderr
    assert run_firstclause("status").returncode == 0


def test_talk_says_what_was_asked_and_answered_and_its_lines_add_up(deployment: str, tmp_path: Path) -> None:
    out = tmp_path / "call.wav"
    answer = run_firstclause(
        "talk", "--say", "What is the capital of France?", "--say", "How many legs does a spider have?",
        "--url", deployment, "--out", str(out), "--json",
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["recording"] == str(out) and out.stat().st_size > 100_000
    assert len(document["turns"]) == 2
    assert "spider" in document["transcript"].lower()
    for turn in document["turns"]:
        assert turn["reply"]
        lines = turn["lines_ms"]
        assert list(lines) == ["network", "endpoint", "asr", "llm_first_token", "clause", "tts"]
        assert sum(lines.values()) == pytest.approx(turn["response_ms"], abs=1)
        assert all(ms >= 0 for line, ms in lines.items() if line != "network")


def test_talk_with_a_recording(deployment: str, recording: Callable[[str], Clip], speech_dir: Path) -> None:
    answer = run_firstclause("talk", str(speech_dir / "weather_question.wav"), "--url", deployment, "--json")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert "weather" in document["transcript"].lower()
    assert document["reply"]


def test_health(deployment: str) -> None:
    import httpx

    assert httpx.get(f"{deployment}/healthz", trust_env=False).text == "ok"
    assert httpx.get(f"{deployment}/readyz", trust_env=False).status_code == 200
