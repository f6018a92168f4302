"""Files on their way into the store: copied with a checksum, watched while somebody else writes them, made durable."""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from serve_apps.models.errors import WrongChecksum

Report = Callable[[str, int, int | None], None]
"""Called with the step, and its progress and total in bytes (total None: not known)."""

_CHUNK_BYTES = 1 << 20


def append(source: BinaryIO, target: BinaryIO, digest: "hashlib._Hash", report: Callable[[int], None]) -> None:
    """Copy `source` to `target`, adding it to `digest`; `report` is called with each chunk's bytes."""
    while chunk := source.read(_CHUNK_BYTES):
        target.write(chunk)
        digest.update(chunk)
        report(len(chunk))


def check(name: str, wanted: str, found: str) -> None:
    """Raises WrongChecksum if a file's sha256 is not the one wanted."""
    if wanted != found:
        raise WrongChecksum(
            f"{name}: its sha256 is {found}, but models.yaml says {wanted}: the file was damaged on its way or is "
            "another one; try again, and if that does not help check the source and sha256 in configs/models.yaml"
        )


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def size_bytes(folder: Path) -> int:
    """The bytes of all files under `folder` (or of that file), some of which may come and go meanwhile."""
    total = folder.stat().st_size if folder.is_file() else 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size  # noqa: PTH118 (a Path per file per tick is slow)
            except FileNotFoundError:
                continue
    return total


@contextmanager
def watched(folder: Path, step: str, report: Report) -> Iterator[None]:
    """Report the growth of `folder` while the body has something else write into it."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            report(step, size_bytes(folder), None)

    watcher = threading.Thread(target=watch, daemon=True)
    report(step, 0, None)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def sync(path: Path) -> None:
    """fsync a file's contents, or a folder's list of names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(folder: Path) -> None:
    """fsync every file and folder under `folder`, and it."""
    for parent, _, names in os.walk(folder):
        for path in [*(Path(parent, name) for name in names), Path(parent)]:
            sync(path)
