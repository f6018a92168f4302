"""Files' contents, wherever fsspec reaches: a local folder, S3. A content's name is its file's id.

Local contents appear whole or not at all, on disk before they have their name.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

CHUNK_BYTES = 1 << 20


class Contents:
    """The folder at `url`: contents/ID, and work/BATCH/ for what jobs keep."""

    def __init__(self, url: str) -> None:
        self.fs: Any
        self.fs, self.root = fsspec.url_to_fs(url)
        self.is_local = isinstance(self.fs, LocalFileSystem)
        self.fs.makedirs(f"{self.root}/contents", exist_ok=True)

    def path(self, id: str) -> str:
        """Where a file's contents are."""
        return f"{self.root}/contents/{id}"

    def work(self, batch_id: str) -> str:
        """Where a batch's journal is."""
        return f"{self.root}/work/{batch_id}"

    @contextmanager
    def create(self, id: str) -> Iterator[IO[bytes]]:
        """Write a file's contents; nothing is there if this fails."""
        path, part = self.path(id), f"{self.path(id)}.part"
        try:
            with self.fs.open(part if self.is_local else path, "wb") as file:
                yield file
                if self.is_local:
                    file.flush()
                    os.fsync(file.fileno())
            if self.is_local:
                Path(part).replace(path)
        except BaseException:
            self.remove(f"{id}.part" if self.is_local else id)
            raise

    def keep(self, id: str, source: IO[bytes]) -> None:
        """Write a file's contents: what `source` has from where it stands on."""
        with self.create(id) as file:
            shutil.copyfileobj(source, file, CHUNK_BYTES)

    def open(self, id: str) -> IO[bytes]:
        """Read a file's contents. Raises FileNotFoundError."""
        file: IO[bytes] = self.fs.open(self.path(id), "rb")
        return file

    def chunks(self, id: str) -> Iterator[bytes]:
        """A file's contents, piece by piece."""
        with self.open(id) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def size_bytes(self, id: str) -> int:
        return int(self.fs.size(self.path(id)))

    def remove(self, id: str) -> None:
        """Remove a file's contents if they are there."""
        if self.fs.exists(self.path(id)):
            self.fs.rm_file(self.path(id))

    def remove_work(self, batch_id: str) -> None:
        """Remove what a batch's jobs kept."""
        if self.fs.exists(self.work(batch_id)):
            self.fs.rm(self.work(batch_id), recursive=True)
