"""One worker's part of a run: its arrivals at their due moments, and when the run is over."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadtests.journal import Journal


@dataclass
class Schedule:
    """The plans due on this worker, the journal, and what has become of them so far. Times are seconds of the run."""

    plans: list[dict[str, Any]]
    journal: Journal
    give_up_after_s: float
    begun: float | None = None
    finished: bool = False
    ended_because: str = ""
    requests: int = 0
    failures: int = 0
    in_flight: int = 0
    _unreachable_since_s: float | None = None

    def begin(self) -> None:
        self.begun = time.monotonic()

    def now_s(self) -> float:
        return 0.0 if self.begun is None else time.monotonic() - self.begun

    def until_due_s(self, due_s: float) -> float:
        assert self.begun is not None
        return max(0.0, self.begun + due_s - time.monotonic())

    def record(self, sample: dict[str, Any], outcome: str) -> None:
        """Keep a sample; ends the run where the disk is full or nothing has been reachable for too long."""
        self.requests += 1
        self.failures += outcome not in ("ok", "interrupted")
        try:
            self.journal.write(sample)
        except OSError as error:
            self.ended_because = f"the samples could not be written: {error.strerror or error}"
        if outcome != "refused":
            self._unreachable_since_s = None
        elif self._unreachable_since_s is None:
            self._unreachable_since_s = self.now_s()
        elif self.now_s() - self._unreachable_since_s >= self.give_up_after_s:
            self.ended_because = f"nothing could be reached for {self.give_up_after_s:g} s: {sample['detail']}"


def read_plans(path: Path, worker: int, workers: int) -> list[dict[str, Any]]:
    """Every `workers`-th plan of the file, from the `worker`-th on."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[worker::workers]]
