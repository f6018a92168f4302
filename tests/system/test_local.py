"""The local deployment's commands, on the real thing."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import soundfile

from loadtests.call import dial
from loadtests.wav import Clip
from serve_apps import running
from telemetry.sound import first_loud_start_ms
from tests.support.cli import run_firstclause

pytestmark = pytest.mark.system


def test_status(deployment: str) -> None:
    answer = run_firstclause("status", "--json")
    assert answer.returncode == 0
    document = json.loads(answer.stdout)
    assert document["url"] == deployment
    statuses = {app["name"]: app["status"] for app in document["applications"]}
    assert statuses == dict.fromkeys(("llm", "voice", "files", "batches"), "RUNNING")
    assert all(app["replicas"] >= 1 for app in document["applications"])
    assert all(app["models"] for app in document["applications"] if app["name"] in ("llm", "voice"))


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
    assert document["recording"] == str(out)
    sound, rate = soundfile.read(out, dtype="int16")
    caller, agent = sound.T
    greeted_ms, asked_ms = first_loud_start_ms(agent, rate), first_loud_start_ms(caller, rate)
    assert greeted_ms is not None and asked_ms is not None and greeted_ms < asked_ms, "left is the caller"
    assert len(document["turns"]) == 2
    assert "spider" in document["transcript"].lower()
    for turn in document["turns"]:
        check_reply(turn["reply"])
        lines = turn["lines_ms"]
        assert list(lines) == ["network", "endpoint", "asr", "llm_first_token", "clause", "tts"]
        assert sum(lines.values()) == pytest.approx(turn["response_ms"], abs=1)
        assert all(ms >= 0 for line, ms in lines.items() if line != "network")


def test_talk_with_a_recording(deployment: str, recording: Callable[[str], Clip], speech_dir: Path) -> None:
    answer = run_firstclause("talk", str(speech_dir / "weather_question.wav"), "--url", deployment, "--json")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert "weather" in document["transcript"].lower()
    check_reply(document["reply"])
    [turn] = document["turns"]
    assert sum(turn["lines_ms"].values()) == pytest.approx(turn["response_ms"], abs=1)


def check_reply(text: str) -> None:
    """The LLM's own words: not the apology for want of them."""
    assert text and "Sorry, I can't reach" not in text


async def test_an_llm_that_dies_in_a_call_is_apologised_for_until_it_is_back(
    deployment: str, say: Callable[[str], Clip]
) -> None:
    question = say("How many legs does a spider have?")
    call = await dial(deployment)
    try:
        await call.wait_for(lambda e: e.type == "bot-stopped-speaking", 30)
        for replica in _llm_replicas():
            replica.kill()
        await call.say(question)
        sorry = await call.wait_for(lambda e: e.type == "bot-tts-text" and "sorry" in e.data["text"].lower(), 60)
        assert sorry is not None, [event.type for event in call.events]
        for _ in range(12):  # the replica starts again within a minute or two
            await call.wait_for(lambda e: e.type == "bot-stopped-speaking", 30, len(call.events))
            since = len(call.events)
            await call.say(question)
            heard = await call.wait_for(lambda e: e.type == "bot-tts-text", 60, since)
            assert heard is not None
            if "sorry" not in heard.data["text"].lower():
                break
            await asyncio.sleep(10)
        else:
            raise AssertionError("the LLM did not come back")
    finally:
        await call.hang_up()


def _llm_replicas() -> list[psutil.Process]:
    """The replica processes of this deployment's own LLM, by their parent."""
    record = running.read()
    assert record is not None
    family = {child for process in record.leftovers() for child in process.children(recursive=True)}
    replicas = [process for process in family if "ServeReplica:llm:LLMServer" in " ".join(process.cmdline())]
    assert replicas
    return replicas


def test_health(deployment: str) -> None:
    import httpx

    assert httpx.get(f"{deployment}/healthz", trust_env=False).text == "ok"
    assert httpx.get(f"{deployment}/readyz", trust_env=False).status_code == 200
