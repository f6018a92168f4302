"""The job on a real Ray cluster with a scripted engine: its ends, its faults, its deaths."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batch.files import Contents
from batch.store import Store, migrate
from batch.tables import Batch
from configs.batch import BatchConfig
from tests.support.batch_engine import BatchEngine, batch_engine
from tests.support.batch_worker import BatchCluster, batch_cluster

ENDPOINT = "/v1/chat/completions"
WAIT_S = 180


class Bench:
    """A store, contents, an engine and a cluster, and what a test does with them."""

    def __init__(self, folder: Path, engine: BatchEngine, **config: Any) -> None:
        self.config = BatchConfig(
            database=f"sqlite:///{folder}/batch.db", files=str(folder / "batch"), lease_s=6, window_rows=50, **config
        )
        migrate(self.config.database_url())
        self.store, self.contents = Store(self.config.database_url()), Contents(self.config.files_url())
        self.engine, self.log = engine, folder / "cluster.log"
        self.cluster: BatchCluster | None = None

    def started(self) -> AbstractContextManager[BatchCluster]:
        return batch_cluster(self.config, self.engine.url, self.log)

    def submit(self, data: bytes, window: str = "24h") -> str:
        file = self.store.add_file("alice", "rows", "batch", len(data))
        with self.contents.create(file.id) as written:
            written.write(data)
        return self.store.create_batch("alice", ENDPOINT, file.id, window).id

    def wait(self, id: str, until: Callable[[Batch], bool]) -> Batch:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            batch = self.store.batch("alice", id)
            if until(batch):
                return batch
            time.sleep(0.05)
        said = self.log.read_text(errors="replace")[-4000:]
        raise AssertionError(f"{batch.status} {batch.completed}+{batch.failed}/{batch.total}\n{said}")

    def lines(self, id: str | None) -> list[dict[str, Any]]:
        if id is None:
            return []
        self.store.file("alice", id)
        return [json.loads(line) for line in b"".join(self.contents.chunks(id)).splitlines()]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One cluster for all tests that leave it alive."""
    with batch_engine() as engine:
        bench = Bench(tmp_path_factory.mktemp("bench"), engine)
        with bench.started() as bench.cluster:
            yield bench


@pytest.fixture
def bench(shared: Bench) -> Bench:
    shared.engine.reset()
    return shared


@pytest.fixture
def engine(bench: Bench) -> BatchEngine:
    return bench.engine


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
    batch = bench.wait(id, ended)
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
    bench.wait(id, ended)
    wanted = {prompt: place for place, prompt in enumerate(sorted(prompts))}
    far = max(abs(wanted[prompt] - place) for place, prompt in enumerate(engine.order))
    assert len(engine.order) == 50 and far <= 16, "eight at once, in order"


def test_cancelling_keeps_what_is_done_and_names_the_rest(bench: Bench, engine: BatchEngine) -> None:
    engine.row_s = 0.2
    id = bench.submit(rows([f"row {number}" for number in range(400)]))
    bench.wait(id, lambda batch: batch.completed > 10)
    assert bench.store.cancel("alice", id).status == "cancelling"
    batch = bench.wait(id, ended)
    assert batch.status == "cancelled"
    assert batch.completed + batch.failed == 400 and 10 < batch.completed < 400
    good, bad = bench.lines(batch.output_file_id), bench.lines(batch.error_file_id)
    assert Counter(line["custom_id"] for line in good + bad) == Counter(f"id-{number}" for number in range(400))
    assert {line["error"]["code"] for line in bad} == {"batch_cancelled"}


def test_a_shut_engine_makes_no_answers_and_the_deadline_ends_it(bench: Bench, engine: BatchEngine) -> None:
    engine.row_s = 0.1
    id = bench.submit(rows([f"row {number}" for number in range(300)]))
    bench.wait(id, lambda batch: batch.completed > 10)
    engine.shut = True
    batch = bench.wait(id, lambda batch: "503" in str(batch.report))
    move_deadline(bench, id)
    batch = bench.wait(id, ended)
    assert batch.status == "expired"
    good, bad = bench.lines(batch.output_file_id), bench.lines(batch.error_file_id)
    assert len(good) > 10 and len(good) + len(bad) == 300
    assert {line["error"]["code"] for line in bad} == {"batch_expired"}


def test_a_batch_cancelled_before_it_began_has_no_files(bench: Bench, engine: BatchEngine) -> None:
    id = bench.submit(rows(["row"]))
    bench.store.cancel("alice", id)
    batch = bench.wait(id, ended)
    assert batch.status == "cancelled"
    if batch.in_progress_at is None:
        assert batch.output_file_id is None and batch.error_file_id is None and engine.asked["row"] == 0
    assert bench.store.cancel("alice", id).status == "cancelled"


