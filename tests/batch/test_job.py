"""The job on a real Ray cluster with a scripted engine: its ends, its faults, its deaths."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from batch.files import Contents
from batch.store import Store, migrate
from batch.tables import Batch
from configs.batch import BatchConfig
from tests.support.batch_engine import BatchEngine, batch_engine
from tests.support.batch_worker import WorkerProcess, worker_process

ENDPOINT = "/v1/chat/completions"
WAIT_S = 180


class Bench:
    """A store, contents and an engine, and what a test does with them."""

    def __init__(self, folder: Path, engine: BatchEngine, **config: Any) -> None:
        self.config = BatchConfig(
            database=f"sqlite:///{folder}/batch.db", files=str(folder / "batch"), lease_s=4, idle_s=1.5,
            window_rows=50, **config,
        )  # fmt: skip
        migrate(self.config.database_url())
        self.store, self.contents = Store(self.config.database_url()), Contents(self.config.files_url())
        self.engine, self._folder = engine, folder

    def submit(self, data: bytes, window: str = "24h") -> str:
        file = self.store.add_file("alice", "rows", "batch", len(data))
        with self.contents.create(file.id) as written:
            written.write(data)
        return self.store.create_batch("alice", ENDPOINT, file.id, window).id

    def worker(self, concurrency: int = 16) -> Any:
        return worker_process(self.config, self.engine.url, self._folder / "worker.log", concurrency)

    def wait(self, id: str, until: Callable[[Batch], bool], worker: WorkerProcess | None = None) -> Batch:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            batch = self.store.batch("alice", id)
            if until(batch):
                return batch
            assert worker is None or worker.alive(), worker.log.read_text(errors="replace")[-4000:]
            time.sleep(0.05)
        log = (self._folder / "worker.log").read_text(errors="replace")[-4000:]
        raise AssertionError(f"{batch.status} {batch.completed}+{batch.failed}/{batch.total}\n{log}")

    def lines(self, id: str | None) -> list[dict[str, Any]]:
        if id is None:
            return []
        self.store.file("alice", id)
        return [json.loads(line) for line in b"".join(self.contents.chunks(id)).splitlines()]


@pytest.fixture
def engine() -> Iterator[BatchEngine]:
    with batch_engine() as scripted:
        yield scripted


@pytest.fixture
def bench(tmp_path: Path, engine: BatchEngine) -> Bench:
    return Bench(tmp_path, engine)


def rows(prompts: list[str], **body: Any) -> bytes:
    return b"".join(
        json.dumps(
            {
                "custom_id": f"id-{number}", "method": "POST", "url": ENDPOINT,
                "body": {"model": "m", "messages": [{"role": "user", "content": prompt}], **body},
            }
        ).encode() + b"\n"
        for number, prompt in enumerate(prompts)
    )  # fmt: skip


def ended(batch: Batch) -> bool:
    return batch.status in ("completed", "failed", "expired", "cancelled")


def test_a_batch_with_all_kinds_of_rows(bench: Bench, engine: BatchEngine) -> None:
    """Each row in one file; what only looks like an answer is none; equal rows are paid for once, where they may be."""
    prompts = [f"row {number}" for number in range(100)] + ["refuse me", "bad row", "liar row", "crash row"]
    body = rows(prompts, temperature=0)
    again = [("again-1", {"temperature": 0}), ("again-2", {"temperature": 0}), ("hot", {"temperature": 1})]
    again += [("streamed", {"temperature": 0, "stream": True})]
    for custom_id, more in again:
        line = json.loads(rows(["twin"], **more)) | {"custom_id": custom_id}
        body += json.dumps(line).encode() + b"\n\n"
    id = bench.submit(b"\xef\xbb\xbf" + body)
    with bench.worker() as worker:
        batch = bench.wait(id, ended, worker)
    assert batch.status == "completed", batch.errors
    assert (batch.total, batch.completed, batch.failed) == (108, 104, 4)
    good, bad = bench.lines(batch.output_file_id), bench.lines(batch.error_file_id)
    assert Counter(line["custom_id"] for line in good) == Counter(
        [f"id-{number}" for number in range(101)] + ["again-1", "again-2", "hot"]
    )
    assert {line["custom_id"]: (line["response"] or {}).get("status_code") for line in bad} == {
        "id-101": 400, "id-102": None, "id-103": None, "streamed": 400,
    }  # fmt: skip
    assert {line["error"]["code"] for line in bad if line["error"]} == {"engine_failed"}
    for line in good:
        said = line["response"]["body"]["choices"][0]["message"]["content"]
        wanted = "twin" if not line["custom_id"].startswith("id-") else prompts[int(line["custom_id"][3:])]
        assert said == wanted
    assert engine.answered["twin"] == 2, "the equal ones once, the hot one for itself"
    assert engine.asked["crash row"] == bench.config.row_attempts
    assert {body["priority"] for body in engine.bodies} == {20}
    assert batch.usage is not None and batch.usage["input_tokens"] == 10 * 103
    assert not bench.contents.fs.exists(bench.contents.work(id))


def test_rows_with_one_prefix_are_asked_together(bench: Bench, engine: BatchEngine) -> None:
    prompts = [f"prefix {number % 5}: document {number}" for number in range(50)]
    id = bench.submit(rows(prompts))
    with bench.worker(concurrency=1):
        bench.wait(id, ended)
    assert engine.order == sorted(prompts)


def test_cancelling_keeps_what_is_done_and_names_the_rest(bench: Bench, engine: BatchEngine) -> None:
    engine.row_s = 0.2
    id = bench.submit(rows([f"row {number}" for number in range(400)]))
    with bench.worker(concurrency=8) as worker:
        bench.wait(id, lambda batch: batch.completed > 10, worker)
        assert bench.store.cancel("alice", id).status == "cancelling"
        batch = bench.wait(id, ended, worker)
    assert batch.status == "cancelled"
    assert batch.completed + batch.failed == 400 and 10 < batch.completed < 400
    good, bad = bench.lines(batch.output_file_id), bench.lines(batch.error_file_id)
    assert Counter(line["custom_id"] for line in good + bad) == Counter(f"id-{number}" for number in range(400))
    assert {line["error"]["code"] for line in bad} == {"batch_cancelled"}


def test_a_shut_engine_makes_no_answers_and_the_deadline_ends_it(bench: Bench, engine: BatchEngine) -> None:
    engine.row_s = 0.1
    id = bench.submit(rows([f"row {number}" for number in range(300)]))
    with bench.worker(concurrency=8) as worker:
        bench.wait(id, lambda batch: batch.completed > 10, worker)
        engine.shut = True
        batch = bench.wait(id, lambda batch: bool((batch.report or {}).get("trouble")), worker)
        assert "503" in str(batch.report)
        move_deadline(bench, id)
        batch = bench.wait(id, ended, worker)
    assert batch.status == "expired"
    good, bad = bench.lines(batch.output_file_id), bench.lines(batch.error_file_id)
    assert len(good) > 10 and len(good) + len(bad) == 300
    assert {line["error"]["code"] for line in bad} == {"batch_expired"}


def move_deadline(bench: Bench, id: str) -> None:
    """Its deadline is now."""
    from sqlalchemy import create_engine, text

    with create_engine(bench.config.database_url()).begin() as connection:
        connection.execute(text("update batches set expires_at = 1 where id = :id"), {"id": id})


@pytest.mark.parametrize("victim", ["power", "driver", "inference"])
def test_a_kill_loses_doubles_and_repays_nothing(bench: Bench, engine: BatchEngine, victim: str) -> None:
    """All at once; the driver, while its actors live on for a moment; the actor that asks the engine."""
    killed_and_resumed(bench, engine, victim, after_rows=60)


def killed_and_resumed(bench: Bench, engine: BatchEngine, victim: str, after_rows: int, total: int = 300) -> None:
    engine.row_s = 0.1
    prompts = [f"row {number}" for number in range(total)]
    id = bench.submit(rows(prompts))
    with bench.worker(concurrency=8) as worker:
        before = bench.wait(id, lambda batch: batch.completed >= after_rows, worker)
        finished = journaled(bench, id)
        if victim == "power":
            worker.kill()
        elif victim == "driver":
            worker.kill_driver()
        else:
            worker.find("MapWorker").kill()
            batch = bench.wait(id, ended, worker)
        if victim != "inference":
            with bench.worker(concurrency=8) as heir:
                batch = bench.wait(id, ended, heir)
    assert batch.status == "completed"
    assert batch.completed == total and before.completed <= total
    assert Counter(line["custom_id"] for line in bench.lines(batch.output_file_id)) == Counter(
        f"id-{number}" for number in range(total)
    )
    assert batch.error_file_id is None
    repaid = [row for row in finished if engine.answered[prompts[row]] > 1]
    assert repaid == [], "what was in the journal is not asked again"


def journaled(bench: Bench, id: str) -> list[int]:
    from batch.journal import Finished

    finished = Finished(bench.contents, bench.contents.work(id), 1000)
    finished.refresh()
    return [int(row) for row in finished.rows.nonzero()[0]]
