"""What `talk` refuses, in one line that names the file; no application is needed for it."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from loadtests.ports import free_port
from tests.support.cli import run_firstclause


def refused(*arguments: str) -> str:
    answer = run_firstclause("talk", *arguments)
    assert answer.returncode == 2, answer.stderr
    assert answer.stdout == ""
    assert "Traceback" not in answer.stderr
    return answer.stderr


def wav(path: Path, samples: int, rate: int = 16_000) -> Path:
    soundfile.write(path, np.ones(samples, dtype=np.int16), rate)
    return path


def test_an_empty_wav(tmp_path: Path) -> None:
    assert "empty.wav: holds no sound" in refused(str(wav(tmp_path / "empty.wav", 0)))


def test_a_truncated_wav(tmp_path: Path) -> None:
    path = wav(tmp_path / "cut.wav", 16_000)
    path.write_bytes(path.read_bytes()[:9000])
    assert "cut.wav" in refused(str(path)) and "truncated" in refused(str(path))


@pytest.mark.parametrize("content", [b"", b"no audio at all", b"RIFF\x00\x00\x00\x00WAVE"])
def test_a_file_that_is_no_audio(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "not.wav"
    path.write_bytes(content)
    assert "not.wav" in refused(str(path))


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert "no such file" in refused(str(tmp_path / "nowhere.wav"))
    assert str(tmp_path) in refused(str(tmp_path))


def test_an_odd_rate(tmp_path: Path) -> None:
    assert "sample rate = 4000" in refused(str(wav(tmp_path / "slow.wav", 4000, 4000)))


def test_nothing_to_say() -> None:
    assert "--say" in refused()


def test_out_in_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    question = wav(tmp_path / "q.wav", 16_000)
    assert "does not exist" in refused(str(question), "--out", str(tmp_path / "no" / "call.wav"))


def test_nobody_answers(tmp_path: Path) -> None:
    question = wav(tmp_path / "q.wav", 16_000)
    answer = run_firstclause("talk", str(question), "--url", f"http://127.0.0.1:{free_port()}")
    assert answer.returncode == 1
    assert "firstclause up" in answer.stderr


def test_the_microphone_says_what_it_needs_or_works() -> None:
    answer = run_firstclause("talk", "--mic", "--url", f"http://127.0.0.1:{free_port()}")
    assert answer.returncode in (1, 2)
    assert "PortAudio" in answer.stderr or "microphone" in answer.stderr or "firstclause up" in answer.stderr
