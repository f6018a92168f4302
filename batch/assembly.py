"""A batch's output and error file, made from its journal: each row in exactly one of them, once.

May be done again from the start as often as need be: the files' ids are the batch's own.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from batch import results
from batch.files import Contents
from batch.journal import Entry, Finished
from batch.rows import Request
from batch.source import Source

PARQUET_ROWS = 1000
SCHEMA = pa.schema(
    [("custom_id", pa.string()), ("status_code", pa.int32()), ("body", pa.string()), ("error", pa.string())]
)


@dataclass(frozen=True)
class Rest:
    """Why rows have no answer: code and message of their lines in the error file."""

    code: str
    message: str


EXPIRED = Rest("batch_expired", "This request could not be finished before the batch's deadline.")
CANCELLED = Rest("batch_cancelled", "The batch was cancelled before this request was finished.")


def output_id(batch_id: str) -> str:
    return f"file-{batch_id.removeprefix('batch_')}-output"


def error_id(batch_id: str) -> str:
    return f"file-{batch_id.removeprefix('batch_')}-error"


def assemble(contents: Contents, batch_id: str, source: Source, last_row: int, rest: Rest | None) -> Finished:
    """Write both files (the empty one is removed), with `rest` for rows that are not finished."""
    finished = Finished(contents, contents.work(batch_id), last_row)
    with ExitStack() as stack:
        files = {
            kind: _writer(stack.enter_context(contents.create(id)), source.is_parquet)
            for kind, id in (("O", output_id(batch_id)), ("E", error_id(batch_id)))
        }
        for entry in finished.entries():
            files[entry.kind].write(entry)
        if rest is not None:
            for entry in _unfinished(source, finished, rest):
                files["E"].write(entry)
                finished.rows[entry.row] = True
                finished.failed += 1
        for file in files.values():
            file.close()
    if not finished.completed:
        contents.remove(output_id(batch_id))
    if not finished.failed:
        contents.remove(error_id(batch_id))
    return finished


def _unfinished(source: Source, finished: Finished, rest: Rest) -> Iterator[Entry]:
    for _, requests in source.scan():
        for request in requests:
            if isinstance(request, Request) and not finished.rows[request.row]:
                yield from results.unanswered([request], rest.code, rest.message)


class _Writer(Protocol):
    def write(self, entry: Entry) -> None: ...
    def close(self) -> None: ...


def _writer(file: IO[bytes], is_parquet: bool) -> _Writer:
    """Results have the form that the input had."""
    return _Parquet(file) if is_parquet else _Lines(file)


class _Lines:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, entry: Entry) -> None:
        self._file.write(entry.line + b"\n")

    def close(self) -> None:
        pass


class _Parquet:
    def __init__(self, file: IO[bytes]) -> None:
        self._writer = pq.ParquetWriter(file, SCHEMA)
        self._rows: list[dict[str, object]] = []

    def write(self, entry: Entry) -> None:
        line = json.loads(entry.line)
        response, error = line["response"] or {}, line["error"]
        self._rows.append(
            {
                "custom_id": line["custom_id"],
                "status_code": response.get("status_code"),
                "body": json.dumps(response["body"]) if response else None,
                "error": json.dumps(error) if error else None,
            }
        )
        if len(self._rows) == PARQUET_ROWS:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, SCHEMA))
        self._rows.clear()

    def close(self) -> None:
        self._flush()
        self._writer.close()
