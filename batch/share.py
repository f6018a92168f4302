"""How many rows each of a worker's jobs may have in flight."""

from typing import Any, Protocol

from batch.gate import Fares


class Share(Protocol):
    """Divides what batch may use between jobs, each known by its name."""

    def allowed(self, job: str, rows_left: int, deadline_s: float, fares: Fares) -> int:
        """Rows that `job` may have in flight now; `fares` is how it did since it last asked."""
        ...

    def leave(self, job: str) -> None:
        """The job is over."""
        ...

    def report(self, job: str) -> dict[str, Any]:
        """For `batch status`."""
        ...

    def close(self) -> None: ...


class ShareMaker(Protocol):
    """Is sent to a worker, which makes its share of it."""

    def start(self) -> Share: ...


class FixedShare:
    """So many rows at once, equal parts to all jobs: where there is nobody to be considerate of."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._jobs: set[str] = set()

    def start(self) -> "FixedShare":
        return self

    def allowed(self, job: str, rows_left: int, deadline_s: float, fares: Fares) -> int:
        self._jobs.add(job)
        return max(1, self._concurrency // len(self._jobs))

    def leave(self, job: str) -> None:
        self._jobs.discard(job)

    def report(self, job: str) -> dict[str, Any]:
        return {"concurrency": self._concurrency}

    def close(self) -> None:
        pass
