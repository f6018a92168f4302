"""Calls of the real callers' process to the scripted voice application."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from configs.schema import parse
from loadtests.load import VoiceLoad
from loadtests.results import Results, gather, read_results
from loadtests.run import perform
from loadtests.truth.table import CLIP_RATE, tones

ROOT = Path(__file__).parents[2]


def run(url: str, folder: Path, calls: int = 2, turns: int = 2, **more: Any) -> Results:
    clips = folder / "clips"
    clips.mkdir()
    soundfile.write(clips / "clip.wav", tones(((400, 90), (300, 100))), CLIP_RATE)
    arrivals = {"kind": "constant", "rate_per_s": 4, "duration_s": calls / 4}
    data = {"url": url, "arrivals": arrivals, "clips": str(clips), "turns": turns, "hear": False, "reply_timeout_s": 2}
    return gather(perform(parse(VoiceLoad, data | more, "load"), folder / "out"))


def test_responses_are_heard_where_they_were_put(voice_server: Callable[..., str], tmp_path: Path) -> None:
    results = run(voice_server(response_ms=(300, 700), answer_ms=((400, 0),)), tmp_path)
    assert [turn.response_ms for turn in results.turns] == pytest.approx([300, 700, 300, 700], abs=25)
    assert not results.run.ended
    assert read_results(tmp_path / "out").turns == results.turns


def test_the_recordings_stay_as_wav(voice_server: Callable[..., str], tmp_path: Path) -> None:
    results = run(voice_server(response_ms=(300,), answer_ms=((400, 0),)), tmp_path, calls=1, turns=1)
    stereo, rate = soundfile.read(tmp_path / "out" / "calls" / "00000.wav")
    turn = results.turns[0]
    assert turn.answer_from_ms is not None
    answer = stereo[round(turn.answer_from_ms * rate / 1000) :, 1]
    assert np.sqrt(np.mean(answer[: rate // 5] ** 2)) > 0.1
    assert not list((tmp_path / "out" / "calls").glob("*.npz"))


def test_faults_are_counted(voice_server: Callable[..., str], tmp_path: Path) -> None:
    results = run(voice_server(unanswered_every=2, answer_ms=((400, 0),)), tmp_path, calls=2, turns=2)
    assert results.document()["turns"] == {"ok": 2, "unanswered": 2}
    # an unanswered turn counts with the 2 s that its caller waited
    assert sorted(results.metrics["response_ms"].values) == pytest.approx([400, 400, 2000, 2000], abs=25)


def test_a_call_that_is_dropped(voice_server: Callable[..., str], tmp_path: Path) -> None:
    results = run(voice_server(hang_up_every=2, answer_ms=((400, 0),)), tmp_path, calls=1, turns=3)
    assert results.run.samples[0]["outcome"] == "dropped"
    assert results.turns[0].outcome == "ok"
    assert results.metrics["failure"].values.tolist() == [1]


def test_a_busy_line(voice_server: Callable[..., str], tmp_path: Path) -> None:
    results = run(voice_server(busy=True), tmp_path, calls=2)
    assert [sample["outcome"] for sample in results.run.samples] == ["busy", "busy"]
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["outcomes"] == {"busy": 2}


def test_ctrl_c_in_a_call_keeps_what_was_said(voice_server: Callable[..., str], tmp_path: Path) -> None:
    """The call under way is hung up, and its recording and its turns so far are kept."""
    clips = tmp_path / "clips"
    clips.mkdir()
    soundfile.write(clips / "clip.wav", tones(((400, 90), (300, 100))), CLIP_RATE)
    url = voice_server(response_ms=(300,), answer_ms=((400, 0),))
    main = "from cli.main import main; main()"
    with subprocess.Popen(
        [
            sys.executable, "-c", main, "loadtest", "voice", "--url", url, "--out", str(tmp_path / "out"), "--json",
            "--set", f"clips={clips}", "--set", "turns=100", "--set", "hear=false",
        ],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        run = tmp_path / "out" / "calls"
        while not run.exists():
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(9)  # two turns and a half: there is nothing to look at before the call has ended
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    document = json.loads(out)
    assert document["outcomes"] == {"interrupted": 1}
    assert document["turns"]["ok"] >= 1
    assert (tmp_path / "out" / "calls" / "00000.wav").exists()
    assert document["metrics"]["response_ms"]["p50"]["value"] == pytest.approx(300, abs=25)
