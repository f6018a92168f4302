"""A batch's input, JSONL or Parquet, read in spans: pieces that can be read alone, none of them held whole.

JSONL: blank lines are passed over, and a byte order mark. Parquet: columns custom_id, method, url and body, body a JSON
text or a struct, whose nulls are absent keys.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import pyarrow.parquet as pq

from batch.rows import LineError, Request, read_json, read_line, read_row

BOM = b"\xef\xbb\xbf"
PARQUET_MAGIC = b"PAR1"
MAX_LINE_BYTES = 4_194_304


@dataclass(frozen=True)
class Span:
    """`at`: a byte offset (JSONL) or a row group (Parquet). `first_row`: its first row's (line's) number, from 0."""

    at: int
    first_row: int


class Source:
    """An input file. Its rows are numbered from 0; a blank line has a number too."""

    def __init__(
        self, opened: Callable[[], IO[bytes]], endpoint: str, window_rows: int, window_bytes: int
    ) -> None:  # fmt: skip
        """`opened`: the file, from its beginning. Raises what that raises."""
        self._opened, self._endpoint = opened, endpoint
        self._window_rows, self._window_bytes = window_rows, window_bytes
        with opened() as file:
            self.is_parquet = file.read(4) == PARQUET_MAGIC

    def scan(self) -> Iterator[tuple[Span, Iterator[Request | LineError]]]:
        """All spans in order, with their rows: the rows of one have to be read before the next is asked for."""
        with self._opened() as file:
            if self.is_parquet:
                table = _parquet(file)
                first_row = 0
                for group in range(table.num_row_groups):
                    yield Span(group, first_row), self._group(table, group, first_row)
                    first_row += table.metadata.row_group(group).num_rows
                return
            at = first_row = 0
            while True:
                lines = _Lines(file, at, first_row, self._window_rows, self._window_bytes)
                yield Span(at, first_row), self._requests(lines)
                if lines.ended:
                    return
                at, first_row = lines.at, lines.row

    def windows(self, span: Span) -> Iterator[list[Request]]:
        """The requests of one span, in windows. For a file that has passed validation."""
        with self._opened() as file:
            if self.is_parquet:
                found = self._group(_parquet(file), span.at, span.first_row)
            else:
                found = self._requests(_Lines(file, span.at, span.first_row, self._window_rows, self._window_bytes))
            window: list[Request] = []
            for request in found:
                if isinstance(request, Request):
                    window.append(request)
                if len(window) == self._window_rows:
                    yield window
                    window = []
            if window:
                yield window

    def _requests(self, lines: "_Lines") -> Iterator[Request | LineError]:
        for row, line in lines:
            if len(line) > MAX_LINE_BYTES:
                yield LineError("line_too_long", f"A line has at most {MAX_LINE_BYTES} bytes.", None, row + 1)
            elif line.strip():
                yield read_line(line, row, self._endpoint)

    def _group(self, table: pq.ParquetFile, group: int, first_row: int) -> Iterator[Request | LineError]:
        columns = [name for name in ("custom_id", "method", "url", "body") if name in table.schema_arrow.names]
        row = first_row
        rows = min(1024, self._window_rows)
        for found in table.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False):
            for data in found.to_pylist():
                yield read_row(data | {"body": _body(data.get("body"))}, row, self._endpoint)
                row += 1


class _Lines:
    """The numbered lines of one window of a file; afterwards `at`, `row` and `ended` say where it left off."""

    def __init__(self, file: IO[bytes], at: int, row: int, max_rows: int, max_bytes: int) -> None:
        self.at, self.row, self.ended = at, row, False
        self._file, self._last_row, self._last_at = file, row + max_rows, at + max_bytes

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        self._file.seek(self.at)
        while self.row < self._last_row and self.at < self._last_at:
            line = self._file.readline(MAX_LINE_BYTES + 1)
            if not line:
                self.ended = True
                return
            start, end = self.at, line
            while len(end) == MAX_LINE_BYTES + 1 and not end.endswith(b"\n"):  # pass over the rest of it
                self.at += len(end)
                end = self._file.readline(MAX_LINE_BYTES + 1)
            self.at += len(end)
            yield self.row, line.removeprefix(BOM) if start == 0 else line
            self.row += 1


def _parquet(file: IO[bytes]) -> pq.ParquetFile:
    # Without these two a whole row group's columns are read ahead into memory.
    return pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)


def _body(value: object) -> object:
    if isinstance(value, str):
        try:
            return read_json(value)
        except (ValueError, RecursionError):
            return value
    return _without_nulls(value)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value
