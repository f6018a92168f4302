"""`firstclause doctor`: each line's verdict by hand, and the whole command on this machine."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli import doctor

LOCK = "pipecat-ai==1.14.0\nruamel-yaml==0.19.1\ntorch==2.13.0+cpu\n"


def test_a_package_that_is_missing_or_of_another_version_is_named() -> None:
    installed = {"pipecat-ai": "1.14.0", "ruamel-yaml": "0.19.1", "torch": "2.13.0+cpu", "more": "1"}
    assert doctor.packages(LOCK, installed, "cpu").state == "ok"
    off = doctor.packages(LOCK, {"pipecat-ai": "1.13.0", "ruamel-yaml": "0.19.1"}, "gpu")
    assert off.state == "missing"
    assert "pipecat-ai 1.13.0 (locked: 1.14.0), torch missing (locked: 2.13.0+cpu)" in off.found
    assert off.todo == "make setup ENV=gpu"


@pytest.mark.parametrize(
    ("check", "state"),
    [
        (doctor.python((3, 11)), "ok"),
        (doctor.python((3, 12)), "missing"),
        (doctor.memory_check(16_000_000_000, 9_000_000_000), "ok"),
        (doctor.memory_check(16_000_000_000, 5_000_000_000), "advice"),
        (doctor.memory_check(4_000_000_000, 3_900_000_000), "missing"),
        (doctor.disk(Path("/x"), 999_999_999), "missing"),
        (doctor.disk(Path("/x"), 1_000_000_000), "ok"),
        (doctor.cores(1), "advice"),
        (doctor.cores(2), "ok"),
        (doctor.port("127.0.0.1:8000", None), "ok"),
        (doctor.port("127.0.0.1:8000", "ray::ProxyActor (process 7)"), "ok"),
        (doctor.port("127.0.0.1:8000", "array-server (process 7)"), "missing"),
        (doctor.gpu([], "cpu"), "ok"),
        (doctor.gpu(["GPU 0: NVIDIA H200"], "cpu"), "advice"),
        (doctor.gpu(["GPU 0: NVIDIA H200"], "gpu"), "ok"),
        (doctor.gpu([], "gpu"), "missing"),
        (doctor.tool("chromium", "/usr/bin/chromium", "tests"), "ok"),
        (doctor.tool("chromium", None, "tests"), "advice"),
    ],
)
def test_each_line_says_whether_it_stops_the_product_and_what_to_do(check: doctor.Check, state: str) -> None:
    assert check.state == state
    assert bool(check.todo) == (state != "ok")


def _doctor(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "from cli.main import main; main()", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def test_missing_models_are_named_and_end_it_with_1(tmp_path: Path) -> None:
    run = _doctor("--json", FIRSTCLAUSE_CACHE=str(tmp_path / "not" / "there"))
    report = json.loads(run.stdout)
    assert (run.returncode, report["ok"], run.stderr) == (1, False, "")
    asr = next(check for check in report["checks"] if check["name"] == "model asr")
    assert asr["state"] == "missing"
    assert asr["todo"] == "firstclause models prepare whisper-base"
    assert not (tmp_path / "not").exists()  # it looks, and makes nothing


def test_whoever_listens_on_a_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mine:
        port = mine.getsockname()[1]
        owner = doctor._listener(port)
        assert owner is not None
        assert f"(process {os.getpid()})" in owner
    assert doctor._listener(port) is None


def test_the_report_for_a_person_has_a_line_a_check() -> None:
    run = _doctor()
    assert "ok python: 3.11" in run.stdout
    assert {"packages", "memory", "disk", "port"} <= {
        line.split(":")[0].split()[-1] for line in run.stdout.splitlines()
    }
