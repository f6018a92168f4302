"""The target over HTTP, and the command, against a scripted completions server; no time is asserted."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from configs.models import NotPrepared, prepared
from configs.schema import parse
from loadtests.ports import free_port
from planning.profile import Profile
from telemetry.profiler.over_http import Reading, http_target
from telemetry.profiler.target import Prober, TargetFailed
from tests.support.cli import ROOT, run_firstclause

MODEL = "smollm2-135m-instruct-w8a8"


def ask(url, prompt_tokens=8, output_tokens=6, count=1):
    async def asked():
        async with http_target(url, MODEL) as target:
            return await Prober(target, 1000, 1).ask_together(count, prompt_tokens, output_tokens)

    return asyncio.run(asked())


@pytest.mark.parametrize("suffix", ["", "/", "/v1"])
def test_a_reply_has_its_tokens_and_moments(completions, suffix):
    (reply,) = ask(completions.url + suffix)
    assert reply.tokens == (1, 2, 3, 4, 5, 6)
    assert reply.sent_s < reply.at_s[0] <= reply.at_s[-1]
    (body,) = completions.bodies
    assert len(body["prompt"]) == 8 and all(isinstance(token, int) for token in body["prompt"])
    assert (body["model"], body["max_tokens"], body["ignore_eos"], body["temperature"]) == (MODEL, 6, True, 0)


def test_a_server_that_counts_at_the_end_alone_sends_a_token_a_chunk(completions):
    completions.counted = False
    assert ask(completions.url)[0].tokens == (1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("refuse", "503"),
        ("drop", "broke off"),
        ("error", "engine died"),
        ("short", "counts 8 and 5"),
        ("cached", "prefix cache"),
    ],
)
def test_what_is_no_measurement_is_said(completions, fault, problem):
    completions.fault = fault
    with pytest.raises(TargetFailed, match=problem):
        ask(completions.url, count=3)


def test_nothing_listens():
    with pytest.raises(TargetFailed, match="ConnectError"):
        ask(f"http://127.0.0.1:{free_port()}")


def test_a_stream_without_usage_is_refused():
    reading = Reading()
    reading.take('{"choices": [{"text": "a"}]}', 1.0)
    reading.take("[DONE]", 1.1)
    with pytest.raises(TargetFailed, match="no usage"):
        reading.reply(0.0)


def test_metrics_that_are_not_there_are_no_capacity(completions):
    async def capacity():
        async with http_target(completions.url, MODEL) as target:
            return await target.kv_capacity_tokens()

    assert asyncio.run(capacity()) is None


OPTIONS = ("--usd-per-gpu-hour", "0.1", "--load-time-s", "30", "--repeats", "2", "--inter-token-slo-ms", "100000")


@pytest.fixture
def model():
    try:
        prepared(MODEL)
    except NotPrepared as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("model")
def test_the_command_writes_a_profile_that_plans_take(completions, tmp_path):
    out = tmp_path / "profile.json"
    completions.token_s = 0.02  # long streams: also those that start late on a busy machine overlap
    done = run_firstclause("profile", "--url", completions.url, *OPTIONS, "--json", "--out", str(out))
    made = json.loads(done.stdout)
    # A busy machine makes it void: then there is no file, and the exit code says so.
    assert done.returncode == (2 if made["measured"]["void"] else 0), done.stderr
    assert out.exists() == (not made["measured"]["void"])
    profile = parse(Profile, made, "profile")
    # From config.json: 2 · 30 layers · 3 heads · 64 · 4 bytes, and 1 GiB of it.
    assert profile.kv_bytes_per_token == 46_080
    assert profile.kv_capacity_bytes == 23_301 * 46_080
    assert (profile.load_time_s, profile.usd_per_gpu_hour, profile.gpus_per_replica) == (30, 0.1, 1)
    assert done.stderr.index("Static ceiling") < done.stderr.index("Measured over HTTP")
    out.write_text(done.stdout)
    plan = run_firstclause("plan", "fleet", "--set", f"profile={out}", "--json")
    assert json.loads(plan.stdout)["inputs"]["profile"]["model"] == MODEL
    assert json.loads(plan.stdout)["outputs"]["replicas"] >= 1


@pytest.mark.usefixtures("model")
def test_ctrl_c_ends_the_streams_and_the_command(completions, tmp_path):
    completions.token_s = 0.2
    command = "from cli.main import main; main()", "profile", "--url", completions.url, *OPTIONS
    process = subprocess.Popen(
        [sys.executable, "-c", *command, "--out", str(tmp_path / "p.json")],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        while process.poll() is None and not completions.open:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        while completions.open:
            time.sleep(0.05)
        assert process.returncode == 130
        assert completions.abandoned >= 1
        assert list(tmp_path.iterdir()) == []
    finally:
        with suppress(ProcessLookupError):
            process.kill()


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--model", "whisper-base"], 2, "--usd-per-gpu-hour"),
        (["--usd-per-gpu-hour", "1", "--model", "nothing"], 2, "no such model"),
        (["--usd-per-gpu-hour", "1", "--out", "/nowhere/p.json"], 2, "no such folder"),
        (["--usd-per-gpu-hour", "-1"], 2, "-1"),
        (["--usd-per-gpu-hour", "1", "--engine"], 2, "--engine measures no URL"),
    ],
)
def test_bad_input_is_one_error_and_nothing_on_stdout(completions, arguments, code, said):
    done = run_firstclause("profile", "--url", completions.url, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_is_up(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "from cli.main import main; main()", "profile", "--usd-per-gpu-hour", "1"],
        cwd=ROOT, env=os.environ | {"FIRSTCLAUSE_CACHE": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "")
    assert "firstclause up" in done.stderr
