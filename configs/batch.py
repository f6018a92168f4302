"""Batch work: where its books and files are, its limits, and how it keeps out of the callers' way."""

from typing import Annotated

from pydantic import Field

from configs.schema import Frozen
from configs.state import state_dir

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class HarvestLimits(Frozen):
    """The harvest controller's (planning.policies.harvest). Concurrency counts rows in flight.

    ceiling None: three quarters of what the tier's engines run at once. A waiting caller does not evict a running row,
    so batch must leave places free.
    """

    target_ttft_ms: Positive = 400.0
    start: Annotated[float, Field(ge=0)] = 2.0
    floor: Annotated[float, Field(ge=0)] = 0.0
    ceiling: Positive | None = None
    interval_s: Positive = 0.5
    settle_s: Positive = 2.0


class BatchConfig(Frozen):
    """`firstclause up --config`'s `batch`."""

    database: str | None = None
    """SQLAlchemy's: postgresql+psycopg://user@host/name for several nodes; None: batch.db in the state directory."""
    files: str | None = None
    """fsspec's URL of the folder for contents and work (s3://bucket/batch); None: batch/ in the state directory."""
    max_file_bytes: Count = 209_715_200
    max_rows: Count = 50_000
    max_errors: Count = 1000
    """Validation errors that are kept; a file has at least these."""
    window_rows: Count = 8192
    window_bytes: Annotated[int, Field(ge=65_536)] = 16_777_216
    """Rows are ordered by prefix, and equal ones found, in windows of so many rows or bytes: never a whole file."""
    jobs_at_once: Annotated[int, Field(ge=1, le=64)] = 2
    lease_s: Positive = 30.0
    """A worker that says nothing for so long has lost its batch to another."""
    idle_s: Positive = 60.0
    """A worker with nothing to do ends after so long."""
    row_timeout_s: Positive = 600.0
    row_attempts: Count = 5
    """Tries of a row that the engine fails on. Refusals (429, 503, nobody there) do not count."""
    engine_url: str | None = None
    """Another OpenAI-compatible server for the rows, without /v1; None: this deployment's LLM tier."""
    harvest: HarvestLimits = HarvestLimits()

    def ceiling(self, seats: int) -> int:
        """The most rows in flight where the tier's engines run `seats` requests at once."""
        return int(self.harvest.ceiling or max(1, seats * 3 // 4))

    def database_url(self) -> str:
        return self.database or f"sqlite:///{state_dir() / 'batch.db'}"

    def files_url(self) -> str:
        return self.files or str(state_dir() / "batch")
