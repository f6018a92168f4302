"""Whole runs of the real generator against scripted servers, and what ends them early."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from configs.errors import InputError
from configs.schema import parse
from loadtests.journal import Journal
from loadtests.load import LlmLoad
from loadtests.ports import free_port
from loadtests.results import gather, read_results
from loadtests.run import NothingThere, Run, perform
from loadtests.schedule import Schedule
from tests.support.llm import scripted_llm

ROOT = Path(__file__).parents[2]


def load(url: str, rate_per_s: float, duration_s: float, **more: Any) -> LlmLoad:
    arrivals = {"kind": "constant", "rate_per_s": rate_per_s, "duration_s": duration_s}
    return parse(LlmLoad, {"url": url, "arrivals": arrivals, "prompts": {"tokens": {"mean": 5}}, **more}, "load")


def outcomes(run: Run) -> dict[str, int]:
    return dict(Counter(sample["outcome"] for sample in run.samples))


def test_a_slow_server_gets_the_whole_load(llm_server: Callable[..., str], tmp_path: Path) -> None:
    """Everything is due within a second while each answer takes three: a closed loop could not have sent it."""
    run = perform(load(llm_server(base_ms=3000, chunks=2), 30, 1), tmp_path / "out")
    assert outcomes(run) == {"ok": 30}
    assert max(sample["sent_s"] for sample in run.samples) < min(sample["first_token_s"] for sample in run.samples)
    assert run.ended == ""


def test_workers_share_the_load_and_pool_their_samples(llm_server: Callable[..., str], tmp_path: Path) -> None:
    results = gather(perform(load(llm_server(drop_every=4), 10, 3), tmp_path / "out", workers=2))
    assert Counter(sample["worker"] for sample in results.run.samples) == {0: 15, 1: 15}
    assert [sample["due_s"] for sample in results.run.samples] == pytest.approx([i / 10 for i in range(30)])
    # 7 of the server's 30 requests are numbers that 4 divides
    assert outcomes(results.run) == {"ok": 23, "dropped": 7}
    assert results.metrics["failure"].values.sum() == 7


def test_conversations_take_their_history_along(tmp_path: Path) -> None:
    with scripted_llm() as llm:
        url = llm.url.removesuffix("/v1")
        run = perform(load(url, 4, 1, model="scripted", turns=3, think_s={"mean": 0.1}), tmp_path / "out")
    assert outcomes(run) == {"ok": 12}
    roles = Counter(" ".join(message["role"] for message in messages) for messages in llm.asked)
    assert roles == {"user" + " assistant user" * turn: 4 for turn in range(3)}
    assert all(messages[1]["content"] == llm.reply for messages in llm.asked if len(messages) > 1)
    turns = [sample for sample in run.samples if sample["conversation"] == 0]
    assert [sample["turn"] for sample in turns] == [0, 1, 2]
    assert turns[1]["due_s"] == pytest.approx(turns[0]["ended_s"] + 0.1)


def test_requests_after_a_failed_one_are_counted_as_never_sent(llm_server: Callable[..., str], tmp_path: Path) -> None:
    """Two conversations of three requests each fail at their first."""
    url = llm_server(base_ms=5, chunk_ms=1, status_every=1)
    results = gather(perform(load(url, 4, 0.5, turns=3, think_s={"mean": 0.1}), tmp_path / "out"))
    assert outcomes(results.run) == {"status": 2}
    assert results.document()["not_sent"] == 4


def test_samples_come_back_from_parquet(llm_server: Callable[..., str], tmp_path: Path) -> None:
    written = gather(perform(load(llm_server(error_every=3, clocks=True), 10, 2), tmp_path / "out"))
    found = read_results(tmp_path / "out")
    assert found.llm_samples == written.llm_samples
    assert found.document() == written.document()
    assert not list((tmp_path / "out").glob("*.jsonl")) or [p.name for p in (tmp_path / "out").glob("*.jsonl")] == [
        "plans.jsonl"
    ]


def test_a_server_that_dies_ends_the_run_and_its_samples_stay(llm_server: Callable[..., str], tmp_path: Path) -> None:
    run = perform(load(llm_server(base_ms=10, die_after=10), 10, 60, give_up_after_s=2), tmp_path / "out")
    assert run.ended.startswith("nothing could be reached for 2 s")
    found = outcomes(run)
    assert found["ok"] >= 6 and found["ok"] + found["dropped"] == 10
    assert set(found) == {"ok", "dropped", "refused"}
    assert 15 <= len(run.samples) < 100
    assert gather(run).void == [f"the run ended early: {run.ended}"]


def test_a_worker_that_dies_ends_the_run(llm_server: Callable[..., str], tmp_path: Path) -> None:
    def kill_a_worker(line: dict[str, Any]) -> None:
        if line["requests"] and not killed:
            generator = next(iter(_children(os.getpid(), "loadtests.generator")))
            killed.append(next(iter(_children(generator, "--worker"))))
            os.kill(killed[0], signal.SIGKILL)

    killed: list[int] = []
    run = perform(load(llm_server(base_ms=10), 10, 60), tmp_path / "out", workers=2, progress=kill_a_worker)
    assert run.ended == "a worker died"
    assert run.samples


def test_locusts_page_shows_the_run_and_can_stop_it(llm_server: Callable[..., str], tmp_path: Path) -> None:
    def look(line: dict[str, Any]) -> None:
        if line["requests"] >= 5 and not seen:
            seen.append(httpx.get(f"http://127.0.0.1:{port}/stats/requests", trust_env=False).json())
            httpx.post(f"http://127.0.0.1:{port}/stop", trust_env=False)

    seen: list[dict[str, Any]] = []
    port = free_port()
    run = perform(load(llm_server(base_ms=10), 10, 60), tmp_path / "out", web_port=port, progress=look)
    assert {row["name"] for row in seen[0]["stats"]} == {"due to first token", "Aggregated"}
    assert run.ended == "stopped on locust's page"
    assert len(run.samples) >= 5


def test_a_server_that_is_down_from_the_start(tmp_path: Path) -> None:
    with pytest.raises(NothingThere, match="nothing answers at"):
        perform(load("http://127.0.0.1:9", 10, 1), tmp_path / "out")


def test_a_queue_that_only_grows_ends_the_run(llm_server: Callable[..., str], tmp_path: Path) -> None:
    run = perform(load(llm_server(base_ms=120_000), 3, 120, timeout_s=300), tmp_path / "out", stop_when_growing=True)
    assert run.ended == "the queue only grows"
    assert set(outcomes(run)) == {"interrupted"}


def test_a_sweep_finds_a_known_knee(llm_server: Callable[..., str], tmp_path: Path) -> None:
    """Four at a time, 0.4 s each: ten a second. 5 and 10 hold, 20 does not."""
    url = llm_server(base_ms=200, chunks=11, chunk_ms=20, slots=4)
    done = subprocess.run(
        command(
            "sweep", "llm", "--url", url, "--set", "arrivals={kind: constant, rate_per_s: 5, duration_s: 2.5}",
            "--set", "turns=1", "--set", "slo={due_ttft_ms: 500}", "--tolerance", "1", "--out", str(tmp_path), "--json",
        ),
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["holds_per_s"], found["fails_per_s"]) == (10, 20)
    assert "Latency against load" in (tmp_path / "report.html").read_text()


def test_a_folder_that_holds_something_is_left_alone(llm_server: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(InputError, match="not empty"):
        perform(load(llm_server(), 1, 1), tmp_path)


def test_keys_are_sent_and_left_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tenants = [{"name": "a", "key_env": "A_TENANTS_KEY"}]
    with scripted_llm() as llm:
        asked = load(llm.url.removesuffix("/v1"), 5, 1, model="scripted", tenants=tenants)
        with pytest.raises(InputError, match="A_TENANTS_KEY"):
            perform(asked, tmp_path / "unset")
        monkeypatch.setenv("A_TENANTS_KEY", "sk-very-secret")
        gather(perform(asked, tmp_path / "out"))
    assert llm.authorized == {"Bearer sk-very-secret"}
    assert not any(b"sk-very-secret" in path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())


def test_a_full_disk_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "samples-0.jsonl").symlink_to("/dev/full")
    schedule = Schedule([], Journal(tmp_path, 0), 10)
    schedule.record({"detail": ""}, "ok")
    assert schedule.ended_because.startswith("the samples could not be written: No space left")


def test_a_full_disk_at_the_end_keeps_the_journals(llm_server: Callable[..., str], tmp_path: Path) -> None:
    run = perform(load(llm_server(base_ms=1), 5, 1), tmp_path / "out")
    (tmp_path / "out" / "samples.parquet").symlink_to("/dev/full")
    with pytest.raises(InputError, match=r"No space left.*samples-\*\.jsonl"):
        gather(run)
    assert len((tmp_path / "out" / "samples-0.jsonl").read_text().splitlines()) == 5


def test_a_journal_cut_short_gives_what_is_whole(tmp_path: Path) -> None:
    from loadtests import journal

    (tmp_path / "samples-0.jsonl").write_text('{"due_s": 1}\n{"due_s": 2}\n{"due')
    assert list(journal.read(tmp_path)) == [{"due_s": 1}, {"due_s": 2}]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from cli.main import main; main()", "loadtest", *arguments]


def test_ctrl_c_keeps_the_report(llm_server: Callable[..., str], tmp_path: Path) -> None:
    arguments = ["llm", "--url", llm_server(base_ms=50), "--out", str(tmp_path / "out"), "--json"]
    with subprocess.Popen(
        command(*arguments, "--set", "arrivals.rate_per_s=10", "--set", "arrivals.duration_s=600"),
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        journal = tmp_path / "out" / "samples-0.jsonl"
        while not journal.exists() or len(journal.read_text().splitlines()) < 5:
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    document = json.loads(out)
    assert document["ended"] == "interrupted"
    assert document["outcomes"]["ok"] >= 5
    assert "Figures" in (tmp_path / "out" / "report.html").read_text()


def test_the_generator_does_not_outlive_its_parent(llm_server: Callable[..., str], tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from pathlib import Path\nfrom tests.loadtests.test_run import load\nfrom loadtests.run import perform\n"
        "perform(load(sys.argv[1], 5, 600), Path(sys.argv[2]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, llm_server(base_ms=20), str(tmp_path / "out")], cwd=ROOT
    ) as parent:
        journal = tmp_path / "out" / "samples-0.jsonl"
        while not journal.exists() or not journal.read_text():
            assert parent.poll() is None
            time.sleep(0.1)
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        parent.kill()
    deadline = time.monotonic() + 30
    while any(_alive(int(child)) for child in children):
        assert time.monotonic() < deadline, "the generator goes on without its parent"
        time.sleep(0.2)
    assert children


def _children(parent: int, argument: str) -> list[int]:
    """The processes whose parent is `parent` and whose command line has the argument."""
    found = []
    for process in psutil.Process(parent).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if argument in process.cmdline():
                found.append(process.pid)
    return found


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.mark.parametrize(
    ("limit_ms", "rate_per_s", "code", "said"),
    [(5000, 10, 0, "pass: due_ttft_ms"), (1, 10, 1, "fail: due_ttft_ms"), (5000, 2, 2, "inconclusive: due_ttft_ms")],
)
def test_a_gates_verdict_is_the_exit_code(
    llm_server: Callable[..., str], tmp_path: Path, limit_ms: float, rate_per_s: float, code: int, said: str
) -> None:
    gate = tmp_path / "gate.yaml"
    gate.write_text(f"minimum_samples: 5\nchecks:\n  - {{metric: due_ttft_ms, statistic: p95, at_most: {limit_ms}}}\n")
    arrivals = f"arrivals={{kind: constant, rate_per_s: {rate_per_s}, duration_s: 1}}"
    options = ["--gate", str(gate), "--out", str(tmp_path / "out"), "--set", arrivals]
    done = subprocess.run(
        command("llm", "--url", llm_server(base_ms=20), *options), cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["chat"], 2, "No such command 'chat'"),
        (["llm", "--url", "http://192.0.2.1"], 2, "--allow-remote"),
        (["llm", "--url", "http://127.0.0.1:9"], 2, "nothing answers at"),
        (["llm", "nowhere.yaml"], 2, "nowhere.yaml"),
        (["llm", "--set", "arrivals.rate_per_s=0"], 2, "schedule is empty"),
        (["llm", "--gate", "configs/gates/voice.yaml"], 2, "no such metric"),
        (["truth", "--case", "none"], 2, "no such case"),
        (["truth", "--peer", "none"], 2, "no such tool"),
        (["sweep", "llm", "--set", "arrivals={kind: trace, path: x}"], 2, "a sweep needs rate_per_s"),
        (["compare", "nowhere", "nowhere"], 2, "holds no finished run"),
    ],
)
def test_bad_input_is_told_and_leaves_stdout_alone(arguments: list[str], code: int, said: str) -> None:
    done = subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