def test_an_unknown_model_costs_nothing(bench: Bench, engine: BatchEngine) -> None:
    batch = bench.wait(bench.submit(rows(["row"], model="other")), ended)
    assert batch.status == "failed" and batch.errors is not None
    assert [error["code"] for error in batch.errors] == ["model_not_found"]
    assert not engine.asked


def test_a_file_that_is_deleted_while_its_batch_runs(bench: Bench, engine: BatchEngine) -> None:
    engine.row_s = 0.1
    id = bench.submit(rows([f"row {number}" for number in range(120)]))
    batch = bench.wait(id, lambda batch: batch.completed > 5)
    bench.store.delete_file("alice", batch.input_file_id)
    batch = bench.wait(id, ended)
    assert (batch.status, batch.completed) == ("completed", 120)
    assert not bench.contents.fs.exists(bench.contents.path(batch.input_file_id))


def test_contents_that_are_gone_fail_the_batch(bench: Bench) -> None:
    file = bench.store.add_file("alice", "rows", "batch", 1)
    batch = bench.wait(bench.store.create_batch("alice", ENDPOINT, file.id, "24h").id, ended)
    assert batch.status == "failed" and batch.errors is not None and batch.errors[0]["code"] == "file_not_found"


def test_parquet_in_and_out(bench: Bench, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in rows(["good one", "bad one", "good two"]).splitlines()]
    table = pa.Table.from_pylist([line | {"body": json.dumps(line["body"])} for line in lines])
    pq.write_table(table, tmp_path / "rows.parquet")
    batch = bench.wait(bench.submit((tmp_path / "rows.parquet").read_bytes()), ended)
    assert batch.status == "completed" and batch.output_file_id and batch.error_file_id
    good = pq.read_table(bench.contents.path(batch.output_file_id)).to_pylist()
    bad = pq.read_table(bench.contents.path(batch.error_file_id)).to_pylist()
    assert {row["custom_id"] for row in good} == {"id-0", "id-2"} and [row["custom_id"] for row in bad] == ["id-1"]
    assert "good one" in {json.loads(row["body"])["choices"][0]["message"]["content"] for row in good}
    assert bad[0]["status_code"] == 400 and bad[0]["error"] is None


def move_deadline(bench: Bench, id: str) -> None:
    """Its deadline is now."""
    from sqlalchemy import create_engine, text

    with create_engine(bench.config.database_url()).begin() as connection:
        connection.execute(text("update batches set expires_at = 1 where id = :id"), {"id": id})


@pytest.mark.parametrize("victim", ["ray::BatchWorker", "ray::MapWorker"])
def test_a_kill_loses_doubles_and_repays_nothing(bench: Bench, victim: str) -> None:
    """Of the driver, whose actors live on for a moment; of the actor that asks the engine."""
    assert bench.cluster is not None
    process = bench.cluster.find(victim) if victim == "ray::BatchWorker" else None
    killed_and_resumed(bench, 60, lambda: (process or bench.cluster.find(victim)).kill())  # type: ignore[union-attr]


def test_a_power_cut_loses_doubles_and_repays_nothing(tmp_path: Path) -> None:
    """Everything at once; another cluster goes on. A worker with nothing to do ends."""
    with batch_engine() as engine:
        bench = Bench(tmp_path, engine, idle_s=2)
        with bench.started() as cluster, ExitStack() as heir:
            workers: list[psutil.Process] = []

            def inherit() -> None:
                workers.append(heir.enter_context(bench.started()).find("ray::BatchWorker"))

            killed_and_resumed(bench, 60, cluster.kill, inherit)
            workers[0].wait(WAIT_S)


def killed_and_resumed(
    bench: Bench, after_rows: int, kill: Callable[[], object], then: Callable[[], object] = lambda: None
) -> None:
    """300 rows; `kill` after so many, and `then` what may be needed to go on."""
    total = 300
    bench.engine.row_s = 0.1
    prompts = [f"row {number}" for number in range(total)]
    id = bench.submit(rows(prompts))
    before = bench.wait(id, lambda batch: batch.completed >= after_rows)
    kill()
    finished = journaled(bench, id)
    then()
    batch = bench.wait(id, ended)
    assert batch.status == "completed", batch.errors
    assert before.completed < total and batch.completed == total and batch.error_file_id is None
    found = Counter(line["custom_id"] for line in bench.lines(batch.output_file_id))
    assert found == Counter(f"id-{number}" for number in range(total))
    repaid = [row for row in finished if bench.engine.answered[prompts[row]] > 1]
    assert repaid == [], "what was in the journal is not asked again"


def journaled(bench: Bench, id: str) -> list[int]:
    from batch.journal import Finished

    finished = Finished(bench.contents, bench.contents.work(id), 1000)
    finished.refresh()
    return [int(row) for row in finished.rows.nonzero()[0]]
