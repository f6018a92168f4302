"""A worker: takes batches by their deadlines and brings each to its end. Its death costs no row that was finished.

One batch after the other in each of a few threads, and one thread more for those that only have to be ended, so that a
cancelled batch does not wait behind a long one.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

from batch import pipeline
from batch.assembly import CANCELLED, EXPIRED, Rest, assemble, error_id, output_id
from batch.engine import Tier
from batch.errors import LeaseLost, is_disk_full
from batch.files import Contents
from batch.gate import Fares
from batch.inference import InferenceSpec
from batch.journal import Finished
from batch.lifecycle import Status, WrongStatus
from batch.metrics import JobMetrics
from batch.rows import LineError
from batch.share import Share
from batch.source import Source
from batch.store import MAX_FRUITLESS, Store
from batch.tables import Batch
from batch.validation import Findings, Stopped, validate
from configs.batch import BatchConfig

log = logging.getLogger("firstclause.batch")
WATCH_EVERY_S = 0.5
RETRY_IN_S = 10.0
Why = Literal["", "lost", "cancelled", "expired"]
END: dict[Why, tuple[Status, Rest]] = {"cancelled": ("cancelled", CANCELLED), "expired": ("expired", EXPIRED)}


class Worker:
    """Works off the store's batches until there are none."""

    def __init__(
        self, config: BatchConfig, tier: Tier, share: Share, clock: Callable[[], float] = time.time
    ) -> None:  # fmt: skip
        self._config, self._tier, self._share, self._clock = config, tier, share, clock
        self._store = Store(config.database_url(), clock)
        self._contents = Contents(config.files_url())
        self._busy = 0
        self._busy_changed = threading.Lock()

    def work(self) -> None:
        """Returns when there was nothing to do for idle_s."""
        threads = [threading.Thread(target=self._loop, args=(False,)) for _ in range(self._config.jobs_at_once)]
        threads.append(threading.Thread(target=self._loop, args=(True,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._share.close()

    def _loop(self, only_ending: bool) -> None:
        idle_since = time.monotonic()
        while self._busy or time.monotonic() - idle_since < self._config.idle_s:
            name = f"worker-{uuid.uuid4().hex[:12]}"
            batch = self._store.claim(name, self._config.lease_s, only_ending)
            if batch is None:
                time.sleep(WATCH_EVERY_S)
                continue
            with self._counted():
                Job(self, batch, name).run()
            idle_since = time.monotonic()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._busy_changed:
            self._busy += 1
        try:
            yield
        finally:
            with self._busy_changed:
                self._busy -= 1


class Job:
    """One worker's hold on one batch."""

    def __init__(self, worker: Worker, batch: Batch, name: str) -> None:
        self._config, self._tier, self._share = worker._config, worker._tier, worker._share
        self._store, self._contents, self._clock = worker._store, worker._contents, worker._clock
        self._batch, self._name = batch, name
        self._gate: Any = None
        self._told: Any = None
        self._finished: Finished | None = None
        self._why: Why = ""
        self._fares = Fares(0)
        self._begun_s = self._clock()

    def run(self) -> None:
        """Bring the batch to its end, or let it go for another try. Raises nothing that a batch can cause."""
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watch.start()
        try:
            self._run()
        except (LeaseLost, Stopped):
            log.warning("batch %s is another worker's now", self._batch.id)
        except Exception as error:  # noqa: BLE001  # a job must not take the worker with it
            self._let_go(error)
        finally:
            over.set()
            watch.join()
            self._share.leave(self._name)

    def _run(self) -> None:
        self._why = self._ended(self._batch)
        batch = self._batch
        if batch.fruitless > MAX_FRUITLESS:
            return self._fail("worker_died", f"{MAX_FRUITLESS} workers gave this batch up without finishing a row")
        if self._why and batch.in_progress_at is None:
            return self._advance(END[self._why][0])
        try:
            opened = partial(self._contents.open, batch.input_file_id)
            source = Source(opened, batch.endpoint, self._config.window_rows, self._config.window_bytes)
            findings = self._validated(source)
        except FileNotFoundError:
            return self._fail("file_not_found", "the input file's contents are not there")
        except Stopped:
            if self._why not in END:
                raise
            return self._advance(END[self._why][0])
        if findings is None:
            return None
        if not self._why:
            self._infer(findings)
        self._finish(source, findings)

    def _validated(self, source: Source) -> Findings | None:
        """What is in the file; None where it has errors, and the batch has failed."""
        config = self._config
        findings = validate(source, config.max_rows, config.max_errors, lambda: bool(self._why))
        if findings.model is not None and not findings.errors and self._batch.in_progress_at is None:
            known = self._tier.models()
            if known is not None and findings.model not in known:
                message = f"There is no model {findings.model}; there are {', '.join(sorted(known))}."
                findings.errors.append(
                    LineError("model_not_found", message, "body.model", findings.spans[0].first_row + 1)
                )
        if findings.errors:
            self._advance("failed", errors=[error.document() for error in findings.errors])
            return None
        self._finished = Finished(self._contents, self._contents.work(self._batch.id), findings.last_row)
        self._finished.refresh()
        if self._batch.status == "validating":
            self._advance("in_progress", total=findings.rows, model=findings.model)
        return findings

    def _infer(self, findings: Findings) -> None:
        """Returns when all rows are finished, or `_why` says why not."""
        assert self._finished is not None
        config, batch = self._config, self._batch
        given = pipeline.Input(
            config.files_url(), batch.input_file_id, batch.endpoint, config.window_rows, config.window_bytes
        )
        spec = InferenceSpec(
            config.files_url(), self._contents.work(batch.id), findings.last_row, batch.endpoint,
            batch.tenant, self._tier, config.row_attempts,
        )  # fmt: skip
        self._gate = pipeline.make_gate()
        try:
            for _ in pipeline.run(given, findings.spans, self._finished, spec, self._gate):
                if self._why:
                    break
        finally:
            self._gate = None
        if self._why == "lost":
            raise LeaseLost(batch.id)

    def _finish(self, source: Source, findings: Findings) -> None:
        """Write the files and the last status."""
        status: Status
        rest: Rest | None
        status, rest = END.get(self._why, ("completed", None))
        if status == "completed":
            try:
                self._advance("finalizing")
            except WrongStatus:  # cancelled just now
                status, rest = END["cancelled"]
        finished = assemble(self._contents, self._batch.id, source, findings.last_row, rest)
        if finished.completed + finished.failed < findings.rows:
            raise RuntimeError(f"{findings.rows - finished.completed - finished.failed} rows are in no file")
        values: dict[str, Any] = {"completed": finished.completed, "failed": finished.failed}
        for column, id, rows in (
            ("output_file_id", output_id(self._batch.id), finished.completed),
            ("error_file_id", error_id(self._batch.id), finished.failed),
        ):
            if rows:
                form = "parquet" if source.is_parquet else "jsonl"
                name = f"{self._batch.id}_{column.split('_')[0]}.{form}"
                size = self._contents.size_bytes(id)
                values[column] = self._store.add_file(self._batch.tenant, name, "batch_output", size, id).id
        self._advance(status, usage=_usage(finished), report=self._report(finished), **values)
        self._contents.remove_work(self._batch.id)
        for unused in self._store.unused_contents():
            self._contents.remove(unused)
        log.info("batch %s is %s: %d good, %d bad rows", self._batch.id, status, finished.completed, finished.failed)

    def _advance(self, status: Status, **values: Any) -> None:
        self._batch = self._store.advance(self._batch.id, self._name, status, **values)

    def _fail(self, code: str, message: str) -> None:
        self._advance("failed", errors=[LineError(code, message, None, None).document()])

    def _let_go(self, error: Exception) -> None:
        """Something outside the batch broke: another try later, as long as the deadline allows."""
        log.exception("batch %s is put back", self._batch.id)
        late = self._clock() >= self._batch.expires_at
        try:
            if late and is_disk_full(error):
                return self._fail("no_space", "the disk was full until the deadline")
            self._store.release(self._batch.id, self._name, RETRY_IN_S)
        except Exception:  # then the lease runs out
            log.exception("batch %s keeps its lease", self._batch.id)
        return None

    def _watch(self, over: threading.Event) -> None:
        """Beside the work: hold the lease, count, see cancels and the deadline, say how much may be in flight."""
        renewed_s = 0.0
        metrics: JobMetrics | None = None
        while not over.wait(WATCH_EVERY_S):
            try:
                finished, gate = self._finished, self._gate
                if finished is not None:
                    metrics = metrics or JobMetrics(finished)
                    finished.refresh()
                    metrics.observe()
                now_s = time.monotonic()
                if now_s - renewed_s >= min(2.0, self._config.lease_s / 3):
                    counts = (finished.completed, finished.failed) if finished is not None else (0, 0)
                    batch = self._store.renew(
                        self._batch.id, self._name, self._config.lease_s, *counts, self._report(finished)
                    )
                    renewed_s = now_s
                    self._why = self._why or self._ended(batch)
                if gate is not None:
                    self._steer(gate, finished)
            except LeaseLost:
                if not over.is_set():
                    self._why = "lost"
                return
            except Exception:  # a database or an actor that is away for a moment
                log.exception("watching batch %s", self._batch.id)

    def _steer(self, gate: Any, finished: Finished | None) -> None:
        """Waits for nothing: an actor that is slow to answer must not cost the lease."""
        import ray

        if self._told is not None:
            ready, _ = ray.wait([self._told], timeout=0)
            if not ready:
                return
            self._fares = ray.get(self._told)
        left = self._batch.total - (finished.completed + finished.failed if finished is not None else 0)
        allowed = self._share.allowed(self._name, left, self._batch.expires_at, self._fares)
        self._told = gate.set.remote(allowed, bool(self._why))

    def _ended(self, batch: Batch) -> Why:
        if batch.status == "cancelling":
            return "cancelled"
        return "expired" if self._clock() >= batch.expires_at else ""

    def _report(self, finished: Finished | None) -> dict[str, Any]:
        """What `batch status` shows beside OpenAI's fields."""
        report: dict[str, Any] = self._share.report(self._name)
        report |= {"in_flight": self._fares.in_flight, "trouble": self._fares.trouble or None}
        if finished is not None:
            report["usage"] = _usage(finished)
        return report


def _usage(finished: Finished) -> dict[str, Any]:
    """OpenAI's usage object: what was paid for."""
    return {
        "input_tokens": finished.prompt_tokens,
        "input_tokens_details": {"cached_tokens": finished.cached_tokens},
        "output_tokens": finished.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": finished.prompt_tokens + finished.output_tokens,
    }
