"""Reading a whole input once before anything is paid for: every line a request, every custom_id there once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from pyarrow import ArrowException

from batch.rows import LineError, Request
from batch.source import Source, Span

ASK_EVERY_ROWS = 1000


class Stopped(Exception):
    """Whoever asked for the validation wants no more of it."""


@dataclass
class Findings:
    """`rows`: requests; `last_row`: one more than the greatest row number."""

    rows: int = 0
    last_row: int = 0
    model: str | None = None
    spans: list[Span] = field(default_factory=list)
    errors: list[LineError] = field(default_factory=list)


def validate(source: Source, max_rows: int | None, max_errors: int, stop: Callable[[], bool]) -> Findings:
    """What is in the input, and the first `max_errors` of its errors. Raises Stopped.

    Memory: 8 bytes a row. custom_ids are compared by a 64-bit hash, and what collides again by the text.
    """
    found = Findings()
    hashes = _Hashes()
    try:
        for span, requests in source.scan():
            found.spans.append(span)
            for request in requests:
                if isinstance(request, LineError):
                    found.errors.append(request)
                    found.last_row = max(found.last_row, (request.line or 0))
                else:
                    _add(found, hashes, request)
                if len(found.errors) >= max_errors:
                    return found
                if max_rows is not None and found.rows > max_rows:
                    found.errors = [LineError("too_many_rows", f"A file has at most {max_rows} rows.", None, None)]
                    return found
                if found.last_row % ASK_EVERY_ROWS == 0 and stop():
                    raise Stopped
    except ArrowException as error:
        found.errors.append(LineError("invalid_file", f"Not a Parquet file that can be read: {error}", None, None))
        return found
    if not found.rows and not found.errors:
        found.errors.append(LineError("empty_file", "There is no request in this file.", None, None))
    if doubled := hashes.doubled():
        found.errors += _duplicates(source, doubled, max_errors - len(found.errors))
        found.errors.sort(key=lambda error: error.line or 0)
    return found


def _add(found: Findings, hashes: "_Hashes", request: Request) -> None:
    found.rows += 1
    found.last_row = request.row + 1
    hashes.add(request.custom_id)
    if found.model is None:
        found.model = request.model
    if request.model != found.model:
        message = f"All rows ask one model; the first asks {found.model}."
        found.errors.append(LineError("model_mismatch", message, "body.model", request.row + 1))


def _duplicates(source: Source, doubled: set[int], limit: int) -> list[LineError]:
    """A second reading: every further row with the custom_id of an earlier one."""
    first: dict[str, int] = {}
    errors: list[LineError] = []
    for _, requests in source.scan():
        for request in requests:
            if not isinstance(request, Request) or _hash(request.custom_id) not in doubled:
                continue
            line = first.setdefault(request.custom_id, request.row + 1)
            if line != request.row + 1 and len(errors) < limit:
                message = f"This custom_id is line {line}'s already."
                errors.append(LineError("duplicate_custom_id", message, "custom_id", request.row + 1))
    return errors


class _Hashes:
    def __init__(self) -> None:
        self._seen = np.zeros(1024, np.uint64)
        self._rows = 0

    def add(self, custom_id: str) -> None:
        if self._rows == len(self._seen):
            self._seen = np.concatenate([self._seen, np.zeros_like(self._seen)])
        self._seen[self._rows] = _hash(custom_id)
        self._rows += 1

    def doubled(self) -> set[int]:
        seen = np.sort(self._seen[: self._rows])
        return set(seen[1:][seen[1:] == seen[:-1]].tolist())


def _hash(custom_id: str) -> int:
    return int.from_bytes(blake2b(custom_id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
