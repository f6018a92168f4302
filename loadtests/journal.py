"""Samples on disk as they end, a line each: what was measured outlives whatever ends the run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Journal:
    """One worker's samples. Raises OSError where the disk is full."""

    def __init__(self, folder: Path, worker: int) -> None:
        self._path = folder / f"samples-{worker}.jsonl"
        self._worker = worker

    def write(self, sample: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"worker": self._worker, **sample}) + "\n")


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """Every worker's samples. A last line that a full disk or a kill cut short is left out."""
    for path in sorted(folder.glob("samples-*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                sample = json.loads(line)
            except ValueError:
                continue
            yield sample
