"""The journal of a batch's finished rows: the truth about what was paid for. A row is finished when it is in here.

A folder of segments, each written by one process, appended to and never changed: a process that is killed leaves at
most a torn last line, which is no row. Who comes after writes a segment of its own. The same row twice, which a process
taken for dead can cause, counts once: the first in the order of reading.

    ROW KIND PROMPT_TOKENS CACHED_TOKENS OUTPUT_TOKENS JSON        KIND: O output file, E error file

On a filesystem that cannot append (S3) a segment is written every few seconds: a kill then loses what came since.
"""

import errno
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from batch.files import Contents

Kind = Literal["O", "E"]
REMOTE_EVERY_S, REMOTE_EVERY_BYTES = 5.0, 8_388_608
SYNC_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished row. Tokens are what this row cost: 0 where it shares another's answer."""

    row: int
    kind: Kind
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    line: bytes
    """Its line of the output or error file: JSON without a newline."""

    def encode(self) -> bytes:
        head = f"{self.row} {self.kind} {self.prompt_tokens} {self.cached_tokens} {self.output_tokens} "
        return head.encode() + self.line + b"\n"

    @classmethod
    def decode(cls, text: bytes) -> "Entry":
        row, kind, prompt, cached, output, line = text.rstrip(b"\n").split(b" ", 5)
        return cls(int(row), "O" if kind == b"O" else "E", int(prompt), int(cached), int(output), line)


class Segment:
    """A segment of one's own. After an error it is left, with what it holds, and another begun."""

    def __init__(self, contents: Contents, folder: str) -> None:
        self._contents, self._folder = contents, folder
        contents.fs.makedirs(folder, exist_ok=True)
        self.path = ""
        self._file: int | None = None
        self._held: list[bytes] = []
        self._written_s = self._synced_s = time.monotonic()

    def append(self, *entries: Entry) -> None:
        """Finished when this returns (a local folder) or a few seconds later (a remote one). Raises OSError."""
        data = b"".join(entry.encode() for entry in entries)
        if not self._contents.is_local:
            self._held.append(data)
            if sum(map(len, self._held)) >= REMOTE_EVERY_BYTES:
                self.flush()
            return
        if self._file is None:
            self.path = self._new_path()
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            if (written := os.write(self._file, data)) != len(data):
                raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be written")
        except OSError:
            self.close()
            raise

    def tick(self) -> None:
        """To be called now and then: brings what was appended to where a power cut does not reach it."""
        now_s = time.monotonic()
        if self._file is not None and now_s - self._synced_s >= SYNC_EVERY_S:
            self._synced_s = now_s
            os.fsync(self._file)
        if self._held and now_s - self._written_s >= REMOTE_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Write what is held for a remote segment."""
        if self._held:
            with self._contents.fs.open(self._new_path(), "wb") as file:
                file.write(b"".join(self._held))
            self._held.clear()
        self._written_s = time.monotonic()

    def close(self) -> None:
        self.flush()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _new_path(self) -> str:
        return f"{self._folder}/{time.time_ns()}-{uuid.uuid4().hex[:8]}.journal"


class Finished:
    """Which of the rows below `last_row` are finished, read on from segment to segment as they grow."""

    def __init__(self, contents: Contents, folder: str, last_row: int) -> None:
        self._contents, self._folder = contents, folder
        self._at: dict[str, int] = {}
        self.rows = np.zeros(last_row, bool)
        self.completed = self.failed = 0
        self.prompt_tokens = self.cached_tokens = self.output_tokens = 0

    def refresh(self, own: str = "") -> None:
        """Take in what was appended since, but to one's `own` segment."""
        for _ in self.entries(own):
            pass

    def entries(self, own: str = "") -> Iterator[Entry]:
        """What was appended since, each row once; all that is yielded counts as finished."""
        for path in _segments(self._contents, self._folder):
            if path == own:
                continue
            at = self._at.get(path, 0)
            if int(self._contents.fs.size(path)) <= at:
                continue
            with self._contents.fs.open(path, "rb") as file:
                file.seek(at)
                for text in file:
                    if not text.endswith(b"\n"):  # torn, or being written
                        break
                    at += len(text)
                    self._at[path] = at
                    entry = Entry.decode(text)
                    if not self.rows[entry.row]:
                        self._count(entry)
                        yield entry

    def _count(self, entry: Entry) -> None:
        self.rows[entry.row] = True
        self.completed += entry.kind == "O"
        self.failed += entry.kind == "E"
        self.prompt_tokens += entry.prompt_tokens
        self.cached_tokens += entry.cached_tokens
        self.output_tokens += entry.output_tokens


def _segments(contents: Contents, folder: str) -> list[str]:
    fs: Any = contents.fs
    if not fs.exists(folder):
        return []
    fs.invalidate_cache(folder)
    return sorted(path for path in fs.ls(folder, detail=False) if path.endswith(".journal"))
