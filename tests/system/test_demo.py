"""`make demo` and `up`/`down` as a user meets them: each starts a cluster of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from serve_apps import running
from tests.support.cli import ROOT, run_firstclause

pytestmark = pytest.mark.system

READY_S = 420
OTHER_RAY = """
import ray
ray.init(address="local", num_cpus=1, include_dashboard=False, object_store_memory=80_000_000, log_to_driver=False)
print("up", flush=True)
input()
print(ray.get(ray.remote(lambda: "alive").remote()), flush=True)
"""


@pytest.fixture
def other_ray() -> Iterator["subprocess.Popen[str]"]:
    """Somebody else's Ray on this machine."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_RAY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert "up" in process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.skipif(not (ROOT / ".venv" / ".made-by-make").exists(), reason="this checkout was not set up by make")
def test_make_demo_serves_until_ctrl_c_and_stops_what_it_started(
    alone: None, home: Path, other_ray: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """The README's first command, in a checkout that is set up."""
    log = tmp_path / "demo.log"
    with log.open("w") as output:
        demo = subprocess.Popen(
            ["make", "demo"], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    family: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + READY_S
        while "Ctrl-C" not in log.read_text():
            assert demo.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)
        said = log.read_text()
        assert "Installing" not in said and "Collecting" not in said, "what is installed is not installed again"
        for line in ("network", "endpoint", "asr", "llm_first_token", "clause", "tts", "total"):
            assert line in said
        assert "http://127.0.0.1:8000/" in said
        assert "<html" in httpx.get("http://127.0.0.1:8000/", trust_env=False).text
        family = psutil.Process(demo.pid).children(recursive=True)
        assert len(family) > 5
    finally:
        os.killpg(demo.pid, signal.SIGINT)
        demo.wait(120)
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == [], "Ctrl-C leaves nothing running"
    assert other_ray.stdin is not None and other_ray.stdout is not None
    other_ray.stdin.write("\n")
    other_ray.stdin.flush()
    assert other_ray.stdout.readline().strip() == "alive", "somebody else's Ray goes on"


def test_down_with_nothing_up(alone: None, home: Path) -> None:
    assert run_firstclause("down").returncode == 3
    status = run_firstclause("status", "--json")
    assert status.returncode == 3
    assert json.loads(status.stdout)["applications"] == []


def test_a_taken_port_is_said(alone: None, home: Path, config_file: Path) -> None:
    from configs.deployment import load_deployment

    port = load_deployment(config_file).http.port
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        answer = run_firstclause("up", "--config", str(config_file))
    assert answer.returncode == 1
    assert str(port) in answer.stderr and "taken" in answer.stderr
    assert running.read() is None


def test_a_killed_supervisor_leaves_nothing_that_the_next_command_does_not_end(
    alone: None, home: Path, config_file: Path
) -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "serve_apps.supervisor", str(config_file)], cwd=ROOT, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + READY_S
    while (record := running.read()) is None or not record.cluster:
        assert started.poll() is None and time.monotonic() < deadline
        time.sleep(0.5)
    cluster = record.leftovers()
    assert cluster
    started.kill()
    started.wait()
    assert run_firstclause("down").returncode == 0
    _, alive = psutil.wait_procs(cluster, timeout=20)
    assert alive == []
    assert run_firstclause("status").returncode == 3
